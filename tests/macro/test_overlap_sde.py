"""The diffusion of the overlaps: covariance of one increment, law of the paths, and the edges of the feasible set."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import committee
from cases import projected as square
from cases import skewed as erf
from increments import at_start, closed_sigma, mean_increment, sigma
from limitlab.macro.overlaps import overlap_sde
from limitlab.macro.overlaps.drift import drift
from limitlab.macro.overlaps.increments import (
    coordinates,
    flatten,
    sample_rule,
    unflatten,
)
from limitlab.macro.overlaps.overlap_sde import OverlapSDE, draw, feasible, noise
from limitlab.numerics.trees import as_arrays
from limitlab.states.overlaps import Overlaps, initial_overlaps, limit_overlaps, start_key
from scores import log_variance_score, mean_score, moment_scores

PATHS = 1500
TIMES = np.array([0.1, 0.5])


def plain(learning_rate):
    """The same without sphere, with a trained second layer and batches."""
    return committee("square", "square", 1, 1, learning_rate, 0.2, trained=True, batch_size=2)


def overlap(data):
    """m(t) of every path: (path, time)."""
    return data.M.values[:, :, 0, 0].T


def test_increment_covariance_is_the_closed_form_for_projected_squares():
    for m, gamma, delta in [(0.3, 0.05, 0.2), (0.0, 0.1, 0.0), (-0.7, 0.02, 1.0), (0.95, 0.15, 0.3), (1.0, 0.1, 0.5)]:
        _, cov = at_start(square(m, gamma, delta))
        assert cov[0, 0] == pytest.approx(closed_sigma(m, gamma, delta), rel=1e-11)
        assert np.all(np.abs(cov[1:]) < 1e-11)  # the norm is fixed, and so is the second layer
    assert closed_sigma(0.3, 0.05, 0.2) == pytest.approx(42.00, abs=0.005)


def test_readings_with_scalar_deviations_are_wrong():
    m = 0.3
    _, cov = at_start(square(m, spherical=False))  # coordinates: m, Q, a
    row = np.array([1.0, -m / 2, 0.0])
    true = closed_sigma(m, 0.05, 0.2)
    assert row @ cov @ row == pytest.approx(true, rel=1e-12)
    deviation = np.sqrt(np.diag(cov))
    assert (row @ deviation) ** 2 == pytest.approx(20.4, abs=0.05)  # one B for both
    assert (row**2) @ deviation**2 == pytest.approx(70.9, abs=0.05)  # one B each
    assert true == pytest.approx(42.0, abs=0.05)


def test_two_rules_agree_on_the_covariance():
    for problem in (erf(), square()):
        start, cov = at_start(problem)
        twin = sigma(as_arrays(problem), start, as_arrays(sample_rule(problem, twin=True)))
        np.testing.assert_allclose(twin, cov, atol=1e-8 * np.abs(cov).max())


def test_noise_has_mean_zero_and_the_full_covariance():
    problem = erf()
    start, cov = at_start(problem)
    live = as_arrays(problem)

    def one(key):
        return flatten(noise(live, start, *draw(start, key, 4)))

    kicks = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 60_000)))
    z_mean, z_cov = moment_scores(kicks, np.zeros(len(cov)), cov)
    assert np.max(np.abs(z_mean)) < 4
    assert np.max(np.abs(z_cov)) < 4.5
    third = kicks[:, 0] ** 3
    assert abs(third.mean()) < 4 * third.std() / np.sqrt(len(third))
    # Controls: the mean not subtracted, and the correlations dropped.
    b = mean_increment(problem)
    assert np.max(np.abs(moment_scores(kicks, 0 * b, cov + np.outer(b, b))[1])) > 10
    assert np.max(np.abs(moment_scores(kicks, 0 * b, np.diag(np.diag(cov)))[1])) > 10


def test_flatten_and_unflatten_are_inverse():
    start = limit_overlaps(erf())
    vector = jnp.arange(7.0)
    assert len(coordinates(2, 1)) == len(flatten(start)) == 7
    np.testing.assert_array_equal(flatten(unflatten(vector, start.P)), vector)
    assert coordinates(2, 1) == ("M[0,0]", "M[1,0]", "Q[0,0]", "Q[0,1]", "Q[1,1]", "a[0]", "a[1]")
    np.testing.assert_array_equal(unflatten(flatten(start), start.P).omega, start.omega)


@pytest.mark.more
def test_half_the_step_gives_the_same_law():
    coarse, fine = (
        ll.predict(square(), OverlapSDE(d=100, replicas=PATHS, seed=seed, step=step), TIMES)
        for seed, step in ((3, 0.05), (4, 0.0125))
    )
    assert fine.attrs["steps"] > 2 * coarse.attrs["steps"]
    assert np.max(np.abs(log_variance_score(overlap(coarse), overlap(fine)))) < 4
    assert np.max(np.abs(mean_score(overlap(coarse), overlap(fine)))) < 4


def test_feasible_changes_only_what_no_weights_have():
    eye = jnp.eye(1)
    good = Overlaps(jnp.array([[1.0, 0.3], [0.3, 2.0]]), jnp.array([[0.5], [-0.2]]), eye, jnp.ones(2))
    same, moved = feasible(good, eye, False)
    assert not moved
    np.testing.assert_allclose(same.omega, good.omega, atol=1e-14)
    bad = Overlaps(jnp.array([[1.0, 0.9], [0.9, 0.1]]), jnp.array([[0.5], [0.6]]), eye, jnp.ones(2))
    assert np.linalg.eigvalsh(bad.omega)[0] < -0.1
    for spherical in (False, True):
        mended, moved = feasible(bad, eye, spherical)
        assert moved
        assert np.linalg.eigvalsh(mended.omega)[0] > -1e-12
        if spherical:
            np.testing.assert_allclose(np.diagonal(mended.Q), 1.0, rtol=1e-15)
        else:
            np.testing.assert_array_equal(mended.M, bad.M)


@pytest.mark.parametrize("spherical", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_paths_stay_feasible_from_singular_starts(spherical):
    twins = ll.OverlapStart(Q=[[1.0, 1.0], [1.0, 1.0]], M=[[0.999], [0.999]], P=[[1.0]])
    problem = committee("square", "square", 2, 1, 0.05, 0.5, twins, spherical=spherical)
    data = ll.predict(problem, OverlapSDE(d=20, replicas=64), np.linspace(0, 1, 6))
    assert set(data.status.values) == {"ok"}
    P = np.broadcast_to(data.P.values, (6, 64, 1, 1))
    omega = np.block([[data.Q.values, data.M.values], [np.swapaxes(data.M.values, -1, -2), P]])
    assert np.linalg.eigvalsh(omega)[..., 0].min() > -1e-9
    assert float(data.M[-1].std()) > 1e-3
    if spherical:
        np.testing.assert_allclose(np.diagonal(data.Q.values, axis1=2, axis2=3), 1.0, rtol=1e-14)
        assert float(abs(data.M).max()) <= 1 + 1e-12
    np.testing.assert_allclose(data.Q.values[:, :, 0, 0], data.Q.values[:, :, 0, 1], atol=1e-6)  # twins stay twins


def test_a_diverging_path_says_when():
    times = np.array([0.0, 1e-4, 1.0])
    data = ll.predict(plain(10.0), OverlapSDE(d=10**6, replicas=8), times)
    assert set(data.status.values) == {"diverged"}
    assert np.all((data.end_time > 1e-4) & (data.end_time < 1))
    assert np.all(np.isfinite(data.M[:2]))
    assert np.all(np.isnan(data.M[2]))
    assert np.all(np.isnan(data.risk[2]))


def test_paths_start_where_sgd_starts_and_can_be_had_again():
    problem = committee("square", "square", 1, 1, 0.05, 0.2, ll.RandomStart(), spherical=True)
    first, again = (ll.predict(problem, OverlapSDE(d=50, replicas=PATHS, seed=3), [0.0, 0.2]) for _ in range(2))
    draw_start = jax.jit(lambda key: initial_overlaps(problem, key, 50.0))  # what simulate does
    for r in (0, 5):
        np.testing.assert_allclose(first.M[0, r], draw_start(start_key(3, r)).M, rtol=1e-12)
    np.testing.assert_array_equal(first.M, again.M)
    assert len(np.unique(first.M[1])) == PATHS


def test_one_compilation_serves_other_numbers(monkeypatch):
    calls = []
    monkeypatch.setattr(overlap_sde, "drift", lambda *args: calls.append(1) or drift(*args))
    few = ll.predict(square(), OverlapSDE(d=100, replicas=7), [0.1])
    assert calls  # control: a new shape is traced
    calls.clear()
    ll.predict(square(0.2, 0.06, 0.3), OverlapSDE(d=300, replicas=7, seed=9, step=0.02), [0.05, 0.2, 0.4])
    assert not calls
    many = ll.predict(square(), OverlapSDE(d=100, replicas=PATHS), [0.1])
    np.testing.assert_allclose(many.M[:, :7], few.M, rtol=1e-9)  # a path does not know of the others


def test_bad_requests_are_refused_in_words():
    with pytest.raises(ll.errors.InputError, match=r"OverlapSDE.step = 1e-300 makes 1e\+300 steps up to t = 1"):
        ll.predict(square(0.2, 0.06, 0.3), OverlapSDE(d=300, step=1e-300), [1.0])
    with pytest.raises(ll.errors.InputError, match=r"OverlapSDE.d must be at least 2.*got 1"):
        ll.predict(square(), OverlapSDE(d=1), [0.1])
    for field, value in (("d", 0), ("replicas", 0), ("samples", 1), ("step", 0.0), ("seed", -1), ("method", "x")):
        with pytest.raises(ll.errors.InputError, match=rf"OverlapSDE.{field} must be"):
            OverlapSDE(**{field: value})
    with pytest.raises(ll.errors.LimitUndefinedError, match="OverlapSDE needs Gaussian inputs"):
        ll.predict(eqx.tree_at(lambda p: p.inputs, square(), ll.Hypercube()), OverlapSDE(), [0.1])
    with pytest.raises(ll.errors.ConvergenceError, match="linear_noise diverged at t="):
        ll.analysis.linear_noise(square(learning_rate=1.0, spherical=False), 100, [50.0])
