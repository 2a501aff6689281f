"""Sparse targets: the text is read exactly, wrong texts are pointed at, and hostile ones cost little."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import limitlab as ll
from limitlab.numerics.cube import cube_points, members, walsh
from limitlab.numerics.sets import basis, null_space, popcount, solve_parities
from limitlab.problems.sparse import text as target_text
from limitlab.problems.sparse.target import SparseTarget, term_name
from limitlab.spec import dumps, from_json, loads, to_json

# --- reading ------------------------------------------------------------------------------------------------


def on_cube(target, P):
    """h at all points of a cube of P variables, from the table of values over the variables that are left."""
    bits = np.zeros(2**P, int)
    for i, number in enumerate(target.variables):
        bits |= (np.arange(2**P) >> (number - 1) & 1) << i
    return target.values[bits]


@st.composite
def expressions(draw, depth=3):
    """A text, and the function of z that it means."""
    kind = draw(
        st.sampled_from(["variable", "number"] if depth == 0 else ["variable", "sum", "product", "power", "minus"])
    )
    space = draw(st.sampled_from(["", " ", "  "]))
    if kind == "variable":
        i = draw(st.integers(1, 6))
        return f"z{i}", lambda z: z[:, i - 1]
    if kind == "number":
        value = draw(st.sampled_from(["2", "0.5", ".25", "3.", "1e-1", "25E-2"]))
        return value, lambda z: np.full(len(z), float(value))
    a, f = draw(expressions(depth - 1))
    if kind == "minus":
        return f"-{space}({a})", lambda z: -f(z)
    if kind == "power":
        n = draw(st.integers(0, 4))
        return f"({a}){draw(st.sampled_from(['^', '**']))}{n}", lambda z: f(z) ** n
    b, g = draw(expressions(depth - 1))
    if kind == "sum":
        sign = draw(st.sampled_from("+-"))
        return f"{a}{space}{sign}{space}({b})", lambda z: f(z) + g(z) if sign == "+" else f(z) - g(z)
    return f"({a}){space}*{space}({b})", lambda z: f(z) * g(z)


@given(expressions())
@settings(max_examples=150, deadline=None)
def test_a_text_means_what_it_says_on_every_point(pair):
    text, function = pair
    truth = function(cube_points(6))
    scale = np.max(np.abs(truth))
    if scale < 1e-9:
        return
    np.testing.assert_allclose(on_cube(SparseTarget(text), 6), truth, atol=1e-11 * max(scale, 1.0))


@given(st.lists(st.tuples(st.sets(st.integers(1, 20), max_size=6), st.sampled_from([1.0, -2.5, 3e-3])), min_size=1))
@settings(max_examples=60, deadline=None)
def test_the_short_way_of_plain_sums_is_the_parser(terms):
    text = " ".join(
        f"{'+' if i % 2 else '-'} {value!r} * {'*'.join(f'z{v}' for v in s) or '1'}"
        for i, (s, value) in enumerate(terms)
    )
    both = (target_text._Parser(text).read(), target_text._Parser(text, absolute=True).read())
    assert target_text._plain_sum(text) == both


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("z1 + z1*z2", {"z1": 1, "z1*z2": 1}),
        ("z2*z1 - -z1", {"z1": 1, "z1*z2": 1}),
        ("(1 + z1)*(1 + z2)", {"1": 1, "z1": 1, "z2": 1, "z1*z2": 1}),
        ("z7*z3^3*z3", {"z7": 1}),
        ("-z1^2 + 2*z4", {"1": -1, "z4": 2}),
        ("2e-1*z1*3 + z20", {"z1": 0.2 * 3, "z20": 1}),
        ("(z1 + z2)^2 - 2", {"z1*z2": 2}),
        ("(-z1)^100000001", {"z1": -1}),
        ("\tz1\n+ z2 ", {"z1": 1, "z2": 1}),
    ],
)
def test_terms_are_reduced_and_collected(text, terms):
    target = SparseTarget(text)
    assert {term_name(mask, target.variables): value for mask, value in target.terms.items()} == terms


def test_variables_that_cancel_are_not_latent():
    target = SparseTarget("z3*z5 + z9 + 0*z1 + z2 - z2")
    assert (target.variables, target.latent, target.degree) == ((3, 5, 9), 3, 2)
    assert target.term_names == ["1", "z3", "z5", "z3*z5", "z9", "z3*z9", "z5*z9", "z3*z5*z9"]
    assert SparseTarget("0.1*z1 + 0.2*z1 - 0.3*z1 + z2").variables == (2,)  # rounding is not a term


# --- errors -------------------------------------------------------------------------------------------------

WRONG = {
    "z1 + $": (6, "cannot be read"),
    "z1 + z2 # no": (9, "cannot be read"),
    "z1 − z2": (4, "cannot be read"),
    "z1 + ２*z2": (6, "cannot be read"),
    "z1*q + z2": (4, "unknown variable 'q'"),
    "z1 + z21": (6, "z1 to z20"),
    "z0": (1, "unknown variable"),
    "z01": (1, "unknown variable"),
    "z1 z2": (4, "without a sign"),
    "2z1": (2, "without a sign"),
    "z1)": (3, "without its '('"),
    "(z1 + z2": (9, "closes the '(' at character 1"),
    "z1 +": (5, "the text ends"),
    "z1 +  ": (5, "the text ends"),
    "z1 * * z2": (6, "needed"),
    "()": (2, "needed"),
    "z1^z2": (4, "whole number"),
    "z1^2.5": (4, "whole number"),
    "z1^-1": (4, "whole number"),
    "z1^": (4, "whole number"),
    "z1^1000000000001": (4, "above 999999999"),
    "(z1 + z2)^65": (11, "above 64"),
    "(2*z1)^99999": (8, "too large"),
    "z1 + 1e400*z2": (6, "too large"),
}


@pytest.mark.parametrize("text", WRONG)
def test_an_error_points_at_the_character(text):
    at, words = WRONG[text]
    with pytest.raises(ll.errors.InputError) as error:
        SparseTarget(text)
    message, shown, caret = str(error.value).split("\n")
    assert words in message
    assert f"at character {at}." in message
    assert shown == "    " + text
    assert caret.index("^") == 4 + at - 1


def test_a_long_text_is_shown_around_the_error():
    text = "z1 + " * 100 + "oops" + " + z1" * 100
    with pytest.raises(ll.errors.InputError) as error:
        SparseTarget(text)
    _, shown, caret = str(error.value).split("\n")
    assert shown[caret.index("^") :].startswith("oops")
    assert len(shown) < 120


@pytest.mark.parametrize("text", ["", "   ", "0", "z1 - z1", "0*z1", "1e300*1e300*z1", "z1 + (1e308*10 - 1e308*10)*z2"])
def test_nothing_zero_and_infinite_are_refused_in_words(text):
    with pytest.raises(ll.errors.InputError, match=r"empty|nothing is left|not finite|too large"):
        SparseTarget(text)


@pytest.mark.parametrize("value", [None, 3, ["z1"], {"z1": 1}, b"z1"])
def test_other_things_than_texts_are_refused(value):
    with pytest.raises(ll.errors.InputError, match=r"SparseTarget\.text must be a text"):
        SparseTarget(value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 51 + "z1" + ")" * 51,
        "z1 + " * 900_000,
        "1" * 1_000_000 + "x",
        "z" + "1" * 1_000_000,
        " " * 1_000_000 + "$",
        "(" + "+".join(f"z{i}" for i in range(1, 21)) + ")^64",
        "z" * 4_000_001,
        "z1^" + "9" * 100_000,
        "9" * 400 + "*z1",
        "\x00z1",
        "z1 + \ud800",
        "ｚ1 + z2",
        "__import__('os').system('true')",
    ],
    ids=range(14),
)
def test_hostile_texts_are_refused(text):
    with pytest.raises(ll.errors.InputError) as error:
        SparseTarget(text)
    assert len(str(error.value)) < 400


def test_what_is_long_but_fair_is_read():
    assert SparseTarget("+" * 100_000 + "z1").terms == {1: 1.0}
    assert SparseTarget("z1" + "*z1" * 100_000).terms == {1: 1.0}
    assert SparseTarget("(" * 50 + "z1" + ")" * 50).terms == {1: 1.0}
    assert len(SparseTarget("*".join(f"(1 + z{i})" for i in range(1, 15))).terms) == 2**14
    assert SparseTarget("(" + "+".join(f"z{i}" for i in range(1, 13)) + ")^12").terms[2**12 - 1] == 479001600


# --- tables -------------------------------------------------------------------------------------------------


@given(st.integers(0, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_values_and_coefficients_round_trip(P, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=2**P)
    target = SparseTarget.from_table(values)
    assert target.latent == P
    np.testing.assert_allclose(target.values, values, atol=1e-13)
    np.testing.assert_array_equal(target.coefficients, walsh(values))
    table = {tuple(i + 1 for i in members(mask)): value for mask, value in target.terms.items()}
    assert SparseTarget.from_fourier(table).terms == target.terms
    assert SparseTarget.from_fourier({term_name(m): v for m, v in target.terms.items()}).terms == target.terms


def test_a_dense_table_of_sixteen_variables_is_read_back():
    values = np.random.default_rng(0).normal(size=2**16)
    target = SparseTarget.from_table(values)
    assert len(target.terms) == 2**16
    np.testing.assert_allclose(target.values, values, atol=1e-12)


def test_the_coefficient_of_a_table_belongs_to_the_whole_set():
    assert SparseTarget.from_fourier({"z1 + z2": 2.0}).terms == {1: 2.0, 2: 2.0}
    assert SparseTarget.from_fourier({(): 1.0, (2, 4): -0.5}).terms == {0: 1.0, 3: -0.5}


@pytest.mark.parametrize(
    "table",
    [{}, None, [1.0], {1: 2.0}, {(1.5,): 1.0}, {(1,): np.nan}, {(1,): "a"}, {(0,): 1.0}, {(21,): 1.0}, {"q": 1.0}],
)
def test_wrong_fourier_tables_are_refused(table):
    with pytest.raises(ll.errors.InputError):
        SparseTarget.from_fourier(table)


@pytest.mark.parametrize("values", [[], [1, 2, 3], [[1, 2], [3, 4]], [1, np.nan], ["a"], None, [0.0, 0.0]])
def test_wrong_value_tables_are_refused(values):
    with pytest.raises(ll.errors.InputError, match="SparseTarget"):
        SparseTarget.from_table(values)


def test_a_problem_with_a_sparse_target_round_trips_through_files(tmp_path):
    problem = ll.Problem(inputs=ll.Hypercube(), teacher=SparseTarget("z1 + 0.5*z1*z2 - z2*(z3 + z4)^2"))
    assert ll.spec_hash(loads(dumps(problem))) == ll.spec_hash(problem)
    assert ll.spec_hash(from_json(to_json(problem))) == ll.spec_hash(problem)
    for name in ("a.toml", "a.json"):
        ll.save_spec(problem, tmp_path / name)
        back = ll.load_spec(tmp_path / name)
        assert back.teacher.text == problem.teacher.text
        assert ll.spec_hash(back) == ll.spec_hash(problem)
    (tmp_path / "bad.toml").write_text(dumps(problem).replace("z1 + ", "z1 + oops "))
    with pytest.raises(ll.errors.LimitlabError, match="oops"):
        ll.load_spec(tmp_path / "bad.toml")


# --- sets over GF(2) ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 2**10 - 1), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_linear_algebra_over_two_elements(sets):
    masks = np.array(sets)
    places, parts = basis(masks)
    for i, (mask, part) in enumerate(zip(sets, parts.tolist(), strict=True)):
        total = 0
        for j in members(part):
            assert places[j] <= i
            total ^= sets[places[j]]
        assert total == mask
    rows = [sets[i] for i in places]
    kernel = null_space(rows, 10)
    assert len(kernel) == 10 - len(rows)
    assert all((row & e).bit_count() % 2 == 0 for row in rows for e in kernel)
    right = [i % 2 for i in range(len(rows))]
    found = solve_parities(rows, right)
    assert [(row & found).bit_count() % 2 for row in rows] == right
    assert popcount(masks).tolist() == [mask.bit_count() for mask in sets]
