"""The staircase question: leap, symmetries, floor, Gaussian variables, and what the command says."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import limitlab as ll
from limitlab.analysis.sparse.staircase import leap_of_sets
from limitlab.cli import app
from limitlab.numerics.cube import cube_points, members
from limitlab.numerics.sets import absorb
from limitlab.problems.sparse.symmetry import fixed_projection, symmetry_group

# --- leap ---------------------------------------------------------------------------------------------------


def leap_by_all_orders(masks):
    best = math.inf
    for order in itertools.permutations(masks):
        seen, worst = 0, 0
        for mask in order:
            worst, seen = max(worst, (mask & ~seen).bit_count()), seen | mask
        best = min(best, worst)
    return best


def leap_by_closure(masks):
    """The smallest l for which absorbing sets with at most l new variables exhausts the family."""
    for leap in range(max(mask.bit_count() for mask in masks) + 1):
        left, seen = list(masks), 0
        while any((mask & ~seen).bit_count() <= leap for mask in left):
            for mask in [m for m in left if (m & ~seen).bit_count() <= leap]:
                seen |= mask
                left.remove(mask)
        if not left:
            return leap
    raise AssertionError


def cost(masks, order):
    seen, costs = 0, []
    for place in order:
        costs.append((masks[place] & ~seen).bit_count())
        seen |= masks[place]
    return costs


@given(st.lists(st.integers(1, 2**12 - 1), min_size=1, max_size=6, unique=True))
@settings(max_examples=150, deadline=None)
def test_leap_is_that_of_the_best_of_all_orders(masks):
    leap, order = leap_of_sets(np.array(masks))
    assert leap == leap_by_all_orders(masks)
    assert sorted(order) == list(range(len(masks)))
    assert max(cost(masks, order)) == leap
    assert cost(masks, order) == absorb(np.array(masks)).new.tolist()


@given(st.integers(2, 12), st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_leap_of_larger_families_is_that_of_closure(P, count, size, seed):
    rng = np.random.default_rng(seed)
    masks = {
        sum(1 << int(i) for i in rng.choice(P, min(P, rng.integers(1, size + 1)), replace=False)) for _ in range(count)
    }
    assert leap_of_sets(np.array(sorted(masks)))[0] == leap_by_closure(masks)


def test_a_greedy_rule_by_coefficient_size_would_be_wrong():
    """Negative control: absorbing the largest coefficient first overestimates the leap."""
    target = ll.SparseTarget("z1 + 5*z1*z2*z3 + 0.1*z1*z2")
    masks = list(target.terms)
    by_size = sorted(range(len(masks)), key=lambda i: -abs(target.terms[masks[i]]))
    assert max(cost(masks, by_size)) == 3
    assert leap_of_sets(np.array(masks))[0] == 1 == leap_by_all_orders(masks)


def test_dense_and_empty_families():
    assert leap_of_sets(np.arange(1, 2**16))[0] == 1
    assert leap_of_sets(np.array([2**20 - 1]))[0] == 20
    assert leap_of_sets(np.zeros(0, int))[0] == 0


# --- symmetry -----------------------------------------------------------------------------------------------


def all_symmetries(target):
    """Every one of the 2^P P! signed permutations, tried on the values."""
    P, z, h = target.latent, cube_points(target.latent), target.values
    matrices = []
    for images in itertools.permutations(range(P)):
        for signs in itertools.product((1.0, -1.0), repeat=P):
            bits = ((1 - z[:, images] * signs) / 2).astype(int) @ (1 << np.arange(P)) if P else np.zeros(1, int)
            if np.allclose(h[bits], h, atol=1e-9):
                g = np.zeros((P, P))
                g[range(P), images] = signs
                matrices.append(g)
    return matrices


@st.composite
def targets(draw, most=4):
    P = draw(st.integers(1, most))
    values = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5]), min_size=2**P, max_size=2**P))
    table = {tuple(i + 1 for i in members(mask)): value for mask, value in enumerate(values) if value}
    return ll.SparseTarget.from_fourier(table or {(1,): 1.0})


def floor_by_definition(target, projector):
    """Half of E Var(h | projection), grouping points by the projection itself."""
    seen = {}
    for z, h in zip(cube_points(target.latent), target.values, strict=True):
        seen.setdefault(tuple(np.round(projector @ z, 6) + 0.0), []).append(h)
    return sum(len(group) * np.var(group) for group in seen.values()) / len(target.values) / 2


def possible(answer):
    """The projector on the weights that can occur: fixed by symmetries, zero for variables that are never reached."""
    reached = {name for term in answer.order if term not in answer.stuck for name in term.split("*")}
    keep = np.array([float(f"z{number}" in reached) for number in answer.target.variables])
    return fixed_projection(answer.target) * keep[:, None] * keep


SYMMETRIC = [
    "z1+z2+z3+z4",
    "z1*z2*z3*z4",
    "z1+z2+z1*z3+z2*z4",
    "z1*z2 - z2*z3 + z3*z4 - z1*z4",
    "z1 - z2 + z3",
    "z1*z2 + z1*z3 + z2*z3 + z1*z2*z3",
    "(z1+z2)*(1 + z3*z4)",
    "(z1 - z2)*z3 + z1*z2",
    "z3*z7 + 4",
]


def check_symmetry(target):
    truth, group = all_symmetries(target), symmetry_group(target)
    assert group.complete
    assert group.order == len(truth)
    projector = fixed_projection(target)
    np.testing.assert_allclose(projector, np.mean(truth, axis=0), atol=1e-12)
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-12)
    answer = ll.staircase(target)
    assert answer.symmetry_floor == pytest.approx(floor_by_definition(target, projector), abs=1e-12)
    assert answer.floor == pytest.approx(floor_by_definition(target, possible(answer)), abs=1e-12)
    assert answer.floor >= answer.symmetry_floor
    for g in group.generators:
        matrix = np.zeros((target.latent,) * 2)
        matrix[range(target.latent), np.abs(g) - 1] = np.sign(g)
        assert any(np.array_equal(matrix, other) for other in truth)


@given(targets())
@settings(max_examples=60, deadline=None)
def test_symmetries_and_floor_are_those_of_full_enumeration(target):
    check_symmetry(target)


@pytest.mark.parametrize("text", SYMMETRIC)
def test_symmetries_of_symmetric_targets(text):
    check_symmetry(ll.SparseTarget(text))


def graph(edges):
    return ll.SparseTarget(" + ".join("*".join(f"z{i + 1}" for i in edge) for edge in edges))


def pairs(n, test):
    return [pair for pair in itertools.combinations(range(n), 2) if test(*pair)]


TEAMS = list(itertools.combinations(range(5), 2))
GRAPHS = {  # known automorphism groups, times the sign flips (rank over GF(2))
    "Petersen": (pairs(10, lambda a, b: not set(TEAMS[a]) & set(TEAMS[b])), 2 * 120),
    "rook 4x4": (pairs(16, lambda a, b: a // 4 == b // 4 or a % 4 == b % 4), 2 * 1152),
    "4-cube": (pairs(16, lambda a, b: (a ^ b).bit_count() == 1), 2 * 384),
    "Paley 13": (pairs(13, lambda a, b: (b - a) % 13 in (1, 3, 4, 9, 10, 12)), 2 * 78),
    "Fano plane": ([(i, (i + 1) % 7, (i + 3) % 7) for i in range(7)], 2**3 * 168),
    "perfect matching": ([(2 * i, 2 * i + 1) for i in range(8)], 2**8 * 2**8 * math.factorial(8)),
    "16 equals": ([(i,) for i in range(16)], math.factorial(16)),
    "parity of 20": ([tuple(range(20))], 2**19 * math.factorial(20)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_symmetries_of_known_graphs(name):
    edges, order = GRAPHS[name]
    group = symmetry_group(graph(edges))
    assert group.complete
    assert group.order == order


def test_signs_and_rounding_do_not_hide_a_symmetry():
    group = symmetry_group(ll.SparseTarget("z1 - z2 + 0.3*z1*z3 + (0.1 + 0.2)*z2*z4"))
    assert group.order == 2
    assert group.orbits == ((1, -2), (3, 4)) or group.orbits == ((1, -2), (3, -4))
    assert symmetry_group(ll.SparseTarget("z1 + 1.001*z2")).order == 1
    assert symmetry_group(ll.SparseTarget("z1 + 2*z2 + 1e13*z3")).order == 1


def test_a_search_that_is_cut_says_so_and_stays_true():
    target = graph(GRAPHS["rook 4x4"][0] + [(i,) for i in range(16)])
    whole, part = symmetry_group(target), symmetry_group(target, budget=20)
    assert whole.complete
    assert not part.complete
    assert part.order < whole.order
    assert whole.order % part.order == 0
    # Fix of fewer symmetries is larger and contains the other
    np.testing.assert_allclose(part.projection @ whole.projection, whole.projection, atol=1e-12)


# --- the answer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "leap", "floor", "degenerate", "sgd", "linear"),
    [
        ("z1 + z1*z2 + z1*z2*z3 + z1*z2*z3*z4", 1, 0.0, False, "O(d)", "d^4"),
        ("z1 + z1*z2 + z2*z3 + z1*z2*z3", 1, 0.0, False, "O(d)", "d^3"),
        ("z1 + z2 + z1*z3 + z2*z4", 1, 0.5, True, "more than O(d)", "d^2"),
        ("z1 + z2 + z3 + z1*z2*z3", 1, 0.0, True, "O(d) if generic", "d^3"),
        ("z1*z2", 2, 0.5, False, "d log d", "d^2"),
        ("z1 + z1*z2 + z3*z4", 2, 0.5, False, "d log d", "d^2"),
        ("z1 + z1*z2*z3*z4", 3, 0.5, False, "d^2", "d^4"),
        ("z1*z2 + z1*z3 + z2*z3 + z1*z2*z3", 2, 2.0, False, "d log d", "d^3"),
        ("2*z4", 1, 0.0, False, "O(d)", "d"),
        ("3", 0, 0.0, False, "O(1)", "1"),
    ],
)
def test_known_answers(text, leap, floor, degenerate, sgd, linear):
    answer = ll.staircase(text)
    assert answer.merged_staircase == (leap <= 1)
    assert answer.leap == leap
    assert answer.floor == pytest.approx(floor, abs=1e-14)
    assert answer.degenerate == degenerate
    assert (answer.sgd_samples, answer.linear_samples) == (sgd, linear)
    assert bool(answer.stuck) == (leap > 1)
    assert max(answer.new_variables, default=0) == leap
    assert str(answer) == answer.summary


def test_the_order_and_what_is_stuck_are_named():
    answer = ll.staircase("z3*z4*z5 + z1*z2 + 0.5*z1 + z3*z4 - 2")
    assert answer.order == ["z1", "z1*z2", "z3*z4", "z3*z4*z5"]
    assert answer.new_variables == [1, 1, 2, 1]
    assert answer.stuck == ["z3*z4", "z3*z4*z5"]
    assert answer.fourier == {"1": -2.0, "z1": 0.5, "z1*z2": 1.0, "z3*z4": 1.0, "z3*z4*z5": 1.0}
    assert "After z1, z1*z2, every term that is left brings at least 2 new variables" in answer.summary


def dimension_free(target, projector, steps=400, dt=0.05):
    """Euler steps of the dimension-free flow of tanh(x + 1/2), with u projected after each: risks, what was removed.

    The symmetric state is a saddle, from which rounding alone escapes after t of order 10 if it is not removed.
    """
    P, z, h = target.latent, cube_points(target.latent), target.values
    G, weight = np.polynomial.hermite_e.hermegauss(15)
    weight = weight / weight.sum()
    a = np.linspace(-1, 1, 8)
    u, s, risks, removed = np.zeros((8, P)), np.ones(8), [], 0.0
    for _ in range(steps):
        y = np.tanh((u @ z.T)[:, :, None] + s[:, None, None] * G + 0.5)
        error = h - np.mean(a[:, None] * (y @ weight), axis=0)
        risks.append(np.mean(error**2) / 2)
        slope = 1 - y * y
        da = np.mean(error * (y @ weight), axis=1)
        du = a[:, None] * ((error * (slope @ weight)) @ z) / len(z)
        ds = a * np.mean(error * (slope @ (weight * G)), axis=1)
        removed = max(removed, np.max(np.abs(du - du @ projector)))
        a, u, s = a + dt * da, u + dt * du @ projector, s + dt * ds
    return np.array(risks), removed


@pytest.mark.parametrize(
    "text",
    [
        "z1 + z2 + z1*z3 + z2*z4",
        "z1*z2 + z1*z3 + z2*z3 + z1*z2*z3",
        "z1 + z1*z2 + z3*z4 + 0.3*z2*z3*z4",
        "z1 - z2 + z1*z2*z3",
    ],
)
def test_the_risk_of_the_limit_never_falls_below_the_floor(text):
    target = ll.SparseTarget(text)
    answer = ll.staircase(target)
    risks, removed = dimension_free(target, possible(answer))
    assert answer.floor > 0 or answer.degenerate
    assert risks[-1] < risks[0] or answer.order == answer.stuck
    assert np.all(risks >= answer.floor * (1 - 1e-9))
    assert removed < 1e-14  # the flow itself stays where the floor says that it stays


def test_the_floor_is_not_a_bound_for_another_target():
    """Negative control: unequal coefficients break the symmetry, and the risk falls below the floor of equal ones."""
    equal, unequal = ll.staircase("z1 + z2 + z1*z3 + z2*z4"), ll.SparseTarget("z1 + 0.2*z2 + z1*z3 + 0.2*z2*z4")
    assert dimension_free(unequal, np.eye(4))[0][-1] < 0.5 * equal.floor
    assert dimension_free(unequal, possible(equal))[1] > 0.1


@pytest.mark.parametrize("target", [None, 3, ["z1"], ll.Committee(width=1, activation="erf")])
def test_other_targets_are_refused(target):
    with pytest.raises(ll.errors.InputError, match="staircase needs"):
        ll.staircase(target)


def test_inputs_decide_what_a_table_means():
    table = {(1, 0): 1.0, (0, 1): 1.0, (1, 1): 1.0}
    assert isinstance(ll.staircase(table, inputs=ll.Gaussian()), ll.analysis.HermiteLeap)
    assert ll.staircase({(1,): 1.0, (1, 2): 1.0}, inputs=ll.Hypercube()).order == ["z1", "z1*z2"]
    with pytest.raises(ll.errors.InputError, match="Hermite coefficients"):
        ll.staircase("z1", inputs=ll.Gaussian())
    with pytest.raises(ll.errors.InputError, match=r"staircase\.inputs"):
        ll.staircase("z1", inputs=ll.IsotropicMixture(delta=0.5))


def test_the_dataset_keeps_the_answer_on_disk(tmp_path):
    answer = ll.staircase("z3*z4 + z1*z2 + 0.5*z1 - 2")
    ll.save(answer.dataset(), tmp_path / "a.nc")
    ds = ll.load(tmp_path / "a.nc")
    assert ds.term.values.tolist() == ["1", "z1", "z1*z2", "z3*z4"]
    assert ds.fourier.values.tolist() == [-2.0, 0.5, 1.0, 1.0]
    assert ds.new_variables.values.tolist() == [0, 1, 1, 2]
    assert (ds.attrs["method"], ds.attrs["leap"], ds.attrs["merged_staircase"]) == ("staircase", 2, False)
    assert ds.attrs["floor"] == 0.5
    assert ds.attrs["summary"] == answer.summary


# --- Gaussian variables -------------------------------------------------------------------------------------


def hermite_leap_by_all_orders(indices):
    best = math.inf
    for order in itertools.permutations(indices):
        seen, worst = set(), 0
        for index in order:
            worst = max(worst, sum(k for i, k in enumerate(index) if i not in seen))
            seen |= {i for i, k in enumerate(index) if k}
        best = min(best, worst)
    return best


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 4).filter(any), min_size=1, max_size=5, unique=True))
@settings(max_examples=60, deadline=None)
def test_hermite_leap_is_that_of_the_best_of_all_orders(indices):
    answer = ll.analysis.hermite_leap({index: 1.0 + i for i, index in enumerate(indices)})
    assert answer.leap == hermite_leap_by_all_orders(indices)
    assert max(answer.new_degrees) == answer.leap
    low, high = answer.iso_bounds
    assert answer.leap <= low <= high <= max(map(sum, indices))


@pytest.mark.parametrize(
    ("table", "leap", "iso"),
    [
        ({(1, 0): 1, (0, 1): 1, (1, 1): 1}, 1, 2),
        ({(1, 0): 1, (0, 1): 0.5, (1, 1): 1}, 1, 1),
        ({(2, 0): 1.0, (1, 1): 0.5}, 2, 2),
        ({(1, 0): 1, (1, 1): 1}, 1, 1),
        ({(1, 0, 0): 1, (1, 1, 0): 1, (0, 1, 1): 1}, 1, 1),
        ({(1,): 1, (3,): 1}, 1, 1),
        ({(3,): 1}, 3, 3),
        ({(1, 0, 0): 1, (1, 1, 0): 1, (1, 1, 1): 1}, 1, 1),
        ({(2, 0): 1, (0, 2): 1}, 2, 2),
        ({(0, 0): 3.0}, 0, 0),
    ],
)
def test_known_hermite_leaps(table, leap, iso):
    answer = ll.analysis.hermite_leap(table)
    assert (answer.leap, answer.iso_leap) == (leap, iso)


def rotated(b, A, R):
    """The Hermite table of b.z + z.A.z/2 (less its mean) in the axes R."""
    b, A = R @ b, R @ A @ R.T
    n = len(b)
    unit = np.eye(n, dtype=int)
    table = {tuple(unit[i]): b[i] for i in range(n)}
    table |= {tuple(unit[i] + unit[j]): A[i, j] / (2 if i == j else 1) for i in range(n) for j in range(i, n)}
    return {index: value for index, value in table.items() if abs(value) > 1e-9}


@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_the_isotropic_leap_does_not_see_rotations_and_bounds_their_leaps(n, seed):
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, 1.0, 1.0, -2.0], n)
    values[0] = values[0] or 1.0
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    b = vectors @ (rng.normal(size=n) * rng.integers(0, 2, n))
    A = vectors @ np.diag(values) @ vectors.T
    # leap 1 in all axes if and only if b, Ab, A^2 b, ... span the range of A
    krylov = np.stack([np.linalg.matrix_power(A, k) @ b for k in range(n)], axis=1)
    full = np.linalg.matrix_rank(np.concatenate([krylov, A], axis=1), tol=1e-6)
    expected = 1 if np.linalg.matrix_rank(krylov, tol=1e-6) == full else 2
    answers = [
        ll.analysis.hermite_leap(rotated(b, A, R))
        for R in (np.eye(n), vectors.T, np.linalg.qr(rng.normal(size=(n, n)))[0])
    ]
    assert [answer.iso_leap for answer in answers] == [expected] * 3
    assert max(answer.leap for answer in answers) <= expected


def test_an_isotropic_leap_that_is_not_known_is_bounded():
    answer = ll.analysis.hermite_leap({(1, 0, 0): 1, (0, 1, 0): 1, (0, 0, 1): 1, (1, 1, 1): 1})
    assert answer.leap == 1
    assert answer.iso_bounds == (2, 3)
    assert answer.iso_leap is None
    assert "between 2 and 3" in str(answer)
    many = ll.analysis.hermite_leap({tuple(int(i <= j) for i in range(12)): 1.0 for j in range(12)})
    assert many.leap == 1
    assert many.iso_bounds == (1, 12)


@pytest.mark.parametrize(
    "table",
    [
        None,
        {},
        {(1, 0): 1.0, (1,): 1.0},
        {(-1,): 1.0},
        {(1.5,): 1.0},
        {"z1": 1.0},
        {(1,): np.nan},
        {(1,): 0.0},
        {(101,): 1.0},
    ],
)
def test_wrong_hermite_tables_are_refused(table):
    with pytest.raises(ll.errors.InputError, match="hermite_leap"):
        ll.analysis.hermite_leap(table)


# --- command line -------------------------------------------------------------------------------------------


def run(*words):
    return CliRunner().invoke(app, ["staircase", *map(str, words)])


def test_the_command_prints_the_answer_and_saves_it(tmp_path):
    result = run("z1 + z1*z2 + z3*z4", "--out", tmp_path / "a.nc")
    assert result.exit_code == 0, result.output
    assert "its leap is 2" in result.output
    rows = [line.split() for line in result.output.splitlines()]
    assert ["z3*z4", "1", "2"] in rows
    assert ll.load(tmp_path / "a.nc").attrs["leap"] == 2
    assert run("z1", "--out", tmp_path / "a.nc").exit_code == 2
    assert run("z1", "--out", tmp_path / "a.nc", "--force").exit_code == 0


def test_the_command_points_at_what_it_cannot_read():
    result = run("z1 + z1*q")
    assert result.exit_code == 2
    lines = result.output.rstrip().splitlines()
    assert "unknown variable 'q' at character 9" in lines[0]
    assert lines[1][lines[2].index("^")] == "q"
    assert "Traceback" not in result.output


def test_the_command_takes_a_leading_minus_and_shortens_long_tables():
    assert run("-z1 + z1*z2").exit_code == 0
    result = run("*".join(f"(1 + z{i})" for i in range(1, 9)))
    assert "215 more" in result.output
    assert run("4").exit_code == 0


def test_terms_that_cancel_do_not_count_and_small_ones_do():
    assert ll.staircase("0.1*z1 + 0.2*z1 - 0.3*z1 + 0.001*z1*z2").leap == 2
    assert ll.staircase("(0.1 + 0.2 - 0.3)*z1 + z1*z2").leap == 2
    assert set(ll.SparseTarget("z1 + 1e-15*z2").terms) == {1, 2}
    with pytest.raises(ll.errors.InputError, match="zero everywhere"):
        ll.SparseTarget("0.1*z1 + 0.2*z1 - 0.3*z1")
