"""Which parts a file may name, and which fields they have: a list made of our own modules, never of a file."""

import dataclasses
import functools
import importlib
import pkgutil
import types
import typing
from typing import Any

import numpy as np

import limitlab.algorithms
import limitlab.problems
from limitlab._lazy import public_names
from limitlab.modules import Module
from limitlab.problems.activations import AbstractActivation
from limitlab.problems.links import AbstractLink
from limitlab.problems.problem import Problem
from limitlab.spec.places import stands

__all__ = ["WORDED", "example", "fields_of", "kind_named", "kind_of", "known_kinds", "ours"]

ROOMS = ("limitlab.problems.", "limitlab.algorithms.")
WORDED = (AbstractActivation, AbstractLink)  # known in a file by a text, not by a table
NO_PARTS = ("limitlab.algorithms.gamp.estimator",)  # scikit-learn, which is slow to import, is its base


@functools.cache
def known_kinds() -> dict[type, dict[str, type]]:
    """For every abstract part, its concrete classes in `limitlab.problems` by name."""
    classes = set()
    for home in (limitlab.problems, limitlab.algorithms):
        for info in pkgutil.walk_packages(home.__path__, f"{home.__name__}."):
            if info.name not in NO_PARTS:
                module = importlib.import_module(info.name)
                classes |= {c for c in vars(module).values() if isinstance(c, type) and c.__module__ == info.name}
    parts = {c for c in classes if _is_part(c)}
    concrete = sorted((c for c in parts if not _abstract(c)), key=lambda c: c.__name__)
    return {base: {c.__name__: c for c in concrete if issubclass(c, base)} for base in parts}


def kind_named(base: type, name: Any) -> type | None:
    """The class in `known_kinds` of this base and name, if it is public: found without loading all others.

    Where it is says our own list of public names; a name that is not there is not looked for.
    """
    home = _homes().get(name, "") if isinstance(name, str) else ""
    if not home.startswith(ROOMS) or home in NO_PARTS:
        return None
    found = getattr(importlib.import_module(home), name)
    fits = isinstance(found, type) and _is_part(found) and not _abstract(found) and issubclass(found, base)
    return found if fits else None


@functools.cache
def _homes() -> dict[str, str]:
    return public_names("limitlab")


def _is_part(c: type) -> bool:
    """Whether a class is an abstract part or one of its kinds: no microstate, and nothing that lives in Python only."""
    if not (c.__module__.startswith(ROOMS) and issubclass(c, Module)) or issubclass(c, (Problem, *WORDED)):
        return False
    return any(base.__name__.startswith("Abstract") for base in c.__mro__) and not any(_fields_are_functions(c))


def _abstract(part: type) -> bool:
    return part.__name__.startswith(("Abstract", "_")) or bool(getattr(part, "__abstractmethods__", ()))


def _fields_are_functions(part: type) -> list[bool]:
    hints = [str(field.type) for field in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []
    return ["Callable" in hint for hint in hints]


def kind_of(part: Any) -> str:
    """What a part is called: a class of limitlab by its name, any other by its module and name."""
    cls = type(part)
    return cls.__name__ if ours(part) else f"{cls.__module__}:{cls.__qualname__}"


def ours(part: Any) -> bool:
    """Whether a part is of a class of limitlab, rather than of one that calls itself so."""
    return _standing(type(part))


@functools.lru_cache(maxsize=1024)
def _standing(cls: type) -> bool:
    return cls.__module__.split(".")[0] == "limitlab" and stands(cls)


@functools.cache
def fields_of(cls: Any) -> dict[str, tuple[Any, bool]]:
    """Fields of a part: (type without None, required); a type that is not one of limitlab's parts' is Any."""
    try:
        hints, out = typing.get_type_hints(cls), {}
    except (NameError, TypeError):  # of a user's class, whose annotations need not be known outside its function
        hints, out = {}, {}
    for field in dataclasses.fields(cls):
        hint = hints.get(field.name, Any)
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            kinds = [a for a in typing.get_args(hint) if a is not type(None)]
            hint = kinds[0] if len(kinds) == 1 else Any
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        out[field.name] = (hint, required)
    return out


def example(hint: Any) -> str:
    """A value of this type as one would write it in a file."""
    if isinstance(hint, type) and hint in known_kinds():
        return f'{{kind = "{next(iter(known_kinds()[hint]), "")}", ...}}'
    return {float: "1.0", int: "2", str: '"..."', bool: "false", np.ndarray: "[[1.0]]"}.get(hint, "...")
