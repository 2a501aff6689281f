"""What is seen of a run: arrays by name, at each asked step, and how they are reported."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax

from limitlab.modules import Module

__all__ = ["RUN", "AbstractView", "Report", "Variable", "assembled"]

RUN = ("time", "iteration", "replica")  # along which a run is seen


class Variable(NamedTuple):
    """Which reserved dimensions a variable may have (swept parameters are always allowed), and what it is."""

    dims: tuple[str, ...]
    long_name: str


def assembled(*kinds: Any) -> dict[str, Variable]:
    """All ``variables`` of some kinds of macrostates; each name is described once, and others refer to it."""
    table: dict[str, Variable] = {}
    for kind in kinds:
        for name, variable in kind.variables.items():
            if table.setdefault(name, variable) is not variable:
                raise TypeError(
                    f"{name!r} of {kind.__name__} is described elsewhere already. Refer to it, or rename it."
                )
    return table


class Report(NamedTuple):
    """name -> (dims, values), coordinates besides those of the loop, and attributes."""

    variables: Mapping[str, tuple[Any, Any]]
    coords: Mapping[str, Any] = {}
    attrs: Mapping[str, Any] = {}


class AbstractView(Module):
    """The map from the microstates of all replicas to a macrostate: the only one for its kind.

    Attributes
    ----------
    variables
        What it reports: name -> `Variable` (dimensions, words). The schema of results is made of these.
    steady
        Names of what never changes, and stays when a run has died.
    """

    variables: ClassVar[dict[str, Variable]] = {"risk": Variable(RUN, "population risk E loss, noise floor included")}
    steady: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def see(self, state: Any, step: int) -> dict[str, jax.Array]:
        """Arrays whose first axis is that of replicas."""

    @abstractmethod
    def report(self, path: Mapping[str, Any]) -> Report:
        """What was seen along axes (time, replica, ...), in the schema."""
