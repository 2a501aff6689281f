"""The losses of phase retrieval, which are not convex: they do not see the sign of the output."""

import jax.numpy as jnp

from limitlab.modules import field
from limitlab.numerics.checks import check_choice, check_number
from limitlab.problems.losses.base import AbstractLoss, Misfit

__all__ = ["AmplitudeLoss", "PhaseRetrievalLoss"]


def _check_prefactor(loss) -> None:
    check_number(type(loss).__name__, "prefactor", loss.prefactor, low=0, open_low=True, remedy="Use a positive one.")


def _squared(labels: str, y):
    return jnp.square(y) if labels == "modulus" else y


def _needs_modulus(loss, channel) -> Misfit:
    return Misfit(
        f"labels |z| (Problem.channel=Modulus()) for {type(loss).__name__}",
        channel,
        'Squares go with PhaseRetrievalLoss(labels="intensity"), labels with a sign with SquareLoss().',
    )


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
    labels: str = field(static=True, default="modulus")

    def __check_init__(self):
        _check_prefactor(self)
        check_choice("PhaseRetrievalLoss", "labels", self.labels, ("modulus", "intensity"))

    def reads(self, channel):
        if channel.modulus == self.labels:
            return None
        if self.labels == "modulus":
            return _needs_modulus(self, channel)
        return Misfit(f"channel=SquaredModulus() for {self}", channel, 'Labels |z| go with labels="modulus".')

    def learns(self, channel):
        return True

    def risk(self, channel, m, q, rho):
        if self.reads(channel) is not None or channel.added_variance is None:
            return super().risk(channel, m, q, rho)
        return self.expected(m, q, rho, jnp.asarray(channel.added_variance, float))

    @property
    def quartic(self):
        return 4 * self.prefactor

    def of_squares(self):
        return _SquaredField(self.prefactor, self.labels)

    def squares_prefactor(self, channel):
        return self.prefactor if channel.modulus == self.labels else None

    def value(self, y, z):
        return self.prefactor * jnp.square(_squared(self.labels, y) - jnp.square(z))

    def gradient(self, y, z):
        target = _squared(self.labels, y)
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


class _SquaredField(AbstractLoss):
    r""":math:`\mathrm{prefactor}\,(y^2 - f)^2`, or :math:`(y - f)^2` if ``labels`` are intensities."""

    prefactor: float
    labels: str = field(static=True)

    def value(self, y, z):
        return self.prefactor * jnp.square(_squared(self.labels, y) - z)

    def gradient(self, y, z):
        twice = 2 * self.prefactor
        return twice * (z - _squared(self.labels, y)), twice * jnp.ones_like(z)


class AmplitudeLoss(AbstractLoss):
    r""":math:`\mathrm{prefactor}\,(y - |f|)^2`, with a kink at f = 0."""

    prefactor: float = 0.5

    def __check_init__(self):
        _check_prefactor(self)

    @property
    def smooth(self):
        return False

    def reads(self, channel):
        return None if channel.modulus == "modulus" else _needs_modulus(self, channel)

    def learns(self, channel):
        return True

    def risk(self, channel, m, q, rho):
        if self.reads(channel) is not None or channel.added_variance is None:
            return super().risk(channel, m, q, rho)
        return self.expected(m, q, rho, jnp.asarray(channel.added_variance, float))

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
