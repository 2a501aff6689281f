"""What `simulate` asks of a learning rule, and what it gets back."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from limitlab.states.view import Variable
from limitlab.verbs import Progress

__all__ = ["Request", "Seen", "second_times"]

GRID = 51  # of two times, the earlier takes at most so many values


class Request(NamedTuple):
    """Runs of a rule at dimension d, seen at the asked times: the whole ``steps`` of a ``clock`` nearest to them.

    ``first`` is the number of the first run: a rule that heeds it (``in_portions``) can be asked for a part of them.
    """

    d: int
    times: np.ndarray | None
    steps: np.ndarray | None
    replicas: int = 1
    seed: int = 0
    representation: str = "weights"
    progress: Progress | None = None
    clock: float = 1.0
    first: int = 0

    @property
    def numbers(self) -> range:
        """Of the runs: each has its own keys, whichever others are asked for with it."""
        return range(self.first, self.first + self.replicas)

    @property
    def clocked(self) -> tuple[np.ndarray, np.ndarray]:
        """Times and steps of a rule that has a clock."""
        if self.times is None or self.steps is None:
            raise TypeError("A rule with a clock is asked for times and steps.")
        return self.times, self.steps


class Seen(NamedTuple):
    """What was seen: name -> (dims, values), coordinates alike, the method's name, its reference, and attributes.

    A rule that reports what the schema does not know says what it is in ``declared``: name -> `Variable`.
    """

    variables: Mapping[str, tuple[Any, Any]]
    coords: Mapping[str, Any]
    method: str
    reference: str | None = None
    attrs: Mapping[str, Any] = {}
    declared: Mapping[str, Variable] = {}


def second_times(times: np.ndarray) -> np.ndarray:
    """Which of the asked times are kept as the earlier of two: all if few, else 51 spread evenly."""
    return np.unique(np.rint(np.linspace(0, len(times) - 1, min(len(times), GRID))).astype(int))
