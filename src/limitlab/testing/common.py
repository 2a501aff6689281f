"""What all contracts ask: frozen, described, pure, the same when copied."""

import copy
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import numpy as np

from limitlab.modules import Module
from limitlab.sweep.identity import describe, hash_of

__all__ = ["ContractError", "broken", "check_part", "close", "same", "zscore"]

Z = 5.0  # standard errors, beyond which a mean is called wrong


class ContractError(AssertionError):
    """A part does not do what its kind promises."""


def broken(part: Any, what: str) -> NoReturn:
    raise ContractError(f"{type(part).__name__}: {what}")


def check_part(part: Any, kind: type) -> None:
    """A frozen object of its kind that can be described, hashed alike twice, and copied."""
    if not isinstance(part, kind):
        broken(part, f"it is not a subclass of {kind.__name__}.")
    if not isinstance(part, Module):
        broken(part, "it is none of limitlab's frozen parts.")
    try:
        first, again = (hash_of(describe(part)) for _ in range(2))
    except Exception as error:
        broken(part, f"it cannot be described, so that results could not be stored: {error}")
    if first != again:
        broken(part, "two descriptions of it differ.")
    try:
        back = copy.deepcopy(part)
    except Exception as error:
        broken(part, f"it cannot be copied or sent to another process: {type(error).__name__}: {error}")
    if hash_of(describe(back)) != first:
        broken(part, "a copy of it is not the same part.")


def same(one: Any, two: Any) -> bool:
    """Whether two trees of arrays are equal, bit for bit."""
    a, b = jax.tree.leaves(one), jax.tree.leaves(two)
    return len(a) == len(b) and all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(a, b, strict=True))


def close(one: Any, two: Any, rtol: float = 1e-6, atol: float = 1e-9) -> bool:
    """Whether two trees of arrays have one structure and are nearly equal."""
    a, b = jax.tree.leaves(one), jax.tree.leaves(two)
    return len(a) == len(b) and all(
        np.shape(x) == np.shape(y) and np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


def check_pure(part: Any, what: str, draw: Callable[[jax.Array], Any]) -> Any:
    """``draw(key)`` gives the same for equal keys, something else for others, and the same when compiled."""
    one, again, other = draw(jax.random.key(0)), draw(jax.random.key(0)), draw(jax.random.key(1))
    if not same(one, again):
        broken(part, f"{what} is not pure: equal keys give different numbers. Draw from the key with jax.random.")
    if not close(jax.jit(draw)(jax.random.key(1)), other):
        broken(part, f"{what} gives other numbers when it is compiled. Use jax.numpy and jax.random only.")
    if any(not np.all(np.isfinite(x)) for x in jax.tree.leaves(one)):
        broken(part, f"{what} gives numbers that are not finite.")
    return one


def zscore(values: Any, mean: float) -> float:
    """How many standard errors the mean of independent values is from ``mean``."""
    values = np.asarray(values, float)
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    gap = abs(float(np.mean(values)) - mean)
    return 0.0 if gap < 1e-12 else float(gap / max(error, 1e-300))
