"""simulate: the road along the top of the square."""

from typing import TYPE_CHECKING

import numpy as np

from limitlab.errors import InputError
from limitlab.micro.online_family import WORTH, asked_key, asked_many
from limitlab.numerics.checks import check_integer, check_number, check_seed, check_times, whole_steps
from limitlab.numerics.machine import check_memory, relieve
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.points import in_families
from limitlab.results.schema import dataset
from limitlab.states.request import Request, Seen
from limitlab.verbs import Watch, told, verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["simulate"]


@in_families(WORTH, asked_key, asked_many)
@verb
def simulate(
    problem: Problem,
    d: int,
    times=None,
    replicas: int = 1,
    seed: int = 0,
    representation: str = "weights",
    progress: Watch = None,
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
        A whole number from 0 to 2^63 - 1.
    representation
        "weights": real weights in d dimensions, O(d) per step. "overlaps": the overlaps themselves as a Markov chain
        that is exact in law for Gaussian inputs, at a cost per step that does not depend on d.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.

    Returns
    -------
    xarray.Dataset
        Of one-pass rules ``risk`` by time and replica, with ``step``, ``samples`` and ``status``. Where the teacher has
        directions, the overlaps ``Q``, ``M``, ``P`` and the second layer ``a``; of a sparse target ``fourier`` and the
        two parts of the risk (``latent_risk``, ``residual_risk``) instead; of labelled inputs such as mixtures norms
        ``r`` and the ``polarisation`` of units. A risk that no formula gives is measured on new samples: then
        ``risk_error`` is its standard error, and the attribute ``risk_from`` says how. Of a rule on a fixed data set:
        ``m``, ``q``, ``generalisation_error``, ... by replica and iteration. Of descent: ``train_loss``, ``risk``,
        overlaps, and ``success`` where it is defined.
    """
    relieve()
    if not isinstance(problem, Problem):
        raise InputError(f"simulate needs a Problem; got {problem!r}.")
    d = check_integer("simulate", "d", _whole(d), low=1, high=2**53, remedy="It is the input dimension.")
    replicas = check_integer("simulate", "replicas", replicas, low=1, remedy="Ask for at least one run.")
    seed = check_seed("simulate", seed)
    (rule,) = problem.need("algorithm", by="simulate")
    by = f"simulate with {type(rule).__name__}"
    if rule.axis != "time":
        if times is not None:
            raise InputError(f"{by} has no clock; got times={times!r}. Leave times out.")
        setting = rule.setting(problem, Asked(by, InputError))
        asked = Request(d, None, None, replicas, seed, representation, told())
    else:
        if times is None:
            raise InputError(f"{by} needs the times at which to report. Add times=numpy.linspace(0, 10, 51).")
        times = check_times(times)
        setting = rule.setting(problem, Asked(by, InputError))
        clock = check_number(
            type(rule).__name__,
            "clock",
            float(rule.clock(problem, d)),
            low=0,
            remedy="It is the time per step.",
        )
        asked = Request(d, times, whole_steps(times, clock), replicas, seed, representation, told(), clock)
    check_memory(rule.memory(setting, asked), by)
    seen = Asked(f"{by}: `run`", InputError).part(
        rule.run(setting, asked), Seen, "to return limitlab.extending.Seen", "Fill one with what was seen."
    )
    return dataset(
        problem,
        seen.variables,
        seen.coords,
        method=seen.method,
        reference=seen.reference,
        attrs=seen.attrs,
        declared=seen.declared,
    )


def _whole(d):
    """Accept 1e6 for 1000000."""
    return int(d) if isinstance(d, (float, np.floating)) and float(d).is_integer() else d
