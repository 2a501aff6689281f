"""Descent on a fresh share of the samples at every step."""

from typing import ClassVar

from limitlab.algorithms.descent.base import check_descent_rule
from limitlab.algorithms.descent.masked import AbstractMaskedDescent, check_mask, mask_scale, uniform
from limitlab.modules import field

__all__ = ["StochasticGD"]


class StochasticGD(AbstractMaskedDescent):
    r"""Each step uses every sample with probability b = ``batch_fraction``. Clock: t = learning_rate * step.

    Parameters
    ----------
    scale
        The force of a sample in the batch is multiplied by "1/b", so that its mean is that of full-batch descent, or
        by "1": then a run is that of "1/b" with b times the learning rate, and at a time t it is where that is at b t.
    fresh
        n new samples at every step, as in `GradientDescent`.
    """

    takes: ClassVar[str] = "a fixed data set, a new random share of it at every step"

    learning_rate: float
    batch_fraction: float
    spherical: bool = field(static=True, default=True)
    penalty: float = 0.0
    scale: str = field(static=True, converter=mask_scale, default="1/b")
    fresh: bool = field(static=True, default=False)

    def __check_init__(self):
        check_descent_rule(self)
        check_mask(self)

    def next_mask(self, key, mask, width=1):
        return uniform(key, mask.shape) < self.batch_fraction
