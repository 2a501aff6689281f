r"""Exact solvers of :math:`\min_w \sum_\mu \ell(y_\mu, w\cdot x_\mu) + \tfrac\lambda2 |w|^2` for one data set.

Each returns its weights with a measured violation of the optimality conditions; nothing is trusted unmeasured.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import linprog
from threadpoolctl import threadpool_limits

from limitlab.problems.losses import AbstractConvexLoss, HingeLoss, MaxMargin, SquareLoss

__all__ = ["Fit", "fit"]

TOLERANCE = 1e-8  # of the optimality conditions, relative to their largest term
SMALL = 2500
NEWTON_STEPS, INTERIOR_STEPS, SPLITTING_STEPS = 200, 200, 20_000


class Fit(NamedTuple):
    """Weights, status ("ok", "not_converged", "undefined"), the optimality error, and words if not ok."""

    w: np.ndarray
    status: str
    error: float
    words: str = ""


def fit(loss: AbstractConvexLoss, X: np.ndarray, y: np.ndarray, penalty: float) -> Fit:
    """The minimiser of the loss on the rows of X with labels y."""
    # Threads of the linear algebra gain nothing on small matrices and wait for each other on a busy machine.
    with threadpool_limits(1 if min(X.shape) < SMALL else None):
        return _fit(loss, X, y, penalty)


def _fit(loss, X, y, penalty) -> Fit:
    n, d = X.shape
    if isinstance(loss, SquareLoss):
        return _ridge(X, y, penalty)
    if loss.of == "residual" and penalty == 0 and n <= d:
        return _undefined(d, "without penalty infinitely many weights fit all labels (n <= d). Use a penalty > 0.")
    if n < d:  # the minimiser lies in the span of the samples: w = Q c, X w = R^T c
        Q, R = np.linalg.qr(X.T)
        small = _fit(loss, np.ascontiguousarray(R.T), y, penalty)
        return small._replace(w=Q @ small.w)
    if isinstance(loss, (HingeLoss, MaxMargin)):
        if isinstance(loss, HingeLoss) and penalty == 0:
            return _linear_programme(X * y[:, None])
        return _interior_point(X * y[:, None], penalty, isinstance(loss, HingeLoss))
    return _newton(loss, X, y, penalty) if loss.smooth else _splitting(loss, X, y, penalty)


def _undefined(d: int, words: str) -> Fit:
    return Fit(np.full(d, np.nan), "undefined", np.nan, words)


def _verdict(w: np.ndarray, error: Any, what: str) -> Fit:
    if np.isfinite(error) and error < TOLERANCE:
        return Fit(w, "ok", float(error))
    return Fit(w, "not_converged", float(error), f"{what} stopped with an optimality error of {error:.1e}.")


def _ridge(X, y, penalty) -> Fit:
    n, d = X.shape
    if penalty == 0:
        w = np.linalg.lstsq(X, y, rcond=None)[0]
    elif n >= d:
        w = cho_solve(cho_factor(X.T @ X + penalty * np.eye(d)), X.T @ y)
    else:
        w = X.T @ cho_solve(cho_factor(X @ X.T + penalty * np.eye(n)), y)
    error = np.linalg.norm(X.T @ (X @ w - y) + penalty * w) / max(np.linalg.norm(X.T @ y), 1e-300)
    return _verdict(w, error, "ridge regression")


@eqx.filter_jit
def _terms(loss: AbstractConvexLoss, y: jax.Array, z: jax.Array):
    return loss.value(y, z), *loss.gradient(y, z)


def _newton(loss, X, y, penalty) -> Fit:
    """Newton's method with halved steps; on separable data without penalty it stops at a separating plane."""
    d = X.shape[1]
    w, z, y_dev = np.zeros(d), np.zeros(len(y)), jnp.asarray(y)

    def at(w, z):
        value, first, second = (np.asarray(x) for x in _terms(loss, y_dev, jnp.asarray(z)))
        return float(value.sum() + penalty / 2 * w @ w), first, second

    total, first, second = at(w, z)
    error = np.inf
    for _ in range(NEWTON_STEPS):
        gradient = X.T @ first + penalty * w
        error = np.linalg.norm(gradient) / max(np.linalg.norm(first), 1e-300)
        if penalty == 0 and loss.of == "margin" and np.min(y * z) > 0:
            return _undefined(d, "the labels are separable: without penalty the loss has no minimiser.")
        if error < 1e-3 * TOLERANCE:
            break
        H = X.T @ (X * second[:, None])
        H[np.diag_indices(d)] += penalty + 1e-14 * np.trace(H) / d
        try:
            step = -cho_solve(cho_factor(H), gradient)
        except LinAlgError:
            break
        dz, slope, length = X @ step, float(gradient @ step), 1.0
        while True:
            new = at(w + length * step, z + length * dz)
            if new[0] <= total + 1e-4 * length * slope + 1e-13 * abs(total) or length < 1e-10:
                break
            length /= 2
        if length < 1e-10:
            break
        w, z = w + length * step, z + length * dz
        total, first, second = new
    return _verdict(w, error, "Newton's method")


class _Point(NamedTuple):
    """Weights, multipliers a >= 0 with slacks s, and for the hinge b = 1/lambda - a >= 0 with xi (else None)."""

    w: Any
    a: Any
    s: Any
    b: Any = None
    xi: Any = None

    @property
    def gap(self) -> float:
        return float(self.a @ self.s + (0.0 if self.b is None else self.b @ self.xi))

    def moved(self, t: float, by: "_Point") -> "_Point":
        return _Point(*(None if x is None else x + t * dx for x, dx in zip(self, by, strict=True)))

    def longest(self, by: "_Point") -> float:
        """How far one can go before a multiplier or slack vanishes."""
        pairs = [(x, dx) for x, dx in zip(self[1:], by[1:], strict=True) if x is not None]
        return min(1.0, *(float(np.min(-x[dx < 0] / dx[dx < 0], initial=np.inf)) for x, dx in pairs))


def _towards(A, factor, D, at: _Point, dual, primal, mu_s, mu_xi) -> _Point:
    """The Newton step to a s = mu_s, b xi = mu_xi."""
    _, a, s, b, xi = at
    c = -primal + mu_s / a - s - (0.0 if b is None else mu_xi / b - xi)
    dw = cho_solve(factor, A.T @ (D * c) - dual)
    da = D * (c - A @ dw)
    ds = mu_s / a - s - s / a * da
    return _Point(dw, da, ds) if b is None else _Point(dw, da, ds, -da, mu_xi / b - xi + xi / b * da)


def _interior_point(A: np.ndarray, penalty: float, bounded: bool) -> Fit:
    r"""Hinge (``bounded``) or max margin: a primal-dual path to a s = 0, (1/lambda - a) xi = 0.

    w = A^T a, A w - 1 + xi = s >= 0, a >= 0, and for the hinge a <= 1/lambda, xi >= 0; rows of A are y x. The
    distance to the minimiser obeys |w - w_min|^2 <= 2 gap, as the objective is strongly convex.
    """
    n, d = A.shape
    first = min(1.0, 0.5 / penalty) if bounded else 1.0
    at = _Point(np.zeros(d), np.full(n, first), np.ones(n))
    if bounded:
        at = at._replace(b=np.full(n, 1 / penalty - first), xi=np.ones(n))
    best, idle, w_best = np.inf, 0, at.w
    for _ in range(INTERIOR_STEPS):
        dual = at.w - A.T @ at.a
        primal = A @ at.w - 1 - at.s + (at.xi if bounded else 0.0)
        size = max(float(np.linalg.norm(at.w)), 1e-100)
        error = max(at.gap / size**2, np.linalg.norm(dual) / size, np.abs(primal).max())
        best, w_best, idle = (error, at.w, 0) if error < 0.7 * best else (best, w_best, idle + 1)
        if best < 1e-5 * TOLERANCE or (best < TOLERANCE and idle > 4):
            break
        margin = np.linalg.norm(A.T @ at.a) / at.a.sum()  # no |w| = 1 has all margins above it
        if not bounded and margin < 1e-7:
            return _undefined(d, f"the labels are not separable (no margin above {margin:.1e} of |w|).")
        D = 1 / (at.s / at.a + (at.xi / at.b if bounded else 0.0))
        H = (A.T * D) @ A
        H[np.diag_indices(d)] += 1.0
        try:
            factor = cho_factor(H)
        except (LinAlgError, ValueError):
            break
        # Mehrotra: how far the plain step would come says how much to stay in the middle, and how it bends
        plain = _towards(A, factor, D, at, dual, primal, 0.0, 0.0)
        after = at.moved(at.longest(plain), plain).gap
        mu = (after / at.gap) ** 3 * at.gap / (2 * n if bounded else n)
        bend = plain.b * plain.xi if bounded else 0.0
        step = _towards(A, factor, D, at, dual, primal, mu - plain.a * plain.s, mu - bend)
        at = at.moved(min(1.0, 0.995 * at.longest(step)), step)
    return _verdict(w_best, best, "the interior-point method")


def _linear_programme(A: np.ndarray) -> Fit:
    """The hinge without penalty: minimise sum xi subject to A w >= 1 - xi, xi >= 0."""
    n, d = A.shape
    result = linprog(
        np.concatenate([np.zeros(d), np.ones(n)]),
        A_ub=-np.hstack([A, np.eye(n)]),
        b_ub=-np.ones(n),
        bounds=[(None, None)] * d + [(0, None)] * n,
    )
    if result.status == 0 and result.fun < 1e-9:
        return _undefined(d, "the labels are separable: without penalty the hinge has many minimisers.")
    w = result.x[:d] if result.x is not None else np.full(d, np.nan)
    error = abs(result.fun + result.ineqlin.marginals.sum()) / result.fun if result.status == 0 else np.inf
    return _verdict(w, error, "the linear programme")


def _splitting(loss: Any, X: np.ndarray, y: np.ndarray, penalty: float) -> Fit:
    """Any loss with a proximal map: alternate between the proximal points z and the weights (ADMM)."""
    n, d = X.shape
    V = 1.0
    prox = eqx.filter_jit(lambda loss, y, s, V: loss.prox(y, s, V))
    gram = X.T @ X
    factor = cho_factor(gram + (V * penalty + 1e-14) * np.eye(d))
    w, u, z, error, y_dev = np.zeros(d), np.zeros(n), np.zeros(n), np.inf, jnp.asarray(y)
    for k in range(SPLITTING_STEPS):
        new = np.asarray(prox(loss, y_dev, jnp.asarray(X @ w + u), V))
        u = u + X @ w - new  # u/V is a subgradient of the loss at new
        w_new = cho_solve(factor, X.T @ (new - u))
        moved = np.linalg.norm(X @ w_new - new) + np.linalg.norm(new - z)
        w, z = w_new, new
        if k % 10 == 0:
            stationary = np.linalg.norm(X.T @ u / V + penalty * w) / max(np.linalg.norm(u) / V, 1e-300)
            error = max(moved / max(np.linalg.norm(z), 1.0), stationary)
            if error < 0.3 * TOLERANCE:
                break
    return _verdict(w, error, "operator splitting")
