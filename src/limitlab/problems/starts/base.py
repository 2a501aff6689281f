r"""Where learning starts: a law of the overlaps

.. math:: Q = WW^T/d, \quad M = WW^{*T}/d, \quad P = W^*W^{*T}/d

at every dimension d, and its limit as d grows. Every start knows both.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.errors import InputError

__all__ = ["AbstractStart"]


class AbstractStart(eqx.Module):
    """A law of the overlaps (Q, M, P) and of the second layer a at time 0."""

    def draw(self, key: jax.Array, d: float, p: int, k: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        """One draw of (Q, M, P) at dimension d >= k; exact in law."""
        raise InputError(f"{type(self).__name__} does not know overlaps at finite d.")

    def limit(self, p: int, k: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(Q, M, P) as d goes to infinity."""
        raise InputError(f"{type(self).__name__} does not know overlaps in the limit.")

    def draw_second_layer(self, key: jax.Array, p: int) -> jax.Array:
        """One draw of the student's second layer."""
        return jnp.ones(p)

    @property
    def random(self) -> bool:
        """True if two draws differ."""
        return False
