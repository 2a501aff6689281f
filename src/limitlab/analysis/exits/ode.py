r"""Exit times of the overlap equations themselves, from many random starts at once.

For squares on the sphere (a = 1, one teacher) the state is (m_j, Q_jl) and the equations of
`macro.overlap_ode.drift` are polynomials. They are written here once more on plain arrays with a leading axis
of starts: without compilation, a few dozen starts leave their plateau in a fraction of a second. The tests
hold the two to each other.
"""

import math
from typing import NamedTuple

import numpy as np

from limitlab.analysis.exits.averages import Average, random_starts, start_numbers
from limitlab.analysis.exits.formulas import Plateau
from limitlab.errors import ConvergenceError
from limitlab.numerics.roots import bisect

__all__ = ["Exits", "excess_risk", "flow", "ode_exit", "ode_exits"]

NODES = 16  # the interpolant of a step has degree 7 and the risk is quadratic in it: degree 14
CHUNK = 128  # starts integrated together
STILL = 1e-10  # speed at which a state counts as a fixed point


class Exits(NamedTuple):
    """Exit time of each start (infinite if never reached), its linearised value, and how long was waited."""

    times: np.ndarray
    linear: np.ndarray
    waited: float

    @property
    def fraction(self) -> float:
        return float(np.mean(np.isfinite(self.times)))


def flow(plateau: Plateau, m: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Time derivatives of m (..., p) and Q (..., p, p) with unit diagonal."""
    p = plateau.width
    X = m[..., :, None] * m[..., None, :] - Q @ Q / p  # students' block of Omega A Omega
    x = m - np.einsum("...jl,...l->...j", Q, m) / p  # its column of the teacher
    spread = 2 * excess_risk(m, Q) + plateau.variance
    H = spread[..., None, None] * Q + 8 * (x[..., :, None] * m[..., None, :] - X @ Q / p)
    push = 8 * X + 4 * plateau.Gamma * H
    radial = np.einsum("...jj->...j", push) / 2
    dQ = push - Q * (radial[..., :, None] + radial[..., None, :])
    # Zero by construction; left to rounding, errors of the norms would grow where the radial push is inwards.
    return 4 * x - m * radial, np.where(np.eye(p, dtype=bool), 0.0, dQ)


def excess_risk(m: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """R - Delta/2 = 1 + sum Q_jl^2/p^2 - 2 sum m_j^2/p."""
    p = m.shape[-1]
    return 1 + np.sum(Q**2, axis=(-2, -1)) / p**2 - 2 * np.sum(m**2, axis=-1) / p


def ode_exits(plateau: Plateau, d: float, T: float, starts: int, seed: int, factor: float = 1.0) -> Exits:
    """Integrate from ``starts`` random starts, their overlaps m_j multiplied by sqrt(factor)."""
    p = plateau.width
    m, Q = random_starts(p, d, starts, np.random.default_rng(seed))
    target = (1 - T) * excess_risk(m, Q)
    needed = math.log(max((p + 1) * (T * d + 1) / (2 * p), 2.0))
    # Ten times the linearised time, and room for the slow end, where the excess risk falls as t^-2 only.
    wait = 50 + 20 / math.sqrt(1 - T) + (10 * needed / plateau.growth if plateau.growth > 0 else 0.0)
    times, waited = np.empty(starts), 0.0
    for first in range(0, starts, CHUNK):
        some = slice(first, first + CHUNK)
        times[some], end = _crossings(plateau, m[some] * math.sqrt(factor), Q[some], target[some], wait)
        waited = max(waited, end)
    mu, tau = start_numbers(m, Q, d)
    with np.errstate(invalid="ignore", divide="ignore"):  # outside the formula's domain the control is NaN
        linear = np.log((T * p * (p + 1) * d + (2 * p * mu - tau) * (1 - T)) / (2 * p * mu)) / plateau.growth
    return Exits(times, linear, waited)


def ode_exit(exits: Exits, quenched: float) -> Average:
    """Mean exit time; each start's linearised time, of known mean ``quenched``, is a control variate."""
    reached = np.isfinite(exits.times)
    if not np.any(reached):
        return Average(math.inf, 0.0, 0.0)
    if np.all(reached) and np.all(np.isfinite(exits.linear)) and math.isfinite(quenched):
        values, shift = exits.times - exits.linear, quenched
    else:
        values, shift = exits.times[reached], 0.0
    stderr = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return Average(float(values.mean()) + shift, stderr, exits.fraction)


def _crossings(
    plateau: Plateau, m: np.ndarray, Q: np.ndarray, target: np.ndarray, wait: float
) -> tuple[np.ndarray, float]:
    """When each start's excess risk first is at its target (infinite: never), and when the last run ended.

    A run ends when it crosses, when everything stands still, when two units coincide (|Q_jl| = 1, a collapse
    from which the equations do not come back), or at ``wait``.
    """
    # Not `integrate`: runs end one by one inside a step, where its interpolant is read, and nothing is compiled.
    from scipy.integrate import DOP853

    n, p = m.shape
    going = excess_risk(m, Q) > target
    times = np.where(going, np.inf, 0.0)
    off = ~np.eye(p, dtype=bool)

    def split(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return y[..., : n * p].reshape(*y.shape[:-1], n, p), y[..., n * p :].reshape(*y.shape[:-1], n, p, p)

    def rhs(t: float, y: np.ndarray) -> np.ndarray:
        dm, dQ = flow(plateau, *split(y))
        return np.concatenate([(going[:, None] * dm).ravel(), (going[:, None, None] * dQ).ravel()])

    solver = DOP853(rhs, 0.0, np.concatenate([m.ravel(), Q.ravel()]), wait, rtol=1e-8, atol=1e-10)
    nodes = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    while solver.status == "running" and np.any(going):
        message = solver.step()
        if solver.status == "failed":
            raise ConvergenceError(f"The exit-time integration failed at t = {solver.t:g}: {message}", times)
        now = split(solver.y)
        crossed = going & (excess_risk(*now) <= target)
        if np.any(crossed):
            assert solver.t_old is not None
            middle, half = (solver.t + solver.t_old) / 2, (solver.t - solver.t_old) / 2
            inside = split(solver.dense_output()(middle + half * nodes).T)
            gap = excess_risk(*inside)[:, crossed] - target[crossed]
            times[crossed] = middle + half * _roots(np.polynomial.chebyshev.chebfit(nodes, gap, NODES - 1))
        collapsed = np.max(np.abs(now[1]), axis=(1, 2), where=off, initial=0.0) >= 1
        going &= ~crossed & ~collapsed
        solver.f = rhs(solver.t, solver.y)  # the next step starts from it: runs that ended must stand still there
        if np.max(np.abs(solver.f)) < STILL:
            break
    return times, float(solver.t)


def _roots(coefficients: np.ndarray) -> np.ndarray:
    """Where each falling Chebyshev series (columns) crosses zero in [-1, 1], by bisection."""
    ends = np.ones(coefficients.shape[1])
    low, high = bisect(lambda x: np.polynomial.chebyshev.chebval(x, coefficients, tensor=False) > 0, -ends, ends, 50)
    return (low + high) / 2
