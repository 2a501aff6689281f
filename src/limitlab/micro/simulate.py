"""simulate: the road along the top of the square."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from limitlab.algorithms.descent.gradient_descent import GradientDescent
from limitlab.algorithms.descent.langevin import Langevin
from limitlab.algorithms.descent.persistent_sgd import PersistentSGD
from limitlab.algorithms.descent.stochastic_gd import StochasticGD
from limitlab.algorithms.erm import ERM
from limitlab.algorithms.gamp.gamp import GAMP
from limitlab.algorithms.one_pass.layerwise_sgd import LayerwiseSGD
from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.algorithms.wide_requirements import is_wide
from limitlab.errors import InputError
from limitlab.micro.descent import run_descent
from limitlab.micro.erm import run_erm
from limitlab.micro.gamp import run_gamp
from limitlab.micro.hypercube_sgd import run_hypercube_sgd
from limitlab.micro.mixture_sgd import run_mixture_sgd
from limitlab.micro.online_sgd import run_online_sgd
from limitlab.micro.wide_descent import run_wide_descent
from limitlab.numerics.checks import check_integer, check_times
from limitlab.numerics.progress import Progress
from limitlab.problems.base import AbstractAlgorithm
from limitlab.problems.inputs import AbstractLabelledInputs
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.target import SparseTarget

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["simulate"]


def _one_pass(problem: Problem, *arguments) -> "xr.Dataset":
    if isinstance(problem.inputs, AbstractLabelledInputs):
        return run_mixture_sgd(problem, *arguments)
    return (run_hypercube_sgd if isinstance(problem.teacher, SparseTarget) else run_online_sgd)(problem, *arguments)


def _gradient_descent(problem: Problem, *arguments) -> "xr.Dataset":
    return (run_wide_descent if is_wide(problem) else run_descent)(problem, *arguments)


# Rules on the macroscopic clock, and rules on a fixed data set that have no clock of their own.
RULES: dict[type[AbstractAlgorithm], Callable] = {
    OnlineSGD: _one_pass,
    LayerwiseSGD: run_hypercube_sgd,
    GradientDescent: _gradient_descent,
    **dict.fromkeys((StochasticGD, PersistentSGD, Langevin), run_descent),
}
STATIC_RULES: dict[type[AbstractAlgorithm], Callable] = {GAMP: run_gamp, ERM: run_erm}


def simulate(
    problem: Problem,
    d: int,
    times=None,
    replicas: int = 1,
    seed: int = 0,
    representation: str = "weights",
    progress: Progress | None = None,
) -> "xr.Dataset":
    r"""Run the problem's learning rule at dimension d and report its macrostate at the asked times.

    Parameters
    ----------
    problem
        What is learned, and how.
    d
        Input dimension.
    times
        Increasing macroscopic times; each is visited at the nearest whole step, t = clock * step. Left out for rules
        without a clock (`GAMP`, `ERM`).
    replicas
        Independent runs: each has its own start, inputs and labels. Same seed, same numbers, whatever the number of
        replicas or times.
    seed
        A whole number.
    representation
        "weights": real weights in d dimensions, O(d) per step. "overlaps": the overlaps themselves as a Markov chain
        that is exact in law for Gaussian inputs, at a cost per step that does not depend on d. Sparse targets live on
        signs and have weights only.
    progress
        Called as progress(done, total, label); None is silent.

    Returns
    -------
    xarray.Dataset
        Of one-pass SGD: ``risk``, ``Q``, ``M``, ``P``, ``a`` by time and replica, with ``step``, ``samples`` and
        ``status``; of a sparse target ``fourier`` and the two parts of the risk (``latent_risk``, ``residual_risk``)
        instead of overlaps; of labelled inputs such as mixtures the norms ``r`` and the ``polarisation`` of units. Of a
        rule on a fixed data set: ``m``, ``q``, ``generalisation_error``, ... by replica and iteration. Of descent of a
        direction: ``m``, ``q``, ``C``, ``train_loss``, ``risk``, ``success``, ``success_time``; of a committee of
        squares: ``risk``, ``train_loss``, ``error``, ``success``.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"simulate needs a Problem; got {problem!r}.")
    d = check_integer("simulate", "d", _whole(d), low=1, high=2**53, remedy="It is the input dimension.")
    replicas = check_integer("simulate", "replicas", replicas, low=1, remedy="Ask for at least one run.")
    seed = check_integer("simulate", "seed", seed, low=0, remedy="Seeds are whole numbers.")
    (algorithm,) = problem.need("algorithm", by="simulate")
    name = type(algorithm).__name__
    if type(algorithm) in STATIC_RULES:
        if times is not None:
            raise InputError(f"simulate with {name} has no clock; got times={times!r}. Leave times out.")
        return STATIC_RULES[type(algorithm)](problem, d, replicas, seed, progress)
    if type(algorithm) not in RULES:
        known = ", ".join(rule.__name__ for rule in (*RULES, *STATIC_RULES))
        raise InputError(f"simulate knows how to run {known}; got {algorithm!r}. Choose one of these rules.")
    if times is None:
        raise InputError(
            f"simulate with {name} needs the times at which to report. Add times=numpy.linspace(0, 10, 51)."
        )
    times = check_times(times)
    return RULES[type(algorithm)](problem, d, times, replicas, seed, representation, progress)


def _whole(d):
    """Accept 1e6 for 1000000."""
    return int(d) if isinstance(d, (float, np.floating)) and float(d).is_integer() else d
