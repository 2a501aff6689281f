"""refine: points go where a boundary or a curve needs them, and the interval of a noisy boundary is an honest one."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

import limitlab as ll
from cases import committee
from limitlab.results.files import load, save
from limitlab.results.schema import dataset
from limitlab.sweep import Store, sweep
from limitlab.sweep.refining.refine import refine

RATE = "algorithm.learning_rate"
CALLS = []


def problem(rate=0.5):
    return committee("linear", "linear", p=1, k=1, learning_rate=rate)


def step(problem, at=0.437, x=0.0):
    CALLS.append(x)
    return {"height": 1.0 if x > at else 0.0}


def wave(problem, x=0.0):
    return np.sin(x)


def tempered(problem, x=1.0, at=300):
    """Ends well up to ``at``, diverges above, is refused above 10^4."""
    if x > 10_000:
        raise ll.errors.ConvergenceError("nothing there")
    return dataset(
        problem, {"risk": ((), float(x)), "status": ((), "ok" if x <= at else "diverged")}, method="tempered"
    )


def coin(problem, x=0.0, at=0.437, width=0.05, replicas=20, seed=0, falling=False):
    """Runs that succeed with a probability that is a logistic step in x."""
    rate = expit((at - x if falling else x - at) / width)
    found = np.random.default_rng(seed).random(replicas) < rate
    return dataset(
        problem, {"success": (("replica",), found), "status": (("replica",), ["ok"] * replicas)}, method="coin"
    )


def measured(problem, x=0.0, replicas=10, seed=0):
    """A noisy parabola: 0 at 0.25 and 0.75."""
    noise = np.random.default_rng(seed).normal(size=(2, replicas))
    risk = 16 * (x - 0.25) * (x - 0.75) + np.array([[100.0], [0.3]]) * noise
    return dataset(
        problem,
        {"risk": (("time", "replica"), risk), "status": (("replica",), ["ok"] * replicas)},
        {"time": [0.0, 1.0]},
        method="measured",
    )


def share(ds):
    """The share of successes as if it were exact."""
    return float(ds["success"].mean() if "success" in ds else ds["success_rate"])


def tossed(problem, x=0.0, seed=0):
    """The same coin, counted."""
    return {"success_rate": np.random.default_rng(seed).binomial(20, expit((x - 0.437) / 0.05)) / 20, "runs": 20}


@pytest.mark.parametrize("halvings", [0, 1, 10])
def test_a_step_is_bisected(halvings):
    found = refine(step, problem(), {"x": (0.0, 1.0)}, of="height", level=0.5, budget=5 + halvings)
    one = found.boundary.isel(crossing=0)
    assert found.evaluated == 5 + halvings
    assert float(one.high - one.low) == pytest.approx(0.25 / 2**halvings, rel=1e-12)
    assert float(one.low) <= 0.437 < float(one.high)
    assert float(found) == pytest.approx(float(one.low + one.high) / 2)
    assert (str(one.before.values), str(one.after.values)) == ("below", "above")


def test_the_points_are_the_sweep_at_the_visited_values(tmp_path):
    found = refine(step, problem(), {"x": (0.0, 1.0)}, of="height", level=0.5, budget=9)
    again = sweep(step, problem(), {"x": found.points.x.values.tolist()})
    xs = {k: v for k, v in again.attrs.items() if k != "created"}
    assert {k: v for k, v in found.points.attrs.items() if k != "created"} == xs
    assert found.points.equals(again)
    save(found.points, tmp_path / "points.nc")
    save(found.boundary, tmp_path / "boundary.nc")
    assert load(tmp_path / "boundary.nc").boundary.equals(found.boundary.boundary)


def test_a_tolerance_ends_the_search_before_the_budget():
    found = refine(step, problem(), {"x": (0.0, 1.0)}, of="height", level=0.5, budget=40, tolerance=0.01)
    assert found.evaluated == 5 + 5  # 0.25 / 2^5 < 0.01
    assert float((found.boundary.high - found.boundary.low)[0]) <= 0.01


def test_all_crossings_that_the_first_points_show_are_found():
    found = refine(wave, problem(), {"x": (1.0, 11.0)}, of="wave", level=0.0, budget=60, start=8)
    np.testing.assert_allclose(found.boundary.boundary, np.pi * np.array([1, 2, 3]), atol=1e-4)
    assert found.boundary.before.values.tolist() == ["above", "below", "above"]
    assert int(found.boundary.crossings) == 3
    widths = (found.boundary.high - found.boundary.low).values
    assert widths.max() / widths.min() < 2.001  # the widest was always next
    with pytest.raises(ll.errors.InputError, match="not one boundary"):
        float(found)


def test_a_level_that_is_not_crossed_is_a_result():
    found = refine(wave, problem(), {"x": (0.0, 1.0)}, of="wave", level=2.0)
    assert found.evaluated == 5
    assert int(found.boundary.crossings) == 0 and np.isnan(float(found))
    assert found.boundary.status.values.tolist() == ["not_reached"]
    assert "no boundary" in str(found)


def test_boundaries_of_a_status_and_of_a_failure():
    found = refine(tempered, problem(), {"x": (1.0, 1e6)}, of="status", log=True, budget=60, tolerance=0.1)
    np.testing.assert_allclose(found.boundary.boundary, [300, 10_000], atol=0.1)
    assert found.boundary.before.values.tolist() == ["ok", "diverged"]
    assert found.boundary.after.values.tolist() == ["diverged", "failed"]
    assert found.skipped == ()
    assert "diverged -> failed" in str(found)


def test_the_logarithm_is_bisected():
    def at(log):
        found = refine(tempered, problem(), {"x": (1.0, 1e4)}, of="risk", level=10.5, log=log, budget=12)
        return float(found.boundary.high[0]) - float(found.boundary.low[0])

    assert at(True) == pytest.approx(10.5 * np.log(10) / 2**7, rel=0.05)
    assert at(False) == pytest.approx(9999 / 4 / 2**7)


@pytest.mark.parametrize(("log", "points"), [(False, range(5, 16)), (True, range(5, 16))])
def test_whole_numbers_stay_whole_and_end_at_neighbours(log, points):
    found = refine(tempered, problem(), {"x": (1, 1000)}, of="status", log=log, at=300)
    one = found.boundary.isel(crossing=0)
    assert (float(one.low), float(one.high)) == (300.0, 301.0)
    assert found.points.x.dtype.kind == "i"
    assert found.evaluated in points
    assert refine(tempered, problem(), {"x": (1, 3)}, of="status", at=2).evaluated == 3


def test_labels_and_truth_values_have_boundaries_too():
    label = refine(wave, problem(), {"x": (0.0, 3.0)}, of=lambda ds: "high" if ds["wave"] > 0.5 else "low")
    truth = refine(wave, problem(), {"x": (0.0, 3.0)}, of=lambda ds: ds["wave"] > 0.5)
    np.testing.assert_allclose(label.boundary.boundary, [np.pi / 6, 5 * np.pi / 6], atol=1e-4)
    np.testing.assert_array_equal(label.boundary.boundary, truth.boundary.boundary)
    assert truth.boundary.after.values.tolist() == ["True", "False"]


def test_a_grid_gives_a_boundary_as_a_curve():
    found = refine(
        step, problem(), {"x": (0.0, 1.0)}, of="height", level=0.5, budget=50, grid={"at": [0.2, 0.5, 0.8, 1.5]}
    )
    assert found.evaluated == 50
    np.testing.assert_allclose(found.boundary.boundary.sel(crossing=0), [0.2, 0.5, 0.8, np.nan], atol=0.25 / 2**9)
    assert found.boundary.crossings.values.tolist() == [1, 1, 1, 0]
    assert list(found.points) == [(0.2,), (0.5,), (0.8,), (1.5,)]
    one = found.points[(0.5,)]
    assert one.height.dims == ("at", "x") and sum(ds.sizes["x"] for ds in found.points.values()) == 50
    assert "at=1.5: no boundary" in str(found)


def test_the_budget_goes_to_the_widest_brackets_of_the_grid():
    found = refine(wave, problem(), {"x": (0.1, 1.5)}, of="wave", level=0.5, budget=33, grid={RATE: [0.1, 0.2, 0.3]})
    assert sorted(ds.sizes["x"] for ds in found.points.values()) == [11, 11, 11]


@pytest.mark.parametrize("budget", [5, 6, 7, 8, 13])
def test_the_budget_is_never_exceeded(budget):
    for words in ({"of": "success_rate", "level": 0.5}, {"of": "success_rate"}, {"of": share, "level": 0.5}):
        assert refine(coin, problem(), {"x": (0.0, 1.0)}, budget=budget, **words).evaluated == budget


def covered(runs, **words):
    """How many of the intervals hold the truth, and their mean width."""
    inside, widths = 0, []
    for seed in range(runs):
        found = refine(tossed, problem(), {"x": (0.0, 1.0)}, level=0.5, budget=21, seed=seed, **words)
        one = found.boundary.isel(crossing=0)
        inside += int(((found.boundary.low <= 0.437) & (0.437 <= found.boundary.high)).any())
        widths.append(float(one.high - one.low))
    return inside, np.mean(widths)


def test_the_interval_of_a_noisy_boundary_holds_the_truth_and_is_narrower_than_that_of_equal_distances():
    runs = 50
    inside, width = covered(runs, of="success_rate")
    assert inside >= binom.ppf(1e-3, runs, 0.95)
    assert width < 0.6 * covered(8, of="success_rate", start=21)[1]


def test_without_errors_bisection_would_be_far_too_sure():
    inside, width = covered(12, of=share)
    assert inside < 6 and width < 1e-3


def test_a_falling_share_and_other_levels():
    falling = refine(coin, problem(), {"x": (0.0, 1.0)}, of="success_rate", level=0.5, falling=True)
    assert falling.boundary.before.values.tolist() == ["above"]
    assert float(falling.boundary.low[0]) <= 0.437 <= float(falling.boundary.high[0])
    tenth = refine(coin, problem(), {"x": (0.0, 1.0)}, of="success", level=0.1, replicas=100)
    truth = 0.437 + 0.05 * np.log(0.1 / 0.9)
    assert float(tenth.boundary.low[0]) <= truth <= float(tenth.boundary.high[0])


def test_new_points_are_spread_over_the_interval():
    found = refine(coin, problem(), {"x": (0.0, 1.0)}, of="success_rate", level=0.5, budget=40)
    xs = found.points.x.values
    inside = xs[(xs >= float(found.boundary.low[0])) & (xs <= float(found.boundary.high[0]))]
    assert len(inside) > 10
    assert np.diff(inside).max() < 20 * np.diff(inside).min()


def test_a_noisy_mean_may_cross_more_than_once():
    inside = []
    for seed in range(10):
        found = refine(measured, problem(), {"x": (0.0, 1.0)}, of="risk", level=0.0, seed=seed)
        assert int(found.boundary.crossings) == 2
        inside += ((found.boundary.low <= [0.25, 0.75]) & (found.boundary.high >= [0.25, 0.75])).values.tolist()
    assert sum(inside) >= binom.ppf(1e-3, 20, 0.95)
    assert float((found.boundary.high - found.boundary.low).max()) < 0.1


def test_an_error_may_be_given_with_the_number():
    def pair(ds):
        return float(ds["wave"]), 0.1

    found = refine(wave, problem(), {"x": (0.0, 1.5)}, of=pair, level=0.5)
    low, high = float(found.boundary.low[0]), float(found.boundary.high[0])
    assert low < np.pi / 6 < high and high - low > 0.01


def test_a_curve_has_its_points_where_it_bends():
    def peak(x):
        return 1 / (1 + ((x - 0.3) / 0.02) ** 2)

    def kink(x):
        return np.maximum(x - 0.618, 0.0)

    fine = np.linspace(0, 1, 4001)
    for curve, near, gain in ((peak, 0.3, 4), (kink, 0.618, 8)):

        def lorentz(problem, x=0.0, curve=curve):
            return curve(x)

        found = refine(lorentz, problem(), {"x": (0.0, 1.0)}, of="lorentz", budget=30)
        xs = found.points.x.values
        assert np.sum(np.abs(xs - near) < 0.1) > 9  # of 30 equal ones it would be 6
        even = np.linspace(0, 1, 30)
        error, uniform = (np.mean(np.abs(np.interp(fine, x, curve(x)) - curve(fine))) for x in (xs, even))
        assert error < uniform / gain
        assert np.diff(xs).max() < 0.2  # and the rest is not left unseen
        assert not found.boundary
        with pytest.raises(ll.errors.InputError, match="not one boundary"):
            float(found)


def test_a_noisy_curve_does_not_chase_its_noise():
    """Typically: the smallest distance of two points among 33, of which one seed alone says little."""
    asked = {"of": "success_rate", "width": 10.0, "budget": 33}
    found = [refine(coin, problem(), {"x": (0.0, 1.0)}, seed=seed, **asked).points.x.values for seed in range(9)]
    assert np.median([np.diff(x).min() for x in found]) > 0.005


def broken(problem, x=0.0, low=0.4, high=0.45, everything=False):
    if everything or low < x < high:
        raise ll.errors.ConvergenceError("no fixed point")
    return {"height": float(x > 0.42)}


def test_failed_points_are_passed_over_and_named():
    found = refine(broken, problem(), {"x": (0.0, 1.0)}, of="height", level=0.5, tolerance=0.01)
    assert found.evaluated < 40
    low, high = float(found.boundary.low[0]), float(found.boundary.high[0])
    assert 0.39 < low <= 0.4 and 0.45 <= high < 0.46
    assert len(found.skipped) > 0
    assert all(0.4 < place["x"] < 0.45 and "no fixed point" in reason for place, reason in found.skipped)
    assert "gave no value" in str(found)
    curve = refine(broken, problem(), {"x": (0.0, 1.0)}, of="height", budget=30, low=0.1, high=0.9)
    assert curve.evaluated == 30 and 0 < len(curve.skipped) < 30
    with pytest.raises(
        ll.errors.InputError, match="none of the first 5 points gave one: ConvergenceError: no fixed point"
    ):
        refine(broken, problem(), {"x": (0.0, 1.0)}, of="height", level=0.5, everything=True)
    alone = refine(broken, problem(), {"x": (0.0, 1.0)}, of="status", everything=True)
    assert int(alone.boundary.crossings) == 0


def test_a_store_is_not_asked_to_compute_twice_and_knows_what_belongs_together(tmp_path):
    def run(budget, **words):
        CALLS.clear()
        found = refine(step, problem(), {"x": (0.0, 1.0)}, of="height", level=0.5, budget=budget, **words)
        return found, len(CALLS)

    store = Store(tmp_path / "store")
    plain, calls = run(20)
    assert calls == 20
    assert run(9, store=store)[1] == 9
    told = []
    found, calls = run(20, store=store, progress=lambda *words: told.append(words[:2]))
    assert calls == 11 and found.evaluated == 20 and told[-1] == (20, 20)
    assert found.points.equals(plain.points) and found.boundary.equals(plain.boundary)
    found, calls = run(20, store=store)
    assert calls == 0 and found.points.equals(plain.points)
    assert len(store.sweeps()) == 2
    name = list(store.sweeps())[-1]
    assert store.sweeps()[name]["axes"] == {"x": plain.points.x.values.tolist()}
    assert sorted(store.keys_of(name)) == sorted(store.keys())


def test_an_interrupted_refinement_goes_on_where_it_was(tmp_path):
    def run(**words):
        CALLS.clear()
        return refine(step, problem(), {"x": (0.0, 1.0)}, of="height", level=0.5, budget=16, store=tmp_path, **words)

    def stop(done, total, label):
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(progress=stop)
    before = len(CALLS)
    assert 7 <= before <= 9
    store = Store(tmp_path)
    (name,) = store.sweeps()
    assert set(store.keys()) <= set(store.keys_of(name))
    assert run().evaluated == 16
    assert before + len(CALLS) == 16
    assert list(store.sweeps()) == [name]


def test_the_points_do_not_depend_on_the_workers():
    def run(workers):
        return refine(coin, problem(), {"x": (0.0, 1.0)}, of="success_rate", level=0.5, budget=15, workers=workers)

    alone, together = run(None), run(2)
    assert together.points.equals(alone.points)
    assert together.boundary.equals(alone.boundary)


def test_more_points_at_once_are_dyadic():
    one = refine(step, problem(), {"x": (0.0, 1.0)}, of="height", level=0.5, budget=8, batch=3)
    inside = [x for x in one.points.x.values if 0.25 <= x <= 0.5]
    np.testing.assert_allclose([b - a for a, b in pairwise(inside)], 1 / 16)


@pytest.mark.more
def test_thresholds_of_phase_retrieval():
    glm = ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Modulus(), sample_ratio=1.0)
    known = ll.thresholds(ll.GaussianPrior(), ll.Modulus())

    def phase(ds):
        return "nothing" if ds["m"] < 1e-6 else "perfect" if ds["m"] > 1 - 1e-6 else "something"

    best = refine(ll.predict, glm, {"sample_ratio": (0.3, 1.5)}, of=phase, budget=29, limit=ll.BayesOptimal())
    expected = [known.weak_recovery, known.information]
    np.testing.assert_allclose(best.boundary.boundary, expected, atol=3e-4)
    assert best.boundary.after.values.tolist() == ["something", "perfect"]
    limit = ll.StateEvolution(start="weak")
    easy = refine(ll.predict, glm, {"sample_ratio": (0.3, 1.5)}, of="m_fixed", level=0.95, budget=20, limit=limit)
    assert float(easy) == pytest.approx(known.algorithmic, abs=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"over": {}}, "one name and its range"),
        ({"over": {"x": (0.0, 1.0), "at": (0.0, 1.0)}}, "one name and its range"),
        ({"over": {"x": 1.0}}, "must be two numbers"),
        ({"over": {"x": (0.0, 0.5, 1.0)}}, "must be two numbers"),
        ({"over": {"x": (1.0, 0.0)}}, "lower end first"),
        ({"over": {"x": (1, 1)}}, "lower end first"),
        ({"over": {"x": (0.0, np.inf)}}, "finite number"),
        ({"over": {"x": ("a", "b")}}, "finite number"),
        ({"over": {"y": (0.0, 1.0)}}, "keyword of step"),
        ({"log": True}, "range above 0"),
        ({"budget": 4}, "at least the 1 x 5 points"),
        ({"budget": 9, "grid": {"at": [0.1, 0.2]}}, "at least the 2 x 5 points"),
        ({"budget": 10.5}, "whole number"),
        ({"start": 1}, "whole number >= 2"),
        ({"batch": 0}, "whole number >= 1"),
        ({"tolerance": -1}, "tolerance must be"),
        ({"grid": {"x": [0.1]}}, "Keep one"),
        ({"of": 3}, "must be a name"),
        ({"of": "depth"}, r"variable of the result \(height, status\)"),
        ({"of": "status"}, "level must be left out"),
        ({"of": lambda ds: "a"}, "level must be left out"),
        ({"of": lambda ds: [1, 2, 3]}, "number, a text"),
        ({"of": lambda ds: "a" if ds["height"] > 0 else 1.0, "level": None}, "not both"),
        ({"of": "success_rate"}, "success over replicas"),
        ({"of": "success_rate", "level": 1.0}, r"\(0, 1\)"),
        ({"level": np.nan}, "level must be"),
        ({"workers": 0}, "workers"),
    ],
)
def test_bad_input_is_refused(words, message):
    words = {"over": {"x": (0.0, 1.0)}, "of": "height", "level": 0.5, **words}
    with pytest.raises(ll.errors.InputError, match=message):
        refine(step, problem(), **words)


def test_a_variable_with_other_axes_needs_a_function():
    ds = {"over": {RATE: (0.1, 0.2)}, "limit": ll.OverlapODE(), "times": [0.5, 1.0]}
    wide = ll.Problem(
        teacher=ll.Committee(width=1, activation="linear"),
        student=ll.Committee(width=2, activation="linear"),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.3),
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )
    with pytest.raises(ll.errors.InputError, match="has the axes student, teacher: no single number"):
        refine(ll.predict, wide, of="M", level=0.5, **ds)
    assert np.isfinite(refine(ll.predict, wide, of=lambda one: one.M.mean(), budget=7, **ds).points.M.values).all()
    with pytest.raises(ll.errors.InputError, match="needs a Problem"):
        refine(step, None, {"x": (0.0, 1.0)}, of="height")
