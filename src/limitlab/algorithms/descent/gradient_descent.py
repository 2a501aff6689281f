"""Full-batch descent."""

from limitlab.algorithms.descent.base import check_descent_rule
from limitlab.algorithms.descent.rule import AbstractDescentRule
from limitlab.modules import field

__all__ = ["GradientDescent"]


class GradientDescent(AbstractDescentRule):
    r"""Full-batch descent on a fixed data set: sigma = 1, T = 0. Clock: t = learning_rate * step.

    ``fresh``: n new samples at every step in place of the data set, the control of what reusing a batch brings.
    """

    learning_rate: float
    spherical: bool = field(static=True, default=True)
    penalty: float = 0.0
    fresh: bool = field(static=True, default=False)

    def __check_init__(self):
        check_descent_rule(self)
