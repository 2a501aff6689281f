"""Exit times measured on trajectories, whatever made them."""

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.analysis.exits.result import ExitTime
from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.verbs import verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["measured_exit_time"]


@verb
def measured_exit_time(dataset: "xr.Dataset", threshold: float) -> ExitTime:
    """Exit time from the ``risk`` of a simulation or a prediction, run by run.

    The first crossing is located by linear interpolation between saved times; time 0 must be among them. Runs
    that do not reach the threshold are counted, not averaged: see ``fraction_reached``.
    """
    T = check_number(
        "measured_exit_time",
        "threshold",
        threshold,
        low=0,
        high=1,
        open_low=True,
        open_high=True,
        remedy="Use e.g. 0.2.",
    )
    times, risk = _risk_table(dataset)
    floor, samples_per_time = _floor_and_clock(dataset)
    excess = risk - floor
    if not np.all(excess[0] > 0):
        raise InputError(
            f"measured_exit_time needs a start above the noise floor {floor:g}; got R(0) = "
            f"{np.min(risk[0]):g}. There is nothing to leave."
        )
    share = excess / excess[0]
    first, gaps = np.full(share.shape[1], np.inf), []
    for r in range(share.shape[1]):
        below = np.nonzero(share[:, r] <= 1 - T)[0]  # NaN after a divergence is not below
        if len(below):
            i = below[0]
            w = (share[i - 1, r] - (1 - T)) / (share[i - 1, r] - share[i, r])
            first[r] = times[i - 1] + w * (times[i] - times[i - 1])
            gaps.append(times[i] - times[i - 1])
    reached = first[np.isfinite(first)]
    fraction = len(reached) / len(first)
    note = ""
    if fraction < 1:
        note = (
            f"Not reached by t = {times[-1]:g} in {len(first) - len(reached)} of {len(first)} runs (lowest "
            f"share of the excess risk left: {np.nanmin(share):.3g}, threshold {1 - T:.3g})."
        )
        note += " The time is the mean of the others, a lower estimate." if len(reached) else ""
    if gaps:
        note += f" Saved times are {np.median(gaps):.2g} apart at the crossing."
    mean = float(reached.mean()) if len(reached) else math.inf
    stderr = (
        float(reached.std(ddof=1) / math.sqrt(len(reached)))
        if len(reached) > 1
        else (math.nan if len(reached) else 0.0)
    )
    if "replica" not in dataset["risk"].dims:
        stderr = 0.0
    method = f"measured on {dataset.attrs.get('method', 'a trajectory')}"
    return ExitTime(mean, mean * samples_per_time, stderr, fraction, T, method, note.strip())


def _risk_table(dataset: "xr.Dataset") -> tuple[np.ndarray, np.ndarray]:
    """Times, and risks with axes (time, run)."""
    if "risk" not in dataset or "time" not in dataset["risk"].dims:
        raise InputError(
            "measured_exit_time needs a Dataset with risk(time[, replica]); make one with simulate or predict."
        )
    risk = dataset["risk"]
    more = [dim for dim in risk.dims if dim not in ("time", "replica")]
    if more:
        raise InputError(
            f"measured_exit_time needs risk(time[, replica]); got the dimensions {risk.dims}. Select one {more[0]}."
        )
    if "replica" not in risk.dims:
        risk = risk.expand_dims(replica=1)
    times = np.asarray(dataset["time"].values, float)
    if times[0] != 0:
        raise InputError(
            f"measured_exit_time needs the risk at time 0; the first saved time is {times[0]:g}. Save time 0 too."
        )
    return times, np.asarray(risk.transpose("time", "replica").values, float)


def _floor_and_clock(dataset: "xr.Dataset") -> tuple[float, float]:
    """Delta/2, and samples per unit of time (NaN if the Dataset has no dimension d)."""
    try:
        table: dict[str, Any] = json.loads(dataset.attrs["problem"])
        variance = float(table["channel"]["variance"])
        width, rule = table["student"]["width"], table["algorithm"]
        rate, batch = float(rule["learning_rate"]), int(rule["batch_size"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            "measured_exit_time needs a Dataset of one-pass SGD with additive label noise, with its problem "
            f"in the attributes; this one does not say its {error}. Make it with simulate or predict."
        ) from error
    d = float(dataset.attrs["d"]) if "d" in dataset.attrs else math.nan
    return variance / 2, width * d * batch / rate
