r"""One step of descent of any student on a fixed data set, and the loop of steps of one run.

With eps = learning_rate/m for a student of m units, pace 1 for first-layer weights and 1/d for what is of order one
(second layer, biases),

.. math:: \theta \leftarrow (1 - \epsilon\lambda)\,\theta - \epsilon\, m\, \mathrm{pace}\,
          \frac{\partial}{\partial\theta} \sum_\mu \sigma_\mu\, \ell(y_\mu, f(x_\mu))
          + \sqrt{2T\epsilon\,\mathrm{pace}}\; \mathrm{noise}
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.data import DataSet, draw_labels
from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.algorithms.loop import march
from limitlab.modules import Module, field, filter_jit
from limitlab.numerics.random import normal
from limitlab.problems.base import AbstractInputs, AbstractStudent, AbstractTeacher
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.losses import AbstractLoss
from limitlab.states.run import FIELD_BOUND, Run, whole
from limitlab.states.success import COSINE, cosine
from limitlab.verbs import Progress

__all__ = ["FRAME", "LOOK", "START", "Course", "Learning", "Nature", "begin", "descend", "descent_step"]

LONGEST = 2.0  # of a step on the sphere, in units of its radius: the diameter
MASK, HEAT, START, FRAME, LOOK, FRESH = range(6)  # streams of random numbers of one run


class Nature(Module):
    """Where samples come from."""

    inputs: AbstractInputs
    teacher: AbstractTeacher | None
    channel: AbstractChannel


class Course(Module):
    """Who learns by which rule from which loss; ``watched``: one direction, and when it finds the teacher's is kept.

    ``nature`` is for rules that take new samples at every step.
    """

    rule: AbstractDescent
    loss: AbstractLoss
    student: AbstractStudent
    watched: bool = field(static=True, default=False)
    nature: Nature | None = None

    def samples(self, data: DataSet, key: jax.Array, step: jax.Array) -> DataSet:
        """The samples of a step: the data set, or as many new ones of the same teacher."""
        if self.nature is None or not self.rule.fresh:
            return data
        key, (n, d) = jax.random.fold_in(jax.random.fold_in(key, FRESH), step), data.X.shape
        return draw_labels(self.nature.inputs, self.nature.teacher, data.teacher, self.nature.channel, key, n, d)


class Learning(Module):
    """Parameters of the student, the batch (n,), and the step at which the teacher was found (or -1)."""

    parameters: Any
    mask: jax.Array
    found: jax.Array = field(converter=whole)


def begin(course: Course, parameters: Any, data: DataSet, key: jax.Array) -> Run:
    """Step 0 of a run."""
    mask = course.rule.first_mask(jax.random.fold_in(jax.random.fold_in(key, MASK), 0), len(data.y))
    found = jnp.where(_hits(course, parameters, data), 0, -1)
    return Run.alone(Learning(parameters, mask, found))


def descent_step(course: Course, data: DataSet, key: jax.Array, run: Run, step: jax.Array) -> Run:
    """Two products with X for each unit, fields and forces, and O((n + d) m) besides."""
    data = course.samples(data, key, step)
    rule, student, now, d = course.rule, course.student, run.state, data.X.shape[1]
    eps = rule.learning_rate / student.units
    answer = student.respond(now.parameters, data.X)
    g = course.loss.gradient(data.y, answer.f)[0] * rule.factor
    slope = answer.back(jnp.where(now.mask, g, 0.0) if rule.masked else g)
    pace = student.pace(now.parameters, jnp.asarray(float(d)), 1.0)
    keep = 1 - eps * rule.penalty
    moved = _by_pace(lambda pace, x, G: keep * x - rule.learning_rate * pace.rate * G, pace, now.parameters, slope)
    if rule.heat is not None:
        heat_key = jax.random.fold_in(jax.random.fold_in(key, HEAT), step)
        moved = _heated(pace, moved, heat_key, jnp.sqrt(2 * rule.heat * eps), d)
    if rule.spherical:
        longest = jnp.square(rule.learning_rate) * _longest(student.directions(slope))
        sound = longest <= LONGEST**2 * d
        moved = student.on_sphere(moved)
    else:
        sound = _longest(student.directions(moved)) <= FIELD_BOUND**2 * d
    sound = sound & jnp.isfinite(sum(jnp.sum(x) for x in jax.tree.leaves(moved)))
    found = jnp.where((now.found < 0) & _hits(course, moved, data), step + 1, now.found)
    mask = rule.batch_after(jax.random.fold_in(jax.random.fold_in(key, MASK), step + 1), now.mask, student.units)
    return run.onward(Learning(moved, mask, found), sound, step)


def _by_pace(move: Callable, pace: Any, *trees: Any) -> Any:
    """``move`` on every parameter that has a pace; the others stand still."""
    return jax.tree.map(lambda p, x, *more: x if p is None else move(p, x, *more), pace, *trees, is_leaf=_is_pace)


def _is_pace(x: Any) -> bool:
    return x is None or hasattr(x, "rate")


def _heated(pace: Any, parameters: Any, key: jax.Array, size: jax.Array, d: int) -> Any:
    """Thermal noise on every parameter that moves, each from its own key, the first from ``key`` itself."""
    leaves = jax.tree.leaves(pace, is_leaf=_is_pace)
    keys = jax.tree.unflatten(
        jax.tree.structure(pace, is_leaf=_is_pace),
        [key if i == 0 else jax.random.fold_in(key, i) for i in range(len(leaves))],
    )

    def shaken(pace, x, key):
        return x + size * (pace.spread / jnp.sqrt(float(d))) * normal(key, jnp.shape(x))

    return _by_pace(shaken, pace, parameters, keys)


def _longest(rows: jax.Array | None) -> jax.Array:
    """The largest squared norm of a unit's weights; 0 for a student without directions."""
    return jnp.zeros(()) if rows is None else jnp.max(jnp.sum(jnp.square(rows), axis=-1))


def _hits(course: Course, parameters: Any, data: DataSet) -> jax.Array:
    if not course.watched:
        return jnp.asarray(False)
    return cosine(parameters, data.teacher) > COSINE.threshold


@filter_jit
def _advance(course: Course, data: DataSet, key, run: Run, first, last) -> Run:
    step = partial(descent_step, course, data, key)
    return jax.lax.fori_loop(first, last, lambda k, r: step(r, k), run)


def descend(
    course: Course,
    data: DataSet,
    key: jax.Array,
    run: Run,
    targets: np.ndarray,
    look: Callable[[Any, Any], Any],
    label: str,
    turn: tuple[int, int] = (0, 1),
    progress: Progress | None = None,
) -> tuple[list[Any], Run]:
    """What ``look(parameters, step)`` sees at the targets, and the run at the last; ``turn`` is (replica, replicas)."""
    (replica, replicas), last = turn, int(targets[-1])
    begun = replica * last

    def onward(run, first, upto):
        return _advance(course, data, key, run, first - begun, upto - begun)

    return march(
        onward,
        lambda state, step: look(state.parameters, jnp.asarray(step - begun)),
        run,
        (targets + begun).tolist(),
        progress,
        label,
        now=begun,
        total=replicas * last,
    )
