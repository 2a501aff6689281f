"""predict: the road along the bottom of the square. limits: which limits a problem has, and why not the others."""

from typing import TYPE_CHECKING, Any

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
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.text import did_you_mean
from limitlab.verbs import Watch, tell, verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["LIMITS", "limit_of", "limits", "predict"]

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


@verb
def predict(
    problem: Problem, limit: AbstractLimit | str | None = None, times=None, progress: Watch = None
) -> "xr.Dataset":
    """The macrostate of the problem in a limit, at the asked times.

    Parameters
    ----------
    problem
        What is learned, and how.
    limit
        For instance ``OverlapODE()``, or its name if nothing is to be set; left out, the one that describes the
        problem's own rule. A limit that is not defined for the problem raises `LimitUndefinedError`.
    times
        Increasing macroscopic times, the same as for `simulate`; left out for limits without a time axis (fixed points
        and iterations of message passing).
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.

    Returns
    -------
    xarray.Dataset
        The same schema as that of `simulate`.
    """
    problem = Asked("predict", InputError).part(problem, Problem, "a Problem", "Describe one by Problem(...).")
    chosen = limit_of(problem, limit)
    setting, name = chosen.parsed(problem), type(chosen).__name__
    if chosen.in_time:
        if times is None:
            raise InputError(f"{name} needs the times at which to report. Add times=numpy.linspace(0, 10, 51), say.")
        times = check_times(times)
    elif times is not None:
        raise InputError(f"{name} has no time axis; got times={times!r}. Leave times out.")
    tell(0, 1, f"predict ({name})")
    return chosen.solve(setting, times)


def limit_of(problem: Problem, limit: Any) -> AbstractLimit:
    """A limit itself, by its name, or the usual one of the problem's rule."""
    if limit is None:
        usual = None if problem.algorithm is None else problem.algorithm.usual_limit(problem)
        if usual is None:
            rule = "a problem without a rule" if problem.algorithm is None else type(problem.algorithm).__name__
            raise InputError(f"predict knows no usual limit of {rule}. Name one: {', '.join(LIMITS)}.")
        limit = usual
    if isinstance(limit, str):
        if limit not in LIMITS:
            raise InputError(
                f"predict.limit must be one of {', '.join(LIMITS)}; got {limit!r}.{did_you_mean(limit, LIMITS)}"
            )
        return LIMITS[limit]()
    if not isinstance(limit, AbstractLimit):
        hint = f"{limit.__name__}()" if isinstance(limit, type) else "OverlapODE()"
        raise InputError(f"predict needs a limit such as {hint}; got {limit!r}. Known limits: {', '.join(LIMITS)}.")
    return limit


@verb
def limits(problem: Problem) -> dict[str, str]:
    """For every limit its name and either "applies" or the reason why it does not, with what to try instead."""
    problem = Asked("limits", InputError).part(problem, Problem, "a Problem", "Describe one by Problem(...).")
    answer = {}
    for name, limit in LIMITS.items():
        try:
            limit().check(problem)
            answer[name] = "applies"
        except LimitUndefinedError as reason:
            answer[name] = str(reason)
    return answer
