"""A start near the teacher."""

import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.problems.starts.base import AbstractStart

__all__ = ["InformedStart"]


class InformedStart(AbstractStart):
    r"""Every student unit has ``overlap`` m0 with one teacher unit, the i-th with the (i mod k)-th.

    .. math:: w_i = m_0 w^*_{i \bmod k} + \sqrt{1 - m_0^2}\, u_i

    with the u_i orthonormal (times sqrt(d)) and orthogonal to an orthonormal teacher, so M and Q are exact at
    every d >= p + k (d >= k if |m0| = 1).
    """

    overlap: float

    def __check_init__(self):
        check_number("InformedStart", "overlap", self.overlap, low=-1, high=1, remedy="It is a cosine.")

    def draw(self, key, d, p, k):
        return self.limit(p, k)

    def limit(self, p, k):
        M = self.overlap * jnp.eye(k)[jnp.arange(p) % k]
        return M @ M.T + (1 - self.overlap**2) * jnp.eye(p), M, jnp.eye(k)
