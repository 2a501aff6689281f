r"""The best law of norms for an isotropic mixture, and up to which delta it is a single sphere.

.. math:: \min_\rho \tfrac12 E(y - f_\rho)^2, \qquad f_\rho = \int \sigma_{r|x|}\,\rho(dr)

is the least distance of y from the convex hull of the curve :math:`r \mapsto \sigma_{r|x|}`, closed by its point at
r = infinity if sigma is bounded: a convex program.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from limitlab.analysis.mixtures.measures import Measure, Potentials, least, potentials, radii, refine
from limitlab.errors import ConvergenceError, InputError
from limitlab.numerics.checks import check_number
from limitlab.numerics.machine import relieve
from limitlab.problems.problem import Problem, replaced
from limitlab.text import html_record
from limitlab.verbs import Watch, verb

__all__ = ["CriticalDelta", "GlobalMinimum", "critical_delta", "global_minimum"]

ROUNDS = 60
COARSE = 161  # radii of the first hull
TINY = 1e-7  # atoms of less weight are dropped when neighbours are joined


class GlobalMinimum(NamedTuple):
    """The least risk, the law that has it (radius math.inf: not attained), and a proven bound on what is missed."""

    risk: float
    law: Measure
    gap: float

    _repr_html_ = html_record

    @property
    def at_infinity(self) -> float:
        """Mass at r = infinity."""
        return float(np.sum(self.law.weight[np.isinf(self.law.r)]))


class CriticalDelta(NamedTuple):
    """Up to ``delta`` a single sphere (there of norm ``radius``) is the global minimum; above it loses to ``rival``."""

    delta: float
    radius: float
    rival: float

    _repr_html_ = html_record


@verb
def global_minimum(
    problem: Problem, d: float = math.inf, tolerance: float = 1e-10, progress: Watch = None
) -> GlobalMinimum:
    """Minimise the risk over all laws of norms, an atom at infinity included.

    Points of the hull are added where Psi is least until no law can be better by more than ``tolerance``, which is a
    proof (`OptimalityGap`).
    """
    relieve()
    check_number("global_minimum", "tolerance", tolerance, low=1e-14, remedy="Use 1e-10.")
    p = potentials(problem, d)
    if p.decay:
        raise InputError("global_minimum needs weight_decay=0; got a decay. Follow RadialFlow to its rest instead.")
    if p.far is None:
        raise InputError(
            f"global_minimum needs a bounded activation; got {p.activation!r}. Of unbounded ones ever "
            "fewer and longer units may be ever better, and no law need be the best."
        )
    grid = radii(p, COARSE)
    atoms, weight = grid, _nearest(p, grid)
    gap = math.inf
    for _ in range(ROUNDS):
        atoms, weight = atoms[weight > 0], weight[weight > 0]
        gap, place, error = _gap(p, atoms, weight)
        if gap <= tolerance:
            break
        atoms = np.unique(np.concatenate([atoms, [place], _slid(p, atoms, error)]))
        weight = _nearest(p, atoms)
    else:
        raise ConvergenceError(
            f"global_minimum did not reach the tolerance {tolerance:g}: laws better by {gap:.1e} may exist. Use a "
            "larger tolerance."
        )
    neat = _joined(atoms, weight).r
    share = _nearest(p, neat)
    if _gap(p, neat, share)[0] <= max(tolerance, gap):
        atoms, weight, gap = neat[share > 0], share[share > 0], _gap(p, neat, share)[0]
    return GlobalMinimum(p.risk((atoms, weight)), Measure(atoms, weight), gap)


def _gap(p: Potentials, atoms: np.ndarray, weight: np.ndarray) -> tuple[float, float, np.ndarray]:
    """By how much a law can be better at most, the norm at which to look for it, and the weighted error."""
    f = weight @ p.units(atoms)
    error = p.weights * (p.labels - f)
    lowest, place = least(p, error)
    return float(-(f @ error)) - lowest, place, error


def _nearest(p: Potentials, atoms: np.ndarray) -> np.ndarray:
    """Weights of the point of the hull of the atoms that is nearest to y.

    With all points measured from y this is the point of least norm, and non-negative least squares for the system
    (points; ones) w = (0; 1) finds a multiple of it.
    """
    from scipy.optimize import nnls

    points = (p.units(atoms) - p.labels) * np.sqrt(p.weights)
    weight, _ = nnls(np.concatenate([points.T, np.ones((1, len(atoms)))]), np.append(np.zeros(points.shape[1]), 1.0))
    return weight / weight.sum()


def _slid(p: Potentials, atoms: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Each finite atom moved to the nearby minimum of Psi."""
    inner = atoms[np.isfinite(atoms) & (atoms > 0)]
    return np.array([refine(lambda x: float(-(p.units(x) @ error)[0]), 0.97 * r, 1.03 * r)[0] for r in inner])


def _joined(atoms: np.ndarray, weight: np.ndarray) -> Measure:
    """Atoms closer than the grid of the search are one; those without weight are none."""
    r, w = [], []
    for radius, share in zip(atoms, weight, strict=True):
        if r and np.isfinite(radius) and radius - r[-1] <= 0.02 * radius:
            r[-1], w[-1] = (r[-1] * w[-1] + radius * share) / (w[-1] + share), w[-1] + share
        else:
            r.append(float(radius))
            w.append(float(share))
    r, w = np.array(r), np.array(w)
    keep = w > TINY
    return Measure(r[keep], w[keep] / w[keep].sum())


def _single_sphere(p: Potentials) -> float:
    """The norm of the best single sphere."""

    def cost(r):
        return np.square(p.units(r) - p.labels) @ p.weights

    grid = radii(p)
    grid = grid[np.isfinite(grid)]
    i = int(np.clip(np.argmin(cost(grid)), 1, len(grid) - 2))
    return refine(lambda r: float(cost(r)[0]), grid[i - 1], grid[i + 1])[0]


def _margin(p: Potentials) -> tuple[float, float, float]:
    """min over r of (Psi(r) - Psi(r*)) over the squared distance from r*: positive if the sphere r* is optimal."""
    best = _single_sphere(p)
    error = p.weights * (p.labels - p.units(best)[0])
    grid = radii(p, 4001)
    u = np.where(np.isinf(grid), 1.0, grid / (2 + np.where(np.isinf(grid), 0.0, grid)))
    distance = np.square(u - best / (2 + best))
    away = distance > 1e-5  # nearer, rounding would be divided by nothing; the limit is the curvature there
    ratio = (-(p.units(grid) @ error) + float((p.units(best) @ error)[0]))[away] / distance[away]
    i = int(np.argmin(ratio))
    return float(ratio[i]), best, float(grid[away][i])


@verb
def critical_delta(problem: Problem, d: float = math.inf, progress: Watch = None) -> CriticalDelta:
    """The largest delta at which a single sphere is the global minimum of the isotropic problem.

    The delta of ``problem`` itself does not matter. At infinite d and above it the risk can be 0; at finite d and above
    it the minimum has mass elsewhere, usually at infinity.
    """
    relieve()
    from scipy.optimize import brentq

    def at(delta: float) -> tuple[float, float, float]:
        return _margin(potentials(replaced(problem, {"inputs.delta": float(delta)}), d))

    deltas = np.linspace(0.04, 0.96, 24)
    low = None
    for delta in deltas:
        if at(delta)[0] > 0:
            low = delta
        elif low is not None:
            root: Any = brentq(lambda x: at(x)[0], low, delta, xtol=1e-12)
            _, radius, rival = at(root)
            return CriticalDelta(root, radius, rival)
    state = "optimal at every delta" if low is not None else "optimal at no delta"
    raise ConvergenceError(
        f"critical_delta found no change: a single sphere is {state} in [{deltas[0]}, {deltas[-1]}]."
    )
