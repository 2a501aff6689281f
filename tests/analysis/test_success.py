"""How often descent finds the teacher: many runs in one call, and what became of the others."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

import limitlab as ll

D, RUNS, EVERY = 16, 6, 25
ALPHAS = [2.0, 5.0]


def squares(m=2, rule=None, **changes):
    parts = {
        "teacher": ll.SingleIndex(ll.GaussianPrior()),
        "channel": ll.Modulus(),
        "sample_ratio": 3.0,
        "student": None if m is None else ll.Committee(m, "square"),
        "loss": ll.PhaseRetrievalLoss(),
        "start": ll.RandomStart(),
        "algorithm": ll.GradientDescent(0.02 * (m or 1), spherical=m is None) if rule is None else rule,
    }
    return ll.Problem(**(parts | changes))


COMMITTEES = ll.Problem(
    teacher=ll.Committee(2, "erf"),
    sample_ratio=3.0,
    student=ll.Committee(2, "erf"),
    loss=ll.SquareLoss(),
    start=ll.InformedStart(0.8),
    algorithm=ll.GradientDescent(1.0, spherical=False),
)


@pytest.mark.parametrize(
    "problem",
    [pytest.param(squares(2), marks=pytest.mark.more), squares(None), pytest.param(COMMITTEES, marks=pytest.mark.more)],
    ids=["squares", "direction", "committees"],
)
def test_many_runs_in_one_call_are_those_of_simulate(problem):
    clock = float(problem.algorithm.learning_rate) / (1 if problem.student is None else problem.student.width)
    steps = 200
    many = ll.success_rate(problem, d=D, sample_ratios=ALPHAS, t_max=steps * clock, runs=RUNS, seed=3, every=EVERY)
    assert float(many.t_max) == pytest.approx(steps * clock)
    looks = clock * np.arange(0, steps + 1, EVERY)
    for i, alpha in enumerate(ALPHAS):
        one = ll.simulate(dataclasses.replace(problem, sample_ratio=alpha), D, looks, replicas=RUNS, seed=3)
        alone = ll.success_rate(one)
        here = many.isel(sample_ratio=i)
        for name in ("success_rate", "success_rate_low", "success_rate_high", "median_time", "t_max", "runs"):
            assert float(here[name]) == pytest.approx(float(alone[name])), name
        shares = [float(here[name]) for name in ("success_rate", "stuck", "wrong", "unfinished", "diverged")]
        assert sum(shares) == pytest.approx(1)
        for name in ("stuck", "wrong", "unfinished"):
            assert float(here[name]) == pytest.approx(float(alone[name])), name
    assert many.attrs["success_means"] == one.attrs["success_means"]


@pytest.mark.more
def test_more_samples_help():
    """The shapes are those of the test above: nothing is compiled anew."""
    few = ll.success_rate(squares(2), d=D, sample_ratios=[1.0, 5.0], t_max=40.0, runs=RUNS, every=EVERY)
    assert few.success_rate.values[0] < 0.5 < few.success_rate.values[1]
    assert np.isfinite(few.median_time[1])


def test_masks_run_too_and_divergence_is_counted():
    slow = ll.success_rate(squares(2, ll.PersistentSGD(0.04, 0.5, 1.0, spherical=False)), d=D, t_max=4.0, runs=3)
    assert slow.success_rate.dims == () and float(slow.runs) == 3
    wild = ll.success_rate(squares(2, ll.GradientDescent(20.0, spherical=False)), d=D, t_max=100.0, runs=3)
    assert float(wild.diverged) == 1 and float(wild.success_rate) == 0 and float(wild.median_time) == np.inf


def told(error, loss):
    """A result of two looks and an end, one run for each pair."""
    times, count = np.array([0.0, 50.0, 100.0]), len(error)
    return xr.Dataset(
        {
            "error": (("time", "replica"), np.array(error).T),
            "train_loss": (("time", "replica"), np.array(loss).T),
            "success": ("replica", np.array([e[-1] < 0.01 for e in error])),
            "success_time": ("replica", np.array([100.0 if e[-1] < 0.01 else np.inf for e in error])),
            "status": ("replica", ["ok"] * count),
        },
        {"time": times},
    )


def test_failures_are_told_apart_by_loss_and_error():
    rate = ll.success_rate(
        told(
            error=[[2.0, 0.5, 0.001], [2.0, 2.01, 2.0], [2.0, 0.06, 0.05], [2.0, 1.5, 1.0], [2.0, 0.73, 0.73]],
            loss=[[1.0, 0.1, 1e-5], [1.0, 2e-2, 2e-2], [1.0, 1e-5, 1e-6], [1.0, 0.5, 0.3], [1.0, 1e-9, 1e-30]],
        )
    )
    assert (float(rate.success_rate), float(rate.stuck), float(rate.unfinished)) == (0.2, 0.2, 0.4)
    assert float(rate.wrong) == 0.2  # it fits its data exactly: no time will help
    assert float(rate.t_max) == 100 and float(rate.median_time) == 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs d and t_max"),
        ({"d": 8, "t_max": 1.0, "sample_ratios": [-1.0]}, "positive numbers"),
        ({"d": 8, "t_max": 1.0, "threshold": 0.5}, "Leave threshold out"),
        ({"d": 8, "t_max": 0.0}, "t_max must be"),
        ({"d": 8, "t_max": 1.0, "every": 0}, "every must be"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, words):
    with pytest.raises(ll.errors.InputError, match=words):
        ll.success_rate(squares(2), **arguments)


def test_problems_without_an_error_are_refused_in_words():
    for changes, words in (
        ({"algorithm": ll.GradientDescent(0.04, spherical=False, fresh=True)}, "one data set"),
        ({"student": ll.Committee(2, "tanh"), "channel": ll.Sign(), "loss": ll.LogisticLoss()}, "error is known"),
        ({"sample_ratio": None}, "fixed data set"),
    ):
        with pytest.raises(ll.errors.InputError, match=words):
            ll.success_rate(dataclasses.replace(squares(2), **changes), d=8, t_max=1.0)
    with pytest.raises(ll.errors.InputError, match="beside a Problem"):
        ll.success_rate(told([[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]]), d=8)


@pytest.mark.more
def test_below_two_samples_per_weight_wide_students_fit_their_data_by_something_else():
    """A second matrix A >= 0 explains the labels: the loss vanishes, the error stands still."""
    problem = dataclasses.replace(squares(8, ll.GradientDescent(0.32, spherical=False)), sample_ratio=1.5)
    rate = ll.success_rate(problem, d=12, t_max=400.0, runs=8, every=500)
    assert float(rate.success_rate) == 0 and float(rate.wrong) > float(rate.unfinished)
