"""Empirical risk minimisation."""

from typing import ClassVar

from limitlab.numerics.checks import check_number
from limitlab.problems.base import AbstractAlgorithm

__all__ = ["ERM"]


class ERM(AbstractAlgorithm):
    r"""Exact minimisation of :math:`\sum_\mu \ell(y_\mu, w\cdot x_\mu) + \tfrac12\,\mathrm{penalty}\,|w|^2`."""

    axis: ClassVar[str] = ""
    reference: ClassVar[tuple[str, ...]] = ("aubin2020generalization",)

    penalty: float = 0.0

    def __check_init__(self):
        check_number("ERM", "penalty", self.penalty, low=0, remedy="Use 0 for none.")

    def usual_limit(self, problem):
        return "ERMAsymptotics"
