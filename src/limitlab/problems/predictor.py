r"""A linear predictor seen by a new sample: the joint law of its output omega = w.x and the label y.

.. math:: \omega \sim N(0, q), \qquad y \sim Z_0(y, \tfrac{m}{q}\omega, \rho - \tfrac{m^2}{q}), \qquad
          m = w \cdot w^*/d, \quad q = |w|^2/d, \quad \rho = |w^*|^2/d

`AbstractChannel.fields` gives nodes of this law; `problems.population` takes all errors on new samples from them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from limitlab.numerics.gauss.rules import REACH, graded_edges

__all__ = ["LOSS", "ORDER", "TEACHER", "Fields", "Predictor", "around"]

TEACHER, LOSS = 12, 6  # panels on each side of a feature of the teacher, of the loss
ORDER = 12


class Predictor(NamedTuple):
    r"""w = (m/rho) w* + sigma xi, by t = m/(sqrt(rho) sigma): nothing cancels when w is nearly parallel to w*."""

    t: jax.Array
    sigma: jax.Array
    rho: jax.Array

    @staticmethod
    def of(m, q, rho) -> "Predictor":
        sigma = jnp.sqrt(jnp.maximum(q - jnp.square(m) / rho, 1e-300))
        return Predictor(m / (jnp.sqrt(rho) * sigma), sigma, rho)

    @property
    def m(self):
        return jnp.sqrt(self.rho) * self.t * self.sigma

    @property
    def q(self):
        return jnp.square(self.sd)

    @property
    def sd(self):
        return self.sigma * jnp.sqrt(1 + jnp.square(self.t))

    @property
    def slope(self):
        """m/q: the teacher's mean output is slope * omega."""
        return jnp.sqrt(self.rho) * self.t / (self.sigma * (1 + jnp.square(self.t)))

    @property
    def V0(self):
        """rho - m^2/q: the variance left to the teacher's output when omega is known."""
        return self.rho / (1 + jnp.square(self.t))


class Fields(NamedTuple):
    """Nodes (y, omega) with weights, and f0 = d/d(mean) log Z_0 there."""

    y: jax.Array
    w: jax.Array
    f0: jax.Array
    weight: jax.Array


def around(place, width):
    """Edges at a feature of the loss, in units of the field: one for a kink (None), graded panels for a bend."""
    place = jnp.clip(place, -REACH, REACH)
    if width is None:
        return place[None]
    return graded_edges(place, jnp.clip(width, 1e-12, 1.0), 2 * REACH, LOSS)
