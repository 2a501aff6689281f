"""sweep: a grid is the same as its points one by one, failures included."""

import re
from typing import NamedTuple

import numpy as np
import pytest

import limitlab as ll
from limitlab.analysis.exits.result import ExitTime
from limitlab.results.files import load, save
from limitlab.results.schema import dataset
from limitlab.sweep import sweep

TIMES = [0.5, 1.0]
RATE, WIDTH = "algorithm.learning_rate", "student.width"


def problem(p=1, start=None):
    return ll.Problem(
        teacher=ll.Committee(width=1, activation="linear"),
        student=ll.Committee(width=p, activation="linear"),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.3) if start is None else start,
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )


def echo(problem, d=1.0, limit=None, fail_above=np.inf):
    """A verb that costs nothing: the risk is learning rate x time x d, and M has the student's width."""
    rate, p = problem.algorithm.learning_rate, problem.student.width
    if d > fail_above:
        raise ll.errors.ConvergenceError(f"no fixed point at d={d}")
    return dataset(
        problem,
        {
            "risk": (("time",), rate * d * np.asarray(TIMES)),
            "M": (("time", "student"), np.ones((2, p))),
            "status": ((), "ok"),
        },
        {"time": TIMES, "step": ("time", [d, 2 * d])},
        method="echo",
        attrs={"d": d, "colour": "red"},
    )


def test_every_point_of_the_product_is_the_verb_at_that_point():
    ds = sweep(echo, problem(), {RATE: [0.1, 0.2, 0.4], "d": [1, 10]})
    assert ds["risk"].dims == (RATE, "d", "time")
    expected = np.array([0.1, 0.2, 0.4])[:, None, None] * np.array([1, 10])[:, None] * np.array(TIMES)
    np.testing.assert_allclose(ds["risk"], expected)
    np.testing.assert_array_equal(ds[RATE], [0.1, 0.2, 0.4])
    assert float(ds["risk"].sel({RATE: 0.4, "d": 10, "time": 1.0})) == pytest.approx(4.0)
    assert ds["status"].dims == (RATE, "d")
    assert set(ds["status"].values.ravel()) == {"ok"}


def test_a_sweep_of_predict_equals_single_predictions():
    ds = sweep(ll.predict, problem(), {RATE: [0.1, 0.3]}, limit=ll.OverlapODE(), times=TIMES)
    for rate in (0.1, 0.3):
        single = ll.predict(
            ll.Problem(
                teacher=ll.Committee(width=1, activation="linear"),
                student=ll.Committee(width=1, activation="linear"),
                loss=ll.SquareLoss(),
                start=ll.InformedStart(overlap=0.3),
                algorithm=ll.OnlineSGD(learning_rate=rate),
            ),
            ll.OverlapODE(),
            TIMES,
        )
        for name in ("risk", "M", "Q"):
            np.testing.assert_array_equal(ds[name].sel({RATE: rate}), single[name])
    assert ds.attrs["method"] == "OverlapODE"
    assert ds.attrs["spec_hash"] == ll.spec_hash(problem())
    assert not np.allclose(ds["risk"][0], ds["risk"][1])


def test_attributes_that_all_points_share_are_kept_and_others_are_not():
    ds = sweep(echo, problem(), {"d": [1.0, 2.0]})
    assert ds.attrs["colour"] == "red"
    assert "d" not in ds.attrs
    assert ds.attrs["swept"] == ["d"]
    assert ds.attrs["verb"] == "echo"


def test_coordinates_that_change_with_the_point_get_its_dimension():
    ds = sweep(echo, problem(), {"d": [1, 10]})
    assert ds["step"].dims == ("d", "time")
    np.testing.assert_array_equal(ds["step"], [[1, 2], [10, 20]])
    assert sweep(echo, problem(), {RATE: [1.0, 2.0]})["step"].dims == ("time",)


def test_a_failing_point_is_recorded_and_the_sweep_goes_on():
    ds = sweep(echo, problem(), {RATE: [0.1, -1.0, 0.4], "d": [1, 10]}, fail_above=5)
    expected = [["ok", "failed"], ["failed", "failed"], ["ok", "failed"]]
    np.testing.assert_array_equal(ds["status"], expected)
    np.testing.assert_array_equal(np.isnan(ds["risk"]).all("time"), np.array(expected) == "failed")
    assert "no fixed point at d=10" in str(ds["reason"].sel({RATE: 0.1, "d": 10}).values)
    assert "learning_rate" in str(ds["reason"].sel({RATE: -1.0, "d": 1}).values)
    assert str(ds["reason"].sel({RATE: 0.4, "d": 1}).values) == ""


def test_a_sweep_where_everything_fails_is_still_a_result():
    with pytest.warns(UserWarning, match="All 2 points failed, the first with InputError: .*learning_rate"):
        ds = sweep(echo, problem(), {RATE: [-1.0, -2.0]})
    assert ds["status"].values.tolist() == ["failed", "failed"]
    assert "risk" not in ds


def test_a_failed_sweep_survives_a_file(tmp_path):
    ds = sweep(echo, problem(), {RATE: [0.1, -1.0]})
    save(ds, tmp_path / "a.nc")
    back = load(tmp_path / "a.nc")
    np.testing.assert_array_equal(back["risk"], ds["risk"])
    np.testing.assert_array_equal(back["reason"], ds["reason"])


def test_a_mistake_in_the_code_is_recorded_and_heard():
    def wrong(problem):
        if problem.algorithm.learning_rate < 0.2:
            raise TypeError("a bug")
        return 1.0

    with pytest.warns(RuntimeWarning, match=r"wrong at .* raised TypeError: a bug .*; the sweep goes on"):
        ds = sweep(wrong, problem(), {RATE: [0.1, 0.3]})
    assert ds["status"].values.tolist() == ["failed", "ok"]
    assert "TypeError: a bug (in wrong, line" in str(ds["reason"][0].values)


def test_variables_whose_shape_changes_are_left_out_and_named():
    ds = sweep(echo, problem(), {WIDTH: [1, 2]})
    assert "M" not in ds
    assert ds.attrs["left_out"] == ["M"]
    assert ds["risk"].sizes == {WIDTH: 2, "time": 2}
    assert "left_out" not in sweep(echo, problem(), {RATE: [1.0]}).attrs


def test_parts_that_depend_on_each_other_change_together():
    def start(p):
        return ll.OverlapStart(Q=np.eye(p), M=np.full((p, 1), 0.1), P=1.0)

    seen = []

    def look(problem):
        seen.append((problem.student.width, problem.start.M.shape[0]))
        return 1.0

    ds = sweep(look, problem(1, start(1)), {WIDTH: [1, 2], "start": [start(1), start(2)]})
    assert seen == [(1, 1), (2, 2)]
    assert ds["status"].values.tolist() == [["ok", "failed"], ["failed", "ok"]]
    assert ds["start"].values.tolist() == ["0: OverlapStart", "1: OverlapStart"]


def test_a_path_may_lead_into_a_swept_part_and_into_a_keyword():
    grid = {"start": [ll.RandomStart()], "start.scale": [2.0]}
    scale = sweep(lambda problem: problem.start.scale, problem(), grid)
    assert float(scale["value"].squeeze()) == 2.0
    seen = []

    def look(problem, limit):
        seen.append(limit.d)
        return 1.0

    sweep(look, problem(), {"limit.d": [10.0, 20.0]}, limit=ll.OverlapODE())
    assert seen == [10.0, 20.0]


def test_limits_and_names_label_themselves():
    def look(problem, limit):
        return 1.0

    ds = sweep(look, problem(), {"limit": [ll.OverlapODE(), None], "student.activation": ["erf", "linear"]})
    assert ds["limit"].values.tolist() == ["OverlapODE", "None"]
    assert ds["student.activation"].values.tolist() == ["erf", "linear"]


def test_a_function_that_returns_a_number_gives_a_variable_of_its_name():
    def doubled(problem):
        return 2 * problem.algorithm.learning_rate

    ds = sweep(doubled, problem(), {RATE: [0.1, 0.2]})
    np.testing.assert_allclose(ds["doubled"], [0.2, 0.4])


def test_nan_is_never_ok():
    def lost(problem):
        return np.nan if problem.algorithm.learning_rate > 1 else 1.0

    ds = sweep(lost, problem(), {RATE: [0.1, 2.0]})
    assert ds["status"].values.tolist() == ["ok", "undefined"]


def test_an_exit_time_gives_its_fields_and_says_where_it_was_not_reached():
    def exit_time(problem, d):
        share = 1.0 if d < 100 else 0.0
        return ExitTime(1.0 / share if share else np.inf, 5.0, 0.1, share, 0.2, "annealed")

    ds = sweep(exit_time, problem(), {"d": [10, 1000]})
    assert ds["exit_time"].values.tolist() == [1.0, np.inf]
    assert ds["status"].values.tolist() == ["ok", "not_reached"]
    assert ds["formula"].values.tolist() == ["annealed", "annealed"]


class Both(NamedTuple):
    number: float
    curve: np.ndarray


def test_fields_that_are_not_numbers_are_left_out_and_named():
    ds = sweep(lambda problem: Both(1.0, np.ones(3)), problem(), {RATE: [0.1]})
    assert float(ds["number"][0]) == 1.0
    assert ds.attrs["left_out"] == ["curve"]
    with pytest.raises(ll.errors.InputError, match="returned ndarray"):
        sweep(lambda problem: np.ones(3), problem(), {RATE: [0.1]})


def test_statuses_of_replicas_are_kept_where_they_line_up_and_summed_up_where_not():
    def runs(problem, runs=2):
        replicas = runs
        risk = np.ones((2, replicas))
        risk[1, -1] = np.nan
        status = ["ok"] * (replicas - 1) + ["diverged"]
        return dataset(
            problem,
            {"risk": (("time", "replica"), risk), "status": (("replica",), status)},
            {"time": TIMES},
            method="runs",
        )

    ds = sweep(runs, problem(), {RATE: [0.1, 0.2]})
    assert ds["status"].values.tolist() == [["ok", "diverged"]] * 2
    ds = sweep(runs, problem(), {"runs": [2, 3]})
    assert ds["status"].values.tolist() == ["diverged", "diverged"]
    assert ds.attrs["left_out"] == ["risk"]


def test_progress_is_told_after_every_point():
    told = []
    sweep(echo, problem(), {RATE: [0.1, -1.0, 0.2]}, progress=lambda *words: told.append(words))
    assert sorted({done for done, _, _ in told}) == [0, 1, 2, 3]
    assert {total for _, total, _ in told} == {3}
    assert re.fullmatch(r"sweep of echo: 1 running, 1 failed, .*/s", told[-1][2])


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"algorithm.lr": [1]}, "algorithm has no field 'lr'; it has learning_rate"),
        ({"algorithm.learning_rat": [1]}, "Did you mean 'learning_rate'"),
        ({"algorithm.learning_rate.x": [1]}, "it is 0.5"),
        ({"dd": [1]}, "keyword of echo"),
        ({"colour": [1]}, r"neither a part of the problem \(inputs, teacher"),
        ({"limit.d": [1]}, "needs limit=... as an argument"),
        ({"fail_above": [1]}, r"also an argument \(3\)"),
        ({"times": [1.0, 2.0]}, "cannot be told from 'time'"),
        ({RATE: [0.1, 0.1]}, "must not repeat"),
        ({RATE: []}, "at least one value"),
        ({RATE: 0.1}, "must be a list"),
        ({RATE: "erf"}, "must be a list"),
        ({}, "must be a table"),
        ([0.1], "must be a table"),
    ],
)
def test_a_grid_that_no_point_could_use_is_refused_before_the_first_call(grid, message):
    calls = []

    def echo(problem, d=1, limit=None, fail_above=0):
        calls.append(1)

    with pytest.raises(ll.errors.InputError, match=message):
        sweep(echo, problem(), grid, fail_above=3)
    assert not calls


@pytest.mark.parametrize(
    ("verb", "keywords", "message"),
    [
        (None, {}, "needs a verb that takes a Problem"),
        ("simulate", {}, "needs a verb that takes a Problem"),
        (max, {}, "needs a verb that takes a Problem"),
        (ll.simulate, {"d": 10, "times": [0.1], "replica": 3}, "no argument 'replica'.*Did you mean 'replicas'"),
        (ll.simulate, {"times": [0.1]}, "simulate needs d"),
        (ll.simulate, {"d": 10, "times": [0.1], "store": 5}, "a folder or a Store; got 5"),
        (ll.simulate, {"d": 10, "times": [0.1], "progress": 3}, "a function of .*got 3"),
        (ll.simulate, {"d": 10, "times": [0.1], "scheduler": 5}, "an address, a dask client or a dask cluster; got 5"),
    ],
)
def test_a_call_at_which_every_point_would_fail_is_refused(verb, keywords, message):
    with pytest.raises(ll.errors.InputError, match=message):
        sweep(verb, problem(), {RATE: [0.1, 0.2]}, **keywords)


@pytest.mark.parametrize("seeds", [[-1, 1], ["x"], [0.5]])
def test_seeds_on_the_grid_are_whole_numbers(seeds):
    with pytest.raises(ll.errors.InputError, match="Seeds are whole numbers"):
        sweep(ll.simulate, problem(), {"seed": seeds}, d=10, times=[0.1])


@pytest.mark.filterwarnings("ignore:All 1 points failed")
@pytest.mark.parametrize(
    "keywords",
    [{"times": []}, {"times": "abc"}, {"times": [[0, 1], [2]]}, {"times": {"a": 1}}, {"d": 10**400}],
    ids=str,
)
def test_what_the_verb_refuses_is_its_point_s_reason(keywords):
    """And no error while points are named, whatever the arguments are."""
    ds = sweep(ll.simulate, problem(), {RATE: [0.1]}, **{"d": 5, "times": [0.1], **keywords})
    assert ds["status"].values.tolist() == ["failed"]
    assert "InputError" in str(ds["reason"][0].values)


def test_a_verb_that_wants_to_leave_python_is_a_failed_point():
    def leaves(problem):
        if problem.algorithm.learning_rate > 1:
            raise SystemExit(4)
        return 1.0

    with pytest.warns(RuntimeWarning, match="SystemExit: 4"):
        ds = sweep(leaves, problem(), {RATE: [0.5, 2.0]})
    assert ds["status"].values.tolist() == ["ok", "failed"]


def test_a_sweep_needs_a_problem():
    with pytest.raises(ll.errors.InputError, match="needs a Problem"):
        sweep(echo, {"d": [1]}, {"d": [1]})


def test_any_dataset_of_a_user_is_taken_as_it_is():
    import xarray as xr

    def own(problem):
        rate = problem.algorithm.learning_rate
        return xr.Dataset(
            {
                "acc": (("replica",), [rate, 2 * rate]),
                "risk": (("student", "lag"), np.full((2, 3), rate)),
                "path": (("time",), [rate, np.nan if rate > 1 else rate]),
            },
            coords={"replica": [5, 6]},
        )

    ds = sweep(own, problem(), {RATE: [0.5, 2.0]})
    assert ds["acc"].dims == (RATE, "replica") and ds["replica"].values.tolist() == [5, 6]
    assert ds["risk"].shape == (2, 2, 3) and "left_out" not in ds.attrs
    assert ds["status"].values.tolist() == ["ok", "undefined"]


def test_a_dataset_that_no_schema_could_hold_is_refused_at_the_first_point():
    import xarray as xr

    calls = []

    def back(problem, what):
        calls.append(what)
        if what == "time":
            return xr.Dataset({"x": (("time",), [1.0, 2.0])}, coords={"time": [1.0, 0.5]})
        return xr.Dataset({"x": (("time",), [1.0, np.nan]), "status": "ok" if what == "nan" else "sad"})

    for what, message in (("time", "time does not increase"), ("nan", "has NaN"), ("sad", "has the status sad")):
        with pytest.raises(ll.errors.InputError, match=message):
            sweep(back, problem(), {RATE: [0.5, 0.6]}, what=what)
    assert calls == ["time", "nan", "sad"]
