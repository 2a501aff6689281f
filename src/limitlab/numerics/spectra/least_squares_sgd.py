r"""One-pass SGD of least squares on normal inputs of any covariance: exact mean squares at any number of steps.

.. math:: w \leftarrow w + \eta\, \Big\langle x\,(y - w \cdot x) \Big\rangle_B, \qquad D_i = E(w_i - w^*_i)^2, \qquad
          D \leftarrow M D + \frac{\eta^2}{B}\sigma^2 s

    M = \mathrm{diag}\big(1 - 2\eta s + \eta^2 s^2 (1 + \tfrac1B)\big) + \frac{\eta^2}{B} s s^T

with the eigenvalues s of E[x x^T]. M is symmetric, so that one eigendecomposition gives all steps at once; directions
that share an eigenvalue are one mode, scaled by the root of their number. Nothing is assumed to be large.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["LeastSquaresSGD"]


class LeastSquaresSGD(NamedTuple):
    """The recursion in its own coordinates: D = scale^-1 U d, where d decays as (1 - eta r)^step to ``rest``/r."""

    s: np.ndarray
    scale: np.ndarray
    U: np.ndarray
    r: np.ndarray
    source: np.ndarray
    eta: float
    noise: float

    @classmethod
    def of(cls, s: np.ndarray, counts: np.ndarray, noise: float, eta: float, batch: int = 1) -> "LeastSquaresSGD":
        """For eigenvalues s that ``counts`` directions share, label noise of variance ``noise`` and rate ``eta``."""
        s, scale = np.asarray(s, float), np.sqrt(np.asarray(counts, float))
        pull = scale * s
        A = np.diag(2 * s - eta * s**2 * (1 + 1 / batch)) - eta / batch * np.outer(pull, pull)  # (1 - M)/eta
        r, U = np.linalg.eigh(A)
        return cls(s, scale, U, r, U.T @ (eta / batch * noise * pull), float(eta), float(noise))

    @property
    def stable(self) -> bool:
        """Whether the mean squares stay bounded."""
        return bool(self.r[0] >= -1e-13 * max(1.0, float(self.r[-1])))

    def squares(self, start: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """D (step, mode) after so many steps from ``start`` (mode,); infinite where it overflows."""
        k = np.asarray(steps, float)[:, None]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            log = k * np.log1p(-self.eta * self.r)
            grown = np.where(k == 0, 0.0, -np.expm1(log))  # 1 - (1 - eta r)^k
            slow = np.abs(self.r) * self.eta * np.maximum(k, 1) < 1e-12
            gain = np.where(slow, k * self.eta, grown / np.where(slow, 1.0, self.r))
            moved = (1 - grown) * (self.U.T @ (self.scale * start)) + gain * self.source
            found = moved @ self.U.T / self.scale
        return np.where(np.isfinite(moved).all(axis=1, keepdims=True), found, np.inf)

    def mse(self, squares: np.ndarray) -> np.ndarray:
        """E (y - w.x)^2, twice the risk."""
        return squares @ (self.scale**2 * self.s) + self.noise
