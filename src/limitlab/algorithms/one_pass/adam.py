"""Adam on fresh samples."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.algorithms.checks import check_rate
from limitlab.algorithms.one_pass.base import AbstractOnePass
from limitlab.modules import field
from limitlab.numerics.checks import check_integer, check_number
from limitlab.numerics.trees import plain
from limitlab.states.run import Learner

__all__ = ["Adam"]


class Adam(AbstractOnePass):
    r"""Adam on a fresh sample (or batch) at every step, bias-corrected, on all that is trained.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
              \theta \leftarrow \theta - \gamma\, \frac{m/(1 - \beta_1^n)}{\sqrt{v/(1 - \beta_2^n)} + \epsilon}

    with g the gradient of the sample's loss in theta and n the number of the step, from 1 on. A step has the size gamma
    in every coordinate, whatever the size of the gradient. Clock: t = gamma * step. No limit is known yet.
    """

    clock_words: ClassVar[str] = "t = γ·step"
    memories: ClassVar[int] = 2
    reference: ClassVar[tuple[str, ...]] = ("kingma2015adam",)

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    batch_size: int = field(static=True, converter=plain, default=1)

    def __check_init__(self):
        check_rate(self)
        for name in ("beta1", "beta2"):
            check_number("Adam", name, getattr(self, name), low=0, high=1, open_high=True, remedy="Use 0 <= beta < 1.")
        check_number("Adam", "epsilon", self.epsilon, low=0, open_low=True, remedy="Use a small one such as 1e-8.")
        check_integer("Adam", "batch_size", self.batch_size, low=1, remedy="Each step needs a sample.")

    def clock(self, problem, d):
        """Macroscopic time per step, gamma."""
        return self.learning_rate

    def usual_limit(self, problem):
        return None

    def remember(self, student):
        zeros = jax.tree.map(jnp.zeros_like, student)
        return zeros, zeros

    def move(self, setting, d, state, gradient, sample, n):
        def mix(beta, power):
            return lambda old, slope: beta * old + (1 - beta) * slope**power

        mean, square = (
            jax.tree.map(mix(beta, power), old, gradient)
            for beta, power, old in ((self.beta1, 1, state.memory[0]), (self.beta2, 2, state.memory[1]))
        )
        left = [1 - beta ** (n + 1.0) for beta in (self.beta1, self.beta2)]

        def moved(theta, m, v, pace):
            step = self.learning_rate * (m / left[0]) / (jnp.sqrt(v / left[1]) + self.epsilon)
            return theta if pace is None else theta - step

        pace = setting.student.pace(state.student, float(d), 1.0)
        return Learner(jax.tree.map(moved, state.student, mean, square, pace), state.teacher, (mean, square))
