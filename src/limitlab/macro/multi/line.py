"""Where a function of one number jumps or has a kink, and integrals that need to know."""

from collections.abc import Callable

import numpy as np

__all__ = ["breaks_of", "surest_of_one"]

GRID = 2**13 + 1
SUDDEN = 30.0  # times the second differences beside it: no smooth function bends so
NODES = 4  # on either side of a kink, from which its place is extrapolated


def breaks_of(f: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> np.ndarray:
    """The places in (low, high) where f jumps or its slope does, in order.

    A jump is found by bisection, a kink where the cubics through the values on its two sides meet.
    """
    x = np.linspace(low, high, GRID) + 0.37 * (high - low) / GRID  # off round numbers
    y = f(x)
    bend = np.abs(np.diff(y, 2))
    wide = np.pad(bend, 4, mode="edge")
    beside = np.maximum(wide[:-8], wide[8:]) + 1e-12 * max(float(np.max(np.abs(y))), 1e-300)
    found, last = [], -10
    for i in np.nonzero(bend > SUDDEN * beside)[0] + 1:
        if i - last <= 4:  # the same one
            last = i
            continue
        last = i
        a, b = x[i - 1], x[min(i + 2, GRID - 1)]
        size = np.abs(np.diff(y[max(i - 1, 0) : i + 3]))
        usual = max(abs(y[max(i - 3, 0)] - y[max(i - 4, 0)]), abs(y[min(i + 5, GRID - 1)] - y[min(i + 4, GRID - 1)]))
        found.append(_jump(f, a, b) if np.max(size) > 100 * usual + 1e-9 else _kink(f, a, b, x[1] - x[0]))
    return np.array([at for at in found if low < at < high])


def _jump(f: Callable, a: float, b: float) -> float:
    left, right = float(f(np.array([a]))[0]), float(f(np.array([b]))[0])
    for _ in range(80):
        middle = (a + b) / 2
        value = float(f(np.array([middle]))[0])
        if abs(value - left) > abs(value - right):
            b, right = middle, value
        else:
            a, left = middle, value
    return (a + b) / 2


def _kink(f: Callable, a: float, b: float, step: float) -> float:
    places = step * np.arange(NODES)
    one, other = (np.polynomial.Polynomial.fit(t, f(t), NODES - 1) for t in ((a - places)[::-1], b + places))
    low, high = a, b
    sign = np.sign(one(a) - other(a))
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sign(one(middle) - other(middle)) == sign else (low, middle)
    return (low + high) / 2


def surest_of_one(Z: Callable[[np.ndarray], np.ndarray], m: float) -> float:
    """E max_y Z(y, w) for w ~ N(0, m), panels cut where another label becomes the likeliest."""
    if m <= 0:
        return float(np.max(Z(np.zeros(1))))
    u = np.linspace(-8.5, 8.5, int(17 / min(0.25, 0.5 * np.sqrt(max(1 - m, 1e-8) / m))) + 2)
    best = np.argmax(Z(np.sqrt(m) * u), axis=1)
    turns = np.nonzero(np.diff(best))[0]
    low, high = u[turns], u[turns + 1]
    for _ in range(52 if len(turns) else 0):
        middle = (low + high) / 2
        same = np.argmax(Z(np.sqrt(m) * middle), axis=1) == best[turns]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    edges = np.unique(np.concatenate([u, low]))
    x, dx = np.polynomial.legendre.leggauss(8)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    at, weight = (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * dx).ravel()
    p = weight * np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)
    return float(p @ np.max(Z(np.sqrt(m) * at), axis=1))
