r"""The row theory of ridge regression, closed.

.. math::
    \omega_j = \frac{f}{1 + (1-f)\ell_j}, \quad H = \sum \omega_j x_j x_j^\top + \Lambda, \quad
    \gamma_j = x_j^\top H^{-1} x_j, \quad h_j = \omega_j\gamma_j, \quad \ell_j = \frac{\gamma_j}{1 - h_j}

    u_j = \frac{y_j - x_j\cdot\bar w}{1 - h_j}, \qquad \tau_j = u_j^2 + \frac{1-f}{f(1 - h_j)^2}
    \sum_{i \ne j} (x_j^\top H^{-1} x_i)^2 \omega_i^2 \tau_i

with :math:`\bar w` the ridge of the whole pool with weights omega. The mean-square error of row j is tau_j when it is
left out and tau_j/(1 + l_j)^2 when it is not. At f = 1 these are the squared residuals of leaving one out (PRESS).
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import cholesky, get_lapack_funcs, solve_triangular

from limitlab.data.rows.anderson import Anderson
from limitlab.data.rows.theory import Design, RowTheory

__all__ = ["square_rows"]

CLOSE = 1e-10  # largest change of log omega
ROUNDS = 500
LEAST = 1e-14  # what is left of a row whose leverage is nearly 1
DENSE = 0.125  # columns per row from which products of rows are kept
WIDE = 0.6  # columns per row from which the N x N matrix of the rows is the smaller work


def square_rows(design: Design, y: np.ndarray, share: float) -> RowTheory:
    """The theory at f = ``share`` of the rows; features that the penalty does not hold raise LinAlgError."""
    wide = design.Z.shape[1] > WIDE * len(y) and np.all(design.penalty[:1] > 0)
    weighted = _Wide(design) if wide else _Tall(design)
    omega = np.full(len(y), share)
    mixing, residual, rounds, at = Anderson(), np.inf, 0, weighted.at(omega)
    for rounds in range(1, ROUNDS + 1):  # noqa: B007
        # omega = f/(1 + (1-f) l) with l = gamma/(1 - h)
        new = share * at.kept / (at.kept + (1 - share) * at.gamma)
        residual = float(np.max(np.abs(np.log(new / omega))))
        if residual < CLOSE:
            break
        omega = np.minimum(np.exp(mixing.mixed(np.log(omega), np.log(new))), 1.0)
        at = weighted.at(omega)
    left_out = at.residual(y) / at.kept
    tau, good = _spread(at, left_out, share)
    variance = np.maximum(tau - left_out**2, 0.0)
    status = "ok" if residual < CLOSE and good else "not_converged"
    train = tau / (1 + at.gamma / at.kept) ** 2
    return RowTheory(y - left_out, np.sqrt(variance), 1 - at.kept, tau / 2, train / 2, rounds, residual, status)


class _Weights(Protocol):
    """A weighted ridge of the pool: 1 - h and gamma of every row."""

    @property
    def kept(self) -> np.ndarray: ...

    @property
    def gamma(self) -> np.ndarray: ...

    @abstractmethod
    def residual(self, y: np.ndarray) -> np.ndarray:
        """y - x.w of the ridge."""

    @abstractmethod
    def spread(self) -> Callable[[np.ndarray], np.ndarray]:
        """tau -> the sum over i other than j of (x_j H^-1 x_i)^2 omega_i^2 tau_i."""


class _TallAt(NamedTuple):
    """By columns: Z Z^T = X H^-1 X^T, whose squares are kept if they are not many times as large as X."""

    omega: np.ndarray
    Z: np.ndarray
    gamma: np.ndarray
    kept: np.ndarray

    def residual(self, y):
        return y - self.Z @ (self.Z.T @ (self.omega * y))

    def spread(self):
        if self.Z.shape[1] > DENSE * len(self.Z):
            squares = np.square(self.Z @ self.Z.T)
            np.fill_diagonal(squares, 0.0)
            return lambda tau: squares @ (self.omega**2 * tau)

        def by_columns(tau):
            weight = self.omega**2 * tau
            S = (self.Z * weight[:, None]).T @ self.Z
            return np.einsum("ij,ij->i", self.Z @ S, self.Z) - self.gamma**2 * weight

        return by_columns


class _Tall:
    def __init__(self, design: Design):
        self._design = design

    def at(self, omega: np.ndarray) -> _TallAt:
        X, penalty = self._design
        root = X * np.sqrt(omega)[:, None]
        H = root.T @ root
        H[np.diag_indices(len(H))] += penalty
        Z = solve_triangular(cholesky(H, lower=True), X.T, lower=True).T
        gamma = np.einsum("ij,ij->i", Z, Z)
        return _TallAt(omega, Z, gamma, np.maximum(1 - omega * gamma, LEAST))


class _WideAt(NamedTuple):
    """By rows: with A = (K + lam/omega)^-1, 1 - h = lam A_jj/omega and x_j H^-1 x_i = -lam A_ij/(omega_i omega_j)."""

    omega: np.ndarray
    A: np.ndarray  # times lam
    gamma: np.ndarray
    kept: np.ndarray

    def residual(self, y):
        return self.A @ y / self.omega

    def spread(self):
        squares = np.square(self.A)
        np.fill_diagonal(squares, 0.0)
        return lambda tau: squares @ tau / self.omega**2


class _Wide:
    def __init__(self, design: Design):
        self._penalty, free = design.penalty[0], design.penalty == 0
        X = design.Z[:, ~free]
        self._K, self._free = X @ X.T, bool(np.any(free))

    def at(self, omega: np.ndarray) -> _WideAt:
        A = self._K.copy()
        A[np.diag_indices(len(A))] += self._penalty / omega
        L = cholesky(A, lower=True, overwrite_a=True)
        (inverse,) = get_lapack_funcs(("potri",), (L,))
        A, wrong = inverse(L, lower=1, overwrite_c=1)
        if wrong:
            raise np.linalg.LinAlgError("the matrix of the rows is singular")
        A = np.tril(A) + np.tril(A, -1).T
        if self._free:  # an intercept without penalty takes the mean out
            one = A.sum(axis=1)
            A -= np.outer(one, one / one.sum())
        A *= self._penalty
        kept = np.maximum(np.diagonal(A) / omega, LEAST)
        return _WideAt(omega, A, np.maximum(1 - kept, LEAST) / omega, kept)


def _spread(at: _Weights, left_out: np.ndarray, share: float) -> tuple[np.ndarray, bool]:
    """tau from its linear equation, by GMRES."""
    from scipy.sparse.linalg import LinearOperator, gmres

    base = left_out**2
    if share == 1:
        return base, True
    factor = (1 - share) / share / at.kept**2
    make: Any = LinearOperator
    spread = at.spread()
    operator = make(
        (len(base), len(base)), matvec=lambda tau: np.ravel(tau) - factor * spread(np.ravel(tau)), dtype=float
    )
    tau, ended = gmres(operator, base, x0=base, rtol=1e-11, atol=0.0, restart=60, maxiter=20)
    return tau, ended == 0 and bool(np.all(tau >= 0))
