"""What to cite: BibTeX for the library and for the parts of a problem and the limits that were used."""

import dataclasses
import functools
import importlib.resources
import re
from collections.abc import Iterable
from typing import Any

from limitlab.errors import InputError
from limitlab.problems.problem import Problem

__all__ = ["cite", "references"]


def cite(problem: Problem | None = None, limit: Any = None) -> str:
    """BibTeX text of what was used: limitlab, every part of the problem that names a source, and the limit.

    A part of your own names its sources in a class attribute ``reference`` (a key or several), or in a method
    ``references()`` if they depend on its fields.

    Parameters
    ----------
    problem
        A `Problem`, or None.
    limit
        A limit (object or class), several of them in a list, or None.
    """
    entries = references()
    keys = ["limitlab", *_of_problem(problem), *_of_limits(limit)]
    for key in keys:
        if key not in entries:
            raise InputError(
                f"The reference {key!r} is not in references.bib, which has {', '.join(entries)}. Add its entry there."
            )
    return "\n\n".join(entries[key] for key in dict.fromkeys(keys)) + "\n"


@functools.cache
def references() -> dict[str, str]:
    """Every entry of the package's references.bib by its key, as text."""
    text = importlib.resources.files("limitlab").joinpath("references.bib").read_text(encoding="utf-8")
    return parse_entries(text)


def parse_entries(text: str) -> dict[str, str]:
    """The entries of a BibTeX text by key; raises `InputError` for one that does not close or comes twice."""
    entries: dict[str, str] = {}
    for match in re.finditer(r"^@(\w+)\{([^,\s]+),", text, re.MULTILINE):
        depth = 0
        for position in range(match.start(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            if depth == 0 and text[position] == "}":
                break
        key, entry = match[2], text[match.start() : position + 1]
        if depth != 0 or re.search(r"^@", entry[1:], re.MULTILINE):
            raise InputError(f"The BibTeX entry {key!r} does not close. Balance its braces.")
        if key in entries:
            raise InputError(f"The BibTeX key {key!r} comes twice. Keep one entry.")
        entries[key] = entry
    return entries


def _of_problem(problem: Problem | None) -> list[str]:
    if problem is None:
        return []
    if not isinstance(problem, Problem):
        raise InputError(f"cite needs a Problem or None; got {problem!r}. Use cite(problem, limit).")
    return _of_part(problem)


def _of_part(part: Any) -> list[str]:
    """What a part and the parts in it declare: of a problem the rule first, then the start, then the others."""
    inner = [getattr(part, field.name) for field in reversed(dataclasses.fields(part))]
    return [*_declared(part), *(key for one in inner if dataclasses.is_dataclass(one) for key in _of_part(one))]


def _of_limits(limit: Any) -> list[str]:
    if limit is None:
        return []
    if isinstance(limit, Iterable) and not isinstance(limit, (str, type)):
        return [key for one in limit for key in _of_limits(one)]
    declared = _declared(limit)
    if not declared:
        raise InputError(f"cite needs limits such as OverlapODE(), which name a reference; got {limit!r}.")
    return declared


def _declared(part: Any) -> list[str]:
    own = getattr(part, "references", None)
    reference: Any = own() if callable(own) and not isinstance(part, type) else getattr(part, "reference", None)
    return ([reference] if reference else []) if isinstance(reference, str) else list(reference or ())
