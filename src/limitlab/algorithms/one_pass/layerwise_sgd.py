"""One layer after the other."""

from typing import ClassVar

import equinox as eqx

from limitlab.algorithms.checks import check_rate
from limitlab.numerics.checks import check_integer, check_number
from limitlab.problems.base import AbstractAlgorithm

__all__ = ["LayerwiseSGD"]


class LayerwiseSGD(AbstractAlgorithm):
    r"""One-pass SGD on the first layer up to ``switch_time``, then on the second layer alone.

    Up to ``switch_time`` the rule of `OnlineSGD` with a frozen second layer. Afterwards w is frozen, and the second
    layer is trained by SGD (``penalty=None``) or set once to the ridge fit of ``ridge_samples`` fresh samples,

    .. math:: \min_a \langle (y - f)^2 \rangle + \mathrm{penalty}\, \frac1p \sum_i a_i^2 .

    Clock: t = gamma * step / (p d), as for `OnlineSGD`.

    Parameters
    ----------
    interacting
        False leaves f out of the error of the first phase (y instead of y - f), as proofs like to do.
    """

    clock_words: ClassVar[str] = "t = γ·step/(p·d)"

    learning_rate: float
    switch_time: float
    penalty: float | None = None
    batch_size: int = eqx.field(static=True, default=1)
    second_layer_rate: float = 1.0
    interacting: bool = eqx.field(static=True, default=True)
    ridge_samples: int = eqx.field(static=True, default=10000)

    def __check_init__(self):
        check_rate(self)
        name = "LayerwiseSGD"
        check_number(name, "switch_time", self.switch_time, low=0, open_low=True, remedy="Use a positive time.")
        if self.penalty is not None:
            check_number(
                name, "penalty", self.penalty, low=0, open_low=True, remedy="Use a small one such as 1e-6, or None."
            )
        check_integer(name, "batch_size", self.batch_size, low=1, remedy="Each step needs a sample.")
        check_number(
            name, "second_layer_rate", self.second_layer_rate, low=0, open_low=True, remedy="Use a positive rate."
        )
        check_integer(name, "ridge_samples", self.ridge_samples, low=1, remedy="The ridge fit needs samples.")

    def clock(self, problem, d):
        """Macroscopic time per step, gamma/(p d)."""
        return self.learning_rate / (problem.student.units * d)

    def usual_limit(self, problem):
        if problem.inputs.labelled:
            return "RadialFlow"
        return "DimensionFree" if problem.teacher.latent else "OverlapODE"
