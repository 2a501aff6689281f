r"""Where projected SGD of squares ends: the learned state and its risk.

One unit ends at :math:`m^2 = 1 - \Gamma\Delta/(2(1 - 6\Gamma))`. Several units end, with label noise, at a
symmetric state :math:`|m_j| = m`, :math:`|Q_{jl}| = q < 1`: units that coincide (q = 1) see the same noise,
and any difference between them grows at the rate :math:`8(1 - m^2)(1 - 4\Gamma) > 0`. With g = (1 + (p-1)q)/p
its equations are

.. math::
    m^2 = \frac{q g\,(1 - 4\Gamma(2g - q))}{1 + 4\Gamma(1 - 2g)}, \qquad
    2(1 - g) = 2 X + \Gamma\,(2\mathcal R + \Delta + 8 Y)

with R the excess risk and X, Y the diagonal of Omega A Omega and Omega A Omega A Omega.
"""

import math
from typing import Any

import numpy as np

from limitlab.analysis.exits.formulas import Plateau, plateau_of
from limitlab.analysis.exits.ode import flow
from limitlab.modules import Module, field
from limitlab.numerics.machine import relieve
from limitlab.problems.problem import Problem
from limitlab.text import Record
from limitlab.verbs import Watch, verb

__all__ = ["AsymptoticRisk", "asymptotic_risk"]

GRID = 4001  # values of q between which roots are looked for


class AsymptoticRisk(Record, Module):
    """The risk at the end (floor Delta/2 included); ``float(risk)`` is its ``value``.

    ``excess`` is value - Delta/2; ``overlap`` is |m_j|, ``mutual`` is |Q_jl|; ``learned`` is False on the
    plateau. All are NaN where no symmetric state is stable; ``note`` says what happens then.
    """

    value: float
    excess: float
    overlap: float
    mutual: float
    learned: bool
    note: str = field(static=True)

    def __float__(self) -> float:
        return self.value


@verb
def asymptotic_risk(problem: Problem, progress: Watch = None) -> AsymptoticRisk:
    r"""Risk of the full equations at long times, from a random start.

    .. math:: R = \frac\Delta2 + \frac{\Gamma\Delta}{1 - 6\Gamma} \quad (p = 1), \qquad \Gamma = \gamma/p

    For p >= 2 the same holds to first order in Gamma; the exact state is symmetric with q < 1 and its excess
    risk is lower (by 14 per cent at p = 8, Gamma = 0.1, Delta = 1). Needs the problem of `exit_time`, from
    any start.
    """
    relieve()
    plateau = plateau_of("asymptotic_risk", problem)
    p, Gamma, variance = plateau.width, plateau.Gamma, plateau.variance
    if plateau.growth <= 0:
        if p > 1 and 8 * Gamma >= p:
            return _nowhere(
                "The plateau m = 0 is stable in m but not in Q: the units collapse onto each other. Lower "
                "the learning rate."
            )
        return _state(plateau, 0.0, 0.0 if p > 1 else 1.0, "The plateau m = 0 is stable: nothing is learned.")
    if p == 1:
        alpha, beta = plateau.pull
        return _state(plateau, alpha / beta, 1.0, "")
    if variance == 0 and Gamma < 1 / 6:
        note = "Perfect learning. The excess risk falls as t^-2 only: differences between units hardly decay."
        return _state(plateau, 1.0, 1.0, note)
    for u, q in _symmetric_states(plateau):
        if _stable(plateau, math.sqrt(u), q):
            note = (
                ""
                if Gamma < 1 / 6
                else (
                    "Above gamma = p/6 the risk stays far from its noise floor, and this state is stable "
                    "but need not be the only one: which is reached depends on the start."
                )
            )
            return _state(plateau, u, q, note)
    return _nowhere(
        "No symmetric state is stable at this rate: the units part ways, and where they end depends on the "
        "start. Integrate OverlapODE to see, or lower the learning rate below p/6."
    )


def _state(plateau: Plateau, u: float, q: float, note: str) -> AsymptoticRisk:
    p = plateau.width
    excess = 1 + (1 + (p - 1) * q * q) / p - 2 * u
    excess = 0.0 if u == 1.0 and q == 1.0 else excess
    return AsymptoticRisk(plateau.variance / 2 + excess, excess, math.sqrt(u), q, u > 0, note)


def _nowhere(note: str) -> AsymptoticRisk:
    return AsymptoticRisk(math.nan, math.nan, math.nan, math.nan, False, note)


def _symmetric_states(plateau: Plateau) -> list[tuple[float, float]]:
    """(m^2, q), 0 < q < 1, of the symmetric fixed points, the most aligned first."""
    from scipy.optimize import brentq

    p, Gamma, variance = plateau.width, plateau.Gamma, plateau.variance

    def overlap(q: float) -> float:
        g = (1 + (p - 1) * q) / p
        return q * g * (1 - 4 * Gamma * (2 * g - q)) / (1 + 4 * Gamma * (1 - 2 * g))

    def residual(q: float) -> float:
        """The radial equation over (1 - q), which takes out the coinciding units when there is no noise."""
        g, u = (1 + (p - 1) * q) / p, overlap(q)
        norm, cross = (1 + (p - 1) * q * q) / p, q * (2 * g - q)  # (Q^2)_jj/p and (Q^2)_jl/p
        Y = u * (1 - g) - u * g + (norm + (p - 1) * q * cross) / p
        excess = 1 + norm - 2 * u
        return (2 * (u - norm) - 2 * (1 - g) + Gamma * (2 * excess + variance + 8 * Y)) / (1 - q)

    # Finer towards q = 1, where weakly noisy states are.
    grid = 1 - np.geomspace(1e-9, 1 - 1e-9, GRID)
    values = np.array([residual(q) for q in grid])
    found = []
    for i in np.nonzero(values[:-1] * values[1:] < 0)[0]:
        q: Any = brentq(residual, grid[i + 1], grid[i], xtol=1e-14)
        u = overlap(q)
        if 0 < u <= 1 and abs(residual(q)) < 1.0:  # a change of sign at a pole is no root
            found.append((u, q))
    return found


def _stable(plateau: Plateau, m: float, q: float) -> bool:
    """True if every small displacement decays.

    The symmetric state is invariant under permutations of the units, so that displacements fall into three
    families: common to all units, differences of units (v_j with sum 0, and v_j + v_l for Q), and what is
    left of Q. One representative of each suffices.
    """
    p = plateau.width
    off = 1 - np.eye(p)
    here_m, here_Q = np.full(p, m), np.eye(p) + q * off
    v = np.zeros(p)
    v[:2] = 1, -1
    families = [
        [(np.ones(p), np.zeros((p, p))), (np.zeros(p), off)],
        [(v, np.zeros((p, p)))] if p == 2 else [(v, np.zeros((p, p))), (np.zeros(p), (v[:, None] + v[None, :]) * off)],
    ]
    if p >= 4:
        rest = np.zeros((p, p))
        rest[0, 1] = rest[2, 3] = 1.0
        rest[0, 2] = rest[1, 3] = -1.0
        families.append([(np.zeros(p), rest + rest.T)])
    step = 1e-6
    for family in families:
        basis = np.stack([np.concatenate([dm, dQ.ravel()]) for dm, dQ in family], axis=1)
        moved = []
        for dm, dQ in family:
            ahead, behind = (flow(plateau, here_m + s * dm, here_Q + s * dQ) for s in (step, -step))
            moved.append(np.concatenate([(a - b).ravel() / (2 * step) for a, b in zip(ahead, behind, strict=True)]))
        block = np.linalg.lstsq(basis, np.stack(moved, axis=1), rcond=None)[0]
        if np.max(np.linalg.eigvals(block).real) >= 0:
            return False
    return True
