"""One-pass SGD of committees at finite size, by weights or by overlaps."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.requirements import check_one_pass_committee
from limitlab.errors import InputError
from limitlab.micro.march import advance as _advance
from limitlab.micro.march import blank, check_memory, march
from limitlab.micro.steps import Run, overlaps_step, weights_step
from limitlab.numerics.checks import check_choice, whole_steps
from limitlab.numerics.progress import Progress
from limitlab.numerics.trees import as_arrays
from limitlab.problems.problem import Problem
from limitlab.results.schema import overlap_dataset
from limitlab.states.overlaps import (
    Overlaps,
    Weights,
    error_sum,
    initial_overlaps,
    measure,
    realise,
    risks,
    start_key,
)

__all__ = ["after_the_end", "begin", "bytes_needed", "chain", "labelled", "run_online_sgd"]


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
    clock = problem.algorithm.clock(problem, d)  # type: ignore[union-attr]
    targets = whole_steps(times, clock)
    by_weights = representation == "weights"
    needed = bytes_needed(p, k, d, len(times), replicas, by_weights)
    smaller = 'representation="overlaps" needs memory independent of d' if by_weights else "ask for fewer"
    check_memory(needed, f"Use fewer replicas or times; {smaller}.")

    live, dim, index = as_arrays(problem), jnp.asarray(float(d)), jnp.arange(replicas)
    start, run, keys = begin(live, dim, seed, index, d if by_weights else None)
    step, look = (weights_step, _look_at_weights) if by_weights else (chain(min(p + k, d)), _look_at_overlaps)
    onward = partial(_advance, step, live, dim, keys)
    seen, run = march(onward, lambda state, _: look(state), run, targets.tolist(), progress, f"SGD, d = {d}")
    gone = after_the_end(run, targets)
    path = jax.tree.map(lambda *x: jnp.asarray(blank(np.stack(x), gone)), *seen)
    values = risks(live, as_arrays(error_sum(problem)), path)
    about = {"d": int(d), "seed": int(seed), "representation": representation, "bytes_needed": int(needed)}
    return labelled(problem, times, targets, clock, start, run, path, values, about)


def bytes_needed(p: int, k: int, d: int, times: int, replicas: int, by_weights: bool) -> int:
    """Bytes of the state, its successor, its inputs, and of all that is seen."""
    state = replicas * (p + k) * (3 * d if by_weights else 4 * (p + k)) * 8
    return state + times * replicas * (p * (p + k) + k * k + p) * 8


def begin(live: Problem, d: jax.Array, seed: Any, replicas: jax.Array, dimension: int | None):
    """The starts of replicas, their runs (of weights in a ``dimension``, or of overlaps) and their random streams."""
    start = _starts(live, d, jax.vmap(lambda r: start_key(seed, r))(replicas))
    stream = jax.random.fold_in(jax.random.key(seed), 1)
    keys = jax.vmap(lambda r: jax.random.fold_in(stream, r))(replicas)
    state: Any = start
    if dimension is not None:
        frame = jax.random.fold_in(jax.random.key(seed), 2)
        frames = jax.vmap(lambda r: jax.random.fold_in(frame, r))(replicas)
        state = _realise_all(start, frames, dimension)
    return start, Run(state, jnp.ones(len(replicas), bool), jnp.full(len(replicas), -1)), keys


def after_the_end(run: Run, targets: np.ndarray) -> np.ndarray:
    """(..., time, replica): whether a run had died before it was looked at, at the steps ``targets`` (..., time)."""
    alive, died = np.asarray(run.alive)[..., None, :], np.asarray(run.died)[..., None, :]
    return ~alive & (targets[..., :, None] > died)


def labelled(problem, times, targets, clock, start: Overlaps, run: Run, path: Overlaps, values, about: dict):
    """What was seen of all replicas as a Dataset."""
    died, lost = np.asarray(run.died), ~np.asarray(run.alive)
    # P is constant; a dead run's copy was blanked with the rest, so it is taken from the start.
    path = eqx.tree_at(lambda o: o.P, path, np.broadcast_to(np.asarray(start.P), path.P.shape))
    data = overlap_dataset(
        problem,
        times,
        path,
        values,
        status=["diverged" if x else "ok" for x in lost],
        end_time=np.where(lost, died * clock, times[-1]).tolist(),
        method=f"simulate ({about['representation']})",
        reference=None,
        replicated=True,
        attrs=about,
    )
    return data.assign_coords(step=("time", targets), samples=("time", targets * problem.algorithm.batch_size))


@cache
def chain(columns: int) -> Callable:
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


@eqx.filter_jit
def _starts(problem: Problem, d: jax.Array, keys: jax.Array) -> Overlaps:
    return jax.vmap(lambda key: initial_overlaps(problem, key, d))(keys)


@eqx.filter_jit
def _realise_all(start: Overlaps, keys: jax.Array, d: int) -> Weights:
    return jax.vmap(lambda o, key: realise(o, key, d))(start, keys)


@jax.jit
def _look_at_weights(state: Weights) -> Overlaps:
    return jax.vmap(measure)(state)


def _look_at_overlaps(state: Overlaps) -> Overlaps:
    return state
