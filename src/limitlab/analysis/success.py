"""How often descent finds the teacher, how long it takes, and what became of the runs that did not."""

from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError
from limitlab.micro.many_descents import Ends, many_descents
from limitlab.numerics.checks import check_integer, check_number, check_seed
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.states.success import Criterion
from limitlab.verbs import verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["success_rate", "wilson"]

FITTED = 1e-3  # of the loss at the start: a failure below it fits its data
FALLING = 0.9  # of the error at half of the time: a failure below it is still on its way


@verb
def success_rate(
    data: "xr.Dataset | Problem",
    threshold: float | None = None,
    confidence: float = 0.95,
    *,
    d: int | None = None,
    sample_ratios: Any = None,
    t_max: float | None = None,
    runs: int = 40,
    seed: int = 0,
    every: int = 50,
) -> "xr.Dataset":
    r"""The share of runs that found the teacher, with Wilson's interval, and how the others ended.

    .. math:: \frac{\hat p + z^2/2n \pm z\sqrt{\hat p(1 - \hat p)/n + z^2/4n^2}}{1 + z^2/n}

    A share means nothing without the time that runs were given: ``t_max`` stands beside it. A failure is "unfinished"
    if its error fell by a tenth since t_max/2: more time may help. Else it is "stuck" if its training loss is above
    0.001 of that at the start, and "wrong" if not: it fits its data, by something else than the teacher.

    Parameters
    ----------
    data
        A result of `simulate` with a rule on a fixed data set, or a sweep of such results: one share for each point. Or
        a `Problem`: its runs at all ``sample_ratios`` are then done side by side, several times faster than one
        by one, with the numbers of `simulate` for full batches.
    threshold
        None: what the simulation counted, a cosine above 0.99 (up to a sign) at any step for one direction, an error
        below 0.01 at a look for committees. A number: a cosine above it at one of the asked times, from ``m`` and ``q``
        (the teacher having \|w*\|^2 = d).
    confidence
        Of the interval.
    d, sample_ratios, t_max, runs, seed, every
        Of a problem: the dimension, the values of alpha = n/d (default: the problem's own), the longest time, the
        number of runs at each, their seed, and after how many steps runs are looked at.

    Returns
    -------
    xarray.Dataset
        ``success_rate``, ``success_rate_low``, ``success_rate_high`` and ``runs``; diverged runs count as failures.
        ``median_time`` of the runs that succeeded, infinite if none did, and ``t_max``. ``stuck``, ``wrong``,
        ``unfinished`` and ``diverged``, the shares of runs that ended so, where loss and error are known.
    """
    check_number("success_rate", "confidence", confidence, low=0, high=1, open_low=True, open_high=True)
    if isinstance(data, Problem):
        if threshold is not None:
            raise InputError("success_rate has the threshold of its criterion for a Problem. Leave threshold out.")
        return _of_problem(data, confidence, d, sample_ratios, t_max, runs, seed, every)
    if d is not None or sample_ratios is not None or t_max is not None:
        raise InputError(
            "success_rate takes d, sample_ratios and t_max beside a Problem; got a result. Leave them out."
        )
    needed = ("success",) if threshold is None else ("m", "q")
    for name in needed:
        if name not in data or "replica" not in data[name].dims:
            raise InputError(
                f"success_rate needs the variable {name!r} over replicas; the result has "
                f"{', '.join(map(str, data.data_vars))}. Give a result of simulate with GradientDescent, say."
            )
    if threshold is None:
        found = data["success"] > 0
        when = data["success_time"] if "success_time" in data else None
    else:
        check_number("success_rate", "threshold", threshold, low=0, high=1, remedy="It is a cosine.")
        above = abs(data["m"]) / np.sqrt(data["q"]) > threshold
        found, when = above.any("time"), above["time"].where(above, np.inf).min("time")
    out = _rates(found, data.sizes["replica"], confidence)
    if "time" in data.coords and data.sizes.get("time", 0):
        out["t_max"] = float(data["time"][-1])
    if when is not None:
        median = when.where(found).median("replica")
        out["median_time"] = median.fillna(np.inf)
    kinds = _failures(data, found)
    if kinds is not None:
        out = out.assign({name: share.mean("replica") for name, share in kinds.items()})
    out.attrs = data.attrs
    return _told(out)


def _rates(found: "xr.DataArray", runs: int, confidence: float) -> "xr.Dataset":
    import xarray as xr

    share = found.mean("replica")
    low, high = wilson(share.values, runs, confidence)
    return xr.Dataset(
        {
            "success_rate": share,
            "success_rate_low": share.copy(data=low),
            "success_rate_high": share.copy(data=high),
            "runs": xr.full_like(share, runs, dtype=int),
        }
    )


def _told(out: "xr.Dataset") -> "xr.Dataset":
    for name in out.data_vars:
        out[name].attrs["long_name"] = Criterion.variables[str(name)].long_name
    return out


def _failures(data: "xr.Dataset", found: "xr.DataArray") -> "dict[str, xr.DataArray] | None":
    """Which failures are stuck, wrong, unfinished or diverged; None where the result does not say."""
    if "train_loss" not in data or "time" not in data["train_loss"].dims or data.sizes["time"] < 2:
        return None
    if "error" in data:
        error = data["error"]
    elif "m" in data and "q" in data:
        error = 1 - data["m"] ** 2 / data["q"]
    else:
        return None
    times = data["time"].values
    half = int(np.flatnonzero(2 * times <= times[-1] + times[0])[-1])
    lost = (data["status"] == "diverged") if "status" in data else found & False
    loss = data["train_loss"]
    return _kinds(found, lost, loss.isel(time=0), loss.isel(time=-1), error.isel(time=half), error.isel(time=-1))


def _kinds(found: Any, lost: Any, first: Any, loss: Any, half: Any, error: Any) -> dict[str, Any]:
    failed, still, fits = ~found & ~lost, error > FALLING * half, loss <= FITTED * first
    return {
        "stuck": failed & still & ~fits,
        "wrong": failed & still & fits,
        "unfinished": failed & ~still,
        "diverged": ~found & lost,
    }


def _of_problem(problem: Problem, confidence: float, d, ratios, t_max, runs, seed, every) -> "xr.Dataset":
    (rule,) = problem.need("algorithm", by="success_rate")
    if d is None or t_max is None:
        raise InputError("success_rate of a Problem needs d and t_max: a share of successes depends on both. Add them.")
    d = check_integer("success_rate", "d", d, low=2, remedy="It is the input dimension.")
    runs = check_integer("success_rate", "runs", runs, low=1, remedy="Ask for at least one run.")
    every = check_integer("success_rate", "every", every, low=1, remedy="Look after 50 steps, say.")
    t_max = check_number("success_rate", "t_max", t_max, low=0, open_low=True, remedy="It is the longest time.")
    seed = check_seed("success_rate", seed)
    own = ratios is None
    if own and problem.sample_ratio is None:
        raise InputError("success_rate needs a fixed data set: Problem.sample_ratio, or sample_ratios=[2.0, 3.0].")
    alphas = np.atleast_1d(np.asarray(problem.sample_ratio if own else ratios, float))
    if alphas.ndim != 1 or alphas.size == 0 or not np.all(np.isfinite(alphas) & (alphas > 0)):
        raise InputError(f"success_rate.sample_ratios must be positive numbers n/d; got {ratios!r}.")
    clock = float(rule.clock(problem, d))
    steps = max(1, round(t_max / clock))
    ends, criterion = many_descents(problem, alphas, d, runs, seed, steps, every)
    found = ends.found >= 0
    share = found.mean(axis=1)
    low, high = wilson(share, runs, confidence)
    times = [np.median(row[row >= 0]) * clock if np.any(row >= 0) else np.inf for row in ends.found]
    columns = {
        "success_rate": share,
        "success_rate_low": low,
        "success_rate_high": high,
        "runs": np.full(len(alphas), runs),
        "median_time": np.array(times),
        **_of_ends(ends),
    }
    dims = () if own else ("sample_ratio",)
    return dataset(
        problem,
        {name: (dims, x[0] if own else x) for name, x in columns.items()} | {"t_max": ((), float(steps * clock))},
        {} if own else {"sample_ratio": alphas},
        method="success_rate",
        attrs={"d": d, "seed": seed, "every": every, "width": _width(problem), **criterion.attrs},
    )


def _width(problem: Problem) -> int:
    return 1 if problem.student is None else int(problem.student.units)


def _of_ends(ends: Ends) -> dict[str, np.ndarray]:
    found, lost = ends.found >= 0, ends.died >= 0
    kinds = _kinds(found, lost, ends.first, ends.loss, ends.half, ends.error)
    return {name: np.asarray(share).mean(axis=1) for name, share in kinds.items()}


def wilson(share: np.ndarray, runs: int, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of a share of ``runs``: it stays in [0, 1] and has a width at 0 and 1 too."""
    from scipy.special import ndtri

    z2 = ndtri((1 + confidence) / 2) ** 2
    centre = share + z2 / (2 * runs)
    half = np.sqrt(z2 * (share * (1 - share) / runs + z2 / (4 * runs**2)))
    return (centre - half) / (1 + z2 / runs), (centre + half) / (1 + z2 / runs)
