r"""Moments of the fields given the label, and given what is already known of them.

With a learned direction s = v.z and the others z_perp, everything follows from tables over the labels y,

.. math:: P(y|s), \qquad E[z_\perp 1_y | s], \qquad E[(z_\perp z_\perp^T - I) 1_y | s].

Labels are the few values of the link, bins of its real ones (finer and finer: what they tell grows towards the limit),
or a grid of noisy ones.
"""

import itertools
from typing import NamedTuple

import numpy as np

from limitlab.numerics.gauss.rules import sobol_points
from limitlab.problems.links.base import AbstractLink
from limitlab.problems.links.labels import FINE, levels, sign_only

__all__ = ["Slots", "Tables", "at_zero", "middles", "slots", "tables"]

REACH = 8.5
LINE = 2**20  # nodes of one real field
PLANE = 2000  # of an axis of two
GRADED = 5.0  # they are closer at 0, where products and moduli have their edges, by sinh(GRADED)/GRADED
CLOUD = 2**20  # of three
ACROSS = {1: 1200, 2: 100}  # of an axis of the fields that are averaged beside a learned one
EDGES = np.linspace(-6.6, 6.6, 67)  # panels of s, narrow enough for what is known of it
ORDER = 12
LADDER = 24  # edges of bins on either side of a value where the link turns, halving their distance
TAIL = 4.6  # bins end at these quantiles of a normal law


class Slots(NamedTuple):
    """Where values of a link go: the edges of bins, and what noise makes of the bins (labels, bins), or None.

    ``sides``: chance decides between two labels, and a value is their mean.
    """

    edges: np.ndarray
    smear: np.ndarray | None = None
    sides: tuple[float, float] | None = None

    @property
    def count(self) -> int:
        return len(self.edges) + 1

    def sums(self, values: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Sums (labels, F) of features (n, F) by the label of values (n,)."""
        if self.sides is None:
            place = np.searchsorted(self.edges, values)
            out = np.stack([np.bincount(place, column, self.count) for column in features.T], axis=1)
        else:
            up = (values - self.sides[0]) / (self.sides[1] - self.sides[0])
            out = np.stack([(1 - up) @ features, up @ features])
        return out if self.smear is None else self.smear @ out


def slots(link: AbstractLink, K: int, variance: float, bins: int) -> Slots:
    """Slots for the labels of a link; ``bins`` of real ones."""
    if link.sides is not None:
        ends = np.array(link.sides)
        return Slots(ends[:0], None if variance == 0 else _smeared(ends, variance), link.sides)
    few = levels(link, K)
    if few is not None:
        between = (few[1:] + few[:-1]) / 2
        return Slots(between, None if variance == 0 else _smeared(few, variance))
    v = np.sort(link.on_host(np.random.default_rng(5).normal(size=(2**18, K))))
    if variance == 0:
        from scipy.special import ndtr

        edges = np.quantile(v, ndtr(np.linspace(-TAIL, TAIL, bins - 1)))
        turns = _turns(link, K)
        ladder = np.ptp(edges) * 2.0 ** -np.arange(1, LADDER)
        near = [turn + sign * ladder for turn in turns for sign in (1, -1)]
        edges = np.unique(np.concatenate([edges, turns, *near]))
        return Slots(edges[np.append(True, np.diff(edges) > 1e-12 * np.ptp(edges))])
    sd = np.sqrt(variance)
    span = v[0] - 1e-9, v[-1] + 1e-9
    count = int(np.clip((span[1] - span[0]) / (0.03 * sd), 8, 4000))
    edges = np.linspace(*span, count)
    middle = np.concatenate([[edges[0]], (edges[1:] + edges[:-1]) / 2, [edges[-1]]])
    return Slots(edges, _smeared(middle, variance))


def _smeared(values: np.ndarray, variance: float) -> np.ndarray:
    """The law of labels on a grid (labels, values), noise being added to the values."""
    sd = np.sqrt(variance)
    y = np.arange(np.min(values) - 7 * sd, np.max(values) + 7 * sd, FINE * sd)
    return np.exp(-((y[:, None] - values) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance) * (y[1] - y[0])


def _turns(link: AbstractLink, K: int) -> np.ndarray:
    """Values where a link of one real field turns around or jumps: the density of labels changes sharply there."""
    signs = sign_only(link, K)
    real, patterned = ([k for k in range(K) if signs[k] == which] for which in (False, True))
    if len(real) != 1:
        return np.zeros(0)
    x, step = np.linspace(-REACH, REACH, 2**14, retstep=True)
    x, found = x + 0.37 * step, []  # off zero, where a sign has no value
    for pattern in itertools.product([1.0, -1.0], repeat=len(patterned)):
        z = np.empty((len(x), K))
        z[:, real[0]], z[:, patterned] = x, pattern
        y = link.on_host(z)
        slope = np.diff(y)
        smooth = np.abs(slope[1:]) < 50 * np.abs(slope[:-1])
        at = np.nonzero((slope[1:] * slope[:-1] < 0) & smooth)[0] + 1
        bend = y[at - 1] - 2 * y[at] + y[at + 1]
        found.append(y[at] - (y[at + 1] - y[at - 1]) ** 2 / (8 * bend))  # the vertex of a parabola
        steep = np.abs(slope[1:-1]) > 50 * (np.abs(slope[2:]) + np.abs(slope[:-2])) + 1e-9
        jump = np.nonzero(steep)[0] + 1
        found += [y[jump], y[jump + 1]]
    flat = np.sort(np.concatenate(found))
    return flat[np.append(True, np.diff(flat) > 1e-6)] if len(flat) else flat


def at_zero(
    link: AbstractLink, K: int, where: Slots, seed: int = 0, share: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P_y (L,), E[z 1_y] (L, K), E[(zz^T - I) 1_y] (L, K, K): nothing is known yet.

    Fields of which only the sign counts are summed exactly, up to three others are integrated, with a ``share`` of
    the nodes of an axis.
    """
    signs = sign_only(link, K)
    real, patterned = ([k for k in range(K) if signs[k] == which] for which in (False, True))
    u, p = _nodes(len(real), seed, share)
    P, first, second = 0.0, 0.0, 0.0
    mean = np.sqrt(2 / np.pi)
    for pattern in itertools.product([1.0, -1.0], repeat=len(patterned)):
        z = np.empty((len(u), K))
        z[:, real], z[:, patterned] = u, pattern
        y = link.on_host(z)
        z[:, patterned] = mean * np.array(pattern)  # their means; their squares are 1 on either side
        both = z[:, :, None] * z[:, None, :]
        both[:, patterned, patterned] = 1.0
        features = np.concatenate([np.ones((len(u), 1)), z, (both - np.eye(K)).reshape(len(u), -1)], axis=1)
        out = where.sums(y, features * p[:, None]) / 2 ** len(patterned)
        P, first, second = P + out[:, 0], first + out[:, 1 : K + 1], second + out[:, K + 1 :].reshape(-1, K, K)
    return np.asarray(P), np.asarray(first), np.asarray(second)


def _nodes(real: int, seed: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    if real == 0:
        return np.zeros((1, 0)), np.ones(1)
    if real > 2:
        from scipy.special import ndtri

        u = ndtri(sobol_points(real, CLOUD if share == 1 else CLOUD // 4, np.random.default_rng([share < 1, seed])))
        return u, np.full(len(u), 1 / len(u))
    if real == 1:
        u, p = middles(REACH, int(LINE * share))
        return u[:, None], p
    x, dx = middles(1.0, int(PLANE * share), flat=True)
    middle = REACH * np.sinh(GRADED * x) / np.sinh(GRADED)
    p = dx * np.cosh(GRADED * x) * np.exp(-(middle**2) / 2)
    p = p / p.sum()
    u = np.stack([x.ravel() for x in np.meshgrid(middle, middle, indexing="ij")], axis=1)
    weight = np.outer(p, p).ravel()
    keep = weight > 1e-14
    return u[keep], weight[keep]


def middles(reach: float, count: int, flat: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The middles of ``count`` equal cells of (-reach, reach), 0 not being one, with normal or ``flat`` weights."""
    count += count % 2
    x = reach * (2 * np.arange(count) + 1 - count) / count
    p = np.ones(count) if flat else np.exp(-(x**2) / 2)
    return x, p / p.sum()


class Tables(NamedTuple):
    """Nodes s with N(s) ds; P (n, L), first (n, L, k), second (n, L, k, k) moments of the k other directions."""

    s: np.ndarray
    ds: np.ndarray
    P: np.ndarray
    first: np.ndarray
    second: np.ndarray


def tables(link: AbstractLink, K: int, where: Slots, v: np.ndarray, others: np.ndarray, share: float = 1.0) -> Tables:
    """What labels tell beside s = v.z, ``others`` (k, K) being an orthonormal basis of the rest.

    Of an axis of fields that are integrated it takes a ``share`` of the nodes.
    """
    x, dx = np.polynomial.legendre.leggauss(ORDER)
    middle, half = (EDGES[1:] + EDGES[:-1]) / 2, np.diff(EDGES) / 2
    s, ds = (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * dx).ravel()
    signs, k = sign_only(link, K), len(others)
    if k == 1 and all(signs):
        parts = [_pieces(link, where, at, v, others[0]) for at in s]
    elif np.sum(np.abs(v) > 1e-9) == 1 and all(signs[j] for j in range(K) if abs(v[j]) < 1e-9):
        parts = [_patterned(link, where, at, v, others) for at in s]
    else:
        axis, _ = middles(6.5, int(ACROSS[k] * share))
        t = np.array(list(itertools.product(axis, repeat=k)))
        p = np.exp(-np.sum(t**2, axis=1) / 2)
        t, p = t[p > 1e-9], p[p > 1e-9] / p[p > 1e-9].sum()
        parts = [where.sums(link.on_host(at * v + t @ others), _features(t) * p[:, None]) for at in s]
    out = np.stack(parts)
    return Tables(s, ds, out[..., 0], out[..., 1 : k + 1], out[..., k + 1 :].reshape(*out.shape[:2], k, k))


def _features(t: np.ndarray) -> np.ndarray:
    k = t.shape[1]
    second = (t[:, :, None] * t[:, None, :] - np.eye(k)).reshape(len(t), -1)
    return np.concatenate([np.ones((len(t), 1)), t, second], axis=1)


def _pieces(link: AbstractLink, where: Slots, s: float, v: np.ndarray, other: np.ndarray) -> np.ndarray:
    """One other direction, signs only: intervals between the places where a field changes its sign, exactly."""
    from scipy.special import ndtr

    turns = [-s * a / b for a, b in zip(v, other, strict=True) if abs(b) > 1e-9]
    cuts = np.sort(np.clip(turns, -12, 12))
    low, high = np.append(-12.0, cuts), np.append(cuts, 12.0)
    density = [np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) for x in (low, high)]
    features = np.stack([ndtr(high) - ndtr(low), density[0] - density[1], low * density[0] - high * density[1]], axis=1)
    return where.sums(link.on_host(s * v + ((low + high) / 2)[:, None] * other), features)


def _patterned(link: AbstractLink, where: Slots, s: float, v: np.ndarray, others: np.ndarray) -> np.ndarray:
    """One field is known, and of all others only the signs count: sums over these, exactly."""
    k = len(others)
    patterns = np.array(list(itertools.product([1.0, -1.0], repeat=k)))
    mean = np.sqrt(2 / np.pi) * patterns
    second = mean[:, :, None] * mean[:, None, :] - np.eye(k)
    second[:, range(k), range(k)] = 0.0
    features = np.concatenate([np.ones((len(mean), 1)), mean, second.reshape(len(mean), -1)], axis=1)
    return where.sums(link.on_host(s * v + patterns @ others), features / 2**k)
