"""Which limit governs, against the equations and against SGD itself."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import committee
from limitlab.analysis.regime import REGIONS, regime, regime_diagram, regime_of
from limitlab.macro.overlaps.drift import drift
from limitlab.states.overlaps import Overlaps, error_coefficients, error_sum


@pytest.mark.parametrize(
    ("kappa", "delta", "region", "limit", "exponents"),
    [
        # exponents: variance, fluctuation, samples
        (0.0, 0.0, "learning-rate noise", "OverlapODE", (0, -0.5, 1)),
        (0.0, 0.5, "gradient flow", "OverlapODE", (-0.5, -0.75, 1.5)),
        (0.5, 0.0, "gradient flow", "HighDimMeanField", (-0.5, -0.75, 1.5)),
        (0.3, -0.3, "learning-rate noise", "OverlapODE", (0, -0.5, 1)),
        (0.0, -0.25, "noise dominated", "OverlapODE", (0.25, -0.25, 0.5)),
        (0.0, -0.5, "no deterministic limit", "none", (0.5, 0, 0)),
        (1.0, -1.4, "noise dominated", "OverlapODE", (0.4, -0.1, 0.2)),
        (0.0, -2.0, "no deterministic limit", "none", (2, 1.5, -3)),
    ],
)
def test_regions_of_the_phase_diagram(kappa, delta, region, limit, exponents):
    point = regime(kappa, delta)
    assert (point.region, point.limit) == (region, limit)
    values = (point.variance_exponent, point.fluctuation_exponent, point.samples_exponent)
    np.testing.assert_allclose(values, exponents, atol=1e-12)
    assert point.noise_exponent == point.variance_exponent
    assert region in str(point)


def test_words_say_what_remains():
    assert "does not hold" in regime(0.4, -0.4).words  # HighDimMeanField drops what stays at finite gamma/p
    assert "does not hold" not in regime(0.0, 0.0).words
    assert "norm of Q" in regime(1.0, -1.4).words  # between our boundary and that of Veiga et al.
    assert "norm of Q" not in regime(0.0, -0.4).words
    with pytest.raises(ll.errors.InputError, match="kappa"):
        regime(-0.1, 0.0)


def test_the_variance_term_falls_as_one_over_the_width():
    """Same gamma, wider student: (gamma/p) Psi_Var falls as 1/p against the drift of M; not so with gamma ~ p."""

    def share(p, gamma):
        problem = committee("square", "square", p=p, k=1, learning_rate=gamma, variance=0.3)
        W = np.random.default_rng(0).standard_normal((p, 400))
        W[:, 0] += 0.3 * 20
        overlaps = Overlaps(*map(jnp.asarray, (W @ W.T / 400, W[:, :1] / 20, np.eye(1), np.ones(p))))
        sums = error_sum(problem)
        with_noise, without = (sums(overlaps.omega, error_coefficients(problem, overlaps.a), x).V for x in (0.3, 0.0))
        flow = float(jnp.mean(jnp.abs(drift(problem, sums, overlaps).M)))
        variance = gamma / p * float(jnp.mean(jnp.diagonal(with_noise)))
        noise = gamma / p * float(jnp.mean(jnp.diagonal(with_noise - without)))
        return np.array([variance, noise]) / flow

    fixed = [share(p, 0.1) for p in (16, 64, 256)]
    for wide, wider in itertools.pairwise(fixed):
        np.testing.assert_allclose(wide / wider, 4, rtol=0.2)
    growing = [share(p, 0.1 * p) for p in (16, 64, 256)]  # kappa + delta = 0: it stays
    for wide, wider in itertools.pairwise(growing):
        np.testing.assert_allclose(wide / wider, 1, rtol=0.2)


def _norm_after_one_unit(d, s, runs, seed=0):
    """Q of one erf unit after t' = (gamma/p)^2 step/d = 1, gamma = d^-s, by the exact chain of (Q, m)."""
    rng = np.random.default_rng(seed)
    gamma = d**-s
    Q, m = np.ones(runs), np.zeros(runs)
    for _ in range(max(round(d / gamma**2), 1)):
        z, y, noise = rng.standard_normal((3, runs))
        star = m / np.sqrt(Q) * z + np.sqrt(np.maximum(1 - m**2 / Q, 0)) * y
        lam = np.sqrt(Q) * z
        x2 = (z**2 + y**2 + rng.chisquare(d - 2, runs)) / d
        error = _erf(star) + noise - _erf(lam)
        push = gamma * np.sqrt(2 / np.pi) * np.exp(-(lam**2) / 2) * error
        m, Q = m + push * star / d, Q + (2 * push * lam + push**2 * x2) / d
    return Q, m


def _erf(x):
    from scipy.special import erf

    return erf(x / np.sqrt(2))


def test_the_norm_becomes_deterministic_above_minus_one_half_and_not_at_it():
    """s = -1/4: the spread of Q falls as d^(-1/4); s = -1/2: it does not fall at all, though gamma/d does."""
    spread = {}
    for s, d in itertools.product((-0.25, -0.5), (10**3, 10**5)):
        Q, m = _norm_after_one_unit(d, s, runs=2000)
        spread[s, d] = Q.std()
        assert Q.mean() > 1.2  # the noise alone has moved Q
        assert abs(m.mean()) < 0.4 * d**s  # while M stands still: its drift is slower by p/gamma
    slope = math.log(spread[-0.25, 10**5] / spread[-0.25, 10**3]) / math.log(100)
    assert slope == pytest.approx(regime(0.0, -0.25).fluctuation_exponent, abs=0.04)
    slope = math.log(spread[-0.5, 10**5] / spread[-0.5, 10**3]) / math.log(100)
    assert slope == pytest.approx(regime(0.0, -0.5).fluctuation_exponent, abs=0.04)
    # Negative control: the clock t alone, sqrt(gamma/d), would have promised a limit at s = -1/2.
    assert abs(slope - (-(1 - 0.5) / 2)) > 0.2


def test_regime_of_a_problem_is_in_numbers():
    wide = regime_of(committee(p=400, k=1, learning_rate=0.5, variance=0.2), 10**4)
    assert wide.limit == "HighDimMeanField"
    assert wide.variance == pytest.approx(0.5 / 400)
    assert wide.noise == pytest.approx(0.2 * 0.5 / 400)
    assert wide.fluctuation == pytest.approx(math.sqrt(0.5 / 400 / 1e4))
    assert wide.samples_per_time == pytest.approx(400 * 1e4 / 0.5)
    assert regime_of(committee(p=4, learning_rate=1.0), 1000).limit == "OverlapODE"
    assert regime_of(committee(p=400, learning_rate=400.0), 10**4).limit == "OverlapODE"  # the term in gamma/p stays
    assert regime_of(committee(p=2, learning_rate=100.0), 100).limit == "none"
    batch = regime_of(committee(p=4, learning_rate=1.0, batch_size=5), 1000)
    assert batch.variance == pytest.approx(0.05)
    fields = {name: getattr(committee(), name) for name in ("teacher", "student", "loss", "start")}
    other = ll.Problem(**fields, algorithm=ll.GAMP())
    with pytest.raises(ll.errors.LimitUndefinedError, match="OnlineSGD"):
        regime_of(other, 100)


def test_the_diagram_is_the_function_on_a_grid():
    kappas, deltas = np.linspace(0, 1, 5), np.linspace(-2, 1, 13)
    table = regime_diagram(kappas, deltas)
    assert table["region"].shape == (5, 13)
    for kappa, delta in itertools.product(kappas, deltas):
        here = table.sel(kappa=kappa, delta=delta)
        assert str(here["region"].values) == regime(kappa, delta).region
        assert float(here["samples_exponent"]) == regime(kappa, delta).samples_exponent
    assert set(np.unique(table["region"])) == set(REGIONS)
