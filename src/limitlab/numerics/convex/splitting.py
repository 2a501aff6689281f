"""Operator splitting (ADMM), for any loss with a proximal map."""

from collections.abc import Callable

import numpy as np

from limitlab.numerics.convex.fit import TOLERANCE, Fit, verdict

__all__ = ["splitting"]

STEPS = 20_000


def splitting(prox: Callable[[np.ndarray, float], np.ndarray], X: np.ndarray, penalty: float) -> Fit:
    """Alternate between the proximal points z = prox(X w + u, V) and the weights."""
    from scipy.linalg import cho_factor, cho_solve  # slow to import

    n, d = X.shape
    V = 1.0
    gram = X.T @ X
    factor = cho_factor(gram + (V * penalty + 1e-14) * np.eye(d))
    w, u, z, error = np.zeros(d), np.zeros(n), np.zeros(n), np.inf
    for k in range(STEPS):
        new = prox(X @ w + u, V)
        u = u + X @ w - new  # u/V is a subgradient of the loss at new
        w_new = cho_solve(factor, X.T @ (new - u))
        moved = np.linalg.norm(X @ w_new - new) + np.linalg.norm(new - z)
        w, z = w_new, new
        if k % 10 == 0:
            stationary = np.linalg.norm(X.T @ u / V + penalty * w) / max(np.linalg.norm(u) / V, 1e-300)
            error = max(moved / max(np.linalg.norm(z), 1.0), stationary)
            if error < 0.3 * TOLERANCE:
                break
    return verdict(w, error, "operator splitting")
