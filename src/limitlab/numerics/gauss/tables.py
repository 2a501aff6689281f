"""Symmetric tables over pairs of fields, and sums over pairs of fields, in pieces that stay in the cache.

What a piece holds does not grow with the number of fields; the indices are as many as there are pairs.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["LANES", "TABLE", "pieces", "summed", "symmetric", "upper_pairs"]

LANES = 128  # pairs (i, j) side by side
TABLE = 2**13  # numbers of a table of pairs (C, D) times pairs (i, j)


def upper_pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """All (a, b), a <= b < n."""
    a, b = np.triu_indices(n)
    return a, b


def pieces(count: int, most: int) -> tuple[int, int]:
    """How many equal pieces of at most ``most`` cover ``count`` things, and how long they are."""
    number = max(1, -(-count // most))
    return number, max(1, -(-count // number))


def symmetric(
    p: int,
    block: Callable[[Any, Any], jax.Array],
    diagonal: Callable[[Any], jax.Array] | None = None,
    lanes: int = LANES,
) -> jax.Array:
    """The matrix (p, p) with entries ``block(i, j)``, asked for vectors of i <= j.

    ``diagonal(i)``, if given, has those on the diagonal.
    """
    i, j = np.triu_indices(p, 0 if diagonal is None else 1)
    place = np.zeros((p, p), int)
    place[i, j] = place[j, i] = np.arange(len(i))
    matrix = _blocks(block, (i, j), lanes)[place] if len(i) else jnp.zeros((p, p))
    if diagonal is None:
        return matrix
    return jnp.where(np.eye(p, dtype=bool), _blocks(diagonal, (np.arange(p),), lanes), matrix)


def _blocks(block: Callable[..., jax.Array], indices: tuple[np.ndarray, ...], lanes: int) -> jax.Array:
    """``block`` of vectors of indices, in equal pieces; the last one is filled up from the start."""
    count = len(indices[0])
    number, length = pieces(count, lanes)
    if number == 1:
        return block(*indices)
    padded = tuple(jnp.asarray(np.resize(x, (number, length))) for x in indices)
    return jax.lax.map(lambda index: block(*index), padded).ravel()[:count]


def summed(rows: tuple, width: int, term: Callable[..., jax.Array]) -> jax.Array:
    """The sum of ``term`` over pieces of ``rows``: arrays of equal length, of which the last are weights.

    ``term`` holds ``width`` numbers for each row. Rows added to fill a piece are copies of the first with weight 0.
    """
    number, length = pieces(len(rows[0]), max(1, TABLE // width))
    if number == 1:
        return term(*rows)
    fill = number * length - len(rows[0])
    *others, weight = (jnp.asarray(x) for x in rows)
    others = [jnp.concatenate([x, jnp.repeat(x[:1], fill, axis=0)]) for x in others]
    cut = [x.reshape(number, length, *x.shape[1:]) for x in (*others, jnp.pad(weight, (0, fill)))]
    first = jax.eval_shape(lambda: term(*(x[0] for x in cut)))
    zero = jnp.zeros(first.shape, first.dtype)
    return jax.lax.scan(lambda total, x: (total + term(*x), None), zero, tuple(cut))[0]
