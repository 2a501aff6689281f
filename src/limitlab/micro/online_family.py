"""One-pass SGD of several problems that differ in numbers and seeds only, side by side in one compiled march."""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.algorithms.requirements import check_one_pass_committee
from limitlab.errors import InputError
from limitlab.micro.march import advance_many, blank, march
from limitlab.micro.online_sgd import after_the_end, begin, bytes_needed, chain, labelled
from limitlab.micro.steps import weights_step
from limitlab.numerics.checks import check_times
from limitlab.numerics.trees import NUMBERS, as_arrays
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.states.overlaps import Overlaps, Weights, error_sum, family_risks, measure

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["family", "family_key"]

LIGHT = 2**12  # numbers that a problem touches in a step, up to which it pays to have several side by side
BRIEF = 2**26  # numbers that it touches in all its steps: more are not risked in one call


def family_key(
    problem: Problem, d: Any, times: Any, replicas: Any = 1, representation: Any = "weights"
) -> Hashable | None:
    """Equal for simulations that may share a call of `family`; None if one has to run alone."""
    rule, student, teacher = problem.algorithm, problem.student, problem.teacher
    if not isinstance(rule, OnlineSGD) or not isinstance(teacher, Committee) or not isinstance(student, Committee):
        return None
    if representation not in ("weights", "overlaps") or not all(isinstance(x, int) for x in (d, replicas)):
        return None
    p, k = student.width, teacher.width
    size = replicas * (rule.batch_size + p + k) * (d if representation == "weights" else p + k)
    last = float(np.max(np.asarray(times, float)))
    if d < p + k or replicas < 1 or size > LIGHT or not size * last / rule.clock(problem, d) < BRIEF:
        return None
    try:
        check_one_pass_committee("simulate with OnlineSGD", problem, InputError)
    except InputError:  # to be said of this problem alone
        return None
    numbers, structure = jax.tree.flatten(problem)
    if not all(isinstance(x, NUMBERS) for x in numbers):
        return None
    return structure, tuple(map(np.shape, numbers))


def family(
    problems: Sequence[Problem],
    seeds: Sequence[int],
    d: int,
    times: Any,
    replicas: int = 1,
    representation: str = "weights",
) -> "list[xr.Dataset]":
    """The simulations of problems of one `family_key`. None depends on the others, if their number is the same."""
    times, problems = check_times(times), list(problems)
    keys = {family_key(problem, d, times, replicas, representation) for problem in problems}
    if len(keys) != 1 or None in keys:
        raise InputError(
            f"A family of simulations needs small problems that differ in numbers only; got {len(keys)} kinds. "
            "Group them by family_key, and simulate those for which it is None."
        )
    p, k = problems[0].student.width, problems[0].teacher.width  # type: ignore[union-attr]
    clocks = np.asarray([problem.algorithm.clock(problem, d) for problem in problems])  # type: ignore[union-attr]
    targets = np.rint(times / clocks[:, None]).astype(np.int64)  # (problem, time)
    live = jax.tree.map(lambda *x: jnp.asarray(np.asarray(x, float)), *problems)
    by_weights, dim = representation == "weights", jnp.asarray(float(d))
    starts, runs, streams = _begin(live, dim, jnp.asarray(seeds), jnp.arange(replicas), d if by_weights else None)
    step, look = (weights_step, _measure) if by_weights else (chain(p + k), lambda state: state)
    onward = partial(advance_many, step, live, dim, streams)
    seen, runs = march(onward, lambda state, _: look(state), runs, list(targets.T), None, "", now=0 * targets[:, 0])
    gone = after_the_end(runs, targets)
    paths = jax.tree.map(lambda *x: blank(np.stack(x, axis=1), gone), *seen)  # (problem, time, replica)
    values = np.asarray(family_risks(live, as_arrays(error_sum(problems[0])), paths))
    kept = jax.tree.map(np.asarray, (starts, runs, paths))
    about = {"representation": representation, "bytes_needed": bytes_needed(p, k, d, len(times), replicas, by_weights)}
    results = []
    for n, problem in enumerate(problems):
        start, run, path = jax.tree.map(lambda x: x[n], kept)  # noqa: B023
        own = {"d": int(d), "seed": int(seeds[n]), **about}
        results.append(labelled(problem, times, targets[n], clocks[n], start, run, path, values[n], own))
    return results


@eqx.filter_jit
def _begin(problems: Problem, d: jax.Array, seeds: jax.Array, replicas: jax.Array, dimension: int | None):
    return jax.vmap(lambda problem, seed: begin(problem, d, seed, replicas, dimension))(problems, seeds)


@jax.jit
def _measure(state: Weights) -> Overlaps:
    return jax.vmap(jax.vmap(measure))(state)
