"""Turning numbers of a frozen description into arrays, so that a compiled function serves all their values."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["as_arrays"]

T = TypeVar("T")


def _is_number(x: Any) -> bool:
    return (isinstance(x, (float, int)) and not isinstance(x, bool)) or isinstance(x, (np.ndarray, np.number))


def as_arrays(tree: T) -> T:
    """Every number of a module as a JAX array of floats: traced by ``eqx.filter_jit``, mapped by ``vmap``."""
    return jax.tree.map(lambda x: jnp.asarray(x, float) if _is_number(x) else x, tree, is_leaf=eqx.is_array_like)
