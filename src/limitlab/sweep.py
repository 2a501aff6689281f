"""sweep: a verb at every point of a grid of parameters, as one Dataset with a dimension for each."""

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError, LimitlabError
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.predict import predict
from limitlab.numerics.progress import Progress
from limitlab.numerics.trees import changed_fields
from limitlab.problems.problem import Problem
from limitlab.results.points import Point
from limitlab.results.schema import RESERVED_DIMENSIONS
from limitlab.sweep_table import combine, table_of

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["sweep"]


def sweep(
    verb: Callable,
    problem: Problem,
    grid: Mapping[str, Any],
    *,
    progress: Progress | None = None,
    **arguments: Any,
) -> "xr.Dataset":
    """Call ``verb(problem, **arguments)`` at every point of the product of the grid.

    Parameters
    ----------
    verb
        `simulate`, `predict`, or any function of a Problem that returns a Dataset, a number, or a record of
        numbers.
    problem
        The problem at which all points start.
    grid
        Name -> values. A name is a path in the problem ("sample_ratio", "algorithm.learning_rate",
        "student.width"), a keyword of the verb ("d", "seed", "limit") or a path in one ("limit.d").
    progress
        Called as progress(done, total, label) after every point.
    arguments
        Passed to the verb at every point, such as ``limit=OverlapODE(), times=times``.

    Returns
    -------
    xarray.Dataset
        One dimension per parameter, in the order of the grid and under its name there, before those of the
        verb's own result. A point where limitlab refuses or fails has NaN, status "failed" and the error's
        words in ``reason``; the sweep goes on. Variables whose shape or labels change from point to point (M
        with the student's width) cannot be one array: they are left out and named in the attribute
        ``left_out``.

    Examples
    --------
    >>> rates = [0.1, 0.2, 0.4]
    >>> ds = sweep(predict, problem, {"algorithm.learning_rate": rates}, limit=OverlapODE(), times=[1.0, 2.0])
    >>> ds.risk.sel({"algorithm.learning_rate": 0.2})
    """
    if not isinstance(problem, Problem):
        raise InputError(f"sweep needs a Problem; got {problem!r}. Call sweep(verb, problem, grid, ...).")
    axes = _axes(grid)
    for name in axes:
        _check_name(name, verb, problem, axes, arguments)
    labels = {name: _labels(name, values) for name, values in axes.items()}
    if (whole := _whole_curve(verb, problem, axes, arguments)) is not None:
        return whole
    total, points = int(np.prod([len(values) for values in axes.values()])), []
    verb_name = _name(verb)
    for choice in product(*axes.values()):
        here = dict(zip(axes, choice, strict=True))
        points.append(_visit(verb, verb_name, problem, here, arguments))
        if progress is not None:
            progress(len(points), total, f"sweep of {verb_name}")
    return combine(problem, verb_name, labels, points)


def _whole_curve(verb: Callable, problem: Problem, axes: dict[str, list], arguments: dict) -> "xr.Dataset | None":
    """A prediction at many sample ratios in one go, by limits that know how; None: point by point."""
    limit = arguments.get("limit")
    if verb is not predict or list(axes) != ["sample_ratio"] or set(arguments) != {"limit"}:
        return None
    if not (isinstance(limit, AbstractLimit) and hasattr(limit, "curve")):
        return None
    try:
        alphas = np.asarray(axes["sample_ratio"], float)
        limit.check(dataclasses.replace(problem, sample_ratio=float(alphas[0])))
        return limit.curve(problem, alphas) if np.all(np.isfinite(alphas) & (alphas > 0)) else None  # type: ignore
    except (LimitlabError, TypeError, ValueError):
        return None  # one of the points is refused: the slow road says which, and keeps the others


def _visit(verb: Callable, verb_name: str, problem: Problem, here: dict[str, Any], arguments: dict) -> Point:
    parts = {tuple(name.split(".")): value for name, value in here.items()}
    inside = {path: value for path, value in parts.items() if path[0] in _fields(problem)}
    outside = {path: value for path, value in parts.items() if path not in inside}
    try:
        keywords = {**arguments, **changed_fields(arguments, outside)}
        result = verb(dataclasses.replace(problem, **changed_fields(vars(problem), inside)), **keywords)
    except LimitlabError as error:
        return Point(reason=f"{type(error).__name__}: {error}")
    return table_of(result, verb_name)


def _axes(grid: Any) -> dict[str, list]:
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
    return value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value


def _name(verb: Callable) -> str:
    """What a verb is called; a function without a name gives a "value"."""
    name = getattr(verb, "__name__", "")
    return name if name.isidentifier() else "value"


def _fields(part: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []


def _check_name(name: str, verb: Callable, problem: Problem, axes: dict[str, list], arguments: dict) -> None:
    """Refuse a name that no point could use, before anything is computed."""
    reserved = difflib.get_close_matches(name, RESERVED_DIMENSIONS, 1, 0.8)
    if reserved:
        raise InputError(
            f"sweep.grid[{name!r}] cannot be told from {reserved[0]!r}, which a result has already. Ask for "
            f"all {name} in one call and select afterwards."
        )
    head, *rest = name.split(".")
    if head in _fields(problem):
        part: Any = problem
        rest = [head, *rest]
        so_far = []
    else:
        _check_keyword(name, head, verb, problem, arguments)
        part, so_far = arguments.get(head), [head]
    for field in rest:
        if ".".join(so_far) in axes:
            return  # the part is itself swept: its fields are known at each point
        if field not in _fields(part):
            owner = ".".join(so_far)
            known = _fields(part)
            told = f"it has {', '.join(known)}.{_near(field, known)}" if known else f"it is {part!r}."
            raise InputError(f"sweep.grid[{name!r}]: {owner} has no field {field!r}; {told}")
        part, so_far = getattr(part, field), [*so_far, field]


def _check_keyword(name: str, head: str, verb: Callable, problem: Problem, arguments: dict) -> None:
    parameters = inspect.signature(verb).parameters.values()
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)][1:]
    free = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if head not in known and not free:
        choices = [*_fields(problem), *known]
        raise InputError(
            f"sweep.grid[{name!r}] is neither a part of the problem ({', '.join(_fields(problem))}) nor a "
            f"keyword of {_name(verb)} ({', '.join(known)}).{_near(head, choices)} A keyword's field is "
            "named with a dot, such as 'limit.d'."
        )
    if name == head and head in arguments:
        raise InputError(f"sweep.grid[{name!r}] is also an argument ({arguments[head]!r}). Keep one.")
    if name != head and head not in arguments:
        raise InputError(f"sweep.grid[{name!r}] needs {head}=... as an argument, whose field it changes.")


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _labels(name: str, values: list) -> np.ndarray:
    """Numbers and texts label themselves; a part is labelled by its class, and by its number if need be."""
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        labels = values
    elif all(isinstance(v, str) for v in values):
        labels = values
    else:
        labels = [type(v).__name__ if _fields(v) else str(v) for v in values]
        if len(set(labels)) < len(labels):
            labels = [f"{number}: {label}" for number, label in enumerate(labels)]
    if len(set(labels)) < len(labels):
        raise InputError(f"sweep.grid[{name!r}] must not repeat a value; got {labels}. Drop the repeats.")
    return np.asarray(labels)
