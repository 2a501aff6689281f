r"""Sign committees of any width as long as their units are alike: M = lam u u^T, u = (1, ..., 1)/sqrt(K).

The label depends on the number j of positive fields. With s = u.z, their joint law is an inverse Fourier transform,

.. math:: f_j(s) = \int \frac{dt}{2\pi} e^{-its} \binom Kj \phi_+^j \bar\phi_+^{K-j}(t/\sqrt K), \qquad
          \phi_+(t) = E[e^{itz} 1_{z>0}] = \tfrac12 w(t/\sqrt 2)

(w is Faddeeva's function), so that learning s is a problem of one direction whose labels have P(y|s). Whatever is
orthogonal to u is unlearned, and a small delta there is multiplied by alpha E[G^2] at every iteration, G being the mean
of z_perp^2 - 1 given the label and what is known of s. Units specialise where that reaches 1.
"""

import functools
from typing import NamedTuple

import numpy as np

from limitlab.errors import ConvergenceError
from limitlab.problems.links import AbstractLink
from limitlab.problems.links.labels import labels_of, parity
from limitlab.problems.links.named import Majority, SignSum
from limitlab.problems.links.seen import SeenLink

__all__ = [
    "AlikeUnits",
    "Unspecialised",
    "alike_units",
    "at_overlap",
    "is_committee",
    "specialisation",
    "unspecialised",
]

PANELS = 48  # of s on either side of 0: narrow enough for what is known of it
EDGES = np.linspace(-7.0, 7.0, 2 * PANELS + 1)
ORDER = 12
RANGE = {3: 400.0, 4: 150.0, 5: 80.0, 6: 60.0}  # of t: mixed signs decay as t^-K only
WIDE = 40.0
STEP = 0.06
TINY = 1e-13
LEAST = 2e-4  # of 1 - lam: nodes of s are 1/80 apart


class AlikeUnits(NamedTuple):
    """Nodes s with weights N(s; 0, 1) ds; P(y|s) and E[(z_perp^2 - 1) 1_y | s] (L, n); labels (L,), their weights."""

    s: np.ndarray
    ds: np.ndarray
    P: np.ndarray
    G: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    width: int


class Unspecialised(NamedTuple):
    """The fixed point with alike units at overlap lam: its sample ratio, the growth of all else, what it predicts."""

    lam: float
    alpha: float
    growth: float
    phi: float
    predicted: float
    surest: float


def is_committee(link: AbstractLink) -> bool:
    """Whether the label depends on the number of positive fields only, by name; a channel must not hide their mean."""
    if isinstance(link, SeenLink):
        return is_committee(link.link) and parity(link.expected, 3) != 1
    return isinstance(link, (SignSum, Majority))


@functools.lru_cache(maxsize=32)
def alike_units(link: AbstractLink, width: int, variance: float = 0.0) -> AlikeUnits:
    """The tables of a sign committee behind a channel (kept)."""
    x, dx = np.polynomial.legendre.leggauss(ORDER)
    middle, half = (EDGES[1:] + EDGES[:-1]) / 2, np.diff(EDGES) / 2
    s, ds = (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * dx).ravel()
    f, f2 = _two(s) if width == 2 else _transformed(s, width)
    h = (f2 - s**2 * f) / (width - 1) - f
    fields = np.where(np.arange(width) < np.arange(width + 1)[:, None], 1.0, -1.0)  # so many positive ones
    labels = labels_of(link, width, variance, None)
    share = labels.likelihood(link.expected.on_host(fields)).T
    density = np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi)
    return AlikeUnits(s, ds, share @ f / density, share @ h / density, labels.y, labels.weight, width)


def _two(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import ndtr

    a, density = np.abs(s), np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi)
    inside = 2 * ndtr(a) - 1
    square = inside - 2 * a * density  # E t^2 there
    f = np.stack([np.where(s < 0, inside, 0), 1 - inside, np.where(s > 0, inside, 0)])
    t2 = np.stack([np.where(s < 0, square, 0), 1 - square, np.where(s > 0, square, 0)])
    return f * density, (t2 + s**2 * f) * density


def _transformed(s: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray]:
    """The joint density of s and j, and that with sum z_k^2."""
    from scipy.special import comb, wofz

    reach = RANGE.get(K, WIDE)
    t = np.arange(-reach, reach + STEP / 2, STEP) if K > 6 else np.arange(-reach, reach + STEP, 2 * STEP)
    x = t / np.sqrt(2 * K)
    w = wofz(x)
    slope = -2 * x * w + 2j / np.sqrt(np.pi)
    plus, square = w / 2, (2 * w + 2 * x * slope) / 4
    step = t[1] - t[0]
    wave = np.exp(-1j * np.outer(t, s)) * step / (2 * np.pi)
    f, f2 = [], []
    for j in range(K + 1):
        both = plus**j * np.conj(plus) ** (K - j)
        twice = 0
        if j:
            twice = twice + j * square * plus ** (j - 1) * np.conj(plus) ** (K - j)
        if j < K:
            twice = twice + (K - j) * np.conj(square) * plus**j * np.conj(plus) ** (K - j - 1)
        f.append(comb(K, j) * (both @ wave).real)
        f2.append(comb(K, j) * (twice @ wave).real)
    return np.stack(f), np.stack(f2)


def at_overlap(units: AlikeUnits, lam: float) -> Unspecialised:
    """What labels tell at the overlap lam, and the sample ratio of which it is the fixed point (Gaussian weights)."""
    v = 1 - lam
    u = np.arange(-5.6, 5.6001, min(0.2, 0.35 * np.sqrt(v / lam)))
    p = np.exp(-(u**2) / 2)
    p, w = p / p.sum(), np.sqrt(lam) * u
    gap = units.s[None] - w[:, None]
    kernel = units.ds * np.exp(-(gap**2) / (2 * v)) / np.sqrt(2 * np.pi * v)
    Z, slope, bend = kernel @ units.P.T, (kernel * gap / v) @ units.P.T, kernel @ units.G.T
    sound = Z > TINY
    safe = np.where(sound, Z, 1.0)
    weight = np.where(sound, p[:, None] * units.weight / safe, 0.0)
    g2, G2 = float(np.sum(weight * slope**2)), float(np.sum(weight * bend**2))
    alpha = lam / (v * g2)
    phi = float(np.sum(p[:, None] * units.weight * safe * np.log(safe)))
    predicted = float(p @ (Z @ (units.weight * units.y)) ** 2)
    return Unspecialised(lam, alpha, alpha * G2, phi, predicted, float(p @ Z.max(axis=1)))


def unspecialised(units: AlikeUnits, alpha: float) -> Unspecialised:
    """The fixed point with alike units at a sample ratio."""
    low, high = 1e-6, 1 - 1e-6
    for _ in range(200):  # alpha(lam) rises
        lam = (low + high) / 2
        low, high = (lam, high) if at_overlap(units, lam).alpha < alpha else (low, lam)
        if high - low < 1e-14:
            break
    return at_overlap(units, (low + high) / 2)


@functools.lru_cache(maxsize=64)
def specialisation(link: AbstractLink, width: int, variance: float = 0.0) -> Unspecialised:
    """Where alike units become unstable: the growth of all else is 1."""
    units = alike_units(link, width, variance)
    low, high = 1e-4, 1 - 1e-5
    for _ in range(100):
        lam = (low + high) / 2
        low, high = (lam, high) if at_overlap(units, lam).growth < 1 else (low, lam)
        if high - low < 1e-13:
            break
    found = at_overlap(units, (low + high) / 2)
    if abs(found.growth - 1) > 1e-6 or 1 - found.lam < LEAST:
        raise ConvergenceError(
            f"The units of a committee of width {width} specialise at an overlap of {found.lam:.6g}, too close to 1 "
            "for the tables. Use a smaller width.",
            estimate=found.alpha,
        )
    return found
