"""Least squares with or without penalty."""

import numpy as np

from limitlab.numerics.convex.fit import Fit, calm, verdict

__all__ = ["ridge"]


def ridge(X: np.ndarray, y: np.ndarray, penalty: float) -> Fit:
    r""":math:`(X^\top X + \lambda)^{-1} X^\top y`; without penalty the least-norm solution of least squares."""
    from scipy.linalg import cho_factor, cho_solve  # slow to import

    n, d = X.shape
    with calm(X):
        if penalty == 0:
            w = np.linalg.lstsq(X, y, rcond=None)[0]
        elif n >= d:
            w = cho_solve(cho_factor(X.T @ X + penalty * np.eye(d)), X.T @ y)
        else:
            w = X.T @ cho_solve(cho_factor(X @ X.T + penalty * np.eye(n)), y)
        error = np.linalg.norm(X.T @ (X @ w - y) + penalty * w) / max(np.linalg.norm(X.T @ y), 1e-300)
    return verdict(w, error, "ridge regression")
