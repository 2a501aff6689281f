"""Classification losses: functions of the margin t = y z, labels -1 and +1."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.numerics.convex.interior_point import interior_point, linear_programme
from limitlab.numerics.roots import implicit_root, newton
from limitlab.problems.losses.base import AbstractConvexLoss, Proximal

__all__ = ["HingeLoss", "LogisticLoss", "MaxMargin", "SquaredHingeLoss"]

NEWTON_STEPS = 7  # from the lower bound below: rounding for every V from 1e-10 to 1e10


class LogisticLoss(AbstractConvexLoss):
    r""":math:`\log(1 + e^{-yf})`.

    The proximal point solves :math:`p = s + V\sigma(-p)`. By the symmetry s -> -s - V, p -> -p it is enough to look
    for p >= 0, where p - s - V sigma(-p) is concave: Newton's method from any lower bound rises to the root.
    """

    of: ClassVar[str] = "margin"
    if_separable: ClassVar[str] = "the minimiser runs to infinity"

    def scalar(self, t):
        return jax.nn.softplus(-t)

    def derivatives(self, t):
        e = jnp.exp(-jnp.abs(t))  # one exponential for both, exact in both tails
        part = 1 / (1 + e)
        return -jnp.where(t >= 0, e, 1.0) * part, e * jnp.square(part)

    def proximal(self, s, V):
        s, V = jnp.broadcast_arrays(jnp.asarray(s, float), jnp.asarray(V, float))

        def equation(p, s, V):
            first, second = self.derivatives(p)
            return p - s + V * first, 1 + V * second

        def solve(s, V):
            mirrored = s < -V / 2
            s = jnp.where(mirrored, -s - V, s)
            # V sigma(-p) >= V e^-p / 2 for p >= 0, and Lambert's W(x) >= L - log(1 + L), L/2 with L = log(1 + x)
            x = jnp.log(V / 2) - s
            L = jnp.maximum(x, 0.0) + jnp.log(1 + jnp.exp(-jnp.abs(x)))
            p = jnp.maximum(s + jnp.maximum(L - jnp.log1p(L), L / 2), 0.0)
            p = newton(lambda p: equation(p, s, V), p, NEWTON_STEPS)
            return jnp.where(mirrored, -p, p)

        p = implicit_root(solve, equation, s, V)
        first, second = self.derivatives(p)
        return Proximal(p, -first, -second / (1 + V * second))

    def features(self, V):
        # V l'' = 1 at p = +-log(V/2 - 1 + ...): between these the pull is linear in s, outside it is exponential
        V = jnp.maximum(V, 4.01)
        p = 2 * jnp.arccosh(jnp.sqrt(V) / 2)
        return (p - V * jax.nn.sigmoid(-p), -p - V * jax.nn.sigmoid(p)), 1.0


class HingeLoss(AbstractConvexLoss):
    r""":math:`\max(0, 1 - yf)`."""

    of: ClassVar[str] = "margin"
    sharp: ClassVar[bool] = True

    @property
    def smooth(self):
        return False

    def scalar(self, t):
        return jnp.maximum(0.0, 1 - t)

    def proximal(self, s, V):
        stuck = (s > 1 - V) & (s < 1)
        pull = jnp.clip((1 - s) / V, 0.0, 1.0)
        point = jnp.where(stuck, 1.0, jnp.where(s >= 1, s, s + V))
        return Proximal(point, pull, jnp.where(stuck, -1 / V, 0.0))

    def features(self, V):
        return (1.0, 1 - V), 0.0

    def minimise_tall(self, X, y, penalty):
        A = X * y[:, None]
        return linear_programme(A) if penalty == 0 else interior_point(A, penalty, bounded=True)


class SquaredHingeLoss(AbstractConvexLoss):
    r""":math:`\tfrac12 \max(0, \kappa - yf)^2` with the margin kappa = ``margin``: at 0, that of a perceptron."""

    of: ClassVar[str] = "margin"
    sharp: ClassVar[bool] = True

    margin: float = 1.0

    def __check_init__(self):
        check_number("SquaredHingeLoss", "margin", self.margin, remedy="Use 1 for the hinge, 0 for a perceptron.")

    def scalar(self, t):
        return jnp.square(jnp.maximum(0.0, self.margin - t)) / 2

    def derivatives(self, t):
        return -jnp.maximum(0.0, self.margin - t), jnp.where(t < self.margin, 1.0, 0.0)

    def proximal(self, s, V):
        pull = jnp.maximum(0.0, self.margin - s) / (1 + V)
        return Proximal(s + V * pull, pull, jnp.where(s < self.margin, -1 / (1 + V), 0.0))

    def features(self, V):
        return (self.margin,), 0.0


class MaxMargin(AbstractConvexLoss):
    r"""0 if :math:`yf \ge 1`, else infinite: the least :math:`|w|` that puts every sample outside the margin."""

    of: ClassVar[str] = "margin"
    differentiable: ClassVar[bool] = False
    hard: ClassVar[bool] = True
    sharp: ClassVar[bool] = True

    @property
    def smooth(self):
        return False

    def scalar(self, t):
        return jnp.where(t >= 1, 0.0, jnp.inf)

    def proximal(self, s, V):
        return Proximal(jnp.maximum(s, 1.0), jnp.maximum(1 - s, 0.0) / V, jnp.where(s < 1, -1 / V, 0.0))

    def features(self, V):
        return (1.0,), 0.0

    def minimise_tall(self, X, y, penalty):
        return interior_point(X * y[:, None], penalty, bounded=False)
