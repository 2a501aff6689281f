"""Points that share a compiled call, by verbs that know how: the verb is asked, whichever it is."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from limitlab.problems.problem import Problem
from limitlab.results.points import Point, families_of
from limitlab.sweep.table import table_of

__all__ = ["Family", "family", "family_of"]


class Family(NamedTuple):
    """What points that may share a call have in common, and how many it takes before they do."""

    smallest: int
    own: Hashable
    keywords: str | None


def family_of(
    verb: Callable, problem: Problem, keywords: dict[str, Any], described: Callable[[], str | None]
) -> Family | None:
    """The family of a point, as far as its problem says; None: a point alone. ``described`` names its keywords."""
    families = families_of(verb)
    own = None if families is None else families.key(problem, keywords)
    return None if families is None or own is None else Family(families.smallest, own, described())


def family(
    verb: Callable, name: str, problems: Sequence[Problem], seeds: Sequence[int], keywords: dict[str, Any]
) -> list[Point]:
    """The points of problems of one `Family`."""
    families = families_of(verb)
    results = [] if families is None else families.many(problems, seeds, keywords)
    return [result if isinstance(result, Point) else table_of(result, name) for result in results]
