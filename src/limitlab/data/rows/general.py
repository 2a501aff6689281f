r"""The row theory of any convex loss: a cavity over the random subset.

The field of row j under a fit that does not hold it is normal, :math:`h_j \sim N(\mu_j, v_j)`, with leverage
:math:`\ell_j`. With :math:`g = -\ell'(\mathrm{prox}_{\ell_j}(h_j))`, averages over h_j, f = n/N and penalties Lambda:

.. math::
    a_j = f\,E\frac{\ell''}{1 + \ell_j\ell''}, \quad \omega_j = \frac{a_j}{1 - a_j\ell_j}, \quad
    H = \sum\omega_j x_j x_j^\top + \Lambda, \quad \gamma_j = x_j^\top H^{-1}x_j, \quad
    \ell_j = \frac{\gamma_j}{1 - a_j\ell_j}

    \bar w = H^{-1}\sum x_j\,(f E g_j + \omega_j(\mu_j + \ell_j f E g_j)), \qquad
    \mu_j = x_j\cdot\bar w - \ell_j f E g_j

    \xi_j = f E g^2 - (f E g)^2 - a_j^2 v_j, \quad u_j = \frac1{1 - a_j\ell_j}, \quad
    v_j = u_j^2\Big[x_j^\top H^{-1}\Big(\sum u_i^2\xi_i x_i x_i^\top\Big)H^{-1}x_j - \gamma_j^2u_j^2\xi_j\Big]

A round costs O(rows columns^2) and keeps no matrix of rows by rows. :math:`a_j\ell_j < f`, so that nothing here divides
by a leverage near 1. Near the fixed point Anderson's mixing is used, with damped steps where it led away; small
penalties are reached from larger ones.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, get_blas_funcs, solve_triangular

from limitlab.data.rows.anderson import Anderson
from limitlab.data.rows.moments import paid, pulls
from limitlab.data.rows.theory import Design, RowTheory
from limitlab.problems.losses.base import AbstractConvexLoss

__all__ = ["Fields", "general_rows"]

CLOSE = 1e-5  # largest change of a field's mean or s.d., in units of 1 + s.d., and of log leverage
NEAR = 0.5  # change below which steps are mixed
DAMPING, REST = 0.8, 4  # of steps after a mixed one that led away, and their number
ROUNDS = 200  # of the last penalty
EARLY, LOOSE = 10, 0.1  # rounds and closeness at the penalties on the way
FIRST, FACTOR = 0.1, 10.0  # penalty to start with, in units of the mean square norm of a row; steps down from it
LEAST = 1e-150


class Fields(NamedTuple):
    """Mean, s.d. and leverage l of every row's field."""

    mean: np.ndarray
    sd: np.ndarray
    ell: np.ndarray

    def flat(self) -> np.ndarray:
        return np.concatenate([self.mean, np.log(self.sd), np.log(self.ell)])

    @classmethod
    def raised(cls, flat: np.ndarray) -> "Fields":
        mean, sd, ell = np.split(flat, 3)
        return cls(mean, np.exp(np.clip(sd, -300, 300)), np.exp(np.clip(ell, -300, 300)))

    def towards(self, other: "Fields") -> "Fields":
        """A damped step."""
        mean, sd = ((1 - DAMPING) * a + DAMPING * b for a, b in zip(self[:2], other[:2], strict=True))
        return Fields(mean, sd, self.ell ** (1 - DAMPING) * other.ell**DAMPING)

    def change(self, other: "Fields") -> float:
        unit = 1 + other.sd
        parts = (np.abs(self.mean - other.mean) / unit, np.abs(self.sd - other.sd) / unit)
        worst = max(float(np.max(part)) for part in (*parts, np.abs(np.log(self.ell / other.ell))))
        return worst if np.isfinite(worst) else np.inf


class _Found(NamedTuple):
    fields: Fields
    hat: np.ndarray
    rounds: int
    change: float


def general_rows(
    loss: AbstractConvexLoss,
    design: Design,
    y: np.ndarray,
    share: float,
    start: Fields | None = None,
    tolerance: float = CLOSE,
    most: int = ROUNDS,
) -> tuple[RowTheory, Fields]:
    """The theory at f = ``share`` of the rows, and its fields, from which a theory nearby may start."""
    rounds, found = 0, None
    for penalty in _way(design, start):
        last = penalty is design.penalty
        begin = start if start is not None else Fields(np.zeros(len(y)), np.full(len(y), 0.3), np.ones(len(y)))
        found = _solve(
            loss,
            design._replace(penalty=penalty),
            y,
            share,
            begin,
            tolerance if last else LOOSE,
            most - rounds if last else EARLY,
        )
        rounds, start = rounds + found.rounds, found.fields
    if found is None:
        raise ValueError("no penalty to solve for")
    fields = found.fields
    test, train = paid(loss, y, fields.mean, fields.sd, fields.ell)
    status = "ok" if found.change < tolerance else "not_converged"
    return RowTheory(fields.mean, fields.sd, found.hat, test, train, rounds, found.change, status), fields


def _way(design: Design, start: Fields | None) -> list[np.ndarray]:
    """Penalties from one where the fixed point is easy to the one asked for; this one alone if there is a start."""
    penalised = design.penalty > 0
    if start is not None or not np.any(penalised):
        return [design.penalty]
    size = FIRST * float(np.mean(np.sum(design.Z[:, penalised] ** 2, axis=1)))
    factor = size / float(design.penalty[penalised].max())
    steps = int(np.ceil(np.log(factor) / np.log(FACTOR) - 0.3)) if factor > 1 else 0  # the last step may be twice it
    return [*(design.penalty * factor / FACTOR**k for k in range(steps)), design.penalty]


def _solve(loss, design: Design, y, share: float, at: Fields, tolerance: float, most: int) -> _Found:
    mixing, rest, last, before = Anderson(), 0, np.inf, (at, at)
    space = (np.empty_like(design.Z), np.empty_like(design.Z))  # for every round: fresh pages cost more than products
    new, hat, change, rounds = at, np.zeros(len(y)), np.inf, 0
    for rounds in range(1, max(most, 1) + 1):  # noqa: B007
        new, hat = _round(loss, design, y, share, at, space)
        change = at.change(new)
        if change < tolerance:
            break
        if rest == 0 and not change < 2 * last:  # a mixed step led away: back, and carefully on
            at, new = before
            mixing, rest, last = Anderson(), REST, np.inf
            at = at.towards(new)
            continue
        before = (at, new)
        if rest or change > NEAR:
            at, last = (at.towards(new) if rest else new), np.inf
            rest = max(rest - 1, 0)
            continue
        last = change
        at = Fields.raised(mixing.mixed(at.flat(), new.flat()))
    return _Found(new, hat, rounds, change)


def _round(
    loss, design: Design, y, share: float, at: Fields, space: tuple[np.ndarray, np.ndarray]
) -> tuple[Fields, np.ndarray]:
    g, gg, bend = pulls(loss, y, at.mean, at.sd, at.ell)
    a = share * bend
    kept = 1 - np.minimum(a * at.ell, share * (1 - 1e-12))
    omega, pull = a / kept, share * g
    root, Z = space
    np.multiply(design.Z, np.sqrt(omega)[:, None], out=root)
    H = root.T @ root
    H[np.diag_indices(len(H))] += design.penalty
    L = cholesky(H, lower=True, overwrite_a=True, check_finite=False)
    np.copyto(Z, design.Z)
    inverse = solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False)
    (trmm,) = get_blas_funcs(["trmm"], dtype=float)
    Z = trmm(1.0, inverse, Z.T, lower=True, overwrite_b=True).T
    gamma = np.einsum("ij,ij->i", Z, Z)
    ell = gamma / kept
    w = cho_solve((L, True), design.Z.T @ (pull + omega * (at.mean + at.ell * pull)), check_finite=False)
    xi = np.maximum(share * gg - pull**2 - (a * at.sd) ** 2, 0.0) / kept**2
    S = np.multiply(Z, np.sqrt(xi)[:, None], out=root).T @ root
    v = (np.einsum("ij,ij->i", np.matmul(Z, S, out=root), Z) - gamma**2 * xi) / kept**2
    return Fields(design.Z @ w - ell * pull, np.sqrt(np.maximum(v, LEAST)), ell), omega * gamma
