"""One-pass SGD on inputs with a spectrum, as its limit sees it: committees, or one linear unit with any convex loss."""

from typing import Any, Self

import numpy as np

from limitlab.algorithms.checks import check_fresh
from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.algorithms.settings.one_pass import SEE, CommitteeOnePass, committee_parts
from limitlab.modules import Module
from limitlab.numerics.trees import as_array
from limitlab.problems.asked import Asked
from limitlab.problems.base import AbstractInputs, AbstractTeacher
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.inputs import Modes
from limitlab.problems.losses import AbstractConvexLoss
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart

__all__ = ["LinearOnePass", "SpectralCommittee", "spectral_setting"]


class SpectralCommittee(CommitteeOnePass):
    """Committees on normal inputs with a spectrum: the overlaps on every mode are all that matters."""

    @property
    def modes(self) -> Modes:
        modes: Any = self.inputs.modes
        return modes

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        parts = committee_parts(problem, asked, spectrum=True)
        words = parts.student.unmoved()
        if words is not None:
            asked.refuse(*words)
        return cls(*parts)


class LinearOnePass(Module):
    """One linear unit that learns one direction through any channel, by any convex loss with a gradient."""

    problem: Problem
    teacher: AbstractTeacher
    student: Committee
    loss: AbstractConvexLoss
    start: AbstractStart
    algorithm: OnlineSGD

    @property
    def inputs(self) -> AbstractInputs:
        return self.problem.inputs

    @property
    def channel(self) -> AbstractChannel:
        return self.problem.channel

    @property
    def modes(self) -> Modes:
        modes: Any = self.inputs.modes
        return modes

    @property
    def squares(self) -> np.ndarray:
        """t^2 of the teacher on every mode."""
        prior: Any = getattr(self.teacher, "prior", None)
        return np.asarray(self.modes.squares(1.0 if prior is None else float(prior.second_moment)), float)

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        check_fresh(problem, asked)
        rule = asked.part(problem.algorithm, OnlineSGD, "Problem.algorithm=OnlineSGD(...)", SEE)
        for name, off in (("spherical", False), ("weight_decay", 0), ("temperature", 0), ("schedule", None)):
            if getattr(rule, name) != off:
                asked.refuse(
                    f"OnlineSGD without {name} for one linear unit and a spectrum", rule, f"Use {name}={off!r}."
                )
        teacher = asked.part(problem.teacher, AbstractTeacher, "a teacher", "Use teacher=SingleIndex(prior).")
        if teacher.units != 1 or not _linear(teacher):
            asked.refuse(
                "one linear direction, SingleIndex(prior), for this loss, channel and spectrum",
                teacher,
                "Committee teachers go with SquareLoss() and GaussianNoise().",
            )
        student = asked.part(
            problem.student,
            Committee,
            'one linear unit (Problem.student=Committee(width=1, activation="linear")) beside a single direction',
            "Set it.",
        )
        if not student.linear:
            asked.refuse(
                'one linear unit (Problem.student=Committee(width=1, activation="linear")) beside a single direction',
                student,
                "Set it; a wider student has a Committee as its teacher.",
            )
        loss = asked.part(problem.loss, AbstractConvexLoss, "a convex loss", "Use SquareLoss() or LogisticLoss().")
        wrong = loss.fits(problem.channel)
        if wrong is not None:
            asked.refuse(*wrong)
        start = asked.part(problem.start, AbstractStart, "Problem.start", "Add start=RandomStart().")
        if not start.alone:
            asked.refuse("start=RandomStart() or InformedStart(overlap)", start, "These are known for one direction.")
        return cls(problem, teacher, student, loss, start, rule)


def _linear(teacher: AbstractTeacher) -> bool:
    """Whether the output is the field of its one direction."""
    fields = np.array([[-1.3], [0.4], [2.0]])
    return teacher.by_fields and bool(np.all(np.asarray(teacher.link(as_array(fields))) == fields[:, 0]))


def spectral_setting(problem: Problem, asked: Asked) -> SpectralCommittee | LinearOnePass:
    """Committees if the teacher is drawn beside the student, else one direction."""
    teacher = problem.teacher
    if teacher is not None and teacher.by_start:
        return SpectralCommittee.of(problem, asked)
    return LinearOnePass.of(problem, asked)
