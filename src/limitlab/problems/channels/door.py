"""Labels that say whether the output lies between two walls."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.numerics.checks import check_number
from limitlab.numerics.normal import HALF_LOG_2PI, log_ndtr
from limitlab.problems.channels.base import BinaryChannel, Output

__all__ = ["Door"]


class Door(BinaryChannel):
    r""":math:`y = \mathrm{sign}(|z| - \mathrm{width})`."""

    even: ClassVar[bool] = True

    width: float

    def __check_init__(self):
        check_number("Door", "width", self.width, low=0, open_low=True, remedy="Use a positive width.")

    def sample(self, key, z):
        return jnp.where(jnp.abs(z) >= self.width, 1.0, -1.0).astype(z.dtype)

    def output(self, y, w, V):
        root, size = jnp.sqrt(V), jnp.abs(w)
        a, b = (self.width - size) / root, (-self.width - size) / root
        inside = log_ndtr(a) + jnp.log1p(-jnp.exp(log_ndtr(b) - log_ndtr(a)))
        log_z = jnp.where(y > 0, jnp.logaddexp(log_ndtr(-a), log_ndtr(b)), inside)
        # phi(a)/Z and phi(b)/Z, each as one exponential: Z may be tiny
        at_a, at_b = (jnp.exp(-jnp.square(t) / 2 - HALF_LOG_2PI - log_z) for t in (a, b))
        s = jnp.where(y > 0, 1.0, -1.0)
        g = jnp.where(w < 0, -1.0, 1.0) * s * (at_a - at_b) / root
        return Output(log_z, g, s * (a * at_a - b * at_b) / V - jnp.square(g))

    def mean_label(self, w, V):
        out, inside = (jnp.exp(self.output(s * jnp.ones_like(w), w, V).log_z) for s in (1.0, -1.0))
        return out - inside

    def features(self, V):
        return (-self.width, self.width), jnp.sqrt(V)

    def boundary(self, V):
        def halve(_, bracket):
            low, high = bracket
            middle = (low + high) / 2
            inside = self.mean_label(middle, V) < 0
            return jnp.where(inside, middle, low), jnp.where(inside, high, middle)

        V = jnp.asarray(V, float)
        _, high = jax.lax.fori_loop(0, 60, halve, (jnp.zeros_like(V), self.width + 10 * jnp.sqrt(V)))
        return (-high, high)
