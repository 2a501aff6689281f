"""From nested tables to a problem, or to a sentence that says which field is wrong and how."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from limitlab.errors import InputError, SpecError
from limitlab.modules import Module
from limitlab.problems.activations import AbstractActivation, activation
from limitlab.problems.links import AbstractLink, link
from limitlab.problems.problem import Problem
from limitlab.spec.bounds import MAX_WHOLE, MAX_WIDTH, check_bounds
from limitlab.spec.kinds import example, fields_of, kind_named, known_kinds
from limitlab.text import did_you_mean, join, printable, show

__all__ = ["from_dict"]


def from_dict(table: dict[str, Any]) -> Problem:
    """Rebuild the problem that `to_dict` described. Whole numbers are accepted where floats are due."""
    try:
        check_bounds(table)
        if not isinstance(table, dict):
            raise SpecError(f"A problem must be a table of its parts; got {show(table)}.")
        return _fields(Problem, table, "")
    except InputError as error:
        raise SpecError(printable(str(error))) from None  # a stranger's names are not shown as they came


def _fields(cls: Any, table: dict[str, Any], path: str) -> Any:
    fields, values = fields_of(cls), {}
    for name, value in table.items():
        if name == "kind" and cls is not Problem:
            continue
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise SpecError(
                f"{join(path, name)} = {show(value)} is not a field of {cls.__name__}; its fields are: "
                f"{known}.{did_you_mean(name, fields)}"
            )
        values[name] = _value(value, fields[name][0], join(path, name))
    for name, (hint, required) in fields.items():
        if required and name not in values:
            raise SpecError(f"{join(path, name)} is missing: {cls.__name__} needs it. Add {name} = {example(hint)}.")
    try:
        with np.errstate(all="ignore"):  # numbers near the largest float: checks see what became of them
            return cls(**values)
    except SpecError:
        raise
    except InputError as error:
        raise SpecError(f"{path}: {error}" if path else str(error)) from error
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:  # numbers on which a check itself fails
        raise SpecError(
            f"{path or 'The problem'}: {cls.__name__} needs values that can be computed with; its check failed "
            f"({type(error).__name__}: {str(error)[:160]}). Use ordinary numbers and shapes."
        ) from error


def _value(value: Any, hint: Any, path: str) -> Any:
    if hint in _WORDED:
        return _worded(value, path, *_WORDED[hint])
    if isinstance(hint, type) and issubclass(hint, Module):
        return _part(value, hint, path)
    if hint is np.ndarray or (hint is Any and isinstance(value, (list, tuple, np.ndarray))):
        return _array(value, path)
    if hint in (Any, float):  # Any: a number, or a matrix
        return _number(value, path)
    wanted = {bool: "true or false", int: "a whole number", str: "a text in quotes"}.get(
        hint, getattr(hint, "__name__", hint)
    )
    kind: Any = hint
    if not isinstance(value, kind) or (hint is int and isinstance(value, bool)):
        raise SpecError(f"{path} must be {wanted}; got {show(value)}.")
    if hint is int:
        wide = path.endswith(".width")
        most, remedy = (MAX_WIDTH, "Use a narrower network.") if wide else (MAX_WHOLE, "Use a smaller number.")
        if abs(value) > most:
            raise SpecError(f"{path} must be at most {most} in a file; got {show(value)}. {remedy}")
    return value


def _part(value: Any, base: type, path: str) -> Any:
    found = kind_named(base, value.get("kind")) if isinstance(value, dict) else None
    if found is not None:
        return _fields(found, value, path)
    kinds = known_kinds()[base]  # all modules of parts are loaded, for the words or for a part that is not public
    shown = f'{path} = {{kind = "{next(iter(kinds), "")}", ...}}'
    if not isinstance(value, dict):
        raise SpecError(f"{path} must be a table with its kind, such as {shown}; got {show(value)}.")
    kind = value.get("kind")
    _check_ours(kind, path, f"choose one of: {', '.join(kinds)}")
    if not isinstance(kind, str):
        came = "is missing" if kind is None else f"must be a text in quotes; got {show(kind)}"
        raise SpecError(f"{path}.kind {came}. Choose one of: {', '.join(kinds)}.")
    if kind not in kinds:
        elsewhere = any(kind in group for group in known_kinds().values())
        reason = "is a part, but not one that fits here" if elsewhere else "is not known"
        raise SpecError(
            f"{path}.kind = {show(kind)} {reason}; choose one of: {', '.join(kinds)}.{did_you_mean(kind, kinds)}"
        )
    return _fields(kinds[kind], value, path)


def _check_ours(kind: Any, path: str, remedy: str) -> None:
    if isinstance(kind, str) and ":" in kind:
        raise SpecError(
            f"{path}.kind = {show(kind)} is a class from outside limitlab, which cannot be put in a file or read from "
            f"one: nothing is imported from it. Rebuild the problem in Python, or {remedy}."
        )


def _worded(value: Any, path: str, made: Callable[[str], Any], kind: str, example: str) -> Any:
    """An activation or a link, by its text."""
    if isinstance(value, dict) and value.get("kind") == "custom":
        raise SpecError(
            f"{path} is the Python function {show(value.get('name'))}, which cannot be put in a file or "
            f"read from one. Rebuild the problem from Python, or use a named {kind} such as {example}."
        )
    if isinstance(value, dict):
        _check_ours(value.get("kind"), path, f"use a named {kind} such as {example}")
    if not isinstance(value, str):
        a = "an" if kind[0] == "a" else "a"
        raise SpecError(f"{path} must be the name of {a} {kind}, such as {example}; got {show(value)}.")
    try:
        return made(value)
    except InputError as error:
        raise SpecError(f"{path}: {error}") from error


_WORDED: dict[Any, tuple[Callable[[str], Any], str, str]] = {
    AbstractActivation: (activation, "activation", '"erf"'),
    AbstractLink: (link, "link", '"majority"'),
}


def _number(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise SpecError(f"{path} must be a number; got {show(value)}.")
    number = float(value) if abs(value) < 1e308 else math.inf  # a whole number may exceed every float
    if not math.isfinite(number):
        raise SpecError(f"{path} must be a finite number; got {show(value)}.")
    return number


def _array(value: Any, path: str) -> np.ndarray:
    if isinstance(value, np.ndarray):
        value = value.tolist()

    def shape_of(item: Any, where: tuple[int, ...]) -> tuple[int, ...]:
        if (type(item) is float and math.isfinite(item)) or (type(item) is int and abs(item) < 2**53):
            return ()
        place = path + "".join(f"[{i}]" for i in where)
        if not isinstance(item, (list, tuple)):
            _number(item, place)
            return ()
        shapes = [shape_of(entry, (*where, i)) for i, entry in enumerate(item)]
        if any(shape != shapes[0] for shape in shapes):
            raise SpecError(f"{place} must have rows of equal length; got {show(item)}.")
        return (len(item), *(shapes[0] if shapes else ()))

    shape_of(value, ())
    return np.asarray(value, dtype=float)
