"""How each activation is averaged over a Gaussian."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.smoothing import (
    AbstractSmoother,
    ErfSmoother,
    LogisticSmoother,
    PiecewiseSmoother,
    PolynomialSmoother,
    TrapezoidSmoother,
    logistic_nodes,
)
from limitlab.problems.activations.base import Activation

__all__ = ["linear_pieces", "smoother"]

MAX_KINKS = 32
LOGISTIC = {"tanh": (-1.0, 2.0, 2.0), "sigmoid": (0.0, 1.0, 1.0)}  # level, height, steepness


def smoother(activation: Activation, widest: float = 1.0) -> AbstractSmoother:
    """The smoother of an activation, accurate for widths s up to ``widest`` at least."""
    return _smoother(activation, 2.0 ** np.ceil(np.log2(widest)))  # few rules, so few compilations


@functools.lru_cache(maxsize=256)
def _smoother(activation: Activation, widest: float) -> AbstractSmoother:
    base, by = (activation, 0.0) if activation.base is None else (activation.base, activation.by)
    while base.base is not None:
        base, by = base.base, by + base.by
    if base.power is not None:
        moved = np.polynomial.Polynomial(base.power)(np.polynomial.Polynomial([by, 1.0]))
        return PolynomialSmoother(tuple(map(float, moved.coef)))  # type: ignore[union-attr]
    if base.name == "erf" and base.named:
        return ErfSmoother(by)
    pieces = linear_pieces(base)
    if pieces is not None:
        level, tilt, places, bends = (x.tolist() for x in pieces)
        return PiecewiseSmoother(level + tilt * by, tilt, tuple(bends), tuple(place - by for place in places))
    if base.named and base.name in LOGISTIC:
        level, height, steepness = LOGISTIC[base.name]
        return LogisticSmoother(level, height, steepness, by, logistic_nodes(steepness, widest))
    return TrapezoidSmoother(base.function, by)


def _known_pieces(activation: Activation) -> tuple[np.ndarray, ...] | None:
    if activation.base is not None and (inside := linear_pieces(activation.base)) is not None:
        level, tilt, places, bends = inside
        return level + tilt * activation.by, tilt, places - activation.by, bends
    if activation.named and activation.name == "relu":
        return np.asarray(0.0), np.asarray(0.0), np.zeros(1), np.ones(1)
    if activation.named and activation.name == "abs":
        return np.asarray(0.0), np.asarray(-1.0), np.zeros(1), np.full(1, 2.0)
    if activation.knots is None:
        return None
    x, y = np.asarray(activation.knots).T
    slopes = np.concatenate([[0.0], np.diff(y) / np.diff(x), [0.0]])
    return np.asarray(y[0]), np.asarray(0.0), x, np.diff(slopes)


@functools.lru_cache(maxsize=256)
def linear_pieces(activation: Activation) -> tuple[np.ndarray, ...] | None:
    r"""(i, b, t, g) with :math:`\sigma(x) = i + bx + \sum_k g_k (x - t_k)_+`; None if it is not of this kind.

    Of a user's own function it is found out from its values."""

    exact = _known_pieces(activation)
    if exact is not None:
        return exact

    def sigma(x):
        with jax.ensure_compile_time_eval():
            return np.asarray(jax.vmap(activation.function)(jnp.asarray(x)), float)

    x = np.linspace(-20.013, 20.011, 8001)
    y = sigma(x)
    slope, small = np.diff(y) / np.diff(x), 1e-9 * max(1.0, float(np.max(np.abs(y))))
    level = intercept = None
    places, jumps = [], []
    for i in range(len(slope) - 1):  # two equal slopes in a row are a line; the next line meets it at the kink
        if abs(slope[i + 1] - slope[i]) > small:
            continue
        b, c = slope[i], y[i] - slope[i] * x[i]
        if level is None:
            level, intercept, last, offset = b, c, b, c
        elif abs(b - last) > small:
            places.append((offset - c) / (b - last))
            jumps.append(b - last)
            last, offset = b, c
        if len(places) > MAX_KINKS:
            return None
    if level is None:
        return None
    t, g = np.asarray(places), np.asarray(jumps)
    wide = np.concatenate([np.linspace(-20, 20, 997), [-300.0, -77.7, 77.7, 300.0]])
    rebuilt = intercept + level * wide + np.maximum(wide[:, None] - t, 0) @ g
    if np.max(np.abs(rebuilt - sigma(wide))) > 1e-7 * max(1.0, float(np.max(np.abs(y)))):
        return None
    return np.asarray(intercept), np.asarray(level), t, g
