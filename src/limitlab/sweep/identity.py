"""What makes two points the same: a canonical description of problem, verb and arguments, and its hash.

The hash names a point's file and, with the sweep's seed, its random streams. Numbers that are equal are described
alike (1 and 1.0, a list and an array of the same numbers); a limitlab function is known by its name, a user's function
by its name and its own compiled code, defaults and closure. Functions that it calls in turn are not looked into.
"""

import dataclasses
import functools
import hashlib
import json
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from limitlab.errors import InputError
from limitlab.problems.activations import AbstractActivation
from limitlab.problems.problem import Problem
from limitlab.spec import to_dict

__all__ = ["NUMERICS_VERSION", "describe", "hash_of", "point_seed", "verb_name"]

NUMERICS_VERSION = 2  # raised whenever a change of limitlab alters stored numbers by more than rounding
SHORT = 64  # numbers of an array that are written out; longer ones are known by their bytes


def hash_of(*descriptions: Any) -> str:
    """32 hexadecimal digits of the SHA-256 of descriptions."""
    text = json.dumps(descriptions, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def point_seed(seed: int, point: str) -> int:
    """The seed of one point's random streams: below 2^62, so that 10^6 points share none, and any file can hold it."""
    return int(hash_of("stream", describe(seed), point), 16) >> 66


def verb_name(verb: Callable) -> str:
    """What a verb is called; a function without a name gives a "value"."""
    name = getattr(verb, "__name__", "")
    return name if name.isidentifier() else "value"


def describe(value: Any, strict: bool = True) -> Any:
    """A value as JSON, equal for equal values.

    What cannot be described is refused if ``strict`` (a store could confuse two such points), and known by its type
    otherwise.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (int, float, np.integer, np.floating)):
        return _number(value)
    if isinstance(value, Problem):
        return {"problem": to_dict(value), "functions": [_function(f, strict) for f in _functions(value)]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: describe(getattr(value, f.name), strict) for f in dataclasses.fields(value)}
        return {"kind": _place(type(value)), **fields}
    if isinstance(value, Mapping):
        return {"table": {str(key): describe(item, strict) for key, item in value.items()}}
    if isinstance(value, (list, tuple)) or (hasattr(value, "__array__") and hasattr(value, "shape")):
        return _sequence(value, strict)
    if isinstance(value, types.ModuleType):
        return {"module": value.__name__}
    if isinstance(value, type):
        return {"class": _place(value)}
    if callable(value):
        return _function(value, strict)
    if strict:
        raise InputError(
            f"A store cannot tell {type(value).__name__} objects apart; got {value!r:.100}. Pass numbers, texts, "
            "arrays or limitlab's own parts, or sweep without a store."
        )
    return {"object": _place(type(value))}


def _functions(part: Any) -> list[Callable]:
    """The Python functions in a problem; activations are known by what they compute (see `limitlab.spec`)."""
    if isinstance(part, AbstractActivation):
        return []
    if dataclasses.is_dataclass(part):
        return [f for field in dataclasses.fields(part) for f in _functions(getattr(part, field.name))]
    return [part] if callable(part) else []


def _number(value: Any) -> Any:
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, int):
        return number
    if not np.isfinite(number):
        return {"number": str(number)}
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _sequence(value: Any, strict: bool) -> Any:
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different length
        array = np.asarray(None)
    if array.dtype.kind in "fiub":
        if array.size <= SHORT:
            return _nested(array.tolist())
        array = np.ascontiguousarray(array, dtype=float)
        return {"numbers": hashlib.sha256(array.tobytes()).hexdigest(), "shape": list(array.shape)}
    return [describe(item, strict) for item in value]


def _nested(value: Any) -> Any:
    return [_nested(item) for item in value] if isinstance(value, list) else describe(value)


def _place(thing: Any) -> str:
    """Where a class or function lives; limitlab's own by their bare name, so that a moved file changes nothing."""
    module, name = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", repr(thing))
    return f"limitlab:{name}" if module.split(".")[0] == "limitlab" else f"{module}:{name}"


def _function(function: Callable, strict: bool) -> Any:
    if isinstance(function, functools.partial):
        return {
            "partial": _function(function.func, strict),
            "arguments": describe(function.args, strict),
            "keywords": describe(function.keywords, strict),
        }
    if isinstance(function, types.MethodType):
        return {"method": _function(function.__func__, strict), "of": describe(function.__self__, strict)}
    inner = getattr(function, "__wrapped__", function)  # of a jitted function, or of a decorator
    code = getattr(inner, "__code__", None)
    place = _place(function)
    if code is None or place.startswith("limitlab:"):
        return {"function": place}
    cells = [describe(_content(cell), strict) for cell in inner.__closure__ or ()]
    defaults = [describe(inner.__defaults__, strict), describe(inner.__kwdefaults__, strict)]
    # Not by its module: a function of a script is the same when it is imported.
    return {"function": function.__qualname__, "code": _code(code), "closure": cells, "defaults": defaults}


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not bound yet
        return None


def _code(code: types.CodeType) -> str:
    """The hash of what a function does: its instructions and constants, not its place in a file."""
    constants = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            constants.append(_code(constant))
        elif isinstance(constant, frozenset):  # whose order changes from process to process
            constants.append(repr(sorted(map(repr, constant))))
        else:
            constants.append(repr(constant))
    return hash_of(code.co_code.hex(), constants, code.co_names, code.co_varnames, code.co_freevars)
