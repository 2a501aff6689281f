"""The table "Both ways" of docs/notation.md in numbers: a step in a paper's own letters is a step in ours.

Each paper's update is written out as the paper has it and made with real weights on one sample, once in its letters and
once by the convention of the library with the converted numbers. Factors of 2 or 4, and clocks, are what goes wrong.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import limitlab as ll

PAGE = (Path(__file__).parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")
D, P = 12, 3


def convention(W, a, x, y, gamma, kappa=0.0, activation=np.tanh, slope=lambda z: 1 - np.tanh(z) ** 2):
    """One step of the first table of the page: weights of norm sqrt(d), inputs of norm 1."""
    lam = W @ x
    error = y - np.mean(a * activation(lam))
    moved = W + gamma / P * (a * slope(lam) * error)[:, None] * x
    return moved, a + kappa * gamma / (P * D) * activation(lam) * error


@pytest.fixture
def one():
    rng = np.random.default_rng(0)
    return rng.standard_normal((P, D)), rng.standard_normal(P), rng.standard_normal(D) / np.sqrt(D), 0.7


def committee(gamma, **more):
    rule = ll.OnlineSGD(gamma, **more)
    return rule, ll.Problem(
        teacher=ll.Committee(1, "tanh"), student=ll.Committee(P, "tanh"), loss=ll.SquareLoss(), algorithm=rule
    )


def test_saad_and_solla(one):
    W, _, x, y = one
    eta, xi, J = 0.8, np.sqrt(D) * x, W / np.sqrt(D)
    field = J @ xi
    delta = (1 - np.tanh(field) ** 2) * (y - np.tanh(field).sum())
    theirs = J + eta / D * delta[:, None] * xi
    ours, _ = convention(W, np.full(P, float(P)), x, y, gamma=eta)
    np.testing.assert_allclose(ours / np.sqrt(D), theirs, rtol=1e-13)
    rule, problem = committee(eta)
    alpha = 1 / D  # gained by a step
    assert rule.clock(problem, D) == pytest.approx(eta / P * alpha)
    assert P * rule.clock(problem, D) / eta == pytest.approx(alpha)
    assert list(ll.library.soft_committee(2, 0.5).student.output_weights) == [2.0, 2.0]


def test_abbe_boix_adsera_misiakiewicz(one):
    W, a, x, y = one
    eta, cube, w = 0.01, np.sqrt(D) * x, W / np.sqrt(D)
    error = y - np.mean(a * np.tanh(w @ cube))
    theirs = w + eta * error * (a * (1 - np.tanh(w @ cube) ** 2))[:, None] * cube, a + eta * error * np.tanh(w @ cube)
    gamma = P * D * eta
    ours = convention(W, a, x, y, gamma, kappa=1.0)
    np.testing.assert_allclose(ours[0] / np.sqrt(D), theirs[0], rtol=1e-13)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-13)
    rule, problem = committee(gamma)
    assert rule.clock(problem, D) == pytest.approx(eta)
    wrong = convention(W, a, x, y, gamma / 2, kappa=1.0)
    assert not np.allclose(wrong[0] / np.sqrt(D), theirs[0])


def test_mei_montanari_nguyen(one):
    W, a, x, y = one
    eps, beta, decay = 0.004, 50.0, 0.3
    normal, w = np.sqrt(D) * x, W / np.sqrt(D)
    error = y - np.mean(a * np.tanh(w @ normal))
    pull = (a * (1 - np.tanh(w @ normal) ** 2))[:, None] * normal
    theirs = (1 - 2 * decay * eps) * w + 2 * eps * error * pull
    gamma = 2 * P * D * eps
    rule, problem = committee(gamma, temperature=1 / beta, weight_decay=decay)
    ours = float(rule.keep(P * D, 0)) * W + convention(W, a, x, y, gamma)[0] - W
    np.testing.assert_allclose(ours / np.sqrt(D), theirs, rtol=1e-13)
    assert rule.clock(problem, D) / 2 == pytest.approx(eps)
    assert 2 * float(rule.temperature) * rule.clock(problem, D) == pytest.approx(
        4 * eps / beta
    )  # variance of the noise


def test_mignacco_urbani_zdeborova():
    rng = np.random.default_rng(1)
    X, w, star = rng.standard_normal((30, D)) / np.sqrt(D), rng.standard_normal(D), rng.standard_normal(D)
    mask, b, eta, tau, y = rng.random(30) < 0.5, 0.5, 0.003, 1.5, np.abs(X @ star)
    h = X @ w
    theirs = w - eta * X.T @ (mask * -4 * h * (y**2 - h**2))
    rule = ll.PersistentSGD(4 * b * eta, batch_fraction=b, persistence_time=4 * b * tau)
    loss = ll.PhaseRetrievalLoss(prefactor=0.25)
    force = np.asarray(loss.gradient(y, h)[0])
    ours = w - float(rule.learning_rate) * X.T @ (mask * force / b)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert float(rule.learning_rate / rule.persistence_time) == pytest.approx(eta / tau)  # the same masks, step by step
    assert rule.clock(ll.library.descent_phase_retrieval(algorithm=rule), D) == pytest.approx(4 * b * eta)
    assert not np.allclose(w - 4 * eta * X.T @ (mask * force / b), theirs)


def test_sarao_mannelli_vanden_eijnden_zdeborova():
    rng = np.random.default_rng(2)
    m, step = 5, 1e-4
    X, W, star = rng.standard_normal((30, D)) / np.sqrt(D), rng.standard_normal((m, D)), rng.standard_normal(D)
    residual = (X @ star) ** 2 - np.mean((X @ W.T) ** 2, axis=1)
    theirs = W + step * 4 / m * ((X @ W.T) * residual[:, None]).T @ X  # of sum (y^2 - f)^2, a step of their time
    problem = ll.library.wide_phase_retrieval(3.0, width=m, step=4 * step / m)
    rule, loss = problem.algorithm, problem.loss
    assert float(loss.prefactor) == 0.25 and float(rule.clock(problem, D)) == pytest.approx(4 * step / m)
    ours = W + float(rule.learning_rate) * 4 * float(loss.prefactor) / m * ((X @ W.T) * residual[:, None]).T @ X
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def test_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    penalty, X = 0.3, rng.standard_normal((40, D)) / np.sqrt(D)
    y = np.sign(X @ rng.standard_normal(D))

    def slope(w):  # of sum log(1 + exp(-y w.x)) + penalty |w|^2/2
        return -X.T @ (y / (1 + np.exp(y * (X @ w)))) + penalty * w

    def fitted(C, inputs):
        return LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=1000).fit(inputs, y).coef_[0]

    assert np.abs(slope(fitted(1 / penalty, X))).max() < 1e-6
    assert np.abs(slope(np.sqrt(D) * fitted(1 / (penalty * D), np.sqrt(D) * X))).max() < 1e-6
    assert np.abs(slope(fitted(1 / penalty, np.sqrt(D) * X) * np.sqrt(D))).max() > 1e-2


def test_slides_on_generalised_linear_models():
    rng = np.random.default_rng(4)
    X, w, lam = rng.standard_normal((40, D)) / np.sqrt(D), rng.standard_normal(D), 0.2
    y, z = np.sign(X @ rng.standard_normal(D)), X @ w
    theirs = np.log2(1 + np.exp(-y * z)).sum() + lam * w @ w, ((y - z) ** 2).sum() + lam * w @ w
    logistic = np.asarray(ll.LogisticLoss().value(y, z)).sum() + 2 * np.log(2) * lam * (w @ w) / 2
    square = np.asarray(ll.SquareLoss().value(y, z)).sum() + lam * (w @ w) / 2
    assert theirs == pytest.approx((logistic / np.log(2), 2 * square))  # the same minimum: factors in front only


def test_every_row_of_the_table_has_a_test():
    rows = re.findall(r"^\| ([^|]*) \|", PAGE.split("## Both ways")[1], re.MULTILINE)[1:]
    assert [row.split(",")[0].split(" 20")[0].split(" 19")[0] for row in rows] == [
        "Saad and Solla",
        "Arnaboldi et al.",  # the same letters
        "Abbe",
        "Mei",
        "Mignacco",
        "Sarao Mannelli",
        "slides on generalised linear models",  # fields and inputs by sqrt(d)
        "slides on generalised linear models",
        "scikit-learn",
    ]
