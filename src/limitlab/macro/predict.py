"""predict: the road along the bottom of the square. limits: which limits a problem has, and why not the others."""

from typing import TYPE_CHECKING

from limitlab.errors import InputError, LimitUndefinedError
from limitlab.macro.bayes.bayes_optimal import BayesOptimal
from limitlab.macro.bayes.state_evolution import StateEvolution
from limitlab.macro.committees.high_dim_mean_field import HighDimMeanField
from limitlab.macro.dmft.dmft import DMFT
from limitlab.macro.erm.erm_asymptotics import ERMAsymptotics
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.mean_field import MeanField
from limitlab.macro.mixtures.radial_flow import RadialFlow
from limitlab.macro.overlaps.overlap_ode import OverlapODE
from limitlab.macro.overlaps.overlap_sde import OverlapSDE
from limitlab.macro.sparse.dimension_free import DimensionFree
from limitlab.macro.wide.matrix_flow import MatrixFlow
from limitlab.numerics.checks import check_times
from limitlab.problems.problem import Problem

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["LIMITS", "limits", "predict"]

LIMITS: dict[str, type[AbstractLimit]] = {
    "OverlapODE": OverlapODE,
    "OverlapSDE": OverlapSDE,
    "HighDimMeanField": HighDimMeanField,
    "DimensionFree": DimensionFree,
    "MeanField": MeanField,
    "RadialFlow": RadialFlow,
    "StateEvolution": StateEvolution,
    "BayesOptimal": BayesOptimal,
    "ERMAsymptotics": ERMAsymptotics,
    "DMFT": DMFT,
    "MatrixFlow": MatrixFlow,
}


def predict(problem: Problem, limit: AbstractLimit, times=None) -> "xr.Dataset":
    """The macrostate of the problem in a limit, at the asked times.

    Parameters
    ----------
    problem
        What is learned, and how.
    limit
        For instance ``OverlapODE()``. A limit that is not defined for the problem raises `LimitUndefinedError`.
    times
        Increasing macroscopic times, the same as for `simulate`; left out for limits without a time axis (fixed points
        and iterations of message passing).

    Returns
    -------
    xarray.Dataset
        The same schema as that of `simulate`.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"predict needs a Problem; got {problem!r}.")
    if not isinstance(limit, AbstractLimit):
        hint = f"{limit.__name__}()" if isinstance(limit, type) else "OverlapODE()"
        raise InputError(f"predict needs a limit such as {hint}; got {limit!r}. Known limits: {', '.join(LIMITS)}.")
    setting, name = limit.parsed(problem), type(limit).__name__
    if not limit.in_time:
        if times is not None:
            raise InputError(f"{name} has no time axis; got times={times!r}. Leave times out.")
        return limit.solve(setting, None)
    if times is None:
        raise InputError(f"{name} needs the times at which to report. Add times=numpy.linspace(0, 10, 51), say.")
    return limit.solve(setting, check_times(times))


def limits(problem: Problem) -> dict[str, str]:
    """For every limit its name and either "applies" or the reason why it does not, with what to try instead."""
    if not isinstance(problem, Problem):
        raise InputError(f"limits needs a Problem; got {problem!r}.")
    answer = {}
    for name, limit in LIMITS.items():
        try:
            limit().check(problem)
            answer[name] = "applies"
        except LimitUndefinedError as reason:
            answer[name] = str(reason)
    return answer
