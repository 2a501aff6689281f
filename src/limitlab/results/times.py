"""The times at which two results can be compared."""

from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["at_shared_times", "in_order", "same_labels"]

ROUNDING = 1e-9  # relative to a time; and to the last one, a thousandth of it
CUBIC, CHECK = 4, 6  # points through which a prediction is interpolated, and through which that is checked
SURE = 0.1  # how far apart the two may be, in standard errors: thirty such times together are half a standard error


def in_order(ds: "xr.Dataset", axis: str, side: str) -> "xr.Dataset":
    """The result with increasing times; `InputError` if they are none, not numbers, or there twice."""
    times = ds["time"].values
    if axis == "":
        return ds
    if len(times) == 0:
        raise InputError(f"compare needs {axis}s in both results; the {side} has none.")
    if times.dtype.kind not in "fiu" or not np.all(np.isfinite(times)) or np.any(times < 0):
        wrong = times if times.dtype.kind not in "fiu" else times[~(np.isfinite(times) & (times >= 0))]
        raise InputError(
            f"compare needs {axis}s that are finite numbers >= 0; the {side} result has {wrong[0]}. Leave it out."
        )
    ordered = ds.isel(time=np.argsort(times)) if np.any(times[1:] < times[:-1]) else ds
    times = ordered["time"].values
    if np.any(again := times[1:] == times[:-1]):
        raise InputError(
            f"compare needs every {axis} once; the {side} result has {times[1:][again][0]:g} twice. "
            f"Keep one of them: ds.drop_duplicates({axis!r})."
        )
    return ordered


def at_shared_times(
    sim: "xr.Dataset", pred: "xr.Dataset", names: list[str], axis: str, notes: list[str]
) -> "tuple[xr.Dataset, xr.Dataset]":
    """Both results at the times that both have to rounding, or that a prediction can be interpolated to.

    Only a result without replicas is interpolated, against one with replicas, between its own times: by a cubic, where
    that is sure. It is checked by a polynomial of degree 5 (or less, if there are too few times).
    """
    a, b = sim["time"].values, pred["time"].values
    here, there = _matches(a, b)
    most, swap = max(len(a), len(b)), "replica" not in sim.dims
    many, one = (pred, sim) if swap else (sim, pred)
    if axis == "time" and "replica" in many.dims and "replica" not in one.dims:
        shared = (there, here) if swap else (here, there)
        many, one = _interpolated(many, one, shared, names, notes)
        sim, pred = (one, many) if swap else (many, one)
    else:
        sim, pred = sim.isel(time=here), pred.isel(time=there).assign_coords(time=a[here])
    if sim.sizes["time"] == 0:
        raise InputError(
            f"The results share no {axis}: the first has {len(a)} in [{a[0]:g}, {a[-1]:g}], the second "
            f"{len(b)} in [{b[0]:g}, {b[-1]:g}]. Ask both for the same {axis}s."
        )
    if sim.sizes["time"] < most:
        notes.append(f"only {sim.sizes['time']} of {most} {axis}s are shared")
    return sim, pred


def same_labels(a: Any, b: Any) -> bool:
    """Whether two axes have the same labels, numbers to rounding."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind != "f" or b.dtype.kind != "f":
        return np.array_equal(a, b)
    return bool(np.all(np.abs(a - b) <= _tolerance(a, b)))


def _tolerance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    size = np.maximum(np.abs(a), np.abs(b))
    return ROUNDING * np.maximum(size, 1e-3 * np.max(size, initial=0.0))


def _matches(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of equal times in both, to rounding."""
    a, b = a.astype(float), b.astype(float)
    if len(a) == 0 or len(b) == 0:
        return np.zeros(0, int), np.zeros(0, int)
    right = np.clip(np.searchsorted(b, a), 0, len(b) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(b[left] - a) < np.abs(b[right] - a), left, right)
    here = np.flatnonzero(np.abs(b[nearest] - a) <= _tolerance(a, b[nearest]))
    return here, nearest[here]


def _interpolated(
    many: "xr.Dataset", one: "xr.Dataset", shared: tuple[np.ndarray, np.ndarray], names: list[str], notes: list[str]
) -> "tuple[xr.Dataset, xr.Dataset]":
    t, grid = many["time"].values, one["time"].values
    keep, inside = np.zeros(len(t), bool), np.zeros(len(t), bool)
    keep[shared[0]] = True
    if len(grid) >= CUBIC - 1:
        inside = (t > grid[0]) & (t < grid[-1]) & ~keep
    sure, between = inside.copy(), _Polynomials(grid, t[inside])
    arrays = {}
    for name in names:
        array = one[name].transpose("time", ...)
        dims = [dim for dim in array.dims if dim != "time"]
        values = np.full((len(t), *array.shape[1:]), np.nan)
        values[shared[0]] = array.values[shared[1]]
        if np.any(inside):
            values[inside], doubt = between(array.values)
            runs = (
                many[name].transpose("replica", "time", *dims).values[:, inside]
                if "replica" in many[name].dims
                else None
            )
            error = np.zeros(1) if runs is None or len(runs) < 2 else np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
            allowed = np.maximum(SURE * error, ROUNDING * np.max(np.abs(np.nan_to_num(array.values)), initial=0.0))
            sure[inside] &= ~np.any((doubt > allowed).reshape(len(doubt), -1), axis=1)
        arrays[name] = (("time", *dims), values, array.attrs)
    if np.any(sure):
        notes.append(f"at {np.sum(sure)} of {len(t)} times the prediction was interpolated (cubic in time)")
    if np.any(inside & ~sure):
        notes.append(
            f"{np.sum(inside & ~sure)} times were left out: the prediction's own are too far apart to interpolate it "
            "surely"
        )
    keep |= sure
    rest = one.drop_dims("time").assign_coords(time=t).assign(arrays)
    return many.isel(time=keep), rest.isel(time=keep)


class _Polynomials:
    """Values between the times of a grid, by cubics through the nearest four, and how far they may be off."""

    def __init__(self, grid: np.ndarray, t: np.ndarray):
        left = np.clip(np.searchsorted(grid, t) - 1, 0, max(len(grid) - 2, 0))
        self.fine = _weights(grid, t, left, min(CUBIC, len(grid)))
        # The check is made all over the interval between two times: at a single point two curves may cross.
        other = CHECK if len(grid) >= CHECK else min(CUBIC, len(grid)) - 1
        self.probes = []
        for share in (0.25, 0.5, 0.75):
            at = grid[left] + share * (grid[left + 1] - grid[left]) if len(t) else t
            self.probes.append(tuple(_weights(grid, at, left, count) for count in (min(CUBIC, len(grid)), other)))

    def __call__(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        doubt = [np.abs(_apply(a, values) - _apply(b, values)) for a, b in self.probes]
        return _apply(self.fine, values), np.max(doubt, axis=0)


def _weights(grid: np.ndarray, t: np.ndarray, left: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (time, count) of the polynomial through the ``count`` times nearest to an interval, and their weights."""
    start = np.clip(left - (count - 2) // 2, 0, max(len(grid) - count, 0))
    nodes = start[:, None] + np.arange(count)
    return nodes, np.array([_lagrange(at, grid[n]) for at, n in zip(t, nodes, strict=True)]).reshape(nodes.shape)


def _lagrange(t: float, nodes: np.ndarray) -> np.ndarray:
    """The weights of a polynomial through values at the nodes, at t."""
    gaps = nodes[:, None] - nodes + np.eye(len(nodes))
    ratios = (t - nodes)[None, :] / gaps
    np.fill_diagonal(ratios, 1.0)
    return np.prod(ratios, axis=1)


def _apply(weights: tuple[np.ndarray, np.ndarray], values: np.ndarray) -> np.ndarray:
    nodes, w = weights
    return np.sum(w.reshape(*w.shape, *[1] * (values.ndim - 1)) * values[nodes], axis=1)
