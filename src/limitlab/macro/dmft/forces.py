r"""The force on the fields of one training sample, of one direction or of a committee.

.. math:: g_a = m\,\frac{\partial}{\partial h_a}\ell(y, f), \qquad f = \frac1m \sum_a c_a \sigma(h_a), \qquad
          J_{ab} = \frac{\partial g_a}{\partial h_b}
                 = \frac{\ell''}{m}\, c_a \sigma'(h_a)\, c_b \sigma'(h_b) + \delta_{ab}\, \ell'\, c_a \sigma''(h_a)

without the factor 1/m of the output, as in the rule of descent. One direction has f = h.
"""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from limitlab.modules import AbstractVar, Module
from limitlab.problems.losses import AbstractLoss
from limitlab.problems.networks import Committee

__all__ = ["AbstractForce", "CommitteeForce", "LineForce"]

KINK = 0.1  # half width of the difference that stands in for the slope of a force that jumps


class AbstractForce(Module):
    """Forces on fields (m, N) with labels (N,)."""

    loss: AbstractVar[AbstractLoss]

    @property
    @abstractmethod
    def units(self) -> int:
        """m."""

    @property
    @abstractmethod
    def smooth(self) -> bool:
        """True if the force does not jump."""

    @property
    def quartic(self) -> Any:
        """c if the force on a unit grows as c h^3: long steps overshoot far out; 0 if it does not."""
        return 0.0

    @abstractmethod
    def output(self, fields: jax.Array) -> jax.Array:
        """f (N,)."""

    @abstractmethod
    def slopes(self, y: jax.Array, fields: jax.Array) -> tuple[jax.Array, jax.Array]:
        """g (m, N) and J (m, m, N), beside the jumps."""

    def value(self, y: jax.Array, fields: jax.Array) -> jax.Array:
        """The loss (N,)."""
        return self.loss.value(y, self.output(fields))

    def __call__(self, y: jax.Array, fields: jax.Array) -> tuple[jax.Array, jax.Array]:
        """g and the J that tangents see; where g jumps, that of a difference across the jump."""
        g, J = self.slopes(y, fields)
        if self.smooth:
            return g, J

        def across(b):
            ahead, behind = (self.slopes(y, fields.at[b].add(by))[0] for by in (KINK, -KINK))
            return (ahead - behind) / (2 * KINK)

        return g, jnp.stack([across(b) for b in range(self.units)], axis=1)


class LineForce(AbstractForce):
    """One direction, f = h."""

    loss: AbstractLoss

    @property
    def units(self):
        return 1

    @property
    def smooth(self):
        return self.loss.smooth

    @property
    def quartic(self):
        return self.loss.quartic

    def output(self, fields):
        return fields[0]

    def slopes(self, y, fields):
        first, second = self.loss.gradient(y, fields[0])
        return first[None], second[None, None]


class CommitteeForce(AbstractForce):
    """Units with a second layer c (m,) that stands still."""

    loss: AbstractLoss
    student: Committee
    c: jax.Array

    @property
    def units(self):
        return self.student.width

    @property
    def smooth(self):
        return self.loss.smooth and not self.student.kinked

    @property
    def quartic(self):
        """Of squares; the loss of their output has the curvature of its parabola everywhere."""
        if not self.student.squares:
            return 0.0
        return 2 * self.loss.gradient(jnp.zeros(()), jnp.zeros(()))[1] * jnp.max(jnp.square(self.c)) / self.units

    def output(self, fields):
        return self.c @ self.student.activation.unit_functions()[0](fields) / self.units

    def slopes(self, y, fields):
        slope_of = self.student.activation.unit_functions()[1]
        slope, bend = jax.jvp(slope_of, (fields,), (jnp.ones_like(fields),))
        first, second = self.loss.gradient(y, self.output(fields))
        pull = self.c[:, None] * slope
        J = second / self.units * pull[:, None] * pull
        own = jnp.eye(self.units)[:, :, None] * (first * self.c[:, None] * bend)[:, None]
        return first * pull, J + own
