"""A result before it is labelled: what one point of a sweep, or one member of a family, gave. How verbs do many."""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:  # stores are looked at without JAX
    from limitlab.problems.problem import Problem

__all__ = ["Families", "Point", "Table", "as_texts", "families_of", "in_families"]

V = TypeVar("V", bound=Callable)

Table = dict[str, tuple[tuple[str, ...], np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Point:
    """What a verb gave at one point: variables and coordinates as (dims, values), or why it gave nothing."""

    variables: Table = dataclasses.field(default_factory=dict)
    coords: Table = dataclasses.field(default_factory=dict)
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    reason: str = ""
    failure: str = "failed"  # the status of a point with a reason: failed, out_of_time, out_of_memory, killed

    @property
    def failed(self) -> bool:
        return self.reason != ""

    @property
    def status(self) -> tuple[tuple[str, ...], np.ndarray]:
        """How the point ended, in words, by replica if its result says so."""
        if self.failed:
            return (), np.asarray(self.failure)
        dims, words = self.variables.get("status", ((), np.asarray("ok")))
        return dims, as_texts(words)


def as_texts(values: np.ndarray) -> np.ndarray:
    """An array of any kind as texts; bytes that are none are written as \\xff."""
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "backslashreplace")
    return values if values.dtype.kind == "U" else values.astype(str)


@dataclasses.dataclass(frozen=True)
class Families:
    """How a verb does many points: those of one family, which differ in numbers only, in one compiled call.

    ``key(problem, keywords)`` is equal for points that may share a call, None for a point alone; it is cheap. Keywords
    are without the seed, and have to be the same too. ``many(problems, seeds, keywords)`` gives their results, as a
    `Point` or as the verb does. ``curve(problem, alphas, keywords)`` gives all sample ratios in one go, or None.
    ``smallest`` is the size from which on a family is worth a call; ``threads`` says that calls may run side by side.
    """

    verb: Callable
    smallest: int
    key: "Callable[[Problem, dict[str, Any]], Hashable | None]"
    many: "Callable[[Sequence[Problem], Sequence[int], dict[str, Any]], Sequence[Any]]"
    curve: "Callable[[Problem, np.ndarray, dict[str, Any]], Any]" = lambda problem, alphas, keywords: None
    threads: bool = False


def in_families(smallest: int, key: Callable, many: Callable, **more: Any) -> Callable[[V], V]:
    """Say of a verb how it does many points (see `Families`)."""

    def told(verb: V) -> V:
        vars(verb)["families"] = Families(verb, smallest, key, many, **more)
        return verb

    return told


def families_of(verb: Callable) -> Families | None:
    """What a verb says of itself; None if it does one point at a time, as a function that wraps another one does."""
    own = getattr(verb, "families", None)
    return own if isinstance(own, Families) and own.verb is verb else None
