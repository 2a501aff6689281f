"""The losses of phase retrieval, which are not convex: they do not see the sign of the output."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from limitlab.numerics.checks import check_choice, check_number
from limitlab.problems.losses.base import AbstractLoss

__all__ = ["AmplitudeLoss", "PhaseRetrievalLoss"]


def _check_prefactor(loss) -> None:
    check_number(type(loss).__name__, "prefactor", loss.prefactor, low=0, open_low=True, remedy="Use a positive one.")


class PhaseRetrievalLoss(AbstractLoss):
    r""":math:`\mathrm{prefactor}\,(y^2 - f^2)^2`.

    With prefactor kappa instead of 1/4, descent has 4 kappa times the learning rate, persistence time and clock, and
    1/(4 kappa) of the temperature.

    Parameters
    ----------
    labels
        "modulus": y as above (`Modulus`). "intensity": y stands for a square, (y - f^2)^2 (`SquaredModulus`).
    """

    prefactor: float = 0.25
    labels: str = eqx.field(static=True, default="modulus")

    def __check_init__(self):
        _check_prefactor(self)
        check_choice("PhaseRetrievalLoss", "labels", self.labels, ("modulus", "intensity"))

    def _square(self, y):
        return jnp.square(y) if self.labels == "modulus" else y

    def value(self, y, z):
        return self.prefactor * jnp.square(self._square(y) - jnp.square(z))

    def gradient(self, y, z):
        target = self._square(y)
        return 4 * self.prefactor * z * (jnp.square(z) - target), 4 * self.prefactor * (3 * jnp.square(z) - target)

    def expected(self, m, q, rho, variance):
        r"""E of the loss over (z*, f) ~ N(0, [[rho, m], [m, q]]); label noise of the given variance is added to
        :math:`|z^*|` or to :math:`z^{*2}`."""
        both, fourth = rho * q + 2 * jnp.square(m), 3 * jnp.square(rho)  # E z*^2 f^2, E z*^4
        if self.labels == "modulus":
            both, fourth = both + variance * q, fourth + 6 * variance * rho + 3 * jnp.square(variance)
        else:
            fourth = fourth + variance
        return self.prefactor * (fourth - 2 * both + 3 * jnp.square(q))


class AmplitudeLoss(AbstractLoss):
    r""":math:`\mathrm{prefactor}\,(y - |f|)^2`, with a kink at f = 0."""

    smooth: ClassVar[bool] = False

    prefactor: float = 0.5

    def __check_init__(self):
        _check_prefactor(self)

    def value(self, y, z):
        return self.prefactor * jnp.square(y - jnp.abs(z))

    def gradient(self, y, z):
        return 2 * self.prefactor * (z - y * jnp.sign(z)), 2 * self.prefactor * jnp.ones_like(z)

    def expected(self, m, q, rho, variance):
        r"""E of the loss over (z*, f) ~ N(0, [[rho, m], [m, q]]), with noise of the given variance on
        :math:`|z^*|`."""
        size = jnp.sqrt(rho * q)
        c = jnp.clip(m / size, -1.0, 1.0)
        both = 2 / jnp.pi * size * (jnp.sqrt(1 - jnp.square(c)) + c * jnp.arcsin(c))
        return self.prefactor * (rho + variance + q - 2 * both)
