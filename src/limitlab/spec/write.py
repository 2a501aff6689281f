"""From a problem to nested tables, text and files, and to one hash."""

import hashlib
import inspect
import json
import os
import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import tomli_w

from limitlab.errors import InputError, SpecError
from limitlab.problems.activations import Activation
from limitlab.problems.problem import Problem
from limitlab.spec.bounds import MAX_TEXT
from limitlab.spec.kinds import fields_of
from limitlab.spec.read import from_dict
from limitlab.text import join

__all__ = ["dumps", "save_spec", "spec_hash", "table_hash", "to_dict", "to_json"]


def to_dict(problem: Problem) -> dict[str, Any]:
    """A problem as nested dicts of plain values; fields that are None are left out, defaults are written.

    A Python function used as activation becomes a table with the hash of its jaxpr: enough to tell two
    problems apart, not to rebuild one.
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"to_dict needs a Problem; got {type(problem).__name__}. Build one with limitlab.Problem(...)."
        )
    return _fields(problem, "")


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


def _fields(part: eqx.Module, path: str) -> dict[str, Any]:
    table = {}
    for field, (hint, _) in fields_of(type(part)).items():
        value = getattr(part, field)
        if value is not None:
            table[field] = _value(value, hint, join(path, field))
    return table


def _value(value: Any, hint: Any, path: str) -> Any:
    if isinstance(value, Activation):
        return value.name if value.named else _fingerprint(value.function, value.name)
    if isinstance(value, eqx.Module):
        return {"kind": type(value).__name__, **_fields(value, path)}
    if callable(value):
        return _fingerprint(value, getattr(value, "__name__", "function"))
    if isinstance(value, (str, bool, np.bool_)):
        return bool(value) if isinstance(value, np.bool_) else value
    try:
        array = np.asarray(value, dtype=None if hint is int else float)
    except (TypeError, ValueError) as error:  # a traced number, or an object that is no number
        raise SpecError(f"{path} must be a plain number or array to be written; got {value!r}.") from error
    if not np.all(np.isfinite(array)):
        raise SpecError(f"{path} must be finite to be written; got {array.tolist()!r}.")
    return (array if hint is int else array + 0.0).tolist()  # + 0.0: minus zero is zero


def _fingerprint(function: Any, name: str) -> dict[str, str]:
    """A Python function by what it computes: its jaxpr and the constants it closes over."""
    try:
        count = sum(p.default is p.empty for p in inspect.signature(function).parameters.values())
        jaxpr = jax.make_jaxpr(function)(*[0.0] * count)
    except (TypeError, ValueError):  # not a function of numbers (it draws from a key, say): known by its name
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
