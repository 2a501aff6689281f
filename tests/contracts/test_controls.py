"""Negative controls stay in the default run: a test that is `more` as a whole has none, or has a twin."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = re.compile(r"control|wrong|reject|mutat|flipped|\bwithout\b|\banother\b|not so\b|noticed|is seen|would fail")
FAR = re.compile(r"abs$|gap|scores?$|^z$|^off$|worst|drift|distance|wasserstein|max_z|agrees")  # names of how far off
TWIN, CASE = "its twin in the default run: ", "a case in the default run has it: "
ALLOWED = {  # file::test: why it may be marked
    "test_escape.py::test_samples_of_a_measured_time_are_those_of_the_simulation": "the words say what the bound sees",
    "test_gamp_estimator.py::test_a_run_that_diverges_begins_again_with_shorter_steps": "a score of the fit, a claim",
    "test_multi_index_thresholds.py::test_bins_converge_to_the_closed_form_of_squares_and_of_products": "a claim",
    "test_success.py::test_below_two_samples_per_weight_wide_students_fit_their_data_by_something_else": "a status",
    "test_out_of_range.py::test_a_loop_outside_of_a_sweep_keeps_its_memory_maps": TWIN
    + "test_memory_maps_grow_where_nobody_minds_them",
    "test_dimension_free.py::test_small_rules_are_enough_in_many_dimensions": "a difference within its stated error",
    "test_family.py::test_a_member_with_many_steps_goes_on_alone_and_with_the_implicit_method_if_need_be": "an index",
    "test_radial_flow.py::test_panels_are_split_where_the_start_is_torn_apart": TWIN
    + "test_equal_panels_miss_what_split_ones_find_where_the_start_is_torn_apart",
    "test_radial_flow.py::test_risks_agree_with_independent_code": TWIN
    + "test_equal_panels_miss_what_split_ones_find_where_the_start_is_torn_apart",
    "test_spectral_fits.py::test_fits_agree": CASE + "logistic",
    "test_multi_index_limits.py::test_what_labels_tell_is_that_of_a_brute_sum": CASE + "abs(z1)*z2",
    "test_spectrum_everywhere.py::test_limits": CASE + "OverlapODE",
    "test_multi_index_thresholds.py::test_committees_behind_a_channel_specialise_later": "labels without noise",
    "test_matrix_gamp.py::test_weights_of_signs_are_found": "a finite run, a claim",
    "test_nesting.py::test_corrected_flow_without_steps_is_the_flow": "a limit without steps, a claim",
    "test_nesting.py::test_mean_field_tends_to_dimension_free": "the rate of a gap, a claim",
    "test_sweep_engines.py::test_a_time_limit_ends_a_point_that_holds_the_lock_of_python": "words of a message",
}


def functions(text: str) -> list[ast.FunctionDef]:
    return [x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef)]


def marks(test: ast.AST, *names: str) -> list[ast.AST]:
    """Marks `more` (or further ones) of a test, of some of its cases, or of a case: calls of `more_of` first."""
    nodes = [y for x in getattr(test, "decorator_list", [test]) for y in ast.walk(x)]
    calls = [x for x in nodes if isinstance(x, ast.Call) and getattr(x.func, "attr", "") == "more_of"]
    return calls + [x for x in nodes if isinstance(x, ast.Attribute) and x.attr in ("more", *names)]


def is_whole(test: ast.FunctionDef) -> bool:
    """Marked itself, or all cases of one of its lists are."""
    lists = [x for call in test.decorator_list if isinstance(call, ast.Call) for x in call.args[1:2]]
    marked = [[bool(marks(case)) for case in x.elts] for x in lists if isinstance(x, ast.List) and x.elts]
    return any(isinstance(x, ast.Attribute) and x.attr == "more" for x in test.decorator_list) or any(map(all, marked))


def is_far(node: ast.AST) -> bool:
    return any(FAR.search(getattr(x, "id", getattr(x, "attr", ""))) for x in ast.walk(node))


def is_number(node: ast.AST) -> bool:
    values = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)]
    return any(isinstance(x, int | float) for x in values) and not is_far(node)


def is_control(node: ast.AST) -> bool:
    """`not`, `!=`, or a distance above a number, in what is asserted; or an assertion that must fail."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for low, op, high in zip(sides, node.ops, sides[1:], strict=False):
            if isinstance(op, ast.NotEq) or (isinstance(op, ast.Lt | ast.LtE) and is_number(low) and is_far(high)):
                return True
            if isinstance(op, ast.Gt | ast.GtE) and is_number(high) and is_far(low):
                return True
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def shapes(test: ast.AST) -> list[str]:
    asserted = [x.test for x in ast.walk(test) if isinstance(x, ast.Assert)]
    found = [ast.unparse(x) for node in asserted for x in ast.walk(node) if is_control(x)]
    return found + [x.id for x in ast.walk(test) if isinstance(x, ast.Name) and x.id == "AssertionError"]


def lost(text: str) -> Iterator[tuple[str, list[str]]]:
    """Tests of a file whose controls the default run may not have: `more` as a whole, or a control of some cases."""
    for test in functions(text):
        if is_whole(test):
            body = "\n".join(text.splitlines()[test.lineno : test.end_lineno])  # with its comments, without its name
            found = WORDS.findall(body) + shapes(test)
        elif marks(test):
            found = [shape for x in ast.walk(test) if isinstance(x, ast.If) for shape in shapes(x)]
        else:
            found = []
        if found:
            yield test.name, found


def test_no_control_is_lost_to_the_default_run():
    tests, seen = {}, {}
    for path in ROOT.rglob("test_*.py"):
        text = path.read_text()
        seen |= {f"{path.name}::{name}": found for name, found in lost(text)}
        tests |= {f"{path.name}::{test.name}": test for test in functions(text)}
    new = {name: found for name, found in seen.items() if name not in ALLOWED}
    assert not new, f"take the mark off, give it a smaller twin without, or say here why it is no control: {new}"
    assert ALLOWED.keys() <= seen.keys(), "no longer needed"
    for name, reason in ALLOWED.items():
        if reason.startswith(TWIN):
            twin = tests[f"{name.split('::')[0]}::{reason.removeprefix(TWIN)}"]
            assert not marks(twin, "slow"), reason
        elif reason.startswith(CASE):
            assert reason.removeprefix(CASE) not in [ast.literal_eval(x) for x in marks(tests[name])[0].args], reason


PLAIN = "def test_x():\n    right, off = 1.0, 2.0\n    assert abs(right - 1) < 4\n"
MARK = "@pytest.mark.more\n"
CASES = '@pytest.mark.more_of("b")\n@pytest.mark.parametrize("name", NAMES)\n'
ALL = '@pytest.mark.parametrize("p", [pytest.param(1, marks=pytest.mark.more)])\n'


@pytest.mark.parametrize(
    "planted",
    [
        "    assert abs(off - 1) > 5\n",
        "    assert 5 < np.max(np.abs(off - 1))\n",
        "    assert not np.allclose(off, 1)\n",
        "    assert off != 1\n",
        "    with pytest.raises(AssertionError):\n        check(off)\n",
        "    check(off)  # the control\n",
    ],
)
def test_a_planted_control_is_found(planted):
    assert not list(lost(MARK + PLAIN)) and not list(lost(PLAIN + planted))
    assert [name for name, _ in lost(MARK + PLAIN + planted)] == ["test_x"]
    assert [name for name, _ in lost(ALL + PLAIN + planted)] == ["test_x"]
    assert not list(lost(CASES + PLAIN + planted))  # other cases have it


def test_a_control_of_one_case_is_found():
    planted = '    if name == "b":\n        assert abs(off - 1) > 5\n'
    assert [name for name, _ in lost(CASES + PLAIN + planted)] == ["test_x"]
    assert not list(lost(CASES + PLAIN + planted.replace("> 5", "< 5")))
