"""A start near the teacher."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.problems.starts.base import AbstractStart, Order

__all__ = ["InformedStart"]


class InformedStart(AbstractStart):
    r"""Every student unit has ``overlap`` m0 with one teacher unit, the i-th with the (i mod k)-th.

    .. math:: w_i = m_0 w^*_{i \bmod k} + \sqrt{1 - m_0^2}\, u_i

    with the u_i orthonormal (times sqrt(d)) and orthogonal to an orthonormal teacher, so M and Q are exact at
    every d >= p + k (d >= k if |m0| = 1).
    """

    joint: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    overlap: float

    def __check_init__(self):
        check_number("InformedStart", "overlap", self.overlap, low=-1, high=1, remedy="It is a cosine.")

    @property
    def blind(self):
        return float(self.overlap) == 0

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

    def direction(self, key, teacher, spherical):
        """Exactly the asked cosine with the teacher, and |w|^2 = d."""
        d = teacher.shape[0]
        z = jax.random.normal(key, (d,))
        along = teacher / jnp.linalg.norm(teacher)
        z = z - (z @ along) * along
        c = self.overlap
        return jnp.sqrt(float(d)) * (c * along + jnp.sqrt(1 - jnp.square(c)) * z / jnp.linalg.norm(z))

    def direction_overlaps(self, rho, spherical, d=None):
        return float(self.overlap) * np.sqrt(rho), 1.0

    def order(self, rho, d=None):
        share = float(self.overlap)
        return Order(share * rho, share * rho, (1 - share) * rho)

    def check_estimate(self, by, channel, known, teacher):
        if not teacher:
            raise InputError(f"{by} does not know the teacher that InformedStart is near. Use one of {known}.")
        if float(self.overlap) < 0:
            raise InputError(
                f"{by} needs InformedStart.overlap = m/rho in [0, 1], an overlap of a posterior mean with the teacher; "
                f"got {float(self.overlap):g}."
            )

    def estimate(self, key, evidence):
        r"""A posterior mean with m = overlap * rho,

        .. math:: a = \frac{m}{\rho} w^* + \sqrt{m (1 - m/\rho)}\, \xi, \qquad v = \rho - m,

        on the Nishimori line (q = m, V = rho - m), so that its cosine with the teacher is sqrt(overlap).
        """
        if evidence.teacher is None:
            raise InputError("InformedStart needs a teacher to be near to. Use SpectralStart() or RandomStart(0.01).")
        d, rho, share = evidence.X.shape[1], jnp.asarray(evidence.prior.second_moment, float), self.overlap
        xi = jax.random.normal(key, (d,))
        a = share * evidence.teacher + jnp.sqrt(rho * share * (1 - share)) * xi
        return a, jnp.full(d, rho * (1 - share))
