"""Verbs that know how to compute many points in one compiled call: predictions by some limits, small simulations."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from limitlab.errors import InputError
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.predict import limit_of, predict
from limitlab.micro import online_family
from limitlab.micro.simulate import simulate
from limitlab.problems.problem import Problem
from limitlab.results.points import Point
from limitlab.sweep.table import table_of

__all__ = ["Family", "family", "family_key", "smallest"]

FEW = 8  # predictions: fewer are not worth a call of their own, and would not fill a vector register
MANY = 128  # simulations: fewer are done before the call is compiled
ASKED = {"d", "times", "replicas", "representation"}  # of simulate; who asks for progress runs alone


class Family(NamedTuple):
    """What points that may share a call have in common, and how many it takes before they do."""

    smallest: int
    own: Hashable
    keywords: str | None


def smallest(verb: Callable) -> int:
    """The smallest family of a verb that is worth a call of its own."""
    return MANY if verb is simulate else FEW


def family_key(verb: Callable, problem: Problem, keywords: dict[str, Any]) -> Hashable | None:
    """Equal for points that may share a call, as far as their problems say; None: a point alone.

    Keywords are without the seed; those of points that share a call have to be the same.
    """
    if verb is simulate:
        fitting = {"d", "times"} <= set(keywords) <= ASKED
        try:
            return online_family.family_key(problem, **keywords) if fitting else None
        except (TypeError, ValueError, OverflowError):  # whatever is wrong with them is said by the verb itself
            return None
    if verb is not predict or not {"times"} <= set(keywords) <= {"limit", "times"}:
        return None
    limit = keywords.get("limit")
    if not isinstance(limit, AbstractLimit):
        try:
            limit = limit_of(problem, limit)
        except InputError:
            return None
    return type(limit).kin(limit, problem)  # of the class: to bind it costs more than to call it


def family(
    verb: Callable, name: str, problems: Sequence[Problem], seeds: Sequence[int], keywords: dict[str, Any]
) -> list[Point]:
    """The points of problems of one `family_key`; only simulations look at the seeds."""
    if verb is simulate:
        return [table_of(result, name) for result in online_family.family(problems, seeds, **keywords)]
    limit = limit_of(problems[0], keywords.get("limit"))
    results = limit.many(problems, np.asarray(keywords["times"], float))
    return [result if isinstance(result, Point) else table_of(result, name) for result in results]
