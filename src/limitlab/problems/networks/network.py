"""The microstate of a two-layer network."""

from typing import Any

import jax
import jax.numpy as jnp

from limitlab.modules import Module

__all__ = ["Network"]

FEW = 3  # units, and
SMALL = 2**16  # numbers of inputs, up to which products with vectors are the faster ones


class Network(Module):
    """Weights W (p, d) of p units in d dimensions, second layer a (p,), biases b (p,) or None."""

    W: Any
    a: Any
    b: Any = None

    @classmethod
    def of(cls, rows: jax.Array, a: jax.Array, b: jax.Array | None = None) -> "Network":
        """The network whose units have the weights ``rows`` (p, d)."""
        return cls(rows, a, b)

    @property
    def rows(self) -> jax.Array:
        return self.W

    @property
    def width(self) -> int:
        return self.a.shape[-1]

    def fields(self, x: jax.Array) -> jax.Array:
        """lambda (n, p) = w_i . x + b_i."""
        if len(x) == 1:  # a product with a vector is the faster one
            lam = (self.W @ x[0])[None]
        else:
            lam = jnp.stack([x @ w for w in self.W], axis=1) if self.thin(x) else x @ self.W.T
        return lam if self.b is None else lam + self.b

    def spread(self, C: jax.Array, x: jax.Array) -> jax.Array:
        """sum_mu C_mu,i x_mu, laid out as W."""
        if len(x) == 1:  # an outer product fuses with the sum to which it is added
            return C[0][:, None] * x
        return jnp.stack([c @ x for c in C.T]) if self.thin(x) else C.T @ x

    def thin(self, x: jax.Array) -> bool:
        """Two or three units and inputs within the cache: products with vectors are twice as fast as one of matrices.

        More so if many networks make their steps side by side.
        """
        return 2 <= self.width <= FEW and x.size <= SMALL

    def on_sphere(self) -> "Network":
        """Every unit put on the sphere of radius sqrt(d)."""
        W = self.W * jnp.sqrt(self.W.shape[1] / jnp.sum(jnp.square(self.W), axis=1, keepdims=True))
        return Network(W, self.a, self.b)
