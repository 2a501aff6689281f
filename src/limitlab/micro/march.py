"""The loop that rules with many cheap steps share: compiled pieces, seen at the asked steps only."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.micro.steps import Run
from limitlab.numerics.progress import Progress

__all__ = ["advance", "advance_many", "blank", "check_memory", "march"]

PIECE_SECONDS = 0.25  # a compiled piece of the march lasts about this long, so that progress and Ctrl-C work


@eqx.filter_jit
def advance(step: Callable, rule: Any, d: jax.Array, keys: jax.Array, run: Run, first: jax.Array, last: jax.Array):
    """Steps first, ..., last - 1 of all replicas. The bounds are traced: one compilation serves all pieces."""
    one = jax.vmap(lambda r, key, n: step(rule, d, r, key, n), in_axes=(0, 0, None))
    return jax.lax.fori_loop(first, last, lambda n, r: one(r, keys, n), run)


@eqx.filter_jit
def advance_many(
    step: Callable, rules: Any, d: jax.Array, keys: jax.Array, runs: Run, first: jax.Array, last: jax.Array
):
    """The same for several problems along the first axis of everything, each from and to its own step."""

    def lane(rule, key, run, n, upto):
        moved = jax.vmap(lambda r, k: step(rule, d, r, k, n))(run, key)
        return jax.tree.map(lambda new, old: jnp.where(n < upto, new, old), moved, run)

    lanes = jax.vmap(lane)
    return jax.lax.fori_loop(0, jnp.max(last - first), lambda n, r: lanes(rules, keys, r, first + n, last), runs)


def march(
    onward: Callable[[Run, jax.Array, jax.Array], Run],
    look: Callable[[Any, Any], Any],
    run: Run,
    targets: Sequence,
    progress: Progress | None,
    label: str,
    now: Any = 0,
    total: int | None = None,
) -> tuple[list[Any], Run]:
    """Visit the target steps in order, keeping only what is seen there; pieces double until they last long enough.

    Parameters
    ----------
    onward
        (run, first, last) -> run, such as `advance` with its first arguments bound.
    look
        (state, step) -> a tree of arrays, kept as NumPy arrays.
    targets
        Steps; each an array of steps where the runs of several problems go side by side, everyone at its own pace.
    now, total
        The step that ``run`` is at, and the last one as told to ``progress`` (default: the last target).
    """
    now = np.asarray(now)
    path, piece, total = [], 64, int(np.max(targets[-1])) if total is None and len(targets) else total
    for target in map(np.asarray, targets):
        while np.any(now < target):
            upto, began = np.minimum(target, now + piece), time.perf_counter()
            run = onward(run, jnp.asarray(now), jnp.asarray(upto))
            if np.max(upto - now) == piece:
                run.alive.block_until_ready()
                took = time.perf_counter() - began
                piece = (
                    piece * 2
                    if took < PIECE_SECONDS / 2
                    else max(64, piece // 2)
                    if took > 4 * PIECE_SECONDS
                    else piece
                )
            now = upto
            if progress is not None:
                done = int(np.max(now))
                progress(done, total or done, label)
        path.append(jax.tree.map(np.asarray, look(run.state, target)))
    return path, run


def blank(values: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """NaN where ``gone`` (time, replica), along all further axes of ``values``."""
    return np.where(gone.reshape(gone.shape + (1,) * (values.ndim - gone.ndim)), np.nan, values)


def check_memory(needed: int, remedy: str, by: str = "simulate") -> None:
    """Raise `InputError` if the machine has less memory than ``needed`` bytes."""
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**62
    if needed > 0.8 * have:
        raise InputError(
            f"{by} needs about {needed / 2**30:.1f} GiB, this machine has {have / 2**30:.1f} GiB. {remedy}"
        )
