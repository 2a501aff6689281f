"""How long a point will take, roughly and relatively: so that long ones start first and short ones share a task."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from limitlab.micro.simulate import simulate
from limitlab.problems.problem import Problem

__all__ = ["cost"]


def cost(verb: Callable, problem: Problem, keywords: dict[str, Any]) -> float:
    """Multiplications of a simulation; for other verbs the product of the sizes that they are given.

    Only the order matters: it decides what starts first, never what is computed.
    """
    try:
        value = _simulation(problem, **keywords) if verb is simulate else _sizes(keywords)
    except (TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError):
        return 1.0
    return float(value) if np.isfinite(value) and value > 0 else 1.0


def _simulation(problem: Problem, d: Any, times: Any = None, replicas: int = 1, **_: Any) -> float:
    algorithm: Any = problem.algorithm
    units = getattr(problem.student, "width", 1) + getattr(problem.teacher, "width", 1)
    size, last = float(d), 1.0 if times is None else float(np.max(np.asarray(times, float)))
    if problem.sample_ratio is None:
        clock = algorithm.clock(problem, size)
        return replicas * last / clock * size * units * algorithm.batch_size
    steps = last / algorithm.clock(problem, size) if algorithm.axis == "time" else getattr(algorithm, "iterations", 100)
    return replicas * float(steps) * problem.sample_ratio * size**2 * units


def _sizes(keywords: dict[str, Any]) -> float:
    """The product of the whole numbers among the arguments and in the limit (d, replicas, trajectories, particles)."""
    limit = keywords.get("limit")
    inside = {f.name: getattr(limit, f.name) for f in dataclasses.fields(limit)} if limit is not None else {}
    product = 1.0
    for name, value in {**inside, **keywords}.items():
        if name != "seed" and isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value > 1:
            product *= float(value)
    return product
