"""What a limit is."""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import numpy as np

from limitlab.problems.problem import Problem

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["AbstractLimit"]


class AbstractLimit(eqx.Module):
    """A limit in which the problem has an exact law.

    Class attributes
    ----------------
    reference
        A key of ``references.bib``.
    rate
        Declared finite-size exponents: ``{"d": -0.5}`` says that a single run differs from the limit by O(d^-1/2).
    """

    reference: ClassVar[str]
    rate: ClassVar[dict[str, float]]

    @abstractmethod
    def check(self, problem: Problem) -> None:
        """Raise `LimitUndefinedError` (needed, got, try instead) unless the limit is defined for the problem."""

    @abstractmethod
    def solve(self, problem: Problem, times: np.ndarray) -> "xr.Dataset":
        """The macrostate at the asked times, in the schema of `limitlab.results.schema`."""
