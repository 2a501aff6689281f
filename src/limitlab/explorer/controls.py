"""What a visitor can set on a page: numbers, choices, texts, switches. Texts are read as data, never run."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from limitlab.errors import InputError
from limitlab.text import printable

__all__ = ["Choice", "Control", "FieldError", "Number", "Switch", "Text", "runs_of", "seed_of", "time_shown"]

GROUPS = {"nature": "What nature does", "learner": "What the learner does", "look": "What is run and shown"}


class FieldError(InputError):
    """Something is wrong with one control; its sentence stands beside it."""

    def __init__(self, key: str, words: str):
        super().__init__(words)
        self.key = key


@dataclass(frozen=True)
class Control(ABC):
    """One field of the form.

    Attributes
    ----------
    key
        Its name in the address and in the values of a page.
    words, symbol
        What it is called in plain words, and its letter in formulas.
    help
        One sentence.
    default
        Its value when nothing is said.
    group
        "nature", "learner" or "look".
    more
        Where the documentation says more: a page and a heading, such as "glossary#prior"; "" for the page's own.
    """

    key: str
    words: str
    symbol: str
    help: str
    default: Any
    group: str = "nature"
    more: str = field(default="", kw_only=True)

    @abstractmethod
    def read(self, text: str) -> Any:
        """The value in a text; raises `FieldError`."""

    def write(self, value: Any) -> str:
        """The value as a text."""
        return str(value)


@dataclass(frozen=True)
class Number(Control):
    """A number between ``low`` and ``high``: a slider, on a logarithmic scale if ``log``, with a box beside it."""

    low: float = 0.0
    high: float = 1.0
    step: float = 0.01
    log: bool = False
    whole: bool = False
    unit: str = ""

    def read(self, text: str) -> float | int:
        try:
            value = float(text)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value) or not self.low <= value <= self.high or (self.whole and value != round(value)):
            kind = "a whole number" if self.whole else "a number"
            raise FieldError(
                self.key, f"It must be {kind} from {self.low:g} to {self.high:g}; got {printable(repr(text), 40)}."
            )
        return round(value) if self.whole else value

    def write(self, value: Any) -> str:
        return str(value) if self.whole else f"{value:.6g}"


@dataclass(frozen=True)
class Choice(Control):
    """One of several: value -> words."""

    options: tuple[tuple[str, str], ...] = ()

    def read(self, text: str) -> str:
        if text not in dict(self.options):
            known = ", ".join(value for value, _ in self.options)
            raise FieldError(self.key, f"It must be one of {known}; got {printable(repr(text), 40)}.")
        return text


@dataclass(frozen=True)
class Text(Control):
    """A line of text, such as a target. What it means is for the page to say."""

    longest: int = 300
    suggestions: tuple[str, ...] = ()

    def read(self, text: str) -> str:
        if not isinstance(text, str) or not text.strip():
            raise FieldError(self.key, "Something must stand here.")
        if len(text) > self.longest:
            raise FieldError(self.key, f"At most {self.longest} characters; got {len(text)}.")
        return text.strip()


@dataclass(frozen=True)
class Switch(Control):
    """On or off."""

    def read(self, text: str) -> bool:
        if text not in ("0", "1"):
            raise FieldError(self.key, f"It must be 0 or 1; got {printable(repr(text), 40)}.")
        return text == "1"

    def write(self, value: Any) -> str:
        return "1" if value else "0"


# --- what most forms have -------------------------------------------------------------------------------------------


RUNS = "Independent runs; error bars are standard errors over them."


def runs_of(default: int, low: int, high: int, step: int = 1, words: str = RUNS) -> Number:
    """How many runs; ``words`` explain what is repeated and what an error bar is."""
    bounds = {"low": low, "high": high, "step": step, "whole": True}
    return Number("replicas", "runs", "R", words, default, "look", **bounds, more="verdict#what-z-is")


def seed_of(what: str = "runs") -> Number:
    """The seed."""
    bounds = {"low": 0, "high": 1000, "step": 1, "whole": True}
    return Number("seed", "seed", "", f"Same seed, same {what}.", 0, "look", **bounds, more="glossary#replica")


def time_shown(default: float, low: float, high: float, unit: str, **scale: Any) -> Number:
    """The last time of the figure; ``unit`` says what a unit of time is."""
    bounds = {"low": low, "high": high, **scale}
    return Number("horizon", "time that is shown", "t", unit, default, "look", **bounds, more="notation#clocks")
