r"""What one-pass learning needs to run: samples, a network that answers, a loss that pulls. No theory.

.. math:: x \sim \mathrm{inputs}, \qquad y \sim \mathrm{channel}(\mathrm{teacher}(x)), \qquad
          \mathrm{pull} = \partial_f\, \ell(y, f(x))
"""

import dataclasses
from typing import Any, NamedTuple

import jax

from limitlab.algorithms.checks import check_fresh
from limitlab.modules import Module, field
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.base import AbstractInputs, AbstractStudent, AbstractTeacher
from limitlab.problems.channels import AbstractChannel, GaussianNoise
from limitlab.problems.losses import AbstractLoss, SquareLoss
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart

__all__ = ["Committees", "OnePass", "Sample"]


UNSEEN = 3  # stream beside those of x and y (0, 1) and of heat (2): of what inputs do not show of the teacher


class Sample(NamedTuple):
    """All random numbers of a step: inputs x (batch, d), labels y (batch,), normal numbers like the parameters."""

    x: jax.Array
    y: jax.Array
    heat: Any


class Committees(Module):
    """A committee that learns another one."""

    student: Committee
    teacher: Committee
    channel: Any


class OnePass(Module):
    """The parts of a problem that a fresh sample at every step needs; ``clean``: noise adds, and errors are squared."""

    inputs: AbstractInputs
    teacher: AbstractTeacher | None
    channel: AbstractChannel
    student: AbstractStudent
    loss: AbstractLoss
    start: AbstractStart
    clean: bool = field(static=True)

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
        key_x, key_y = jax.random.split(key)
        drawn = self.inputs.draw(key_x, count, d)
        if self.teacher is None:
            x, z = drawn
        else:
            x = jax.lax.optimization_barrier(drawn)  # else the compiler draws x once for each of its uses
            z = self.teacher.output(teacher, x)
            z = self.inputs.unseen(jax.random.fold_in(key, UNSEEN), z)
        return x, self.channel.sample(key_y, z)
