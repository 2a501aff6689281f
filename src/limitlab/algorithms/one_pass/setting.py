r"""What one-pass learning needs to run: samples, a network that answers, a loss that pulls. No theory.

.. math:: x \sim \mathrm{inputs}, \qquad y \sim \mathrm{channel}(\mathrm{teacher}(x)), \qquad
          \mathrm{pull} = \partial_f\, \ell(y, f(x))
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax

from limitlab.algorithms.checks import check_fresh
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.base import AbstractInputs, AbstractStudent, AbstractTeacher
from limitlab.problems.channels import AbstractChannel, GaussianNoise
from limitlab.problems.losses import AbstractLoss, SquareLoss
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart

__all__ = ["Committees", "OnePass", "Sample"]


UNSEEN = 1  # stream below that of labels: of what inputs do not show of the teacher


class Sample(NamedTuple):
    """All random numbers of a step: inputs x (batch, d), labels y (batch,), normal numbers like the parameters."""

    x: jax.Array
    y: jax.Array
    heat: Any


class Committees(eqx.Module):
    """A committee that learns another one."""

    student: Committee
    teacher: Committee
    channel: Any


class OnePass(eqx.Module):
    """The parts of a problem that a fresh sample at every step needs; ``clean``: noise adds, and errors are squared."""

    inputs: AbstractInputs
    teacher: AbstractTeacher | None
    channel: AbstractChannel
    student: AbstractStudent
    loss: AbstractLoss
    start: AbstractStart
    clean: bool = eqx.field(static=True)

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> "OnePass":
        """The setting of a problem, or a refusal in words."""
        check_fresh(problem, asked)
        example = 'Add student=Committee(width=4, activation="erf").'
        student = asked.part(problem.student, AbstractStudent, "Problem.student", example)
        loss = asked.part(problem.loss, AbstractLoss, "Problem.loss", "Add loss=SquareLoss().")
        if not loss.differentiable:
            asked.refuse("a loss with a gradient", loss, "Use SquareLoss(), LogisticLoss() or HingeLoss().")
        start = asked.part(problem.start, AbstractStart, "Problem.start", "Add start=RandomStart().")
        wrong = None if problem.teacher is None else problem.teacher.misfit(problem.inputs)
        if wrong is not None:
            asked.refuse(*wrong)
        words = student.unmoved()
        if words is not None:
            asked.refuse(*words)
        clean = isinstance(loss, SquareLoss) and isinstance(problem.channel, GaussianNoise)
        return cls(problem.inputs, problem.teacher, problem.channel, student, loss, start, clean)

    @property
    def committees(self) -> "Committees | None":
        """Student and teacher, if both are committees and the student has no biases: overlaps describe them."""
        student, teacher = self.student, self.teacher
        if isinstance(student, Committee) and isinstance(teacher, Committee) and student.bias == "none":
            return Committees(student, teacher, self.channel)
        return None

    def live(self) -> "OnePass":
        """The setting with its numbers traced; a plain 0 stays one: no noise is drawn."""
        return traced(dataclasses.replace(self, teacher=None if self.teacher is None else self.teacher.live()))

    def draw(self, teacher: Any, key: jax.Array, count: int, d: int) -> tuple[jax.Array, jax.Array]:
        """``count`` samples (x, y) of a teacher with these weights."""
        return jax.tree.map(lambda all: all[0], self.draws(teacher, key[None], count, d))

    def draws(self, teacher: Any, keys: jax.Array, count: int, d: int) -> tuple[jax.Array, jax.Array]:
        """What `draw` gives for each of the keys: x (keys, count, d) and y (keys, count)."""
        split = jax.vmap(jax.random.split)(keys)
        drawn = jax.vmap(lambda key: self.inputs.draw(key, count, d))(split[:, 0])
        nature = self.teacher
        x, z = drawn if nature is None else (drawn, drawn)
        if nature is not None:  # in a loop: outside of one the compiler draws x once for each of its uses
            z = jax.lax.map(lambda x: nature.output(teacher, x), x)
            z = jax.vmap(lambda key, z: self.inputs.unseen(jax.random.fold_in(key, UNSEEN), z))(split[:, 1], z)
        return x, jax.vmap(self.channel.sample)(split[:, 1], z)
