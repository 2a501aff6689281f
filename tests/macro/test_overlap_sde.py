"""The diffusion of the overlaps: covariance of one increment, law of the paths, and the edges of the feasible set."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
import stepping
from cases import committee, parsed
from limitlab.macro.overlaps import overlap_sde
from limitlab.macro.overlaps.drift import drift
from limitlab.macro.overlaps.finite_size import finite_size_drift
from limitlab.macro.overlaps.increments import (
    coordinates,
    covariance,
    flatten,
    increment_sum,
    noise_variance,
    sample_rule,
    unflatten,
)
from limitlab.macro.overlaps.overlap_sde import OverlapSDE, draw, feasible, noise
from limitlab.numerics.linalg import gram_factor
from limitlab.numerics.trees import as_arrays
from limitlab.states.overlaps import Overlaps, error_sum, initial_overlaps, limit_overlaps, start_key

PATHS = 1500
TIMES = np.array([0.1, 0.5])
SKEW = ll.OverlapStart(Q=[[1.0, 0.2], [0.2, 1.0]], M=[[0.4], [-0.1]], P=[[1.0]])

sigma, slope = eqx.filter_jit(covariance), eqx.filter_jit(drift)


def square(m=0.3, learning_rate=0.05, variance=0.2, spherical=True):
    """The p = k = 1 problem on which the formula sheet has closed forms."""
    return committee(
        "square", "square", 1, 1, learning_rate, variance, ll.InformedStart(overlap=m), spherical=spherical
    )


def plain(learning_rate):
    """The same without sphere, with a trained second layer and batches."""
    return committee("square", "square", 1, 1, learning_rate, 0.2, trained=True, batch_size=2)


def erf(learning_rate=1.0, start=SKEW, trained=True, **algorithm):
    return committee("erf", "erf", 2, 1, learning_rate, 0.2, start, trained=trained, **algorithm)


def at_start(problem):
    start = limit_overlaps(problem)
    return start, np.asarray(sigma(as_arrays(problem), start, as_arrays(sample_rule(problem))))


def mean_increment(problem):
    """E[X] over the nodes of the rule."""
    start, rule = limit_overlaps(problem), sample_rule(problem)
    n = start.omega.shape[0]
    s = jnp.asarray(rule.nodes[:, :n]) @ gram_factor(start.omega).T
    total = jax.jit(lambda *args: flatten(increment_sum(problem, start, *args)))
    return np.asarray(total(s, jnp.asarray(rule.nodes[:, n]), jnp.asarray(rule.weights)))


def closed_sigma(m, gamma, delta):
    """Variance of the projected increment of m, section 4 of the sheet."""
    s2 = 1 - m**2
    b = m * (4 * (1 - 6 * gamma) * s2 - 2 * gamma * delta)
    first = 48 * s2**2 * (1 + 2 * m**2) + 4 * delta * s2
    second = -2 * gamma * m**2 * s2 * (1440 * s2 + 72 * delta)
    third = s2**2 * (31680 - 11520 * m**2) + delta * s2 * (2016 - 576 * m**2) + 36 * delta**2
    return first + second + gamma**2 * m**2 * third - b**2


def closed_path(t, m=0.3, gamma=0.05, delta=0.2):
    """m(t) of the ODE of the projected square, section 3 of the sheet."""
    beta = 4 * (1 - 6 * gamma)
    alpha = beta - 2 * gamma * delta
    growth = np.exp(2 * alpha * t)
    return np.sqrt(alpha * m**2 * growth / (alpha + beta * m**2 * (growth - 1)))


def moment_scores(samples, mean, cov):
    """z-scores of sample mean and of all sample second moments about the known mean."""
    n, centred = len(samples), samples - mean
    second = np.einsum("ni,nj->nij", centred, centred)

    def z(x, target):
        error = x.std(0) / np.sqrt(n)
        moving = error > 1e-9
        return ((x.mean(0) - target)[moving]) / error[moving]

    return z(samples, mean), z(second, cov)


def log_variance_score(x, y):
    """z-score of log(var x / var y), with errors from the fourth moments; one row per path."""
    logs, errors = [], []
    for sample in (x, y):
        centred = sample - sample.mean(0)
        variance = (centred**2).mean(0)
        logs.append(np.log(variance))
        errors.append(((centred**4).mean(0) / variance**2 - 1) / len(sample))
    return (logs[0] - logs[1]) / np.sqrt(errors[0] + errors[1])


def mean_score(x, y):
    return (x.mean(0) - y.mean(0)) / np.sqrt(x.var(0) / len(x) + y.var(0) / len(y))


def overlap(data):
    """m(t) of every path: (path, time)."""
    return data.M.values[:, :, 0, 0].T


@pytest.fixture(scope="module")
def sgd():
    return ll.simulate(square(), d=100, times=TIMES, replicas=PATHS, seed=1, representation="overlaps")


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


def test_mean_increment_is_the_drift():
    wide = partial(committee, "square", "square", 2, 1, 0.3, 0.2, SKEW, trained=True)
    for problem in (erf(), wide(), wide(spherical=True), wide(batch_size=3)):
        expected = flatten(slope(as_arrays(problem), error_sum(problem), limit_overlaps(problem)))
        np.testing.assert_allclose(mean_increment(problem), expected, atol=1e-8)
        assert float(jnp.max(jnp.abs(expected))) > 0.05


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


def exact_steps(problem, d, n=200_000):
    """Increments of n independent SGD steps from the limiting start, in units of the clock."""
    start, keys = limit_overlaps(problem), jax.random.split(jax.random.key(0), n)
    state = {name: getattr(start, name) for name in ("Q", "M", "P", "a")}
    after = stepping.one_steps(problem, state, d, keys, columns=len(start.omega))
    seen = jax.jit(jax.vmap(lambda state: flatten(Overlaps(**state))))(after)
    return (np.asarray(seen) - np.asarray(flatten(start))) / problem.algorithm.clock(problem, d)


def linear(learning_rate, batch):
    return committee("linear", "linear", 2, 1, learning_rate, 0.2, SKEW, trained=True, spherical=True, batch_size=batch)


@pytest.mark.parametrize("case", ["batch", pytest.param("erf", marks=pytest.mark.slow)])
def test_one_step_of_sgd_has_this_covariance(case):
    d, problem = 10**6, linear(1.0, 2) if case == "batch" else erf(spherical=True)
    batch = problem.algorithm.batch_size
    _, cov = at_start(problem)
    scale = float(noise_variance(parsed(problem), d)) / problem.algorithm.clock(problem, d)
    assert scale == pytest.approx(1 / batch)
    b, moves = mean_increment(problem), exact_steps(problem, d)
    z_mean, z_cov = moment_scores(moves, b, cov * scale)
    assert len(z_mean) == 5  # two of M, one of Q, two of a move
    assert max(np.max(np.abs(z_mean)), np.max(np.abs(z_cov))) < 4.5
    if batch > 1:
        assert np.max(np.abs(moment_scores(moves, b, cov)[1])) > 10  # control: a batch counted as one sample


@pytest.mark.parametrize("case", ["sphere and batch", "norm"])
def test_finite_size_drift_is_the_mean_of_a_step_at_small_d(case):
    d, problem = 100, linear(4.0, 2)
    if case == "norm":
        d, problem = 20, committee("square", "square", 2, 1, 0.3, 0.2, SKEW)
    start, sums, live = limit_overlaps(problem), error_sum(problem), as_arrays(parsed(problem))
    delta = problem.algorithm.clock(problem, d)
    s, z, _ = draw(start, jax.random.key(7), 200_000)
    b = slope(live, sums, start)
    ahead = slope(live, sums, jax.tree.map(lambda y, v: y + delta * v, start, b))
    b, ahead = np.asarray(flatten(b)), np.asarray(flatten(ahead))
    correct = eqx.filter_jit(finite_size_drift)(live, sums, start, jnp.asarray(float(d)), s, z)
    # Without the part that stands for discrete time, which a single step does not show:
    extra = np.asarray(flatten(correct)) + (ahead - b) / 2
    moves = exact_steps(problem, d)
    error = moves.std(0) / np.sqrt(len(moves)) + 1e-9
    assert np.max(np.abs(moves.mean(0) - b - extra) / error) < 4
    assert np.max(np.abs(moves.mean(0) - b) / error) > 7  # control: the ODE's drift is not the mean at this d


def test_flatten_and_unflatten_are_inverse():
    start = limit_overlaps(erf())
    vector = jnp.arange(7.0)
    assert len(coordinates(2, 1)) == len(flatten(start)) == 7
    np.testing.assert_array_equal(flatten(unflatten(vector, start.P)), vector)
    assert coordinates(2, 1) == ("M[0,0]", "M[1,0]", "Q[0,0]", "Q[0,1]", "Q[1,1]", "a[0]", "a[1]")
    np.testing.assert_array_equal(unflatten(flatten(start), start.P).omega, start.omega)


def test_paths_become_the_ode_as_d_grows():
    paths = ll.predict(plain(0.1), OverlapSDE(d=1e14, replicas=8), TIMES)
    ode = ll.predict(plain(0.1), ll.OverlapODE(), TIMES)
    for name in ("M", "Q", "a", "risk"):
        assert float(abs(paths[name] - ode[name]).max()) < 1e-5
        assert float(abs(ode[name][1] - ode[name][0]).max()) > 0.01
    assert set(paths.dims) == {"time", "replica", "student", "student_2", "teacher", "teacher_2"}
    assert paths.attrs["method"] == "OverlapSDE"
    paths = ll.predict(square(), OverlapSDE(d=1e14, replicas=PATHS), TIMES)
    np.testing.assert_allclose(overlap(paths), np.broadcast_to(closed_path(TIMES), (PATHS, 2)), atol=1e-5)


def test_law_of_the_paths_is_that_of_sgd(sgd):
    paths = ll.predict(square(), OverlapSDE(d=100, replicas=PATHS, seed=2), TIMES)
    assert set(paths.status.values) == {"ok"}
    assert np.max(np.abs(log_variance_score(overlap(sgd), overlap(paths)))) < 4
    assert np.max(np.abs(mean_score(overlap(sgd), overlap(paths)))) < 4
    # Controls: noise of another dimension; the ODE's mean.
    other = ll.predict(square(), OverlapSDE(d=200, replicas=PATHS, seed=2), TIMES)
    assert np.min(np.abs(log_variance_score(overlap(sgd), overlap(other)))) > 4
    m = overlap(sgd)
    assert np.max(np.abs((m.mean(0) - closed_path(TIMES)) / (m.std(0) / np.sqrt(PATHS)))) > 5


def test_half_the_step_gives_the_same_law():
    coarse, fine = (
        ll.predict(square(), OverlapSDE(d=100, replicas=PATHS, seed=seed, step=step), TIMES)
        for seed, step in ((3, 0.05), (4, 0.0125))
    )
    assert fine.attrs["steps"] > 2 * coarse.attrs["steps"]
    assert np.max(np.abs(log_variance_score(overlap(coarse), overlap(fine)))) < 4
    assert np.max(np.abs(mean_score(overlap(coarse), overlap(fine)))) < 4


def test_linear_noise_is_the_variance_of_the_paths_at_large_d():
    d = 10**5
    linear = ll.analysis.linear_noise(square(), d, TIMES)
    m = overlap(ll.predict(square(), OverlapSDE(d=d, replicas=PATHS, seed=5), TIMES))
    centred = m - m.mean(0)
    ratio = (centred**2).mean(0) / linear.variance("M[0,0]")
    error = np.sqrt(((centred**4).mean(0) / (centred**2).mean(0) ** 2 - 1) / len(m))
    assert np.max(np.abs((ratio - 1) / error)) < 4
    assert np.min(abs(ratio * 1.4 - 1) / error) > 4  # control
    early = ll.analysis.linear_noise(square(), d, [1e-7]).variance("M[0,0]")[0]
    assert early / (1e-7 * 0.05 / d) == pytest.approx(closed_sigma(0.3, 0.05, 0.2), rel=1e-4)


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
    with pytest.raises(ll.errors.InputError, match=r"OverlapSDE.d must be at least 2.*got 1"):
        ll.predict(square(), OverlapSDE(d=1), [0.1])
    for field, value in (("d", 0), ("replicas", 0), ("samples", 1), ("step", 0.0), ("seed", -1), ("method", "x")):
        with pytest.raises(ll.errors.InputError, match=rf"OverlapSDE.{field} must be"):
            OverlapSDE(**{field: value})
    with pytest.raises(ll.errors.LimitUndefinedError, match="OverlapSDE needs Gaussian inputs"):
        ll.predict(eqx.tree_at(lambda p: p.inputs, square(), ll.Hypercube()), OverlapSDE(), [0.1])
    with pytest.raises(ll.errors.ConvergenceError, match="linear_noise diverged at t="):
        ll.analysis.linear_noise(square(learning_rate=1.0, spherical=False), 100, [50.0])


@pytest.mark.slow
def test_means_are_right_beyond_the_first_order_in_one_over_d():
    problem = committee("square", "square", 2, 1, 0.05, 0.2, ll.InformedStart(overlap=0.5), trained=True)
    times, n = np.array([0.5, 1.0]), 4000
    sgd = ll.simulate(problem, d=100, times=times, replicas=n, seed=1, representation="overlaps")
    paths, plain = (
        ll.predict(problem, OverlapSDE(d=100, replicas=n, seed=2, corrected=c), times) for c in (True, False)
    )
    assert np.max(np.abs(mean_score(sgd.risk.values.T, paths.risk.values.T))) < 4
    assert np.max(np.abs(mean_score(sgd.risk.values.T, plain.risk.values.T))) > 6
    for x, y in ((sgd.a, paths.a), (sgd.M[..., 0], paths.M[..., 0])):
        assert np.max(np.abs(mean_score(x.values[:, :, 0].T, y.values[:, :, 0].T))) < 4
        # The variance has corrections of relative size 1/d, a few percent here.
        assert np.max(np.abs(log_variance_score(x.values[:, :, 0].T, y.values[:, :, 0].T))) < 5


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 4])
def test_law_holds_for_wider_students_trained_layers_and_batches(batch):
    problem = committee("erf", "erf", 2, 1, 1.0, 0.2, trained=True, batch_size=batch)
    times = np.array([0.2, 1.0, 4.0])
    sgd = ll.simulate(problem, d=100, times=times, replicas=2000, seed=1, representation="overlaps")
    paths = ll.predict(problem, OverlapSDE(d=100, replicas=2000, seed=2), times)
    for name in ("M", "Q", "a"):
        x, y = (np.swapaxes(data[name].values.reshape(3, 2000, -1)[:, :, 0], 0, 1) for data in (sgd, paths))
        assert np.max(np.abs(mean_score(x, y))) < 4
        assert np.max(np.abs(log_variance_score(x, y))) < 4
