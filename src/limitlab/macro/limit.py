"""What a limit is."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx

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
    in_time
        False if the limit has no time axis (a fixed point, or iterations of its own): then times are not asked for.
    curve
        Optional: ``curve(problem, alphas)``, the results at many sample ratios in one go; `sweep` uses it.
    """

    reference: ClassVar[str]
    rate: ClassVar[dict[str, float]]
    in_time: ClassVar[bool] = True

    @abstractmethod
    def check(self, problem: Problem) -> None:
        """Raise `LimitUndefinedError` (needed, got, try instead) unless the limit is defined for the problem."""

    @abstractmethod
    def solve(self, problem: Problem, times: Any) -> "xr.Dataset":
        """The macrostate at the asked times (None if not ``in_time``), in the schema of `limitlab.results.schema`."""
