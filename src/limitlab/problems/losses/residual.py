"""Regression losses: functions of the residual t = y - z."""

from typing import ClassVar

import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.numerics.convex.ridge import ridge
from limitlab.numerics.roots import implicit_root, newton
from limitlab.problems.losses.base import AbstractConvexLoss, Proximal

__all__ = ["HuberLoss", "PseudoHuberLoss", "SquareLoss"]

NEWTON_STEPS = 20  # each multiplies p by 3/2 until p is about V^(1/3), then doubles the digits: enough for V = 1e9


class SquareLoss(AbstractConvexLoss):
    r""":math:`\tfrac12 (y - f)^2`."""

    of: ClassVar[str] = "residual"
    sharp: ClassVar[bool] = True
    even: ClassVar[bool] = True
    quadratic: ClassVar[bool] = True

    def scalar(self, t):
        return jnp.square(t) / 2

    def derivatives(self, t):
        return t, jnp.ones_like(t)

    def proximal(self, s, V):
        return Proximal(s / (1 + V), -s / (1 + V), -1 / (1 + V) + 0 * s)

    def features(self, V):
        return (), 0.0

    def minimise(self, X, y, penalty):
        return ridge(X, y, penalty)

    def squares_prefactor(self, channel):
        return 0.5 if channel.modulus == "intensity" else None


class HuberLoss(AbstractConvexLoss):
    r""":math:`\tfrac12 r^2` for :math:`|r| \le \delta`, :math:`\delta(|r| - \delta/2)` beyond.

    r = y - f is the residual, delta = ``scale``.
    """

    of: ClassVar[str] = "residual"
    sharp: ClassVar[bool] = True
    even: ClassVar[bool] = True

    scale: float = 1.0

    def __check_init__(self):
        _check_scale(self)

    def scalar(self, t):
        inside = jnp.clip(t, -self.scale, self.scale)
        return jnp.square(inside) / 2 + self.scale * jnp.abs(t - inside)

    def derivatives(self, t):
        return jnp.clip(t, -self.scale, self.scale), jnp.where(jnp.abs(t) < self.scale, 1.0, 0.0)

    def proximal(self, s, V):
        pull = -jnp.clip(s / (1 + V), -self.scale, self.scale)
        inside = jnp.abs(s) < self.scale * (1 + V)
        point = jnp.where(inside, s / (1 + V), s + V * pull)
        return Proximal(point, pull, jnp.where(inside, -1 / (1 + V), 0.0))

    def features(self, V):
        edge = self.scale * (1 + V)
        return (-edge, edge), 0.0


class PseudoHuberLoss(AbstractConvexLoss):
    r""":math:`\delta^2(\sqrt{1 + r^2/\delta^2} - 1)`: square near r = 0, absolute far away.

    r = y - f is the residual, delta = ``scale``.
    """

    of: ClassVar[str] = "residual"
    even: ClassVar[bool] = True

    scale: float = 1.0

    def __check_init__(self):
        _check_scale(self)

    def scalar(self, t):
        return jnp.square(t) / (jnp.sqrt(1 + jnp.square(t / self.scale)) + 1)

    def derivatives(self, t):
        root = jnp.sqrt(1 + jnp.square(t / self.scale))
        return t / root, 1 / root**3

    def proximal(self, s, V):
        s, V = jnp.broadcast_arrays(jnp.asarray(s, float), jnp.asarray(V, float))

        def equation(p, s, V):
            first, second = self.derivatives(p)
            return p - s + V * first, 1 + V * second

        def solve(s, V):
            # For p > 0 the equation is concave, so Newton rises to the root from a lower bound: l' <= min(p, scale)
            size = jnp.abs(s)
            p = jnp.maximum(size / (1 + V), size - V * self.scale)
            p = newton(lambda p: equation(p, size, V), p, NEWTON_STEPS)
            return jnp.where(s < 0, -p, p)

        p = implicit_root(solve, equation, s, V)
        first, second = self.derivatives(p)
        return Proximal(p, -first, -second / (1 + V * second))

    def features(self, V):
        edge = self.scale * (1 + V)
        return (-edge, edge), self.scale


def _check_scale(loss):
    check_number(
        type(loss).__name__,
        "scale",
        loss.scale,
        low=0,
        open_low=True,
        remedy="It is the residual at which the loss turns from square to absolute: use a positive one.",
    )
