"""One-pass SGD on inputs with a spectrum: equations mode by mode, exact least squares, and runs."""

import dataclasses

import numpy as np
import pytest

import limitlab as ll
from limitlab.numerics.spectra.least_squares_sgd import LeastSquaresSGD

TWO = ll.Spectrum([0.25, 1.75])
TIMES = [0.0, 5.0, 20.0]


def committee(spectrum, **algorithm):
    """The problem of the formula sheet."""
    return ll.Problem(
        inputs=ll.Gaussian(spectrum=spectrum),
        teacher=ll.Committee(1, "erf"),
        channel=ll.GaussianNoise(0.05),
        student=ll.Committee(2, "erf"),
        loss=ll.SquareLoss(),
        start=ll.OverlapStart(Q=[[1.09, 0.0], [0.0, 1.0]], M=[[0.3], [0.0]], P=[[1.0]]),
        algorithm=ll.OnlineSGD(**{"learning_rate": 1.0, **algorithm}),
    )


def line(spectrum, loss=None, channel=None, rate=1.0, start=None, prior=None, **algorithm):
    """One linear unit."""
    return ll.Problem(
        inputs=ll.Gaussian(spectrum=spectrum),
        teacher=ll.SingleIndex(ll.GaussianPrior() if prior is None else prior),
        channel=ll.Sign() if channel is None else channel,
        student=ll.Committee(1, "linear"),
        loss=ll.LogisticLoss() if loss is None else loss,
        start=ll.InformedStart(0.2) if start is None else start,
        algorithm=ll.OnlineSGD(rate, **algorithm),
    )


def ode(problem, times=TIMES, **limit):
    return ll.predict(problem, ll.OverlapODE(**limit), times=times)


def test_committees_have_the_numbers_of_other_code():
    found = ode(committee(TWO))
    np.testing.assert_allclose(found.risk.values[1:], [0.04581378, 0.02945401], atol=6e-9)
    modes = (found.share * found.eigenvalue * found.M_mode).sum("mode")
    np.testing.assert_allclose(modes, found.M, rtol=1e-10)
    np.testing.assert_allclose(found.P, [[1.0]], rtol=1e-12)
    np.testing.assert_allclose(found.squared_norm.values[0], [1.09, 1.0], rtol=1e-12)


def test_a_flat_spectrum_is_none_and_splitting_changes_nothing():
    flat, none = ode(committee(ll.Spectrum([1.0]))), ode(committee(None))
    for name in ("risk", "M", "Q"):
        np.testing.assert_allclose(flat[name], none[name], rtol=1e-8, atol=1e-10)
    two, three = ode(committee(TWO)), ode(committee(ll.Spectrum([0.25, 1.75, 1.75], [0.5, 0.2, 0.3])))
    np.testing.assert_allclose(three.risk, two.risk, rtol=1e-8)
    assert np.min(np.abs(two.risk.values[1:] / none.risk.values[1:] - 1)) > 0.01  # the control


def test_any_loss_has_the_numbers_of_other_code():
    found = ode(line(TWO), [0.0, 3.0])
    np.testing.assert_allclose(found.risk.values[1], 0.41513652, atol=6e-9)
    np.testing.assert_allclose(found.generalisation_error.values[1], 0.17651640, atol=6e-9)


def test_least_squares_is_the_committee_of_one_linear_unit():
    prior = line(TWO, ll.SquareLoss(), ll.GaussianNoise(0.05), 0.7)
    as_committee = dataclasses.replace(prior, teacher=ll.Committee(1, "linear"))
    one, other = ode(prior, [0.0, 1.0, 4.0]), ode(as_committee, [0.0, 1.0, 4.0])
    for name in ("risk", "M", "Q", "Q_mode"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-7, atol=1e-9)


def test_least_squares_is_exact_at_any_number_of_steps():
    s, start = np.array([0.5, 0.25, 0.15, 0.1]), np.array([1, 2, 0.5, 3.0])
    sgd = LeastSquaresSGD.of(s, np.ones(4), 0.1, 0.5)
    np.testing.assert_allclose(sgd.mse(sgd.squares(start, [5, 20])), [0.74905726, 0.24382535], atol=6e-9)
    M = np.diag(1 - s + 0.5 * s**2) + 0.25 * np.outer(s, s)
    D = start
    for _ in range(37):
        D = M @ D + 0.25 * 0.1 * s
    np.testing.assert_allclose(sgd.squares(start, [37])[0], D, rtol=1e-12)
    floor = 0.1 / (1 - 0.25 * np.sum(s / (1 - 0.5 * s)))
    np.testing.assert_allclose(sgd.mse(sgd.squares(start, [10**9]))[0], floor, rtol=1e-6)
    assert sgd.stable and not LeastSquaresSGD.of(s, np.ones(4), 0.1, 3.0).stable
    merged = LeastSquaresSGD.of(np.array([0.5, 0.1]), np.array([1, 3]), 0.1, 0.5, 2)
    whole = LeastSquaresSGD.of(np.array([0.5, 0.1, 0.1, 0.1]), np.ones(4), 0.1, 0.5, 2)
    np.testing.assert_allclose(
        merged.mse(merged.squares([1.0, 2.0], [0, 7, 900])),
        whole.mse(whole.squares([1.0, 2.0, 2.0, 2.0], [0, 7, 900])),
        rtol=1e-12,
    )
    D = start  # the limit drops 2 eta^2 s^2 D: the control
    for _ in range(20):
        D = np.diag(1 - s) @ D + 0.25 * (np.outer(s, s) @ D + 0.1 * s)
    assert abs(s @ D + 0.1 - 0.24382535) > 0.02


def test_exact_means_at_small_d_agree_with_runs():
    problem = line(
        ll.Spectrum([0.4, 4.0], [0.8, 0.2], unexplained=0.1), ll.SquareLoss(), ll.GaussianNoise(0.1), 1.0, batch_size=2
    )
    times = [0.0, 0.5, 3.0]
    exact, limit = ode(problem, times, d=10), ode(problem, times)
    sim = ll.simulate(problem, d=10, times=times, replicas=600, seed=3)
    for name in ("M", "Q"):
        x = sim[name].squeeze().values
        z = (x.mean(1) - exact[name].values.squeeze())[1:] / (x.std(1, ddof=1) / np.sqrt(600))[1:]
        assert np.max(np.abs(z)) < 4, (name, z)
    x = sim.Q.squeeze().values  # the limit is off at this d: the control
    assert np.max(abs(x.mean(1) - limit.Q.values.squeeze())[1:] / (x.std(1)[1:] / np.sqrt(600))) > 5
    large = ode(problem, times, d=100_000)
    np.testing.assert_allclose(large.risk, limit.risk, rtol=1e-3)
    fast = ode(dataclasses.replace(problem, algorithm=ll.OnlineSGD(30.0)), [0.0, 1000.0, 100_000.0], d=10)
    assert fast.status == "diverged" and np.isnan(fast.risk.values[-1])


RUNS = {
    "committee": (committee(TWO), [0.0, 5.0]),
    "sphere": (
        dataclasses.replace(committee(TWO, spherical=True), start=ll.InformedStart(0.3)),
        [0.0, 5.0],
    ),
    "logistic": (line(TWO), [0.0, 3.0]),
    "unexplained": (line(ll.Spectrum([0.25, 1.75], teacher=[2.0, 0.5], unexplained=0.3)), [0.0, 3.0]),
}


@pytest.mark.more_of("logistic", "sphere", "committee")
@pytest.mark.parametrize("case", RUNS)
def test_runs_agree(case):
    problem, times = RUNS[case]
    sim, pred = ll.simulate(problem, d=400, times=times, replicas=40, seed=2), ode(problem, times)
    for name in ("risk", "M", "Q", "squared_norm", "Q_mode"):
        x, y = sim[name].isel(time=-1), pred[name].isel(time=-1)
        spread = np.maximum(x.std("replica", ddof=1), 1e-12) / np.sqrt(40)
        extra = 0.0
        if "risk_error" in sim and name == "risk":  # measured on draws that replicas do not share
            extra = float((sim.risk_error.isel(time=-1) ** 2).mean()) / 40
        z = (x.mean("replica") - y) / np.sqrt(spread**2 + extra)
        assert float(abs(z).max()) < 4 or (name == "squared_norm" and case == "sphere"), (name, z.values)
    assert set(sim.status.values.tolist()) == {"ok"}


def test_what_is_not_known_is_refused_in_words():
    with pytest.raises(ll.errors.InputError, match="limiting start only"):
        ode(committee(TWO), d=100)
    with pytest.raises(ll.errors.InputError, match="least squares only"):
        ode(line(TWO), d=100)
    with pytest.raises(ll.errors.LimitUndefinedError, match="one linear unit"):
        ode(dataclasses.replace(line(TWO), student=ll.Committee(3, "erf")))
    with pytest.raises(ll.errors.LimitUndefinedError, match="without weight_decay"):
        ode(line(TWO, weight_decay=0.1))
    with pytest.raises(ll.errors.InputError, match="overlaps are all that matters"):
        ll.simulate(committee(TWO), d=40, times=[0.0, 0.1], representation="overlaps")
