"""What linear models ask of a problem."""

from limitlab.errors import LimitUndefinedError
from limitlab.problems.inputs import Gaussian
from limitlab.problems.networks import SingleIndex
from limitlab.problems.problem import Problem

__all__ = ["check_single_index"]


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
