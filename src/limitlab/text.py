"""Values and texts as they may be shown: those of strangers short and harmless, our own as code and as tables."""

import dataclasses
import difflib
import html
import math
import reprlib
import textwrap
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = [
    "Record",
    "brief",
    "call",
    "code",
    "did_you_mean",
    "html_record",
    "html_table",
    "join",
    "nearest",
    "one_line",
    "printable",
    "show",
    "text_table",
    "writable",
]

LINE = 88  # characters of code before it is broken, one argument to a line
MAX_ENTRIES = 400  # numbers of an array that are written out
MAX_LISTED = 12  # entries of a list in a table
MAX_MESSAGE = 1500  # characters of a message
MAX_VALUE = 120  # characters of a value in it
MAX_WORD = 200  # characters of a name that is compared with known ones


def printable(text: str, most: int = MAX_MESSAGE) -> str:
    """The text with control characters, marks of direction and lone surrogates escaped, cut if it is long."""
    cut = text if len(text) <= most else text[: most - 3] + "..."
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in cut)


def one_line(text: str, most: int = MAX_MESSAGE) -> str:
    """The text as `printable` has it, with new lines escaped too: a name must not look like several messages."""
    return printable(text, most).replace("\n", "\\n")


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
    """The known name that looks most like this one, if any looks enough like it (1: equal), small letters or not."""
    names, word = list(known), name[:MAX_WORD]
    same = next((one for one in names if one.lower() == word.lower()), None)
    return same or next(iter(difflib.get_close_matches(word, names, 1, cutoff)), None)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A sentence with the nearest known name, or nothing."""
    near = nearest(name, known, cutoff)
    return f" Did you mean {near!r}?" if near else ""


# --- our own things, as code and as tables -------------------------------------------------------------------


def call(name: str, arguments: Mapping[str, Any]) -> str:
    """The code that calls ``name`` with these arguments, on one line if it fits."""
    parts = [f"{key}={code(value)}" for key, value in arguments.items()]
    line = f"{name}({', '.join(parts)})"
    if len(line) <= LINE and "\n" not in line:
        return line
    return f"{name}(\n" + "".join(textwrap.indent(part, "    ") + ",\n" for part in parts) + ")"


def code(value: Any) -> str:
    """The code of a value: eval brings it back, but for functions (by their names) and arrays of many numbers.

    A method is shown with its object, if that prints as code, else with its class.
    """
    if isinstance(value, (np.generic, np.ndarray)) or hasattr(value, "__jax_array__") or hasattr(value, "aval"):
        return _array(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        inside = ", ".join(map(code, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict) and type(value) is dict:
        return "{" + ", ".join(f"{code(key)}: {code(item)}" for key, item in value.items()) + "}"
    if isinstance(value, types.MethodType) and hasattr(value, "__name__"):
        owner = value.__self__
        whose = repr(owner) if _is_record(owner) else getattr(owner, "__name__", type(owner).__name__)
        return f"{whose}.{value.__name__}"
    if callable(value) and not dataclasses.is_dataclass(value):
        return getattr(value, "__name__", "") or repr(value)
    return repr(value)


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _array(value: Any) -> str:
    try:
        array = np.asarray(value)
    except Exception:  # while being traced: no numbers yet
        return f"<{getattr(value, 'dtype', 'array')}{list(getattr(value, 'shape', ()))}>"
    if array.size > MAX_ENTRIES:
        return f"<{_shape(array)} numbers>"
    return code(array.tolist())


def _quoted(text: str) -> str:
    """A text in double quotes, as it would be written in a program."""
    plain = repr(text)
    if plain.startswith("'") and '"' not in plain:
        return f'"{plain[1:-1]}"'
    return plain


def html_table(caption: str, rows: Iterable[tuple[str, str]], heads: tuple[str, ...] = ()) -> str:
    """A small table for notebooks. Every text is escaped here."""
    left = 'style="text-align: left; white-space: pre-wrap"'
    head = "".join(f"<th {left}>{html.escape(word)}</th>" for word in heads)
    body = "".join(
        f"<tr><th {left}>{html.escape(name)}</th><td {left}>{html.escape(value)}</td></tr>" for name, value in rows
    )
    title = f'<caption style="text-align: left; white-space: pre-wrap">{html.escape(caption)}</caption>'
    return f"<table>{title}{f'<thead><tr>{head}</tr></thead>' if heads else ''}<tbody>{body}</tbody></table>"


def text_table(rows: Iterable[tuple[str, str]]) -> str:
    """Names and words below each other, long words broken under themselves."""
    rows = list(rows)
    wide = max((len(name) for name, _ in rows), default=0) + 2
    told = [textwrap.fill(words, max(LINE - wide, 40)).replace("\n", "\n" + " " * wide) for _, words in rows]
    return "\n".join(name.ljust(wide) + words for (name, _), words in zip(rows, told, strict=True))


def html_record(record: Any) -> str:
    """A record as a table of its fields, under its own words if it has some."""
    kind = type(record)
    rows = [(name, brief(getattr(record, name))) for name in _names(record)]
    return html_table(kind.__name__ if kind.__str__ is object.__str__ else str(record), rows)


def brief(value: Any) -> str:
    """A value in a few words: numbers with six digits, long lists cut, of large arrays the shape."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return "none" if value is None else "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _cut([f"{key}: {brief(item)}" for key, item in value.items()])
    if isinstance(value, Record) or hasattr(value, "_fields"):
        return _cut([f"{name}: {brief(getattr(value, name))}" for name in _names(value)])
    if isinstance(value, (list, tuple)):
        return _cut([f"({brief(item)})" if isinstance(item, (list, tuple)) else brief(item) for item in value])
    if isinstance(value, np.ndarray) or hasattr(value, "aval"):
        array = np.asarray(value)
        few = array.ndim <= 1 and array.size <= MAX_LISTED
        return _cut([brief(item) for item in array.ravel().tolist()]) if few else f"{_shape(array)} numbers"
    text = code(value)
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 3] + "..."


def _names(record: Any) -> Iterable[str]:
    return getattr(record, "_fields", None) or [field.name for field in dataclasses.fields(record)]


def _cut(words: list[str]) -> str:
    rest = len(words) - MAX_LISTED
    return ", ".join(words) if rest <= 0 else ", ".join(words[:MAX_LISTED]) + f", ... ({rest} more)"


def _shape(array: np.ndarray) -> str:
    return " x ".join(map(str, array.shape))


class Record:
    """An answer that is shown in notebooks as a table of its fields."""

    def _repr_html_(self) -> str:
        return html_record(self)
