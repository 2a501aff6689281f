"""Convex empirical risk minimisation: solvers, asymptotics, and the square between them."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

import limitlab as ll
from cases import LANES
from cases import fit as problem
from cases import fit_curve as at
from limitlab.algorithms import erm
from limitlab.algorithms.settings.fixed_data import ConvexFit
from limitlab.analysis.linear.penalty import optimal_penalty, separability_threshold
from limitlab.macro.erm.erm_asymptotics import ERMAsymptotics
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.losses import (
    CustomLoss,
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    MaxMargin,
    PhaseRetrievalLoss,
    PseudoHuberLoss,
    SquareLoss,
)
from limitlab.problems.population import response
from limitlab.problems.predictor import Predictor

LIMIT = ERMAsymptotics()
NOISY = ll.Sign(variance=0.2, flip=0.05)


def solved(problem):
    return ll.predict(problem, LIMIT)


def run_erm(problem, d, replicas, seed):
    return ll.simulate(problem, d, replicas=replicas, seed=seed)


def draw_data(problem, d, seed, replica):
    return erm.draw_data(ConvexFit.of(problem, Asked("a test")), d, seed, replica)


# --- the equations -----------------------------------------------------------------------------------------


def test_ridge_without_penalty_has_both_sides_of_one_sample_per_dimension():
    ridge = problem(SquareLoss(), penalty=0.0)
    below, above = at(ridge, [0.5, 4.0]).isel(sample_ratio=0), at(ridge, [0.5, 4.0]).isel(sample_ratio=1)
    c1 = np.sqrt(2 / np.pi)
    np.testing.assert_allclose([below.m, above.m], [0.5 * c1, c1], rtol=1e-13)
    np.testing.assert_allclose(below.q, 0.5 * (1 - 0.5 * c1**2) / 0.5, rtol=1e-13)
    np.testing.assert_allclose(above.q, c1**2 + (1 - c1**2) / 3, rtol=1e-13)
    assert np.isinf(below.V) and float(below.train_loss) == 0
    tiny = solved(problem(SquareLoss(), penalty=1e-9, alpha=0.5))
    np.testing.assert_allclose([tiny.m, tiny.q], [below.m, below.q], rtol=1e-7)
    assert at(ridge, [1.0]).status.item() == "diverged"
    with pytest.raises(ll.errors.ConvergenceError, match="diverges at sample_ratio = 1"):
        solved(problem(SquareLoss(), penalty=0.0, alpha=1.0))


def quad_averages(Z, dZ, m, q, V, alpha):
    """m_hat, q_hat, V_hat of the logistic loss by adaptive quadrature, for a teacher with P(+1|omega) = Z(omega)."""

    def prox(u):
        return brentq(lambda p: p - u - V * expit(-p), u - 1, u + V + 1, xtol=1e-15, rtol=1e-15)

    def average(function):
        sd = np.sqrt(q)
        points = sd * np.array([-3, -1, -0.1, 0, 0.1, 1, 3])
        integrand = lambda u: 2 * norm.pdf(u, scale=sd) * function(u, prox(u))  # noqa: E731
        return quad(integrand, -10 * sd, 10 * sd, points=points, limit=400, epsabs=1e-13, epsrel=1e-11)[0]

    bend = lambda p: expit(p) * expit(-p) / (1 + V * expit(p) * expit(-p))  # noqa: E731
    return (
        alpha * average(lambda u, p: dZ(u) * expit(-p)),
        alpha * average(lambda u, p: Z(u) * expit(-p) ** 2),
        alpha * average(lambda u, p: Z(u) * bend(p)),
    )


@pytest.mark.parametrize("penalty", [pytest.param(1e-4, marks=pytest.mark.more), 0.3, 1e3])
def test_logistic_order_parameters_obey_independent_quadrature(penalty):
    alpha, rho, flip, noise = 3.0, 1.7, 0.05, 0.2
    found = at(problem(LogisticLoss(), ll.Sign(variance=noise, flip=flip), penalty=penalty, rho=rho), [alpha])
    m, q, V = (found[name].item() for name in ("m", "q", "V"))
    slope, T = m / q, rho - m**2 / q + noise
    Z = lambda u: flip + (1 - 2 * flip) * norm.cdf(slope * u / np.sqrt(T))  # noqa: E731
    dZ = lambda u: (1 - 2 * flip) * norm.pdf(slope * u / np.sqrt(T)) / np.sqrt(T)  # noqa: E731
    m_hat, q_hat, V_hat = quad_averages(Z, dZ, m, q, V, alpha)
    np.testing.assert_allclose(
        [m, q, V],
        [
            rho * m_hat / (penalty + V_hat),
            (rho * m_hat**2 + q_hat) / (penalty + V_hat) ** 2,
            1 / (penalty + V_hat),
        ],
        rtol=1e-8,
    )
    angle = np.arccos(m / np.sqrt(q * (rho + noise))) / np.pi
    np.testing.assert_allclose(found.generalisation_error.item(), flip + (1 - 2 * flip) * angle, rtol=1e-9)


@pytest.mark.parametrize("loss", [pytest.param(HingeLoss(), marks=pytest.mark.more), PseudoHuberLoss(0.4)])
def test_the_potential_is_stationary_at_the_fixed_point(loss):
    channel = ll.Sign() if loss.of == "margin" else ll.GaussianNoise(variance=0.3)
    alpha, penalty, rho = 2.5, 0.2, 1.4
    found = at(problem(loss, channel, penalty=penalty, rho=rho), [alpha])
    x0 = np.array([found[name].item() for name in ("m", "q", "V")])

    @eqx.filter_jit
    def potential(x):
        m, q, V = x
        _, gg, _, train = response(traced(channel), loss, Predictor.of(m, q, rho), V)
        return penalty * q / 2 - (q - m**2 / rho) / (2 * V) + alpha * (train + V * gg / 2)

    def slopes(x):
        h = 1e-4
        return [
            float(potential(jnp.asarray(x + h * e)) - potential(jnp.asarray(x - h * e))) / (2 * h) for e in np.eye(3)
        ]

    np.testing.assert_allclose(slopes(x0), 0, atol=1e-7)
    assert np.max(np.abs(slopes(x0 * 1.01))) > 1e-3  # control: nearby it is not
    value = alpha * found.train_loss.item() + penalty * x0[1] / 2
    np.testing.assert_allclose(float(potential(jnp.asarray(x0))), value, rtol=1e-9)


def test_even_channels_teach_a_linear_fit_nothing():
    ridge = solved(problem(SquareLoss(), ll.Modulus()))
    assert ridge.m.item() == 0 and ridge.q.item() > 0


@pytest.mark.parametrize(
    "channel",
    [
        pytest.param(ll.SquaredModulus(0.3), marks=pytest.mark.more),
        ll.SquaredModulus(),
        pytest.param(ll.Modulus(0.1), marks=pytest.mark.more),
    ],
    ids=str,
)
def test_even_channels_and_a_bent_loss(channel):
    """m = 0, and (q, V) solve their equations by another rule: y = |z| or z^2, omega and noise summed over a grid.

    (The derivative of the square with noise was NaN.)
    """
    scale, noise = 0.7, float(channel.variance)
    x, p = np.polynomial.legendre.leggauss(400)
    z, dz = 4.75 * (x + 1), 9.5 * p * norm.pdf(4.75 * (x + 1))
    y = z[:, None] ** 2 if isinstance(channel, ll.SquaredModulus) else z[:, None]
    weight = dz[:, None] * 9.5 * p * norm.pdf(9.5 * x)
    for alpha, penalty in ((2.0, 1.0), (0.5, 1e-4), (5.0, 1e3)):
        found = solved(problem(PseudoHuberLoss(scale), channel, alpha=alpha, penalty=penalty))
        q, V = found.q.item(), found.V.item()
        s = y + np.sqrt(q + noise) * 9.5 * x
        low, high = np.minimum(s, 0), np.maximum(s, 0)  # bisection: t + V l'(t) rises
        for _ in range(70):
            t = (low + high) / 2
            above = t + V * t / np.sqrt(1 + (t / scale) ** 2) > s
            low, high = np.where(above, low, t), np.where(above, t, high)
        root = np.sqrt(1 + (t / scale) ** 2)
        bend = np.sum(weight / (root**3 + V))
        np.testing.assert_allclose(V, 1 / (penalty + alpha * bend), rtol=1e-8)
        np.testing.assert_allclose(q, alpha * np.sum(weight * (t / root) ** 2) * V**2, rtol=1e-8)
        np.testing.assert_allclose(found.train_loss, np.sum(weight * scale**2 * (root - 1)), rtol=1e-8)
        assert found.m.item() == 0


@pytest.mark.slow
def test_even_channels_teach_a_classifier_nothing():
    door = at(problem(LogisticLoss(), ll.Door(width=0.67449)), [1.0])
    assert abs(door.m.item()) < 1e-12
    np.testing.assert_allclose(door.generalisation_error.item(), 0.5, rtol=1e-9)


@pytest.mark.more
def test_separability_at_its_two_ends():
    assert separability_threshold(ll.Sign()) == np.inf
    assert abs(separability_threshold(ll.Sign(flip=0.5 - 1e-9)) - 2) < 1e-9  # pure noise: Cover's 2
    with pytest.raises(ll.errors.InputError, match="labels -1 and \\+1"):
        separability_threshold(ll.GaussianNoise(variance=0.1))


# --- optimal penalty ---------------------------------------------------------------------------------------


@pytest.mark.more
def test_optimal_ridge_penalty_is_noise_over_signal():
    found = optimal_penalty(problem(SquareLoss()))
    assert abs(found.penalty - (np.pi / 2 - 1)) < 1e-12
    linear = optimal_penalty(problem(SquareLoss(), ll.GaussianNoise(variance=0.6), rho=2.0))
    assert abs(linear.penalty - 0.3) < 1e-12
    near = [solved(problem(SquareLoss(), penalty=found.penalty * x)).generalisation_error for x in (0.9, 1.1)]
    assert found.generalisation_error < min(near)
    assert optimal_penalty(problem(SquareLoss(), ll.Modulus())).penalty == np.inf
    assert optimal_penalty(problem(SquareLoss(), ll.GaussianNoise())).penalty == 0


# --- finite size -------------------------------------------------------------------------------------------


def test_solvers_agree_with_scikit_learn():
    svm = pytest.importorskip("sklearn.svm")
    linear = pytest.importorskip("sklearn.linear_model")
    X, y, _ = draw_data(problem(LogisticLoss(), ll.Sign(flip=0.1)), 60, 0, 0)
    for penalty in (0.03, 1.0):
        options = {"C": 1 / penalty, "fit_intercept": False, "max_iter": 2_000_000}
        theirs = {
            LogisticLoss: linear.LogisticRegression(tol=1e-10, solver="newton-cholesky", **options),
            HingeLoss: svm.LinearSVC(loss="hinge", tol=1e-9, **options),
        }
        for kind, model in theirs.items():
            ours = kind().minimise(X, y, penalty)
            w = model.fit(X, y).coef_[0]
            assert ours.status == "ok" and np.linalg.norm(ours.w - w) < 1e-6 * np.linalg.norm(w), kind


@pytest.mark.parametrize("alpha", [0.5, pytest.param(3.0, marks=pytest.mark.more)])
def test_fits_are_minima(alpha):
    X, y, _ = draw_data(problem(SquareLoss(), ll.Sign(flip=0.1), alpha), 50, 1, 0)
    rng = np.random.default_rng(0)
    for loss in (SquareLoss(), LogisticLoss(), HingeLoss(), HuberLoss(0.5), PseudoHuberLoss(0.5)):
        found = loss.minimise(X, y, 0.05)

        def cost(w, loss=loss):
            return float(jnp.sum(loss.value(y, X @ w))) + 0.025 * float(w @ w)

        least = cost(found.w)
        assert found.status == "ok"
        assert all(cost(found.w + 1e-3 * rng.normal(size=50)) > least for _ in range(10)), loss
    own = CustomLoss(lambda t: jnp.maximum(0.0, 1 - t), kinks=(1,))  # any loss, by its proximal map alone
    np.testing.assert_allclose(own.minimise(X, y, 0.05).w, HingeLoss().minimise(X, y, 0.05).w, atol=1e-5)


def test_maximal_margin_is_the_limit_of_the_hinge_and_touches_its_support():
    X, y, _ = draw_data(problem(MaxMargin(), alpha=1.5), 60, 0, 0)
    margin, hinge = MaxMargin().minimise(X, y, 0.0), HingeLoss().minimise(X, y, 1e-7)
    np.testing.assert_allclose(hinge.w, margin.w, rtol=1e-5, atol=1e-6)
    assert abs(np.min(y * (X @ margin.w)) - 1) < 1e-8


def test_fits_that_do_not_exist_say_so():
    separable = run_erm(problem(LogisticLoss(), penalty=0.0), 40, 2, 0)
    assert set(separable.status.values) == {"undefined"} and np.isnan(separable.m).all()
    assert "separable" in separable.attrs["notes"]
    noisy = problem(MaxMargin(), ll.Sign(flip=0.3), alpha=5.0)
    assert set(run_erm(noisy, 40, 2, 0).status.values) == {"undefined"}
    X, y, _ = draw_data(noisy, 40, 0, 0)
    assert HingeLoss().minimise(X, y, 0.0).status == "ok"  # a linear programme
    assert HingeLoss().minimise(*draw_data(problem(HingeLoss()), 40, 0, 0)[:2], 0.0).status == "undefined"
    assert PseudoHuberLoss().minimise(X[:20], y[:20], 0.0).status == "undefined"


def test_same_seed_same_numbers():
    one, two = (run_erm(problem(LogisticLoss(), NOISY), 50, n, 7) for n in (2, 3))
    np.testing.assert_array_equal(one.m, two.m[:2])


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (problem(PhaseRetrievalLoss(), ll.Modulus()), "needs a convex loss.*replica symmetry breaks"),
        (problem(LogisticLoss(), ll.GaussianNoise(variance=0.1)), "labels -1 and \\+1 for LogisticLoss"),
        (problem(LogisticLoss(), alpha=None), "fixed data set"),
        (problem(LogisticLoss(), penalty=0.0), "separable.*runs to infinity"),
        (problem(MaxMargin(), ll.Sign(flip=0.1), alpha=3.5), "not separable"),
        (problem(PseudoHuberLoss(), penalty=0.0, alpha=0.8), "infinitely many weights"),
    ],
)
def test_problems_without_the_limit_are_refused_in_words(case, message):
    with pytest.raises(ll.errors.LimitUndefinedError, match=message):
        ll.predict(case, LIMIT)


def test_a_curve_keeps_points_without_a_solution_as_data():
    curve = LIMIT.curve(problem(LogisticLoss(), NOISY, penalty=0.0), np.linspace(1.0, 8.0, LANES))
    inside = curve.sample_ratio.values > separability_threshold(NOISY)
    assert 0 < inside.sum() < LANES
    assert list(curve.status.values) == ["ok" if x else "undefined" for x in inside]
    assert np.isnan(curve.m.values[~inside]).all() and np.isfinite(curve.m.values[inside]).all()
    for bad in ([], [0.0], [1.0, np.nan], "many"):
        with pytest.raises(ll.errors.InputError, match="alphas must be"):
            LIMIT.curve(problem(LogisticLoss()), bad)


def test_simulations_refuse_what_they_cannot_fit():
    with pytest.raises(ll.errors.InputError, match="GiB"):
        run_erm(problem(LogisticLoss(), alpha=100.0), 10**6, 1, 0)
    with pytest.raises(ll.errors.InputError, match="convex loss"):
        run_erm(problem(PhaseRetrievalLoss(), ll.Modulus()), 10, 1, 0)
