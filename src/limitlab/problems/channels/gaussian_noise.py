"""Labels that are the output itself, with or without Gaussian noise."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.numerics.gauss.normal import log_normal
from limitlab.numerics.gauss.rules import normal_nodes
from limitlab.problems.channels.base import AbstractChannel, Law, Output, check_variance, is_zero, weight_floor

__all__ = ["GaussianNoise"]


class GaussianNoise(AbstractChannel):
    r""":math:`y = z + \sqrt{\mathrm{variance}}\,\xi`."""

    labels: ClassVar[str] = "real"

    variance: float = 0.0

    def __check_init__(self):
        check_variance(self)

    def sample(self, key, z):
        if is_zero(self.variance):
            return z
        return z + jnp.sqrt(self.variance) * jax.random.normal(key, z.shape, z.dtype)

    def output(self, y, w, V):
        T = V + self.variance
        return Output(log_normal(y, w, T), (y - w) / T, -1 / T + 0 * (y + w))

    def mean_label(self, w, V):
        return w

    def law(self, q, slope, V0, V):
        x, p = normal_nodes()
        w = weight_floor(q) * (x[:, None] + 0 * x)
        y = slope * w + jnp.sqrt(V0 + self.variance) * x
        return Law(y, w, jnp.asarray(p[:, None] * p))

    def label_mse(self, m, V):
        return V + self.variance

    @property
    def noiseless_rate(self):
        return 1.0 if is_zero(self.variance) else 0.0
