"""Descent with thermal noise."""

from limitlab.algorithms.descent.base import check_descent_rule
from limitlab.algorithms.descent.rule import AbstractDescentRule
from limitlab.modules import field
from limitlab.numerics.checks import check_number

__all__ = ["Langevin"]


class Langevin(AbstractDescentRule):
    r"""Full-batch descent with thermal noise, T = ``temperature``. Clock: t = learning_rate * step.

    ``fresh``: n new samples at every step, as in `GradientDescent`.
    """

    learning_rate: float
    temperature: float
    spherical: bool = field(static=True, default=True)
    penalty: float = 0.0
    fresh: bool = field(static=True, default=False)

    def __check_init__(self):
        check_descent_rule(self)
        check_number("Langevin", "temperature", self.temperature, low=0, remedy="Use 0 for plain descent.")

    @property
    def heat(self):
        return self.temperature
