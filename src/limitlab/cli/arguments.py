"""From words on a command line to problems, times, limits and places for files."""

import dataclasses
import difflib
import os
import types
import typing
from pathlib import Path
from typing import Any

import numpy as np

from limitlab.errors import InputError
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.predict import LIMITS
from limitlab.problems.library import LIBRARY
from limitlab.problems.problem import Problem
from limitlab.spec import load_spec

__all__ = ["limit_class", "limit_of", "place_of", "problem_of", "times_of"]

MAX_TIMES = 1_000_000


def problem_of(text: str) -> Problem:
    """A problem from the name of a library problem or of a file."""
    if text in LIBRARY:
        return LIBRARY[text]()
    if not Path(text).exists() and Path(text).suffix == "":
        raise InputError(
            f"SPEC must be a TOML or JSON file or a library problem ({', '.join(LIBRARY)}); got {text!r}, "
            f"which is neither.{_near(text, LIBRARY)}"
        )
    return load_spec(text)


def times_of(text: str) -> np.ndarray:
    """Times from ``start:stop:count``, ``start:stop:count:log`` or a list with commas."""
    try:
        if ":" not in text:
            return np.asarray([float(word) for word in text.split(",")])
        start, stop, count, *scale = text.split(":")
        if scale not in ([], ["log"]):
            raise ValueError
        first, last, number = float(start), float(stop), int(count)
    except ValueError:
        raise InputError(
            f"--times must be start:stop:count, start:stop:count:log or a list with commas; got {text!r}. "
            "Write, for example, --times 0:10:51 or --times 0,1,2.5."
        ) from None
    if not 1 <= number <= MAX_TIMES:
        raise InputError(f"--times {text!r}: the count must be between 1 and {MAX_TIMES}; got {number}.")
    if not (np.isfinite(first) and np.isfinite(last)) or (number > 1 and last <= first):
        raise InputError(f"--times {text!r} must increase: stop must exceed start; got {start} and {stop}.")
    if scale and first <= 0:
        raise InputError(f"--times {text!r}: a logarithmic grid needs start > 0; got {start}.")
    return np.geomspace(first, last, number) if scale else np.linspace(first, last, number)


def limit_class(name: str) -> type[AbstractLimit]:
    """The class of a limit by its name."""
    if name not in LIMITS:
        raise InputError(f"--limit must be one of {', '.join(LIMITS)}; got {name!r}.{_near(name, LIMITS)}")
    return LIMITS[name]


def limit_of(name: str, settings: list[str]) -> AbstractLimit:
    """A limit by its name, with fields set as ``field=value``."""
    kind = limit_class(name)
    fields, hints, values = [f.name for f in dataclasses.fields(kind)], typing.get_type_hints(kind), {}
    for setting in settings:
        field, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"--set must be field=value, such as --set d=1000; got {setting!r}.")
        if field not in fields:
            told = f"it has {', '.join(fields)}.{_near(field, fields)}"
            raise InputError(f"--set {setting}: {name} has no field {field!r}; {told}")
        values[field] = _value(text, hints[field], f"--set {field}")
    return kind(**values)


def _value(text: str, hint: Any, where: str) -> Any:
    """A text as the type that a field declares."""
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    kinds = list(typing.get_args(hint)) if union else [hint]
    if type(None) in kinds and text.lower() == "none":
        return None
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):  # a text that is no number may still be a word
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    if str in kinds:
        return text
    words = " or ".join("none" if kind is type(None) else kind.__name__ for kind in kinds)
    raise InputError(f"{where} must be {words}; got {text!r}.")


def place_of(out: Path | None, default: str, force: bool) -> Path:
    """Where a result will go; refused before the computation rather than after it."""
    path = Path(default) if out is None else out
    if path.is_dir():
        raise InputError(f"--out must be a file; got the folder {path}. Try --out {path / default}.")
    if not path.parent.is_dir():
        raise InputError(f"--out {path}: there is no folder {path.parent}. Make it first.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"--out {path}: the folder {path.parent} may not be written to. Choose another.")
    if path.exists() and not force:
        raise InputError(f"{path} exists already. Choose another name with --out, or replace it with --force.")
    return path


def _near(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""
