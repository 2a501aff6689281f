"""One-pass SGD with the square loss, as its limits see it: committees, sparse targets, inputs that bring their labels.

Each setting has the parts of a `Problem` in the order of its fields, so that both have the same numbers in the same
order. `of` asks for them one after the other and says in words what is missing.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from limitlab.algorithms.checks import check_fresh, check_normal, check_normal_fields
from limitlab.algorithms.one_pass.layerwise_sgd import LayerwiseSGD
from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.modules import Module, tree_at
from limitlab.problems.asked import Asked
from limitlab.problems.base import AbstractInputs
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.inputs import AbstractLabelledInputs
from limitlab.problems.losses import SquareLoss
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.target import SparseTarget
from limitlab.problems.starts import AbstractStart
from limitlab.problems.starts.neurons import Neurons

__all__ = ["CommitteeOnePass", "LabelledOnePass", "SparseOnePass", "committee_parts"]

SEE = "Other rules have other limits; see limits(problem)."


class SquareOnePass(Module):
    """The parts of one-pass SGD with the square loss. Fresh samples at every step: there is no sample ratio."""

    inputs: AbstractInputs
    teacher: Any
    channel: GaussianNoise
    student: Committee
    loss: SquareLoss
    start: AbstractStart
    algorithm: Any

    @property
    def problem(self) -> Problem:
        """The problem itself, as results are stamped with it."""
        return Problem(
            inputs=self.inputs,
            teacher=self.teacher,
            channel=self.channel,
            student=self.student,
            loss=self.loss,
            start=self.start,
            algorithm=self.algorithm,
        )

    @property
    def neurons(self) -> Neurons:
        """The law of one unit at time 0."""
        return self.start.neurons(self.student)

    def clock(self, d: Any) -> Any:
        """Macroscopic time per step."""
        return self.algorithm.clock(self.problem, d)


class CommitteeOnePass(SquareOnePass):
    """Committees on Gaussian inputs: the overlaps of student and teacher are all that matters."""

    teacher: Committee
    algorithm: OnlineSGD

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        """The parts of a problem, or a refusal."""
        parts = committee_parts(problem, asked)
        _moving(parts.student, asked, 'Use "erf" or "tanh" for the student; "sign" is for teachers.')
        return cls(*parts)

    def from_anywhere(self) -> Self:
        """The motion without its start: compiled once, it serves them all."""
        return tree_at(lambda setting: setting.start, self, AbstractStart())


class CommitteeParts(NamedTuple):
    """What `CommitteeOnePass` is made of."""

    inputs: AbstractInputs
    teacher: Committee
    channel: GaussianNoise
    student: Committee
    loss: SquareLoss
    start: AbstractStart
    algorithm: OnlineSGD


def committee_parts(problem: Problem, asked: Asked, spectrum: bool = False) -> CommitteeParts:
    """All that `CommitteeOnePass` asks except whether the activation has a gradient, which takes time to see.

    ``spectrum``: whether inputs may have one.
    """
    inputs, start, rule = problem.inputs, problem.start, problem.algorithm
    (check_normal_fields if spectrum else check_normal)(problem, asked)
    teacher = asked.part(
        problem.teacher, Committee, "a Committee teacher", "Describe its directions as a Committee, width=1 for one."
    )
    channel = asked.part(
        problem.channel,
        GaussianNoise,
        "additive label noise (Problem.channel=GaussianNoise(variance=...))",
        'A sign or modulus on the output is a teacher activation here ("sign", "abs", "square").',
    )
    check_fresh(problem, asked)
    student = _student(problem, asked, "Add student=Committee(width=..., activation=...).")
    start = asked.part(start, AbstractStart, "Problem.start", "Add start=RandomStart().")
    if not start.joint:
        asked.refuse("a start that knows its overlaps", start, "Use RandomStart() or InformedStart(overlap).")
    loss = _loss(problem, asked)
    rule = asked.part(rule, OnlineSGD, "Problem.algorithm=OnlineSGD(...)", SEE)
    if rule.weight_decay:
        asked.refuse(
            "OnlineSGD without weight decay on Gaussian inputs",
            f"weight_decay={rule.weight_decay}",
            "Use weight_decay=0; weight decay is known for sparse targets and for mixtures.",
        )
    _plain(asked, student, rule.temperature, rule.schedule)
    norms = start.given_norms
    if rule.spherical and norms is not None and np.any(norms <= 0):
        asked.refuse(
            "student units of non-zero norm for a spherical rule (OverlapStart.Q_ii > 0)",
            f"Q_ii = {norms.tolist()}",
            "Give every unit a direction, or use spherical=False.",
        )
    return CommitteeParts(inputs, teacher, channel, student, loss, start, rule)


class SparseOnePass(SquareOnePass):
    """A two-layer network and a sparse target of the hypercube. ``layerwise``: the rule, if it trains in two phases."""

    teacher: SparseTarget
    algorithm: OnlineSGD | LayerwiseSGD
    weight_decay: float
    layerwise: LayerwiseSGD | None

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        """The parts of a problem, or a refusal."""
        target = asked.part(
            problem.teacher,
            SparseTarget,
            "a sparse target",
            'Use teacher=SparseTarget("z1 + z1*z2").',
            type(problem.teacher).__name__,
        )
        if not problem.inputs.signs:
            asked.refuse("inputs on the hypercube (Problem.inputs=Hypercube())", problem.inputs, "The z_i are signs.")
        channel = _additive(problem, asked)
        student = _student(problem, asked, 'Add student=Committee(width=100, activation="shifted(tanh, 0.5)").')
        loss = _loss(problem, asked)
        start = _isotropic(problem, asked, 'Use start=RandomStart(second_layer="uniform").')
        rule, layerwise, decay = problem.algorithm, None, 0.0
        if isinstance(rule, LayerwiseSGD):
            layerwise = rule
            _plain(asked, student)
        else:
            rule = _free_sgd(problem, asked, "OnlineSGD(spherical=False) or LayerwiseSGD", SEE)
            decay = rule.weight_decay
            _plain(asked, student, rule.temperature, rule.schedule)
        _moving(student, asked, 'Use "shifted(tanh, 0.5)".')
        return cls(problem.inputs, target, channel, student, loss, start, rule, decay, layerwise)

    @property
    def interacting(self) -> bool:
        """Whether the output acts back on the first layer."""
        return self.layerwise is None or self.layerwise.interacting

    @property
    def second_rate(self) -> Any:
        """At which rate the second layer moves together with the first."""
        moves = self.layerwise is None and self.student.second_layer == "trained"
        return self.algorithm.second_layer_rate if moves else 0.0

    @property
    def kick(self) -> Any:
        """gamma/(p b), by which finite steps differ from the flow."""
        return self.algorithm.learning_rate / (self.student.width * self.algorithm.batch_size)


class LabelledOnePass(SquareOnePass):
    """A two-layer network on inputs that bring their labels."""

    inputs: AbstractLabelledInputs
    teacher: None
    algorithm: OnlineSGD

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        """The parts of a problem, or a refusal."""
        inputs = asked.part(
            problem.inputs,
            AbstractLabelledInputs,
            "labelled inputs (a class of limitlab.extending.AbstractLabelledInputs)",
            "Use inputs=IsotropicMixture(delta=0.8) and no teacher.",
        )
        channel = _additive(problem, asked)
        student = _student(
            problem, asked, 'Add student=Committee(width=800, activation="piecewise((0.5, -2.5), (1.5, 7.5))").'
        )
        loss = _loss(problem, asked)
        start = _isotropic(problem, asked, "Use start=RandomStart(scale=0.8).")
        needed, remedy = "OnlineSGD(spherical=False)", "Use algorithm=OnlineSGD(learning_rate=...)."
        rule = _free_sgd(problem, asked, needed, remedy)
        _moving(student, asked, 'Use "relu" or piecewise(...).')
        return cls(inputs, None, channel, student, loss, start, rule)

    @property
    def trained(self) -> bool:
        """Whether the second layer moves."""
        return self.student.second_layer == "trained"

    @property
    def biased(self) -> bool:
        """Whether units have biases."""
        return self.student.bias == "trained"


def _additive(problem: Problem, asked: Asked) -> GaussianNoise:
    """Additive noise and, which is asked next, fresh samples."""
    channel = asked.part(
        problem.channel,
        GaussianNoise,
        "additive label noise (GaussianNoise(variance=...))",
        "Leave the channel out for none.",
    )
    check_fresh(problem, asked)
    return channel


def _isotropic(problem: Problem, asked: Asked, remedy: str) -> AbstractStart:
    start = problem.start
    if start is None or not start.isotropic:
        asked.refuse("a random start (Problem.start=RandomStart(...) without P)", start, remedy)
    return start


def _free_sgd(problem: Problem, asked: Asked, needed: str, remedy: str) -> OnlineSGD:
    """One-pass SGD whose weights are not kept on a sphere."""
    rule = asked.part(problem.algorithm, OnlineSGD, needed, remedy)
    if rule.spherical:
        asked.refuse(needed, rule, remedy)
    return rule


def _student(problem: Problem, asked: Asked, remedy: str) -> Committee:
    needed = "Problem.student" if problem.student is None else "a Committee (Problem.student)"
    return asked.part(problem.student, Committee, needed, remedy)


def _loss(problem: Problem, asked: Asked) -> SquareLoss:
    return asked.part(problem.loss, SquareLoss, "the square loss (Problem.loss=SquareLoss())", "Set loss=SquareLoss().")


def _moving(student: Committee, asked: Asked, remedy: str) -> None:
    if student.activation.flat:
        asked.refuse(
            "a student activation with a gradient",
            f"{student.activation!r}, whose derivative is zero almost everywhere",
            remedy,
        )


def _plain(asked: Asked, student: Committee, temperature: Any = 0, schedule: Any = None) -> None:
    """Biases, temperature and schedules are known for labelled inputs only."""
    for needed, off, came in (
        ('student.bias="none"', "none", student.bias),
        ("algorithm.temperature=0", 0, temperature),
        ("algorithm.schedule=None", None, schedule),
    ):
        if came != off:
            asked.refuse(
                needed,
                repr(came),
                "Biases, added noise and schedules are known for mixtures (inputs=IsotropicMixture(...)).",
            )
