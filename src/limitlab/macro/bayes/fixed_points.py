r"""All fixed points of Bayes-optimal state evolution at once, as one curve.

A fixed point at sample ratio alpha solves :math:`A = \alpha E g^2(m, V)` with :math:`m = m_w(A), V = V_w(A)`. Read the
other way round, every A > 0 is the fixed point of exactly one sample ratio,

.. math:: \alpha(A) = A / E g^2(m_w(A), V_w(A)), \qquad
          f(A) = \Phi_w(A) - \tfrac12 m A + \alpha(A)\, \Phi_{out}(m),

so that no iteration is needed, not even at a spinodal, where alpha(A) is merely stationary. Where alpha rises with A
the fixed point is stable (a maximum of the free entropy), where it falls it is not.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import ConvergenceError
from limitlab.modules import filter_jit
from limitlab.numerics.roots import illinois
from limitlab.numerics.trees import traced
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.priors import AbstractPrior
from limitlab.text import html_record

__all__ = [
    "Curve",
    "Points",
    "FixedPoint",
    "amp_state",
    "bayes_states",
    "curve",
    "points",
    "stable_states",
]

CHUNK = 64
GRID = ((-10, -3, 3), (-3, 6, 20), (6, 14, 3))  # decades of A rho, and nodes per decade there
HEAVY_GRID = ((-10, -3, 1), (-3, 6, 8), (6, 14, 1))  # for channels whose integrals are slow
V_FLOOR = 1e-26


class Points(NamedTuple):
    """Fixed points: signal A, overlap m, error V, sample ratio alpha, and the two parts of the free entropy."""

    A: np.ndarray
    m: np.ndarray
    V: np.ndarray
    alpha: np.ndarray
    prior_part: np.ndarray  # Phi_w - m A / 2
    phi_out: np.ndarray

    _repr_html_ = html_record

    @property
    def free_entropy(self) -> np.ndarray:
        return self.prior_part + self.alpha * self.phi_out


class FixedPoint(NamedTuple):
    """One fixed point at one sample ratio; ``kind`` is "zero" (nothing learned), "partial" or "perfect"."""

    A: float
    m: float
    V: float
    free_entropy: float
    kind: str


@filter_jit
def _chunk(prior: AbstractPrior, channel: AbstractChannel, A: jax.Array | np.ndarray):
    def one(A):
        m, V, phi_w = prior.bayes(A)
        info = channel.bayes(m, jnp.maximum(V, V_FLOOR))
        return m, V, A / info.g2, phi_w - m * A / 2, info.phi

    return jax.lax.map(one, A, batch_size=channel.batch)


@functools.lru_cache(maxsize=64)
def _live(prior: AbstractPrior, channel: AbstractChannel) -> tuple[AbstractPrior, AbstractChannel]:
    return traced(prior), traced(channel)


def points(prior: AbstractPrior, channel: AbstractChannel, A: np.ndarray) -> Points:
    """The fixed points at the given signals A > 0."""
    A = np.atleast_1d(np.asarray(A, float))
    # Few shapes, so few compilations: some points, a curve at given ratios, the whole grid.
    chunk = 8 if channel.heavy or len(A) <= 8 else CHUNK if len(A) <= CHUNK else 4 * CHUNK
    padded = np.concatenate([A, np.full(-len(A) % chunk, A[-1])])
    prior, channel = _live(prior, channel)
    parts = [_chunk(prior, channel, part) for part in padded.reshape(-1, chunk)]
    values = [np.concatenate([np.asarray(part[i]) for part in parts])[: len(A)] for i in range(5)]
    return Points(A, *values)


class Curve(NamedTuple):
    """The curve alpha(A) on a grid that contains its extrema, and what happens at its two ends."""

    prior: AbstractPrior
    channel: AbstractChannel
    at: Points
    maxima: np.ndarray  # positions in the grid, interior
    minima: np.ndarray
    weak_recovery: float  # alpha(0): 0 unless the channel is even
    perfect_from: float  # perfect recovery is a fixed point above this sample ratio; inf if never
    perfect_phi: float  # Phi_out at perfect recovery (finite for discrete labels)
    zero_phi: float  # Phi_out at m = 0
    rough: bool  # what lies between its points is interpolated, not solved for


@functools.lru_cache(maxsize=256)
def curve(prior: AbstractPrior, channel: AbstractChannel, rough: bool = False) -> Curve:
    """Compute the curve of a prior and a channel (kept: asking again costs nothing).

    A ``rough`` one costs the integrals of its grid and no more: extrema are the vertices of parabolas.
    """
    rho = float(prior.second_moment)
    grid = HEAVY_GRID if channel.heavy or rough else GRID
    A = np.concatenate([np.logspace(a, b, (b - a) * n, endpoint=False) for a, b, n in grid])
    at = points(prior, channel, A / rho)
    zero_phi, perfect_phi, slope, sharp = _ends(prior, channel)
    keep = ((at.V > 10 * V_FLOOR) | (not sharp)) & np.isfinite(at.alpha)  # E g^2 without bound: V matters to the end
    at = Points(*(x[keep] for x in at))
    at = _with_vertices(at) if rough else _with_extrema(prior, channel, at)
    if channel.noiseless_rate > 0:
        perfect = float(prior.dimension) / channel.noiseless_rate
    else:
        # With noise on real labels E g^2 stays finite as V -> 0, and so does A: the truth is no fixed point.
        perfect = 0.0 if prior.dimension == 0 and sharp and channel.labels == "binary" else np.inf
    rise = np.diff(at.alpha)
    maxima = np.nonzero((rise[:-1] > 0) & (rise[1:] < 0))[0] + 1
    minima = np.nonzero((rise[:-1] < 0) & (rise[1:] > 0))[0] + 1
    weak = 1 / (rho**2 * slope) if channel.even else 0.0
    return Curve(prior, channel, at, *_real(at.alpha, maxima, minima), weak, perfect, perfect_phi, zero_phi, rough)


def _real(alpha, maxima, minima):
    """Drop ripples of rounding: a maximum must rise 1e-9 above its neighbouring minima."""
    tops = []
    for top in maxima:
        after = minima[minima > top]
        before = minima[minima < top]
        floor_after = alpha[after[0]] if len(after) else alpha[-1]
        floor_before = alpha[before[-1]] if len(before) else alpha[0]
        if alpha[top] - max(floor_after, floor_before) > 1e-9 * alpha[top]:
            tops.append(top)
    lows = []
    for left, right in zip([0, *tops], [*tops, len(alpha) - 1], strict=True):
        if right > left:
            bottom = left + int(np.argmin(alpha[left : right + 1]))
            if left < bottom < right or (left in tops and bottom < len(alpha) - 1 and bottom != left):
                lows.append(bottom)
    return np.asarray(tops, int), np.asarray(lows, int)


def _with_vertices(at: Points) -> Points:
    """Add the vertices of parabolas through three neighbours of which the middle one is an extremum, in logarithms."""
    x, y = np.log(at.A), np.log(at.alpha)
    found = [at]
    for t in np.nonzero(np.diff(y)[:-1] * np.diff(y)[1:] < 0)[0] + 1:
        bend, slope, _ = np.polyfit(x[t - 1 : t + 2] - x[t], y[t - 1 : t + 2] - y[t], 2)
        place = x[t] - slope / (2 * bend)
        if place != x[t] and x[t - 1] < place < x[t + 1]:
            found.append(_between(at, np.array([place]), np.exp([y[t] - slope**2 / (4 * bend)])))
    new = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    order = np.argsort(new[0])
    return Points(*(part[order] for part in new))


def _with_extrema(prior, channel, at: Points) -> Points:
    """Add the exact places of the interior extrema to the grid, by zooming in on them."""
    rise = np.sign(np.diff(at.alpha))
    turns = np.nonzero(rise[:-1] * rise[1:] < 0)[0] + 1
    turns = [t for t in turns if abs(at.alpha[t] - at.alpha[t - 1]) > 1e-11 * at.alpha[t]][:8]
    for t in reversed(turns):  # from the right, so that places to the left keep their numbers
        sign = rise[t - 1]
        left, right = np.log(at.A[t - 1]), np.log(at.A[t + 1])
        width = 8 if channel.heavy else CHUNK  # zooming, not golden section: a compiled row costs as much as a point
        for _ in range(12 if channel.heavy else 5):
            x = np.linspace(left, right, width)
            fine = points(prior, channel, np.exp(x))
            best = int(np.argmax(sign * fine.alpha))
            left, right = x[max(best - 1, 0)], x[min(best + 1, width - 1)]
            if right - left < 1e-7:
                break
        new = Points(*(np.append(x, y[best]) for x, y in zip(at, fine, strict=True)))
        order = np.unique(new.A, return_index=True)[1]
        at = Points(*(x[order] for x in new))
    return at


@filter_jit
def _end_values(prior: AbstractPrior, channel: AbstractChannel, even: bool):
    rho = jnp.asarray(prior.second_moment, float)
    zero, tiny = jnp.zeros(()), jnp.asarray(V_FLOOR)
    slope = jnp.inf
    if even:  # the slope of the start, where m = 0 is a fixed point
        law = channel.even_law(zero, jnp.ones(()), rho, rho)
        slope = law.mean(jnp.square(channel.output(law.y, jnp.zeros_like(law.w), rho).dg))
    start, end = channel.bayes(zero, rho), channel.bayes(rho, tiny)
    near, nearer = channel.bayes(rho, 1e-8 * rho), channel.bayes(rho, 1e-12 * rho)
    return start.phi, end.phi, slope, nearer.g2 / near.g2


def _ends(prior, channel) -> tuple[float, float, float, bool]:
    zero_phi, perfect_phi, slope, growth = (float(x) for x in _end_values(*_live(prior, channel), bool(channel.even)))
    return zero_phi, perfect_phi, slope, growth > 10  # E g^2 grows without bound as V -> 0


# --- fixed points at a given sample ratio ------------------------------------------------------------------


def crossings(line: Curve, alphas: np.ndarray) -> list[list[tuple[float, float, float, float]]]:
    """For every sample ratio the brackets in which alpha(A) crosses it upwards: both ends of A, and alpha there."""
    a, A = line.at.alpha, line.at.A
    out = []
    for alpha in alphas:
        i = np.nonzero((a[:-1] <= alpha) & (a[1:] > alpha))[0]
        found = [(A[j], A[j + 1], a[j], a[j + 1]) for j in i]
        if not line.channel.even and a[0] > alpha:  # below the grid, where A is proportional to alpha
            found.insert(0, (A[0] * 1e-12, A[0], a[0] * 1e-12, a[0]))
        out.append(found)
    return out


def _refine(line: Curve, low, high, alpha_low, alpha_high, target) -> Points:
    """Solve alpha(A) = target in the brackets, all at once (bracketed secant steps in log A)."""
    if line.rough:
        share = np.log(target / alpha_low) / np.log(alpha_high / alpha_low)
        return _between(line.at, np.log(low) + share * np.log(high / low), target)

    def at(x):
        found = points(line.prior, line.channel, np.exp(x))
        return np.log(found.alpha / target), found

    return illinois(at, (np.log(low), np.log(high)), (np.log(alpha_low / target), np.log(alpha_high / target)))[1]


def _between(at: Points, x: np.ndarray, alpha: np.ndarray) -> Points:
    """The points at log A = x, from their neighbours on the curve; small numbers by their logarithms."""
    nodes = np.log(at.A)
    m, V = (np.exp(np.interp(x, nodes, np.log(np.maximum(y, 1e-300)))) for y in (at.m, at.V))
    m = np.where(V < m, at.m[0] + at.V[0] - V, m)  # both add up to E w^2: the larger from the smaller
    V = np.where(V < m, V, at.m[0] + at.V[0] - m)
    return Points(np.exp(x), m, V, alpha, *(np.interp(x, nodes, y) for y in (at.prior_part, at.phi_out)))


def stable_states(line: Curve, alphas: np.ndarray) -> list[list[FixedPoint]]:
    """Every stable fixed point at each sample ratio, from the least informed to perfect recovery."""
    alphas = np.atleast_1d(np.asarray(alphas, float))
    brackets = crossings(line, alphas)
    flat = [(*bracket, alpha) for alpha, found in zip(alphas, brackets, strict=True) for bracket in found]
    at = _refine(line, *(np.array(x) for x in zip(*flat, strict=True))) if flat else None
    solved = [] if at is None else list(zip(at.A, at.m, at.V, at.prior_part, at.phi_out, strict=True))
    out, k = [], 0
    for alpha, found in zip(alphas, brackets, strict=True):
        states = []
        if line.channel.even and alpha <= line.weak_recovery:
            states.append(FixedPoint(0.0, 0.0, float(line.prior.second_moment), alpha * line.zero_phi, "zero"))
        for A, m, V, prior_part, phi_out in solved[k : k + len(found)]:
            states.append(FixedPoint(A, m, V, prior_part + alpha * phi_out, "partial"))
        k += len(found)
        if alpha > line.perfect_from or (not states and alpha > line.at.alpha[-1]):
            if not (line.channel.noiseless_rate > 0 or line.prior.dimension == 0):
                raise ConvergenceError(
                    f"No fixed point was found at sample_ratio = {alpha:g}: the curve of fixed points of {line.prior} "
                    f"and {line.channel} ends at {line.at.alpha[-1]:.3g}. Use a smaller sample ratio."
                )
            f = np.inf if line.channel.noiseless_rate > 0 else alpha * line.perfect_phi - line.prior.entropy
            states.append(FixedPoint(np.inf, float(line.prior.second_moment), 0.0, f, "perfect"))
        if not states:  # alpha_WR itself, to rounding
            states.append(FixedPoint(0.0, 0.0, float(line.prior.second_moment), alpha * line.zero_phi, "zero"))
        out.append(states)
    return out


def amp_state(states: list[FixedPoint]) -> FixedPoint:
    """Where message passing ends when it starts from nothing."""
    return states[0]


def bayes_states(line: Curve, alphas: np.ndarray) -> list[FixedPoint]:
    """The fixed point of largest free entropy: what the best estimator reaches."""
    return [max(states, key=lambda s: s.free_entropy) for states in stable_states(line, alphas)]
