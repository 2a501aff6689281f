"""Nesting: where two limits must agree they do, and where they must not they do not."""

import itertools
import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import TINY_RATE, committee, descent, fit, fit_curve, gentle, glm, mixture, projected, radial, sparse, wide
from increments import closed_path, closed_sigma
from limitlab.algorithms.descent.wide import draw_weights, start_factor
from limitlab.algorithms.settings.fixed_data import WideDescent
from limitlab.macro.bayes.state_evolution import Order, evolve
from limitlab.macro.committees.particles import Cloud, cloud_risk, drift, interaction
from limitlab.macro.erm.equations import solve_lanes
from limitlab.macro.erm.ridge import ridge_lanes
from limitlab.macro.mixtures.particles import follow, start_units
from limitlab.macro.overlaps.drift import drift as overlap_drift
from limitlab.numerics.linalg import pseudo_inverse
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.states.overlaps import Overlaps, error_sum, risk
from neurons import GRAM, draw, gap, jit_drift
from scores import t_score

# --- HighDimMeanField in OverlapODE ------------------------------------------------------------------------------


def overlaps_of(cloud: Cloud, gram, Xi) -> Overlaps:
    """The network whose orthogonal parts have the correlations Xi."""
    S = cloud.m @ pseudo_inverse(jnp.asarray(gram)) @ cloud.m.T
    root = jnp.sqrt(cloud.q)
    return Overlaps(S + root[:, None] * root * Xi, cloud.m, jnp.asarray(gram), cloud.a)


def exact_drift(problem, sums, overlaps: Overlaps) -> Cloud:
    """The motion of (m, q, a) by OverlapODE: q is the diagonal of Q - M P^-1 M^T."""
    move = overlap_drift(problem, sums, overlaps)
    inner = jnp.einsum("ir,rs,is->i", move.M, pseudo_inverse(overlaps.P), overlaps.M)
    return Cloud(move.M, jnp.diagonal(move.Q) - 2 * inner, move.a)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        pytest.param("erf", "erf", marks=pytest.mark.more),
        pytest.param("relu", "relu", marks=pytest.mark.more),
        pytest.param("tanh", "tanh", marks=pytest.mark.more),
        ("square", "square"),
        pytest.param("erf", "relu", marks=pytest.mark.more),
    ],
)
def test_drift_equals_overlap_ode_where_orthogonal_parts_are_orthogonal(f, g):
    problem, cloud = gentle(2, f=f, g=g, a_star=[0.7, -1.3], trained=True, second_layer_rate=0.3), draw(2)
    sums, links = error_sum(problem), interaction(problem, GRAM, None)
    alone = interaction(problem, GRAM, None, own=False)

    @eqx.filter_jit
    def both(cloud):
        network = overlaps_of(cloud, GRAM, jnp.eye(2))
        exact = exact_drift(problem, sums, network), risk(problem, network, sums)
        found = drift(problem, links, cloud), cloud_risk(problem, links, cloud)
        return exact, found, drift(problem, alone, cloud)

    exact, found, without_self = both(cloud)
    assert gap(found[0], exact[0]) < 1e-12
    assert abs(found[1] - exact[1]) < 1e-12
    assert gap(without_self, exact[0]) > 1e-2


def test_drift_with_random_xi_is_another_flow():
    """The control of the identity above: at d = 5 the average over xi counts."""
    problem, cloud = gentle(f="square"), draw()
    infinite, five = (jit_drift(problem, interaction(problem, GRAM, d), cloud) for d in (None, 5))
    assert gap(infinite, five) > 1e-2


def test_drift_on_the_sphere_equals_overlap_ode_and_keeps_the_norm():
    problem, cloud = gentle(f="square", trained=True, spherical=True), draw()
    exact = exact_drift(problem, error_sum(problem), overlaps_of(cloud, GRAM, jnp.eye(3)))
    links = interaction(problem, GRAM, None)
    found = jit_drift(problem, links, cloud)
    assert gap(found, exact) < 1e-12
    norm = found.q + 2 * jnp.einsum("ir,rs,is->i", found.m, links.P_inverse, cloud.m)
    assert float(jnp.max(jnp.abs(norm))) < 1e-12
    free = replace(problem, algorithm=ll.OnlineSGD(learning_rate=TINY_RATE))
    assert gap(jit_drift(free, links, cloud), exact) > 1e-2


def test_a_single_unit_follows_overlap_ode_exactly():
    """One unit has no partner: nothing is dropped but the learning-rate-squared term."""
    start = ll.OverlapStart(Q=[[1.0]], M=[[0.3]], P=[[1.2]])
    problem = gentle(1, 1, "square", start=start, trained=True, spherical=True, second_layer_rate=0.5)
    times = np.array([0.0, 0.5, 3.0, 20.0])
    one, two = ll.predict(problem, ll.OverlapODE(), times), ll.predict(problem, ll.HighDimMeanField(), times)
    assert np.max(np.abs(one.risk - two.risk)) < 1e-7
    assert np.max(np.abs(one.M.values - two.M.values)) < 1e-7
    assert np.max(np.abs(one.a.values - two.a.values)) < 1e-7
    assert np.max(np.abs(two.q.values + two.M.values[..., 0] ** 2 / 1.2 - one.Q.values[..., 0])) < 1e-7
    assert float(one.risk[0] - one.risk[-1]) > 0.005


def test_average_over_xi_is_the_mean_of_overlap_ode_over_random_orthogonal_parts():
    """n = 1: all signs; n = 2: a grid of angles; n = 3: random directions, by z-score; one compiled batch for all."""
    problem, cloud, gram, size = gentle(2, 1, "relu", trained=True), draw(2, 1), np.eye(1), 4096
    sums = error_sum(problem)
    batched = eqx.filter_jit(jax.vmap(lambda Xi: exact_drift(problem, sums, overlaps_of(cloud, gram, Xi))))

    def sample(g):  # (size, 2, n) unit vectors
        return batched(jnp.einsum("bin,bjn->bij", g, g))

    def predicted(n):
        return jit_drift(problem, interaction(problem, gram, n + 1), cloud)

    mean = lambda batch: jax.tree.map(lambda x: jnp.mean(x, axis=0), batch)  # noqa: E731
    coin = mean(sample(jnp.tile(jnp.array([[1.0, 1.0], [1.0, -1.0]]), (size // 2, 1))[..., None]))
    assert gap(coin, predicted(1)) < 1e-12

    grid = 2 * np.pi * np.arange(size) / size
    angles = np.stack([0 * grid, grid], axis=1)
    circle = mean(sample(jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)))
    assert gap(circle, predicted(2)) < 1e-6

    g = np.random.default_rng(5).normal(size=(size, 2, 3))
    random = sample(jnp.asarray(g / np.linalg.norm(g, axis=-1, keepdims=True)))

    def z(n):
        scores = jax.tree.map(lambda x, y: (x.mean(0) - y) / (x.std(0, ddof=1) / np.sqrt(size)), random, predicted(n))
        return max(float(jnp.max(jnp.abs(s))) for s in scores)

    assert z(3) < 4.5
    assert z(2) > 6
    assert z(6) > 6


TIMES = np.linspace(0, 4, 21)


def nesting(p, d, xi, seeds=range(2)):
    """Largest difference of the risk from OverlapODE over time, mean over random starts; squares, k = 2.

    With ``xi`` "random" it is that of MF, with "zero" that of HDMF, both started from the same overlaps.
    """
    errors = []
    for seed in seeds:
        weights = np.random.default_rng(seed).normal(size=(p + 2, d))
        weights[p:] = np.sqrt(d) * np.linalg.qr(weights[p:].T)[0].T  # an orthonormal teacher
        Omega = weights @ weights.T / d
        start = ll.OverlapStart(Q=Omega[:p, :p], M=Omega[:p, p:], P=Omega[p:, p:])
        problem = gentle(p, f="square", start=start)
        truth = ll.predict(problem, ll.OverlapODE(rtol=1e-6), TIMES)
        found = ll.predict(problem, ll.HighDimMeanField(d=d if xi == "random" else None, rtol=1e-6), TIMES)
        errors.append(np.max(np.abs(found.risk.values - truth.risk.values)))
    return np.mean(errors)


@pytest.mark.more
def test_mean_field_error_falls_with_width_and_hdmf_has_a_floor_in_d():
    narrow, wide, floor = nesting(32, 10, "random"), nesting(128, 10, "random"), nesting(32, 10, "zero")
    assert 5e-3 < narrow < 3e-2
    assert 2 < narrow / wide < 8  # 1/p gives 4
    assert 0.05 < floor < 0.12
    assert floor > 3 * narrow


@pytest.mark.slow
def test_mean_field_error_is_of_order_one_over_p_and_hdmf_of_order_one_over_d():
    widths = (32, 128, 512)
    errors = [nesting(p, 10, "random") for p in widths]
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert -1.25 < slope < -0.75
    assert slope < ll.HighDimMeanField.rate["p"]
    floors = {d: nesting(256, d, "zero") for d in (10, 40)}
    assert floors[10] > 0.7 * nesting(32, 10, "zero")  # xi = 0 does not get better with width
    slope = np.log(floors[40] / floors[10]) / np.log(4)
    assert -1.3 < slope < ll.HighDimMeanField.rate["d"]


# --- OverlapSDE: the ODE as d grows, and the variance around it ----------------------------------------------------


PATHS, EARLY = 1500, np.array([0.1, 0.5])


def overlap(data):
    """m(t) of every path: (path, time)."""
    return data.M.values[:, :, 0, 0].T


def test_paths_become_the_ode_as_d_grows():
    plain = committee("square", "square", 1, 1, 0.1, 0.2, trained=True, batch_size=2)
    paths = ll.predict(plain, ll.OverlapSDE(d=1e14, replicas=8), EARLY)
    ode = ll.predict(plain, ll.OverlapODE(), EARLY)
    for name in ("M", "Q", "a", "risk"):
        assert float(abs(paths[name] - ode[name]).max()) < 1e-5
        assert float(abs(ode[name][1] - ode[name][0]).max()) > 0.01
    assert set(paths.dims) == {"time", "replica", "student", "student_2", "teacher", "teacher_2"}
    assert paths.attrs["method"] == "OverlapSDE"
    paths = ll.predict(projected(), ll.OverlapSDE(d=1e14, replicas=PATHS), EARLY)
    np.testing.assert_allclose(overlap(paths), np.broadcast_to(closed_path(EARLY), (PATHS, 2)), atol=1e-5)


def test_linear_noise_is_the_variance_of_the_paths_at_large_d():
    d = 10**5
    linear = ll.analysis.linear_noise(projected(), d, EARLY)
    m = overlap(ll.predict(projected(), ll.OverlapSDE(d=d, replicas=PATHS, seed=5), EARLY))
    centred = m - m.mean(0)
    ratio = (centred**2).mean(0) / linear.variance("M[0,0]")
    error = np.sqrt(((centred**4).mean(0) / (centred**2).mean(0) ** 2 - 1) / len(m))
    assert np.max(np.abs((ratio - 1) / error)) < 4
    assert np.min(abs(ratio * 1.4 - 1) / error) > 4  # control
    early = ll.analysis.linear_noise(projected(), d, [1e-7]).variance("M[0,0]")[0]
    assert early / (1e-7 * 0.05 / d) == pytest.approx(closed_sigma(0.3, 0.05, 0.2), rel=1e-4)


# --- MeanField and DimensionFree: sparse targets -------------------------------------------------------------------


@pytest.mark.more
def test_corrected_flow_without_steps_is_the_flow():
    tiny = ll.OnlineSGD(learning_rate=1e-9)
    times = [1.0, 4.0]
    one = ll.predict(sparse(algorithm=tiny), ll.DimensionFree(nodes=24), times)
    two = ll.predict(sparse(algorithm=tiny), ll.DimensionFree(nodes=24, corrected=True), times)
    np.testing.assert_allclose(one.fourier, two.fourier, atol=1e-7)
    added = (two.risk - two.latent_risk).values  # 100 neurons, even if they learn without noise
    assert np.all(added > 0) and np.max(added) < 0.01


@pytest.mark.more
def test_mean_field_tends_to_dimension_free():
    times = [1.0, 3.0]
    limit = ll.predict(sparse(), ll.DimensionFree(), times).fourier.values
    gaps = [np.max(np.abs(ll.predict(sparse(), ll.MeanField(d=d), times).fourier.values - limit)) for d in (200, 800)]
    assert 3.0 < gaps[0] / gaps[1] < 5.0  # falls like 1/d: 4


# --- MeanField and RadialFlow: mixtures ----------------------------------------------------------------------------


@pytest.mark.more
def test_large_d_tends_to_infinite_d():
    times = np.array([0.5, 2.0])
    limit = ll.predict(radial(0.3), ll.RadialFlow(), times=times).risk.values
    gaps = [
        np.abs(ll.predict(radial(0.3), ll.RadialFlow(d=d, nodes=48), times=times).risk.values - limit)
        for d in (1000, 2000)
    ]
    np.testing.assert_allclose(gaps[0] / gaps[1], 2.0, rtol=0.02)


def test_clouds_follow_the_radial_flow():
    """Six seeds of 80 units without noise; half the time is wrong."""
    d, times, problem = 20, np.array([0.0, 0.1, 0.4]), mixture()
    runs = [ll.predict(problem, ll.MeanField(d=d, particles=80, seed=seed), times) for seed in range(6)]
    setting = ll.RadialFlow(d=d).parsed(problem)
    exact = follow(setting, d, times, *start_units(setting, d, 8)[:2], 1e-9)
    assert np.max(np.abs(t_score([run.risk.values for run in runs], exact.risk))) < 4
    norms = [run.r.mean("particle").values[1:] for run in runs]
    # At 80 units a bias of order 1/80 is left in the norms; it is below their scatter over seeds.
    np.testing.assert_allclose(np.mean(norms, axis=0), (exact.units.r[:, :, 0] @ exact.weights)[1:], atol=2e-3)
    slow = follow(setting, d, times / 2, *start_units(setting, d, 4)[:2], 1e-8)
    assert np.max(np.abs(t_score([run.risk.values for run in runs], slow.risk))) > 4


# --- MatrixFlow: short steps, wide students ------------------------------------------------------------------------


def test_the_flow_is_the_limit_of_small_steps_at_first_order():
    gaps = []
    for step in (0.02, 0.01, 0.005):
        problem = wide(step=step)
        steps = ll.predict(problem, ll.MatrixFlow(d=20, seed=1, scheme="descent"), [1.0, 3.0])
        gaps.append(steps.error.values - ll.predict(problem, ll.MatrixFlow(d=20, seed=1), [1.0, 3.0]).error.values)
    for coarse, fine in itertools.pairwise(gaps):
        np.testing.assert_allclose(coarse / fine, 2.0, atol=0.15)


def test_infinite_width_starts_at_the_identity_and_finite_ones_come_close():
    problem = WideDescent.of(wide(start=ll.RandomStart(scale=0.5)), Asked("a test"))
    np.testing.assert_array_equal(start_factor(problem, 20, 0, 0, math.inf), 0.5 * np.eye(20))
    gaps = []
    for width in (1000, 16000):
        V = start_factor(problem, 20, 0, 0, width)
        assert V.shape == (20, 20)
        W = draw_weights(problem, 20, 0, 0, width)
        np.testing.assert_allclose(V @ V.T, W.T @ W / width, atol=1e-12)
        gaps.append(np.linalg.norm(V @ V.T - 0.25 * np.eye(20)))
    assert gaps[0] / gaps[1] == pytest.approx(4.0, rel=0.2)  # the declared rate, width^-1/2


# --- DMFT: rules that contain each other ---------------------------------------------------------------------------


def test_rules_contain_each_other():
    limit, times, eta = ll.DMFT(trajectories=1024, batches=2), [0.05, 0.2], 0.01

    def m(rule):
        return ll.predict(descent(rule), limit, times).m.values

    plain, stochastic = m(ll.GradientDescent(eta)), m(ll.StochasticGD(eta, 0.5))
    np.testing.assert_allclose(m(ll.PersistentSGD(eta, 1.0, 0.7)), plain, atol=1e-10)
    np.testing.assert_allclose(m(ll.PersistentSGD(eta, 0.5, 2 * eta)), stochastic, atol=1e-10)
    assert np.max(np.abs(m(ll.PersistentSGD(eta, 0.5, 20 * eta)) - stochastic)) > 1e-3  # control: masks that last
    np.testing.assert_allclose(m(ll.Langevin(eta, 0.0)), plain, atol=1e-10)


# --- StateEvolution and BayesOptimal -------------------------------------------------------------------------------


def test_state_evolution_brackets_the_spinodal():
    """Just below alpha_AMP the iteration stays low, just above it reaches perfect recovery (slowly)."""
    t = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    for factor, perfect in ((0.995, False), (1.005, True)):
        problem = glm(ll.GaussianPrior(), ll.Modulus(), factor * t.algorithmic)
        path = ll.predict(problem, ll.StateEvolution(start=0.05, iterations=400))
        assert (float(path.m[-1]) > 0.99) == perfect
        assert float(path.m_fixed) == pytest.approx(float(path.m[-1]), abs=1e-4)
        assert np.all(np.diff(path.m) > -1e-12)


def test_starts_choose_the_branch():
    problem = glm(ll.RademacherPrior(), ll.Sign(), 1.4)  # hard: AMP stays low although the truth is better
    low = ll.predict(problem, ll.StateEvolution(iterations=200))
    high = ll.predict(problem, ll.StateEvolution(start="informed", iterations=200))
    best = ll.predict(problem, ll.BayesOptimal())
    assert float(low.m_fixed) == pytest.approx(float(low.m[-1]), rel=1e-9)
    assert float(low.m_fixed) < 0.9 < float(best.m) == float(high.m_fixed) == 1.0
    assert float(best.free_entropy) == pytest.approx(-np.log(2))
    even = glm(ll.GaussianPrior(), ll.Modulus(), 0.8)
    stuck = ll.predict(even, ll.StateEvolution(iterations=5))
    assert np.all(stuck.m == 0) and float(stuck.m_fixed) == 0 and "start='weak'" in stuck.attrs["note"]
    weak = ll.predict(even, ll.StateEvolution(start="weak", iterations=5))
    growth = weak.m.values[1:4] / weak.m.values[:3]
    np.testing.assert_allclose(growth, 0.8 / 0.5, rtol=1e-3)  # alpha/alpha_WR per iteration
    assert float(weak.m_fixed) > 0.1


def test_mismatched_state_evolution_contains_the_matched_one():
    for prior, channel in ((ll.GaussBernoulliPrior(0.3), ll.Sign(0.1)), (ll.GaussianPrior(), ll.Modulus(0.05))):
        rho = prior.second_moment
        start = Order(*(np.asarray(float(x)) for x in (0.2 * rho, 0.2 * rho, 0.8 * rho)))
        paths = [evolve(traced(prior), traced(channel), 1.4, start, 6, matched) for matched in (True, False)]
        np.testing.assert_allclose(paths[0].m, paths[1].m, rtol=1e-6)
        np.testing.assert_allclose(paths[1].m, paths[1].q, rtol=1e-6)
        other = evolve(traced(prior), traced(channel), 1.4, start._replace(q=0.5 * rho), 6, False)
        assert not np.allclose(other.m[1:3], paths[0].m[1:3], rtol=1e-3)  # negative control


def test_message_passing_ends_at_the_bayes_optimum_where_nothing_is_hard():
    """A sign at alpha = 1.5; after two iterations, or with a tenth more samples, it is elsewhere."""
    problem = glm(ll.GaussianPrior(), ll.Sign(), 1.5)
    best, path = ll.predict(problem, ll.BayesOptimal()), ll.predict(problem, ll.StateEvolution(iterations=200))
    for name in ("m", "q", "V", "mse", "generalisation_error"):
        np.testing.assert_allclose(path[name][-1], best[name], rtol=1e-9)
    assert abs(float(path.m[2] / best.m) - 1) > 1e-2
    more = ll.predict(replace(problem, sample_ratio=1.65), ll.BayesOptimal())
    assert abs(float(more.m / best.m) - 1) > 1e-2


# --- ERMAsymptotics: ridge regression, the maximal margin, the Bayes optimum ---------------------------------------


@pytest.mark.parametrize(
    "channel", [ll.GaussianNoise(variance=0.3), pytest.param(ll.Sign(flip=0.05), marks=pytest.mark.more)]
)
def test_the_general_solver_finds_ridge_regression(channel):
    alpha, penalty = (x.ravel() for x in np.meshgrid([0.05, 0.9, 3.0, 100.0], [1e-4, 1.0]))
    rho = 2.3
    closed, _ = ridge_lanes(channel, alpha, penalty, rho)
    found = solve_lanes(
        traced(channel), ll.SquareLoss(), jnp.asarray(alpha), jnp.asarray(penalty), jnp.full(len(alpha), rho)
    )
    assert float(jnp.max(found.residual)) < 1e-10
    for name in ("m", "q", "V", "m_hat", "q_hat", "V_hat", "train_loss"):
        np.testing.assert_allclose(getattr(found, name), closed[name], rtol=1e-9, err_msg=name)
    for name in ("risk", "label_mse", "generalisation_error", "mse"):
        np.testing.assert_allclose(found.errors[name], closed[name], rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(found.errors["risk"], found.errors["label_mse"] / 2, rtol=1e-9)


@pytest.mark.more
def test_weak_penalties_lead_to_the_maximal_margin():
    alphas = [0.3, 1.0, 4.0]
    margin = fit_curve(fit(ll.MaxMargin()), alphas)
    hinge = fit_curve(fit(ll.HingeLoss(), penalty=1e-6), alphas)
    for name in ("m", "q"):
        np.testing.assert_allclose(hinge[name], margin[name], rtol=1e-9)
    np.testing.assert_allclose(hinge.V * 1e-6, margin.V, rtol=1e-7)
    gaps = []
    for penalty in (1e-3, 1e-6, 1e-9):  # the direction of logistic regression, logarithmically slowly
        logistic = fit_curve(fit(ll.LogisticLoss(), penalty=penalty), alphas)
        gaps.append(abs(logistic.generalisation_error.values / margin.generalisation_error.values - 1).max())
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 0.03


def test_ridge_regression_at_the_penalty_of_the_prior_is_bayes_optimal():
    """Gaussian weights and noise: penalty = noise/rho gives the posterior mean; twice that does not."""
    alpha, noise, rho = 1.7, 0.4, 2.0
    best = ll.predict(glm(ll.GaussianPrior(rho), ll.GaussianNoise(noise), alpha), ll.BayesOptimal())
    right, wrong = (
        ll.predict(fit(ll.SquareLoss(), ll.GaussianNoise(noise), alpha, factor * noise / rho, rho), ll.ERMAsymptotics())
        for factor in (1.0, 2.0)
    )
    for name in ("m", "q", "mse"):
        np.testing.assert_allclose(right[name], best[name], rtol=1e-9)
    assert float(wrong.mse / best.mse) - 1 > 1e-2
