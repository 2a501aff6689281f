"""What a problem file may cost at most, checked before anything is made of it."""

from typing import Any

import numpy as np

from limitlab.errors import SpecError
from limitlab.text import join, show

__all__ = ["MAX_DEPTH", "MAX_TEXT", "MAX_VALUES", "MAX_WHOLE", "MAX_WIDTH", "check_bounds"]

MAX_TEXT = 1_000_000  # characters of a problem file, and of all texts of a table
MAX_VALUES = 1_000_000  # tables, texts and numbers
MAX_DEPTH = 8  # of tables and lists in each other
MAX_WIDTH = 1_000_000  # units of a network
MAX_WHOLE = 1_000_000_000  # every other whole number, such as a batch size
MAX_BITS = 1024  # of a whole number where a float is due: no float is larger


def check_bounds(table: Any) -> None:
    """Raise `SpecError` unless the table is small, shallow and has texts as keys."""
    _Walk().visit(table, "", 0)


class _Walk:
    def __init__(self) -> None:
        self.values = self.characters = 0

    def count(self, path: str, values: int, characters: int = 0) -> None:
        self.values += values
        self.characters += characters
        if self.values > MAX_VALUES or self.characters > MAX_TEXT:
            where = f"{path}: the problem" if path else "The problem"
            raise SpecError(
                f"{where} has too much in it; at most {MAX_VALUES} values and {MAX_TEXT} characters are read. "
                "Use smaller networks or fewer terms."
            )

    def visit(self, value: Any, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise SpecError(f"{path} is nested more than {MAX_DEPTH} deep; no part of a problem is. Flatten it.")
        if isinstance(value, dict):
            self.count(path, len(value))
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise SpecError(f"{path or 'The problem'} has the key {show(key)}; keys must be texts.")
                self.count(path, 0, len(key))
                self.visit(inner, join(path, key), depth + 1)
        elif isinstance(value, (list, tuple)):
            self.count(path, len(value))
            for inner in value:
                if type(inner) is not float:
                    self.visit(inner, path, depth + 1)
        elif isinstance(value, np.ndarray):
            self.count(path, value.size)
        elif isinstance(value, (str, bytes, bytearray)):
            self.count(path, 0, len(value))
        elif isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise SpecError(f"{path} must be a finite number; got {show(value)}. No float is so large.")
