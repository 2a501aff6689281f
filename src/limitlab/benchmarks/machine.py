"""What the machine itself can do, measured in the same run: no ratio is understood without it."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from limitlab.numerics.random import normal

__all__ = ["limits"]

NORMALS, ROWS, COLUMNS, LARGE = 1_000_000, 2000, 1000, 16_000_000
TIMES, REPEATS = 10, 5


def limits() -> dict[str, float]:
    """Normal variables a second, products of a matrix with a vector and copies in GB/s; double precision."""
    draw = jax.jit(lambda key: normal(key, (NORMALS,)))
    product = jax.jit(lambda X, w: jax.lax.fori_loop(0, TIMES, lambda _, w: (X @ w)[: len(w)] / len(w), w))
    # In a loop, so that fresh pages are not what is measured.
    copy = jax.jit(lambda x: jax.lax.fori_loop(0, TIMES, lambda _, x: x + 1.0, x))
    X, w, large = jnp.ones((ROWS, COLUMNS)), jnp.ones(COLUMNS), jnp.ones(LARGE)
    return {
        "normals (millions a second)": NORMALS / 1e6 / _seconds(lambda: draw(jax.random.key(0))),
        "matrix times vector (GB/s)": 8e-9 * TIMES * ROWS * COLUMNS / _seconds(lambda: product(X, w)),
        "memory (GB/s, read and written)": 16e-9 * TIMES * LARGE / _seconds(lambda: copy(large)),
    }


def _seconds(call: Callable[[], Any]) -> float:
    jax.block_until_ready(call())
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(time.perf_counter() - began)
    return min(taken)
