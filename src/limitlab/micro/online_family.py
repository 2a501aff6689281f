"""One-pass SGD of several problems that differ in numbers and seeds only, side by side in one compiled march."""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.loop import advance_many, march
from limitlab.algorithms.one_pass.base import begin, chain_columns, in_words, stepper
from limitlab.algorithms.one_pass.setting import OnePass
from limitlab.algorithms.one_pass.views import closed
from limitlab.errors import InputError
from limitlab.modules import Module, filter_jit, tree_at
from limitlab.numerics.checks import check_times, whole_steps
from limitlab.numerics.keys import Stream, keys_of
from limitlab.numerics.machine import blank
from limitlab.numerics.trees import NUMBERS, as_arrays
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.states.committee import CommitteeView, measure_all
from limitlab.states.overlaps import Overlaps, error_sum, family_risks
from limitlab.states.request import Request
from limitlab.states.run import Run, after_the_end

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["WORTH", "asked_key", "asked_many", "family", "family_key"]

LIGHT = 2**12  # numbers that a problem touches in a step, up to which it pays to have several side by side
BRIEF = 2**26  # numbers that it touches in all its steps: more are not risked in one call
ASKED = Asked("simulate with OnlineSGD", InputError)
WORTH = 128  # simulations in a call: fewer are done before it is compiled
KEYWORDS = {"d", "times", "replicas", "representation"}  # who asks for progress runs alone


def asked_key(problem: Problem, keywords: dict[str, Any]) -> Hashable | None:
    """`family_key` of what `simulate` is asked for."""
    try:
        return family_key(problem, **keywords) if {"d", "times"} <= set(keywords) <= KEYWORDS else None
    except (TypeError, ValueError, OverflowError):  # whatever is wrong with them is said by the verb itself
        return None


def asked_many(problems: Sequence[Problem], seeds: Sequence[int], keywords: dict[str, Any]) -> "list[xr.Dataset]":
    """`family` of what `simulate` is asked for."""
    return family(problems, seeds, **keywords)


def family_key(
    problem: Problem, d: Any, times: Any, replicas: Any = 1, representation: Any = "weights"
) -> Hashable | None:
    """Equal for simulations that may share a call of `family`; None if one has to run alone."""
    rule: Any = problem.algorithm
    if not getattr(rule, "chained", False) or rule.heated:
        return None
    if representation not in ("weights", "overlaps") or not all(isinstance(x, int) for x in (d, replicas)):
        return None
    try:
        setting = OnePass.of(problem, ASKED)
    except InputError:  # to be said of this problem alone
        return None
    pair = setting.committees
    if pair is None or not (setting.inputs.normal and closed(setting)) or not setting.start.joint:
        return None
    p, k = pair.student.width, pair.teacher.width
    size = replicas * (rule.batch_size + p + k) * (d if representation == "weights" else p + k)
    last = float(np.max(np.asarray(times, float)))
    if d < p + k or replicas < 1 or size > LIGHT or not size * last / rule.clock(problem, d) < BRIEF:
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
    settings = [OnePass.of(problem, ASKED) for problem in problems]
    rules: list[Any] = [problem.algorithm for problem in problems]
    pairs: list[Any] = [setting.committees for setting in settings]
    clocks = [float(rule.clock(problem, d)) for rule, problem in zip(rules, problems, strict=True)]
    asked = [
        Request(d, times, whole_steps(times, clock), replicas, seed, representation, None, clock)
        for clock, seed in zip(clocks, seeds, strict=True)
    ]
    steps = np.stack([one.clocked[1] for one in asked])  # (problem, time)
    live = _stacked(list(zip(rules, settings, strict=True)))
    live = tree_at(lambda both: both[0].temperature, live, None)  # none is heated: no noise is drawn
    columns = chain_columns(settings[0], rules[0], asked[0])
    dim = d if columns is None else jnp.asarray(float(d))
    starts = _begin(live, d, jnp.asarray(seeds), jnp.arange(replicas), representation)
    runs = jax.vmap(lambda state: Run.of(state, replicas))(starts.state)
    onward = partial(advance_many, stepper(columns), live, dim, starts.keys)
    look = _look(pairs[0].teacher, settings[0].inputs)
    seen, runs = march(onward, look, runs, list(steps.T), None, "", now=0 * steps[:, 0])
    gone = after_the_end(runs, steps)
    paths = {  # (problem, time, replica)
        name: x if name in CommitteeView.steady else blank(x, gone)
        for name, x in ((name, np.stack([one[name] for one in seen], axis=1)) for name in seen[0])
    }
    overlaps = Overlaps(*(jnp.asarray(paths[name]) for name in ("Q", "M", "P", "a")))
    values = np.asarray(family_risks(_stacked(pairs), as_arrays(error_sum(pairs[0])), overlaps))
    kept, needed = jax.tree.map(np.asarray, (runs, paths)), rules[0].memory(settings[0], asked[0]).bytes
    results = []
    for n, problem in enumerate(problems):
        run, path = jax.tree.map(lambda x: x[n], kept)  # noqa: B023
        view = CommitteeView(pairs[n].teacher, settings[n].inputs, lambda _: values[n], None, None, 0.0)  # noqa: B023
        told = in_words(rules[n], asked[n], run, view.report(path), needed)
        results.append(dataset(problem, told.variables, told.coords, method=told.method, attrs=told.attrs))
    return results


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *x: jnp.asarray(np.asarray(x, float)), *trees)


class _Begun(Module):
    state: Any
    keys: jax.Array


@filter_jit
def _begin(live: Any, d: int, seeds: jax.Array, replicas: jax.Array, representation: str) -> _Begun:
    def one(both, seed):
        rule, setting = both
        return _Begun(begin(setting, rule, d, seed, replicas, representation), keys_of(seed, Stream.STEPS, replicas))

    return jax.vmap(one)(live, seeds)


def _look(teacher: Any, inputs: Any):
    return lambda state, _: state if isinstance(state, dict) else _measured(teacher, inputs, state)


@filter_jit
def _measured(teacher: Any, inputs: Any, state: Any) -> dict[str, jax.Array]:
    return jax.vmap(partial(measure_all, teacher, inputs))(state)
