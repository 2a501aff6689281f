"""From TOML and JSON, as text and in files, to problems."""

import collections
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from limitlab.errors import SpecError
from limitlab.files import open_plain
from limitlab.problems.problem import Problem
from limitlab.spec.bounds import MAX_DEPTH, MAX_TEXT
from limitlab.spec.read import from_dict
from limitlab.text import one_line, printable

__all__ = ["from_json", "load_spec", "loads"]

# A dotted key of too many parts, which tomllib would read in quadratic time and memory.
_PART = r"""(?:[\w-]++|"(?:\\.|[^"\\\n])*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?:^|[{{\[,])[ \t]*+(?:{_PART}[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}", re.MULTILINE)


def from_json(text: str) -> Problem:
    """Read a problem from JSON text."""
    return from_dict(_parse_json(_checked(text, "the JSON text"), "the JSON text"))


def loads(text: str) -> Problem:
    """Read a problem from TOML text."""
    return from_dict(_parse_toml(_checked(text, "the TOML text"), "the TOML text"))


def load_spec(path: str | os.PathLike) -> Problem:
    """Read a problem from a file (JSON if the name ends in .json, TOML otherwise)."""
    path = Path(path)
    shown = one_line(str(path))
    try:
        with open_plain(path, "problem", "Give the .toml or .json file of a problem.") as file:
            data = file.read(MAX_TEXT + 1) or b""
            size = max(os.fstat(file.fileno()).st_size, len(data))
    except OSError as error:
        raise SpecError(f"{shown} cannot be read: {error.strerror}. Check its permissions.") from error
    except ValueError as error:  # open_plain says what is wrong with the path
        raise SpecError(str(error)) from None
    if size > MAX_TEXT:
        raise SpecError(f"{shown} has {size} bytes; a problem file has at most {MAX_TEXT}.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise SpecError(f"{shown} is not a text file in UTF-8. Give the .toml or .json file of a problem.") from None
    parse = _parse_json if path.suffix == ".json" else _parse_toml
    try:
        return from_dict(parse(text, shown))
    except SpecError as error:
        if shown in str(error):
            raise
        raise SpecError(f"{shown}: {error}") from None


def _checked(text: str, where: str) -> str:
    if not isinstance(text, str):
        raise SpecError(f"{where} must be a str; got {type(text).__name__}.")
    if len(text) > MAX_TEXT:
        raise SpecError(f"{where} has {len(text)} characters; a problem has at most {MAX_TEXT}.")
    return text


def _parse_toml(text: str, where: str) -> Any:
    if _LONG_KEY.search(text):
        raise SpecError(f"{where} has a key of more than {MAX_DEPTH} parts; no part of a problem is nested so deep.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError and states line and column
        raise _invalid(where, "TOML", error) from None


def _parse_json(text: str, where: str) -> Any:
    def refuse(constant: str) -> None:
        raise SpecError(f"{where} has the number {constant}; numbers must be finite.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            counts = collections.Counter(key for key, _ in pairs)
            twice = sorted(key for key, count in counts.items() if count > 1)
            raise SpecError(printable(f"{where} gives {', '.join(twice)} twice in one table. Keep one."))
        return table

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except SpecError:
        raise
    except (ValueError, RecursionError) as error:
        raise _invalid(where, "JSON", error) from None


def _invalid(where: str, language: str, error: Exception) -> SpecError:
    return SpecError(f"{where} is not valid {language}: {printable(str(error), 200)}. Correct the file there.")
