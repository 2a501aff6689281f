"""How long a point will take, roughly and relatively: so that long ones start first and short ones share a task."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from limitlab.problems.problem import Problem

__all__ = ["cost"]


def cost(verb: Callable, problem: Problem, keywords: dict[str, Any]) -> float:
    """What the verb says itself, by an attribute ``cost`` that takes what the verb takes; else what is asked of it.

    A verb that is given a dimension runs the problem's rule: multiplications. Any other: the product of the sizes that
    it is given. Only the order matters: it decides what starts first, never what is computed.
    """
    own = getattr(verb, "cost", None)
    try:
        if callable(own):
            value: Any = own(problem, **keywords)
        else:
            value = _run(problem, **keywords) if "d" in keywords else _sizes(keywords)
        return float(value) if np.isfinite(value) and value > 0 else 1.0
    except (TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError):
        return 1.0


def _run(problem: Problem, d: Any, times: Any = None, replicas: int = 1, **_: Any) -> float:
    rule: Any = problem.algorithm
    units = getattr(problem.student, "units", 1) + getattr(problem.teacher, "width", 1)
    size, last = float(d), 1.0 if times is None else float(np.max(np.asarray(times, float)))
    steps = last / float(rule.clock(problem, size)) if rule.axis == "time" else getattr(rule, "iterations", 100)
    samples = getattr(rule, "batch_size", 1) if problem.sample_ratio is None else problem.sample_ratio * size
    return replicas * steps * samples * size * units


def _sizes(keywords: dict[str, Any]) -> float:
    """The product of the whole numbers among the arguments and in the limit (d, replicas, trajectories, particles)."""
    limit = keywords.get("limit")
    inside = {f.name: getattr(limit, f.name) for f in dataclasses.fields(limit)} if limit is not None else {}
    product = 1.0
    for name, value in {**inside, **keywords}.items():
        if name != "seed" and isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value > 1:
            product *= float(value)
    return product
