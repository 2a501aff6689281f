"""Formulas of generalised linear models: posterior, free entropy, message passing, state evolution, convex fits."""

import itertools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import erf, log_ndtr, ndtr

import limitlab as ll
from limitlab.report.formulas.formula import Measured, Shelf

__all__ = ["FORMULAS"]

FORMULAS = formula = Shelf("linear")
GRID = np.linspace(-9, 9, 3601)
NORMAL = np.exp(-(GRID**2) / 2) / np.sqrt(2 * np.pi) * (GRID[1] - GRID[0])
ALPHA = 2.0


def _problem(alpha: float = ALPHA, **rule: Any) -> ll.Problem:
    return ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=alpha, **rule)


def _phi_out(m: float) -> float:
    """E log Z of noiseless signs, for weights of variance 1."""
    t = np.sqrt(m / (1 - m)) * GRID
    return 2 * float(NORMAL @ (ndtr(t) * log_ndtr(t)))


def _signal(m: float) -> float:
    """E g^2 of noiseless signs."""
    V = 1 - m
    t = np.sqrt(m / V) * GRID
    ratio = np.exp(-(t**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(t))
    return 2 * float(NORMAL @ (ndtr(t) * ratio**2)) / V


# --- a posterior that can be written out: three weights +-1, two samples with noisy signs ---

X = np.array([[0.6, -0.3, 0.5], [-0.2, 0.7, 0.4], [0.5, 0.4, -0.6]])
CUBE = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
NOISE = 0.3


def _likelihood(y: np.ndarray, w: np.ndarray = CUBE) -> np.ndarray:
    """P(y | w) of the first two rows, for all w."""
    return np.prod(ndtr(y * (w @ X[:2].T) / np.sqrt(NOISE)), axis=1)


def _prediction_errors(predict) -> float:
    """Exact mean squared error of a prediction of the third label, over truths, labels and the new label."""
    total = 0.0
    for y in itertools.product([-1.0, 1.0], repeat=2):
        weight = _likelihood(np.array(y)) / len(CUBE)
        mean = 2 * ndtr(CUBE @ X[2] / np.sqrt(NOISE)) - 1
        guess = predict(weight / weight.sum(), mean)
        total += float(np.sum(weight * (1 - 2 * guess * mean + guess**2)))
    return total


@formula("the posterior mean of the label has an error of one less its own mean square, and no other prediction less")
def posterior_prediction() -> Measured:
    best = _prediction_errors(lambda weight, mean: weight @ mean)
    square = 0.0
    for y in itertools.product([-1.0, 1.0], repeat=2):
        weight = _likelihood(np.array(y)) / len(CUBE)
        square += weight.sum() * (weight / weight.sum() @ (2 * ndtr(CUBE @ X[2] / np.sqrt(NOISE)) - 1)) ** 2
    return Measured(best, 1 - square, 1e-13, _prediction_errors(lambda weight, mean: mean[np.argmax(weight)]))


@formula(
    "belief propagation gives the marginals of the posterior where the graph is a tree (one sample, three weights)"
)
def belief_propagation() -> Measured:
    x = X[0]
    exact = ndtr(CUBE @ x / np.sqrt(NOISE))
    posterior = float(exact @ CUBE[:, 0] / exact.sum())
    others = np.array(list(itertools.product([-1.0, 1.0], repeat=2)))
    message = np.array([np.mean(ndtr((w * x[0] + others @ x[1:]) / np.sqrt(NOISE))) for w in (-1.0, 1.0)])
    alone = np.array([float(ndtr(w * x[0] / np.sqrt(NOISE))) for w in (-1.0, 1.0)])  # the others forgotten
    return Measured(
        float(np.diff(message)[0] / message.sum()), posterior, 1e-14, float(np.diff(alone)[0] / alone.sum())
    )


@formula("the labels of noiseless signs have probabilities 0 and 1: the channel is a step, and its mean over z is Phi")
def channel() -> Measured:
    out = ll.Sign().output(jnp.asarray(1.0), jnp.asarray(0.4), jnp.asarray(0.5))
    inside = float(NORMAL @ (0.4 + np.sqrt(0.5) * GRID > 0))
    return Measured(math.exp(float(out.log_z)), inside, 1e-3, 0.5)


# --- free entropy and state evolution ---


@formula("f_RS(m) of signs is Phi_w + alpha Phi_out - m mhat/2 at its least mhat, here against plain integrals")
def free_entropy() -> Measured:
    m = 0.5
    found = float(ll.free_entropy(_problem(), [m]).free_entropy[0])
    least = m / 2 + math.log(1 - m) / 2
    return Measured(found, least + ALPHA * _phi_out(m), 1e-6, least - ALPHA * _phi_out(m))


@formula("the infimum over mhat and the supremum over m meet where both equations of state evolution hold")
def saddle_point() -> Measured:
    found = ll.predict(_problem(), ll.BayesOptimal())
    m = float(found.m)
    mhat = ALPHA * _signal(m)
    return Measured(mhat / (1 + mhat), m, 1e-6, mhat / (2 + mhat))


@formula("Phi_w of weights +-1 is -A/2 + E log cosh(A + sqrt(A) z)")
def free_entropy_of_weights() -> Measured:
    A = 1.7
    found = float(ll.RademacherPrior().bayes(jnp.asarray(A)).phi)
    exact = -A / 2 + float(NORMAL @ np.log(np.cosh(A + np.sqrt(A) * GRID)))
    return Measured(found, exact, 1e-9, exact + A / 2)


@formula("Phi_out of noiseless signs is E_v of twice Phi log Phi")
def free_entropy_of_labels() -> Measured:
    found = float(ll.Sign().bayes(jnp.asarray(0.5), jnp.asarray(0.5)).phi)
    return Measured(found, _phi_out(0.5), 1e-6, _phi_out(0.5) / 2)


@formula("twice the slope of Phi_w is the overlap")
def overlap_is_twice_a_slope() -> Measured:
    A, h, prior = 1.3, 1e-4, ll.RademacherPrior()
    up, down = (float(prior.bayes(jnp.asarray(A + side)).phi) for side in (h, -h))
    m = float(NORMAL @ np.tanh(A + np.sqrt(A) * GRID))
    return Measured((up - down) / h, m, 1e-6, m / 2)


@formula("twice the slope of Phi_out is E g_out^2")
def signal_is_twice_a_slope() -> Measured:
    m, h = 0.4, 1e-4
    return Measured((_phi_out(m + h) - _phi_out(m - h)) / h, _signal(m), 1e-5, _signal(m) / 2)


@formula("one step of state evolution from nothing gives m = mhat/(1 + mhat), mhat = 2 alpha/pi")
def first_step_of_state_evolution() -> Measured:
    steps = ll.predict(_problem(algorithm=ll.GAMP(iterations=3)), ll.StateEvolution()).m.values
    mhat = 2 * ALPHA / math.pi
    return Measured(float(steps[1]), mhat / (1 + mhat), 1e-6, 2 * mhat / (1 + 2 * mhat))


@formula("the least error on a new sign is 1 - (2/pi) arcsin m: the square is inside the mean over v")
def least_error() -> Measured:
    m = 0.6
    found = float(ll.Sign().label_mse(jnp.asarray(m), jnp.asarray(1 - m)))
    mean = 2 * ndtr(np.sqrt(m / (1 - m)) * GRID) - 1
    return Measured(found, 1 - float(NORMAL @ mean**2), 1e-6, 1 - float(NORMAL @ mean) ** 2)


@formula("rho - m is the error of an estimate only if q = m; in general it is rho - 2m + q")
def error_of_an_estimate() -> Measured:
    rng = np.random.default_rng(0)
    w, a = rng.standard_normal(50), rng.standard_normal(50)
    rho, m, q = w @ w / 50, a @ w / 50, a @ a / 50
    return Measured(float(np.mean((w - a) ** 2)), float(rho - 2 * m + q), 1e-12, float(rho - m))


# --- message passing ---


def _message_passing(literal: bool, seed: int, d: int = 600, steps: int = 6) -> float:
    """Overlap after a few steps on signs; ``literal`` multiplies by 1/Sigma where Sigma belongs."""
    rng = np.random.default_rng(seed)
    n = int(ALPHA * d)
    F, w = rng.standard_normal((n, d)) / np.sqrt(d), rng.standard_normal(d)
    w *= np.sqrt(d) / np.linalg.norm(w)
    y = np.sign(F @ w)
    squares, a, v, g = F**2, np.zeros(d), np.ones(d), np.zeros(n)
    for _ in range(steps):
        V = squares @ v
        omega = F @ a - V * g
        t = y * omega / np.sqrt(V)
        h = np.exp(-(t**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(t))
        g = y * h / np.sqrt(V)
        Sigma = 1 / np.maximum(squares.T @ (g * (g + omega / V)), 1e-10)
        R = a + (1 / Sigma if literal else Sigma) * (F.T @ g)
        a, v = R / (1 + Sigma), Sigma / (1 + Sigma)
    return float(a @ w / d)


@formula("the printed steps of message passing follow state evolution, with Sigma in R in place of its inverse")
def message_passing() -> Measured:
    runs = np.array([_message_passing(False, seed) for seed in range(12)])
    limit = float(ll.predict(_problem(algorithm=ll.GAMP(iterations=6)), ll.StateEvolution()).m[-1])
    wrong = float(np.mean([_message_passing(True, seed) for seed in range(3)]))
    return Measured(float(runs.mean()), limit, float(4 * runs.std(ddof=1) / np.sqrt(len(runs))), wrong)


@formula("f_a is the posterior mean and f_v = Sigma df_a/dR its variance, for sparse weights")
def denoiser() -> Measured:
    A, B, s = 1.5, 0.8, 0.3
    post = ll.GaussBernoulliPrior(s).denoise(jnp.asarray(A), jnp.asarray(B))
    tilt = np.exp(B * GRID - A * GRID**2 / 2)
    total = (1 - s) + s * float(NORMAL @ tilt)
    mean = s * float(NORMAL @ (GRID * tilt)) / total
    variance = s * float(NORMAL @ (GRID**2 * tilt)) / total - mean**2
    return Measured(float(post.mean) + float(post.variance), mean + variance, 1e-9, mean)


@formula("g_out is (E[z|y] - omega)/V, for signs")
def output_function() -> Measured:
    w, V = 0.4, 0.7
    z = w + np.sqrt(V) * GRID
    mean = float(NORMAL @ (z * (z > 0)) / (NORMAL @ (z > 0)))
    found = float(ll.Sign().output(jnp.asarray(1.0), jnp.asarray(w), jnp.asarray(V)).g)
    return Measured(found, (mean - w) / V, 2e-3, mean - w)


@formula("the predicted label is the mean over z ~ N(omega, V), for |z| in closed form")
def prediction() -> Measured:
    w, V = 0.4, 0.7
    found = float(ll.Modulus().mean_label(jnp.asarray(w), jnp.asarray(V)))
    closed = math.sqrt(2 * V / math.pi) * math.exp(-(w**2) / (2 * V)) + w * float(erf(w / math.sqrt(2 * V)))
    return Measured(found, closed, 1e-12, abs(w))


# --- empirical risk ---


@formula("the talk's square loss with lam |w|^2 has the minimiser of (y - z)^2/2 + (lam/2)|w|^2")
def square_loss() -> Measured:
    rng = np.random.default_rng(1)
    F, y, lam = rng.standard_normal((8, 3)), rng.standard_normal(8), 0.7
    ours = np.linalg.solve(F.T @ F + lam * np.eye(3), F.T @ y)
    found: Any = minimize(lambda w: np.sum((y - F @ w) ** 2) + lam * w @ w, np.zeros(3), tol=1e-14)
    wrong = np.linalg.solve(F.T @ F + 2 * lam * np.eye(3), F.T @ y)
    return Measured(float(found.x[0]), float(ours[0]), 1e-5, float(wrong[0]))


@formula("the talk's logistic loss in base 2 with lam |w|^2 is ours with the penalty 2 log(2) lam")
def logistic_loss() -> Measured:
    rng = np.random.default_rng(2)
    F, y, lam = rng.standard_normal((12, 3)), np.sign(rng.standard_normal(12)), 0.4

    def least(scale: float, penalty: float) -> float:
        found: Any = minimize(
            lambda w: scale * np.sum(np.logaddexp(0, -y * (F @ w))) + penalty * w @ w, np.zeros(3), tol=1e-14
        )
        return float(found.x[0])

    return Measured(least(1 / math.log(2), lam), least(1.0, math.log(2) * lam), 1e-5, least(1.0, lam / 2))
