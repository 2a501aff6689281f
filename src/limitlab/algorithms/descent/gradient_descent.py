"""Full-batch descent."""

import equinox as eqx

from limitlab.algorithms.descent.base import check_descent_rule
from limitlab.algorithms.descent.rule import AbstractDescentRule

__all__ = ["GradientDescent"]


class GradientDescent(AbstractDescentRule):
    r"""Full-batch descent on a fixed data set: sigma = 1, T = 0. Clock: t = learning_rate * step."""

    learning_rate: float
    spherical: bool = eqx.field(static=True, default=True)
    penalty: float = 0.0

    def __check_init__(self):
        check_descent_rule(self)
