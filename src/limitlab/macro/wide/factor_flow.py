r"""The flow of a positive matrix A = V V^T that fits quadratic measurements, through its factor V (d, r):

.. math:: \dot V = S V, \qquad S = X^T \mathrm{diag}(b - \mathrm{diag}(X A X^T))\, X
          \qquad\Longrightarrow\qquad \dot A = S A + A S

It is minus the gradient of a quarter of the squared residual. A stays positive and keeps its rank, whatever the error
of an integrator.
"""

from collections.abc import Callable

import numpy as np

__all__ = ["FactorFlow", "jacobian_product", "velocity"]


def velocity(X: np.ndarray, b: np.ndarray, V: np.ndarray) -> np.ndarray:
    """S V, at a cost of n d r."""
    H = X @ V
    return X.T @ ((b - np.einsum("ij,ij->i", H, H))[:, None] * H)


def jacobian_product(X: np.ndarray, b: np.ndarray, V: np.ndarray, dV: np.ndarray) -> np.ndarray:
    r""":math:`J\,dV = S\,dV - 2 X^T \mathrm{diag}(g) X V`, with :math:`g_\mu = (X\,dV)_\mu \cdot (X V)_\mu`."""
    H, dH = X @ V, X @ dV
    r, g = b - np.einsum("ij,ij->i", H, H), np.einsum("ij,ij->i", dH, H)
    return X.T @ (r[:, None] * dH - 2 * g[:, None] * H)


class FactorFlow:
    r"""The flow linearised at V, in the eigenbasis of S.

    The Jacobian is S plus a matrix of rank n, so that 1 - h J is inverted on n unknowns instead of d r: with
    B = (1 - h S)^-1 and H = X V,

    .. math:: (1 - hJ)\,x = c \iff x = B c - 2h\, B X^T \mathrm{diag}(g) H, \quad
              \left(1 + 2h\,(X B X^T) \circ (H H^T)\right) g = \mathrm{diag}(X B c\, H^T)
    """

    def __init__(self, X: np.ndarray, b: np.ndarray, V: np.ndarray):
        H = X @ V
        residual = b - np.einsum("ij,ij->i", H, H)
        self.eigenvalues, self.basis = np.linalg.eigh((X.T * residual) @ X)
        self.X, self.b, self.H, self.gram = X @ self.basis, b, H, H @ H.T

    def enter(self, y: np.ndarray) -> np.ndarray:
        """Rotated so that S is diagonal."""
        return self.basis.T @ y

    def leave(self, u: np.ndarray) -> np.ndarray:
        """Rotated back."""
        return self.basis @ u

    def solver(self, h: float) -> Callable[[np.ndarray], np.ndarray]:
        """c -> (1 - h J)^-1 c, in the eigenbasis."""
        # Straight from LAPACK: the checks of lu_factor and lu_solve take longer than these small systems.
        from scipy.linalg.lapack import dgetrf, dgetrs  # type: ignore[attr-defined]

        X, B = self.X, 1 / (1 - h * self.eigenvalues)[:, None]
        small = 2 * h * ((X * B.T) @ X.T) * self.gram
        small[np.diag_indices_from(small)] += 1.0
        if not np.all(np.isfinite(small)):
            return lambda c: np.full_like(c, np.nan)
        factors, pivots, _ = dgetrf(small)

        def solve(c: np.ndarray) -> np.ndarray:
            x = B * c
            g, _ = dgetrs(factors, pivots, np.einsum("ij,ij->i", X @ x, self.H))
            return x - 2 * h * B * (X.T @ (g[:, None] * self.H))

        return solve

    def motion(self, u: np.ndarray) -> np.ndarray:
        """f(u), in the eigenbasis."""
        return velocity(self.X, self.b, u)

    def euler(self, h: float) -> Callable[[np.ndarray], np.ndarray]:
        """u -> u + (1 - h J)^-1 h f(u), in the eigenbasis."""
        solve = self.solver(h)
        return lambda u: u + solve(h * self.motion(u))
