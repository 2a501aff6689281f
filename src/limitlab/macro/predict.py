"""predict: the road along the bottom of the square. limits: which limits a problem has, and why not the others."""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
from limitlab.numerics.machine import check_memory, relieve
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.points import Point, in_families
from limitlab.text import did_you_mean, html_table, text_table
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

WORTH = 8  # predictions in a call: fewer are not worth one of their own, and would not fill a vector register


def _kin(problem: Problem, keywords: dict[str, Any]) -> Hashable | None:
    if not {"times"} <= set(keywords) <= {"limit", "times"}:
        return None
    limit = keywords.get("limit")
    if not isinstance(limit, AbstractLimit):
        try:
            limit = limit_of(problem, limit)
        except InputError:
            return None
    return type(limit).kin(limit, problem)  # of the class: to bind it costs more than to call it


def _many(
    problems: Sequence[Problem], seeds: Sequence[int], keywords: dict[str, Any]
) -> "list[Point] | list[xr.Dataset]":
    return limit_of(problems[0], keywords.get("limit")).many(problems, np.asarray(keywords["times"], float))


def _curve(problem: Problem, alphas: np.ndarray, keywords: dict[str, Any]) -> "xr.Dataset | None":
    if set(keywords) != {"limit"} or not isinstance(limit := keywords["limit"], AbstractLimit):
        return None
    limit.check(dataclasses.replace(problem, sample_ratio=float(alphas[0])))
    return limit.curve(problem, alphas) if np.all(np.isfinite(alphas) & (alphas > 0)) else None


@in_families(WORTH, _kin, _many, curve=_curve, threads=True)
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
    relieve()
    problem = Asked("predict", InputError).part(problem, Problem, "a Problem", "Describe one by Problem(...).")
    chosen = limit_of(problem, limit)
    setting, name = chosen.parsed(problem), type(chosen).__name__
    if chosen.in_time:
        if times is None:
            raise InputError(f"{name} needs the times at which to report. Add times=numpy.linspace(0, 10, 51), say.")
        times = check_times(times)
    elif times is not None:
        raise InputError(f"{name} has no time axis; got times={times!r}. Leave times out.")
    check_memory(chosen.memory(setting, times), by=name)
    tell(0, 1, f"predict ({name})")
    answer = chosen.solve(setting, times)
    if not hasattr(answer, "data_vars"):
        raise InputError(
            f"{name}.solve must return a Dataset of the schema, made by limitlab.extending.dataset; got {answer!r}."
        )
    return answer


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


class Answers(dict[str, str]):
    """For every limit "applies" or why not; a dict that prints as a table."""

    def __repr__(self) -> str:
        return text_table(self.items())

    def _repr_html_(self) -> str:
        return html_table("limits", self.items())


@verb
def limits(problem: Problem) -> Answers:
    """For every limit its name and either "applies" or the reason why it does not, with what to try instead."""
    problem = Asked("limits", InputError).part(problem, Problem, "a Problem", "Describe one by Problem(...).")
    answer = Answers()
    for name, limit in LIMITS.items():
        try:
            limit().check(problem)
            answer[name] = "applies"
        except LimitUndefinedError as reason:
            answer[name] = str(reason)
    return answer
