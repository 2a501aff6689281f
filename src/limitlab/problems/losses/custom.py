"""A user's own convex loss."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_array, check_choice, check_number
from limitlab.problems.activations import Activation, activation
from limitlab.problems.losses.base import AbstractConvexLoss, Proximal, newton_prox

__all__ = ["CustomLoss"]

LADDER = np.linspace(-5, 5, 25)  # sinh(5) = 74: bends farther out than 74 scales meet only wide panels
MAX_KINKS = 100  # each is compared with every place of a grid
NEAR = 1e-7  # one-sided derivatives at a kink are taken this far from it (in units of 1 + |kink|)


def _places(kinks) -> np.ndarray:
    return np.unique(np.atleast_1d(check_array("CustomLoss.kinks", kinks)))


class CustomLoss(AbstractConvexLoss):
    r"""Any convex function of the margin y f or of the residual y - f, written with ``jax.numpy``.

    ``CustomLoss(lambda t: jnp.exp(-t))`` is the exponential loss; ``CustomLoss(lambda t: jnp.maximum(0, 1 - t),
    kinks=(1,))`` is the hinge.

    Parameters
    ----------
    function
        The loss as a function of one number. It must be convex: checked on a grid.
    of
        "margin" (t = y f, labels -1 and +1) or "residual" (t = y - f).
    kinks
        Every t at which the first derivative jumps.
    scale
        The smallest distance over which the function bends: the quadrature resolves it.
    """

    sharp: ClassVar[bool] = True  # `features` are edges

    function: Activation
    of: str = field(static=True)  # type: ignore[misc]
    kinks: np.ndarray
    scale: float

    def __init__(self, function, of: str = "margin", kinks=(), scale: float = 1.0):
        self.function, self.of, self.kinks, self.scale = activation(function), of, _places(kinks), scale

    @double
    def __check_init__(self):
        check_choice("CustomLoss", "of", self.of, ("margin", "residual"))
        check_number("CustomLoss", "scale", self.scale, low=0, open_low=True, remedy="Use a positive one.")
        if isinstance(self.scale, (int, float)) and isinstance(self.kinks, np.ndarray):  # not while being traced
            self._check_convex()

    @property
    def smooth(self):
        return len(self.kinks) == 0

    def _check_convex(self) -> None:
        if len(self.kinks) > MAX_KINKS:
            raise InputError(f"CustomLoss.kinks must be at most {MAX_KINKS} numbers; got {len(self.kinks)}.")
        if not np.all(np.isfinite(self.kinks)):
            raise InputError(f"CustomLoss.kinks must be finite numbers; got {self.kinks.tolist()}.")
        t = np.unique(np.concatenate([np.linspace(-30, 30, 1201), self.scale * np.linspace(-10, 10, 801)]))
        t = t[np.all(np.abs(t[:, None] - self.kinks) > 1e-6, axis=1)] if len(self.kinks) else t
        first, second = map(np.asarray, self.derivatives(jnp.asarray(t)))
        for name, values in (("derivative", first), ("second derivative", second)):
            if not np.all(np.isfinite(values)):
                where = t[np.argmin(np.isfinite(values))]
                raise InputError(f"CustomLoss.function must have a finite {name}; it has none at t = {where:g}.")
        floor = -1e-9 * max(1.0, float(np.max(np.abs(second))))
        if np.min(second) < floor:
            raise InputError(
                "CustomLoss.function must be convex: the equations and solvers are wrong otherwise; its second "
                f"derivative is {np.min(second):.3g} at t = {t[np.argmin(second)]:g}. Give a convex function."
            )
        drop = np.diff(first)
        if np.min(drop) < -1e-9 * max(1.0, float(np.max(np.abs(first)))):
            raise InputError(
                "CustomLoss.function must be convex; its derivative falls from "
                f"{first[np.argmin(drop)]:.3g} to {first[np.argmin(drop) + 1]:.3g} near t = {t[np.argmin(drop)]:g}."
            )
        jump = drop - (second[1:] + second[:-1]) * np.diff(t)
        near = np.abs(t[1:, None] - self.kinks).min(1) < 0.2 if len(self.kinks) else np.zeros(len(jump), bool)
        if np.any((jump > 0.05 + 2 * np.abs(second[1:])) & ~near):
            where = t[np.argmax(np.where(near, 0, jump))]
            raise InputError(
                f"CustomLoss.function seems to have a kink near t = {where:.3g} that is not among kinks = "
                f"{self.kinks.tolist()}. Name every place where the derivative jumps."
            )

    def scalar(self, t):
        return self.function(t)

    def _one_sided(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        at = jnp.asarray(self.kinks)
        step = NEAR * (1 + jnp.abs(at))
        return at, self.derivatives(at - step)[0], self.derivatives(at + step)[0]

    def proximal(self, s, V):
        point, pull, bend = newton_prox(self.derivatives, s, V)
        at, left, right = self._one_sided()
        for k in range(len(self.kinks)):  # s is held at the kink if it comes from the jump of the derivative
            held = (s > at[k] + V * left[k]) & (s < at[k] + V * right[k])
            point = jnp.where(held, at[k], point)
            pull = jnp.where(held, (at[k] - s) / V, pull)
            bend = jnp.where(held, -1 / V, bend)
        return Proximal(point, pull, bend)

    def features(self, V):
        # s = p + V l'(p) turns a grid of proximal points, fine on the scale of the bends, into one of s
        at, left, right = self._one_sided()
        edges = [at[k] + V * side[k] for k in range(len(self.kinks)) for side in (left, right)]
        p = jnp.concatenate([self.scale * jnp.sinh(LADDER), *(at[k] + self.scale * LADDER for k in range(len(at)))])
        return (*edges, *(p + V * self.derivatives(p)[0])), 0.0
