"""Signs."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.problems.base import AbstractInputs

__all__ = ["Hypercube"]


class Hypercube(AbstractInputs):
    r""":math:`x` uniform on :math:`\{-1, 1\}^d/\sqrt d`."""

    signs: ClassVar[bool] = True

    def draw(self, key, count, d, dtype=float):
        """One random bit for each entry."""
        words = jax.random.bits(key, (count, -(-d // 32)), jnp.uint32)
        bits = (words[:, :, None] >> jnp.arange(32, dtype=jnp.uint32)) & jnp.uint32(1)
        signs = 1 - 2 * bits.reshape(count, -1)[:, :d].astype(dtype)
        return signs / jnp.sqrt(jnp.asarray(d, dtype))
