"""What a limit is."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from limitlab.numerics.machine import Memory, check_memory
from limitlab.problems.asked import Asked
from limitlab.problems.part import Part
from limitlab.problems.problem import Problem
from limitlab.results.points import Point
from limitlab.states.view import Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["AbstractLimit"]


class AbstractLimit(Part):
    """A limit in which the problem has an exact law.

    A limit of a user's own has `check` and `solve(problem, times)`, which fills a Dataset by
    `limitlab.results.schema.dataset`. Ours have `setting` in place of `check`: it turns the problem into an object
    whose parts are there and have their types, and `solve` gets that.

    Attributes
    ----------
    grows, stays, needs, cost
        What goes to infinity, what stays as it is, what a problem must have, and what it costs to compute: a few words
        each, of which the table of limits in the documentation is made.
    reference
        A key of ``references.bib``.
    rate
        Declared finite-size exponents: ``{"d": -0.5}`` says that a single run differs from the limit by O(d^-1/2).
    axis
        Along what the result is reported: "time", "iteration", or "" for a fixed point. Times are asked for if it is
        "time".
    variables
        What it reports: name -> `Variable` (dimensions, words). The words of macrostates that others report as well
        are in `limitlab.states`, and a limit refers to them. For an order parameter that no other result has they
        stand in the limit itself; `solve` then hands them to `dataset` as ``declared=self.variables``.
    """

    grows: ClassVar[str] = ""
    stays: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    cost: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    rate: ClassVar[dict[str, float]] = {}
    axis: ClassVar[str] = "time"
    variables: ClassVar[dict[str, Variable]] = {}

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

    def memory(self, setting: Any, times: Any) -> Memory | None:
        """The bytes that `solve` holds at its peak, from its arguments alone; None if they are few or not known.

        `predict` asks before it solves, and refuses what this machine cannot hold.
        """
        return None

    def parsed(self, problem: Problem) -> Any:
        """What `solve` gets: the setting, or the problem itself once `check` has seen it."""
        setting = self.setting(problem, Asked(type(self).__name__))
        if setting is problem:
            self.check(problem)
        return setting

    def kin(self, problem: Problem) -> Hashable | None:
        """Equal for problems that may share a call of `many`, which differ in numbers only; None: to be solved alone.

        It is cheap: `sweep` asks it of every point.
        """
        return None

    def many(self, problems: Sequence[Problem], times: Any) -> "list[Point] | list[xr.Dataset]":
        """The results of problems of one `kin`, in one compiled call if the limit knows how; else one by one.

        None may depend, to the last bit, on which other problems share the call or in which order, as long as their
        number is the same (a power of two, at least 8).
        """
        return [self._answer(problem, times) for problem in problems]

    def _answer(self, problem: Problem, times: Any) -> "xr.Dataset":
        setting = self.parsed(problem)
        check_memory(self.memory(setting, times), by=type(self).__name__)
        return self.solve(setting, times)

    def curve(self, problem: Problem, alphas: Any) -> "xr.Dataset | None":
        """The results at many sample ratios in one go; None if the limit does not know how."""
        return None
