"""Sparse targets in the limit: the flow of neurons against independent code, identities, controls that must fail."""

import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import erf, expit

import limitlab as ll
from cases import sparse as problem
from limitlab.macro.sparse.flow import Particles, drift, make_flow, outputs, width, with_width
from limitlab.macro.sparse.linearised import FrozenFlow, is_worthwhile
from limitlab.macro.sparse.nodes import start_nodes
from limitlab.macro.sparse.step_noise import Kicked, kicked_drift
from limitlab.numerics.ode.integrate import SOON

jit_drift, jit_kicked = eqx.filter_jit(drift), eqx.filter_jit(kicked_drift)

STAIRCASE = "z1 + z1*z2 + z1*z2*z3"


# --- an independent solution: plain NumPy, brute-force quadrature in G, many plain Gauss nodes in a ----------------

PLAIN = {
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "sigmoid": (expit, lambda x: expit(x) * expit(-x)),
    "erf": (lambda x: erf(x / np.sqrt(2)), lambda x: np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)),
    "square": (lambda x: x**2, lambda x: 2 * x),
    "cubic": (lambda x: x**3 - 3 * x, lambda x: 3 * x**2 - 3),
}


def reference(coefficients, P, name, by, times, nodes=96, kappa=1.0, rates=(1.0, 1.0), freeze_s=False):
    """Fourier coefficients of f by SciPy: everything written out anew."""
    function, derivative = PLAIN[name]
    a0, w = np.polynomial.legendre.leggauss(nodes)
    w = w / 2
    z = np.array([[1 - 2 * (b >> i & 1) for i in range(P)] for b in range(2**P)], float)
    chi = np.array([[np.prod(row[[i for i in range(P) if S >> i & 1]]) for S in range(2**P)] for row in z])
    h = chi @ np.array([coefficients.get(S, 0.0) for S in range(2**P)])
    g, gw = np.polynomial.legendre.leggauss(160)
    g, gw = 9 * g, 9 * gw * np.exp(-((9 * g) ** 2) / 2) / np.sqrt(2 * np.pi)

    def smoothed(u, s):
        x = (u @ z.T)[..., None] + s[:, None, None] * g + by
        d = derivative(x)
        return function(x) @ gw, d @ gw, (d * g) @ gw

    def right(t, y):
        a, u, s = y[:nodes], y[nodes:-nodes].reshape(nodes, P), y[-nodes:]
        value, slope, spread = smoothed(u, s)
        e = (h - (w * a) @ value) / 2**P
        ds = np.zeros(nodes) if freeze_s else rates[1] * a * (spread @ e)
        return np.concatenate([rates[0] * value @ e, (rates[1] * a[:, None] * ((slope * e) @ z)).ravel(), ds])

    start = np.concatenate([a0, np.zeros(nodes * P), np.full(nodes, kappa)])
    path = solve_ivp(right, (0, times[-1]), start, "DOP853", t_eval=times, rtol=1e-11, atol=1e-13).y.T
    out = []
    for y in path:
        value, _, _ = smoothed(y[nodes:-nodes].reshape(nodes, P), y[-nodes:])
        out.append(chi.T @ ((w * y[:nodes]) @ value) / 2**P)
    return np.array(out)


@pytest.mark.parametrize(
    ("name", "activation", "by"),
    [
        pytest.param("tanh", "shifted(tanh, 0.5)", 0.5, marks=pytest.mark.more),
        pytest.param("sigmoid", "shifted(sigmoid, -0.5)", -0.5, marks=pytest.mark.more),
        ("erf", "shifted(erf, 0.3)", 0.3),
        pytest.param("square", "shifted(square, 0.4)", 0.4, marks=pytest.mark.more),
    ],
)
def test_coefficients_against_independent_code(name, activation, by):
    times = np.array([0.5, 2.0, 4.0])
    text = "0.7*z1 - z1*z2 + 0.4*z2*z3 + 0.2"
    wanted = reference({1: 0.7, 3: -1.0, 6: 0.4, 0: 0.2}, 3, name, by, times, kappa=0.8)
    got = ll.predict(problem(text, activation, scale=0.8), ll.DimensionFree(tolerance=1e-9), times)
    assert got.attrs["node_error"] < 1e-9
    np.testing.assert_allclose(got.fourier.values, wanted, atol=1e-8)
    risk = 0.5 * np.sum((got.fourier.values - ll.SparseTarget(text).coefficients) ** 2, axis=1)
    np.testing.assert_allclose(got.risk.values, risk, atol=1e-12)


def test_rates_of_the_layers_and_controls_that_must_fail():
    times = np.array([1.0, 3.0])
    rule = ll.OnlineSGD(learning_rate=5.0, second_layer_rate=0.3)
    got = ll.predict(problem("z1 + z1*z2", algorithm=rule), ll.DimensionFree(), times).fourier.values
    target = {1: 1.0, 3: 1.0}
    np.testing.assert_allclose(got, reference(target, 2, "tanh", 0.5, times, rates=(0.3, 1.0)), atol=1e-8)
    for wrong in (
        reference(target, 2, "tanh", 0.5, times * 2, rates=(0.3, 1.0)),  # the other clock
        reference(target, 2, "tanh", 0.5, times, rates=(0.3, 1.0), freeze_s=True),  # no equation for s
        reference(target, 2, "tanh", 0.5, times, rates=(1.0, 1.0)),  # equal rates
    ):
        assert np.max(np.abs(got - wrong)) > 1e-3


# --- identities ----------------------------------------------------------------------------------------------------

ACTIVATIONS = [
    "shifted(tanh, 0.5)",
    "sigmoid",
    "shifted(erf, -0.3)",
    "shifted(relu, 0.4)",
    "abs",
    "shifted(hermite(3), 0.2)",
    "piecewise((-1.0, 0.5), (0.3, -1.0), (1.2, 2.0))",
]


def cloud(problem, level=1):
    setting = ll.DimensionFree().parsed(problem)
    nodes = start_nodes(setting, level)
    flow = make_flow(setting, nodes.weights, even=nodes.even, widest=2.0)
    # The cloud below has none of the symmetries of the start, so nothing is projected.
    P = problem.teacher.latent
    flow = dataclasses.replace(flow, projector=jnp.eye(P), allowed=jnp.ones(2**P))
    rng = np.random.default_rng(3)
    n = len(nodes.a)
    s = 0.3 + rng.random(n)
    x = Particles(
        jnp.asarray(nodes.a + 0.1), jnp.asarray(0.7 * rng.normal(size=(n, P))), with_width(flow, jnp.asarray(s))
    )
    return flow, x


@pytest.mark.more_of("piecewise((-1.0, 0.5), (0.3, -1.0), (1.2, 2.0))", "shifted(tanh, 0.5)")
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_smoothing_by_brute_force(activation):
    sigma = ll.activation(activation)
    rounded = sigma.smoother(2.0)
    m, s = jnp.array([[-0.7, 0.2, 1.3]]), jnp.array([[1.7]])
    G = np.linspace(-9, 9, 2_000_001)
    density = np.exp(-(G**2) / 2) / np.sqrt(2 * np.pi) * (G[1] - G[0])
    seen = rounded(m, s)
    for i in range(3):
        x = jnp.asarray(float(m[0, i]) + 1.7 * G)
        slope = np.asarray(jax.vmap(sigma.derivative)(x))
        assert abs(float(seen.value[0, i]) - density @ np.asarray(sigma(x))) < 1e-9
        assert abs(float(seen.slope[0, i]) - density @ slope) < 1e-5
        pull = float(seen.pull[0, i]) * (1.0 if rounded.kinked else 1.7)
        assert abs(pull - density @ (G * slope)) < 1e-5
        assert abs(float(rounded.energy(m, s)[0, i]) - density @ slope**2) < 2e-5


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_flow_is_the_gradient_flow_of_the_risk(activation):
    """theta' = -(1/2w) dR/dtheta, by automatic differentiation; R = E e^2."""
    flow, x = cloud(problem("z1 + z1*z2 + z3", activation, law="gaussian"))

    def loss(a, u, s):
        return jnp.mean(jnp.square(flow.target - outputs(flow, Particles(a, u, with_width(flow, s)))))

    s = width(flow, x.r)
    da, du, ds = map(np.asarray, jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(x.a, x.u, s))
    motion = jax.tree.map(np.asarray, jit_drift(x, flow))
    w, s = np.asarray(flow.weights), np.asarray(s)
    speed = motion.r * s if flow.form == "log" else motion.r
    np.testing.assert_allclose(motion.a, -da / (2 * w), atol=1e-9)
    np.testing.assert_allclose(motion.u, -du / (2 * w[:, None]), atol=1e-9)
    np.testing.assert_allclose(speed, -ds / (2 * w), atol=1e-9)
    # dissipation: dR/dt = -2 E|theta'|^2
    rate = np.sum(da * motion.a) + np.sum(du * motion.u) + np.sum(ds * speed)
    spent = -2 * w @ (motion.a**2 + np.sum(motion.u**2, axis=1) + speed**2)
    np.testing.assert_allclose(rate, spent, rtol=1e-9)


@pytest.mark.parametrize(("activation", "k"), [pytest.param("relu", 1, marks=pytest.mark.more), ("square", 2)])
def test_homogeneous_activations_conserve(activation, k):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ll.errors.RepresentationWarning)
        ds = ll.predict(problem("z1 + z1*z2", activation), ll.DimensionFree(nodes=24), [0.5, 1.0, 2.0])
        shifted = ll.predict(
            problem("z1 + z1*z2", f"shifted({activation}, 0.5)"), ll.DimensionFree(nodes=24), [0.5, 1.0, 2.0]
        )

    def drifted(ds):
        kept = (k * ds.a**2 - (ds.u**2).sum("latent") - ds.s**2).values
        return np.max(np.abs(kept - kept[0])[:, np.abs(ds.a.values[0]) > 0.2])

    start = start_nodes(ll.DimensionFree().parsed(problem("z1 + z1*z2", activation)), 2)
    kept = (k * ds.a**2 - (ds.u**2).sum("latent") - ds.s**2).values
    np.testing.assert_allclose(kept, np.broadcast_to(k * start.a**2 - 1.0, kept.shape), atol=1e-8)
    assert drifted(shifted) > 1e-3  # the control: no law for a shifted activation


def test_a_pair_is_never_learned():
    ds = ll.predict(problem("z1*z2"), ll.DimensionFree(), [1.0, 10.0, 100.0])
    np.testing.assert_array_equal(ds.risk.values, 0.5)
    assert np.all(ds.u.values == 0)


@pytest.mark.more
def test_parity_of_a_staircase_and_symmetry_of_a_degenerate_target():
    ds = ll.predict(problem(STAIRCASE), ll.DimensionFree(nodes=24), [5.0])
    even = [term for term in ds.term.values if "z1" not in term.split("*")]
    assert np.max(np.abs(ds.fourier.sel(term=even))) < 1e-12
    degenerate = ll.predict(problem("z1 + z2 + z3 + z1*z2*z3"), ll.DimensionFree(nodes=24), [150.0])
    u = degenerate.u.values[0]
    np.testing.assert_array_equal(u[:, 0], u[:, 1])  # not even rounding tells them apart
    np.testing.assert_array_equal(u[:, 0], u[:, 2])
    assert degenerate.risk.values[0] > 0.4  # R -> 1 in the talk's scale: it is stuck, though the floor is zero


def test_two_neurons_are_exact_for_signs():
    a = ll.predict(problem(STAIRCASE, law="rademacher"), ll.DimensionFree(), [1.0, 4.0])
    assert a.sizes["particle"] == 2 and a.attrs["node_error"] == 0
    b = ll.predict(problem(STAIRCASE, p=4, output_weights=[1.0, -1.0, 1.0, -1.0]), ll.DimensionFree(), [1.0, 4.0])
    np.testing.assert_allclose(a.fourier, b.fourier, atol=1e-12)


def test_weight_decay_pulls_every_parameter():
    rule = ll.OnlineSGD(learning_rate=5.0, weight_decay=0.3)
    flow, x = cloud(problem("z1 + z1*z2 + z3", algorithm=rule, law="gaussian"))
    plain, _ = cloud(problem("z1 + z1*z2 + z3", law="gaussian"))
    with_decay, without = jit_drift(x, flow), jit_drift(x, plain)
    np.testing.assert_allclose(with_decay.a - without.a, -0.3 * x.a, atol=1e-12)
    np.testing.assert_allclose(with_decay.u - without.u, -0.3 * x.u, atol=1e-12)
    np.testing.assert_allclose(with_decay.r - without.r, -0.3, atol=1e-12)  # of log s


def frozen_case(activation="erf", **change):
    """A flow, a state as one vector, the flow linearised there, and its Jacobian by automatic derivatives."""
    flow, x = cloud(problem("z1 + z1*z2 + z3", activation, law="gaussian", **change))
    y = np.concatenate([np.ravel(np.asarray(leaf)) for leaf in x])
    frozen = FrozenFlow(flow, y)
    v = frozen.enter(y)
    n = len(v)

    @jax.jit
    def motion(v):
        rows = v.reshape(n, -1)
        motion = drift(Particles(rows[:, 0], rows[:, 1:-1], rows[:, -1]), flow)
        return jnp.concatenate([motion.a[:, None], motion.u, motion.r[:, None]], axis=1).ravel()

    return flow, y, frozen, v, motion, np.asarray(jax.jit(jax.jacfwd(motion))(v.ravel()))


@pytest.mark.parametrize("change", [{}, {"algorithm": ll.OnlineSGD(5.0, weight_decay=0.3, second_layer_rate=0.4)}])
def test_the_linearised_flow_inverts_its_jacobian(change):
    """(1 - hJ) x = c, against the whole matrix; neurons by themselves, or signs of their coupling, are another flow."""
    _, y, frozen, v, motion, J = frozen_case(**change)
    c, h = np.random.default_rng(0).normal(size=v.shape), 0.8
    whole = np.linalg.solve(np.eye(v.size) - h * J, c.ravel()).reshape(v.shape)
    np.testing.assert_allclose(frozen.solver(h)(c), whole, atol=1e-11)
    np.testing.assert_array_equal(frozen.leave(frozen.enter(y)), y)
    step = np.linalg.solve(np.eye(v.size) - h * J, h * np.asarray(motion(v.ravel()))).reshape(v.shape)
    np.testing.assert_allclose(frozen.euler(h)(v), v + step, atol=1e-11)
    right = frozen.projector
    for wrong in (0.0, -1.0):
        frozen.projector = wrong * right
        assert np.max(np.abs(frozen.solver(h)(c) - whole)) > 1e-3


def test_steps_grow_as_the_flow_comes_to_rest(monkeypatch):
    """The same path as by explicit steps, which stability keeps short; kinks, and what is large, stay with these."""
    pair = problem("z1 + z1*z2", "shifted(erf, 0.3)")
    times = [0.0, 20.0, 60.0, 150.0]
    grown = ll.predict(pair, ll.DimensionFree(nodes=12, rtol=1e-9), times)
    flow, _ = cloud(pair)
    assert is_worthwhile(flow, 24) and not is_worthwhile(flow, 10**7)
    assert not is_worthwhile(cloud(problem("z1 + z1*z2", "relu"))[0], 24)
    monkeypatch.setattr("limitlab.macro.sparse.solve.is_worthwhile", lambda *_: False)
    short = ll.predict(pair, ll.DimensionFree(nodes=12, rtol=1e-9), times)
    assert grown.attrs["steps"] - SOON < (short.attrs["steps"] - SOON) / 3
    np.testing.assert_allclose(grown.fourier, short.fourier, atol=1e-8)
    np.testing.assert_allclose(grown.u, short.u, atol=1e-6)


def test_steps_that_asked_times_end_are_not_those_of_a_flow_at_rest(monkeypatch):
    """Explicit steps go on where only the asked times make them many; at a fixed count they would have ended."""
    pair, few, many = problem("z1 + z1*z2"), np.linspace(0, 20, 3), np.linspace(0, 20, 401)

    def never(*_):
        raise AssertionError("the linearised flow was asked for")

    monkeypatch.setattr("limitlab.macro.sparse.solve.FrozenFlow", never)
    long, short = (ll.predict(pair, ll.DimensionFree(nodes=12), times) for times in (many, few))
    assert long.attrs["steps"] > SOON
    np.testing.assert_allclose(long.fourier[::200], short.fourier, atol=1e-9)
    monkeypatch.setattr("limitlab.numerics.ode.integrate.SOON", 20)
    with pytest.raises(AssertionError, match="linearised flow"):
        ll.predict(pair, ll.DimensionFree(nodes=12), few)


def test_chunks_change_nothing(monkeypatch):
    flow, x = cloud(problem("z1 + z1*z2 + z3*z4*z5"))
    whole = jit_drift(x, flow)
    monkeypatch.setattr("limitlab.macro.sparse.flow.NUMBERS", 100)
    pieces = eqx.filter_jit(lambda x, flow: drift(x, flow))(x, flow)  # traced again, with the new number
    for one, two in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)


# --- layer-wise training -------------------------------------------------------------------------------------------


def test_layerwise_ridge_and_flow_against_plain_algebra():
    times = np.array([1.0, 2.0, 3.0, 6.0])
    got = {}
    for penalty in (None, 1e-3):
        rule = ll.LayerwiseSGD(learning_rate=5.0, switch_time=2.0, penalty=penalty)
        got[penalty] = ll.predict(problem("z1 + z1*z2", algorithm=rule), ll.DimensionFree(nodes=48), times)
    first = got[None].sel(time=2.0)
    z = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    values = np.asarray(
        ll.activation("shifted(tanh, 0.5)")
        .smoother()(jnp.asarray(first.u.values @ z.T), jnp.asarray(first.s.values)[:, None])
        .value
    )
    K = values.T @ (first.weight.values[:, None] * values) / 4
    h = ll.SparseTarget("z1 + z1*z2").values
    ridge = 1e-3 * np.linalg.solve(K + 1e-3 * np.eye(4), h)
    np.testing.assert_allclose(got[1e-3].latent_risk.values[2:], np.mean(ridge**2) / 2, rtol=1e-7)
    from scipy.linalg import expm

    e = h - (first.weight.values * first.a.values) @ values
    for time in (3.0, 6.0):
        moved = expm(-K * (time - 2.0)) @ e
        np.testing.assert_allclose(float(got[None].latent_risk.sel(time=time)), np.mean(moved**2) / 2, rtol=1e-8)
    np.testing.assert_allclose(got[None].a.values[1], got[None].a.values[0], atol=1e-14)  # frozen in the first phase


@pytest.mark.more
def test_layerwise_learns_the_degenerate_target_that_joint_training_does_not():
    rule = ll.LayerwiseSGD(learning_rate=5.0, switch_time=2.0, penalty=1e-9)
    ds = ll.predict(problem("z1 + z2 + z3 + z1*z2*z3", algorithm=rule), ll.DimensionFree(), [1.0, 3.0])
    assert ds.risk.values[-1] < 1e-6


def test_first_phase_without_interaction():
    rule = ll.LayerwiseSGD(learning_rate=5.0, switch_time=0.01, interacting=False)
    ds = ll.predict(problem("z1 + z1*z2", algorithm=rule), ll.DimensionFree(nodes=12), [0.005, 0.01])
    a0, u = ds.a.values[0], ds.u.values[0]
    mu1 = float(ll.activation("shifted(tanh, 0.5)").smoother()(jnp.zeros((1, 1)), jnp.ones((1, 1))).slope[0, 0])
    np.testing.assert_allclose(u[:, 0], a0 * mu1 * 0.005, rtol=2e-2)


# --- corrections, finite dimension ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "activation",
    [
        pytest.param("shifted(tanh, 0.5)", marks=pytest.mark.more),
        pytest.param("shifted(relu, 0.4)", marks=pytest.mark.more),
        "shifted(hermite(3), 0.2)",
    ],
)
def test_common_parts_act_as_the_gradient_of_the_risk_says(activation):
    """Neurons with explicit vectors v: R = E_z e^2 + sum_ij w_i w_j a_i a_j E_z[psi_i psi_j] v_i . v_j (i != j)."""
    flow, x = cloud(problem("z1 + z1*z2 + z3", activation))
    n = len(x.a)
    w, off = np.asarray(flow.weights), ~np.eye(n, dtype=bool)
    rng = np.random.default_rng(1)
    own = np.eye(n, n + 1) * np.asarray(width(flow, x.r))[:, None]

    def loss(a, u, v):
        s = jnp.sqrt(jnp.sum(v**2, axis=1))[:, None]
        value, psi, _ = flow.smoother(u @ flow.points.T, s)
        heavy = (w * a)[:, None] * psi
        pairs = heavy @ heavy.T / len(flow.points) * off
        return jnp.mean((flow.target - (w * a) @ value) ** 2) + jnp.sum(pairs * (v @ v.T))

    slopes = jax.jit(jax.grad(loss, (0, 1, 2)))
    left = []
    for size in (0.04, 0.02):
        v = own + np.sqrt(size) * rng.random(n)[:, None] * np.eye(n + 1)[n]
        gram = v @ v.T
        seen = map(np.asarray, slopes(x.a, x.u, jnp.asarray(v)))
        da, du, dv = (-g / (2 * w.reshape(-1, *[1] * (g.ndim - 1))) for g in seen)
        state = Kicked(x.a, x.u, jnp.asarray(np.diag(gram)), jnp.asarray(gram * off))
        got = jit_kicked(state, dataclasses.replace(flow, kick=jnp.asarray(0.0)))
        np.testing.assert_allclose(got.a, da, atol=1e-9)
        np.testing.assert_allclose(got.u, du, atol=1e-9)
        np.testing.assert_allclose(got.q, 2 * np.sum(dv * v, axis=1), atol=1e-9)
        psi = np.asarray(flow.smoother(x.u @ flow.points.T, jnp.sqrt(state.q)[:, None]).slope)
        # In the measure neuron j is one of infinitely many: its own norm has no weight.
        # And the others of its own class, which the finite sum leaves out, act on it.
        a, K = np.asarray(x.a), psi @ psi.T / len(flow.points)
        lone = -np.outer(a, w * a * np.asarray(state.q)) * K + (a**2 * w * np.diag(K))[:, None] * np.asarray(state.D)
        wanted = dv @ v.T + v @ dv.T - lone - lone.T
        left.append(np.max(np.abs(np.asarray(got.D) - wanted)[off]))
        rng = np.random.default_rng(1)
    assert left[0] / left[1] > 3.0 or left[0] < 1e-9  # second order in D


def test_kicks_of_the_steps():
    flow, x = cloud(problem("z1 + z1*z2 + z3", variance=0.4))
    state = Kicked(x.a, x.u, jnp.square(width(flow, x.r)), jnp.zeros((len(x.a),) * 2))
    got = jit_kicked(state, flow)
    still = jit_kicked(state, dataclasses.replace(flow, kick=jnp.asarray(0.0)))
    m, s = np.asarray(x.u @ flow.points.T), np.asarray(width(flow, x.r))[:, None]
    g, gw = np.polynomial.hermite_e.hermegauss(80)
    gw = gw / gw.sum()
    slope = 1 - np.tanh(m[..., None] + s[..., None] * g + 0.5) ** 2
    felt = (np.asarray(flow.target - outputs(flow, x))) ** 2 + 0.4
    a, rate = np.asarray(x.a), 5.0 / 100
    mean = slope @ gw
    np.testing.assert_allclose(got.q - still.q, rate * a**2 * np.mean(felt * (slope**2 @ gw), axis=1), atol=1e-6)
    np.testing.assert_allclose(got.D, rate * np.outer(a, a) * ((mean * felt) @ mean.T) / 8, atol=1e-6)


@pytest.mark.more
def test_mean_field_refines_the_law_of_s_as_well():
    """At t = 0, a = 1 and f is a mean over chi-square; node_error must not promise more than it holds."""
    from scipy.stats import chi2

    one = problem("z1 + z1*z2", law="ones", scale=2.0)
    ds = ll.predict(one, ll.MeanField(d=12), [0.0, 1e-6])
    q = (np.arange(20000) + 0.5) / 20000
    s = jnp.asarray(2.0 * np.sqrt(chi2.ppf(q, 10) / 12))
    g, w = np.polynomial.hermite_e.hermegauss(80)
    field = 2.0 * np.sqrt(2 / 12) * g  # <u, z> has variance 2 scale^2/d at every z
    rounded = ll.activation("shifted(tanh, 0.5)").smoother(8.0)
    mean = jax.jit(lambda m: jnp.mean(rounded(jnp.full_like(s, m), s).value))
    value = np.array([float(mean(m)) for m in field])
    truth = value @ w / w.sum()
    assert abs(float(ds.fourier.sel(term="1")[0]) - truth) < max(1e-5, 3 * ds.attrs["node_error"])


@pytest.mark.more
def test_small_rules_are_enough_in_many_dimensions():
    """u and s hardly vary there, and a few nodes in each hold six digits; node_error promises no more than that."""
    coarse, fine = (ll.predict(problem("z1 + z1*z2"), ll.MeanField(d=100, tolerance=t), [1.0]) for t in (1e-5, 2e-7))
    assert coarse.sizes["particle"] < 1500 < fine.sizes["particle"] < 6000
    assert 0 < np.abs(coarse.fourier - fine.fourier).max() < coarse.attrs["node_error"] < 1e-5


@pytest.mark.more
def test_no_other_coordinates_at_all():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ll.errors.AccuracyWarning)
        ds = ll.predict(problem("z1 + z1*z2"), ll.MeanField(d=2), [0.5])
    assert ds.status.item() == "ok" and np.all(np.isfinite(ds.fourier))


def test_a_frozen_second_layer_does_not_decay():
    rule = ll.OnlineSGD(learning_rate=2.0, second_layer_rate=0.0, weight_decay=0.5)
    one = problem("z1 + z1*z2", algorithm=rule, p=10)
    sim = ll.simulate(one, d=20, times=[0.0, 1.0], replicas=2)
    np.testing.assert_array_equal(sim.a.values[0], sim.a.values[1])
    flow = ll.predict(one, ll.DimensionFree(nodes=12), [0.5, 1.0])
    np.testing.assert_array_equal(flow.a.values[0], flow.a.values[1])


@pytest.mark.more
def test_pair_escapes_at_finite_dimension_as_linear_theory_says():
    times = np.linspace(0.5, 2.0, 4)
    d, mu2 = 10_000, None
    ds = ll.predict(problem("z1*z2", law="rademacher", trained=False), ll.MeanField(d=d), times)
    mu2 = float(ll.activation("shifted(tanh, 0.5)").smoother()(jnp.zeros((1, 1)), jnp.ones((1, 1))).pull[0, 0])
    expected = mu2 / d * np.sinh(2 * mu2 * times)
    np.testing.assert_allclose(ds.fourier.sel(term="z1*z2").values, expected, rtol=0.02)


# --- errors and words ----------------------------------------------------------------------------------------------


def test_says_before_the_run_what_can_never_be_learned():
    with pytest.warns(ll.errors.RepresentationWarning, match=r"z1\*z2.*odd.*shifted"):
        ds = ll.predict(problem("z1 + z1*z2", "tanh"), ll.DimensionFree(nodes=12), [1.0])
    assert "never represent z1*z2" in ds.attrs["note"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ll.errors.RepresentationWarning)
        ll.predict(problem("z1 + z1*z2*z3", "tanh"), ll.DimensionFree(nodes=12), [1.0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(inputs=ll.Gaussian()), "Hypercube"),
        (dict(teacher=ll.Committee(width=1)), "SparseTarget"),
        (dict(start=ll.InformedStart(0.5)), "random start"),
        (dict(student=None), "student"),
        (dict(algorithm=ll.OnlineSGD(learning_rate=1.0, spherical=True)), "spherical"),
        (dict(channel=ll.Sign()), "GaussianNoise"),
    ],
)
def test_limit_says_what_it_needs(change, words):
    with pytest.raises(ll.errors.LimitUndefinedError, match=words):
        ll.predict(dataclasses.replace(problem("z1"), **change), ll.DimensionFree(), [1.0])


def test_bad_limits():
    with pytest.raises(ll.errors.InputError, match="multiple of 12"):
        ll.DimensionFree(nodes=13)
    with pytest.raises(ll.errors.InputError, match="tolerance"):
        ll.DimensionFree(tolerance=0.0)
    with pytest.raises(ll.errors.LimitUndefinedError, match=r"MeanField\(d=100\)"):
        ll.predict(problem("z1"), ll.MeanField(), [1.0])
    with pytest.raises(ll.errors.LimitUndefinedError, match="latent"):
        ll.predict(problem(STAIRCASE), ll.MeanField(d=2), [1.0])


def test_divergence_is_a_status():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ll.errors.RepresentationWarning)
        ds = ll.predict(
            problem("100*z1*z2*z3 + z1", "hermite(3)", law="gaussian"), ll.DimensionFree(nodes=12), [1e-4, 50.0]
        )
    assert ds.status.item() in ("ok", "diverged", "not_converged", "max_steps")
    if ds.status.item() != "ok":
        assert np.isnan(ds.risk.values[-1])
