"""Support vectors: the hinge and the maximal margin, as quadratic or linear programmes."""

from typing import Any, NamedTuple

import numpy as np

from limitlab.numerics.convex.fit import TOLERANCE, Fit, undefined, verdict

__all__ = ["interior_point", "linear_programme"]

STEPS = 200


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
    from scipy.linalg import cho_solve

    _, a, s, b, xi = at
    c = -primal + mu_s / a - s - (0.0 if b is None else mu_xi / b - xi)
    dw = cho_solve(factor, A.T @ (D * c) - dual)
    da = D * (c - A @ dw)
    ds = mu_s / a - s - s / a * da
    return _Point(dw, da, ds) if b is None else _Point(dw, da, ds, -da, mu_xi / b - xi + xi / b * da)


def interior_point(A: np.ndarray, penalty: float, bounded: bool) -> Fit:
    r"""Hinge (``bounded``) or max margin: a primal-dual path to a s = 0, (1/lambda - a) xi = 0.

    w = A^T a, A w - 1 + xi = s >= 0, a >= 0, and for the hinge a <= 1/lambda, xi >= 0; rows of A are y x. The
    distance to the minimiser obeys |w - w_min|^2 <= 2 gap, as the objective is strongly convex.
    """
    from scipy.linalg import LinAlgError, cho_factor  # slow to import

    n, d = A.shape
    first = min(1.0, 0.5 / penalty) if bounded else 1.0
    at = _Point(np.zeros(d), np.full(n, first), np.ones(n))
    if bounded:
        at = at._replace(b=np.full(n, 1 / penalty - first), xi=np.ones(n))
    best, idle, w_best = np.inf, 0, at.w
    for _ in range(STEPS):
        dual = at.w - A.T @ at.a
        primal = A @ at.w - 1 - at.s + (at.xi if bounded else 0.0)
        size = max(float(np.linalg.norm(at.w)), 1e-100)
        error = max(at.gap / size**2, np.linalg.norm(dual) / size, np.abs(primal).max())
        best, w_best, idle = (error, at.w, 0) if error < 0.7 * best else (best, w_best, idle + 1)
        if best < 1e-5 * TOLERANCE or (best < TOLERANCE and idle > 4):
            break
        margin = np.linalg.norm(A.T @ at.a) / at.a.sum()  # no |w| = 1 has all margins above it
        if not bounded and margin < 1e-7:
            return undefined(d, f"the labels are not separable (no margin above {margin:.1e} of |w|).")
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
    return verdict(w_best, best, "the interior-point method")


def linear_programme(A: np.ndarray) -> Fit:
    """The hinge without penalty: minimise sum xi subject to A w >= 1 - xi, xi >= 0."""
    from scipy.optimize import linprog  # slow to import

    n, d = A.shape
    result = linprog(
        np.concatenate([np.zeros(d), np.ones(n)]),
        A_ub=-np.hstack([A, np.eye(n)]),
        b_ub=-np.ones(n),
        bounds=[(None, None)] * d + [(0, None)] * n,
    )
    if result.status == 0 and result.fun < 1e-9:
        return undefined(d, "the labels are separable: without penalty the hinge has many minimisers.")
    w = result.x[:d] if result.x is not None else np.full(d, np.nan)
    error = abs(result.fun + result.ineqlin.marginals.sum()) / result.fun if result.status == 0 else np.inf
    return verdict(w, error, "the linear programme")
