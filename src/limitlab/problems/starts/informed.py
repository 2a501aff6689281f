"""A start near the teacher."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.problems.starts.base import AbstractStart

__all__ = ["InformedStart"]


class InformedStart(AbstractStart):
    r"""Every student unit has ``overlap`` m0 with one teacher unit, the i-th with the (i mod k)-th.

    .. math:: w_i = m_0 w^*_{i \bmod k} + \sqrt{1 - m_0^2}\, u_i

    with the u_i orthonormal (times sqrt(d)) and orthogonal to an orthonormal teacher, so M and Q are exact at
    every d >= p + k (d >= k if |m0| = 1).
    """

    joint: ClassVar[bool] = True

    overlap: float

    def __check_init__(self):
        check_number("InformedStart", "overlap", self.overlap, low=-1, high=1, remedy="It is a cosine.")

    def draw(self, key, d, p, k):
        return self.limit(p, k)

    def weights(self, key, p, d, directions):
        """The same with u_i orthogonal to directions of any Gram matrix, each taken at length sqrt(d)."""
        if directions is None:
            raise InputError("InformedStart needs a teacher with directions to be near to. Use RandomStart().")
        k = directions.shape[0]
        if d < p + k and float(abs(self.overlap)) < 1:
            raise InputError(
                f"InformedStart needs d >= {p + k} dimensions for {p} student and {k} teacher units; got d={d}."
            )
        frame, _ = jnp.linalg.qr(jnp.concatenate([directions.T, jax.random.normal(key, (d, p))], axis=1))
        near = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
        fresh = frame.T[k : k + p]
        return jnp.sqrt(float(d)) * (self.overlap * near[jnp.arange(p) % k] + jnp.sqrt(1 - self.overlap**2) * fresh)

    def limit(self, p, k):
        M = self.overlap * jnp.eye(k)[jnp.arange(p) % k]
        return M @ M.T + (1 - self.overlap**2) * jnp.eye(p), M, jnp.eye(k)
