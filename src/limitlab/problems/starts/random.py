"""A random start."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import field
from limitlab.numerics.checks import check_choice, check_number
from limitlab.numerics.linalg import on_sphere
from limitlab.numerics.random import normal, wishart
from limitlab.problems.starts.base import AbstractStart, Order
from limitlab.problems.starts.matrices import (
    check_teacher_gram,
    optional_matrix,
    root,
    teacher_gram,
)
from limitlab.problems.starts.neurons import Neurons

__all__ = ["RandomStart"]

SECOND_LAYERS = ("ones", "rademacher", "uniform", "gaussian")


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
    second_layer_scale
        The number by which the second layer is multiplied: 20 makes "uniform" one on [-20, 20].
    bias_scale
        Biases, if the student has them, start as N(0, bias_scale^2).
    """

    joint: ClassVar[bool] = True
    reference: ClassVar[tuple[str, ...]] = ("benarous2021online",)  # overlaps of order d^-1/2 and the time they cost
    alone: ClassVar[bool] = True
    ADDED: ClassVar[tuple[str, ...]] = ("second_layer_scale",)

    scale: float = 1.0
    sphere: bool = field(static=True, default=False)
    second_layer: str = field(static=True, default="ones")
    P: np.ndarray | None = field(converter=optional_matrix, default=None)
    bias_scale: float = 0.0
    second_layer_scale: float = 1.0

    def __check_init__(self):
        check_number("RandomStart", "bias_scale", self.bias_scale, low=0, remedy="Use 0 to start without biases.")
        check_number("RandomStart", "scale", self.scale, low=0, open_low=True, remedy="Use a positive scale.")
        check_number(
            "RandomStart",
            "second_layer_scale",
            self.second_layer_scale,
            low=0,
            open_low=True,
            remedy="Use 1 for a second layer of order one.",
        )
        check_choice("RandomStart", "second_layer", self.second_layer, SECOND_LAYERS)
        if self.P is not None:
            check_teacher_gram("RandomStart", self.P)

    def draw(self, key, d, p, k):
        P = teacher_gram(self.P, k)
        key_m, key_q = jax.random.split(key)
        G = normal(key_m, (p, k))
        M = G @ root(P) / jnp.sqrt(d)
        Q = (G @ G.T + wishart(key_q, p, d - k)) / d
        if self.sphere:
            norm = jnp.sqrt(jnp.diagonal(Q))
            Q, M = Q / (norm[:, None] * norm[None, :]), M / norm[:, None]
            Q = Q.at[jnp.diag_indices(p)].set(1.0)
        return self.scale**2 * Q, self.scale * M, P

    def limit(self, p, k):
        return self.scale**2 * jnp.eye(p), jnp.zeros((p, k)), teacher_gram(self.P, k)

    def weights(self, key, p, d, directions):
        W = normal(key, (p, d))
        if self.sphere:
            W = W * jnp.sqrt(d / jnp.sum(W**2, axis=1, keepdims=True))
        return self.scale * W

    def draw_bias(self, key, p):
        return self.bias_scale * normal(key, (p,))

    def draw_second_layer(self, key, p):
        return self.second_layer_scale * self._layer(key, p)

    def _layer(self, key, p):
        if self.second_layer == "rademacher":
            return jax.random.rademacher(key, (p,), dtype=float)
        if self.second_layer == "uniform":
            return jax.random.uniform(key, (p,), minval=-1.0, maxval=1.0)
        if self.second_layer == "gaussian":
            return normal(key, (p,))
        return jnp.ones(p)

    @property
    def one_layer(self):
        return self.second_layer == "ones" and float(self.second_layer_scale) == 1.0

    @property
    def blind(self) -> bool:
        return True

    @property
    def random(self) -> bool:
        return True

    @property
    def random_layer(self) -> str:
        return "" if self.second_layer == "ones" else self.second_layer

    @property
    def on_sphere(self) -> bool:
        return self.sphere

    @property
    def isotropic(self) -> bool:
        return self.P is None

    def neurons(self, student):
        return Neurons(
            self.scale, self.sphere, self.second_layer, student.output_weights, self.bias_scale, self.second_layer_scale
        )

    def direction(self, key, teacher, spherical):
        w = self.scale * normal(key, teacher.shape)
        if spherical:
            return on_sphere(w)
        return self.scale * on_sphere(w) if self.sphere else w

    def direction_overlaps(self, rho, spherical, d=None):
        """A random direction has m = sqrt(q rho/d) at dimension d, and 0 in the limit."""
        q = 1.0 if spherical else float(self.scale) ** 2
        return (0.0 if d is None else float(np.sqrt(q * rho / d))), q

    def order(self, rho, d=None):
        q = float(self.scale) ** 2
        return Order(0.0 if d is None else np.sqrt(q * rho / float(d)), q, rho)

    def check_estimate(self, by, channel, known, teacher):
        pass

    def estimate(self, key, evidence):
        """a = scale * xi, on the sphere if asked, v = rho.

        It says more than it knows (q > m), so use a small scale such as 0.01; from 0.3 on many runs end badly.
        """
        d, rho = evidence.X.shape[1], jnp.asarray(evidence.prior.second_moment, float)
        xi = normal(key, (d,))
        xi = xi * jnp.sqrt(d / jnp.sum(jnp.square(xi))) if self.sphere else xi
        return self.scale * xi, jnp.full(d, rho)

    def matrix_overlap(self, K):
        return np.zeros((K, K))

    def matrix_estimate(self, key, directions):
        """Different columns a = scale * xi, V = I; use a small scale such as 0.01."""
        K, d = directions.shape
        return self.scale * normal(key, (d, K)), jnp.eye(K)
