"""Power laws with infinitely many modes: ridge regression, one-pass SGD, and what compute buys."""

import numpy as np
import pytest
from scipy.optimize import brentq

import limitlab as ll

TABLE = [  # decay, target_decay: mse without noise or penalty, excess with noise 0.1 and the best penalty, at n = 1000
    (1.5, 1.8, 0.01188431, 0.0339057),
    (2.0, 3.0, 2.463703e-6, 0.00274949),
    (1.5, 6.0, 2.5440139e-8, 0.00150660),
]


@pytest.mark.parametrize(("a", "b", "ridgeless", "best"), TABLE)
def test_ridge_regression_on_infinitely_many_modes(a, b, ridgeless, best):
    law = ll.PowerLaw(a, b)
    none = law.learning_curve(penalty=0.0, samples=[1e3, 1e4])
    np.testing.assert_allclose(none.mse[0], ridgeless, rtol=1e-6)
    assert np.all(none.train_mse == 0)
    np.testing.assert_allclose(none.fitted_exponent, none.predicted_exponent, atol=2e-3)
    noisy = law.learning_curve(samples=[1e3, 1e4, 1e5], noise=0.1)
    np.testing.assert_allclose(noisy.excess[0], best, rtol=3e-6)
    np.testing.assert_allclose(noisy.predicted_exponent, -min(b - 1, 2 * a) / (1 + min(b - 1, 2 * a)))
    assert abs(noisy.fitted_exponent - noisy.predicted_exponent) < 0.04
    near = [
        law.learning_curve(penalty=float(noisy.penalty[0]) * f, samples=[1e3], noise=0.1).mse[0] for f in (0.9, 1.1)
    ]
    assert min(near) > noisy.mse[0]


def test_the_effective_ridge_of_an_infinite_law():
    from limitlab.numerics.spectral_ridge import effective_ridge

    for a in (1.5, 2.0):
        modes = ll.PowerLaw(a, 2.0).raw()
        kappa = effective_ridge(modes.s, 1e4, modes.beyond, counts=modes.counts)
        np.testing.assert_allclose(kappa * 1e4**a, (np.pi / (a * np.sin(np.pi / a))) ** a, rtol=2e-3)
        np.testing.assert_allclose(
            modes.s @ modes.counts + modes.beyond, {1.5: 2.612375349, 2.0: np.pi**2 / 6}[a], rtol=1e-7
        )


def test_finitely_many_modes_and_a_fixed_penalty():
    few, many = (ll.PowerLaw(1.5, 1.8, modes=m).learning_curve(penalty=0.1, samples=[50, 100]) for m in (200, 2000))
    k = np.arange(1.0, 2001)
    kappa = brentq(lambda x: np.sum(k**-1.5 / (k**-1.5 + x)) + 0.1 / x - 100, 1e-6, 1e3, xtol=1e-14)
    L = k**-1.5 / (k**-1.5 + kappa)
    direct = 100 * np.sum(k**-1.8 * (1 - L) ** 2) / (100 - np.sum(L**2))
    np.testing.assert_allclose(many.mse[1], direct, rtol=1e-6)
    assert few.mse[1] < many.mse[1] and few.predicted_exponent is None
    fixed = ll.PowerLaw(1.5, 1.8).learning_curve(penalty=1.0, samples=np.geomspace(1e9, 1e12, 8), noise=0.1)
    np.testing.assert_allclose(fixed.fitted_exponent, fixed.predicted_exponent, atol=0.03)
    assert fixed.samples_for(fixed.mse[3]) == pytest.approx(fixed.samples[3], rel=1e-6)
    assert fixed.prediction.generalisation_error.dims == ("samples",)


@pytest.mark.parametrize(
    ("a", "b", "measured"), [(1.5, 1.5, -0.3332), (1.5, 2.5, -1.0026), (1.5, 4.5, -1.3323), (2, 1.6, -0.3004)]
)
def test_exponents_of_one_pass_sgd(a, b, measured):
    found = ll.scaling_law(ll.PowerLaw(a, b), 0.3, [1e6, 1e7])
    np.testing.assert_allclose(found.fitted_exponent, measured, atol=4e-3)
    np.testing.assert_allclose(found.predicted_exponent, -min((b - 1) / a, 2 - 1 / a))
    assert found.status == "ok" and "predicted" in str(found)
    bent = ll.scaling_law(ll.PowerLaw(a, b), 0.3, [1e6, 1e7], modes=100)  # a finite list of modes bends the curve
    assert "bends" in bent.note


def test_compute_optimal_widths():
    found = ll.scaling_law(ll.PowerLaw(1.5, 1.5), 0.3, np.geomspace(10, 1e7, 61), modes=2 ** np.arange(3, 12))
    np.testing.assert_allclose(found.compute_exponent, found.predicted_compute_exponent, atol=0.015)
    np.testing.assert_allclose(found.width_exponent, found.predicted_width_exponent, atol=0.06)
    np.testing.assert_allclose([found.predicted_compute_exponent, found.predicted_width_exponent], [-0.2, 0.4])
    again = ll.scaling_law(ll.PowerLaw(1.5, 1.5), 0.3, [100], modes=8)
    D = np.arange(1.0, 9) ** 0.0  # s_i t_i^2 = i^-1.5 and s_i = i^-1.5
    s = np.arange(1.0, 9) ** -1.5
    rest = 2.612375348685488 - s.sum()
    for _ in range(100):
        D = (1 - 0.6 * s + 2 * 0.09 * s**2) * D + 0.09 * s * (s @ D) + 0.09 * rest * s
    np.testing.assert_allclose(again.mse[0, 0], s @ D + rest, rtol=1e-7)


def test_too_fast_a_rate_is_a_status():
    found = ll.scaling_law(ll.PowerLaw(1.5, 2.0), 3.0, [10, 1000])
    assert found.status == "diverged" and "too large" in found.note


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ll.scaling_law(ll.Spectrum([1.0]), 0.1, [10]), "a power law"),
        (lambda: ll.scaling_law(ll.PowerLaw(0.9, 2.0), 0.1, [10]), "decay > 1"),
        (lambda: ll.scaling_law(ll.PowerLaw(1.5, 2.0), -0.1, [10]), "learning_rate must be"),
        (lambda: ll.scaling_law(ll.PowerLaw(1.5, 2.0), 0.1, [10, 5]), "steps must be"),
        (lambda: ll.scaling_law(ll.PowerLaw(1.5, 2.0), 0.1, [10], modes=0), "modes must be"),
        (lambda: ll.PowerLaw(1.5, 1.0).learning_curve(samples=[10]), "target_decay > 1"),
        (lambda: ll.PowerLaw(1.5, 2.0).learning_curve(samples=[10, 5]), "samples must be"),
        (lambda: ll.PowerLaw(1.5, 2.0).learning_curve(samples=[10], noise=-1), "noise must be"),
        (lambda: ll.PowerLaw(1.5, 2.0).learning_curve(ll.LogisticLoss(), samples=[10]), "known for SquareLoss"),
    ],
)
def test_bad_input_is_answered_in_words(make, words):
    with pytest.raises(ll.errors.InputError, match=words):
        make()
