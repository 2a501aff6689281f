"""Kinds of rules that settings ask for, below the rules themselves."""

from limitlab.modules import AbstractVar
from limitlab.problems.base import AbstractAlgorithm

__all__ = ["AbstractFit"]


class AbstractFit(AbstractAlgorithm):
    r"""A rule that ends in argmin :math:`\sum_\mu \ell(y_\mu, w\cdot x_\mu) + \tfrac12\,\mathrm{penalty}\,|w|^2`."""

    penalty: AbstractVar[float]
