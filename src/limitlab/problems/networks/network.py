"""The microstate of a two-layer network."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

__all__ = ["Network"]

WIDE = 8  # units, from which on weights are held column by column: of the two layouts the faster one (measured)


class Network(eqx.Module):
    """Weights of p units in d dimensions, second layer a (p,), biases b (p,) or None.

    How the weights lie in memory is the network's own business: `rows` is (p, d) always.
    """

    W: Any
    a: Any
    b: Any = None
    columns: bool = eqx.field(static=True, default=False)

    @classmethod
    def of(cls, rows: jax.Array, a: jax.Array, b: jax.Array | None = None) -> "Network":
        """The network whose units have the weights ``rows`` (p, d)."""
        columns = rows.shape[-2] >= WIDE
        return cls(jnp.swapaxes(rows, -1, -2) if columns else rows, a, b, columns)

    @property
    def rows(self) -> jax.Array:
        return jnp.swapaxes(self.W, -1, -2) if self.columns else self.W

    @property
    def width(self) -> int:
        return self.a.shape[-1]

    def fields(self, x: jax.Array) -> jax.Array:
        """lambda (n, p) = w_i . x + b_i."""
        lam = x @ self.W if self.columns else x @ self.W.T
        return lam if self.b is None else lam + self.b

    def spread(self, C: jax.Array, x: jax.Array) -> jax.Array:
        """sum_mu C_mu,i x_mu, laid out as W."""
        if len(x) == 1:  # an outer product fuses with the sum to which it is added
            return x.T * C if self.columns else C[0][:, None] * x
        return x.T @ C if self.columns else C.T @ x

    def on_sphere(self) -> "Network":
        """Every unit put on the sphere of radius sqrt(d)."""
        axis = 0 if self.columns else 1
        d = self.W.shape[axis]
        W = self.W * jnp.sqrt(d / jnp.sum(jnp.square(self.W), axis=axis, keepdims=True))
        return Network(W, self.a, self.b, self.columns)
