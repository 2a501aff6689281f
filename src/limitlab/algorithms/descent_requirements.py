"""What descent on a fixed data set asks of a problem, said in one place."""

import numpy as np

from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.errors import LimitUndefinedError
from limitlab.problems.inputs import Gaussian, Hypercube
from limitlab.problems.networks import Committee, SingleIndex
from limitlab.problems.problem import Problem
from limitlab.problems.starts import InformedStart, RandomStart

__all__ = ["check_descent", "start_overlaps"]


def check_descent(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is descent of one direction w on a fixed data set of a single-index teacher."""

    def fail(needed: str, came: object, remedy: str) -> None:
        raise error(f"{by} needs {needed}; got {came}. {remedy}")

    rule, student = problem.algorithm, problem.student
    if not isinstance(rule, AbstractDescent):
        fail("descent on a fixed data set, such as GradientDescent(0.01)", rule, "See limits(problem) for this rule.")
    if problem.sample_ratio is None:
        fail("a fixed data set (Problem.sample_ratio = n/d)", "sample_ratio=None", "Set sample_ratio=3.0, say.")
    if not isinstance(problem.teacher, SingleIndex):
        fail("a teacher SingleIndex(prior)", problem.teacher, "A committee teacher goes with OnlineSGD.")
    allowed = (Gaussian, Hypercube) if by.startswith("simulate") else Gaussian
    if not isinstance(problem.inputs, allowed):
        fail("Gaussian inputs (Problem.inputs=Gaussian())", problem.inputs, "The equations hold for these.")
    if isinstance(student, Committee) and (student.width, str(student.activation)) != (1, "linear"):
        fail(
            "a student with one direction (leave Problem.student out)",
            student,
            "A wider student of squares is described by MatrixFlow().",
        )
    if problem.loss is None:
        fail("Problem.loss", "none", "Add loss=PhaseRetrievalLoss() or loss=SquareLoss(), for instance.")
    elif (wrong := problem.loss.fits(problem.channel)) is not None:
        fail(*wrong)
    start = problem.start
    if not isinstance(start, (InformedStart, RandomStart)):
        fail("start=RandomStart() or InformedStart(overlap)", start, "These are known for descent.")


def start_overlaps(problem: Problem, d: float | None = None) -> tuple[float, float]:
    """m = w.w*/d and q = |w|^2/d at time 0; a random start has m = sqrt(q rho/d), or 0 in the limit (None)."""
    rho = float(problem.teacher.prior.second_moment)  # type: ignore[union-attr]
    start = problem.start
    if isinstance(start, InformedStart):
        return float(start.overlap) * np.sqrt(rho), 1.0
    assert isinstance(start, RandomStart)
    q = 1.0 if problem.algorithm.spherical else float(start.scale) ** 2  # type: ignore[union-attr]
    return (0.0 if d is None else float(np.sqrt(q * rho / d))), q
