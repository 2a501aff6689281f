"""Two classes of normal inputs that differ in width."""

import jax
import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.problems.inputs.labelled import AbstractLabelledInputs

__all__ = ["AnisotropicMixture", "IsotropicMixture"]


def _classes(key: jax.Array, count: int) -> jax.Array:
    return jax.random.rademacher(key, (count,), dtype=float)


def _check_delta(mixture) -> None:
    name = type(mixture).__name__
    check_number(name, "delta", mixture.delta, low=0, high=1, open_high=True, remedy="Use 0 <= delta < 1.")


class IsotropicMixture(AbstractLabelledInputs):
    r""":math:`y = \pm 1` with equal odds, :math:`x = (1 + y\,\mathrm{delta})\,z`, :math:`z \sim N(0, I_d/d)`."""

    delta: float

    def __check_init__(self):
        _check_delta(self)

    def draw(self, key, count, d):
        key_y, key_z = jax.random.split(key)
        y = _classes(key_y, count)
        z = jax.lax.optimization_barrier(jax.random.normal(key_z, (count, d)))
        return ((1 + self.delta * y) / jnp.sqrt(float(d)))[:, None] * z, y


class AnisotropicMixture(AbstractLabelledInputs):
    r"""As `IsotropicMixture` on a ``fraction`` of the coordinates; the others have variance 1/d in both classes.

    At dimension d these are the first round(fraction d) coordinates.
    """

    delta: float
    fraction: float

    def __check_init__(self):
        _check_delta(self)
        check_number(
            "AnisotropicMixture", "fraction", self.fraction, low=0, high=1, remedy="It is a share of coordinates."
        )

    def informative(self, d: int) -> int:
        """How many coordinates tell the classes apart."""
        return round(float(self.fraction) * d)

    def draw(self, key, count, d):
        key_y, key_z = jax.random.split(key)
        y = _classes(key_y, count)
        z = jax.lax.optimization_barrier(jax.random.normal(key_z, (count, d)))
        scale = jnp.where(jnp.arange(d) < jnp.round(self.fraction * d), 1 + self.delta * y[:, None], 1.0)
        return scale * z / jnp.sqrt(float(d)), y
