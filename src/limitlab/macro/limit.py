"""What a limit is."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx

from limitlab.problems.asked import Asked
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
    axis
        Along what the result is reported: "time", "iteration", or "" for a fixed point. Times are asked for if it is
        "time".
    curve
        Optional: ``curve(problem, alphas)``, the results at many sample ratios in one go; `sweep` uses it.
    family, family_key
        Optional: ``family(problems, times)``, the results (a list of `limitlab.results.points.Point`) of several
        problems that differ in numbers only, in one compiled call. None may depend, to the last bit, on which other
        problems share the call or in which order, as long as their number is the same (a power of two, at least 8).
        ``family_key(problem)`` is equal for problems that may share a call, and None for one that has to be solved
        alone; it is cheap. `sweep` uses both.
    """

    reference: ClassVar[str]
    rate: ClassVar[dict[str, float]]
    axis: ClassVar[str] = "time"

    @property
    def in_time(self) -> bool:
        """Whether times are asked for."""
        return self.axis == "time"

    def setting(self, problem: Problem, asked: Asked) -> Any:
        """The problem as `solve` wants it: every part there, with its type; or a refusal in words."""
        return problem

    def check(self, problem: Problem) -> None:
        """Raise `LimitUndefinedError` (needed, got, try instead) unless the limit is defined for the problem."""
        self.setting(problem, Asked(type(self).__name__))

    @abstractmethod
    def solve(self, setting: Any, times: Any) -> "xr.Dataset":
        """The macrostate at the asked times (None if not ``in_time``), in the schema of `limitlab.results.schema`."""

    def parsed(self, problem: Problem) -> Any:
        """What `solve` gets: the setting, or the problem itself once `check` has seen it."""
        setting = self.setting(problem, Asked(type(self).__name__))
        if setting is problem:
            self.check(problem)
        return setting
