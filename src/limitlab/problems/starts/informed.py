"""A start near the teacher."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_number
from limitlab.numerics.random import normal
from limitlab.problems.starts.base import AbstractStart, Order
from limitlab.problems.starts.matrices import check_matrix, matrix

__all__ = ["InformedStart"]


def _number_or_matrix(value: Any) -> Any:
    """A list of rows as an array; numbers, and what is no such list, as they came."""
    rows = isinstance(value, (list, tuple)) and all(isinstance(row, (list, tuple, np.ndarray)) for row in value)
    return matrix(value) if (rows and len(value)) or (isinstance(value, np.ndarray) and value.ndim > 1) else value


def _check_matrix(M: np.ndarray) -> None:
    check_matrix("InformedStart", "overlap", M)
    if M.shape[0] != M.shape[1] or np.max(np.abs(M - M.T)) > 1e-12:
        raise InputError(
            f"InformedStart.overlap must be a number or a symmetric matrix; got {M.tolist()}. Use (M + M.T)/2, say."
        )
    values = np.linalg.eigvalsh(M)
    if values[0] < -1e-12 or values[-1] > 1 + 1e-12:
        raise InputError(
            f"InformedStart.overlap must have eigenvalues in [0, 1]: it is the overlap of a posterior mean; got "
            f"{values.tolist()}. Make it smaller."
        )


class InformedStart(AbstractStart):
    r"""Every student unit has ``overlap`` m0 with one teacher unit, the i-th with the (i mod k)-th.

    .. math:: w_i = m_0 w^*_{i \bmod k} + \sqrt{1 - m_0^2}\, u_i

    with the u_i orthonormal (times sqrt(d)) and orthogonal to an orthonormal teacher, so M and Q are exact at
    every d >= p + k (d >= k if |m0| = 1).

    For message passing on a `MultiIndex` teacher ``overlap`` may be a symmetric K x K matrix M with eigenvalues in
    [0, 1] (a number stands for that multiple of the identity). The estimate is then on the Nishimori line,

    .. math:: a = W^{*T} M + (M - M^2)^{1/2} \xi, \qquad V = I - M.
    """

    joint: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    overlap: float | np.ndarray = field(converter=_number_or_matrix)

    def __check_init__(self):
        if np.ndim(self.overlap) == 2:
            return _check_matrix(np.asarray(self.overlap))
        check_number("InformedStart", "overlap", self.overlap, low=-1, high=1, remedy="It is a cosine.")

    @property
    def share(self) -> Any:
        """The overlap if it is a number."""
        if np.ndim(self.overlap) == 2:
            raise InputError(
                "InformedStart with a matrix is for message passing on a MultiIndex teacher. Give a number here, or "
                "OverlapStart(Q, M, P)."
            )
        return self.overlap

    @property
    def blind(self):
        return not np.any(np.asarray(self.overlap))

    def matrix_overlap(self, K):
        M = np.asarray(self.overlap, float)
        if M.ndim == 2 and len(M) != K:
            raise InputError(
                f"InformedStart.overlap must be a number or a {K} x {K} matrix beside {K} directions; got shape "
                f"{M.shape}."
            )
        if M.ndim == 0 and float(M) < 0:
            raise InputError(f"InformedStart.overlap must be in [0, 1] for message passing; got {float(M):g}.")
        return M if M.ndim == 2 else float(M) * np.eye(K)

    def matrix_estimate(self, key, directions):
        K, d = directions.shape
        M = jnp.asarray(self.overlap) * jnp.eye(K) if np.ndim(self.overlap) == 0 else jnp.asarray(self.overlap)
        values, vectors = jnp.linalg.eigh(M)
        spread = (vectors * jnp.sqrt(jnp.clip(values * (1 - values), 0.0))) @ vectors.T
        return directions.T @ M + normal(key, (d, K)) @ spread, jnp.eye(K) - M

    def draw(self, key, d, p, k):
        return self.limit(p, k)

    def weights(self, key, p, d, directions):
        """The same with u_i orthogonal to directions of any Gram matrix, each taken at length sqrt(d)."""
        if directions is None:
            raise InputError("InformedStart needs a teacher with directions to be near to. Use RandomStart().")
        k = directions.shape[0]
        if d < p + k and float(abs(self.share)) < 1:
            raise InputError(
                f"InformedStart needs d >= {p + k} dimensions for {p} student and {k} teacher units; got d={d}."
            )
        frame, _ = jnp.linalg.qr(jnp.concatenate([directions.T, normal(key, (d, p))], axis=1))
        near = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
        fresh = frame.T[k : k + p]
        return jnp.sqrt(float(d)) * (self.share * near[jnp.arange(p) % k] + jnp.sqrt(1 - self.share**2) * fresh)

    def limit(self, p, k):
        M = self.share * np.eye(k)[np.arange(p) % k]  # of NumPy unless the share is traced: operations are no programs
        return M @ M.T + (1 - self.share**2) * np.eye(p), M, np.eye(k)

    def direction(self, key, teacher, spherical):
        """Exactly the asked cosine with the teacher, and |w|^2 = d."""
        d = teacher.shape[0]
        z = normal(key, (d,))
        along = teacher / jnp.linalg.norm(teacher)
        z = z - (z @ along) * along
        c = self.share
        return jnp.sqrt(float(d)) * (c * along + jnp.sqrt(1 - jnp.square(c)) * z / jnp.linalg.norm(z))

    def direction_overlaps(self, rho, spherical, d=None):
        return float(self.share) * np.sqrt(rho), 1.0

    def order(self, rho, d=None):
        share = float(self.share)
        return Order(share * rho, share * rho, (1 - share) * rho)

    def check_estimate(self, by, channel, known, teacher):
        if not teacher:
            raise InputError(f"{by} does not know the teacher that InformedStart is near. Use one of {known}.")
        if float(self.share) < 0:
            raise InputError(
                f"{by} needs InformedStart.overlap = m/rho in [0, 1], an overlap of a posterior mean with the teacher; "
                f"got {float(self.share):g}."
            )

    def estimate(self, key, evidence):
        r"""A posterior mean with m = overlap * rho,

        .. math:: a = \frac{m}{\rho} w^* + \sqrt{m (1 - m/\rho)}\, \xi, \qquad v = \rho - m,

        on the Nishimori line (q = m, V = rho - m), so that its cosine with the teacher is sqrt(overlap).
        """
        if evidence.teacher is None:
            raise InputError("InformedStart needs a teacher to be near to. Use SpectralStart() or RandomStart(0.01).")
        d, rho, share = evidence.X.shape[1], jnp.asarray(evidence.prior.second_moment, float), self.share
        xi = normal(key, (d,))
        a = share * evidence.teacher + jnp.sqrt(rho * share * (1 - share)) * xi
        return a, jnp.full(d, rho * (1 - share))
