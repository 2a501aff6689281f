"""What a rule or a limit asks of a problem, said in one place."""

import numpy as np

from limitlab.errors import LimitUndefinedError
from limitlab.problems.algorithm import LayerwiseSGD, OnlineSGD
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.inputs import Gaussian, Hypercube
from limitlab.problems.losses import SquareLoss
from limitlab.problems.networks import Committee, SingleIndex
from limitlab.problems.problem import Problem
from limitlab.problems.starts import OverlapStart, RandomStart
from limitlab.problems.targets import SparseTarget

__all__ = ["check_one_pass_committee", "check_single_index", "check_sparse_target"]


def check_one_pass_committee(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is one-pass SGD of a committee on Gaussian inputs with the square loss."""

    def fail(needed: str, came: object, remedy: str) -> None:
        raise error(f"{by} needs {needed}; got {came}. {remedy}")

    if not isinstance(problem.inputs, Gaussian):
        fail(
            "Gaussian inputs (Problem.inputs=Gaussian())", problem.inputs, "The fields of other inputs are not normal."
        )
    if not isinstance(problem.teacher, Committee):
        fail("a Committee teacher", problem.teacher, "Describe a single direction as Committee(width=1, ...).")
    if not isinstance(problem.channel, GaussianNoise):
        fail(
            "additive label noise (Problem.channel=GaussianNoise(variance=...))",
            problem.channel,
            'A sign or modulus on the output is a teacher activation here ("sign", "abs", "square").',
        )
    if problem.sample_ratio is not None:
        fail(
            "a fresh sample at every step (Problem.sample_ratio=None)",
            f"sample_ratio={problem.sample_ratio}",
            "For a fixed data set use a rule and a limit at fixed n/d instead.",
        )
    for field, example in (("student", "Committee(width=..., activation=...)"), ("start", "RandomStart()")):
        if getattr(problem, field) is None:
            fail(f"Problem.{field}", "none", f"Add {field}={example}.")
    if not isinstance(problem.loss, SquareLoss):
        fail("the square loss (Problem.loss=SquareLoss())", problem.loss, "Set loss=SquareLoss().")
    if not isinstance(problem.algorithm, OnlineSGD):
        fail(
            "Problem.algorithm=OnlineSGD(...)", problem.algorithm, "Other rules have other limits; see limits(problem)."
        )
    assert problem.student is not None and isinstance(problem.algorithm, OnlineSGD)
    if problem.algorithm.weight_decay:
        fail(
            "OnlineSGD without weight decay on Gaussian inputs",
            f"weight_decay={problem.algorithm.weight_decay}",
            "Use weight_decay=0; weight decay is known for sparse targets on the hypercube.",
        )
    start = problem.start
    if problem.algorithm.spherical and isinstance(start, OverlapStart) and np.any(np.diag(start.Q) <= 0):
        fail(
            "student units of non-zero norm for a spherical rule (OverlapStart.Q_ii > 0)",
            f"Q_ii = {np.diag(start.Q).tolist()}",
            "Give every unit a direction, or use spherical=False.",
        )
    if problem.student.activation.flat:
        fail(
            "a student activation with a gradient",
            f"{problem.student.activation!r}, whose derivative is zero almost everywhere",
            'Use "erf" or "tanh" for the student; "sign" is for teachers.',
        )


def check_single_index(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is a generalised linear model: one direction, n = alpha d samples."""
    if not isinstance(problem.inputs, Gaussian):
        raise error(
            f"{by} needs Gaussian inputs (Problem.inputs=Gaussian()); got {type(problem.inputs).__name__}. The "
            "fields of other inputs are not normal in general."
        )
    if not isinstance(problem.teacher, SingleIndex):
        raise error(
            f"{by} needs a single direction with a prior; got a {type(problem.teacher).__name__}. Use "
            "teacher=SingleIndex(prior=GaussianPrior()) and a channel such as Sign()."
        )
    if problem.sample_ratio is None:
        raise error(
            f"{by} needs a fixed data set (Problem.sample_ratio = n/d); got none. Add sample_ratio=2.0, say; a fresh "
            "sample at every step belongs to OverlapODE."
        )


def check_sparse_target(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is one-pass SGD of a two-layer network on a sparse target of the hypercube."""

    def fail(needed: str, came: object, remedy: str) -> None:
        raise error(f"{by} needs {needed}; got {came}. {remedy}")

    if not isinstance(problem.teacher, SparseTarget):
        fail("a sparse target", type(problem.teacher).__name__, 'Use teacher=SparseTarget("z1 + z1*z2").')
    if not isinstance(problem.inputs, Hypercube):
        fail("inputs on the hypercube (Problem.inputs=Hypercube())", problem.inputs, "The z_i are signs.")
    if not isinstance(problem.channel, GaussianNoise):
        fail("additive label noise (GaussianNoise(variance=...))", problem.channel, "Leave the channel out for none.")
    if problem.sample_ratio is not None:
        fail("a fresh sample at every step", f"sample_ratio={problem.sample_ratio}", "Leave sample_ratio out.")
    if problem.student is None:
        fail("Problem.student", "none", 'Add student=Committee(width=100, activation="shifted(tanh, 0.5)").')
    if not isinstance(problem.loss, SquareLoss):
        fail("the square loss (Problem.loss=SquareLoss())", problem.loss, "Set loss=SquareLoss().")
    if not isinstance(problem.start, RandomStart) or problem.start.P is not None:
        fail(
            "a random start (Problem.start=RandomStart(...) without P)",
            problem.start,
            'Use start=RandomStart(second_layer="uniform").',
        )
    rule = problem.algorithm
    if not isinstance(rule, (OnlineSGD, LayerwiseSGD)) or getattr(rule, "spherical", False):
        fail("OnlineSGD(spherical=False) or LayerwiseSGD", rule, "Other rules have other limits; see limits(problem).")
    assert problem.student is not None
    if problem.student.activation.flat:
        fail(
            "a student activation with a gradient",
            f"{problem.student.activation!r}, whose derivative is zero almost everywhere",
            'Use "shifted(tanh, 0.5)".',
        )
