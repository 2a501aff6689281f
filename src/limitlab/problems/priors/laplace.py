"""Weights with exponential tails."""

import jax
import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.numerics.gauss.normal import log_ndtr, mills, pair_shares, truncated_variance
from limitlab.problems.priors.base import AbstractPrior, Posterior

__all__ = ["LaplacePrior"]


class LaplacePrior(AbstractPrior):
    r""":math:`p(w) = e^{-|w|/\mathrm{scale}}/(2\,\mathrm{scale})`."""

    scale: float

    def __check_init__(self):
        check_number("LaplacePrior", "scale", self.scale, low=0, open_low=True, remedy="Use a positive scale.")

    @property
    def second_moment(self):
        return 2 * self.scale**2

    @property
    def reach(self):
        return 40 * self.scale

    def sample(self, key, shape):
        return self.scale * jax.random.laplace(key, shape)

    def denoise(self, A, B):
        A = jnp.maximum(A, 1e-12 / self.scale**2)  # the flat limit: below, the prior alone decides
        sd = 1 / jnp.sqrt(A)
        plus, minus = self._half(B, sd), self._half(-B, sd)
        log_z, p, r = pair_shares(plus[0], minus[0])
        mean = p * plus[1] - r * minus[1]
        variance = p * plus[2] + r * minus[2] + p * r * jnp.square(plus[1] + minus[1])
        return Posterior(log_z, mean, variance)

    def _half(self, B, sd):
        """(log weight, mean, variance) of w > 0, where the prior is e^{-w/scale}/(2 scale)."""
        t = (B - 1 / self.scale) * sd
        # Phi(t) e^{t^2/2} = sqrt(1/2 pi)/h(t): no large squares to cancel for t << 0
        low = -jnp.log(mills(jnp.minimum(t, 0.0)))
        high = jnp.square(jnp.maximum(t, 0.0)) / 2 + log_ndtr(jnp.maximum(t, 0.0)) + 0.5 * jnp.log(2 * jnp.pi)
        log_weight = jnp.where(t < 0, low, high) + jnp.log(sd / (2 * self.scale))
        return log_weight, sd * (t + mills(t)), jnp.square(sd) * truncated_variance(t)

    def log_evidence(self, m_hat, q_hat, B):
        lean = m_hat * self.scale  # B = lean * (w/scale) + sqrt(q_hat) z
        root = jnp.sqrt(q_hat)

        def half(b):
            t = b / root - root / lean
            return q_hat / (2 * lean**2) - b / lean + log_ndtr(t)

        return jnp.logaddexp(half(B), half(-B)) - jnp.log(2 * lean)
