r"""Where learning starts: a law of the overlaps

.. math:: Q = WW^T/d, \quad M = WW^{*T}/d, \quad P = W^*W^{*T}/d

at every dimension d, and its limit as d grows. Every start knows both.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.checks import check_choice, check_number, check_psd
from limitlab.numerics.random import wishart

__all__ = ["AbstractStart", "InformedStart", "OverlapStart", "RandomStart", "SpectralStart"]

MAX_OVERLAP = 1e100  # entries of overlap matrices: products of larger ones may overflow
SECOND_LAYERS = ("ones", "rademacher", "uniform", "gaussian")


def _matrix(value) -> np.ndarray:
    return np.atleast_2d(np.asarray(value, dtype=float))


def _optional_matrix(value) -> np.ndarray | None:
    return None if value is None else _matrix(value)


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


class RandomStart(AbstractStart):
    r"""Student weights :math:`w_{ij} \sim N(0, \mathrm{scale}^2)`, teacher of Gram matrix ``P`` (default identity).

    With ``sphere=True`` each :math:`w_i` is then put on the sphere of radius ``scale`` sqrt(d). At finite d the
    overlaps are :math:`O(d^{-1/2})` and random; in the limit M = 0 and Q = scale^2 I, which is often a fixed point:
    ask a limit for a finite d (``OverlapODE(d=...)``) to keep them.

    Parameters
    ----------
    scale
        The norm of w is about scale * sqrt(d).
    second_layer
        "ones", "rademacher", "uniform" on [-1, 1] or "gaussian".
    bias_scale
        Biases, if the student has them, start as N(0, bias_scale^2).
    """

    scale: float = 1.0
    sphere: bool = eqx.field(static=True, default=False)
    second_layer: str = eqx.field(static=True, default="ones")
    P: np.ndarray | None = eqx.field(converter=_optional_matrix, default=None)
    bias_scale: float = 0.0

    def __check_init__(self):
        check_number("RandomStart", "bias_scale", self.bias_scale, low=0, remedy="Use 0 to start without biases.")
        check_number("RandomStart", "scale", self.scale, low=0, open_low=True, remedy="Use a positive scale.")
        check_choice("RandomStart", "second_layer", self.second_layer, SECOND_LAYERS)
        if self.P is not None:
            _check_teacher_gram("RandomStart", self.P)

    def draw(self, key, d, p, k):
        P = _teacher_gram(self.P, k)
        key_m, key_q = jax.random.split(key)
        G = jax.random.normal(key_m, (p, k))
        M = G @ _root(P) / jnp.sqrt(d)
        Q = (G @ G.T + wishart(key_q, p, d - k)) / d
        if self.sphere:
            norm = jnp.sqrt(jnp.diagonal(Q))
            Q, M = Q / (norm[:, None] * norm[None, :]), M / norm[:, None]
            Q = Q.at[jnp.diag_indices(p)].set(1.0)
        return self.scale**2 * Q, self.scale * M, P

    def limit(self, p, k):
        return self.scale**2 * jnp.eye(p), jnp.zeros((p, k)), _teacher_gram(self.P, k)

    def draw_second_layer(self, key, p):
        if self.second_layer == "rademacher":
            return jax.random.rademacher(key, (p,), dtype=float)
        if self.second_layer == "uniform":
            return jax.random.uniform(key, (p,), minval=-1.0, maxval=1.0)
        if self.second_layer == "gaussian":
            return jax.random.normal(key, (p,))
        return jnp.ones(p)

    @property
    def random(self) -> bool:
        return True


class OverlapStart(AbstractStart):
    r"""Given overlaps, realised exactly at every d not below the rank of the joint Gram matrix.

    Parameters
    ----------
    Q, M, P
        Student-student (p, p), student-teacher (p, k) and teacher-teacher (k, k) overlaps. Numbers are taken as
        1x1 matrices.
    """

    Q: np.ndarray = eqx.field(converter=_matrix)
    M: np.ndarray = eqx.field(converter=_matrix)
    P: np.ndarray = eqx.field(converter=_matrix)

    def __check_init__(self):
        for name in ("Q", "M", "P"):
            _check_matrix("OverlapStart", name, getattr(self, name))
        p, k = self.M.shape
        if self.Q.shape != (p, p) or self.P.shape != (k, k):
            raise InputError(
                f"OverlapStart needs Q (p, p), M (p, k), P (k, k); got shapes {self.Q.shape}, {self.M.shape}, "
                f"{self.P.shape}. M has one row per student unit and one column per teacher unit."
            )
        check_psd("OverlapStart", "Q", self.Q)
        check_psd("OverlapStart", "P", self.P)
        check_psd("OverlapStart", "Omega = [[Q, M], [M^T, P]]", np.block([[self.Q, self.M], [self.M.T, self.P]]))

    def draw(self, key, d, p, k):
        return self.limit(p, k)

    def limit(self, p, k):
        return jnp.asarray(self.Q), jnp.asarray(self.M), jnp.asarray(self.P)


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


class SpectralStart(AbstractStart):
    r"""The leading eigenvector u of a matrix made of the data, for channels that do not see the sign of z.

    .. math:: X^T \mathrm{diag}(T(y)) X, \quad T(y) = 1 - \frac{\rho}{E[z^2|y]}, \qquad
              a = \sqrt{\mathrm{overlap}\, \rho\, d}\; u, \quad v = (1 - \mathrm{overlap})\,\rho

    with T kept above -20 (``E[z^2|y]`` may be 0). It needs data: it has no law of overlaps apart from them.

    Parameters
    ----------
    overlap
        The overlap m/rho that the eigenvector is taken to have; between weak and perfect, 0.3 is a fair guess.
    """

    overlap: float = 0.3

    def __check_init__(self):
        check_number(
            "SpectralStart", "overlap", self.overlap, low=0, high=1, open_low=True, open_high=True, remedy="Use 0.3."
        )

    @property
    def random(self) -> bool:
        return True


def _check_matrix(owner: str, name: str, matrix: np.ndarray) -> None:
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(f"{owner}.{name} must be a matrix of numbers, row by row; got shape {matrix.shape}.")
    largest = float(np.max(np.abs(matrix)))
    if not largest <= MAX_OVERLAP:
        raise InputError(
            f"{owner}.{name} must have finite entries of size at most {MAX_OVERLAP:g}; the largest is {largest:g}. "
            "Overlaps are of order 1."
        )


def _check_teacher_gram(owner: str, P: np.ndarray) -> None:
    _check_matrix(owner, "P", P)
    if P.shape[0] != P.shape[1]:
        raise InputError(f"{owner}.P must be a square matrix (teacher, teacher); got shape {P.shape}.")
    check_psd(owner, "P", P)


def _teacher_gram(P, k: int) -> jax.Array:
    if P is None:
        return jnp.eye(k)
    if P.shape != (k, k):
        raise InputError(f"RandomStart.P must have shape {(k, k)}, one row per teacher unit; got {P.shape}.")
    return jnp.asarray(P)


def _root(P: jax.Array) -> jax.Array:
    values, vectors = jnp.linalg.eigh(P)
    return (vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
