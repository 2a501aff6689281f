"""simulate: the road along the top of the square."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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

__all__ = ["joined", "portion", "simulate"]

PER_REPLICA = ("change", "converged")  # attributes with a number for every run


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
    return _simulated(problem, d, times, replicas, seed, representation)


@verb
def portion(
    problem: Problem, d: int, times=None, replicas: int = 1, seed: int = 0, first: int = 0, progress: Watch = None
) -> "xr.Dataset":
    """The runs ``first``, ``first + 1``, ... of those that `simulate` would make: the same numbers, a part of them.

    For rules that know it (``in_portions``); `joined` puts the parts together.
    """
    relieve()
    return _simulated(problem, d, times, replicas, seed, "weights", first)


def joined(parts: "Sequence[xr.Dataset]") -> "xr.Dataset":
    """Portions as one result, in their order: what differs from part to part is by replica."""
    import xarray as xr

    number = ("replica", np.arange(sum(part.sizes["replica"] for part in parts)), parts[0].replica.attrs)
    parts = [part.drop_vars("replica", errors="ignore") for part in parts]
    names = [name for name in parts[0].data_vars if all(name in part for part in parts)]
    made = {name: _along([part[name] for part in parts], [part.sizes["replica"] for part in parts]) for name in names}
    attrs = dict(parts[0].attrs)
    for name in [name for name in PER_REPLICA if name in attrs]:
        attrs[name] = np.concatenate([np.atleast_1d(part.attrs[name]) for part in parts])
    return xr.Dataset(made, {**parts[0].coords, "replica": number}, attrs)


def _along(parts: "list[xr.DataArray]", counts: list[int]) -> "xr.DataArray":
    import xarray as xr

    there = ["replica" in part.dims for part in parts]
    if not any(there) and all(_same(part.values, parts[0].values) for part in parts):
        return parts[0]
    whole = [x if on else x.expand_dims(replica=n) for x, n, on in zip(parts, counts, there, strict=True)]
    return xr.concat(whole, "replica").transpose(*whole[0].dims).assign_attrs(parts[0].attrs)


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    if one.dtype.kind != "f":
        return np.array_equal(one, two)
    return np.allclose(one, two, rtol=0, atol=1e-9, equal_nan=True)


def _simulated(
    problem: Problem, d: int, times: Any, replicas: int, seed: int, representation: str, first: int = 0
) -> "xr.Dataset":
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
        asked = Request(d, None, None, replicas, seed, representation, told(), first=first)
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
        asked = Request(d, times, whole_steps(times, clock), replicas, seed, representation, told(), clock, first)
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
