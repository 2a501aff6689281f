"""The tangent: the mean of one step of a simulation is the drift of its limit, and a wrong drift is told apart."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
import stepping
from cases import SKEW, committee, descent, parsed, skewed, sparse, wide
from increments import at_start, exact_steps, mean_increment, slope
from limitlab.algorithms.descent.wide import draw_instance, start_factor
from limitlab.algorithms.settings.fixed_data import WideDescent
from limitlab.macro.overlaps.finite_size import finite_size_drift
from limitlab.macro.overlaps.increments import flatten, noise_variance
from limitlab.macro.overlaps.overlap_sde import draw
from limitlab.macro.wide.factor_flow import velocity
from limitlab.numerics.linalg import realised
from limitlab.numerics.trees import as_arrays
from limitlab.problems.asked import Asked
from limitlab.problems.networks import Network
from limitlab.states.committee import measure_all
from limitlab.states.matrix import look
from limitlab.states.overlaps import Overlaps, error_coefficients, error_sum, limit_overlaps
from limitlab.states.run import Learner
from networks import (
    FULL,
    MIXED_D,
    MIXED_P,
    cube_network,
    every_input,
    every_step,
    mixed_network,
    mixed_risk,
    mixed_steps,
)
from scores import moment_scores, t_score, z_scores

# --- OverlapODE: squares, whose mean step is known at every d ----------------------------------------------------

SQUARES = committee("square", "square", p=2, k=1, learning_rate=0.3, variance=0.5, start=ll.InformedStart(0.4))


def one_step(problem, d, kind, n=40_000, seed=0):
    """n independent single steps from the same start, as overlaps."""
    start = limit_overlaps(problem)
    keys = jax.random.split(jax.random.key(seed), n)
    if kind == "weights":
        p, both = start.Q.shape[0], realised(start.omega, jax.random.key(9), d)
        state = Learner(Network.of(both[:p], start.a), Network.of(both[p:], problem.teacher.a_star))
        after = measure_all(problem.teacher, problem.inputs, stepping.one_steps(problem, state, d, keys))
    else:
        columns = min(start.Q.shape[0] + start.P.shape[0], d)
        state = {"Q": start.Q, "M": start.M, "P": start.P, "a": start.a}
        after = stepping.one_steps(problem, state, d, keys, columns=columns)
    return Overlaps(after["Q"], after["M"], after["P"], after["a"]), start


def exact_mean_square(problem, start, d):
    """Mean one-step increment for squares at finite d: homogeneity turns E|x|^2 g into (1 + n/d) E g."""
    O, p = np.asarray(start.omega), start.Q.shape[0]
    c = np.asarray(error_coefficients(problem, start.a))
    a = np.concatenate([np.asarray(start.a), np.zeros(len(O) - p)])
    rate, noise = problem.algorithm.learning_rate / p, problem.channel.variance
    OA = O * c
    t1, t2 = np.trace(OA), np.trace(OA @ OA)
    G = t1 * O + 2 * OA @ O
    H = (t1**2 + 2 * t2) * O + 4 * t1 * OA @ O + 8 * OA @ OA @ O
    move = 2 * (a[:, None] + a[None, :]) * G
    move = move + 4 * rate * a[:, None] * a[None, :] * ((1 + 6 / d) * H + (1 + 2 / d) * noise * O)
    return rate / d * move


@pytest.mark.parametrize("kind", [pytest.param("weights", marks=pytest.mark.more), "overlaps"])
def test_mean_step_at_small_d_is_exact_for_squares(kind):
    d = 6
    after, start = one_step(SQUARES, d, kind)
    mean = exact_mean_square(SQUARES, start, d)
    assert np.max(np.abs(z_scores(after.Q - start.Q, mean[:2, :2]))) < 4
    assert np.max(np.abs(z_scores(after.M - start.M, mean[:2, 2:]))) < 4


def test_mean_step_rejects_unit_norm_inputs():
    """Negative control: with |x|^2 = 1 the predicted mean of Q is off by many standard errors."""
    after, start = one_step(SQUARES, 6, "overlaps")
    wrong = exact_mean_square(SQUARES, start, 1e12) * 1e12 / 6
    assert np.max(np.abs(z_scores(after.Q - start.Q, wrong[:2, :2]))) > 10


# --- OverlapSDE: mean and covariance of an increment -------------------------------------------------------------


def test_mean_increment_is_the_drift():
    squares = partial(committee, "square", "square", 2, 1, 0.3, 0.2, SKEW, trained=True)
    for problem in (skewed(), squares(), squares(spherical=True), squares(batch_size=3)):
        expected = flatten(slope(as_arrays(problem), error_sum(problem), limit_overlaps(problem)))
        np.testing.assert_allclose(mean_increment(problem), expected, atol=1e-8)
        assert float(jnp.max(jnp.abs(expected))) > 0.05


def linear(learning_rate, batch):
    return committee("linear", "linear", 2, 1, learning_rate, 0.2, SKEW, trained=True, spherical=True, batch_size=batch)


@pytest.mark.parametrize("case", ["batch", pytest.param("erf", marks=pytest.mark.slow)])
def test_one_step_of_sgd_has_this_covariance(case):
    d, problem = 10**6, linear(1.0, 2) if case == "batch" else skewed(spherical=True)
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


@pytest.mark.parametrize("case", [pytest.param("sphere and batch", marks=pytest.mark.more), "norm"])
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


# --- MeanField and DimensionFree: every input of the hypercube ---------------------------------------------------

cube = partial(sparse, p=3, learning_rate=0.7)


def cube_descent(problem, net, d=6):
    """-gamma dR/dW and -(kappa gamma/d) dR/da of the risk over all inputs, minus the decay: automatic derivatives."""
    (x, y), rule = every_input(problem, d), problem.algorithm
    sigma = problem.student.activation

    @jax.jit
    @jax.grad
    def slope(net):
        return jnp.mean((y - sigma(net.fields(x)) @ net.a / len(net.a)) ** 2) / 2

    g, W, a = slope(net), np.asarray(net.W), np.asarray(net.a)
    tau = rule.weight_decay * rule.learning_rate / (len(a) * d)
    return (
        -rule.learning_rate * np.asarray(g.W) - tau * W,
        -rule.second_layer_rate * rule.learning_rate / d * np.asarray(g.a) - tau * a,
    )


@pytest.mark.parametrize("rule", [{}, {"second_layer_rate": 2.5}, {"weight_decay": 0.3}])
def test_the_mean_step_over_all_inputs_is_gradient_descent(rule):
    problem, net = cube(**rule), cube_network()
    for step, wanted in zip(every_step(problem, net), cube_descent(problem, net), strict=True):
        np.testing.assert_allclose(step.mean(0), wanted, rtol=1e-12, atol=1e-14)


def test_the_mean_step_sees_a_wrong_clock_and_new_parameters():
    """Negative controls: twice the clock, and a second layer that already sees the moved first one."""
    problem, net = cube(), cube_network()
    dW, da = cube_descent(problem, net)
    steps_W, steps_a = every_step(problem, net)
    assert np.max(np.abs(steps_W.mean(0) - 2 * dW)) > 1e-3 > 1e6 * np.max(np.abs(steps_W.mean(0) - dW))
    (x, y), a, gamma = map(np.asarray, every_input(problem)), np.asarray(net.a), problem.algorithm.learning_rate
    new = np.tanh(np.einsum("npd,nd->np", np.asarray(net.W) + steps_W, x) + 0.5)
    late = gamma / (3 * 6) * np.mean(new * (y - new @ a / 3)[:, None], axis=0)
    assert np.max(np.abs(steps_a.mean(0) - late)) > 1e-4 > 1e6 * np.max(np.abs(steps_a.mean(0) - da))


# --- MeanField and RadialFlow: mixtures --------------------------------------------------------------------------


def mixed_pull(problem, net, h=1e-4):
    """-p grad R by central differences, in (a, b, theta) of the first two units and coordinates."""
    base = mixed_risk(problem, net)
    assert np.isfinite(base)
    out = {}
    for name, index in (
        ("a", (0,)),
        ("a", (1,)),
        ("b", (0,)),
        ("b", (1,)),
        ("W", (0, 0)),
        ("W", (1, 1)),
        ("W", (0, 1)),
    ):
        move_by = lambda s, name=name, index=index: dataclasses.replace(  # noqa: E731
            net, **{name: getattr(net, name).at[index].add(s)}
        )
        rise = float(mixed_risk(problem, move_by(h)) - mixed_risk(problem, move_by(-h)))
        out[name, index] = -MIXED_P * rise / (2 * h)
    return out


@pytest.mark.parametrize(
    "inputs",
    [pytest.param(ll.IsotropicMixture(0.5), marks=pytest.mark.more), ll.AnisotropicMixture(delta=0.6, fraction=0.4)],
)
def test_the_mean_step_is_the_gradient_of_the_risk(inputs):
    """The tangent: over many one-step runs the mean increment is -eta grad Psi, and twice that is noticed."""
    problem = dataclasses.replace(
        FULL, inputs=inputs, algorithm=dataclasses.replace(FULL.algorithm, weight_decay=0.0, batch_size=16)
    )
    net, count = mixed_network(), 16384
    after, eta = mixed_steps(problem, net, count), 0.4 / (MIXED_P * MIXED_D)
    wrong = []
    for (name, index), pull in mixed_pull(problem, net).items():
        pull = pull * {"a": 1.5, "b": 1.0, "W": MIXED_D}[name]
        move_of = (np.asarray(getattr(after, name))[(slice(None), *index)] - getattr(net, name)[index]) / eta
        error = move_of.std() / np.sqrt(count)
        assert abs(move_of.mean() - pull) < 4.5 * error, (name, index)
        wrong.append(abs(move_of.mean() - 2 * pull) / error)
    assert max(wrong) > 8


# --- DMFT: the first step, on data that are drawn anew -----------------------------------------------------------


@pytest.mark.parametrize("b", [1.0, 0.4])
def test_the_mean_first_step_of_descent_is_that_of_dmft(b):
    """On the sphere m_1 = a m_0 with the a of the sheet; a step twice as long, or none, is told apart."""
    eta, alpha, m0 = 0.01, 2.0, 0.6
    q = 1 - m0**2

    def after(eta):
        return m0 * (1 - 4 * eta * alpha * q + eta**2 * (12 * alpha * q / b + 4 * alpha**2 * q)) ** -0.5

    problem = descent(ll.StochasticGD(eta, b), alpha, ll.InformedStart(m0))
    runs = ll.simulate(problem, 300, [0, eta], replicas=16, seed=2).m[1].values[:, None]
    assert abs(t_score(runs, after(eta))[0]) < 4
    for wrong in (2 * eta, 0.0, -eta):
        assert abs(t_score(runs, after(wrong))[0]) > 5


# --- MatrixFlow: one short step of an explicit network -----------------------------------------------------------


def test_one_short_step_of_wide_descent_is_the_velocity_of_the_matrix():
    """To first order in the step; a clock without 1/m, or twice as fast, is told apart."""
    d, step = 20, 1e-6
    problem = wide(step=step)
    setting = WideDescent.of(problem, Asked("a test"))
    instance, V = draw_instance("a test", setting, d, 3, 0), start_factor(setting, d, 3, 0, 40)
    move = velocity(instance.X, instance.b, V)
    right = (look(instance, V + 1e-5 * move, 0.25)[2] - look(instance, V - 1e-5 * move, 0.25)[2]) / 2e-5
    error = ll.simulate(problem, d, [0.0, step], seed=3).error.values[:, 0]
    seen = (error[1] - error[0]) / step
    assert seen == pytest.approx(right, rel=1e-4) and abs(right) > 0.1
    for wrong in (2 * right, 40 * right, -right):
        assert abs(seen - wrong) > 0.5 * abs(right)
