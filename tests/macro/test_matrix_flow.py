"""Over-parametrised phase retrieval: the flow of A, descent of an explicit network, and what they share."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import wide
from limitlab.algorithms.descent.wide import draw_instance, start_factor
from limitlab.algorithms.settings.fixed_data import WideDescent
from limitlab.errors import AccuracyWarning, InputError, LimitUndefinedError
from limitlab.macro.wide.factor_flow import FactorFlow, jacobian_product, velocity
from limitlab.macro.wide.matrix_flow import flow
from limitlab.numerics.ode.extrapolation import End, extrapolated, hermite
from limitlab.numerics.ode.integrate import follow
from limitlab.problems.asked import Asked
from limitlab.states.matrix import Instance, look, matrix_risk, relative_error

D = 20


def parsed(problem):
    return WideDescent.of(problem, Asked("a test"))


def toy(n=9, d=5, r=3, seed=0):
    rng = np.random.default_rng(seed)
    X, w, V = rng.normal(size=(n, d)) / np.sqrt(d), rng.normal(size=d), rng.normal(size=(d, r)) / np.sqrt(r)
    return Instance(X, (X @ w) ** 2, w), V


# 1. identities


def test_the_velocity_is_minus_the_gradient_of_a_quarter_of_the_loss():
    (X, b, _), V = toy()
    loss = lambda V: jnp.sum((b - jnp.sum((X @ V) ** 2, axis=1)) ** 2) / 4  # noqa: E731
    np.testing.assert_allclose(velocity(X, b, V), -jax.grad(loss)(jnp.asarray(V)), atol=1e-13)


def test_the_jacobian_is_the_automatic_derivative_and_is_symmetric():
    (X, b, _), V = toy()
    auto = lambda V: jnp.asarray(X.T) @ ((b - jnp.sum((X @ V) ** 2, axis=1))[:, None] * (X @ V))  # noqa: E731
    J = np.asarray(jax.jacobian(auto)(jnp.asarray(V))).reshape(V.size, V.size)
    np.testing.assert_allclose(J, J.T, atol=1e-12)
    dV = np.random.default_rng(1).normal(size=V.shape)
    np.testing.assert_allclose(jacobian_product(X, b, V, dV).ravel(), J @ dV.ravel(), atol=1e-12)


@pytest.mark.parametrize("h", [1e-3, 0.3, 1e4])
def test_the_solve_on_n_unknowns_inverts_one_minus_h_times_the_jacobian(h):
    (X, b, _), V = toy()
    frozen, c = FactorFlow(X, b, V), np.random.default_rng(2).normal(size=V.shape)
    x = frozen.leave(frozen.solver(h)(frozen.enter(c)))
    np.testing.assert_allclose(x - h * jacobian_product(X, b, V, x), c, atol=1e-9)


def test_one_extrapolated_step_has_the_order_it_declares():
    (X, b, _), V = toy()
    exact = flow(Instance(X, b, V[:, 0]), V, np.array([0.2]), rtol=1e-12).states[0]

    def error(columns, pieces):
        y = V
        for _ in range(pieces):
            y = extrapolated(FactorFlow(X, b, y), y, 0.2 / pieces, columns)[0]
        return np.linalg.norm(y - exact)

    for columns in (1, 2, 3):
        assert np.log2(error(columns, 64) / error(columns, 128)) == pytest.approx(columns, abs=0.2)


def test_the_flow_agrees_with_a_general_solver_on_the_matrix():
    from scipy.integrate import solve_ivp

    (X, b, w), V = toy(n=12, d=6, r=6)

    def motion(_, a):
        A = a.reshape(6, 6)
        S = (X.T * (b - np.einsum("ni,ij,nj->n", X, A, X))) @ X
        return (S @ A + A @ S).ravel()

    times = np.array([0.5, 5.0, 50.0])
    slow = solve_ivp(motion, (0, 50), (V @ V.T).ravel(), "LSODA", times, rtol=1e-11, atol=1e-13).y.T.reshape(-1, 6, 6)
    ours = np.array([v @ v.T for v in flow(Instance(X, b, w), V, times, rtol=1e-10).states])
    np.testing.assert_allclose(ours, slow, atol=1e-8)


def test_the_risk_is_the_loss_on_new_samples():
    instance, V = toy(d=8)
    x = np.random.default_rng(3).normal(size=(400_000, 8)) / np.sqrt(8)
    losses = 0.7 * ((x @ instance.teacher) ** 2 - np.sum((x @ V) ** 2, axis=1)) ** 2
    z = (look(instance, V, 0.7)[0] - losses.mean()) / (losses.std() / np.sqrt(len(losses)))
    assert abs(z) < 4


# 2. the explicit network and the matrix


def test_a_single_square_is_a_single_unit():
    wide_one = wide(width=1, step=0.005)
    single = wide(width=1, step=0.005, student=None)
    a, b = (ll.simulate(problem, D, [0.0, 1.0, 4.0], replicas=2, seed=5) for problem in (wide_one, single))
    np.testing.assert_allclose(a.train_loss, b.train_loss, rtol=1e-10)
    np.testing.assert_allclose(a.risk, b.risk, rtol=1e-10)


def test_the_square_loss_on_squared_labels_is_the_same_learning_at_twice_the_speed():
    squared = wide(channel=ll.SquaredModulus(), loss=ll.SquareLoss())
    intensity = wide(channel=ll.SquaredModulus(), loss=ll.PhaseRetrievalLoss(prefactor=0.5, labels="intensity"))
    here = ll.predict(squared, ll.MatrixFlow(d=D), [1.0])
    same = ll.predict(intensity, ll.MatrixFlow(d=D), [1.0])
    slow = ll.predict(wide(prefactor=0.25), ll.MatrixFlow(d=D), [2.0])
    assert here.attrs["s_per_time"] == 2.0 and slow.attrs["s_per_time"] == 1.0
    np.testing.assert_allclose(here.risk, same.risk, rtol=1e-12)
    np.testing.assert_allclose(here.risk, 2 * slow.risk, rtol=1e-6)
    np.testing.assert_allclose(here.error, slow.error, rtol=1e-6)


# 3. starts, ranks, widths


@pytest.mark.parametrize("width", [1, 3, D])
def test_the_rank_is_kept_and_the_loss_falls(width):
    problem = parsed(wide(width=width))
    instance, V = draw_instance("a test", problem, D, 0, 0), start_factor(problem, D, 0, 0, width)
    times = np.geomspace(0.01, 1e4, 15)
    states = flow(instance, V, times).states
    assert all(np.linalg.matrix_rank(v @ v.T, tol=1e-9) <= width for v in states)
    losses = [look(instance, v, 1.0)[1] for v in (V, *states)]
    assert np.all(np.diff(losses) <= 1e-12)


def test_the_width_of_the_limit_stands_for_that_of_the_student():
    times = [1.0, 10.0]
    here = ll.predict(wide(width=7), ll.MatrixFlow(d=D, seed=2), times)
    there = ll.predict(wide(width=2 * D), ll.MatrixFlow(d=D, seed=2, width=7), times)
    np.testing.assert_allclose(here.error, there.error, rtol=1e-8)
    assert there.attrs["width"] == 7
    assert ll.predict(wide(), ll.MatrixFlow(d=5, width=math.inf), [1.0]).attrs["width"] == "infinite"


def test_more_replicas_leave_the_first_as_they_were():
    few, many = (ll.predict(wide(), ll.MatrixFlow(d=8, replicas=r, seed=4), [1.0, 5.0]) for r in (1, 3))
    np.testing.assert_array_equal(few.error, many.error.isel(replica=[0]))
    assert len(np.unique(many.error[-1])) == 3


# 4. what the sheet measured


def test_recovery_is_a_power_law_and_its_absence_an_exponential():
    recovers = ll.predict(wide(), ll.MatrixFlow(d=D, width=math.inf), [1e4, 1e5])
    slope = np.log10(recovers.train_loss.values[1, 0] / recovers.train_loss.values[0, 0])
    assert slope == pytest.approx(-2.0, abs=0.2)
    fails = ll.predict(wide(1.5), ll.MatrixFlow(d=D, width=math.inf, seed=1), [1e5])
    assert float(fails.train_loss[0, 0]) < 1e-20 and float(fails.error[0, 0]) > 0.1


@pytest.mark.more
def test_a_success_curve_is_one_sweep():
    grid = {"sample_ratio": [1.5, 3.0], "limit.width": [1, 4, math.inf]}
    ds = ll.sweep(ll.predict, wide(), grid, limit=ll.MatrixFlow(d=8, replicas=3), times=[1e4])
    rates = ds.success.mean("replica")
    assert rates.shape == (2, 3)
    assert float(rates.sel({"sample_ratio": 3.0, "limit.width": math.inf})) > float(
        rates.sel({"sample_ratio": 1.5, "limit.width": math.inf})
    )


# 5. how runs end, and words


def test_too_long_steps_are_warned_of_and_recorded():
    problem = wide(step=1.0)
    with pytest.warns(AccuracyWarning, match="stability limit"):
        sim = ll.simulate(problem, D, [0.0, 100.0], seed=0)
    assert sim.status.values.tolist() == ["diverged"]
    assert np.isfinite(sim.error[0, 0]) and np.isnan(sim.error[1, 0])
    assert not bool(sim.success[0]) and 0 <= float(sim.end_time[0]) < 100
    with pytest.warns(AccuracyWarning):
        pred = ll.predict(problem, ll.MatrixFlow(d=D, scheme="descent"), [0.0, 100.0])
    np.testing.assert_array_equal(sim.status, pred.status)


def test_a_flow_that_takes_too_many_steps_says_so():
    instance, V = toy()
    run = follow(lambda y: FactorFlow(instance.X, instance.b, y), V, np.array([0.1, 1e6]), max_steps=8)
    assert run.status == "max_steps" and run.states[0] is not None and run.states[1] is None
    assert 0.1 <= run.end < 1e6


def test_many_times_cost_little_more_than_few():
    """Most lie inside steps, and their states are as accurate as steps are; these do not see how many there are."""
    (X, b, _), V = toy()
    solved = []

    class Counted(FactorFlow):
        def solver(self, h):
            solved.append(h)
            return super().solver(h)

    def run(times):
        solved.clear()
        return follow(lambda y: Counted(X, b, y), V, times), len(solved)

    times = np.linspace(0.0, 50.0, 2001)
    (few, cheap), (many, cost) = run(times[::1000]), run(times)
    assert many.steps < 2 * few.steps and cost < 8 * cheap < 8 * len(times) / 3
    exact = follow(lambda y: FactorFlow(X, b, y), V, times, rtol=1e-12).states
    errors = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(many.states, exact, strict=True)]
    assert max(errors) < 1e-7
    crossed = [(1 - x) * few.states[1] + x * few.states[2] for x in (0.02, 0.5)]  # negative control: a straight line
    assert all(np.linalg.norm(a - exact[1000 + k]) > 1e-7 for a, k in zip(crossed, (20, 500), strict=True))


def test_the_polynomial_of_a_step_knows_its_own_error():
    (X, b, _), V = toy()
    times = (0.0, 0.02, 0.04, 0.046, 0.06)
    exact = follow(lambda y: FactorFlow(X, b, y), V, np.array(times), rtol=1e-12).states
    before, start, middle, inside, end = (End(t, y, velocity(X, b, y)) for t, y in zip(times, exact, strict=True))
    state, distance = hermite([start, end, middle, before])(0.046)
    assert 0.1 * distance < np.linalg.norm(state - inside.y) < 2 * distance < 1e-5
    wrong, far = hermite([start, end._replace(motion=1.01 * end.motion), middle, before])(0.046)
    assert np.linalg.norm(wrong - inside.y) > 10 * distance and far > 10 * distance


def test_progress_and_bad_representation():
    told = []
    ll.simulate(wide(), 8, [1.0, 2.0], replicas=2, progress=lambda *x: told.append(x))
    assert told[-1][:2] == (200, 200)
    with pytest.raises(InputError, match="representation"):
        ll.simulate(wide(), 8, [1.0], representation="overlaps")


BAD = {
    "Gaussian inputs": {"inputs": ll.Hypercube()},
    "one direction": {"teacher": ll.Committee(width=1, activation="square"), "channel": ll.GaussianNoise()},
    "noiseless labels": {"channel": ll.Modulus(variance=0.1)},
    "fixed data set": {"sample_ratio": None},
    "committee of squares": {"student": ll.Committee(width=3, activation="erf")},
    "second layer of ones": {"student": ll.Committee(width=3, activation="square", second_layer="trained")},
    "squared label": {"loss": ll.SquareLoss()},
    "random start": {"start": ll.InformedStart(overlap=0.3)},
    "spherical=False": {"algorithm": ll.GradientDescent(learning_rate=0.1)},
    "learning_rate=": {"algorithm": ll.OnlineSGD(learning_rate=0.1)},
}


@pytest.mark.parametrize("words", BAD)
def test_what_does_not_fit_is_said_in_words(words):
    problem = wide(**BAD[words])
    with pytest.raises(LimitUndefinedError, match=words):
        ll.predict(problem, ll.MatrixFlow(d=8), [1.0])
    assert words in ll.limits(problem)["MatrixFlow"]
    if words in ("noiseless labels", "second layer of ones", "squared label", "random start", "spherical=False"):
        narrow = wide(width=3, **BAD[words])  # a simulation needs no theory
        assert set(ll.simulate(narrow, 8, [0.1]).status.values) == {"ok"}


def test_overlaps_say_what_the_matrix_says():
    (X, b, w), V = toy(d=8, r=3)
    W, d = np.sqrt(3) * V.T, 8
    Q, M, P = W @ W.T / d, W @ w[:, None] / d, np.array([[w @ w / d]])
    risk, _, error = look(Instance(X, b, w), V, 0.7)
    np.testing.assert_allclose([matrix_risk(Q, M, P, 0.7), relative_error(Q, M, P)], [risk, error], rtol=1e-12)


@pytest.mark.parametrize(
    ("field", "value"),
    [("d", 1), ("d", 2.5), ("width", 0), ("width", 2.5), ("width", "all"), ("replicas", 0), ("seed", -1)],
)
def test_bad_fields_are_refused(field, value):
    with pytest.raises(InputError, match=f"MatrixFlow.{field}"):
        ll.MatrixFlow(**{field: value})


def test_bad_schemes_and_tolerances_are_refused():
    with pytest.raises(InputError, match="scheme"):
        ll.MatrixFlow(scheme="euler")
    with pytest.raises(InputError, match="rtol"):
        ll.MatrixFlow(rtol=0.0)
