"""What a check of a formula is: a statement, and a function that gives a value, what it should be, and a wrong one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from limitlab._setup import double

__all__ = ["Formula", "Measured", "Shelf"]


class Measured(NamedTuple):
    """A number computed in one way, the same in another, how far apart they may be, and what a mistake would give.

    ``tolerance`` is four standard errors if one of the two is a mean of random numbers, else what rounding and
    quadrature leave. ``wrong`` is the control: it must be farther from ``expected`` than that.
    """

    value: float
    expected: float
    tolerance: float
    wrong: float

    @property
    def ok(self) -> bool:
        """Whether the value is the expected one, and the wrong one is not."""
        return abs(self.value - self.expected) <= self.tolerance < abs(self.wrong - self.expected)

    @property
    def detail(self) -> str:
        """The numbers in words."""
        return (
            f"{self.value:.8g}, expected {self.expected:.8g} to {self.tolerance:.1g} (off by "
            f"{abs(self.value - self.expected):.1g}; control: a mistake gives {self.wrong:.6g})"
        )


@dataclass(frozen=True)
class Formula:
    """A named statement and the function that puts it to the test."""

    name: str
    statement: str
    measure: Callable[[], Measured]


class Shelf(dict[str, Formula]):
    """The formulas of one module by name, each put there by a decorator above its function."""

    def __init__(self, prefix: str):
        super().__init__()
        self._prefix = prefix

    def __call__(self, statement: str) -> Callable[[Callable[[], Measured]], Callable[[], Measured]]:
        """``@shelf("statement")``: the function's name, with hyphens, is the formula's."""

        def put(function: Callable[[], Measured]) -> Callable[[], Measured]:
            name = f"{self._prefix}/{function.__name__.replace('_', '-')}"
            self[name] = Formula(name, statement, double(function))
            return function

        return put
