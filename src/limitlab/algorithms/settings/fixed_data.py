"""Problems with a fixed data set of n = alpha d samples, as rules and limits see them.

``of`` is what a theory needs, ``to_simulate`` what a run needs, where that is less. Each says no in words.
"""

import dataclasses
from collections.abc import Callable
from typing import Self, TypeVar

import jax
import numpy as np

from limitlab.algorithms.base import AbstractFit
from limitlab.algorithms.checks import check_flat, check_no_features, check_normal, check_normal_fields, check_sphere
from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.algorithms.one_pass.setting import OnePass
from limitlab.errors import InputError, LimitUndefinedError
from limitlab.modules import Module
from limitlab.numerics.trees import as_array
from limitlab.problems.asked import Asked
from limitlab.problems.base import AbstractInputs, AbstractTeacher
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.inputs import Modes
from limitlab.problems.losses import AbstractConvexLoss, AbstractLoss
from limitlab.problems.networks import Committee, RandomFeatures, SingleIndex
from limitlab.problems.priors import AbstractPrior
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart, RandomStart
from limitlab.states.overlaps import Overlaps

__all__ = [
    "GLM",
    "CommitteeDescent",
    "ConvexFit",
    "Descent",
    "NetworkDescent",
    "PhaseData",
    "WideDescent",
    "at_ratio",
    "fitting",
]

S = TypeVar("S")


def at_ratio(problem: Problem, alpha: float) -> Problem:
    """The problem at another sample ratio."""
    return dataclasses.replace(problem, sample_ratio=float(alpha))


def fitting(parse: Callable[[Problem, Asked], S], problem: Problem) -> S | None:
    """The setting that ``parse`` makes of a problem; None if it says no."""
    try:
        return parse(problem, Asked("fitting", LimitUndefinedError))
    except LimitUndefinedError:
        return None


class _OneDirection(Module):
    """A single-index teacher and its data set: what all settings of one direction share."""

    problem: Problem
    teacher: SingleIndex
    ratio: float

    @property
    def inputs(self) -> AbstractInputs:
        return self.problem.inputs

    @property
    def channel(self) -> AbstractChannel:
        return self.problem.channel

    @property
    def prior(self) -> AbstractPrior:
        return self.teacher.prior

    @property
    def rho(self) -> float:
        """The variance of the teacher's field: E w^2, unless inputs have a spectrum."""
        moment, modes = self.teacher.prior.second_moment, self.inputs.modes
        return float(moment if modes is None else modes.signal(moment) + modes.unexplained)


class GLM(_OneDirection):
    """A generalised linear model: one direction with a prior, labels through a channel."""

    @property
    def start(self) -> AbstractStart | None:
        return self.problem.start

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        check_normal(problem, asked)
        check_no_features(problem, asked)
        teacher = asked.part(
            problem.teacher,
            SingleIndex,
            "a single direction with a prior",
            "Use teacher=SingleIndex(prior=GaussianPrior()) and a channel such as Sign().",
        )
        remedy = "Add sample_ratio=2.0, say; a fresh sample at every step belongs to OverlapODE."
        return cls(problem, teacher, _ratio(problem, asked, remedy))

    @classmethod
    def to_simulate(cls, problem: Problem, asked: Asked) -> Self:
        check_flat(problem, asked)
        check_no_features(problem, asked)
        teacher = asked.part(
            problem.teacher,
            SingleIndex,
            "a single direction with a prior (Problem.teacher=SingleIndex(prior=...))",
            "Use teacher=SingleIndex(prior=GaussianPrior()).",
        )
        return cls(problem, teacher, _ratio(problem, asked))


class ConvexFit(_OneDirection):
    """A convex loss with an L2 penalty, fitted to labels of a single direction."""

    loss: AbstractConvexLoss
    penalty: float

    @property
    def features(self) -> RandomFeatures | None:
        """Features of the inputs, if these are what is fitted."""
        student = self.problem.student
        return student if isinstance(student, RandomFeatures) else None

    @property
    def modes(self) -> Modes | None:
        """The spectrum of what is fitted: of the inputs, or of normal features that are as good."""
        return self.inputs.modes if self.features is None else self.features.equivalent(self.rho)

    @property
    def width(self) -> float:
        """How many numbers are fitted, over d."""
        return 1.0 if self.features is None else float(self.features.width_ratio)

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        rule = asked.part(
            problem.algorithm,
            AbstractFit,
            "Problem.algorithm=ERM(penalty=...)",
            "Other rules have other limits; see limits(problem).",
        )
        check_normal_fields(problem, asked)
        teacher = asked.part(
            problem.teacher,
            SingleIndex,
            "a teacher SingleIndex(prior)",
            "For a committee teacher use OnlineSGD and OverlapODE.",
        )
        ratio = _ratio(problem, asked)
        loss = asked.part(problem.loss, AbstractLoss, "Problem.loss", "Add loss=LogisticLoss(), for instance.")
        if not loss.convex:
            asked.refuse(
                "a convex loss",
                f"{loss!r}, which is not convex: it has many minima and replica symmetry breaks",
                "Use a convex loss, or a dynamical rule (GradientDescent, GAMP) for this one.",
            )
        if problem.student is not None and problem.student.frozen:
            check_flat(problem, asked)
        convex = asked.part(loss, AbstractConvexLoss, "a convex loss", "Derive it from AbstractConvexLoss.")
        wrong = convex.reads(problem.channel)
        if wrong is not None:
            asked.refuse(
                wrong.needed,
                wrong.came,
                "Use a channel such as Sign() or Logistic(), or a regression loss such as SquareLoss().",
            )
        return cls(problem, teacher, ratio, convex, float(rule.penalty))


class Descent(_OneDirection):
    """Descent of one direction w on a data set of a single-index teacher."""

    rule: AbstractDescent
    loss: AbstractLoss
    start: AbstractStart

    @property
    def clock(self) -> float:
        """Macroscopic time per step."""
        return float(self.rule.learning_rate)

    @property
    def even(self) -> bool:
        """Whether labels do not see the sign of the teacher's field."""
        return bool(self.channel.even)

    def overlaps(self, d: float | None) -> Overlaps:
        """At time 0 and dimension d, or in the limit (None)."""
        m, q = self.start.direction_overlaps(self.rho, self.rule.spherical, d)
        Q, M, P, a = map(as_array, (np.array([[q]]), np.array([[m]]), np.array([[self.rho]]), np.ones(1)))
        return Overlaps(Q, M, P, a)

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        return cls._parsed(problem, asked, problem.inputs.normal, once=True)

    @classmethod
    def to_simulate(cls, problem: Problem, asked: Asked) -> Self:
        """One direction whose risk is known by m and q, at least in high dimension; others are a network's business."""
        return cls._parsed(problem, asked, problem.inputs.normal or problem.inputs.signs)

    @classmethod
    def _parsed(cls, problem: Problem, asked: Asked, spread: bool, once: bool = False) -> Self:
        rule = asked.part(
            problem.algorithm,
            AbstractDescent,
            "descent on a fixed data set, such as GradientDescent(0.01)",
            "See limits(problem) for this rule.",
        )
        ratio = _ratio(problem, asked)
        if once:
            check_one_set(rule, asked)
        teacher = asked.part(
            problem.teacher,
            SingleIndex,
            "a teacher SingleIndex(prior)",
            "A committee teacher goes with OnlineSGD.",
        )
        if not spread:
            check_normal(problem, asked)
        if problem.student is not None and not problem.student.linear:
            asked.refuse(
                "a student with one direction (leave Problem.student out)",
                problem.student,
                "A wider student of squares is described by MatrixFlow().",
            )
        loss = _loss(problem, asked)
        wrong = loss.fits(problem.channel)
        if wrong is not None:
            asked.refuse(*wrong)
        start = _start(problem, asked)
        if not start.alone:
            asked.refuse("start=RandomStart() or InformedStart(overlap)", start, "These are known for descent.")
        return cls(problem, teacher, ratio, rule, loss, start)


class NetworkDescent(Module):
    """Descent of any student on a data set of any inputs, teacher, channel and loss: all that a run needs.

    A student that is left out is one linear unit.
    """

    problem: Problem
    rule: AbstractDescent
    parts: OnePass
    ratio: float

    @classmethod
    def to_simulate(cls, problem: Problem, asked: Asked) -> Self:
        rule = asked.part(
            problem.algorithm, AbstractDescent, "descent on a fixed data set, such as GradientDescent(0.01)", "Set it."
        )
        ratio = _ratio(problem, asked)
        student = Committee(width=1, activation="linear") if problem.student is None else problem.student
        parts = OnePass.of(dataclasses.replace(problem, sample_ratio=None, student=student), asked)
        check_sphere(student, rule.spherical, asked)
        if student.squares:
            parts = dataclasses.replace(parts, loss=parts.loss.of_squares())
        return cls(problem, rule, parts, ratio)

    @property
    def phase(self) -> "PhaseData | None":
        """The data as those of phase retrieval, if they are and the student is one of squares."""
        return fitting(PhaseData.of, self.problem) if self.parts.student.squares else None

    @property
    def kappa(self) -> float | None:
        """The prefactor of the loss of such a student, if it is the square of a residual."""
        kappa = None if self.problem.loss is None else self.problem.loss.squares_prefactor(self.problem.channel)
        return None if kappa is None else float(kappa)


class CommitteeDescent(NetworkDescent):
    """Descent of a committee beside a teacher with directions, on Gaussian inputs: all that its theory needs.

    The second layer stands still, and overlaps of the start are known as d grows.
    """

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        rule = asked.part(
            problem.algorithm, AbstractDescent, "descent on a fixed data set, such as GradientDescent(0.01)", "Set it."
        )
        _ratio(problem, asked)
        check_one_set(rule, asked)
        check_normal(problem, asked)
        needed = "a student with one direction (leave Problem.student out) or a Committee with a fixed second layer"
        student = asked.part(problem.student, Committee, needed, "Use Committee(width=2, activation='erf').")
        if student.second_layer != "fixed" or student.bias != "none":
            asked.refuse(needed, student, 'Use second_layer="fixed" and no bias.')
        if problem.teacher is None or not problem.teacher.by_fields or problem.teacher.units == 0:
            asked.refuse("a teacher with directions", problem.teacher, "Use Committee, MultiIndex or SingleIndex.")
        loss = _loss(problem, asked)
        wrong = loss.reads(problem.channel)
        if wrong is not None:
            asked.refuse(*wrong)
        start = _start(problem, asked)
        if not start.joint:
            asked.refuse("a start whose overlaps are known", start, "Use OverlapStart(Q, M, P) or InformedStart(m).")
        if student.output_weights is None and start.random_layer:
            asked.refuse("a second layer that is given", f"one drawn at random by {start}", "Set output_weights.")
        network = cls.to_simulate(problem, asked)
        setting = cls(problem, rule, network.parts, network.ratio)
        setting.overlaps(None)  # or a word on its shapes
        return setting

    @property
    def student(self) -> Committee:
        student = self.parts.student
        if not isinstance(student, Committee):
            raise TypeError("A CommitteeDescent is made by `of`, which asks for a Committee.")
        return student

    @property
    def teacher(self) -> AbstractTeacher:
        if self.parts.teacher is None:
            raise TypeError("A CommitteeDescent is made by `of`, which asks for a teacher.")
        return self.parts.teacher

    @property
    def channel(self) -> AbstractChannel:
        return self.parts.channel

    @property
    def loss(self) -> AbstractLoss:
        """As the output is read: that of squares stands for a square."""
        return self.parts.loss

    @property
    def clock(self) -> float:
        """Macroscopic time per step, learning_rate/m."""
        return float(self.rule.learning_rate) / self.student.width

    @property
    def even(self) -> bool:
        """Whether labels stay when all directions of the teacher are turned around."""
        return self.teacher.parity == 1 or (self.teacher.parity == -1 and bool(self.channel.even))

    def overlaps(self, d: float | None) -> Overlaps:
        """At time 0 in the limit."""
        start, p, k = self.parts.start, self.student.width, self.teacher.units
        Q, M, P = (np.array(x, float) for x in start.limit(p, k))
        if M.shape != (p, k):
            raise InputError(
                f"Problem.start has overlaps M of shape {M.shape} (students, teachers); the student has {p} units and "
                f"the teacher {k} directions. Give M one row per unit and one column per direction."
            )
        if k == 1 and not self.teacher.by_start:  # directions are taken at the length that they are drawn with
            rho = float(self.teacher.moment)
            M, P = M * np.sqrt(rho / P), np.array([[rho]])
        if self.rule.spherical:
            norm = np.sqrt(np.diag(Q))
            Q, M = Q / np.outer(norm, norm), M / norm[:, None]
        a = self.student.output_weights
        a = start.draw_second_layer(jax.random.key(0), p) if a is None else a
        return Overlaps(as_array(Q), as_array(M), as_array(P), as_array(np.asarray(a, float)))


class PhaseData(_OneDirection):
    """Noiseless phase retrieval: one direction, Gaussian inputs, n = alpha d labels without a sign."""

    @property
    def squared(self) -> bool:
        """True if labels are squares already."""
        return self.channel.modulus == "intensity"

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        return cls(*_phase_data(problem, asked))


class WideDescent(PhaseData):
    r"""Gradient descent of a committee of squares on phase-retrieval data.

    .. math:: f(x) = \frac1m \sum_{i \le m} (w_i \cdot x)^2 = x^T A x, \qquad
              L = \kappa \sum_\mu r_\mu^2, \quad r_\mu = (x_\mu \cdot w^*)^2 - f(x_\mu)

    A student of squares estimates the squared label: its output stands where a single unit has its output squared.
    """

    start: RandomStart
    width: int
    kappa: float
    learning_rate: float

    @property
    def clock(self) -> float:
        """Macroscopic time per step: that of descent for a single unit at learning_rate/width."""
        return self.learning_rate / self.width

    @classmethod
    def of(cls, problem: Problem, asked: Asked) -> Self:
        data = _phase_data(problem, asked)
        needed = 'a committee of squares (Committee(width=m, activation="square"))'
        student = asked.part(problem.student, Committee, needed, "Set Problem.student to it.")
        if not student.squares:
            asked.refuse(needed, student, "Set Problem.student to it.")
        if student.second_layer != "fixed" or student.bias != "none" or student.output_weights is not None:
            asked.refuse(
                'a second layer of ones (second_layer="fixed", no bias, no output_weights)',
                student,
                "Leave these fields.",
            )
        kappa = None if problem.loss is None else problem.loss.squares_prefactor(problem.channel)
        if kappa is None:
            asked.refuse(
                "PhaseRetrievalLoss() with channel=Modulus(), or SquareLoss() (or "
                'PhaseRetrievalLoss(labels="intensity")) with channel=SquaredModulus()',
                f"{problem.loss} with {problem.channel}",
                "The student's output, a mean of squares, must be compared with the squared label.",
            )
        needed = "a random start (Problem.start=RandomStart() with a second layer of ones, no P)"
        start = asked.part(problem.start, RandomStart, needed, "Use this one.")
        if not start.one_layer or start.P is not None:
            asked.refuse(needed, start, "Use this one.")
        needed = "Problem.algorithm=GradientDescent(learning_rate=..., spherical=False)"
        rule = asked.part(problem.algorithm, AbstractDescent, needed, "Set it.")
        if rule.masked or rule.heat is not None or rule.fresh:
            asked.refuse(needed, rule, "Set it.")
        if rule.spherical or float(rule.penalty) > 0:
            asked.refuse(
                "free weights (GradientDescent(..., spherical=False, penalty=0))",
                rule,
                "The norms of the units must move: the trace of A is learned.",
            )
        return cls(*data, start, student.width, float(kappa), float(rule.learning_rate))


def _phase_data(problem: Problem, asked: Asked) -> tuple[Problem, SingleIndex, float]:
    check_normal(problem, asked)
    teacher = asked.part(
        problem.teacher, SingleIndex, "one direction to be found", "Use teacher=SingleIndex(prior=GaussianPrior())."
    )
    noise = problem.channel.added_variance
    if problem.channel.modulus is None or noise is None or float(noise) > 0:
        asked.refuse(
            "noiseless labels without a sign",
            problem.channel,
            "Use channel=Modulus() with PhaseRetrievalLoss(), or SquaredModulus() with SquareLoss().",
        )
    return problem, teacher, _ratio(problem, asked)


def _ratio(problem: Problem, asked: Asked, remedy: str = "Set sample_ratio=3.0, say.") -> float:
    if problem.sample_ratio is None:
        came = "sample_ratio=None, which means a fresh sample at every step"
        asked.refuse("a fixed data set (Problem.sample_ratio = n/d)", came, remedy)
    return float(problem.sample_ratio)


def check_one_set(rule: AbstractDescent, asked: Asked) -> None:
    """Refuse new samples at every step."""
    if rule.fresh:
        asked.refuse(
            "one data set that every step uses (fresh=False)",
            f"{type(rule).__name__} with fresh=True",
            "Simulate it, or use OnlineSGD with OverlapODE for one pass.",
        )


def _loss(problem: Problem, asked: Asked) -> AbstractLoss:
    remedy = "Add loss=PhaseRetrievalLoss() or loss=SquareLoss(), for instance."
    return asked.part(problem.loss, AbstractLoss, "Problem.loss", remedy)


def _start(problem: Problem, asked: Asked) -> AbstractStart:
    return asked.part(
        problem.start, AbstractStart, "start=RandomStart() or InformedStart(overlap)", "These are known for descent."
    )
