"""The loss of phase retrieval, which is not convex."""

import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.problems.losses.base import AbstractLoss

__all__ = ["PhaseRetrievalLoss"]


class PhaseRetrievalLoss(AbstractLoss):
    r""":math:`\mathrm{prefactor}\,(y^2 - f^2)^2`."""

    prefactor: float = 0.25

    def __check_init__(self):
        check_number(
            "PhaseRetrievalLoss", "prefactor", self.prefactor, low=0, open_low=True, remedy="Use a positive one."
        )

    def value(self, y, z):
        return self.prefactor * jnp.square(jnp.square(y) - jnp.square(z))
