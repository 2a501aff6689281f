r"""Over-parametrised phase retrieval: what it asks of a problem, its loss and its clock.

.. math:: f(x) = \frac1m \sum_{i \le m} (w_i \cdot x)^2 = x^T A x, \qquad
          L = \kappa \sum_\mu r_\mu^2, \quad r_\mu = (x_\mu \cdot w^*)^2 - f(x_\mu)

A student of squares estimates the squared label: its output stands where a single unit has its output squared.
"""

from limitlab.algorithms.descent.gradient_descent import GradientDescent
from limitlab.errors import LimitUndefinedError
from limitlab.problems.channels import Modulus, SquaredModulus
from limitlab.problems.inputs import Gaussian
from limitlab.problems.losses import PhaseRetrievalLoss, SquareLoss
from limitlab.problems.networks import Committee, SingleIndex
from limitlab.problems.problem import Problem
from limitlab.problems.starts import RandomStart

__all__ = ["check_phase_data", "check_wide", "is_wide", "loss_prefactor", "wide_clock"]


def is_wide(problem: Problem) -> bool:
    """True if the student is a committee of squares."""
    return isinstance(problem.student, Committee) and problem.student.activation.name == "square"


def loss_prefactor(problem: Problem) -> float:
    """kappa of kappa r^2: that of `PhaseRetrievalLoss`, or 1/2 for the square loss on squared labels."""
    return float(problem.loss.prefactor) if isinstance(problem.loss, PhaseRetrievalLoss) else 0.5


def wide_clock(problem: Problem) -> float:
    """Macroscopic time per step: learning_rate/width, which is the clock of descent for a single unit."""
    student, rule = problem.need("student", "algorithm", by="The clock of a wide student")
    return float(rule.learning_rate) / student.width


def check_phase_data(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the data are noiseless phase retrieval: one direction, Gaussian inputs, n = alpha d samples."""

    def fail(needed: str, came: object, remedy: str) -> None:
        raise error(f"{by} needs {needed}; got {came}. {remedy}")

    if not isinstance(problem.inputs, Gaussian):
        fail("Gaussian inputs (Problem.inputs=Gaussian())", problem.inputs, "Set inputs=Gaussian().")
    if not isinstance(problem.teacher, SingleIndex):
        fail("one direction to be found", problem.teacher, "Use teacher=SingleIndex(prior=GaussianPrior()).")
    if not isinstance(problem.channel, (Modulus, SquaredModulus)) or float(problem.channel.variance) > 0:
        fail(
            "noiseless labels without a sign",
            problem.channel,
            "Use channel=Modulus() with PhaseRetrievalLoss(), or SquaredModulus() with SquareLoss().",
        )
    if problem.sample_ratio is None:
        fail("a fixed data set (Problem.sample_ratio = n/d)", "sample_ratio=None", "Set sample_ratio=3.0, say.")


def check_wide(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is gradient descent of a committee of squares on phase-retrieval data."""

    def fail(needed: str, came: object, remedy: str) -> None:
        raise error(f"{by} needs {needed}; got {came}. {remedy}")

    check_phase_data(by, problem, error)
    student, start, rule = problem.student, problem.start, problem.algorithm
    if student is None or not is_wide(problem):
        fail('a committee of squares (Committee(width=m, activation="square"))', student, "Set Problem.student to it.")
    assert student is not None
    if student.second_layer != "fixed" or student.bias != "none" or student.output_weights is not None:
        fail(
            'a second layer of ones (second_layer="fixed", no bias, no output_weights)', student, "Leave these fields."
        )
    if not _fits(problem):
        fail(
            'PhaseRetrievalLoss() with channel=Modulus(), or SquareLoss() (or PhaseRetrievalLoss(labels="intensity")) '
            "with channel=SquaredModulus()",
            f"{problem.loss} with {problem.channel}",
            "The student's output, a mean of squares, must be compared with the squared label.",
        )
    if not isinstance(start, RandomStart) or start.second_layer != "ones" or start.P is not None:
        fail("a random start (Problem.start=RandomStart() with a second layer of ones, no P)", start, "Use this one.")
    if not isinstance(rule, GradientDescent):
        fail("Problem.algorithm=GradientDescent(learning_rate=..., spherical=False)", rule, "Set it.")
    assert isinstance(rule, GradientDescent)
    if rule.spherical or float(rule.penalty) > 0:
        fail(
            "free weights (GradientDescent(..., spherical=False, penalty=0))",
            rule,
            "The norms of the units must move: the trace of A is learned.",
        )


def _fits(problem: Problem) -> bool:
    loss, squared = problem.loss, isinstance(problem.channel, SquaredModulus)
    if isinstance(loss, PhaseRetrievalLoss):
        return (loss.labels == "intensity") == squared
    return isinstance(loss, SquareLoss) and squared
