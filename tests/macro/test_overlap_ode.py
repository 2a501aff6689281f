"""The overlap equations: against independent code, closed solutions, and their own edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import committee
from independent import erf_moments, solve, two_field_moments
from limitlab.macro.overlaps.drift import drift
from limitlab.states.overlaps import Overlaps, error_sum, limit_overlaps, risk


def random_start(p, k, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(p + k, p + k + 3))
    Omega = A @ A.T / A.shape[1]
    return ll.OverlapStart(Q=Omega[:p, :p], M=Omega[:p, p:], P=Omega[p:, p:])


def check_against(prediction, independent, rtol=1e-6):
    Q, M, a, risk = independent
    for name, value in (("Q", Q), ("M", M), ("a", a), ("risk", risk)):
        np.testing.assert_allclose(prediction[name], value, rtol=rtol, atol=rtol * 1e-1, err_msg=name)


@pytest.mark.parametrize(
    ("p", "k", "variance", "spherical", "trained"),
    [
        pytest.param(3, 2, 0.0, False, False, marks=pytest.mark.more),
        (2, 1, 0.3, True, False),
        pytest.param(2, 3, 0.1, False, True, marks=pytest.mark.more),
    ],
)
def test_erf_overlaps_equal_independent_code(p, k, variance, spherical, trained):
    start = random_start(p, k, seed=p)
    a, a_star = np.linspace(0.5, 1.5, p), np.linspace(1.2, -0.4, k)
    problem = committee(
        p=p,
        k=k,
        start=start,
        learning_rate=1.7,
        variance=variance,
        spherical=spherical,
        trained=trained,
        output_weights=a,
        teacher_weights=a_star,
        second_layer_rate=0.7,
    )
    times = np.array([0.1, 1.0, 10.0])
    norm = np.sqrt(np.diag(start.Q)) if spherical else np.ones(p)  # the rule puts the start on the sphere
    other = solve(
        lambda O, c, n: erf_moments(O, c, p, n),
        start.Q / np.outer(norm, norm),
        start.M / norm[:, None],
        start.P,
        a,
        a_star,
        1.7,
        times,
        noise=variance,
        spherical=spherical,
        kappa=0.7 if trained else 0.0,
    )
    check_against(ll.predict(problem, ll.OverlapODE(), times), other)


@pytest.mark.parametrize(
    ("student", "teacher"),
    [
        ("relu", "relu"),
        pytest.param("erf", "square", marks=pytest.mark.more),
        pytest.param("relu", "tanh", marks=pytest.mark.more),
        pytest.param("square", "relu", marks=pytest.mark.more),
        pytest.param("tanh", "sign", marks=pytest.mark.more),
    ],
)
def test_two_unit_overlaps_equal_independent_quadrature(student, teacher):
    start = ll.OverlapStart(Q=0.8, M=0.3, P=1.1)
    problem = committee(student, teacher, p=1, k=1, start=start, learning_rate=0.2, variance=0.1, batch_size=2)
    times = np.array([0.2, 1.0])
    one = np.ones(1)
    other = solve(
        lambda O, c, n: two_field_moments(O, c, student, teacher, n),
        start.Q,
        start.M,
        start.P,
        one,
        one,
        0.2,
        times,
        noise=0.1,
        batch=2,
    )
    check_against(ll.predict(problem, ll.OverlapODE(), times), other)


def phase_retrieval(t, u0, rate, variance):
    beta = 4 * (1 - 6 * rate)
    alpha = beta - 2 * rate * variance
    grown = np.exp(2 * alpha * t)
    return alpha * u0 * grown / (alpha + beta * u0 * (grown - 1))


@pytest.mark.parametrize("variance", [0.0, 0.4])
def test_projected_phase_retrieval_has_its_closed_solution(variance):
    rate, times = 0.04, np.array([0.5, 2.0, 20.0])
    problem = committee(
        "square",
        "square",
        p=1,
        k=1,
        start=ll.InformedStart(overlap=0.05),
        learning_rate=rate,
        variance=variance,
        spherical=True,
    )
    pred = ll.predict(problem, ll.OverlapODE(), times)
    u = phase_retrieval(times, 0.05**2, rate, variance)
    np.testing.assert_allclose(pred.M.values.ravel() ** 2, u, rtol=1e-7)
    np.testing.assert_allclose(pred.risk, 2 * (1 - u) + variance / 2, rtol=1e-6, atol=1e-9)


def test_closed_solution_rejects_a_wrong_clock():
    problem = committee(
        "square", "square", p=1, k=1, start=ll.InformedStart(overlap=0.05), learning_rate=0.04, spherical=True
    )
    pred = ll.predict(problem, ll.OverlapODE(), [1.0])
    assert abs(float(pred.M.squeeze()) ** 2 / phase_retrieval(1.01, 0.05**2, 0.04, 0.0) - 1) > 1e-2


def test_drift_is_the_mean_increment_of_the_population_flow_at_zero_rate():
    """With gamma -> 0 the risk decreases: dR/dt = -(p/d)|grad R|^2 <= 0 along the drift."""
    problem = committee(p=2, k=2, learning_rate=1e-9, start=random_start(2, 2, 0))
    start, sums = limit_overlaps(problem), error_sum(problem)

    @jax.jit
    def slope(start):
        return jax.jvp(lambda o: risk(problem, o, sums), (start,), (drift(problem, sums, start),))[1]

    assert float(slope(start)) < 0


def test_student_on_top_of_its_teacher_stays_there_without_noise():
    for name in ("erf", "relu", "tanh", "square"):
        problem = committee(name, name, p=2, k=2, start=ll.InformedStart(overlap=1.0))
        pred = ll.predict(problem, ll.OverlapODE(), [1.0, 50.0])
        np.testing.assert_allclose(pred.risk, 0.0, atol=1e-7)
        np.testing.assert_allclose(pred.M.isel(time=-1), np.eye(2), atol=1e-5)


def test_permuting_students_permutes_the_solution():
    start = random_start(3, 2, 4)
    order = [2, 0, 1]
    turned = ll.OverlapStart(Q=start.Q[np.ix_(order, order)], M=start.M[order], P=start.P)
    one, two = (ll.predict(committee(p=3, k=2, start=s), ll.OverlapODE(), [5.0]) for s in (start, turned))
    np.testing.assert_allclose(one.M.values[:, order], two.M.values, rtol=1e-8)


@pytest.mark.more
def test_long_plateau_is_crossed_and_the_implicit_method_takes_over():
    problem = ll.library.soft_committee(width=2, learning_rate=0.1, tilt=1e-6)
    times = np.array([10.0, 1e3, 1e5])
    pred = ll.predict(problem, ll.OverlapODE(), times)
    assert str(pred.status.values) == "ok"
    assert float(pred.risk[0]) > 1e-3  # on the plateau
    assert float(pred.risk[-1]) < 1e-8  # specialised
    as_many = np.array([10.0, 500.0, 1e3])  # one program for so many times
    implicit = ll.predict(problem, ll.OverlapODE(solver="implicit"), as_many)
    np.testing.assert_allclose(implicit.risk[0], pred.risk[0], rtol=1e-6)


def test_a_rate_above_critical_ends_as_diverged_with_finite_numbers_before():
    problem = committee("square", "square", p=1, k=1, start=ll.OverlapStart(Q=1.0, M=0.2, P=1.0), learning_rate=2.0)
    pred = ll.predict(problem, ll.OverlapODE(), np.linspace(0, 5, 51))
    assert str(pred.status.values) == "diverged"
    end = float(pred.end_time)
    assert 0 < end < 5
    before = pred.time.values <= end
    assert np.all(np.isfinite(pred.risk.values[before]))
    assert np.all(np.isnan(pred.risk.values[~before]))


def test_custom_functions_say_how_their_moments_were_computed():
    problem = committee(lambda x: x / jnp.sqrt(1 + x**2), "erf", p=1, k=1)
    pred = ll.predict(problem, ll.OverlapODE(), [0.5])
    assert "trapezoid" in pred.attrs["gaussian_moments"]
    assert 0 <= pred.attrs["quadrature_error"] < 1e-6


@pytest.mark.more
def test_named_and_anonymous_tanh_agree():
    one, two = (
        ll.predict(committee(f, "erf", p=2, k=1), ll.OverlapODE(), [1.0, 4.0]).risk
        for f in ("tanh", lambda x: jnp.tanh(x))
    )
    np.testing.assert_allclose(one, two, rtol=1e-6)


@pytest.mark.more
def test_random_starts_at_finite_d_come_in_replicas_and_equal_those_of_simulate():
    problem = ll.library.escaping_mediocrity(width=2, learning_rate=0.1)
    pred = ll.predict(problem, ll.OverlapODE(d=300, replicas=3, seed=5), [0.0, 0.1])
    sim = ll.simulate(problem, 300, [0.0], replicas=3, seed=5)
    np.testing.assert_allclose(pred.M.isel(time=0), sim.M.isel(time=0), atol=1e-12)
    assert pred.sizes["replica"] == 3


def test_one_compilation_serves_all_rates_and_noises():
    from limitlab.numerics.ode.integrate import _march

    def run(rate, variance):
        return ll.predict(committee(learning_rate=rate, variance=variance), ll.OverlapODE(), [1.0, 2.0])

    run(0.5, 0.0)
    before = _march._cached._cache_size()
    run(0.7, 0.2)
    assert _march._cached._cache_size() == before


def test_rank_deficient_overlaps_are_fine():
    """All students equal: Q has rank one; they stay equal."""
    Q, M = np.full((3, 3), 0.5), np.full((3, 1), 0.2)
    for name in ("erf", "relu", "square"):
        pred = ll.predict(
            committee(name, name, p=3, k=1, start=ll.OverlapStart(Q=Q, M=M, P=1.0)), ll.OverlapODE(), [2.0]
        )
        assert np.ptp(pred.M.values) < 1e-7
        assert np.all(np.isfinite(pred.risk))


def test_overlaps_are_a_pytree_with_a_joint_gram_matrix():
    o = Overlaps(jnp.eye(2), jnp.ones((2, 1)), jnp.ones((1, 1)), jnp.ones(2))
    assert o.omega.shape == (3, 3)
    assert bool(jnp.all(o.omega == o.omega.T))


def test_overlaps_stay_symmetric_and_the_risk_positive_above_the_learning_bound():
    """An antisymmetric part of Q begun by rounding, or a step of rounding size at a save time, must not end a run."""
    problem = ll.library.escaping_mediocrity(width=4, learning_rate=4 / 3)
    pred = ll.predict(problem, ll.OverlapODE(d=1000, replicas=8), np.linspace(0, 7.16, 61))
    assert set(pred.status.values.tolist()) == {"ok"}
    np.testing.assert_array_equal(pred.Q, pred.Q.transpose("time", "replica", "student_2", "student"))
    assert float(pred.risk.min()) > 0.5 * float(pred.risk.isel(time=0).min())


@pytest.mark.parametrize("P12", [pytest.param(1.0, marks=pytest.mark.more), -1.0])
def test_exactly_parallel_relu_teachers(P12):
    """A copy of a teacher is the teacher; an antiparallel one is the limit of an almost antiparallel one."""
    m = np.array([[0.3], [-0.1]])

    def problem(P, M):
        return ll.Problem(
            teacher=ll.Committee(width=len(P), activation="relu"),
            channel=ll.GaussianNoise(variance=0.1),
            student=ll.Committee(width=2, activation="relu"),
            loss=ll.SquareLoss(),
            start=ll.OverlapStart(Q=np.eye(2), M=M, P=P),
            algorithm=ll.OnlineSGD(learning_rate=0.1),
        )

    def risk(P, M):
        ds = ll.predict(problem(np.array(P), M), ll.OverlapODE(), times=[0.5, 5.0])
        assert str(ds.status.values) == "ok"
        return ds.risk.values

    near = P12 * (1 - 1e-12)
    pair = risk([[1.0, P12], [P12, 1.0]], np.c_[m, P12 * m])
    np.testing.assert_allclose(pair, risk([[1.0, near], [near, 1.0]], np.c_[m, P12 * m]), rtol=1e-6)
    if P12 == 1.0:
        np.testing.assert_allclose(pair, risk([[1.0]], m), rtol=1e-8)


def test_a_start_has_room_for_its_directions_as_in_a_simulation():
    problem = committee(p=2, k=2, start=ll.RandomStart())
    for verb in (
        lambda: ll.predict(problem, ll.OverlapODE(d=1), times=[0.1]),
        lambda: ll.simulate(problem, 1, times=[0.1]),
    ):
        with pytest.raises(ll.errors.InputError, match=r"d must be at least 2, .* of the teacher; got d=1"):
            verb()


def test_equal_units_with_a_kink_stay_equal_and_tiny_differences_leave():
    """As docs/sharp-bits.md says: the square root of \\|w_i - w_j\\|^2 grows from nothing, whatever the difference."""
    risks, apart = [], []
    for difference in (0.0, 1e-9, 1e-6, 1e-5):
        W = np.tile([0.3, 0.2, 0.8, 0.0, 0.0, 0.0, 0.0], (4, 1))
        W[:, 3:] += difference * np.eye(4)
        start = ll.OverlapStart(Q=W @ W.T, M=W[:, :2], P=np.eye(2))
        problem = committee("abs", "abs", p=4, k=2, start=start, learning_rate=0.5, variance=0.0)
        run = ll.predict(problem, ll.OverlapODE(), [0.0, 2.0])
        risks.append(float(run.risk[1]))
        apart.append(float(run.Q[1, 0, 0] + run.Q[1, 1, 1] - 2 * run.Q[1, 0, 1]))
    np.testing.assert_allclose(risks, [0.1553, 0.1553, 0.1470, 0.1470], atol=1e-4)
    np.testing.assert_allclose(apart, [0.0, 0.0, 0.0656, 0.0656], atol=1e-4)
