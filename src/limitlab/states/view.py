"""What is seen of a run: arrays by name, at each asked step, and how they are reported."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax

__all__ = ["AbstractView", "Report"]


class Report(NamedTuple):
    """name -> (dims, values), coordinates besides those of the loop, and attributes."""

    variables: Mapping[str, tuple[Any, Any]]
    coords: Mapping[str, Any] = {}
    attrs: Mapping[str, Any] = {}


class AbstractView(eqx.Module):
    """The map from the microstates of all replicas to a macrostate: the only one for its kind."""

    steady: ClassVar[tuple[str, ...]] = ()  # names of what never changes, and stays when a run has died

    @abstractmethod
    def see(self, state: Any, step: int) -> dict[str, jax.Array]:
        """Arrays whose first axis is that of replicas."""

    @abstractmethod
    def report(self, path: Mapping[str, Any]) -> Report:
        """What was seen along axes (time, replica, ...), in the schema."""
