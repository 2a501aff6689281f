"""A teacher of your own: copy, rename, change `draw` and `output`."""

import jax
import jax.numpy as jnp

import limitlab as ll
from limitlab import testing


class CubicTeacher(ll.AbstractTeacher):
    """z = u + share u^3 with u = w.x, w on the sphere |w|^2 = d."""

    share: float = 0.1  # fields are keyword arguments, printed and hashed

    def draw(self, key, d):  # any tree of arrays
        w = jax.random.normal(key, (d,))
        return w * jnp.sqrt(d / jnp.sum(w**2))

    def output(self, weights, x):  # x (n, d) -> z (n,), before the channel
        u = x @ weights
        return u + self.share * u**3

    def directions(self, weights):  # with these overlaps are measured; leave it out if there are none
        return weights[None, :]


def check():
    testing.check_teacher(CubicTeacher())
