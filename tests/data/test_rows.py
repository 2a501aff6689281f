"""The row theory: printed figures, exact identities, and the controls that must fail."""

import numpy as np
import pytest
from pools import cancer, diabetes, digits, relu_digits

import limitlab as ll
from limitlab.data.rows import square
from limitlab.data.rows.general import general_rows
from limitlab.data.rows.moments import paid, pulls
from limitlab.data.rows.square import _Tall, _Wide, square_rows
from limitlab.data.rows.theory import Design
from limitlab.numerics.spectral_ridge import spectral_ridge


@pytest.mark.parametrize(("penalty", "mse", "error"), [(0.1, 0.3309, 0.0607), (1e-4, 0.7311, 0.1072)])
def test_ridge_on_cancer_as_printed(penalty, mse, error):
    X, y = cancer()
    found = square_rows(Design.of(X, penalty, True), y, 60 / len(y))
    assert found.status == "ok"
    assert found.rounds <= 20
    assert 2 * found.test_loss.mean() == pytest.approx(mse, abs=6e-5)
    assert found.wrong(y).mean() == pytest.approx(error, abs=6e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "pooled", "mse", "error"), [(300, 0.1147, 0.1180, 0.0168), (1500, 0.0332, 0.0526, 0.0043)]
)
def test_kernel_ridge_on_digits_as_printed(n, pooled, mse, error):
    X, y = digits()
    squares = np.sum(X**2, axis=1)
    pool = ll.Pool(kernel=np.exp(-0.1 * (squares[:, None] + squares - 2 * X @ X.T)), y=y)
    rows, formula = (
        ll.learning_curve(pool, ll.SquareLoss(), 1e-3, samples=[n], fits=0, theory=theory).prediction
        for theory in ("rows", "pool")
    )
    assert 2 * float(rows.risk.squeeze()) == pytest.approx(mse, abs=6e-5)
    assert float(rows.generalisation_error.squeeze()) == pytest.approx(error, abs=6e-5)
    assert 2 * float(formula.risk.squeeze()) == pytest.approx(pooled, abs=6e-5)


def test_least_squares_on_diabetes_as_printed():
    X, y = diabetes()
    found = square_rows(Design.of(X, 1e-6, True), y, 30 / len(y))
    assert 2 * found.test_loss.mean() == pytest.approx(0.8294, abs=6e-5)


@pytest.mark.parametrize(
    ("pool", "scale", "penalty", "n", "error", "test", "train"),
    [(digits, 8, 0.01, 200, 0.1062, 0.2597, 0.1756), (cancer, 1, 0.1, 60, 0.0445, 0.1360, 0.0862)],
)
def test_logistic_as_printed(pool, scale, penalty, n, error, test, train):
    X, y = pool()
    found, _ = general_rows(ll.LogisticLoss(), Design.of(X / scale, penalty, True), y, n / len(y))
    assert found.status == "ok"
    assert found.rounds <= 30
    assert found.wrong(y).mean() == pytest.approx(error, abs=6e-5)
    assert found.test_loss.mean() == pytest.approx(test, abs=6e-5)
    assert found.train_loss.mean() == pytest.approx(train, abs=6e-5)


def small(N=60, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) * np.linspace(0.2, 1.5, d)
    return X, X @ rng.standard_normal(d) + rng.standard_normal(N)


@pytest.mark.parametrize("intercept", [False, True])
def test_all_rows_are_left_out_one_by_one(intercept):
    """At f = 1 the theory is PRESS: every row fitted without itself."""
    X, y = small()
    design = Design.of(X, 0.3, intercept)
    found = square_rows(design, y, 1.0)
    for j in range(0, len(y), 7):
        keep = np.arange(len(y)) != j
        Z = design.Z[keep]
        w = np.linalg.solve(Z.T @ Z + np.diag(design.penalty), Z.T @ y[keep])
        assert found.mean[j] == pytest.approx(design.Z[j] @ w, rel=1e-11, abs=1e-12)
    hat = np.einsum("ij,ij->i", design.Z @ np.linalg.inv(design.Z.T @ design.Z + np.diag(design.penalty)), design.Z)
    w = np.linalg.solve(design.Z.T @ design.Z + np.diag(design.penalty), design.Z.T @ y)
    press = np.mean(((y - design.Z @ w) / (1 - hat)) ** 2)
    assert 2 * found.test_loss.mean() == pytest.approx(press, rel=1e-12)


@pytest.mark.parametrize("penalty", [0.3, 1e-3])
def test_any_loss_with_the_square_is_the_closed_theory(penalty):
    X, y = small()
    design = Design.of(X, penalty, True)
    closed = square_rows(design, y, 0.4)
    general, _ = general_rows(ll.SquareLoss(), design, y, 0.4, tolerance=1e-12)
    assert general.status == closed.status == "ok"
    for name in ("mean", "sd", "leverage", "test_loss", "train_loss"):
        np.testing.assert_allclose(getattr(general, name), getattr(closed, name), rtol=1e-8, atol=1e-9)


def test_equal_rows_are_the_pool_formula():
    """Rows whose leverages and errors are all alike: both theories are the same algebra."""
    N, d = 64, 16
    signs = np.array([[(-1.0) ** bin(i & j).count("1") for j in range(d)] for i in range(N)])  # Walsh: all entries +-1
    y = np.array([(-1.0) ** bin(i & (d + 3)).count("1") for i in range(N)])
    design = Design.of(signs * 0.5, 0.7, False)
    found = square_rows(design, y, 0.5)
    pool = spectral_ridge(
        np.full(d, 0.25), np.square(signs.T @ y / N), 1.0 - np.sum((signs.T @ y / N) ** 2), N // 2, 0.7, rows=N
    )
    assert 2 * found.test_loss.mean() == pytest.approx(float(pool.test), rel=1e-9)
    assert 2 * found.train_loss.mean() == pytest.approx(float(pool.train), rel=1e-9)
    plug_in = spectral_ridge(np.full(d, 0.25), np.square(signs.T @ y / N), 1.0, N // 2, 0.7)
    assert abs(float(plug_in.test) / (2 * found.test_loss.mean()) - 1) > 0.1  # the control: N is not infinite


@pytest.mark.parametrize("intercept", [False, True])
def test_wide_features_are_solved_by_rows_alike(intercept, monkeypatch):
    X, y = small(40, 8)
    omega = np.linspace(0.2, 0.9, 40)
    tall, wide = (kind(Design.of(X, 0.3, intercept)).at(omega) for kind in (_Tall, _Wide))
    np.testing.assert_allclose(wide.kept, tall.kept, rtol=1e-10)
    np.testing.assert_allclose(wide.gamma, tall.gamma, rtol=1e-10)
    np.testing.assert_allclose(wide.residual(y), tall.residual(y), rtol=1e-9)
    monkeypatch.setattr(square, "DENSE", 2.0)
    by_columns = tall.spread()(y**2)
    monkeypatch.setattr(square, "DENSE", 0.0)
    np.testing.assert_allclose(tall.spread()(y**2), by_columns, rtol=1e-9)
    np.testing.assert_allclose(wide.spread()(y**2), tall.spread()(y**2), rtol=1e-9)


def test_rows_of_a_gaussian_pool_agree_with_fits():
    """Squared hinge, whose kink Gauss-Hermite would not see: theory against 160 fits of random subsets."""
    rng = np.random.default_rng(1)
    N, d, n = 400, 40, 120
    X = rng.standard_normal((N, d)) / np.sqrt(d)
    y = np.where(X @ rng.standard_normal(d) * 2 + 0.5 * rng.standard_normal(N) > 0, 1.0, -1.0)
    loss = ll.SquaredHingeLoss()
    found, _ = general_rows(loss, Design.of(X, 0.1, False), y, n / N)
    tests = []
    for _ in range(160):
        order = rng.permutation(N)
        w = loss.minimise(X[order[:n]], y[order[:n]], 0.1).w
        rest = order[n:]
        tests.append(np.mean(np.maximum(0, 1 - y[rest] * (X[rest] @ w)) ** 2 / 2))
    z = (np.mean(tests) - found.test_loss.mean()) / (np.std(tests, ddof=1) / np.sqrt(160))
    assert abs(z) < 4


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(ll.LogisticLoss(), marks=pytest.mark.more),
        ll.SquaredHingeLoss(),
        ll.PseudoHuberLoss(),
        ll.HuberLoss(),
    ],
)
def test_averages_over_a_field_are_those_of_fine_quadrature(loss):
    y, mean, sd, V = (np.array(x) for x in ([1.0, -1.0], [0.7, 0.2], [0.6, 1.1], [0.5, 2.0]))
    x = np.linspace(-9, 9, 200_001)
    weight = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    for j in range(2):
        h = mean[j] + sd[j] * x
        g, bend = (np.asarray(a) for a in loss.output(np.full_like(h, y[j]), h, np.full_like(h, V[j])))
        want = [weight @ g, weight @ g**2, -weight @ bend]
        np.testing.assert_allclose(pulls(loss, y, mean, sd, V)[:, j], want, rtol=2e-5, atol=1e-7)
        point = np.asarray(loss.prox(np.full_like(h, y[j]), h, np.full_like(h, V[j])))
        want = [weight @ np.asarray(loss.value(y[j], h)), weight @ np.asarray(loss.value(y[j], point))]
        np.testing.assert_allclose(paid(loss, y, mean, sd, V)[:, j], want, rtol=2e-5)


def test_too_few_rounds_are_a_status():
    X, y = small()
    found, _ = general_rows(ll.LogisticLoss(), Design.of(X, 1e-3, True), np.sign(y), 0.4, most=3)
    assert found.status == "not_converged"


@pytest.mark.slow
@pytest.mark.parametrize(("penalty", "n", "within"), [(1e-6, 300, 0.05), (1e-6, 1000, 0.06), (1e-3, 600, 0.06)])
def test_relu_features_of_digits(penalty, n, within):
    """Through the peak the rows stay close to real fits, where the pool formula does not."""
    pool = ll.Pool(*relu_digits(), intercept=False)
    rows, pooled = (
        ll.learning_curve(pool, penalty=penalty, samples=[n], fits=16 * (theory == "rows"), theory=theory)
        for theory in ("rows", "pool")
    )
    runs = rows.fits.risk.values.ravel()
    assert abs(float(rows.prediction.risk[0]) / runs.mean() - 1) < within
    assert runs.mean() / float(pooled.prediction.risk[0]) - 1 > within


@pytest.mark.parametrize(("noise", "low", "high"), [(0.3, 0.1, 0.4), (1.0, -0.2, -0.05)])
def test_levels_of_a_text_as_columns(noise, low, high):
    """50 levels as columns of 0 and 1: how often one was drawn is no mean, and the curve says that it may be off."""
    rng = np.random.default_rng(3)
    level = rng.integers(50, size=1000)
    X, y = np.eye(50)[level], rng.normal(size=50)[level] * 0.8 + noise * rng.normal(size=1000)
    curve = ll.learning_curve(ll.Pool(X, y), penalty=0.1, samples=[100], fits=40)
    assert low < float(curve.fits.risk.mean() / curve.prediction.risk[0]) - 1 < high
    assert any("950 rows repeat others" in note and "off by a third" in note for note in curve.notes)
