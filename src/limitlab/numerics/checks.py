"""Range checks with one uniform sentence: what was needed, what came, what to do."""

import math
from typing import Any

import numpy as np

from limitlab.errors import InputError

__all__ = [
    "check_array",
    "check_choice",
    "check_integer",
    "check_number",
    "check_psd",
    "check_seed",
    "check_times",
    "whole_steps",
]

LONGEST = 200  # characters of a value in a sentence
SEEDS = 2**63  # seeds are below: as many as the random generator tells apart


def _short(value: Any) -> str:
    """A repr that fits into a sentence."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of too many digits to print
        text = "a very large whole number"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _fail(owner: str, field: str, needed: str, came: Any, remedy: str) -> None:
    raise InputError(f"{owner}.{field} must be {needed}; got {_short(came)}. {remedy}")


def check_number(
    owner: str,
    field: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    remedy: str = "",
) -> float:
    """Return ``value`` as a float if it is a finite number inside the interval, else raise `InputError`."""
    left = "(" if open_low or low == -math.inf else "["
    right = ")" if open_high or high == math.inf else "]"
    needed = f"a finite number in {left}{low:g}, {high:g}{right}"
    if isinstance(value, (bool, np.complexfloating)) or not isinstance(value, (int, float, np.number)):
        if getattr(value, "shape", None) != () or np.iscomplexobj(value):
            _fail(owner, field, needed, value, remedy)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf  # a whole number beyond all floats
    inside = (number > low if open_low else number >= low) and (number < high if open_high else number <= high)
    if not (math.isfinite(number) and inside):
        _fail(owner, field, needed, number, remedy)
    return number


def check_integer(
    owner: str, field: str, value: Any, *, low: int = 0, high: int | None = None, remedy: str = ""
) -> int:
    """Return ``value`` as an int if it is a whole number from ``low`` to ``high``, else raise `InputError`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or int(value) < low:
        _fail(owner, field, f"a whole number >= {low}", value, remedy)
    if high is not None and int(value) > high:
        came = str(value) if abs(int(value)) < 10**30 else f"one of about {int(value).bit_length() * 3 // 10} digits"
        raise InputError(f"{owner}.{field} must be at most {high}; got {came}. {remedy}")
    return int(value)


def check_seed(owner: str, value: Any, field: str = "seed") -> int:
    """Return ``value`` as an int if it is a seed, a whole number from 0 to 2^63 - 1, else raise `InputError`."""
    remedy = "Seeds are whole numbers from 0 to 2^63 - 1."
    return check_integer(owner, field, value, low=0, high=SEEDS - 1, remedy=remedy)


def check_array(what: str, value: Any) -> np.ndarray:
    """Return ``value`` as an array of floats, else raise `InputError`; ``what`` opens the sentence."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be numbers; got {_short(value)}.") from None


def check_choice(owner: str, field: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``, else raise `InputError`."""
    if value not in choices:
        _fail(owner, field, f"one of {', '.join(map(repr, choices))}", value, "Choose one of these.")
    return value


def check_psd(owner: str, field: str, matrix: np.ndarray, *, tolerance: float = 1e-9) -> None:
    """Raise `InputError` unless ``matrix`` is finite, symmetric and positive semi-definite."""
    if not np.all(np.isfinite(matrix)):
        _fail(owner, field, "finite", matrix.tolist(), "Remove NaN and infinite entries.")
    scale = max(1.0, float(np.max(np.abs(matrix), initial=0.0)))
    asymmetry = float(np.max(np.abs(matrix - matrix.T), initial=0.0))
    if asymmetry > tolerance * scale:
        _fail(
            owner,
            field,
            "symmetric",
            matrix.tolist(),
            f"Largest difference from its transpose: {asymmetry:.3g}; symmetrise it first.",
        )
    lowest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]) if matrix.size else 0.0
    if lowest < -tolerance * scale:
        _fail(
            owner,
            field,
            "positive semi-definite (it is a Gram matrix)",
            matrix.tolist(),
            f"Its lowest eigenvalue is {lowest:.3g}; an overlap |M_ir| cannot exceed sqrt(Q_ii P_rr).",
        )


def whole_steps(times: np.ndarray, clock: float) -> np.ndarray:
    """The nearest whole steps of ``clock`` at the asked times; more than a computer counts exactly are refused."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        steps = np.rint(times / float(clock))
    if not np.all(steps < 2**53):
        raise InputError(
            f"times must be within 2^53 steps; t = {times[-1]:g} is {steps[-1]:.3g} steps of {float(clock):.3g}. "
            "Ask for shorter times, or raise the learning rate."
        )
    return steps.astype(np.int64)


def check_times(times: Any) -> np.ndarray:
    """Return ``times`` as a float array if non-empty, finite, non-negative and strictly increasing."""
    try:
        array = np.atleast_1d(np.asarray(times, dtype=float))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"times must be a list of numbers; got {_short(times)}.") from None
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"times must be a non-empty one-dimensional list; got shape {array.shape}. "
            "Pass, for example, numpy.linspace(0, 10, 51)."
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if np.any(wrong):
        where = int(np.argmax(wrong))
        raise InputError(
            f"times must be finite and >= 0; got {array[where]:g} (position {where} of {len(array)}). Time starts at 0."
        )
    if np.any(np.diff(array) <= 0):
        where = int(np.argmax(np.diff(array) <= 0))
        raise InputError(
            f"times must increase strictly; got {array[where]:g} followed by {array[where + 1]:g} "
            f"(positions {where}, {where + 1}). Sort them and drop repeats."
        )
    return array
