"""What the simulators of one-pass SGD and of linear models ask of a problem. Limits have settings instead."""

from limitlab.algorithms.settings.one_pass import CommitteeOnePass, LabelledOnePass, SparseOnePass
from limitlab.errors import LimitUndefinedError
from limitlab.problems.asked import Asked
from limitlab.problems.inputs import Gaussian
from limitlab.problems.networks import SingleIndex
from limitlab.problems.problem import Problem

__all__ = ["check_labelled", "check_one_pass_committee", "check_single_index", "check_sparse_target"]


def check_one_pass_committee(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is one-pass SGD of a committee on Gaussian inputs with the square loss."""
    CommitteeOnePass.of(problem, Asked(by, error))


def check_labelled(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is one-pass SGD of a two-layer network on inputs that bring their labels."""
    LabelledOnePass.of(problem, Asked(by, error))


def check_sparse_target(by: str, problem: Problem, error: type[Exception] = LimitUndefinedError) -> None:
    """Raise unless the problem is one-pass SGD of a two-layer network on a sparse target of the hypercube."""
    SparseOnePass.of(problem, Asked(by, error))


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
