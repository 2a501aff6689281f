"""Gaussian weights."""

import jax
import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.numerics.random import normal
from limitlab.problems.priors.base import AbstractPrior, BayesWeights, Posterior

__all__ = ["GaussianPrior"]


class GaussianPrior(AbstractPrior):
    r""":math:`w \sim N(0, \mathrm{variance})`."""

    variance: float = 1.0

    def __check_init__(self):
        check_number("GaussianPrior", "variance", self.variance, low=0, open_low=True, remedy="Use a positive one.")

    @property
    def second_moment(self):
        return self.variance

    @property
    def reach(self):
        return 9 * jnp.sqrt(self.variance)

    def sample(self, key, shape):
        return jnp.sqrt(self.variance) * normal(key, shape)

    def vector(self, key, d):
        r"""On the sphere :math:`|w|^2 = \rho d`: direction and norm are independent, so that this only removes the
        O(d^{-1/2}) scatter of the norm. Other priors are left alone: scaling would change the law of their entries."""
        w = self.sample(key, (d,))
        return w * jnp.sqrt(self.second_moment * d / jnp.sum(jnp.square(w)))

    @property
    def gaussian(self):
        return True

    def blocks(self, key, places, squares):
        """On a sphere in every block, of mean square ``squares`` there: as in `vector`, only scatter is removed."""
        w, count = normal(key, (len(places),)), len(squares)
        total, size = (jax.ops.segment_sum(x, places, count) for x in (jnp.square(w), jnp.ones_like(w)))
        return w * jnp.sqrt(squares * size / jnp.where(size > 0, total, 1.0))[places]

    def denoise(self, A, B):
        v = self.variance / (1 + A * self.variance)
        return Posterior(B**2 * v / 2 - jnp.log1p(A * self.variance) / 2, B * v, v + 0 * B)

    def bayes(self, A):
        rho, gain = self.variance, 1 + A * self.variance
        return BayesWeights(rho * (A * rho) / gain, rho / gain, (rho * A - jnp.log1p(rho * A)) / 2)

    def overlaps(self, m_hat, q_hat, A):
        v = self.variance / (1 + A * self.variance)
        return self.variance * m_hat * v, (self.variance * m_hat**2 + q_hat) * v**2, v + 0 * m_hat
