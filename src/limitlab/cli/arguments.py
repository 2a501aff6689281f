"""From words on a command line to problems, times, limits and places for files."""

import dataclasses
import math
import os
import types
import typing
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError
from limitlab.library import LIBRARY
from limitlab.problems.problem import Problem
from limitlab.spec import load_spec
from limitlab.text import did_you_mean

if TYPE_CHECKING:  # a problem alone is read and written without the limits
    from limitlab.macro.limit import AbstractLimit

__all__ = [
    "grid_of",
    "has_clock",
    "limit_class",
    "limit_of",
    "numbers_of",
    "place_of",
    "problem_of",
    "times_of",
    "usual_limit",
]

MAX_TIMES = 1_000_000
MAX_POINTS = 1_000_000
DIGITS = 12  # of a value on a grid: 0.5:3:0.05 has 0.55, not 0.55000000000000004
ROUNDING = Decimal("1e-6")  # of a step: how far from the last value a stop may be and still be meant by it


def problem_of(text: str) -> Problem:
    """A problem from the name of a library problem or of a file."""
    if text in LIBRARY:
        return LIBRARY[text]()
    if not Path(text).exists() and Path(text).suffix == "":
        raise InputError(
            f"SPEC must be a TOML or JSON file or a library problem ({', '.join(LIBRARY)}); got {text!r}, "
            f"which is neither.{did_you_mean(text, LIBRARY)}"
        )
    return load_spec(text)


def has_clock(problem: Problem) -> bool:
    """Whether a run of the problem is asked for times; without a rule the verb itself says what is missing."""
    return problem.algorithm is None or problem.algorithm.axis == "time"


def usual_limit(problem: Problem) -> str:
    """The limit that describes what the problem's own rule does; without a rule the first one that applies."""
    rule = problem.algorithm
    if rule is not None and (name := rule.usual_limit(problem)) is not None:
        return name
    from limitlab.macro.predict import limits

    applies = [name for name, answer in limits(problem).items() if answer == "applies"]
    if not applies:
        who = "The problem has no rule" if rule is None else f"{type(rule).__name__} names no limit"
        raise InputError(f"{who}, and no limit applies to the problem. Choose one with --limit to see why not.")
    return applies[0]


def times_of(text: str) -> np.ndarray:
    """Times from ``start:stop:count``, ``start:stop:count:log`` or a list with commas."""
    return numbers_of(text)


def numbers_of(text: str, name: str = "--times") -> np.ndarray:
    """Numbers from ``start:stop:count``, ``start:stop:count:log`` or a list with commas."""
    try:
        if ":" not in text:
            return np.asarray([float(word) for word in text.split(",")])
        start, stop, count, *scale = text.split(":")
        if scale not in ([], ["log"]):
            raise ValueError
        first, last, number = float(start), float(stop), int(count)
    except ValueError:
        raise InputError(
            f"{name} must be start:stop:count, start:stop:count:log or a list with commas; got {text!r}. "
            f"Write, for example, {name} 0:10:51 or {name} 0,1,2.5."
        ) from None
    if not 1 <= number <= MAX_TIMES:
        raise InputError(f"{name} {text!r}: the count must be between 1 and {MAX_TIMES}; got {number}.")
    if not (np.isfinite(first) and np.isfinite(last)) or (number > 1 and last <= first):
        raise InputError(f"{name} {text!r} must increase: stop must exceed start; got {start} and {stop}.")
    if scale and first <= 0:
        raise InputError(f"{name} {text!r}: a logarithmic grid needs start > 0; got {start}.")
    return np.geomspace(first, last, number) if scale else np.linspace(first, last, number)


def grid_of(texts: list[str]) -> dict[str, list]:
    """Parameters and their values, from texts such as ``sample_ratio=0.5:3:0.05``, in their order."""
    grid: dict[str, list] = {}
    for text in texts:
        name, equals, values = (word.strip() for word in text.partition("="))
        if not equals or not name:
            raise InputError(f"--over must be name=values, such as --over sample_ratio=0.5:3:0.05; got {text!r}.")
        if name in grid:
            raise InputError(f"--over {name} was given twice; got {text!r} as well. Put all its values into one.")
        grid[name] = _values_of(values, f"--over {text!r}" if len(text) <= 80 else f"--over {text[:80]!r}...")
    points = math.prod(map(len, grid.values()))
    if points > MAX_POINTS:
        sizes = " x ".join(str(len(values)) for values in grid.values())
        raise InputError(
            f"--over: a sweep has at most {MAX_POINTS} points; got {sizes} = {points}. Use fewer values, or several "
            "sweeps into the same folder."
        )
    return grid


def _values_of(text: str, where: str) -> list:
    """Values from ``start:stop:step``, ``start:stop:count:log``, or a list of numbers or words with commas."""
    if ":" in text:
        parts = [part.strip() for part in text.split(":")]
        if len(parts) == 3:
            return _steps(parts[0], parts[1], parts[2], where)
        if len(parts) == 4 and parts[3] == "log":
            return _decades(parts[0], parts[1], parts[2], where)
        raise InputError(f"{where} must be start:stop:step, start:stop:count:log or a list with commas. {_EXAMPLES}")
    words = _split(text)
    if not all(words):
        raise InputError(f"{where} has an empty value. {_EXAMPLES}")
    if len(words) > MAX_POINTS:
        raise InputError(f"{where} has {len(words)} values; at most {MAX_POINTS} are taken. Use fewer.")
    numbers = [_number_or_none(word, where) for word in words]
    if all(number is None for number in numbers):
        truths = {"true": True, "false": False}
        return [truths.get(word.lower(), word) for word in words]
    if None in numbers:
        word = words[numbers.index(None)]
        raise InputError(f"{where} mixes numbers and words: {word!r} is no number. Give either numbers or words.")
    if all(word.lstrip("+-").isdigit() and abs(int(word)) < 2**63 for word in words):
        return [int(word) for word in words]
    return _alike([float(number) for number in numbers if number is not None], words)


_EXAMPLES = "Write, for example, --over sample_ratio=0.5:3:0.05 or --over student.activation=erf,relu."


def _split(text: str) -> list[str]:
    """Words between commas; commas in parentheses, as in shifted(erf, 1), do not count."""
    words, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            words.append("")
        else:
            words[-1] += letter
    return [word.strip() for word in words]


def _number_or_none(text: str, where: str) -> Decimal | None:
    """A finite number as it is written; None if the text is no number."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value):
        raise InputError(f"{where}: values must be finite numbers; got {text!r}.")
    return Decimal(text) if value else Decimal(0)


def _bounds(texts: tuple[str, str, str], where: str) -> list[Decimal]:
    numbers = []
    for name, text in zip(("start", "stop", "step or count"), texts, strict=True):
        number = _number_or_none(text, where)
        if number is None:
            raise InputError(f"{where}: the {name} must be a number; got {text!r}. {_EXAMPLES}")
        numbers.append(number)
    return numbers


def _steps(start: str, stop: str, step: str, where: str) -> list:
    """start, start + step, ... up to stop, which is taken in if it falls on the grid."""
    first, last, by = _bounds((start, stop, step), where)
    if by <= 0:
        raise InputError(f"{where}: the step must be positive; got {step}. It is start:stop:step.")
    if last < first:
        raise InputError(f"{where} has no values: the stop {stop} is below the start {start}. Swap them.")
    try:
        count = int((last - first) / by + ROUNDING) + 1
    except (InvalidOperation, OverflowError):
        count = MAX_POINTS + 1
    if count > MAX_POINTS:
        raise InputError(f"{where} has more than {MAX_POINTS} values. Use a larger step than {step}.")
    values = [_tidy(float(first + k * by), float(by)) for k in range(count)]
    return _alike(values, [start, step])


def _decades(start: str, stop: str, count: str, where: str) -> list:
    """``count`` values from start to stop, each the same factor above the one before."""
    first, last, number = _bounds((start, stop, count), where)
    if not 1 <= number <= MAX_POINTS or number != int(number):
        raise InputError(f"{where}: the count must be a whole number from 1 to {MAX_POINTS}; got {count}.")
    if first <= 0 or last <= first:
        raise InputError(f"{where}: a logarithmic grid needs 0 < start < stop; got {start} and {stop}.")
    values = np.geomspace(float(first), float(last), int(number)).tolist()
    return _alike([_tidy(value, value) for value in values], [start, stop])


def _tidy(value: float, step: float) -> float:
    """The value to `DIGITS` digits, unless neighbours would no longer be told apart."""
    rounded = float(f"{value:.{DIGITS}g}")
    return rounded if abs(rounded - value) <= 1e-6 * step else value


def _alike(values: list[float], words: list[str]) -> list:
    """Whole numbers stay whole if all are, and if none was written with a point."""
    whole = all(value.is_integer() and abs(value) < 2**53 for value in values) and not any("." in w for w in words)
    return [int(value) for value in values] if whole else values


def limit_class(name: str) -> "type[AbstractLimit]":
    """The class of a limit by its name."""
    from limitlab.macro.predict import LIMITS

    if name not in LIMITS:
        raise InputError(f"--limit must be one of {', '.join(LIMITS)}; got {name!r}.{did_you_mean(name, LIMITS)}")
    return LIMITS[name]


def limit_of(name: str, settings: list[str]) -> "AbstractLimit":
    """A limit by its name, with fields set as ``field=value``."""
    kind = limit_class(name)
    fields, hints, values = [f.name for f in dataclasses.fields(kind)], typing.get_type_hints(kind), {}
    for setting in settings:
        field, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"--set must be field=value, such as --set d=1000; got {setting!r}.")
        if field not in fields:
            told = f"it has {', '.join(fields)}.{did_you_mean(field, fields)}"
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
