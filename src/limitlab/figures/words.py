"""Words for figures: what a result is called in a legend, a title, an axis; and the mean over runs."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["average", "describe", "short", "time_label", "title"]


def average(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Mean over the runs still finite and its standard error (NaN of one survivor, None of one run)."""
    finite = np.isfinite(runs)
    count = finite.sum(axis=0)
    mean = np.where(count > 0, np.where(finite, runs, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
    if len(runs) == 1:
        return mean, None
    variance = np.where(finite, (runs - mean) ** 2, 0.0).sum(axis=0) / np.maximum(count - 1, 1)
    return mean, np.where(count > 1, np.sqrt(variance / np.maximum(count, 1)), np.nan)


def short(value: Any) -> str:
    """A number with four digits; anything else as it is."""
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def describe(ds: "xr.Dataset", where: str = "") -> str:
    """A result in a few words for a legend: method, dimension, runs, where in a sweep, and how it ended."""
    words = [str(ds.attrs.get("method", "result"))]
    if "d" in ds.attrs:
        words.append(f"d = {ds.attrs['d']:g}")
    if "replica" in ds.dims:
        words.append(f"{ds.sizes['replica']} runs" if ds.sizes["replica"] > 1 else "1 run")
    if where:
        words.append(where)
    return ", ".join(words) + _ending(ds)


def title(datasets: "list[xr.Dataset]") -> str:
    """The problem in a line; nothing if the results are of several problems."""
    if len({ds.attrs.get("spec_hash") for ds in datasets}) > 1:
        return ""
    problem, words = _problem(datasets[0]), []
    for part, size in (("student", "p"), ("teacher", "k")):
        network = problem.get(part, {})
        if "width" in network:
            activation = network.get("activation", "")
            name = activation if isinstance(activation, str) else "custom"
            words.append(f"{name} {part}, {size} = {network['width']}")
    rule, noise = problem.get("algorithm", {}), problem.get("channel", {}).get("variance")
    if isinstance(rate := rule.get("learning_rate"), (int, float)):
        words.append(f"γ = {rate:.4g}" + (" on the sphere" if rule.get("spherical") else ""))
    if isinstance(noise, (int, float)) and noise:
        words.append(f"noise variance {noise:.4g}")
    return "; ".join(words)


def time_label(datasets: "list[xr.Dataset]", axis: str = "time") -> str:
    """The name of the time axis with its clock, if the results share one (those of old versions do not say it)."""
    clocks = {words if isinstance(words := ds.attrs.get("clock"), str) else None for ds in datasets}
    if axis != "time" or len(clocks) > 1 or None in clocks:
        return {"time": "time t"}.get(axis, axis)
    return f"time {clocks.pop()}"


def _ending(ds: "xr.Dataset") -> str:
    """How the runs ended, if not well: a mean over the survivors must not look like a mean over all."""
    status = np.atleast_1d(ds["status"].values) if "status" in ds else np.array(["ok"])
    bad = status != "ok"
    if not np.any(bad):
        return ""
    first = f" from t = {np.min(np.atleast_1d(ds['end_time'].values)[bad]):.3g}" if "end_time" in ds else ""
    count = f"{np.sum(bad)} of {status.size} " if status.size > 1 else ""
    return f" ({count}{'/'.join(sorted(set(status[bad].tolist())))}{first})"


def _problem(ds: "xr.Dataset") -> dict:
    return json.loads(ds.attrs.get("problem", "{}"))
