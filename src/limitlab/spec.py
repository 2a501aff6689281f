"""A problem as plain tables: to and from a dict, TOML or JSON, and one hash that says "the same problem".

Each part is a table with ``kind = "ClassName"`` and its fields, defaults included. Reading is strict: only
the parts of `limitlab.problems` are known, every unknown, missing or ill-typed field is refused by its path,
and nothing in a file is ever evaluated or imported.
"""

import dataclasses
import difflib
import functools
import hashlib
import importlib
import inspect
import json
import math
import os
import pkgutil
import re
import tomllib
import types
import typing
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import tomli_w

import limitlab.problems
from limitlab.errors import InputError, SpecError
from limitlab.problems.activations import Activation, activation
from limitlab.problems.problem import Problem

__all__ = [
    "dumps",
    "from_dict",
    "from_json",
    "known_kinds",
    "load_spec",
    "loads",
    "save_spec",
    "spec_hash",
    "to_dict",
    "to_json",
]

MAX_TEXT = 1_000_000  # characters of a problem file
MAX_DEPTH = 8
MAX_WIDTH = 1_000_000


def to_dict(problem: Problem) -> dict[str, Any]:
    """A problem as nested dicts of plain values; fields that are None are left out, defaults are written.

    A Python function used as activation becomes a table with the hash of its jaxpr: enough to tell two
    problems apart, not to rebuild one.
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"to_dict needs a Problem; got {type(problem).__name__}. Build one with limitlab.Problem(...)."
        )
    return _encode_fields(problem, "")


def from_dict(table: dict[str, Any]) -> Problem:
    """Rebuild the problem that `to_dict` described. Whole numbers are accepted where floats are due."""
    _check_depth(table, "", 0)
    if not isinstance(table, dict):
        raise SpecError(f"A problem must be a table of its parts; got {_show(table)}.")
    return _decode_fields(Problem, table, "")


def to_json(problem: Problem, indent: int | None = None) -> str:
    """The problem as JSON text (also for results whose activation is a Python function; see `to_dict`)."""
    return json.dumps(to_dict(problem), indent=indent, allow_nan=False)


def from_json(text: str) -> Problem:
    """Read a problem from JSON text."""
    return from_dict(_parse_json(_check_size(text, "the JSON text"), "the JSON text"))


def dumps(problem: Problem) -> str:
    """The problem as TOML text that `loads` reads back exactly."""
    return _toml(_writable(problem))


def loads(text: str) -> Problem:
    """Read a problem from TOML text."""
    return from_dict(_parse_toml(_check_size(text, "the TOML text"), "the TOML text"))


def spec_hash(problem: Problem) -> str:
    """16 hexadecimal digits, the same for equal problems (1 equals 1.0; order does not matter)."""
    canonical = json.dumps(to_dict(problem), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def save_spec(problem: Problem, path: str | os.PathLike) -> Path:
    """Write the problem to a file: JSON if the name ends in .json, TOML otherwise."""
    path, table = Path(path), _writable(problem)
    text = json.dumps(table, indent=2) + "\n" if path.suffix == ".json" else _toml(table)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError(
            f"The problem could not be written to {path}: {error.strerror}. Choose another place."
        ) from error
    return path


def load_spec(path: str | os.PathLike) -> Problem:
    """Read a problem from a file (JSON if the name ends in .json, TOML otherwise)."""
    path = Path(path)
    if not path.exists():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*")], 1)
        raise SpecError(f"There is no problem file {path}." + (f" Did you mean {near[0]}?" if near else ""))
    if not path.is_file():
        raise SpecError(f"{path} is not a file. Give the .toml or .json file of a problem.")
    try:
        if path.stat().st_size > MAX_TEXT:
            raise SpecError(f"{path} has {path.stat().st_size} bytes; a problem file has at most {MAX_TEXT}.")
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not a text file in UTF-8. Give the .toml or .json file of a problem.") from error
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from error
    parse = _parse_json if path.suffix == ".json" else _parse_toml
    try:
        return from_dict(parse(text, str(path)))
    except SpecError as error:
        if str(path) in str(error):
            raise
        raise SpecError(f"{path}: {error}") from error


@functools.cache
def known_kinds() -> dict[type, dict[str, type]]:
    """For every abstract part, its concrete classes in `limitlab.problems` by name."""
    classes = set()
    for info in pkgutil.iter_modules(limitlab.problems.__path__):
        module = importlib.import_module(f"limitlab.problems.{info.name}")
        classes |= {c for c in vars(module).values() if isinstance(c, type) and issubclass(c, eqx.Module)}
    parts = {c for c in classes if c.__module__.startswith("limitlab.problems.") and c not in (Problem, Activation)}
    parts = {c for c in parts if not any(_fields_are_functions(c))}  # these live in Python only
    concrete = sorted((c for c in parts if not _abstract(c)), key=lambda c: c.__name__)
    return {base: {c.__name__: c for c in concrete if issubclass(c, base)} for base in parts}


# --- writing ---------------------------------------------------------------------------------------------


def _abstract(part: type) -> bool:
    return part.__name__.startswith("Abstract") or bool(getattr(part, "__abstractmethods__", ()))


def _fields_are_functions(part: type) -> list[bool]:
    hints = [str(field.type) for field in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []
    return ["Callable" in hint for hint in hints]


def _encode_fields(part: eqx.Module, path: str) -> dict[str, Any]:
    table = {}
    for field, (hint, _) in _fields(type(part)).items():
        value = getattr(part, field)
        if value is not None:
            table[field] = _encode(value, hint, _join(path, field))
    return table


def _encode(value: Any, hint: Any, path: str) -> Any:
    if isinstance(value, Activation):
        return value.name if value.named else _fingerprint(value)
    if isinstance(value, eqx.Module):
        return {"kind": type(value).__name__, **_encode_fields(value, path)}
    if callable(value):
        return _fingerprint_of(value, getattr(value, "__name__", "function"))
    if isinstance(value, (str, bool, np.bool_)):
        return bool(value) if isinstance(value, np.bool_) else value
    try:
        array = np.asarray(value, dtype=None if hint is int else float)
    except (TypeError, ValueError) as error:  # a traced number, or an object that is no number
        raise SpecError(f"{path} must be a plain number or array to be written; got {value!r}.") from error
    if not np.all(np.isfinite(array)):
        raise SpecError(f"{path} must be finite to be written; got {array.tolist()!r}.")
    return (array if hint is int else array + 0.0).tolist()  # + 0.0: minus zero is zero


def _fingerprint(custom: Activation) -> dict[str, str]:
    return _fingerprint_of(custom.function, custom.name)


def _fingerprint_of(function: Any, name: str) -> dict[str, str]:
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


# --- reading ---------------------------------------------------------------------------------------------


@functools.cache
def _fields(cls: type) -> dict[str, tuple[Any, bool]]:
    """Fields of a part: (type without None, required)."""
    hints, out = typing.get_type_hints(cls), {}
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            (hint,) = (a for a in typing.get_args(hint) if a is not type(None))
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        out[field.name] = (hint, required)
    return out


def _decode_fields(cls: Any, table: dict[str, Any], path: str) -> Any:
    fields, values = _fields(cls), {}
    for name, value in table.items():
        if name == "kind" and cls is not Problem:
            continue
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise SpecError(
                f"{_join(path, name)} = {_show(value)} is not a field of {cls.__name__}; its fields are: "
                f"{known}.{_did_you_mean(name, fields)}"
            )
        values[name] = _decode(value, fields[name][0], _join(path, name))
    for name, (hint, required) in fields.items():
        if required and name not in values:
            raise SpecError(f"{_join(path, name)} is missing: {cls.__name__} needs it. Add {name} = {_example(hint)}.")
    try:
        return cls(**values)
    except SpecError:
        raise
    except InputError as error:
        raise SpecError(f"{path}: {error}" if path else str(error)) from error


def _decode(value: Any, hint: Any, path: str) -> Any:
    if hint is Activation:
        return _decode_activation(value, path)
    if isinstance(hint, type) and issubclass(hint, eqx.Module):
        return _decode_part(value, hint, path)
    if hint is np.ndarray:
        return _decode_array(value, path)
    if hint is float:
        return _decode_number(value, path)
    wanted = {bool: "true or false", int: "a whole number", str: "a text in quotes"}.get(
        hint, getattr(hint, "__name__", hint)
    )
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise SpecError(f"{path} must be {wanted}; got {_show(value)}.")
    if path.endswith(".width") and value > MAX_WIDTH:
        raise SpecError(f"{path} must be at most {MAX_WIDTH} in a file; got {value}. Use a narrower network.")
    return value


def _decode_part(value: Any, base: type, path: str) -> Any:
    kinds = known_kinds()[base]
    example = f'{path} = {{kind = "{next(iter(kinds), "")}", ...}}'
    if not isinstance(value, dict):
        raise SpecError(f"{path} must be a table with its kind, such as {example}; got {_show(value)}.")
    kind = value.get("kind")
    if not isinstance(kind, str):
        came = "is missing" if kind is None else f"must be a text in quotes; got {_show(kind)}"
        raise SpecError(f"{path}.kind {came}. Choose one of: {', '.join(kinds)}.")
    if kind not in kinds:
        elsewhere = any(kind in group for group in known_kinds().values())
        reason = "is a part, but not one that fits here" if elsewhere else "is not known"
        raise SpecError(
            f"{path}.kind = {_show(kind)} {reason}; choose one of: {', '.join(kinds)}.{_did_you_mean(kind, kinds)}"
        )
    return _decode_fields(kinds[kind], value, path)


def _decode_activation(value: Any, path: str) -> Activation:
    if isinstance(value, dict) and value.get("kind") == "custom":
        raise SpecError(
            f"{path} is the Python function {_show(value.get('name'))}, which cannot be put in a file or "
            'read from one. Rebuild the problem from Python, or use a named activation such as "erf".'
        )
    if not isinstance(value, str):
        raise SpecError(f'{path} must be the name of an activation, such as "erf"; got {_show(value)}.')
    try:
        return activation(value)
    except InputError as error:
        raise SpecError(f"{path}: {error}") from error


def _decode_number(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise SpecError(f"{path} must be a number; got {_show(value)}.")
    number = float(value) if abs(value) < 1e308 else math.inf  # a whole number may exceed every float
    if not math.isfinite(number):
        raise SpecError(f"{path} must be a finite number; got {_show(value)}.")
    return number


def _decode_array(value: Any, path: str) -> np.ndarray:
    if isinstance(value, np.ndarray):
        value = value.tolist()

    def shape_of(item: Any, where: str) -> tuple[int, ...]:
        if not isinstance(item, (list, tuple)):
            _decode_number(item, where)
            return ()
        shapes = [shape_of(entry, f"{where}[{i}]") for i, entry in enumerate(item)]
        if any(shape != shapes[0] for shape in shapes):
            raise SpecError(f"{where} must have rows of equal length; got {_show(item)}.")
        return (len(item), *(shapes[0] if shapes else ()))

    shape_of(value, path)
    return np.asarray(value, dtype=float)


# --- text ------------------------------------------------------------------------------------------------


def _parse_toml(text: str, where: str) -> Any:
    try:
        return tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # TOMLDecodeError is a ValueError and states line and column
        raise SpecError(f"{where} is not valid TOML: {str(error)[:200]}. Correct the file there.") from error


def _parse_json(text: str, where: str) -> Any:
    def refuse(constant: str) -> None:
        raise SpecError(f"{where} has the number {constant}; numbers must be finite.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            twice = sorted({k for k, _ in pairs if sum(k == other for other, _ in pairs) > 1})
            raise SpecError(f"{where} gives {', '.join(twice)} twice in one table. Keep one.")
        return table

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except SpecError:
        raise
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{where} is not valid JSON: {str(error)[:200]}. Correct the file there.") from error


def _check_size(text: str, where: str) -> str:
    if not isinstance(text, str):
        raise SpecError(f"{where} must be a str; got {type(text).__name__}.")
    if len(text) > MAX_TEXT:
        raise SpecError(f"{where} has {len(text)} characters; a problem has at most {MAX_TEXT}.")
    return text


def _check_depth(value: Any, path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise SpecError(f"{path} is nested more than {MAX_DEPTH} deep; no part of a problem is.")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise SpecError(f"{path or 'The problem'} has the key {_show(key)}; keys must be texts.")
            _check_depth(inner, _join(path, key), depth + 1)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check_depth(inner, path, depth + 1)


def _join(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def _show(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a whole number of over 40 digits"
    return text if len(text) <= 120 else text[:117] + "..."


def _did_you_mean(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _example(hint: Any) -> str:
    if isinstance(hint, type) and hint in known_kinds():
        return f'{{kind = "{next(iter(known_kinds()[hint]), "")}", ...}}'
    return {float: "1.0", int: "2", str: '"..."', bool: "false", np.ndarray: "[[1.0]]"}.get(hint, "...")
