"""The loop that rules with many cheap steps share: compiled pieces, seen at the asked steps only."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.states.run import Run
from limitlab.verbs import Progress

__all__ = ["advance", "advance_many", "march"]

PIECE_SECONDS = 0.25  # a compiled piece of the march lasts about this long, so that progress and Ctrl-C work


@eqx.filter_jit
def advance(step: Callable, rule: Any, d: Any, keys: jax.Array, run: Run, first: jax.Array, last: jax.Array):
    """Steps first, ..., last - 1 of all replicas. The bounds are traced: one compilation serves all pieces."""
    one = jax.vmap(lambda r, key, n: step(rule, d, r, key, n), in_axes=(0, 0, None))
    return jax.lax.fori_loop(first, last, lambda n, r: one(r, keys, n), run)


@eqx.filter_jit
def advance_many(step: Callable, rules: Any, d: Any, keys: jax.Array, runs: Run, first: jax.Array, last: jax.Array):
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
