"""The effective ridge and its errors: against direct fits' exact identities, printed figures and a scalar solver."""

import numpy as np
import pytest
from scipy.optimize import brentq

from limitlab.errors import InputError
from limitlab.numerics.spectral_ridge import effective_ridge, spectral_ridge

TWO = np.array([0.1, 3.7]) / 200  # raw units of c = (.1, 3.7), shares (.75, .25), d = 200
SHARES = np.array([150.0, 50.0])


@pytest.mark.parametrize(
    ("n", "penalty", "mse"),
    [(50, 0.0, 0.78827), (150, 0.0, 0.92545), (250, 0.0, 1.0), (200, 0.01, 0.52896)],
)
def test_two_atoms_give_the_printed_errors(n, penalty, mse):
    got = spectral_ridge(TWO, TWO * SHARES, 0.2, n, penalty, counts=SHARES)  # t^2 = 1
    assert float(got.test) == pytest.approx(mse, abs=6e-6)


@pytest.mark.parametrize("rows", [np.inf, 300.0])
@pytest.mark.parametrize("free", [0.0, 1.0])
def test_kappa_solves_its_equation_for_all_samples_and_penalties_at_once(rows, free):
    s = np.arange(1, 101) ** -1.5
    n, lam = np.array([2, 30, 99, 101, 102, 290.0])[:, None], np.array([0.0, 1e-9, 1e-3, 1.0, 1e4])
    kappa = effective_ridge(s, n, lam, rows=rows, free=free)
    assert kappa.shape == (6, 5)
    for i, j in np.ndindex(kappa.shape):
        N, L = float(n[i, 0]), float(lam[j])

        def off(x, N=N, L=L):
            k = np.exp(x)
            df1 = np.sum(s / (s + k)) + free
            return df1 + L / k * (1 - df1 / rows) - N

        if L == 0 and N >= 100 + free:
            assert kappa[i, j] == 0
        else:
            assert np.log(kappa[i, j]) == pytest.approx(float(brentq(off, -60, 30, xtol=1e-14)), abs=1e-9)  # type: ignore[arg-type]


def test_equal_modes_can_be_counted_and_split():
    s, v2 = np.array([1.0, 0.3, 0.01]), np.array([0.5, 0.3, 0.1])
    once = spectral_ridge(s, v2, 0.1, [5.0, 40.0], 0.02, counts=[3, 7, 20])
    many = np.repeat(s, [3, 7, 20])
    apart = spectral_ridge(many, np.repeat(v2 / [3, 7, 20], [3, 7, 20]), 0.1, [5.0, 40.0], 0.02)
    for a, b in zip(once, apart, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_the_whole_pool_is_generalised_cross_validation():
    rng = np.random.default_rng(0)
    N, d, lam = 80, 30, 0.7
    X, y = rng.standard_normal((N, d)) * np.linspace(0.1, 2, d), rng.standard_normal(N)
    U, root, _ = np.linalg.svd(X, full_matrices=False)
    v2 = (U.T @ y) ** 2 / N
    got = spectral_ridge(root**2 / N, v2, np.mean(y**2) - v2.sum(), N, lam, rows=N)
    hat = X @ np.linalg.solve(X.T @ X + lam * np.eye(d), X.T)
    train = np.mean((y - hat @ y) ** 2)
    assert float(got.kappa) == pytest.approx(lam / N, rel=1e-13)
    assert float(got.train) == pytest.approx(train, rel=1e-12)
    assert float(got.test) == pytest.approx(train / (1 - np.trace(hat) / N) ** 2, rel=1e-12)


def test_new_samples_obey_generalised_cross_validation_and_a_large_pool_is_one_of_new_samples():
    s = np.arange(1, 61) ** -1.2
    n, lam = np.array([10.0, 60.0, 200.0]), 1e-2
    new = spectral_ridge(s, s / 2, 0.3, n, lam)
    np.testing.assert_allclose(new.train / (1 - new.df1 / n) ** 2, new.test, rtol=1e-12)
    np.testing.assert_allclose(n, new.df1 + lam / new.kappa, rtol=1e-13)
    pool = spectral_ridge(s, s / 2, 0.3, n, lam, rows=1e9)
    np.testing.assert_allclose(pool.test, new.test, rtol=1e-6)
    small = spectral_ridge(s, s / 2, 0.3, n, lam, rows=220)
    assert np.all(np.abs(small.test / new.test - 1) > 0.02)  # the control: N counts


def test_the_ridgeless_peak_is_infinite_and_zero_modes_are_noise():
    s = np.array([1.0, 0.5, 0.0])
    at = spectral_ridge(s, [0.4, 0.2, 0.3], 0.1, [1.0, 2.0, 3.0], 0.0)
    assert np.isinf(at.test[1]) and at.train[1] == 0 and at.kappa[1] == 0
    assert at.test[2] == pytest.approx(3 * 0.4 / (3 - 2))
    assert at.train[0] == 0 and np.isfinite(at.test[0])


def test_an_empty_spectrum_is_the_mean():
    got = spectral_ridge(np.zeros(0), np.zeros(0), 2.0, 10.0, 0.5, free=1)
    assert float(got.test) == pytest.approx(2.0 * 10 / 9)


def test_impossible_points_are_refused_in_words():
    with pytest.raises(InputError, match="at most 20, the rows of the pool"):
        effective_ridge([1.0], 21, 0.1, rows=20)
    with pytest.raises(InputError, match="more than 1, the modes without penalty"):
        effective_ridge([1.0], 1, 0.1, free=1)
    with pytest.raises(InputError, match="penalty must be finite and >= 0"):
        effective_ridge([1.0], 3, -0.1)
    with pytest.raises(InputError, match="finite numbers >= 0"):
        effective_ridge([-1.0], 3, 0.1)
