"""Labels that are a function of the output, with or without Gaussian noise."""

from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.numerics.random import normal
from limitlab.numerics.trees import is_zero
from limitlab.problems.channels.base import AbstractChannel

__all__ = ["AbstractNoisyChannel", "check_nonnegative", "check_variance"]


def check_variance(name: str, variance: Any) -> None:
    check_number(name, "variance", variance, low=0, remedy="It is the variance of the label noise: use 0 for none.")


class AbstractNoisyChannel(AbstractChannel):
    r""":math:`y = \phi(z) + \sqrt{\mathrm{variance}}\,\xi` with phi = ``clean``."""

    labels: ClassVar[str] = "real"

    variance: float = 0.0

    def __check_init__(self):
        check_variance(type(self).__name__, self.variance)

    @property
    def added_variance(self):
        return self.variance

    @property
    def noise(self) -> Any:
        """The variance; None if there is no noise by declaration, which is another formula, not a small number."""
        return None if is_zero(self.variance) else self.variance

    @abstractmethod
    def clean(self, z: jax.Array) -> jax.Array:
        """The label without noise."""

    def sample(self, key, z):
        y = self.clean(z)
        if self.noise is None:
            return y
        return y + jnp.sqrt(self.noise) * normal(key, z.shape, z.dtype)


def check_nonnegative(y, channel: AbstractNoisyChannel, by: str):
    """Labels of a modulus or a rectifier without noise have no sign."""
    if channel.noise is None and (y < 0).any():
        raise InputError(f"{by}: labels of a noiseless {type(channel).__name__} are >= 0; the least is {y.min():g}.")
    return y
