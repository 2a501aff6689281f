"""What to cite: BibTeX for the library and for the parts of a problem and the limits that were used."""

import functools
import importlib.resources
import re
from collections.abc import Iterable
from typing import Any

from limitlab.errors import InputError
from limitlab.problems.problem import Problem

__all__ = ["cite", "references"]

# Sources of parts, by class name. A part may also say so itself, with a class attribute ``reference``.
_PARTS: dict[str, tuple[str, ...]] = {
    "OnlineSGD": ("saad1995online",),
    "GAMP": ("rangan2011generalized",),
    "ERM": ("aubin2020generalization",),
    "SpectralStart": ("mondelli2019fundamental",),
    "RandomStart": ("benarous2021online",),  # overlaps of order d^-1/2 and the time they cost
}
_SPHERICAL = ("benarous2021online", "arnaboldi2023escaping")
# These activations enter exact Gaussian moments as mixtures of erf.
_ACTIVATIONS = {"tanh": ("stefanski1991normal",), "sigmoid": ("stefanski1991normal",)}


def cite(problem: Problem | None = None, limit: Any = None) -> str:
    """BibTeX text of what was used: limitlab, the learning rule, start and activations, and the limit.

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
    keys: list[str] = []
    for part in (problem.algorithm, problem.start):
        keys += _declared(part) or _PARTS.get(type(part).__name__, ())
    if getattr(problem.algorithm, "spherical", False):
        keys += _SPHERICAL
    for network in (problem.teacher, problem.student):
        name = getattr(getattr(network, "activation", None), "name", "")
        keys += _ACTIVATIONS.get(name, ())
    return keys


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
    reference = getattr(part, "reference", None)
    return [reference] if isinstance(reference, str) else list(reference or ())
