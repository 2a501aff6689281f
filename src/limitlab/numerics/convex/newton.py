"""Newton's method with halved steps, for losses with two derivatives."""

from collections.abc import Callable

import numpy as np

from limitlab.numerics.convex.fit import TOLERANCE, Fit, undefined, verdict

__all__ = ["newton"]

STEPS = 200


def newton(
    terms: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    X: np.ndarray,
    penalty: float | np.ndarray,
    signs: np.ndarray | None = None,
) -> Fit:
    """The minimiser from ``terms(z)``: the losses of the outputs z = X w with their two derivatives.

    ``penalty``: of all weights, or of each; a weight with none, such as an intercept, is free. ``signs``: of a loss
    that never stops falling with the margins signs * z. Without any penalty the method then stops at a separating
    plane: there is no minimiser.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve  # slow to import

    n, d = X.shape
    w, z = np.zeros(d), np.zeros(n)

    def at(w, z):
        value, first, second = terms(z)
        return float(value.sum() + (penalty * w) @ w / 2), first, second

    total, first, second = at(w, z)
    error = np.inf
    for _ in range(STEPS):
        gradient = X.T @ first + penalty * w
        error = np.linalg.norm(gradient) / max(np.linalg.norm(first), 1e-300)
        if not np.any(penalty) and signs is not None and np.min(signs * z) > 0:
            return undefined(d, "the labels are separable: without penalty the loss has no minimiser.")
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
    return verdict(w, error, "Newton's method")
