"""SGD on inputs that bring their labels: one step by hand, its mean, its noise, what is measured, the edges."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import limitlab as ll
import stepping
from cases import mixture
from limitlab.algorithms.one_pass import views
from limitlab.algorithms.one_pass.base import begin
from limitlab.problems.base import Points
from limitlab.problems.networks import Network
from limitlab.states.test_risk import TestRisk
from networks import FULL, mixed_network, mixed_risk, mixed_steps
from networks import MIXED_D as D
from networks import MIXED_P as WIDTH


def test_one_step_is_the_formula():
    """By plain loops, with bias, trained second layer, decay and a schedule."""
    schedule = ll.PowerSchedule(exponent=0.25, onset=0.0)
    problem = dataclasses.replace(FULL, algorithm=dataclasses.replace(FULL.algorithm, schedule=schedule, batch_size=3))
    net, step = mixed_network(), 4
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(3, D)) / np.sqrt(D), np.array([1.0, -1.0, 1.0])
    after = stepping.move(problem, stepping.learner(problem, net), x, y, step).student
    W, a, b = np.array(net.rows.T), np.array(net.a), np.array(net.b)
    clock = 0.4 / (WIDTH * D)
    xi = ((5 * clock) ** 0.75 - (4 * clock) ** 0.75) / 0.75 / clock
    eta = clock * xi
    sigma = lambda u: np.interp(u, [0.5, 1.5], [-2.5, 7.5])  # noqa: E731
    dW, da, db = np.zeros_like(W), np.zeros_like(a), np.zeros_like(b)
    for xs, ys in zip(x, y, strict=True):
        lam = W.T @ xs + b
        error = ys - np.mean(a * sigma(lam))
        slope = np.where((lam > 0.5) & (lam < 1.5), 10.0, 0.0)
        dW += 0.4 * xi / WIDTH * np.outer(xs, a * slope) * error / 3
        db += eta * a * slope * error / 3
        da += 1.5 * eta * sigma(lam) * error / 3
    keep = 1 - 0.7 * eta
    np.testing.assert_allclose(after.rows.T, keep * W + dW, rtol=1e-12)
    np.testing.assert_allclose(after.b, keep * b + db, rtol=1e-12)
    np.testing.assert_allclose(after.a, keep * a + da, rtol=1e-12)


@pytest.mark.more
def test_added_noise_has_variance_two_T_eta():
    rule = dataclasses.replace(FULL.algorithm, weight_decay=0.0)
    still = dataclasses.replace(FULL, algorithm=rule)
    problem = dataclasses.replace(FULL, algorithm=dataclasses.replace(rule, temperature=0.3))
    net, count, eta = mixed_network(), 2000, 0.4 / (WIDTH * D)
    hot, cold = (mixed_steps(x, net, count) for x in (problem, still))  # the same samples
    for name, scale in (("W", np.sqrt(D)), ("a", 1.0), ("b", 1.0)):
        kick = np.asarray(getattr(hot, name) - getattr(cold, name)).ravel() / scale / np.sqrt(2 * 0.3 * eta)
        assert stats.kstest(kick, "norm").pvalue > 1e-4
        assert abs(np.mean(kick**2) - 1) < 4.5 * np.sqrt(2 / kick.size)


def test_what_is_fixed_stays():
    problem = mixture(start={"second_layer": "rademacher"}, temperature=0.1, weight_decay=1.0)
    net = mixed_network(bias=False)
    after = mixed_steps(problem, net, 3)
    np.testing.assert_array_equal(after.a, np.tile(net.a, (3, 1)))
    assert after.b is None
    plain = ll.simulate(problem, d=D, times=[0.0, 0.05], replicas=2)
    assert "b" not in plain and set(np.unique(plain.a)) == {-1.0, 1.0}


def test_replicas_and_times_do_not_change_the_numbers():
    times = np.array([0.0, 0.02, 0.05])
    few = ll.simulate(FULL, d=D, times=times[1:2], replicas=1, seed=3)
    many = ll.simulate(FULL, d=D, times=times, replicas=3, seed=3)
    for name in ("risk", "r", "a", "b", "polarisation"):
        np.testing.assert_allclose(few[name][0, 0], many[name][1, 0], rtol=1e-9)
    assert abs(float(many.risk[1, 0] - many.risk[1, 1])) > 1e-6
    assert many.r.dims == ("time", "replica", "student") and many.samples[-1] == many.step[-1]
    rule, setting = stepping.live(FULL)
    start = begin(setting, rule, D, 3, jnp.arange(3), "weights").student.rows
    np.testing.assert_allclose(many.r[0], np.linalg.norm(start, axis=2) / np.sqrt(D), rtol=1e-12)
    direction = start[0] / np.linalg.norm(start[0], axis=1, keepdims=True)
    np.testing.assert_allclose(many.polarisation[0, 0], np.linalg.norm(direction.mean(axis=0)), rtol=1e-12)


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(ll.IsotropicMixture(0.5), marks=pytest.mark.more),
        pytest.param(ll.AnisotropicMixture(delta=0.6, fraction=0.4), marks=pytest.mark.more),
    ],
)
def test_measured_risk_is_unbiased(inputs):
    """Over many test sets, against the closed form; the noise floor counts half its variance."""
    problem, net = dataclasses.replace(FULL, inputs=inputs), mixed_network()
    exact = float(mixed_risk(problem, net))
    one = jax.tree.map(lambda x: x[None], net)

    def look(tests):
        risk, error = TestRisk(jax.tree.map(lambda x: x[None], tests), problem.loss, problem.student)(one)
        return float(risk[0]), float(error[0])

    seen = [look(inputs.test_points(jax.random.key(k), 4096, D))[0] for k in range(12)]
    told = [look(Points(*inputs.draw(jax.random.key(100 + k), 4096, D))) for k in range(12)]
    plain = [risk for risk, _ in told]
    spread = np.std(plain, ddof=1) / np.mean([error for _, error in told])  # the stated error is the real one
    assert 0.5 < spread < 1.6
    assert abs(np.mean(seen) - exact) < 4.5 * np.std(seen) / np.sqrt(12) + 1e-9
    assert abs(np.mean(plain) - exact) < 4.5 * np.std(plain) / np.sqrt(12)
    if isinstance(inputs, ll.IsotropicMixture):
        assert np.std(seen) < np.std(plain)
    noisy = ll.simulate(dataclasses.replace(problem, channel=ll.GaussianNoise(variance=0.5)), d=D, times=[0.0])
    quiet = ll.simulate(problem, d=D, times=[0.0])
    np.testing.assert_allclose(noisy.risk - quiet.risk, 0.25, rtol=1e-10)


def test_anisotropic_blocks_and_alignment():
    problem = mixture(inputs=ll.AnisotropicMixture(delta=0.6, fraction=0.4))
    sim = ll.simulate(problem, d=D, times=[0.0, 0.02], replicas=2)
    assert sim.r.dims == ("time", "replica", "student", "block") and list(sim.block) == ["informative", "other"]
    square = sim.r.values**2
    np.testing.assert_allclose(sim.alignment, (square[..., 0] / square.sum(-1)).mean(-1), rtol=1e-12)


def test_a_sampler_of_ones_own_has_the_same_law():
    """The mixture written as a sampler: one-step increments of both have the same law."""
    inputs = ll.IsotropicMixture(0.5)
    custom = ll.CustomInputs(lambda key, count, d: inputs.draw(jax.random.fold_in(key, 7), count, d))
    net = mixed_network()
    first = mixed_steps(FULL, net, 4000)
    second = mixed_steps(dataclasses.replace(FULL, inputs=custom), net, 4000)
    for name in ("W", "a", "b"):
        x, y = (np.asarray(getattr(s, name)).reshape(4000, -1)[:, 0] for s in (first, second))
        assert not np.array_equal(x, y)
        assert stats.ks_2samp(x, y).pvalue > 1e-4
    sim = ll.simulate(dataclasses.replace(FULL, inputs=custom), d=D, times=[0.0, 0.02])
    assert sim.attrs["risk_from"].endswith("draws of the sampler") and np.all(np.isfinite(sim.risk))


def test_rotating_the_start_and_the_inputs_changes_nothing():
    """An isotropic law is its own rotation: the step of a rotated network on rotated samples is the rotated step."""
    rng = np.random.default_rng(2)
    O = np.linalg.qr(rng.normal(size=(D, D)))[0]
    x, y = rng.normal(size=(4, D)) / np.sqrt(D), np.array([1.0, -1.0, 1.0, -1.0])
    net = mixed_network()
    go = lambda net, x: stepping.move(FULL, stepping.learner(FULL, net), x, y).student  # noqa: E731
    straight, turned = go(net, x), go(Network.of(net.rows @ O.T, net.a, net.b), x @ O.T)
    np.testing.assert_allclose(turned.rows, straight.rows @ O.T, atol=1e-12)
    np.testing.assert_allclose(turned.a, straight.a, atol=1e-12)


def test_a_run_that_diverges_says_so():
    sim = ll.simulate(mixture(activation="square", learning_rate=500.0), d=D, times=[0.0, 100.0, 500.0], replicas=2)
    assert (
        set(sim.status.values) == {"diverged"} and np.all(np.isnan(sim.risk[-1])) and np.all(np.isfinite(sim.risk[0]))
    )
    assert np.all(sim.end_time < 500)


def test_bad_input_is_refused_in_words(monkeypatch):
    with pytest.raises(ll.errors.InputError, match="representation"):
        ll.simulate(mixture(), d=D, times=[0.1], representation="overlaps")
    with pytest.raises(ll.errors.InputError, match=r"0 <= delta < 1"):
        ll.IsotropicMixture(delta=1.0)
    with pytest.raises(ll.errors.InputError, match="temperature"):
        mixture(temperature=-0.1)
    with pytest.raises(ll.errors.InputError, match="finite with increasing x"):
        mixture(activation=ll.piecewise((0.5, -2.5), (float("nan"), 7.5)))
    with pytest.raises(ll.errors.InputError, match=r"shape \(16, 5\)"):
        ll.simulate(mixture(inputs=ll.CustomInputs(lambda k, n, d: (jnp.ones((n, 2)), jnp.ones(n)))), d=D, times=[0.1])
    with pytest.raises(ll.errors.InputError, match="finite x and y"):
        ll.simulate(
            mixture(inputs=ll.CustomInputs(lambda k, n, d: (jnp.ones((n, d)) * jnp.nan, jnp.ones(n)))), d=D, times=[0.1]
        )
    with pytest.raises(ll.errors.InputError, match="GiB"):
        ll.simulate(mixture(p=10**6), d=10**6, times=[0.0])
    with pytest.raises(ll.errors.InputError, match="needs a teacher with directions"):
        ll.simulate(dataclasses.replace(mixture(), start=ll.InformedStart(overlap=0.3)), d=D, times=[0.1])
    monkeypatch.setattr(views, "MODEST", 3)
    assert "r" not in ll.simulate(mixture(), d=D, times=[0.0])


def test_a_sampler_that_ignores_its_key_is_refused():
    """NumPy's random numbers would be drawn once, when the step is compiled."""
    import numpy as np

    frozen = ll.Problem(
        inputs=ll.CustomInputs(lambda key, count, d: (np.random.default_rng().normal(size=(count, d)), np.ones(count))),
        student=ll.Committee(width=3, activation="tanh"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(),
        algorithm=ll.OnlineSGD(learning_rate=1.0),
    )
    with pytest.raises(ll.errors.InputError, match="every key"):
        ll.simulate(frozen, d=4, times=[0.1])
