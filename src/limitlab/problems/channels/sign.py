"""Labels that are signs."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.checks import check_number
from limitlab.numerics.gauss.normal import HALF_LOG_2PI, erf, log_ndtr, log_normal, mills, truncated_variance
from limitlab.numerics.random import normal
from limitlab.numerics.trees import is_zero
from limitlab.problems.channels.base import Information, Output
from limitlab.problems.channels.binary import BinaryChannel
from limitlab.problems.channels.noisy import check_variance

__all__ = ["Sign"]

STEPS = 0.1 * np.arange(96)  # in x; both halves of the line, so all weights but the first count twice
WEIGHTS = np.where(STEPS == 0, 0.1, 0.2)


class Sign(BinaryChannel):
    r""":math:`y = \mathrm{sign}(z + \sqrt{\mathrm{variance}}\,\xi)`, then flipped with probability ``flip``.

    .. math:: Z = \epsilon + (1 - 2\epsilon)\,\Phi(t), \qquad t = y\omega/\sqrt{V + \sigma^2}
    """

    mirror: ClassVar[bool] = True

    variance: float = 0.0
    flip: float = 0.0

    @property
    def batch(self) -> int:
        return 256  # an integral is a hundred numbers

    def __check_init__(self):
        check_variance("Sign", self.variance)
        check_number("Sign", "flip", self.flip, low=0, high=0.5, open_high=True, remedy="Use 0 <= flip < 0.5.")

    def sample(self, key, z):
        noise, coin = jax.random.split(key)
        if not is_zero(self.variance):
            z = z + jnp.sqrt(self.variance) * normal(noise, z.shape, z.dtype)
        y = jnp.where(z >= 0, 1.0, -1.0).astype(z.dtype)
        if not is_zero(self.flip):
            y = jnp.where(jax.random.uniform(coin, z.shape) < self.flip, -y, y)
        return y

    def told(self, z, xp):
        keep = 1 - 2 * self.flip
        if is_zero(self.variance):
            return keep * xp.where(z >= 0, 1.0, -1.0)
        return keep * erf(z / np.sqrt(2 * self.variance), xp)

    def output(self, y, w, V):
        T = V + self.variance
        root = jnp.sqrt(T)
        t = y * w / root
        if is_zero(self.flip):
            return Output(log_ndtr(t), y * mills(t) / root, (truncated_variance(t) - 1) / T)
        log_z = jnp.logaddexp(jnp.log(self.flip), jnp.log1p(-2 * self.flip) + log_ndtr(t))
        g = (1 - 2 * self.flip) * y * jnp.exp(log_normal(t, 0.0, 1.0) - log_z) / root
        return Output(log_z, g, -g * (g + w / T))

    def mean_label(self, w, V):
        t = w / jnp.sqrt(V + self.variance)
        return (1 - 2 * self.flip) * jax.scipy.special.erf(t / jnp.sqrt(2.0))

    def features(self, V):
        return (0.0,), jnp.sqrt(V + self.variance)

    def bayes(self, m, V):
        r"""Both integrals over t >= 0 by the trapezoid rule: they are even, analytic and fall like :math:`e^{-x^2/2}`.

        With x^2 = t^2 + omega^2/m one step serves every m and V. The entropy of the flips is taken out, so that what
        is integrated vanishes away from the boundary.
        """
        T = V + self.variance
        x, share = jnp.asarray(STEPS), jnp.sqrt(T / (m + T))
        t, v = x * jnp.sqrt(m / (m + T)), x * share
        minus = log_ndtr(-t)
        plus = jnp.log1p(-jnp.exp(minus))
        certain = 0.0
        if not is_zero(self.flip):
            keep, lose = jnp.log1p(-2 * self.flip), jnp.log(self.flip)
            plus, minus = jnp.logaddexp(lose, keep + plus), jnp.logaddexp(lose, keep + minus)
            certain = self.flip * lose + (1 - self.flip) * jnp.log1p(-self.flip)
        weight = WEIGHTS * share * jnp.exp(log_normal(v, 0.0, 1.0))
        slope = jnp.square(1 - 2 * self.flip) * jnp.exp(-jnp.square(t) - 2 * HALF_LOG_2PI)
        g2 = jnp.sum(weight * slope * (jnp.exp(-plus) + jnp.exp(-minus))) / T
        phi = jnp.sum(weight * (jnp.exp(plus) * plus + jnp.exp(minus) * minus - certain))
        return Information(g2, phi + certain)

    def label_mse(self, m, V):
        T, keep = V + self.variance, (1 - 2 * self.flip) ** 2
        angle = jnp.arctan2(jnp.sqrt(T * (2 * m + T)), m)  # arccos(m/(rho + variance))
        return 1 - keep + keep * 2 / jnp.pi * angle

    def classification_error(self, m, V):
        angle = jnp.arctan2(jnp.sqrt(V + self.variance), jnp.sqrt(m))
        return self.flip + (1 - 2 * self.flip) * angle / jnp.pi
