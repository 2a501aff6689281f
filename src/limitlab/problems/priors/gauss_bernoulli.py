"""Sparse weights."""

import jax
import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.numerics.gauss.normal import log_normal
from limitlab.numerics.random import normal
from limitlab.problems.priors.base import AbstractPrior, Posterior

__all__ = ["GaussBernoulliPrior"]


class GaussBernoulliPrior(AbstractPrior):
    r""":math:`w = 0` with probability 1 - density, else :math:`N(0, \mathrm{variance})`."""

    density: float
    variance: float = 1.0

    def __check_init__(self):
        check_number(
            "GaussBernoulliPrior", "density", self.density, low=0, high=1, open_low=True, remedy="Use 0 < density <= 1."
        )
        check_number(
            "GaussBernoulliPrior", "variance", self.variance, low=0, open_low=True, remedy="Use a positive one."
        )

    @property
    def second_moment(self):
        return self.density * self.variance

    @property
    def reach(self):
        return 9 * jnp.sqrt(self.variance)

    @property
    def dimension(self):
        return self.density

    def sample(self, key, shape):
        coin, size = jax.random.split(key)
        w = jnp.sqrt(self.variance) * normal(size, shape)
        return jnp.where(jax.random.uniform(coin, shape) < self.density, w, 0.0)

    def denoise(self, A, B):
        v = self.variance / (1 + A * self.variance)
        mean = B * v
        slab = jnp.log(self.density) - jnp.log1p(A * self.variance) / 2 + B * mean / 2
        empty = jnp.log1p(-self.density) + 0 * B  # -inf at density 1: there is no atom
        log_z = jnp.logaddexp(slab, empty)
        p, r = jnp.exp(slab - log_z), jnp.exp(empty - log_z)
        return Posterior(log_z, p * mean, p * v + p * r * jnp.square(mean))

    def log_evidence(self, m_hat, q_hat, B):
        slab = jnp.log(self.density) + log_normal(B, 0.0, q_hat + jnp.square(m_hat) * self.variance)
        return jnp.logaddexp(slab, jnp.log1p(-self.density) + log_normal(B, 0.0, q_hat))
