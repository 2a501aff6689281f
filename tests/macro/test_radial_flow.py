"""The radial flow of mixtures: against independent code, three roads against each other, identities, edges."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.special import betainc, gammaln, ndtr

import limitlab as ll
from cases import radial as problem
from limitlab.numerics.gauss.sphere import DirectionSmoother, SpherePiecewise
from limitlab.problems.problem import replaced

BAD = ((0.0, -2.5), (0.5, -4.0), (1.5, 7.5))


# --- averages over directions ------------------------------------------------------------------------------


def over_directions(function, m, s, d, kinks=()):
    log_c = gammaln(d / 2) - gammaln((d - 1) / 2) - 0.5 * math.log(math.pi)
    low = math.acos(min(1.0, 12 / math.sqrt(d)))
    breaks = sorted(math.acos(np.clip((t - m) / s / math.sqrt(d), -1, 1)) for t in kinks)

    def integrand(phi):
        return function(m + s * math.sqrt(d) * math.cos(phi)) * math.exp(log_c) * math.sin(phi) ** (d - 2)

    return quad(integrand, low, math.pi - low, points=breaks or None, epsabs=1e-12, epsrel=1e-12, limit=300)[0]


@pytest.mark.parametrize("d", [2, 3, 10, 320])
def test_averages_over_directions_are_exact(d):
    pieces = SpherePiecewise(-2.5, 0.3, (-3.0, 14.5, -11.5), (0.0, 0.5, -1.5), d)
    smooth = DirectionSmoother(jnp.tanh, lambda x: 1 - jnp.tanh(x) ** 2, d)
    for m, s in ((0.0, 0.3), (0.4, 1.0), (-1.0, 2.7)):
        kinked = partial(over_directions, m=m, s=s, d=d, kinks=(0.0, 0.5, -1.5))
        value = kinked(lambda x: -2.5 + 0.3 * x - 3 * max(x, 0) + 14.5 * max(x - 0.5, 0) - 11.5 * max(x + 1.5, 0))
        assert float(pieces(jnp.asarray(m), jnp.asarray(s)).value) == pytest.approx(value, abs=1e-10)
        assert float(smooth(jnp.asarray(m), jnp.asarray(s)).value) == pytest.approx(
            over_directions(math.tanh, m, s, d), abs=1e-10
        )


@pytest.mark.parametrize(
    "smoother",
    [
        pytest.param(SpherePiecewise(0.5, 0.2, (1.0, -2.0), (0.3, -0.8), 7), marks=pytest.mark.more),
        DirectionSmoother(jnp.tanh, jax.grad(jnp.tanh), 7),
    ],
)
def test_slope_and_pull_are_derivatives(smoother):
    for m, s in ((0.1, 0.4), (-0.7, 1.9)):
        got = smoother(jnp.asarray(m), jnp.asarray(s))
        slope, pull = jax.grad(lambda m, s: smoother(m, s).value, argnums=(0, 1))(jnp.asarray(m), jnp.asarray(s))
        assert float(got.slope) == pytest.approx(float(slope), abs=1e-10)
        assert float(got.pull) == pytest.approx(float(pull), abs=1e-10)


# --- an independent flow -----------------------------------------------------------------------------------


def independent_risk(delta, scale, d, times, speed=1.0):
    """Own code from the formulas: projected activation by incomplete beta functions, scipy's integrator, R/2."""
    t_i, g_i = np.array([0.5, 1.5]), np.array([10.0, -10.0])
    if math.isinf(d):
        x, p, r0, w0 = np.array([1 + delta, 1 - delta]), np.array([0.5, 0.5]), np.array([scale]), np.array([1.0])
        y = np.array([1.0, -1.0])

        def g(s):
            z = t_i / s[..., None]
            phi = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
            return -2.5 + np.sum(g_i * (s[..., None] * phi - t_i * ndtr(-z)), -1), np.sum(g_i * phi, -1)
    else:
        nodes, weights = np.polynomial.legendre.leggauss(120)
        low, high = max(1e-9, math.sqrt(d) - 6.5), math.sqrt(d) + 6.5
        chi = (low + high) / 2 + (high - low) / 2 * nodes
        mass = weights * np.exp((d - 1) * np.log(chi) - chi**2 / 2 - (d - 1) * math.log(math.sqrt(d)) + d / 2)
        mass = mass / mass.sum()
        x = np.concatenate([(1 + delta) * chi, (1 - delta) * chi])  # the length of their x, of order sqrt(d)
        p, y = np.tile(mass / 2, 2), np.repeat([1.0, -1.0], len(chi))
        r0, w0 = scale * chi / math.sqrt(d), mass
        c = math.exp(gammaln(d / 2) - gammaln((d - 1) / 2)) / math.sqrt(math.pi)

        def g(R):
            w = np.maximum(1 - (t_i / R[..., None]) ** 2, 0.0)
            power = c * w ** ((d - 1) / 2) / (d - 1)
            tail = betainc((d - 1) / 2, 0.5, w) / 2
            return -2.5 + np.sum(g_i * (R[..., None] * power - t_i * tail), -1), np.sum(g_i * power, -1)

    def parts(r):
        value, slope = g(r[:, None] * x)
        return y - w0 @ value, slope * x

    def drift(_, r):
        e, slope = parts(r)
        return speed * slope @ (p * e)

    run = solve_ivp(drift, (0, times[-1]), r0, method="DOP853", t_eval=times, rtol=1e-9, atol=1e-11)
    return np.array([p @ parts(r)[0] ** 2 / 2 for r in run.y.T])


@pytest.mark.more_of("0.9-10")
@pytest.mark.parametrize(
    ("delta", "d"),
    [
        (0.9, 10),
        (0.5, math.inf),
        *(pytest.param(delta, d, marks=pytest.mark.slow) for delta in (0.1, 0.3, 0.6, 0.8) for d in (10, 40, 320)),
    ],
)
def test_risks_agree_with_independent_code(delta, d):
    """Where the start is torn apart, the 120 nodes of the other code do not resolve it at t = 10, nor do 120 of ours.

    There many equal panels of ours stand in for it: 960 nodes give 0.3056285, 0.3498434 at delta = 0.8, d = 10, 40,
    where the other code has 0.30494, 0.35036.
    """
    times = np.array([0.0, 0.2, 1.0, 4.0, 10.0])
    torn = (delta, d) in ((0.6, 10), (0.8, 10), (0.8, 40))
    here = ll.predict(problem(delta), ll.RadialFlow(d=d), times=times)
    seen = slice(4) if torn else slice(None)
    assert np.max(np.abs(here.risk.values[seen] - independent_risk(delta, 0.8, d, times[seen]))) < 1e-6
    assert str(here.status.values) == "ok"
    if torn:
        few, many = (ll.predict(problem(delta), ll.RadialFlow(d=d, nodes=n), times=times) for n in (120, 960))
        assert abs(float(many.risk[-1] - here.risk[-1])) < 1e-6 < abs(float(few.risk[-1] - here.risk[-1]))


@pytest.mark.more
def test_panels_are_split_where_the_start_is_torn_apart():
    """At small d some norms run away and others stay: equal panels would need thousands of nodes."""
    learner, times = problem(0.9, 0.3), np.linspace(0.0, 3.0, 5)  # as many as above: the same programs
    flow = ll.predict(learner, ll.RadialFlow(d=10), times=times)
    plain = ll.predict(learner, ll.RadialFlow(d=10, nodes=96), times=times)
    assert flow.attrs["node_error"] < 1e-7 and flow.sizes["particle"] < 600
    assert abs(float(plain.risk[-1] - flow.risk[-1])) > 1e-6


def test_equal_panels_miss_what_split_ones_find_where_the_start_is_torn_apart():
    """The smaller twin: at t = 6 split panels are off by 6e-8, 96 equal nodes by 1.2e-5 (960 by 7e-7)."""
    learner, times, right = problem(0.9, 0.3), np.array([0.0, 6.0]), 0.59197937  # panels split to 1e-7 have it
    split = ll.predict(learner, ll.RadialFlow(d=10, tolerance=1e-6, rtol=1e-8), times=times)
    equal = ll.predict(learner, ll.RadialFlow(d=10, nodes=96, rtol=1e-8), times=times)
    assert split.attrs["node_error"] < 1e-6 and split.sizes["particle"] < 600
    assert abs(float(split.risk[-1]) - right) < 1e-6
    assert abs(float(equal.risk[-1]) - right) > 5e-6


def test_the_clock_is_not_that_of_the_paper():
    times = np.array([0.2, 1.0])
    here = ll.predict(problem(0.5), ll.RadialFlow(), times=times)
    assert np.max(np.abs(here.risk.values - independent_risk(0.5, 0.8, math.inf, times, speed=2.0))) > 0.05


# --- identities --------------------------------------------------------------------------------------------


def test_risk_falls_at_the_rate_of_the_squared_speed():
    h = 1e-3
    times = 0.3 + h * np.arange(-2, 3)
    flow = ll.predict(problem(0.4), ll.RadialFlow(d=30, nodes=48), times=times)
    slope = float(flow.risk.values @ [1, -8, 0, 8, -1]) / (12 * h)
    speed = np.tensordot([1, -8, 0, 8, -1], flow.r.values, 1) / (12 * h)
    assert slope == pytest.approx(-float(flow.weight.values @ speed**2), rel=1e-6)


@pytest.mark.parametrize(
    "inputs", [ll.IsotropicMixture(0.6), pytest.param(ll.AnisotropicMixture(0.6, 0.3), marks=pytest.mark.more)]
)
def test_relu_conserves_a_quadratic_form(inputs):
    learner = problem(
        activation="relu",
        inputs=inputs,
        student={"second_layer": "trained", "bias": "trained"},
        start={"second_layer": "uniform", "bias_scale": 0.3},
    )
    flow = ll.predict(learner, ll.RadialFlow(nodes=12), times=np.array([0.0, 0.5, 2.0]))
    norms = flow.r.values**2
    form = flow.a.values**2 - flow.b.values**2 - (norms if norms.ndim == 2 else norms.sum(axis=2))
    assert np.max(np.abs(form - form[0])) < 1e-8
    assert float(flow.risk[-1]) < float(flow.risk[0])


def test_an_anisotropic_mixture_that_is_none():
    times = np.array([0.0, 0.5, 2.0])
    whole = ll.predict(problem(inputs=ll.AnisotropicMixture(0.5, 1.0)), ll.RadialFlow(), times=times)
    plain = ll.predict(problem(0.5), ll.RadialFlow(), times=times)
    np.testing.assert_allclose(whole.risk.values, plain.risk.values, atol=1e-9)
    np.testing.assert_allclose(whole.alignment.values, 1.0)
    blind = ll.predict(problem(inputs=ll.AnisotropicMixture(0.5, 0.0)), ll.RadialFlow(), times=times)
    assert float(blind.risk[-1]) >= 0.5 - 1e-12  # the classes cannot be told apart


def test_a_point_mass_stays_one():
    assert ll.predict(problem(), ll.RadialFlow(), times=np.array([1.0])).sizes["particle"] == 1
    sphere = problem(start={"sphere": True})
    assert ll.predict(sphere, ll.RadialFlow(d=20), times=np.array([1.0])).sizes["particle"] == 1


def test_schedules_bend_time_only():
    times = np.array([0.0, 0.3, 1.7])
    slowing = ll.PowerSchedule(0.25, onset=0.0)
    bent = ll.predict(problem(rule={"schedule": slowing}), ll.RadialFlow(), times=times)
    plain = ll.predict(problem(), ll.RadialFlow(), times=slowing.elapsed(times))
    np.testing.assert_allclose(bent.risk.values, plain.risk.values, atol=1e-9)
    own = ll.predict(problem(rule={"schedule": ll.CustomSchedule(lambda t: 1 / (1 + t))}), ll.RadialFlow(), times=times)
    named = ll.predict(problem(rule={"schedule": ll.PowerSchedule(1.0)}), ll.RadialFlow(), times=times)
    np.testing.assert_allclose(own.risk.values, named.risk.values, atol=1e-9)


def test_decay_and_label_noise():
    times = np.array([0.0, 1.0])
    noisy = ll.predict(problem(noise=0.3), ll.RadialFlow(), times=times).risk.values
    np.testing.assert_allclose(noisy - ll.predict(problem(), ll.RadialFlow(), times=times).risk.values, 0.15, atol=1e-9)
    flat = problem(scale=0.05, rule={"weight_decay": 0.7})  # far below the first knot nothing pulls but the decay
    flow = ll.predict(flat, ll.RadialFlow(), times=times)
    assert float(flow.r[1, 0]) == pytest.approx(0.05 * math.exp(-0.7), rel=1e-8)


# --- three roads -------------------------------------------------------------------------------------------

TIMES = np.array([0.0, 0.3, 1.0, 3.0])


@pytest.fixture(scope="module")
def reference():
    return ll.predict(problem(), ll.RadialFlow(d=40, nodes=48), times=TIMES).risk.values


@pytest.mark.more
def test_volumes_converge_at_first_order_and_keep_mass(reference):
    runs = [
        ll.predict(problem(), ll.RadialFlow(d=40, method="volumes", cells=n, reach=3.0), times=TIMES)
        for n in (200, 400, 800)
    ]
    errors = [np.max(np.abs(run.risk.values - reference)) for run in runs]
    orders = np.log2([errors[0] / errors[1], errors[1] / errors[2]])
    assert np.all(np.abs(orders - 1) < 0.1), orders
    for run in runs:
        assert run.attrs["mass_error"] < 1e-12
        assert float(run.density.min()) >= 0
        assert np.all(np.diff(run.risk.values) < 0)


@pytest.mark.more
def test_proximal_steps_converge_at_first_order(reference):
    errors = []
    for step in (0.05, 0.025, 0.0125):
        run = ll.predict(problem(), ll.RadialFlow(d=40, method="jko", step=step, nodes=24), times=TIMES)
        errors.append(np.max(np.abs(run.risk.values - reference)))
        assert np.all(np.diff(run.risk.values) < 0)
    orders = np.log2([errors[0] / errors[1], errors[1] / errors[2]])
    assert np.all(np.abs(orders - 1) < 0.12), orders


def test_a_wall_at_zero():
    """A kink at 0 brings norms to 0 in finite time; all roads stay there, and a larger start escapes."""
    times = np.array([0.0, 1.0, 2.0, 4.0])
    small = problem(0.5, 0.1, BAD)
    flow = ll.predict(small, ll.RadialFlow(d=40, nodes=12, rtol=1e-8), times=times)
    assert float(flow.r[-1].max()) == 0.0 and str(flow.status.values) == "ok"
    for risk in (
        flow.risk,
        ll.predict(small, ll.RadialFlow(d=40, method="jko", nodes=12), times=times).risk,
    ):
        assert float(risk[-1]) == pytest.approx(((1 + 2.5) ** 2 + (1 - 2.5) ** 2) / 4, abs=1e-9)
    assert float(ll.predict(problem(0.5, 0.4, BAD), ll.RadialFlow(d=320, nodes=48), times=times).risk[-1]) < 0.02


# --- noise -------------------------------------------------------------------------------------------------

HOT = problem(0.5, rule={"temperature": 0.002, "weight_decay": 0.1})


def test_the_free_energy_falls_to_that_of_the_law_at_rest():
    rest = ll.analysis.stationary_law(HOT, d=20)
    flow = ll.predict(HOT, ll.RadialFlow(d=20), times=np.array([0.0, 0.1, 0.5, 1.0, 5.0, 60.0]))
    assert np.all(np.diff(flow.free_energy.values) < 0)
    assert float(flow.free_energy[-1]) == pytest.approx(float(rest.free_energy), abs=1e-9)
    assert float(flow.risk[-1]) == pytest.approx(float(rest.risk), abs=1e-6)
    assert flow.attrs["mass_error"] < 1e-12 and float(flow.density.min()) >= 0
    assert float(ll.wasserstein(flow.isel(time=[-1]), rest)) < 0.005
    hotter = ll.analysis.stationary_law(replaced(HOT, {"algorithm.temperature": 0.004}), d=20)  # control
    assert float(ll.wasserstein(flow.isel(time=[-1]), hotter)) > 0.02


def test_the_law_at_rest_solves_its_equation():
    rest = ll.analysis.stationary_law(HOT, d=20, cells=1500)
    r, density = rest.radius.values, rest.density.values
    psi = ll.analysis.potentials(HOT, 20).psi(r, (r, density))
    log = 19 * np.log(r) - (psi + 0.1 * r**2 / 2) / 0.002
    boltzmann = np.exp(log - log.max())
    boltzmann = boltzmann / boltzmann.sum() / (r[1] - r[0])
    np.testing.assert_allclose(density, boltzmann, atol=1e-9 * density.max())
    assert float(rest.density.sum() * (r[1] - r[0])) == pytest.approx(1.0, abs=1e-12)


# --- edges -------------------------------------------------------------------------------------------------


def test_mass_that_leaves_the_grid_is_a_status():
    flow = ll.predict(problem(), ll.RadialFlow(d=40, method="volumes", reach=1.4), times=np.array([0.0, 0.1, 3.0]))
    assert str(flow.status.values) == "failed" and "larger reach" in flow.attrs["note"]
    assert np.isfinite(flow.risk.values[0]) and np.isnan(flow.risk.values[-1])
    assert float(flow.end_time) < 3.0


@pytest.mark.parametrize(
    ("learner", "limit", "pattern"),
    [
        (HOT, ll.RadialFlow(), "finite dimension"),
        (HOT, ll.RadialFlow(d=20, method="particles"), "volumes"),
        (problem(inputs=ll.AnisotropicMixture(0.5, 0.3)), ll.RadialFlow(d=20), r"MeanField\(d=20\)"),
        (problem(student={"second_layer": "trained"}), ll.RadialFlow(method="volumes"), "one fixed output weight"),
        (problem(student={"bias": "trained"}), ll.RadialFlow(method="jko"), "no bias"),
        (problem(inputs=ll.CustomInputs(lambda key, n, d: None)), ll.RadialFlow(), "mixture"),
        (ll.library.merged_staircase(), ll.RadialFlow(), "labelled inputs"),
    ],
)
def test_what_the_limit_does_not_know_is_said(learner, limit, pattern):
    with pytest.raises(ll.errors.LimitUndefinedError, match=pattern):
        ll.predict(learner, limit, times=np.array([1.0]))


@pytest.mark.parametrize(
    ("make", "pattern"),
    [
        (lambda: ll.RadialFlow(d=0), "d must be"),
        (lambda: ll.RadialFlow(d=2.5), "d must be"),
        (lambda: ll.RadialFlow(reach=-1.0), "reach"),
        (lambda: ll.RadialFlow(nodes=13), "multiple of 12"),
        (lambda: ll.predict(problem(), ll.RadialFlow(d=20, method="volumes", cells=10**9), times=[1.0]), "GiB"),
        (lambda: ll.RadialFlow(method="upwind"), "method"),
        (lambda: ll.IsotropicMixture(1.0), "delta"),
        (lambda: ll.OnlineSGD(learning_rate=1.0, temperature=-0.1), "temperature"),
        (lambda: ll.OnlineSGD(learning_rate=1.0, schedule=0.25), "schedule"),
        (lambda: ll.PowerSchedule(1.5, onset=0.0), "below 1"),
        (lambda: ll.CustomSchedule(lambda t: -t), "finite and >= 0"),
        (lambda: ll.piecewise((0.0, math.nan), (1.0, 2.0)), "finite"),
        (lambda: ll.Committee(width=3, bias="yes"), "bias"),
        (lambda: ll.RandomStart(bias_scale=-1.0), "bias_scale"),
    ],
)
def test_bad_values_are_refused_in_words(make, pattern):
    with pytest.raises(ll.errors.InputError, match=pattern):
        make()


@pytest.mark.more
def test_one_dimension_and_smooth_activations():
    times = np.array([0.0, 1.0])
    for d in (1, 2, math.inf):
        flow = ll.predict(problem(0.7, activation="shifted(tanh, -1.0)"), ll.RadialFlow(d=d, nodes=24), times=times)
        assert str(flow.status.values) == "ok" and float(flow.risk[1]) < float(flow.risk[0])
