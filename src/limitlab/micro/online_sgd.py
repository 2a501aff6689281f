"""One-pass SGD of committees at finite size, by weights or by overlaps."""

import os
import time
from collections.abc import Callable
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.micro.steps import Run, overlaps_step, weights_step
from limitlab.numerics.checks import check_choice
from limitlab.numerics.progress import Progress
from limitlab.numerics.trees import as_arrays
from limitlab.problems.problem import Problem
from limitlab.problems.requirements import check_one_pass_committee
from limitlab.results.schema import overlap_dataset
from limitlab.states import (
    Overlaps,
    Weights,
    error_sum,
    initial_overlaps,
    measure,
    realise,
    risks,
    start_key,
)

__all__ = ["run_online_sgd"]

PIECE_SECONDS = 0.25  # a compiled piece of the march lasts about this long, so that progress and Ctrl-C work


def run_online_sgd(
    problem: Problem,
    d: int,
    times: np.ndarray,
    replicas: int,
    seed: int,
    representation: str,
    progress: Progress | None,
):
    """Simulate ``replicas`` independent runs; see `simulate`."""
    check_one_pass_committee("simulate with OnlineSGD", problem, InputError)
    check_choice("simulate", "representation", representation, ("weights", "overlaps"))
    _check_dimension(problem, d)
    p, k = problem.student.width, problem.teacher.width  # type: ignore[union-attr]
    clock = problem.algorithm.clock(p, d)  # type: ignore[union-attr]
    targets = np.rint(times / clock).astype(np.int64)
    needed = replicas * (p + k) * (3 * d if representation == "weights" else 4 * (p + k)) * 8
    needed += len(times) * replicas * (p * (p + k) + k * k + p) * 8
    _check_memory(needed, representation)

    live, dim = as_arrays(problem), jnp.asarray(float(d))
    index = jnp.arange(replicas)
    start = _starts(live, dim, jax.vmap(lambda r: start_key(seed, r))(index))
    stream = jax.random.fold_in(jax.random.key(seed), 1)
    keys = jax.vmap(lambda r: jax.random.fold_in(stream, r))(index)
    if representation == "weights":
        frame = jax.random.fold_in(jax.random.key(seed), 2)
        frames = jax.vmap(lambda r: jax.random.fold_in(frame, r))(index)
        state, step, look = _realise_all(start, frames, d), weights_step, _look_at_weights
    else:
        state, step, look = start, _chain(min(p + k, d)), _look_at_overlaps
    run = Run(state, jnp.ones(replicas, bool), jnp.full(replicas, -1))
    march = partial(_advance, step, live, dim, keys)
    path, run = _march(march, look, run, targets, progress, f"SGD, d = {d}")

    died, lost = np.asarray(run.died), ~np.asarray(run.alive)
    gone = lost[None, :] & (targets[:, None] > died[None, :])  # (time, replica): after the end
    Q, M, P, a = (jnp.asarray(_blank(np.stack(x), gone)) for x in zip(*path, strict=True))
    path = Overlaps(Q, M, P, a)
    values = risks(live, as_arrays(error_sum(problem)), path)
    # P is constant; a dead run's copy was blanked with the rest, so it is taken from the start.
    path = eqx.tree_at(lambda o: o.P, path, np.broadcast_to(np.asarray(start.P), path.P.shape))
    data = overlap_dataset(
        problem,
        times,
        path,
        values,
        status=["diverged" if x else "ok" for x in lost],
        end_time=np.where(lost, died * clock, times[-1]).tolist(),
        method=f"simulate ({representation})",
        reference=None,
        replicated=True,
        attrs={"d": int(d), "seed": int(seed), "representation": representation, "bytes_needed": int(needed)},
    )
    batch = problem.algorithm.batch_size  # type: ignore[union-attr]
    return data.assign_coords(step=("time", targets), samples=("time", targets * batch))


@cache
def _chain(columns: int) -> Callable:
    """One object per number of columns: a new one at each call would be compiled anew."""
    return partial(overlaps_step, columns)


def _check_dimension(problem: Problem, d: int) -> None:
    """The start must fit into d dimensions."""
    student, teacher, start = problem.student, problem.teacher, problem.start
    assert student is not None and start is not None
    Q, M, P = (np.asarray(x) for x in start.limit(student.width, teacher.width))  # type: ignore[attr-defined]
    gram, what = (P, "the teacher") if start.random else (np.block([[Q, M], [M.T, P]]), "the start")
    values = np.linalg.eigvalsh(gram)
    rank = int(np.sum(values > 1e-10 * max(values[-1], 1e-300)))
    if d < rank:
        raise InputError(
            f"d must be at least {rank}, the number of independent directions of {what}; got d={d}. "
            f"Use d >= {rank} or a smaller network."
        )


def _check_memory(needed: int, representation: str) -> None:
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**62
    if needed > 0.8 * have:
        remedy = (
            'representation="overlaps" needs memory independent of d'
            if representation == "weights"
            else "ask for fewer"
        )
        raise InputError(
            f"simulate needs about {needed / 2**30:.1f} GiB, this machine has {have / 2**30:.1f} GiB. "
            f"Use fewer replicas or times; {remedy}."
        )


@eqx.filter_jit
def _starts(problem: Problem, d: jax.Array, keys: jax.Array) -> Overlaps:
    return jax.vmap(lambda key: initial_overlaps(problem, key, d))(keys)


@eqx.filter_jit
def _realise_all(start: Overlaps, keys: jax.Array, d: int) -> Weights:
    return jax.vmap(lambda o, key: realise(o, key, d))(start, keys)


@eqx.filter_jit
def _advance(
    step: Callable, problem: Problem, d: jax.Array, keys: jax.Array, run: Run, first: jax.Array, last: jax.Array
):
    """Steps first, ..., last - 1 of all replicas. The bounds are traced: one compilation serves all pieces."""
    one = jax.vmap(lambda r, key, n: step(problem, d, r, key, n), in_axes=(0, 0, None))
    return jax.lax.fori_loop(first, last, lambda n, r: one(r, keys, n), run)


@jax.jit
def _look_at_weights(state: Weights) -> Overlaps:
    return jax.vmap(measure)(state)


def _look_at_overlaps(state: Overlaps) -> Overlaps:
    return state


def _march(march: Callable, look: Callable, run: Run, targets: np.ndarray, progress: Progress | None, label: str):
    """Visit the target steps in order, keeping only what is seen there; pieces double until they last long enough."""
    path, now, piece, total = [], 0, 64, int(targets[-1])
    for target in targets.tolist():
        while now < target:
            upto, began = min(target, now + piece), time.perf_counter()
            run = march(run, jnp.asarray(now), jnp.asarray(upto))
            if upto - now == piece:
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
                progress(now, total, label)
        seen = look(run.state)
        path.append((np.asarray(seen.Q), np.asarray(seen.M), np.asarray(seen.P), np.asarray(seen.a)))
    return path, run


def _blank(values: np.ndarray, gone: np.ndarray) -> np.ndarray:
    return np.where(gone.reshape(gone.shape + (1,) * (values.ndim - 2)), np.nan, values)
