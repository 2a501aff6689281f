"""What makes two points the same: a canonical description of problem, verb and arguments, and its hash.

The hash names a point's file and, with the sweep's seed, its random streams. See `limitlab.spec.describe` for what
two values have to share to be the same.
"""

from collections.abc import Callable
from typing import Any

from limitlab.problems.problem import Problem
from limitlab.spec.describe import Describer, hash_of, refuse
from limitlab.spec.places import place_of
from limitlab.spec.write import table_of

__all__ = ["NUMERICS_VERSION", "Identity", "describe", "hash_of", "point_seed", "verb_name"]

NUMERICS_VERSION = 8  # raised whenever a change of limitlab alters stored numbers by more than rounding


def point_seed(seed: int, point: str) -> int:
    """The seed of one point's random streams: below 2^62, so that 10^6 points share none, and any file can hold it."""
    return int(hash_of("stream", describe(seed), point), 16) >> 66


def verb_name(verb: Callable) -> str:
    """What a verb is called; a function without a name gives a "value"."""
    name = getattr(verb, "__name__", "")
    return name if name.isidentifier() else "value"


class Identity:
    """Describes the points of one sweep; users' functions and classes are looked into once for all of them.

    What cannot be described is refused if ``strict`` (a store could confuse two such points), and known by its type
    otherwise. With a ``name`` a user vouches for all code that is not limitlab's: it is known by that name and place.
    """

    def __init__(self, strict: bool = True, name: str | None = None):
        self._describe = Describer(refuse if strict and name is None else _by_type, look=name is None)

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Problem):  # functions were once listed apart
            return {"problem": self.table(value), "functions": []}
        return self._describe(value)

    def table(self, problem: Problem) -> dict[str, Any]:
        """The problem as nested tables."""
        return table_of(problem, self._describe)


def describe(value: Any, strict: bool = True) -> Any:
    """A value as JSON, equal for equal values (see `Identity`)."""
    return Identity(strict)(value)


def _by_type(thing: Any, words: str) -> dict[str, str]:
    return {"object": place_of(type(thing))}
