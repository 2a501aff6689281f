"""A learning rule of your own with a fresh sample at every step: copy, rename, change `move` and `clock`."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab import extending as ex
from limitlab import testing


class SignSGD(ex.AbstractOnePass):
    """w <- w - gamma sign(gradient)/sqrt(d). Clock: t = gamma * step / sqrt(d)."""

    clock_words: ClassVar[str] = "t = γ·step/√d"

    learning_rate: float

    def clock(self, problem, d):  # time gained per step
        return self.learning_rate / np.sqrt(d)

    def usual_limit(self, problem):
        return None  # no limit is claimed

    def move(self, setting, d, state, gradient, sample, n):  # the state after step n
        size = self.learning_rate / jnp.sqrt(float(d))
        pace = setting.student.pace(state.student, float(d), 1.0)  # None where a parameter stands still
        moved = jax.tree.map(
            lambda w, g, pace: w if pace is None else w - size * jnp.sign(g), state.student, gradient, pace
        )
        return ex.Learner(moved, state.teacher)


def check():
    testing.check_algorithm(
        ll.Problem(
            teacher=ll.Committee(width=2, activation="erf"),
            student=ll.Committee(width=2, activation="erf"),
            loss=ll.SquareLoss(),
            start=ll.RandomStart(),
            algorithm=SignSGD(0.2),
        )
    )
