"""One data set: a teacher, inputs and labels, the same for every rule that asks with the same seed."""

from typing import Any, NamedTuple

import jax

from limitlab.errors import InputError
from limitlab.problems.base import AbstractInputs, AbstractTeacher
from limitlab.problems.channels.base import AbstractChannel

__all__ = ["DRAW", "RUN", "DataSet", "draw_labels", "draw_set", "given", "replica_key", "sample_count"]

DRAW, RUN = 0, 1  # streams below the key of a replica: of its data set, and of what a rule draws itself
TEACHER, INPUTS, LABELS, UNSEEN = range(4)  # streams below that of the data set


class DataSet(NamedTuple):
    """Weights of the teacher (one direction: (d,); None without a teacher), inputs X (n, d), labels y (n,)."""

    teacher: Any
    X: jax.Array
    y: jax.Array


class _Given(AbstractTeacher):
    """A teacher whose weights are drawn already, with the data."""

    teacher: AbstractTeacher
    weights: Any

    def draw(self, key, d):
        return self.weights

    def output(self, weights, x):
        return self.teacher.output(weights, x)

    def directions(self, weights):
        return self.teacher.directions(weights)


def given(teacher: AbstractTeacher, weights: Any) -> AbstractTeacher:
    """A teacher whose weights are drawn already."""
    return _Given(teacher, weights)


def replica_key(seed: Any, replica: Any) -> jax.Array:
    """The key of one replica: it depends on nothing else, so more replicas leave the first ones as they were."""
    return jax.random.fold_in(jax.random.key(seed), replica)


def sample_count(by: str, ratio: float, d: int) -> int:
    """n = alpha d, or `InputError` if there is no sample at all."""
    n = round(ratio * d)
    if n < 1:
        raise InputError(f"{by} needs at least one sample; sample_ratio={ratio} at d={d} gives none. Use a larger d.")
    return n


def teacher_key(key: jax.Array) -> jax.Array:
    """What the teacher of a data set is drawn from."""
    return jax.random.fold_in(key, TEACHER)


def draw_labels(
    inputs: AbstractInputs,
    teacher: AbstractTeacher | None,
    weights: Any,
    channel: AbstractChannel,
    key: jax.Array,
    n: int,
    d: int,
    dtype: Any = float,
) -> DataSet:
    """x ~ inputs and y ~ channel(teacher(x)) for given weights; labels that inputs bring pass the channel too."""
    input_key, label_key = (jax.random.fold_in(key, stream) for stream in (INPUTS, LABELS))
    drawn = inputs.draw(input_key, n, d, dtype)
    X, z = drawn if teacher is None else (drawn, teacher.output(weights, drawn))
    z = inputs.unseen(jax.random.fold_in(key, UNSEEN), z)
    return DataSet(weights, X, channel.sample(label_key, z))


def draw_set(
    inputs: AbstractInputs,
    teacher: AbstractTeacher,
    channel: AbstractChannel,
    key: jax.Array,
    n: int,
    d: int,
    dtype: Any = float,
) -> DataSet:
    """The teacher as well: w ~ teacher, x ~ inputs, y ~ channel(teacher(x))."""
    weights = teacher.draw_on(inputs, teacher_key(key), d)
    return draw_labels(inputs, teacher, weights, channel, key, n, d, dtype)
