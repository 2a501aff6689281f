"""Turning numbers of a frozen description into arrays, so that a compiled function serves all their values."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from limitlab.modules import is_array_like

__all__ = ["NUMBERS", "as_array", "as_arrays", "changed_fields", "is_zero", "plain", "traced"]

NUMBERS = (float, int, np.ndarray, np.number)  # what a problem is made of, apart from its structure

T = TypeVar("T")


def _is_number(x: Any) -> bool:
    return (isinstance(x, (float, int)) and not isinstance(x, bool)) or isinstance(x, (np.ndarray, np.number))


def plain(value: Any) -> Any:
    """A NumPy number as a plain one, so that it can be static; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def is_zero(value: Any) -> bool:
    """True if the number is zero by declaration (a plain 0), not by accident (a traced array never is)."""
    return isinstance(value, (int, float)) and value == 0


def as_array(x: Any, dtype: Any = None) -> Any:
    """An array of NumPy, or of JAX as it is, for a compiled function; type checkers let it pass as either."""
    return x if isinstance(x, jax.Array) else np.asarray(x, dtype)


def as_arrays(tree: T) -> T:
    """Every number of a module as an array of floats: traced by ``filter_jit``, mapped by ``vmap``.

    Of NumPy: to make one of JAX is a small program for every new shape.
    """
    return jax.tree.map(lambda x: np.asarray(x, float) if _is_number(x) else x, tree, is_leaf=is_array_like)


def traced(tree: T) -> T:
    """Like `as_arrays`, but a plain 0 stays one: "no noise" is a different formula, not a small number."""
    return jax.tree.map(
        lambda x: np.asarray(x, float) if _is_number(x) and not (np.ndim(x) == 0 and x == 0) else x,
        tree,
        is_leaf=is_array_like,
    )


def changed_fields(now: Mapping[str, Any], changes: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    """The fields that change, each rebuilt through its constructor, all of them at once.

    All at once, because what is allowed in one part may depend on another that changes too (a width and the
    overlaps of the start).
    """
    out = {}
    for field in dict.fromkeys(path[0] for path in changes):
        value: Any = changes.get((field,), now.get(field))
        deeper = {path[1:]: v for path, v in changes.items() if path[0] == field and len(path) > 1}
        out[field] = dataclasses.replace(value, **changed_fields(vars(value), deeper)) if deeper else value
    return out
