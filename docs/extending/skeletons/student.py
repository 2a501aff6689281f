"""A student of your own: copy, rename, change `begin` and `output`. Gradients are taken automatically."""

import jax
import jax.numpy as jnp

import limitlab as ll
from limitlab import testing


class LinearWithOffset(ll.AbstractStudent):
    """f = w.x + c, with an offset that is trained too."""

    def begin(self, key, frame, start, teacher, d):  # parameters at time 0 (any tree), and the teacher's weights
        star = None if teacher is None else teacher.draw(jax.random.fold_in(key, 1), d)
        return {"w": start.weights(key, 1, d, None)[0], "c": jnp.zeros(())}, star

    def output(self, parameters, x):  # x (n, d) -> f (n,)
        return x @ parameters["w"] + parameters["c"]


def check():
    testing.check_student(LinearWithOffset())
