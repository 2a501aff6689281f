"""The grid of a sweep: names of parameters, their values, and what must hold of them before anything is computed."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from limitlab.errors import InputError
from limitlab.problems.problem import Problem
from limitlab.results.schema import RESERVED_DIMENSIONS
from limitlab.sweep.identity import verb_name
from limitlab.text import did_you_mean, nearest

__all__ = ["axes_of", "check_arguments", "check_name", "fields_of", "keywords_of", "labels_of"]


def axes_of(grid: Any) -> dict[str, list]:
    """The grid as lists of plain values by name."""
    if not isinstance(grid, Mapping) or not grid:
        example = '{"student.width": [1, 2, 4]}'
        raise InputError(f"sweep.grid must be a table of names and values, such as {example}; got {grid!r}.")
    axes = {}
    for name, values in grid.items():
        try:
            axes[str(name)] = [_plain(value) for value in values]
        except TypeError:
            axes[str(name)] = []
        if not axes[str(name)] or isinstance(values, str):
            raise InputError(f"sweep.grid[{name!r}] must be a list of at least one value; got {values!r}.")
    return axes


def _plain(value: Any) -> Any:
    """A numpy or JAX number as a Python number: parts of a problem compare and print it as such."""
    if not hasattr(value, "item") or np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "biufcU":
        return value  # a date would become a whole number
    return value.item()


def fields_of(part: Any) -> list[str]:
    """Names of the fields of a part; none of anything else."""
    return [field.name for field in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []


def check_name(name: str, verb: Callable, problem: Problem, axes: dict[str, list], arguments: dict) -> None:
    """Refuse a name that no point could use, before anything is computed."""
    reserved = nearest(name, RESERVED_DIMENSIONS, 0.8)
    if reserved:
        raise InputError(
            f"sweep.grid[{name!r}] cannot be told from {reserved!r}, which a result has already. Ask for "
            f"all {name} in one call and select afterwards."
        )
    head, *rest = name.split(".")
    if head in fields_of(problem):
        part: Any = problem
        rest = [head, *rest]
        so_far = []
    else:
        _check_keyword(name, head, verb, problem, arguments)
        part, so_far = arguments.get(head), [head]
    for field in rest:
        if ".".join(so_far) in axes:
            return  # the part is itself swept: its fields are known at each point
        if field not in fields_of(part):
            owner = ".".join(so_far)
            known = fields_of(part)
            told = f"it has {', '.join(known)}.{did_you_mean(field, known)}" if known else f"it is {part!r}."
            raise InputError(f"sweep.grid[{name!r}]: {owner} has no field {field!r}; {told}")
        part, so_far = getattr(part, field), [*so_far, field]


def _check_keyword(name: str, head: str, verb: Callable, problem: Problem, arguments: dict) -> None:
    known, free = keywords_of(verb)
    if head not in known and not free:
        if name == head and name in fields_of(arguments.get("limit")):
            return  # d of a prediction is that of its limit
        choices = [*fields_of(problem), *known]
        raise InputError(
            f"sweep.grid[{name!r}] is neither a part of the problem ({', '.join(fields_of(problem))}) nor a "
            f"keyword of {verb_name(verb)} ({', '.join(known)}).{did_you_mean(head, choices)} A keyword's field is "
            "named with a dot, such as 'limit.d'."
        )
    if name == head and head in arguments:
        raise InputError(f"sweep.grid[{name!r}] is also an argument ({arguments[head]!r}). Keep one.")
    if name != head and head not in arguments:
        raise InputError(f"sweep.grid[{name!r}] needs {head}=... as an argument, whose field it changes.")


@functools.lru_cache(maxsize=64)
def keywords_of(verb: Callable) -> tuple[list[str], bool]:
    """The names that a verb takes besides the problem, and whether it takes any other."""
    try:
        parameters = inspect.signature(verb).parameters.values()
    except (TypeError, ValueError):
        example = "simulate, predict, thresholds, or a function of your own: def mine(problem): ..."
        raise InputError(f"sweep needs a verb that takes a Problem, such as {example}; got {verb!r}.") from None
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)][1:]
    return known, any(p.kind is p.VAR_KEYWORD for p in parameters)


def check_arguments(verb: Callable, arguments: dict[str, Any], axes: dict[str, list], seeded: str) -> None:
    """Refuse arguments that the verb does not take, and a call that lacks one: every point would fail."""
    known, free = keywords_of(verb)
    for name in () if free else arguments:
        if name not in known:
            told = f"it takes {', '.join(known)}" if known else "it takes nothing but the problem"
            raise InputError(f"sweep: {verb_name(verb)} has no argument {name!r}; {told}.{did_you_mean(name, known)}")
    there = {*arguments, *axes, *(["seed"] if seeded == "argument" else [])}
    parameters = inspect.signature(verb).parameters
    lacking = [name for name in known if name not in there and parameters[name].default is inspect.Parameter.empty]
    if lacking:
        raise InputError(f"sweep: {verb_name(verb)} needs {', '.join(lacking)}. Add {lacking[0]}=... to the call.")


def labels_of(name: str, values: list) -> np.ndarray:
    """Numbers and texts label themselves; a part is labelled by its class, and by its number if need be."""
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        labels = values
    elif all(isinstance(v, str) for v in values):
        labels = values
    else:
        labels = [type(v).__name__ if fields_of(v) else str(v) for v in values]
        if len(set(labels)) < len(labels):
            labels = [f"{number}: {label}" for number, label in enumerate(labels)]
    if len(set(labels)) < len(labels):
        raise InputError(f"sweep.grid[{name!r}] must not repeat a value; got {labels}. Drop the repeats.")
    return np.asarray(labels)
