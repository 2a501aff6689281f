"""What empirical risk minimisation asks of a problem, said in one place."""

from limitlab.algorithms.erm import ERM
from limitlab.errors import LimitUndefinedError
from limitlab.problems.inputs import Gaussian
from limitlab.problems.losses import AbstractConvexLoss
from limitlab.problems.networks import SingleIndex
from limitlab.problems.problem import Problem

__all__ = ["check_erm"]


def check_erm(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError, ratio: bool = True) -> None:
    """Raise unless the problem is the fit of a convex loss to labels of a single-index teacher."""

    def fail(needed: str, came: object, remedy: str) -> None:
        raise error(f"{by} needs {needed}; got {came}. {remedy}")

    loss = problem.loss
    if not isinstance(problem.algorithm, ERM):
        fail(
            "Problem.algorithm=ERM(penalty=...)",
            problem.algorithm,
            "Other rules have other limits; see limits(problem).",
        )
    if not isinstance(problem.inputs, Gaussian):
        fail("Gaussian inputs (Problem.inputs=Gaussian())", problem.inputs, "The equations hold for these.")
    if not isinstance(problem.teacher, SingleIndex):
        fail("a teacher SingleIndex(prior)", problem.teacher, "For a committee teacher use OnlineSGD and OverlapODE.")
    if ratio and problem.sample_ratio is None:
        fail(
            "a fixed data set (Problem.sample_ratio = n/d)", "sample_ratio=None", "Set sample_ratio=2.0, for instance."
        )
    if loss is None:
        fail("Problem.loss", "none", "Add loss=LogisticLoss(), for instance.")
    if not isinstance(loss, AbstractConvexLoss):
        fail(
            "a convex loss",
            f"{loss!r}, which is not convex: it has many minima and replica symmetry breaks",
            "Use a convex loss, or a dynamical rule (GradientDescent, GAMP) for this one.",
        )
    elif (wrong := loss.reads(problem.channel)) is not None:
        fail(
            wrong.needed,
            wrong.came,
            "Use a channel such as Sign() or Logistic(), or a regression loss such as SquareLoss().",
        )
