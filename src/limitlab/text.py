"""Values and texts of strangers as they may be shown: short, and without what a terminal would obey."""

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

__all__ = ["did_you_mean", "join", "nearest", "printable", "show", "writable"]

MAX_MESSAGE = 1500  # characters of a message
MAX_VALUE = 120  # characters of a value in it
MAX_WORD = 200  # characters of a name that is compared with known ones


def printable(text: str, most: int = MAX_MESSAGE) -> str:
    """The text with control characters, marks of direction and lone surrogates escaped, cut if it is long."""
    cut = text if len(text) <= most else text[: most - 3] + "..."
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in cut)


def writable(text: str) -> str:
    """The text with lone surrogates and zeros escaped, which not every file can hold."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def show(value: Any) -> str:
    """A short repr of anything; a large value is not written out first."""
    short = reprlib.Repr()
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = 40
    short.maxstring = short.maxother = short.maxlong = MAX_VALUE
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a whole number of over 40 digits"
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value[:MAX_VALUE])
    try:
        text = short.repr(value)
    except Exception:  # an object whose repr fails, or a list with a whole number too long to print
        text = f"a {type(value).__name__}"
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 3] + "..."


def join(path: str, field: str) -> str:
    """The path of a field."""
    field = field if len(field) <= MAX_WORD else field[:MAX_WORD] + "..."
    return f"{path}.{field}" if path else field


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that looks most like this one, if any looks enough like it (1: equal)."""
    return next(iter(difflib.get_close_matches(name[:MAX_WORD], list(known), 1, cutoff)), None)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A sentence with the nearest known name, or nothing."""
    near = nearest(name, known, cutoff)
    return f" Did you mean {near!r}?" if near else ""
