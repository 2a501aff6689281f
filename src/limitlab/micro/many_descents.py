"""Descent on many data sets of several sizes in one compiled call: who finds the teacher, and where the others end."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.data import DRAW, RUN, DataSet, draw_labels, draw_set, given, sample_count, teacher_key
from limitlab.algorithms.descent.line import direction_student
from limitlab.algorithms.descent.step import FRAME, START, Course, begin, descent_step
from limitlab.algorithms.one_pass.views import closed
from limitlab.algorithms.settings.fixed_data import Descent, NetworkDescent, WideDescent, fitting
from limitlab.errors import InputError
from limitlab.modules import Module, filter_jit, tree_at
from limitlab.numerics.machine import Memory, check_memory
from limitlab.numerics.trees import as_array, as_arrays, traced
from limitlab.problems.asked import Asked
from limitlab.problems.networks.network import Network
from limitlab.problems.problem import Problem
from limitlab.states.overlaps import Overlaps, error_sum, risk
from limitlab.states.run import Run
from limitlab.states.success import COSINE, ERROR, OUTPUT, Criterion

__all__ = ["Ends", "many_descents"]

CACHE = 2**20  # bytes of data that lanes share while they make their steps side by side
ALIKE = 0.75  # of the larger of two data sets: the smaller is filled up to it


class Ends(NamedTuple):
    """How runs ended, (ratio, run) each: the step of success or of divergence (or -1), errors and losses.

    ``half`` is the error at the last look up to half of the time, ``first`` the loss at the start.
    """

    found: np.ndarray
    died: np.ndarray
    error: np.ndarray
    half: np.ndarray
    loss: np.ndarray
    first: np.ndarray


class _Cosine(Module):
    """1 - cos^2 between one direction and the teacher's."""

    def __call__(self, w: jax.Array, aim: jax.Array) -> jax.Array:
        return 1 - jnp.square(w @ aim) / ((w @ w) * (aim @ aim))


class _Squares(Module):
    """The relative error of A = WW^T/m beside w* w*^T."""

    def __call__(self, net: Network, aim: jax.Array) -> jax.Array:
        W, (m, d) = net.rows, net.rows.shape
        Q, M, P = W @ W.T / d, W @ aim / d, aim @ aim / d
        return (jnp.sum(jnp.square(Q)) / m**2 - 2 * jnp.sum(jnp.square(M)) / m) / jnp.square(P) + 1


class _Outputs(Module):
    """E (f - f*)^2/E f*^2 of two committees."""

    teacher: Any
    pair: Any
    sums: Any
    floor: jax.Array

    def __call__(self, net: Network, weights: Any) -> jax.Array:
        W, S = net.rows, jnp.asarray(self.teacher.directions(weights))
        d = W.shape[1]
        seen = Overlaps(W @ W.T / d, W @ S.T / d, S @ S.T / d, net.a)
        zero = Overlaps(seen.Q, seen.M, seen.P, jnp.zeros_like(net.a))
        excess, size = (risk(self.pair, o, self.sums) - self.floor for o in (seen, zero))
        return excess / size


class _Case(NamedTuple):
    """What runs of a problem share: the step, how the error is measured, and below which it counts as found."""

    course: Course
    measure: Any
    threshold: float
    criterion: Criterion
    setting: Any


def many_descents(
    problem: Problem, ratios: np.ndarray, d: int, runs: int, seed: int, steps: int, every: int
) -> tuple[Ends, Criterion]:
    """All runs of a problem at several sample ratios, at most ``steps`` steps each, looked at after every ``every``.

    Replica r at a ratio has the data, the teacher and the start that `simulate` has with the same seed. A run that
    succeeds or diverges ends. Smaller data sets are filled up with inputs of zeros, which pull on nothing.
    """
    case = _case(problem)
    counts = [sample_count("success_rate", float(ratio), d) for ratio in ratios]
    lanes, width = len(ratios) * runs, problem.student.units if problem.student is not None else 1
    check_memory(
        Memory(
            8 * (3 * lanes * max(counts) * d + 4 * lanes * width * d),
            f"It holds {lanes} data sets of up to {max(counts)} x {d} numbers. Use fewer runs or ratios, or a smaller "
            "d.",
        ),
        "success_rate",
    )
    keys = jax.vmap(lambda r: jax.random.fold_in(jax.random.key(seed), r))(jnp.arange(runs))
    nature, whole = _nature(case.setting), np.zeros((len(Ends._fields), len(ratios), runs))
    for group in _groups(counts):
        rows = max(counts[i] for i in group)
        begun = [jax.device_get(_begin(case.course, nature, keys, counts[i], d)) for i in group]
        data, run = jax.tree.map(lambda *x: jnp.concatenate(x), *(_filled(one, rows) for one in begun))
        n = jnp.repeat(jnp.asarray([counts[i] for i in group]), runs)
        own = jax.vmap(lambda key: jax.random.fold_in(key, RUN))(jnp.tile(keys, len(group)))
        slots = max(1, min(len(n), CACHE // (8 * rows * d)))
        ends = _march(
            case.course, case.measure, case.threshold, data, run, n, own, jnp.asarray(steps), jnp.asarray(every), slots
        )
        whole[:, group] = np.asarray(ends).reshape(-1, len(group), runs)
    found, died = (whole[i].astype(int) for i in (0, 1))
    return Ends(found, died, *whole[2:]), case.criterion


def _groups(counts: list[int]) -> list[list[int]]:
    """Places of sizes that are filled up to the same one, which is at most a third more than the least of them."""
    left, groups = sorted(range(len(counts)), key=lambda i: -counts[i]), []
    while left:
        group = [i for i in left if counts[i] >= ALIKE * counts[left[0]]]
        groups.append(group[::-1])  # small sets first: their runs are the long ones
        left = left[len(group) :]
    return groups


def _case(problem: Problem) -> _Case:
    asked = Asked("success_rate", InputError)
    if getattr(problem.algorithm, "fresh", False):
        asked.refuse("one data set that every step uses", "fresh=True", "Simulate it, and give the result.")
    line = fitting(Descent.to_simulate, problem)
    if line is not None:
        course = Course(*traced((line.rule, line.loss)), direction_student(), watched=True)
        return _Case(course, _Cosine(), 1 - COSINE.threshold**2, COSINE, line)
    network = NetworkDescent.to_simulate(problem, asked)
    live = network.parts.live()
    course = Course(traced(network.rule), live.loss, live.student)
    plain = network.parts.start.one_layer and getattr(problem.student, "output_weights", None) is None
    still = getattr(problem.student, "second_layer", "") == "fixed" and getattr(problem.student, "bias", "") == "none"
    if network.phase is not None and network.kappa is not None and plain and still:
        wide = fitting(WideDescent.of, problem)
        return _Case(course, _Squares(), ERROR.threshold, ERROR, network if wide is None else wide)
    if closed(network.parts):
        pair: Any = network.parts.committees
        floor = jnp.asarray(float(pair.channel.variance) / 2)
        measure = _Outputs(live.teacher, as_arrays(pair), as_arrays(error_sum(pair)), floor)
        return _Case(course, measure, OUTPUT.threshold, OUTPUT, network)
    asked.refuse(
        "a problem whose error is known at each look (one direction, squares that retrieve a phase, or two committees "
        "with SquareLoss)",
        problem.student,
        "Simulate it, and give the result to success_rate.",
    )


class _Nature(NamedTuple):
    """What the data set and the start of a run are drawn from; ``wide``: units that start beside no teacher."""

    inputs: Any
    teacher: Any
    channel: Any
    start: Any
    student: Any
    spherical: bool
    wide: bool


def _nature(setting: Any) -> _Nature:
    if isinstance(setting, NetworkDescent):
        live = setting.parts.live()
        return _Nature(
            live.inputs, live.teacher, live.channel, live.start, live.student, setting.rule.spherical, wide=False
        )
    teacher, channel, start = traced((setting.teacher, setting.channel, setting.start))
    wide = isinstance(setting, WideDescent)
    student = setting.problem.student if wide else None
    return _Nature(setting.inputs, teacher, channel, start, student, not wide and setting.rule.spherical, wide)


@filter_jit
def _begin(course: Course, nature: _Nature, keys: jax.Array, n: int, d: int) -> tuple[DataSet, Run]:
    """Data sets and step 0 of all runs, as `simulate` has them."""
    inputs, teacher, channel, start, student, spherical, wide = nature

    def one(key):
        draw, own = jax.random.fold_in(key, DRAW), jax.random.fold_in(key, RUN)
        start_key, frame = jax.random.fold_in(own, START), jax.random.fold_in(own, FRAME)
        if wide or student is None:
            data = draw_set(inputs, teacher, channel, draw, n, d)
            if student is None:
                parameters = start.direction(start_key, data.teacher, spherical)
            else:
                parameters = Network.of(start.weights(start_key, student.width, d, None), jnp.ones(student.width))
        else:
            beside = teacher
            if not teacher.by_start:
                beside = given(teacher, teacher.draw_on(inputs, teacher_key(draw), d))
            parameters, weights = student.begin(start_key, frame, start, beside, d)
            parameters = student.on_sphere(parameters) if spherical else parameters
            data = draw_labels(inputs, teacher, weights, channel, draw, n, d)
        return data, begin(course, parameters, data, own)

    return jax.vmap(one)(keys)


def _filled(begun: tuple[DataSet, Run], rows: int) -> tuple[DataSet, Run]:
    data, run = begun
    more = rows - data.y.shape[1]
    X, y = np.pad(data.X, [(0, 0), (0, more), (0, 0)]), np.pad(data.y, [(0, 0), (0, more)])
    mask = np.pad(run.state.mask, [(0, 0), (0, more)])
    return DataSet(data.teacher, as_array(X), as_array(y)), tree_at(lambda r: r.state.mask, run, mask)


class _Slots(NamedTuple):
    """Runs that make their steps side by side: which they are, their data, how far they are, and the next in line."""

    at: jax.Array
    data: DataSet
    run: Run
    step: jax.Array
    half: jax.Array
    found: jax.Array
    after: jax.Array
    ends: jax.Array


@filter_jit
def _march(course: Course, measure, threshold, data: DataSet, run: Run, n, keys, steps, every, slots: int):
    """`Ends` (6, lanes): a few lanes at a time, a piece of ``every`` steps after the other.

    A lane that has ended makes room for the next at once: nobody waits for the slowest.
    """
    lanes = len(n)

    def error(run: Run, data: DataSet) -> jax.Array:
        return measure(run.state.parameters, data.teacher)

    def loss(run: Run, data: DataSet, n: jax.Array) -> jax.Array:
        each = course.loss.value(data.y, course.student.output(run.state.parameters, data.X))
        return jnp.sum(jnp.where(jnp.arange(len(each)) < n, each, 0.0)) / n

    def success(run: Run, now: jax.Array, k: jax.Array) -> jax.Array:
        return run.state.found if course.watched else jnp.where(now < threshold, k, -1)

    def piece(data, run, key, k):
        def step(j, run):
            after = descent_step(course, data, key, run, k + j)
            return jax.tree.map(lambda new, old: jnp.where(k + j < steps, new, old), after, run)

        return jax.lax.fori_loop(0, every, step, run)

    first = jax.vmap(error)(run, data)
    begun = jax.vmap(success)(run, first, jnp.zeros(lanes, int))
    lost = jax.lax.map(lambda all: loss(*all), (run, data, n))

    def taken(at):
        place = jnp.minimum(at, lanes - 1)
        return jax.tree.map(lambda x: x[place], (data, run, first, begun))

    def onward(now: _Slots) -> _Slots:
        place = jnp.minimum(now.at, lanes - 1)
        run = jax.vmap(piece)(now.data, now.run, keys[place], now.step)
        step = jnp.minimum(now.step + every, steps)
        seen = jax.vmap(error)(run, now.data)
        half = jnp.where(2 * step <= steps, seen, now.half)
        found = jnp.where(now.found < 0, jax.vmap(success)(run, seen, step), now.found)
        over = (step >= steps) | ~run.alive | (found >= 0)
        return jax.lax.cond(
            jnp.any(over),
            lambda: _relieved(now._replace(run=run, step=step, half=half, found=found), seen, over),
            lambda: now._replace(run=run, step=step, half=half, found=found),
        )

    def _relieved(now: _Slots, seen: jax.Array, over: jax.Array) -> _Slots:
        place = jnp.minimum(now.at, lanes - 1)
        left = jax.vmap(loss)(now.run, now.data, n[place])
        found = jnp.where(now.run.alive, now.found, -1)
        columns = jnp.stack([found.astype(float), now.run.died.astype(float), seen, now.half, left, lost[place]])
        ends = now.ends.at[:, jnp.where(over, now.at, lanes)].set(columns, mode="drop")
        at = jnp.where(over, now.after + jnp.cumsum(over) - 1, now.at)
        new, old = taken(at), (now.data, now.run, now.half, now.found)
        kept = jax.tree.map(lambda x, y: jnp.where(over.reshape(-1, *(1,) * (x.ndim - 1)), x, y), new, old)
        step = jnp.where(over, 0, now.step)
        return _Slots(at, kept[0], kept[1], step, kept[2], kept[3], now.after + jnp.sum(over), ends)

    at = jnp.arange(slots)
    data_, run_, half, found = taken(at)
    state = _Slots(at, data_, run_, jnp.zeros(slots, int), half, found, jnp.asarray(slots), jnp.zeros((6, lanes)))
    return jax.lax.while_loop(lambda now: jnp.any(now.at < lanes), onward, state).ends
