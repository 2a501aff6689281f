"""Formulas of descent on a fixed data set: phase retrieval, wide students, masks, dynamical mean-field theory."""

import math

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab.report.formulas.formula import Measured, Shelf

__all__ = ["FORMULAS"]

FORMULAS = formula = Shelf("descent")
ALPHA, ETA, START = 3.0, 0.01, 0.5


def _data(d: int = 8, n: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, teacher and labels, the teacher of squared norm d."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)) / np.sqrt(d), rng.standard_normal(d)
    w *= np.sqrt(d) / np.linalg.norm(w)
    return X, w, np.abs(X @ w)


@formula("the gradient of the printed loss is four times that of (y^2 - h^2)^2/4")
def gradient() -> Measured:
    X, _, y = _data()
    w = np.random.default_rng(1).standard_normal(8)
    printed = np.asarray(jax.grad(lambda w: jnp.sum((y**2 - (X @ w) ** 2) ** 2))(w))
    h = X @ w
    ours = X.T @ (h * (h**2 - y**2))
    return Measured(float(printed[0]), float(4 * ours[0]), 1e-10, float(ours[0]))


def _on_sphere() -> tuple[np.ndarray, np.ndarray]:
    """Weights of norm sqrt(d), d = 8, and the gradient there."""
    X, _, y = _data()
    w = np.random.default_rng(2).standard_normal(8)
    w *= np.sqrt(8) / np.linalg.norm(w)
    h = X @ w
    return w, X.T @ (h * (h**2 - y**2))


@formula("the flow -G + mu w with the multiplier mu = w.G/d keeps the norm")
def multiplier() -> Measured:
    w, G = _on_sphere()
    return Measured(float(w @ (-G + (w @ G / 8) * w)), 0.0, 1e-12, float(-w @ G))


@formula(
    "a plain step eta along the flow with its multiplier makes |w|^2/d grow by eta^2 |flow|^2/d: it must be projected"
)
def plain_step() -> Measured:
    w, G = _on_sphere()
    flow = -G + (w @ G / 8) * w
    new = w + ETA * flow
    return Measured(float(new @ new / 8), float(1 + ETA**2 * (flow @ flow) / 8), 1e-12, 1.0)


@formula("the labels of phase retrieval have E y^2 = 1 and lose the sign")
def labels() -> Measured:
    y = _data(200, 4000, 3)[2]
    seen = y**2
    return Measured(float(seen.mean()), 1.0, float(4 * seen.std() / np.sqrt(len(y))), float(np.mean(y) ** 2))


@formula("a step of the wide student of squares is A <- (1 + eps S) A (1 + eps S) with eps = 4 rate/m")
def wide_step() -> Measured:
    X, _, y = _data()
    m, rate = 12, 0.01
    W = np.random.default_rng(4).standard_normal((8, m))
    slope = np.asarray(jax.grad(lambda W: jnp.sum((y**2 - jnp.sum((X @ W) ** 2, axis=1) / m) ** 2))(W))
    new = W - rate * slope
    A = W @ W.T / m
    S = X.T @ ((y**2 - np.einsum("ni,ij,nj->n", X, A, X))[:, None] * X)

    def turned(eps: float) -> float:
        left = np.eye(8) + eps * S
        return float((left @ A @ left)[0, 1])

    return Measured(float((new @ new.T / m)[0, 1]), turned(4 * rate / m), 1e-12, turned(4 * rate))


@formula("the loss of the wide student is that of A = W W^T/m, and A* = w* w*^T fits all labels")
def loss_of_a() -> Measured:
    X, w, y = _data()
    W = np.random.default_rng(6).standard_normal((8, 12))

    def loss(A: np.ndarray) -> float:
        return float(np.sum((y**2 - np.einsum("ni,ij,nj->n", X, A, X)) ** 2))

    of_units = float(np.sum((y**2 - np.mean((X @ W) ** 2, axis=1)) ** 2))
    return Measured(of_units, loss(W @ W.T / 12) + loss(np.outer(w, w)), 1e-10 * of_units, loss(W @ W.T))


@formula("weights N(0, 1) of m >= d units make A of full rank")
def rank_of_a() -> Measured:
    W = np.random.default_rng(5).standard_normal((8, 12))
    return Measured(float(np.linalg.matrix_rank(W @ W.T)), 8, 0, float(np.linalg.matrix_rank(W[:, :3] @ W[:, :3].T)))


# --- masks ---


def _chain(b: float, tau: float, eta: float) -> np.ndarray:
    """Probabilities of going from a state (0: out, 1: in) to a state."""
    up, down = eta / tau, (1 - b) * eta / (b * tau)
    return np.array([[1 - up, up], [down, 1 - down]])


@formula("the persistent mask is in with probability b, and stays out for the time tau on average")
def persistent_mask() -> Measured:
    b, tau = 0.3, 2.0
    law = np.linalg.matrix_power(_chain(b, tau, ETA), 20_000)[0, 1]
    out = ETA / _chain(b, tau, ETA)[0, 1]
    return Measured(float(law + out), b + tau, 1e-9, b + b * tau / (1 - b))


@formula("the correlation of the persistent mask decays over b tau, not tau")
def correlation_time() -> Measured:
    b, tau = 0.3, 2.0
    steps = 100
    ahead = np.linalg.matrix_power(_chain(b, tau, ETA), steps)[1, 1]
    decay = -math.log((ahead - b) / (1 - b)) / (steps * ETA)
    return Measured(1 / decay, b * tau, 0.02 * b * tau, tau)


@formula("a mask drawn anew at every step is the persistent one with tau = eta/b")
def plain_mask() -> Measured:
    b = 0.3
    chain = _chain(b, ETA / b, ETA)
    return Measured(
        float(abs(chain[0] - chain[1]).max()), 0.0, 1e-12, float(abs(np.diff(_chain(b, 1.0, ETA), axis=0)).max())
    )


# --- dynamical mean-field theory at its first step, where all is known ---


def _mean(of, b: float = 1.0) -> float:
    """E of a function of (h~, h0, s/b) at time 0, h~ = h + m h0, on a grid; s is in with probability b."""
    x, w = np.polynomial.hermite_e.hermegauss(20)
    w = w / w.sum()
    h0, h = x[:, None], math.sqrt(1 - START**2) * x[None, :]
    return b * float(np.sum(w[:, None] * w[None, :] * of(h + START * h0, h0, 1 / b)))


def _force(h, h0):
    return h * (h**2 - h0**2)


Q = 1 - START**2


@formula("M_C(0, 0) is alpha E[s^2 v'^2]/b^2 = 12 alpha q/b")
def noise_kernel() -> Measured:
    b = 0.5
    value = ALPHA * _mean(lambda h, h0, s: s**2 * _force(h, h0) ** 2, b)
    return Measured(value, 12 * ALPHA * Q / b, 1e-9, 12 * ALPHA * Q)


@formula("delta nu(0) is alpha E[s v'']/b = 2 alpha")
def regularisation() -> Measured:
    value = ALPHA * _mean(lambda h, h0, s: s * (3 * h**2 - h0**2), 0.5)
    return Measured(value, 2 * ALPHA, 1e-9, ALPHA)


@formula("mu(0) is zero at any overlap, and alpha E[s h~ v']/b is 2 alpha q: nu is its negative")
def drifts() -> Measured:
    mu = ALPHA * _mean(lambda h, h0, s: s * h0 * _force(h, h0), 0.5)
    pull = ALPHA * _mean(lambda h, h0, s: s * h * _force(h, h0), 0.5)
    return Measured(mu + pull, 2 * ALPHA * Q, 1e-9, -2 * ALPHA * Q)


@formula("h~ = h + m h0 has variance one on the sphere, and the loss is q at the start")
def local_field() -> Measured:
    value = _mean(lambda h, h0, s: h**2) + _mean(lambda h, h0, s: (h**2 - h0**2) ** 2 / 4)
    return Measured(value, 1 + Q, 1e-9, 2 * Q)


@formula("M_R just below the diagonal is alpha E[s v''^2]/b^2 > 0: P acts as v'(h~ - P), seeded by v'', not by 1")
def response_kernel() -> Measured:
    value = ALPHA * _mean(lambda h, h0, s: (3 * h**2 - h0**2) ** 2)
    seeded = ALPHA * _mean(lambda h, h0, s: 3 * h**2 - h0**2)
    return Measured(value, ALPHA * (24 - 12 * START**2), 1e-9, seeded)


def _first_overlap(b: float, heat: float = 0.0) -> float:
    """m after one projected step, in closed form."""
    norm = 1 - 4 * ETA * ALPHA * Q + ETA**2 * (12 * ALPHA * Q / b + 4 * ALPHA**2 * Q) + 2 * heat * ETA
    return START / math.sqrt(norm)


def _solved(rule: ll.AbstractAlgorithm) -> tuple[float, float]:
    """m after one step of the solver, the mean over its batches, and four standard errors of it."""
    one = ll.library.descent_phase_retrieval(ALPHA, rule, START)
    m = ll.predict(one, ll.DMFT(trajectories=4096, batches=16), [0.0, ETA]).m.isel(time=-1).values
    return float(np.mean(m)), 4 * float(np.std(m, ddof=1)) / math.sqrt(len(m))


@formula("dm/dt = -nu m - mu: the first step of the solver gives m = 0.52259 at alpha = 3, eta = 0.01, m(0) = 1/2")
def first_step() -> Measured:
    m, tolerance = _solved(ll.GradientDescent(ETA))
    return Measured(m, _first_overlap(1.0), tolerance, START)


@formula("with half of the samples in, and their force doubled, it gives 0.52183")
def first_step_of_half() -> Measured:
    m, tolerance = _solved(ll.PersistentSGD(learning_rate=ETA, batch_fraction=0.5, persistence_time=1.0))
    return Measured(m, _first_overlap(0.5), tolerance, _first_overlap(1.0))


@formula("noise of covariance 2T delta adds 2T eta to the norm before the projection: nu has + T")
def first_step_with_heat() -> Measured:
    m, tolerance = _solved(ll.Langevin(ETA, temperature=1.0))
    return Measured(m, _first_overlap(1.0, 1.0), tolerance, _first_overlap(1.0))
