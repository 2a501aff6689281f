"""Few compiled shapes: rows that a user chooses the number of (times, replicas) are padded to a few counts."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import numpy as np

__all__ = ["along_rows", "filled", "places", "seats"]

FEWEST = 32
MOST = 2**22  # numbers in padded rows (32 MiB); larger ones are taken as they are


def places(count: int, numbers: int = 1) -> int:
    """How many rows are kept for ``count`` of them, of so many numbers each: a power of two, 32 at least."""
    room = max(FEWEST, 1 << max(count - 1, 0).bit_length())
    return room if room * numbers <= MOST else count


def seats(count: int) -> int:
    """Replicas that are kept for ``count`` of them: eighths of powers of two from 16 on, so that few are idle."""
    if count <= 16:
        return next(room for room in (1, 2, 3, 4, 6, 8, 12, 16) if room >= count)
    step = (1 << (count - 1).bit_length()) // 8
    return -(-count // step) * step


def filled(rows: Any, room: int) -> np.ndarray:
    """The rows, and the last one again until there are ``room``."""
    rows = np.asarray(rows)
    return rows if len(rows) == room else np.concatenate([rows, np.repeat(rows[-1:], room - len(rows), axis=0)])


def along_rows(function: Callable[..., jax.Array]) -> Callable[..., np.ndarray]:
    """A compiled function of fixed things and of a tree of rows, row by row: its shape is that of a few counts."""

    @wraps(function)
    def padded(*fixed_and_rows: Any) -> np.ndarray:
        *fixed, rows = fixed_and_rows
        leaves = jax.tree.leaves(rows)
        count, numbers = len(leaves[0]), sum(leaf[0].size for leaf in leaves)
        room = places(count, numbers)
        return np.asarray(function(*fixed, jax.tree.map(lambda leaf: filled(leaf, room), rows)))[:count]

    return padded
