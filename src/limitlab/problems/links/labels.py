r"""The law of a label given the fields: what a link, chance and additive noise make of them.

.. math:: P(y | z) = N(y; g(z), \Delta), \qquad \text{or } 1[y = g(z)] \text{ without noise}

Labels without noise must be few; real ones are told by the bin they fall in. Where chance decides between two labels,
g is their mean, and noise is added to the one that it was.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from limitlab.errors import InputError
from limitlab.problems.links.base import AbstractLink
from limitlab.problems.links.named import Majority, SignSum
from limitlab.problems.links.seen import SeenLink

__all__ = ["FINE", "Labels", "labels_of", "levels", "parity", "real_valued", "sign_only"]

POINTS = 4096
FEW = 65  # values of a link that counts as discrete
STEP = {1: 0.4}  # of a grid of noisy labels, in units of the noise
COARSE = 0.7  # the same for more than one field
JUMPS = 0.4  # the same if of some fields only the signs count
REACH = 7.5  # standard deviations of the noise beyond the extremes of the link
FAR = {1: 6.8}
NEAR = 5.5  # fields of this size are as far as labels are looked for
MOST = 4000  # points of such a grid
FINE = 0.25  # the step where values are few, in units of the noise: see `labels_of`


class Labels(NamedTuple):
    """Labels y (L,) with weights (1, or the step of a grid), and how they come from the values of the link.

    kind
        "discrete", "noisy" (labels are a grid) or "binned" (edges (L + 1,) of the bins, labels their means).
    """

    kind: str
    y: np.ndarray
    weight: np.ndarray
    variance: float
    edges: np.ndarray
    sides: tuple[float, float] | None

    def likelihood(self, v: Any, xp: Any = np, axis: int = -1) -> Any:
        """P(y|v) for values v of the link, labels along a new ``axis``."""
        v = xp.expand_dims(v, axis)
        along = (-1, *(1,) * (v.ndim - 1 - axis % v.ndim))
        y = self.y.reshape(along)
        if self.sides is not None:
            low, high = self.sides
            up = (v - low) / (high - low)
            if self.kind == "noisy":
                at = [normal_density(y - side, self.variance, xp) for side in (high, low)]
                return up * at[0] + (1 - up) * at[1]
            return xp.where(y == high, up, 1 - up)
        if self.kind == "noisy":
            return normal_density(y - v, self.variance, xp)
        if self.kind == "binned":
            low, high = self.edges[:-1].reshape(along), self.edges[1:].reshape(along)
            return ((v >= low) & (v < high)).astype(float)
        return (xp.abs(v - y) < 1e-6).astype(float)

    @property
    def binary(self) -> bool:
        return self.kind == "discrete" and self.y.tolist() == [-1.0, 1.0]


def normal_density(x: Any, variance: Any, xp: Any) -> Any:
    return xp.exp(-x * x / (2 * variance)) / xp.sqrt(2 * np.pi * variance)


@functools.lru_cache(maxsize=128)
def sign_only(link: AbstractLink, width: int) -> tuple[bool, ...]:
    """For every field, whether the link sees nothing but its sign."""
    rng = np.random.default_rng(2)
    z, other = (rng.normal(size=(POINTS, width)) for _ in range(2))
    y, near = link.on_host(z), 1e-12 * max(1.0, float(np.max(np.abs(link.on_host(z)))))
    out = []
    for k in range(width):
        moved = z.copy()
        moved[:, k] = np.sign(z[:, k]) * np.abs(other[:, k])
        out.append(bool(np.max(np.abs(link.on_host(moved) - y)) <= near))
    return tuple(out)


@functools.lru_cache(maxsize=128)
def parity(link: AbstractLink, width: int) -> int:
    """1 if the output stays when all fields are turned around, -1 if it changes its sign, else 0."""
    z = np.random.default_rng(1).normal(size=(400, width))
    there, back = link.on_host(z), link.on_host(-z)
    near = 1e-12 * max(float(np.max(np.abs(there))), 1e-300)
    return 1 if np.max(np.abs(there - back)) <= near else -1 if np.max(np.abs(there + back)) <= near else 0


@functools.lru_cache(maxsize=128)
def levels(link: AbstractLink, width: int) -> np.ndarray | None:
    """The finitely many values that a link takes, in order; None if it takes more than a few."""
    if isinstance(link, SignSum):  # extremes are too rare to be met by chance
        return np.arange(-width, width + 1, 2.0)
    if isinstance(link, Majority):
        return np.array([-1.0, 1.0] if width % 2 else [-1.0, 0.0, 1.0])
    if isinstance(link, SeenLink):
        inner = levels(link.link.expected, width)
        if inner is not None:
            return np.unique(link.shown(inner, np).round(9))
    rng = np.random.default_rng(3)
    z = np.concatenate([scale * rng.normal(size=(POINTS, width)) for scale in (1.0, 0.3, 3.0)])
    if all(sign_only(link, width)) and width <= 12:
        z = 1.0 - 2.0 * ((np.arange(2**width)[:, None] >> np.arange(width)) & 1)
    found = np.unique(link.on_host(z).round(9))
    return found if len(found) <= FEW else None


def real_valued(link: AbstractLink, width: int) -> bool:
    """Whether labels without noise are real numbers, so that they have to be put in bins."""
    return link.sides is None and levels(link.expected, width) is None


@functools.lru_cache(maxsize=64)
def labels_of(link: AbstractLink, width: int, variance: float, bins: int | None) -> Labels:
    """The labels of a link with noise; without noise its few values, or ``bins`` of its real ones.

    Between two values at a distance b a noisy label changes its meaning over a length D/b, D being the variance: what
    it tells has poles at pi D/b off the real axis, and sums over a grid err by exp(-2 pi^2 D/(b step)), times the
    density exp(-b^2/(8 D)) there. The worst b makes that exp(-6.9 (sqrt(D)/step)^(2/3)): 3e-8 for a step of a quarter.
    """
    none = np.zeros(0)
    sides = link.sides
    few = levels(link.expected, width) if sides is None else np.sort(sides)
    if variance == 0 and few is not None:
        return Labels("discrete", few, np.ones(len(few)), 0.0, none, sides)
    if few is None:
        z = np.random.default_rng(4).normal(size=(64 * POINTS, width))
        v = np.sort(link.on_host(z))
        far = link.on_host(z[:POINTS] * FAR.get(width, NEAR) / np.linalg.norm(z[:POINTS], axis=1, keepdims=True))
        v = np.append(v, far) if variance else v
    else:
        v = few
    if variance == 0:
        inner = np.quantile(v, np.linspace(0, 1, (bins or 1) + 1)[1:-1])
        edges = np.concatenate([[-np.inf], np.unique(inner), [np.inf]])
        cut = np.searchsorted(v, edges[1:-1])
        y = np.array([part.mean() if len(part) else 0.0 for part in np.split(v, cut)])
        return Labels("binned", y, np.ones(len(y)), 0.0, edges, None)
    sd = np.sqrt(variance)
    low, high = np.min(v) - REACH * sd, np.max(v) + REACH * sd
    count = int(np.ceil((high - low) / (STEP.get(width, COARSE) * sd)))
    if count > MOST:
        raise InputError(
            f"Labels of {link!r} extend over {(high - low) / sd:.3g} times the noise, whose variance is {variance:g}: "
            f"more than {MOST} points of a grid. Use a larger variance, or none and bins."
        )
    if few is not None or any(sign_only(link.expected, width)):
        count = min(int(np.ceil((high - low) / ((JUMPS if few is None else FINE) * sd))), MOST)
    y, step = np.linspace(low, high, count, retstep=True)
    return Labels("noisy", y, np.full(count, step), variance, none, sides)
