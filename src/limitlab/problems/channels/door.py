"""Labels that say whether the output lies between two walls."""

import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.numerics.gauss.normal import log_ndtr, log_normal, mills, truncated_variance
from limitlab.numerics.roots import bisect
from limitlab.problems.channels.base import Output
from limitlab.problems.channels.binary import BinaryChannel
from limitlab.problems.channels.modulus import output_of_halves

__all__ = ["Door"]


class Door(BinaryChannel):
    r""":math:`y = \mathrm{sign}(|z| - \mathrm{width})`."""

    width: float

    @property
    def even(self):
        return True

    def __check_init__(self):
        check_number("Door", "width", self.width, low=0, open_low=True, remedy="Use a positive width.")

    def sample(self, key, z):
        return jnp.where(jnp.abs(z) >= self.width, 1.0, -1.0).astype(z.dtype)

    def told(self, z, xp):
        return xp.where(xp.abs(z) >= self.width, 1.0, -1.0)

    def output(self, y, w, V):
        root, size = jnp.sqrt(V), jnp.abs(w)
        a, b = (self.width - size) / root, (-self.width - size) / root
        below_a, below_b = log_ndtr(a), log_ndtr(b)
        beyond = output_of_halves(
            (log_ndtr(-a), mills(-a) / root, (truncated_variance(-a) - 1) / V),
            (below_b, -mills(b) / root, (truncated_variance(b) - 1) / V),
        )
        log_share = below_b - below_a
        log_z = jnp.where(y > 0, beyond.log_z, below_a + jnp.log1p(-jnp.exp(log_share)))
        # phi(a)/Z and phi(b)/Z inside, each as one exponential: Z may be tiny
        at_a, at_b = (jnp.exp(log_normal(t, 0.0, 1.0) - log_z) for t in (a, b))
        g = jnp.where(y > 0, beyond.g, (at_b - at_a) / root)
        # far outside both terms of the plain form are a^2: there the near wall alone, then what the other adds
        keep, h = -jnp.expm1(log_share), mills(a)
        near_wall = (truncated_variance(a) - 1) / keep - jnp.exp(log_share) * jnp.square(h / keep)
        far = near_wall + at_b * (b + 2 * at_a - at_b)
        inside = jnp.where(a < -5, far, b * at_b - a * at_a - jnp.square(at_a - at_b))
        return Output(log_z, jnp.where(w < 0, -g, g), jnp.where(y > 0, beyond.dg, inside / V))

    def mean_label(self, w, V):
        out, inside = (jnp.exp(self.output(s * jnp.ones_like(w), w, V).log_z) for s in (1.0, -1.0))
        return out - inside

    def features(self, V):
        return (-self.width, self.width), jnp.sqrt(V)

    def switches(self, V):
        return ((0.0, V / self.width),)  # outside, but through which wall?

    def boundary(self, V):
        V = jnp.asarray(V, float)
        farthest = self.width + 10 * jnp.sqrt(V)
        _, high = bisect(lambda w: self.mean_label(w, V) < 0, jnp.zeros_like(V), farthest)
        return (-high, high)
