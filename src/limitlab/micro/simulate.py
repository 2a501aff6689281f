"""simulate: the road along the top of the square."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from limitlab.errors import InputError
from limitlab.micro.online_sgd import run_online_sgd
from limitlab.numerics.checks import check_integer, check_times
from limitlab.numerics.progress import Progress
from limitlab.problems.algorithm import AbstractAlgorithm, OnlineSGD
from limitlab.problems.problem import Problem

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["simulate"]

RULES: dict[type[AbstractAlgorithm], Callable] = {OnlineSGD: run_online_sgd}


def simulate(
    problem: Problem,
    d: int,
    times,
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
        Increasing macroscopic times; each is visited at the nearest whole step, t = clock * step.
    replicas
        Independent runs: each has its own start, inputs and labels. Same seed, same numbers, whatever the number of
        replicas or times.
    seed
        A whole number.
    representation
        "weights": real weights in d dimensions, O(d) per step. "overlaps": the overlaps themselves as a Markov chain
        that is exact in law for Gaussian inputs, at a cost per step that does not depend on d.
    progress
        Called as progress(done, total, label); None is silent.

    Returns
    -------
    xarray.Dataset
        ``risk``, ``Q``, ``M``, ``P``, ``a`` by time and replica, with ``step``, ``samples`` and ``status``.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"simulate needs a Problem; got {problem!r}.")
    times = check_times(times)
    d = check_integer("simulate", "d", _whole(d), low=1, remedy="It is the input dimension.")
    replicas = check_integer("simulate", "replicas", replicas, low=1, remedy="Ask for at least one run.")
    seed = check_integer("simulate", "seed", seed, low=0, remedy="Seeds are whole numbers.")
    (algorithm,) = problem.need("algorithm", by="simulate")
    if type(algorithm) not in RULES:
        known = ", ".join(rule.__name__ for rule in RULES)
        raise InputError(f"simulate knows how to run {known}; got {algorithm!r}. Choose one of these rules.")
    return RULES[type(algorithm)](problem, d, times, replicas, seed, representation, progress)


def _whole(d):
    """Accept 1e6 for 1000000."""
    return int(d) if isinstance(d, (float, np.floating)) and float(d).is_integer() else d
