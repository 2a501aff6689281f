r"""What a loss is: a convex function of one number, and its proximal calculus.

A classification loss is a function of the margin t = y z, a regression loss one of the residual t = y - z. Both
roads, finite size and limit, ask for

.. math:: P_V(s) = \mathrm{argmin}_t\ \ell(t) + \frac{(t - s)^2}{2V}, \qquad
          G_V(s) = \frac{P_V(s) - s}{V} = -\ell'(P_V(s)), \qquad
          G_V'(s) = -\frac{\ell''}{1 + V\ell''}.
"""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.numerics.roots import proximal_point

__all__ = ["AbstractConvexLoss", "AbstractLoss", "Proximal", "newton_prox"]


class Proximal(NamedTuple):
    """The proximal point, its pull G = (point - s)/V, and the derivative of the pull in s."""

    point: jax.Array
    pull: jax.Array
    bend: jax.Array


class AbstractLoss(eqx.Module):
    """A loss per sample, paid for the output z when the label is y; ``smooth`` if it has no kinks."""

    convex: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    differentiable: ClassVar[bool] = True

    @abstractmethod
    def value(self, y: jax.Array, z: jax.Array) -> jax.Array:
        """The loss, elementwise."""

    @abstractmethod
    def gradient(self, y: jax.Array, z: jax.Array) -> tuple[jax.Array, jax.Array]:
        """First and second derivative of the loss in z, elementwise (beside a kink, if there is one)."""


class AbstractConvexLoss(AbstractLoss):
    r"""A convex loss of the margin t = y z or of the residual t = y - z.

    To add a loss, write a small frozen class like those of ``margin.py`` with

    - ``of``: "margin" (labels -1, +1) or "residual";
    - ``scalar(t)``: the loss as a function of one number, in JAX;
    - ``proximal(s, V)``: `Proximal`, elementwise, stable for V from 1e-8 to 1e8. Leave it out if the loss has two
      derivatives: then `newton_prox` finds it;
    - ``features(V)``: the places s where the pull changes quickly, and over which width (where quadrature panels
      must be fine); ``sharp = True`` if they are kinks between pieces that are smooth on every scale;
    - ``smooth = False`` if the loss itself has kinks, so that Newton's method on the weights would fail;
    - ``even = True`` for a residual loss that does not see the sign of the residual.

    From Python, `CustomLoss` takes a function and needs no class.
    """

    convex: ClassVar[bool] = True
    sharp: ClassVar[bool] = False
    even: ClassVar[bool] = False
    of: ClassVar[str]

    @abstractmethod
    def scalar(self, t: jax.Array) -> jax.Array:
        """The loss as a function of the margin or residual t."""

    @abstractmethod
    def features(self, V: jax.Array) -> tuple[tuple, jax.Array | float]:
        """Centres in s, and the width of the change there."""

    def proximal(self, s: jax.Array, V: jax.Array) -> Proximal:
        """The proximal point of s, its pull and the derivative of the pull."""
        return newton_prox(self.derivatives, s, V)

    def derivatives(self, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        """First and second derivative of `scalar`, elementwise."""
        first = jax.grad(self.scalar)
        flat = jnp.ravel(t)
        a, b = jax.vmap(first)(flat), jax.vmap(jax.grad(first))(flat)
        return a.reshape(jnp.shape(t)), b.reshape(jnp.shape(t))

    def variable(self, y: jax.Array, z: jax.Array) -> jax.Array:
        """The margin or residual of an output z."""
        return y * z if self.of == "margin" else y - z

    def value(self, y, z):
        return self.scalar(self.variable(y, z))

    def prox(self, y: jax.Array, w: jax.Array, V: jax.Array) -> jax.Array:
        """argmin over z of loss(y, z) + (z - w)^2/(2V)."""
        point = self.proximal(self.variable(y, w), V).point
        return y * point if self.of == "margin" else y - point

    def output(self, y: jax.Array, w: jax.Array, V: jax.Array) -> tuple[jax.Array, jax.Array]:
        """g = (prox - w)/V and its derivative in w."""
        _, pull, bend = self.proximal(self.variable(y, w), V)
        return (y * pull if self.of == "margin" else -pull), bend

    def gradient(self, y, z):
        first, second = self.derivatives(self.variable(y, z))
        return (y * first if self.of == "margin" else -first), second


def newton_prox(derivatives, s: jax.Array, V: jax.Array) -> Proximal:
    """The proximal point of any convex loss with two derivatives, by Newton steps kept inside a bracket."""
    s, V = jnp.broadcast_arrays(jnp.asarray(s, float), jnp.asarray(V, float))
    p = proximal_point(derivatives, s, V)
    first, second = derivatives(p)
    return Proximal(p, -first, -second / (1 + V * second))
