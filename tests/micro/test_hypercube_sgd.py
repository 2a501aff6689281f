"""SGD on sparse targets: the mean of a step by enumeration, runs against plain NumPy, what is measured, the edges."""

import dataclasses
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import limitlab as ll
import stepping
from cases import sparse as sparse_problem
from limitlab.algorithms.loop import LONGEST, advance
from limitlab.algorithms.one_pass.base import begin
from limitlab.algorithms.one_pass.layerwise_sgd import ridge_second_layer
from limitlab.numerics.cube import cube_points, walsh
from limitlab.numerics.keys import Stream, stream
from limitlab.numerics.random import normal
from limitlab.problems.sparse.representable import RepresentationWarning
from limitlab.states import fourier as measure
from networks import cube_network, every_input, every_step

D, WIDTH = 6, 3
TANH = "shifted(tanh, 0.5)"
sparse = partial(sparse_problem, p=WIDTH, learning_rate=0.7)


def test_a_step_draws_every_input_equally_often():
    problem, net, d = sparse(trained=False), cube_network(3), 3
    known = every_step(problem, net, d)[0].reshape(8, -1)
    keys = jax.random.split(jax.random.key(1), 4000)
    after = stepping.one_steps(problem, stepping.learner(problem, net), d, keys, step=7).student
    drawn = np.asarray(after.W - net.W).reshape(4000, -1)
    distance = np.max(np.abs(drawn[:, None] - known), axis=2)
    assert np.max(distance.min(axis=1)) < 1e-14
    assert stats.chisquare(np.bincount(distance.argmin(axis=1), minlength=8)).pvalue > 1e-4


def test_signs_are_independent_bits_and_the_target_sees_the_first():
    x = ll.Hypercube().draw(jax.random.key(0), 4000, 70)
    z = np.sqrt(70) * np.asarray(x)
    np.testing.assert_allclose(np.abs(z), 1)
    target = ll.SparseTarget("z1 - 2*z2 + 4*z1*z2*z3")
    np.testing.assert_allclose(target.output((), x), z[:, 0] - 2 * z[:, 1] + 4 * z[:, :3].prod(axis=1))
    gram = z.T @ z / np.sqrt(4000)
    assert np.max(np.abs(gram - np.diag(np.diag(gram)))) < 5
    assert np.max(np.abs(z.sum(0))) / np.sqrt(4000) < 4.5


@partial(jax.jit, static_argnums=(1, 2))
def draws(key, batch, d):
    """The inputs and the label noise of the steps of the first block."""
    key_x, key_y = jax.random.split(jax.random.fold_in(key, 0))
    x, noise = ll.Hypercube().draw(key_x, LONGEST * batch, d), normal(key_y, (LONGEST * batch,))
    return x.reshape(LONGEST, batch, d), noise.reshape(LONGEST, batch)


def by_hand(problem, d, steps, replica=0, seed=0):
    """A run in plain NumPy with the library's random numbers: W (d, p) and a after so many steps."""
    rule, p = problem.algorithm, problem.student.width
    layered = isinstance(rule, ll.LayerwiseSGD)
    live, setting = stepping.live(problem)
    start = begin(setting, live, d, seed, jnp.asarray([replica]), "weights").student
    W, a = np.array(start.rows[0].T), np.array(start.a[0])
    key, gamma, decay = stream(seed, Stream.STEPS, replica), rule.learning_rate, getattr(rule, "weight_decay", 0.0)
    x_all, noise = (np.asarray(q) for q in draws(key, rule.batch_size, d))
    for n in range(steps):
        x, y = x_all[n], problem.teacher.output((), x_all[n]) + np.sqrt(problem.channel.variance) * noise[n]
        second = layered and n * gamma / (p * d) >= rule.switch_time - 1e-9
        t = np.tanh(x @ W + 0.5)
        error = y - t @ a / p if not layered or second or rule.interacting else y
        dW = gamma / p * x.T @ (error[:, None] * a * (1 - t**2)) / rule.batch_size
        da = rule.second_layer_rate * gamma / (p * d) * t.T @ error / rule.batch_size
        keep = 1 - decay * gamma / (p * d)
        trained = second if layered else problem.student.second_layer == "trained"
        W = W if second else keep * W + dW
        a = keep * a + da if trained else a
    return W, a


CASES = {
    "fixed second layer": sparse(trained=False),
    "batch, noise, decay": sparse(batch_size=5, variance=0.3, weight_decay=0.4, second_layer_rate=0.5),
    "layers in turn": sparse(algorithm=ll.LayerwiseSGD(learning_rate=0.7, switch_time=20 * 0.7 / (WIDTH * D))),
    "units that do not interact": sparse(
        algorithm=ll.LayerwiseSGD(learning_rate=0.7, switch_time=20 * 0.7 / (WIDTH * D), interacting=False)
    ),
}


@pytest.mark.more_of("layers in turn", "batch, noise, decay", "fixed second layer")
@pytest.mark.parametrize("name", CASES)
def test_a_run_is_the_rule_written_by_hand(name):
    problem, steps = CASES[name], np.array([0, 20, 33])
    sim = ll.simulate(problem, D, steps * problem.algorithm.clock(problem, D) + 1e-12, replicas=2)
    np.testing.assert_array_equal(sim.step, steps)
    np.testing.assert_array_equal(sim.samples, steps * problem.algorithm.batch_size)
    for i, n in enumerate(steps):
        W, a = by_hand(problem, D, int(n), replica=1)
        np.testing.assert_allclose(sim.a[i, 1], a, rtol=1e-10)
        np.testing.assert_allclose(sim.u[i, 1], W[:2].T / np.sqrt(D), rtol=1e-10)
        np.testing.assert_allclose(sim.s[i, 1], np.linalg.norm(W[2:], axis=0) / np.sqrt(D), rtol=1e-10)
        # at d - P = 4 all is an exact sum over the 2^d inputs
        x, y = every_input(problem)
        f = np.tanh(x @ W + 0.5) @ a / WIDTH
        bar = np.asarray(f).reshape(2**4, 4).mean(0)
        np.testing.assert_allclose(sim.fourier[i, 1], walsh(bar), atol=1e-12)
        np.testing.assert_allclose(sim.risk[i, 1], np.mean((y - f) ** 2) / 2 + problem.channel.variance / 2, rtol=1e-10)
        np.testing.assert_allclose(sim.latent_risk[i, 1], np.mean((problem.teacher.values - bar) ** 2) / 2, rtol=1e-10)


@pytest.mark.parametrize("n", [pytest.param(40, marks=pytest.mark.more), 2])
def test_the_ridge_fit_solves_the_normal_equations(n):
    penalty, problem, net = 1e-3, sparse(variance=0.2), cube_network()
    _, setting = stepping.live(problem)
    keys = jax.random.split(jax.random.key(3), 1)
    run = jax.tree.map(lambda x: x[None], stepping.alive(stepping.learner(problem, net)))
    a = np.asarray(ridge_second_layer(jnp.asarray(penalty), n, setting, D, run, keys).state.student.a[0])
    x, y = (np.asarray(q) for q in setting.draw((), jax.random.fold_in(keys[0], 0), n, D))
    Phi = np.tanh(x @ np.asarray(net.rows.T) + 0.5) / WIDTH
    wanted = np.linalg.solve(Phi.T @ Phi / n + penalty / WIDTH * np.eye(WIDTH), Phi.T @ y / n)
    np.testing.assert_allclose(a, wanted, rtol=1e-9)


def test_the_ridge_fit_comes_after_the_switch_and_stays():
    clock = 0.7 / (WIDTH * D)
    rule = ll.LayerwiseSGD(learning_rate=0.7, switch_time=20 * clock, penalty=1e-4, ridge_samples=3000)
    times = np.array([10, 20, 21, 50]) * clock
    sim, plain = (ll.simulate(p, D, times, replicas=2) for p in (sparse(algorithm=rule), CASES["layers in turn"]))
    np.testing.assert_array_equal(sim.samples, [10, 20, 3020, 3020])
    np.testing.assert_allclose(sim.a[:2], plain.a[:2], rtol=1e-12)
    np.testing.assert_array_equal(sim.u[2], sim.u[1])
    np.testing.assert_array_equal(sim.a[3], sim.a[2])
    assert np.all(sim.risk[2] < sim.risk[1])


def test_more_samples_than_a_chunk_are_all_used():
    """Sixteen fits of 20500 noiseless samples against the population fit at d = 6, by z; one chunk scatters more."""
    problem, net, runs = sparse(), cube_network(), 16
    run = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (runs, *jnp.shape(x))), stepping.alive(stepping.learner(problem, net))
    )
    keys, setting = jax.random.split(jax.random.key(3), runs), stepping.live(problem)[1]
    many, few = (
        np.asarray(ridge_second_layer(jnp.asarray(1e-2), n, setting, D, run, keys).state.student.a)
        for n in (20_500, 1024)
    )
    x, y = every_input(problem)
    Phi = np.tanh(np.asarray(x @ net.rows.T) + 0.5) / WIDTH
    exact = np.linalg.solve(Phi.T @ Phi / 64 + 1e-2 / WIDTH * np.eye(WIDTH), Phi.T @ np.asarray(y) / 64)
    assert np.max(np.abs(many.mean(0) - exact) / (many.std(0, ddof=1) / np.sqrt(runs))) < 4
    assert 2 < np.median(few.std(0) / many.std(0)) < 10  # sqrt(20) = 4.5


@pytest.mark.parametrize("name", [TANH, "shifted(relu, 0.3)", "sigmoid"])
def test_the_smoothed_mean_is_right_beyond_the_gaussian(name):
    """98 equal weights: the exact mean is a binomial sum; the fourth cumulant takes the error from 1e-4 down."""
    n, sigma = 98, ll.activation(name)
    m, s = jnp.linspace(-2, 2, 9), jnp.asarray(0.9)
    heads = np.arange(n + 1)
    r = s * (2 * heads - n) / np.sqrt(n)
    exact = np.asarray(sigma(m[:, None] + r)) @ stats.binom(n, 0.5).pmf(heads)
    plain, corrected = (np.asarray(measure.smoothed_values(sigma, m, s + 0 * m, k)) for k in (0.0, 1 / n))
    if "relu" in name:  # equal weights are a lattice, which a kink sees; see the next test for weights that are not
        assert np.max(np.abs(corrected - exact)) < 2e-2
    else:
        assert np.max(np.abs(corrected - exact)) < 4e-6 < 1e-5 < np.max(np.abs(plain - exact))


@pytest.mark.parametrize("name", [TANH, "relu", "abs", "piecewise((-1, 0), (0.5, 2))"])
def test_enumeration_and_smoothing_agree(name):
    sigma, rng = ll.activation(name), np.random.default_rng(0)
    gaps = []
    for others in (10, 14):
        v = 0.5 + rng.random(others)
        v *= 1.1 / np.linalg.norm(v)
        exact = np.mean(np.asarray(sigma(jnp.asarray(0.4 + cube_points(others) @ v))))
        close = measure.smoothed_values(sigma, jnp.asarray([0.4]), jnp.asarray([1.1]), np.sum(v**4) / 1.1**4)
        gaps.append(abs(float(close[0]) - exact))
    assert max(gaps) < 2e-3


def test_the_error_of_the_smoothed_mean_falls_as_the_square_of_the_dimension():
    """A sine, whose mean over all signs is a product of cosines."""
    rng, sine, gaps = np.random.default_rng(0), ll.activation(jnp.sin), []
    for n in (25, 100, 400):
        v = rng.normal(size=(200, n)) / np.sqrt(n)
        s = np.linalg.norm(v, axis=1)
        close = measure.smoothed_values(sine, jnp.full(200, 0.4), jnp.asarray(s), np.sum(v**4, axis=1) / s**4)
        exact = np.sin(0.4) * np.prod(np.cos(v), axis=1)
        gaps.append(np.sqrt(np.mean((np.asarray(close) - exact) ** 2)))
    assert gaps[1] < 2e-5 and gaps[2] < 1e-6
    assert -2.3 < np.log(gaps[2] / gaps[0]) / np.log(16) < -1.8


def test_straight_lines_with_kinks_are_recognised():
    intercept, slope, places, jumps = ll.piecewise((-1, 0), (0.5, 2), (0.75, 1)).pieces()
    np.testing.assert_allclose(places, [-1, 0.5, 0.75], atol=1e-9)
    np.testing.assert_allclose(jumps, [4 / 3, -4 - 4 / 3, 4], rtol=1e-9)
    assert intercept == pytest.approx(0, abs=1e-12) and slope == pytest.approx(0, abs=1e-12)
    assert ll.activation(TANH).pieces() is None
    assert ll.activation("square").pieces() is None


@pytest.mark.parametrize(("others", "latent"), [pytest.param(11, 2, marks=pytest.mark.more), (300, 2)])
def test_the_residual_risk_is_unbiased(others, latent):
    """Against all signs at 11 coordinates; linear networks have no scatter at all where draws suffice."""
    rng = np.random.default_rng(1)
    u, v, a = (
        jnp.asarray(x) for x in (rng.normal(size=(4, latent)), rng.normal(size=(4, others)) / 3, rng.normal(size=4))
    )
    linear = ll.activation("linear")
    mean = jnp.asarray(cube_points(latent)) @ (u.T @ a) / 4
    one = jax.jit(lambda key: measure.residual_variance(linear, a, u, v, 0.0, mean, key))(jax.random.key(0))
    np.testing.assert_allclose(one, np.sum((np.asarray(a) @ np.asarray(v) / 4) ** 2), rtol=1e-12)
    if others == 11:
        sigma = ll.activation("square")
        fields = np.asarray(u) @ cube_points(latent).T
        f = np.stack([np.asarray(a) @ (m[:, None] + np.asarray(v) @ cube_points(others).T) ** 2 / 4 for m in fields.T])
        keys = jax.random.split(jax.random.key(0), 500)
        draws = jax.jit(jax.vmap(lambda k: measure.residual_variance(sigma, a, u, v, 0.0, jnp.asarray(f.mean(1)), k)))(
            keys
        )
        z = (np.asarray(draws).mean(0) - f.var(1)) / (np.asarray(draws).std(0) / np.sqrt(500))
        assert np.max(np.abs(z)) < 4


def test_many_latent_points_are_sampled_without_bias(monkeypatch):
    monkeypatch.setattr(measure, "POINTS", 4 * 256)
    rng = np.random.default_rng(2)
    u, v, a = (jnp.asarray(x) for x in (rng.normal(size=(3, 4)), rng.normal(size=(3, 12)) / 3, rng.normal(size=3)))
    z = cube_points(4)
    f = np.stack(
        [np.asarray(a) @ ((np.asarray(u) @ q)[:, None] + np.asarray(v) @ cube_points(12).T) ** 2 / 3 for q in z]
    )
    keys = jax.random.split(jax.random.key(0), 1000)
    square, mean = ll.activation("square"), jnp.asarray(f.mean(1))
    draws = jax.jit(jax.vmap(lambda k: jnp.mean(measure.residual_variance(square, a, u, v, 0.0, mean, k))))(keys)
    assert abs(float(jnp.mean(draws)) - f.var(1).mean()) < 4 * float(jnp.std(draws)) / np.sqrt(1000)


def test_numbers_do_not_depend_on_replicas_or_times():
    problem = sparse(variance=0.1)
    few = ll.simulate(problem, 20, [0.5], replicas=2, seed=4)
    many = ll.simulate(problem, 20, [0.1, 0.3, 0.5], replicas=5, seed=4)
    for name in ("risk", "residual_risk", "fourier"):
        np.testing.assert_allclose(few[name].isel(time=-1), many[name].isel(time=-1, replica=slice(2)), rtol=1e-9)
    assert "Gaussian mean" in few.attrs["average"]


def test_a_second_run_of_the_same_shape_compiles_nothing():
    times = np.array([0.1, 0.2])
    ll.simulate(sparse(), D, times, replicas=2)
    before = advance._cached._cache_size(), measure.observe._cached._cache_size()
    ll.simulate(sparse("z1*z2 - 2*z2", learning_rate=0.3, scale=0.5), D, 3 * times, replicas=2, seed=1)
    assert (advance._cached._cache_size(), measure.observe._cached._cache_size()) == before


def test_divergence_is_a_status_with_finite_numbers_before():
    problem = sparse(activation="shifted(square, 0.5)", learning_rate=30.0)
    sim = ll.simulate(problem, D, np.linspace(0, 40, 41), replicas=4)
    assert "diverged" in set(sim.status.values.tolist())
    for r in np.nonzero(sim.status.values == "diverged")[0]:
        one, last = sim.isel(replica=r), float(sim.end_time[r]) / problem.algorithm.clock(problem, D)
        assert 0 < last < one.step.values[-1]
        assert np.all(np.isfinite(one.risk.values[one.step.values <= last + 0.5]))
        assert np.all(np.isnan(one.fourier.values[one.step.values > last + 0.5]))


def test_the_start_is_on_the_sphere_if_asked():
    problem = dataclasses.replace(sparse(trained=False), start=ll.RandomStart(scale=1.5, sphere=True))
    sim = ll.simulate(problem, 40, [0.0])
    np.testing.assert_allclose(np.sum(sim.u[0, 0] ** 2, axis=1) + sim.s[0, 0] ** 2, 1.5**2, rtol=1e-12)
    np.testing.assert_array_equal(sim.a[0, 0], 1.0)


def test_what_cannot_be_learned_is_told():
    with pytest.warns(RepresentationWarning, match="z1\\*z2"):
        sim = ll.simulate(sparse(activation="tanh"), D, [0.0])
    assert "can never represent z1*z2" in sim.attrs["note"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "note" not in ll.simulate(sparse(), D, [0.0]).attrs


def test_bad_inputs_are_refused_in_words():
    with pytest.raises(ll.errors.InputError, match="d >= 2, the number of latent"):
        ll.simulate(sparse(), 1, [0.0])
    with pytest.raises(ll.errors.InputError, match="Leave representation out"):
        ll.simulate(sparse(), D, [0.0], representation="overlaps")
    with pytest.raises(ll.errors.InputError, match="reduced by z\\^2 = 1"):
        ll.simulate(dataclasses.replace(sparse(), inputs=ll.Gaussian()), D, [0.0])
    with pytest.raises(ll.errors.InputError, match="fewer replicas, times or latent"):
        ll.simulate(sparse("*".join(f"z{i}" for i in range(1, 21))), 30, np.arange(100.0), replicas=100)
    with pytest.raises(ll.errors.InputError, match="GiB"):
        ll.simulate(sparse(), 10**9, [0.0], replicas=100)


def test_all_coordinates_may_be_latent():
    sim = ll.simulate(sparse(), 2, [0.0, 1.0])
    np.testing.assert_allclose(sim.residual_risk, 0, atol=1e-15)
    np.testing.assert_allclose(sim.s, 0)
