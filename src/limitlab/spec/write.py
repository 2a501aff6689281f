"""From a problem to nested tables, text and files, and to one hash."""

import dataclasses
import hashlib
import inspect
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tomli_w

from limitlab._setup import double
from limitlab.errors import InputError, SpecError
from limitlab.problems.problem import Problem
from limitlab.spec.bounds import MAX_TEXT
from limitlab.spec.describe import Describer, hash_of
from limitlab.spec.kinds import WORDED, fields_of, kind_of, ours
from limitlab.spec.read import from_dict
from limitlab.text import join

__all__ = ["dumps", "save_spec", "spec_hash", "table_hash", "table_of", "to_dict", "to_json"]

MAX_ENTRIES = 1000  # numbers of an array in a user's part that are written out; longer ones are known by their bytes


def to_dict(problem: Problem) -> dict[str, Any]:
    """A problem as nested dicts of plain values; fields that are None are left out, defaults are written.

    A Python function becomes a table with the hash of its jaxpr, and a part of a user's own class one with the class's
    module and name. Neither says all: what is not ours is listed again under ``own``, by its place in the problem, with
    the hash of its code and of all that it reads (see `limitlab.spec.describe`). That is enough to tell two problems
    apart, not to rebuild one. Fields that a class lists in ``ADDED`` came after results were stored: they are left out
    while they have their default, so that hashes stay what they were.
    """
    return table_of(problem, Describer(_this_one))


def table_of(problem: Problem, describe: Describer) -> dict[str, Any]:
    """`to_dict`, with what is not ours described in this way."""
    if not isinstance(problem, Problem):
        raise InputError(
            f"to_dict needs a Problem; got {type(problem).__name__}. Build one with limitlab.Problem(...)."
        )
    own = dict(_own(problem, "", describe))
    return {**_fields(problem, ""), **({"own": own} if own else {})}


def _own(value: Any, path: str, describe: Describer) -> Iterator[tuple[str, str]]:
    """What is not ours in a part, by its place, with the hash of its description."""
    if isinstance(value, WORDED) and _worded(value):
        return
    if dataclasses.is_dataclass(value) and ours(value) and not isinstance(value, WORDED):
        for field in dataclasses.fields(value):
            yield from _own(getattr(value, field.name), join(path, field.name), describe)
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _own(inner, f"{path}[{number}]", describe)
    elif dataclasses.is_dataclass(value) or callable(value):
        yield path, hash_of(describe(value))


def _worded(value: Any) -> bool:
    """Whether the name of an activation or a link says all: it and those that it is made of are ours."""
    made_of = [getattr(value, field.name) for field in dataclasses.fields(value)]
    return ours(value) and value.named and all(_worded(v) for v in made_of if isinstance(v, WORDED))


_TOKENS: dict[int, tuple[Any, str]] = {}


def _this_one(thing: Any, words: str) -> dict[str, str]:
    """What cannot be known for certain is this very object, and equals nothing else: not even itself in another run."""
    return {"unknown": _TOKENS.setdefault(id(thing), (thing, secrets.token_hex(8)))[1]}


def to_json(problem: Problem, indent: int | None = None) -> str:
    """The problem as JSON text (also for results whose activation is a Python function; see `to_dict`)."""
    return json.dumps(to_dict(problem), indent=indent, allow_nan=False)


def dumps(problem: Problem) -> str:
    """The problem as TOML text that `loads` reads back exactly."""
    return _readable(_toml(_writable(problem)))


def spec_hash(problem: Problem) -> str:
    """16 hexadecimal digits, the same for equal problems (1 equals 1.0; order does not matter)."""
    return table_hash(to_dict(problem))


def table_hash(table: dict[str, Any]) -> str:
    """The hash of the problem that a table of `to_dict` describes."""
    canonical = json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def save_spec(problem: Problem, path: str | os.PathLike) -> Path:
    """Write the problem to a file: JSON if the name ends in .json, TOML otherwise."""
    path, table = Path(path), _writable(problem)
    text = _readable(json.dumps(table, indent=2) + "\n" if path.suffix == ".json" else _toml(table))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError(
            f"The problem could not be written to {path}: {error.strerror}. Choose another place."
        ) from error
    return path


def _fields(part: Any, path: str) -> dict[str, Any]:
    table, added, mine = {}, getattr(type(part), "ADDED", ()), ours(part)
    for field, (hint, _) in fields_of(type(part)).items():
        value, place = getattr(part, field), join(path, field)
        if value is None:
            continue
        table[field] = _value(value, hint, place, mine)
        if field in added and table[field] == _default(part, field, hint, place, mine):
            del table[field]
    return table


def _default(part: Any, name: str, hint: Any, path: str, mine: bool) -> Any:
    """What the default of a field is written as."""
    (field,) = (field for field in dataclasses.fields(part) if field.name == name)
    factory = field.default_factory
    default = field.default if factory is dataclasses.MISSING else factory()
    return None if default is None or default is dataclasses.MISSING else _value(default, hint, path, mine)


def _value(value: Any, hint: Any, path: str, mine: bool) -> Any:
    """A field's value as plain values; of a class that is not mine also what no file could bring back."""
    if isinstance(value, WORDED) and ours(value):
        return value.name if value.named else _fingerprint(value.function, value.name)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"kind": kind_of(value), **_fields(value, path)}
    if callable(value):
        return _fingerprint(value, getattr(value, "__name__", "function"))
    if isinstance(value, (str, bool, np.bool_)):
        return bool(value) if isinstance(value, np.bool_) else value
    if isinstance(value, Mapping) and not mine:
        return {str(key): _value(inner, Any, join(path, str(key)), mine) for key, inner in value.items()}
    if isinstance(value, (list, tuple)) and not mine and not _numeric(value):
        return [_value(inner, Any, f"{path}[{number}]", mine) for number, inner in enumerate(value)]
    if value is None:
        return "none"  # in a list or table
    try:
        array = np.asarray(value, dtype=None if hint is int else float)
    except (TypeError, ValueError) as error:  # a traced number, or an object that is no number
        raise SpecError(f"{path} must be a plain number or array to be written; got {value!r}.") from error
    finite = bool(np.all(np.isfinite(array)))
    if not mine and (array.size > MAX_ENTRIES or not finite):
        return {"array": hashlib.sha256(array.tobytes()).hexdigest(), "shape": list(array.shape)}
    if not finite:
        raise SpecError(f"{path} must be finite to be written; got {array.tolist()!r}.")
    return (array if hint is int else array + 0.0).tolist()  # + 0.0: minus zero is zero


def _numeric(values: Any) -> bool:
    """Whether a list, and every list in it, has nothing but numbers."""
    plain = (int, float, np.number, np.ndarray, jax.Array)
    return all(_numeric(v) if isinstance(v, (list, tuple)) else isinstance(v, plain) for v in values)


@double
def _fingerprint(function: Any, name: str) -> dict[str, str]:
    """A Python function by what it computes: its jaxpr and the constants it closes over."""
    try:
        count = sum(p.default is p.empty for p in inspect.signature(function).parameters.values())
        jaxpr = jax.make_jaxpr(function)(*[0.0] * count)
    except Exception:  # not a function of numbers (it draws from a key, say): known by its name
        return {"kind": "custom", "name": name}
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", str(jaxpr)).encode())  # addresses differ between runs
    for constant in map(np.asarray, jaxpr.consts):
        digest.update(f"{constant.dtype}{constant.shape}".encode() + constant.tobytes())
    return {"kind": "custom", "name": name, "jaxpr": digest.hexdigest()}


def _toml(table: dict[str, Any]) -> str:
    """TOML with the rows of a matrix on one line each (no text can match: its newlines are escaped)."""
    rows = re.compile(r"\[\n([-+0-9.e,\s]*?),?\s*\]")
    return rows.sub(lambda row: "[" + ", ".join(row[1].replace(",", " ").split()) + "]", tomli_w.dumps(table))


def _writable(problem: Problem) -> dict[str, Any]:
    table = to_dict(problem)
    from_dict(table)  # whatever could not be read back is refused before anything is written
    return table


def _readable(text: str) -> str:
    if len(text.encode()) > MAX_TEXT:
        raise SpecError(
            f"The problem takes {len(text)} characters, and a problem file has at most {MAX_TEXT}: it could not be "
            "read back. Use smaller networks or fewer terms, or build it in Python."
        )
    return text
