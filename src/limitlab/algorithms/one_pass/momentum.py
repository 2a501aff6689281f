"""One-pass SGD with momentum."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.algorithms.checks import check_rate
from limitlab.algorithms.one_pass.base import AbstractOnePass
from limitlab.modules import field
from limitlab.numerics.checks import check_integer, check_number
from limitlab.numerics.trees import plain
from limitlab.states.run import Learner

__all__ = ["Momentum"]


class Momentum(AbstractOnePass):
    r"""One-pass SGD with a heavy ball: fresh samples at every step, and a memory of earlier gradients.

    .. math:: v \leftarrow \mu v + \nabla\ell, \qquad w \leftarrow w - \gamma v, \qquad
              a \leftarrow a - \frac{\kappa\gamma}{d} v_a

    with the mean gradient over ``batch_size`` samples, gamma = ``learning_rate``, mu = ``momentum``, kappa =
    ``second_layer_rate``. A gradient is used 1/(1 - mu) times in all, over a time that vanishes as d grows: there it
    should follow `OnlineSGD` of rate gamma/(1 - mu). Clock: t = gamma * step / ((1 - mu) p d).
    """

    clock_words: ClassVar[str] = "t = γ·step/((1-μ)·p·d)"
    memories: ClassVar[int] = 1
    reference: ClassVar[tuple[str, ...]] = ("polyak1964methods",)

    learning_rate: float
    momentum: float
    batch_size: int = field(static=True, converter=plain, default=1)
    second_layer_rate: float = 1.0

    def __check_init__(self):
        check_rate(self)
        check_number("Momentum", "momentum", self.momentum, low=0, high=1, open_high=True, remedy="Use 0 <= mu < 1.")
        check_integer("Momentum", "batch_size", self.batch_size, low=1, remedy="Each step needs a sample.")
        check_number(
            "Momentum", "second_layer_rate", self.second_layer_rate, low=0, remedy="Use 0 to freeze the second layer."
        )

    def clock(self, problem, d):
        """Macroscopic time per step, gamma/((1 - mu) p d)."""
        (student,) = problem.need("student", by="A clock")
        return self.learning_rate / ((1 - self.momentum) * student.units * d)

    def usual_limit(self, problem):
        return None

    def remember(self, student):
        return jax.tree.map(jnp.zeros_like, student)

    def move(self, setting, d, state, gradient, sample, n):
        v = jax.tree.map(lambda v, slope: self.momentum * v + slope, state.memory, gradient)

        def moved(theta, v, pace):
            return theta if pace is None else theta - self.learning_rate * pace.rate * v

        pace = setting.student.pace(state.student, float(d), self.second_layer_rate)
        return Learner(jax.tree.map(moved, state.student, v, pace), state.teacher, v)
