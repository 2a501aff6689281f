"""Standard normal inputs."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.problems.base import AbstractInputs

__all__ = ["Gaussian"]


class Gaussian(AbstractInputs):
    r""":math:`x \sim N(0, I_d/d)`."""

    normal: ClassVar[bool] = True

    def draw(self, key, count, d, dtype=float):
        return jax.random.normal(key, (count, d), dtype) / jnp.sqrt(jnp.asarray(d, dtype))
