"""Inputs of your own: copy, rename, change `draw`."""

import jax
import jax.numpy as jnp

import limitlab as ll
from limitlab import testing


class LaplaceInputs(ll.AbstractInputs):
    """Coordinates with heavier tails than normal, independent, variance 1/d so that |x|^2 is about 1."""

    # normal = True would promise that every field w.x is exactly normal; labelled = True that draw gives (x, y).

    def draw(self, key, count, d, dtype=float):
        return jax.random.laplace(key, (count, d), dtype) / jnp.sqrt(2.0 * d)


def check():
    testing.check_inputs(LaplaceInputs())
