"""The gap between two results of one problem, with its error and a verdict in plain words."""

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limitlab.errors import InputError
from limitlab.results.comparison import Comparison, Entry
from limitlab.results.schema import pairs_of
from limitlab.results.zscore import trajectory_z

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Comparison", "Entry", "compare"]


def compare(
    sim: "xr.Dataset",
    pred: "xr.Dataset",
    *,
    threshold: float = 4.0,
    paired: bool = False,
    check_problem: bool = True,
    rtol: float = 1e-6,
    variables: "list[str] | tuple[str, ...] | str | None" = None,
) -> Comparison:
    """Compare two results of one problem, variable by variable, at the times they share.

    Parameters
    ----------
    sim, pred
        Datasets of the schema, usually a simulation with replicas and a prediction with or without. If both
        have replicas they are compared as two independent samples (Welch).
    threshold
        The two agree if every ``|z|`` is below.
    paired
        True compares replica by replica: for two results that start from the same overlaps (same d and seed).
    check_problem
        False allows results of two different problems.
    rtol
        Used only when neither has replicas: then there is no z, and agreement means gaps below rtol times the
        largest value of the variable.
    variables
        Compare only these; None means all that both have.
    """
    if check_problem:
        _check_problem(sim, pred)
    notes: list[str] = []
    sim, pred, axis = _one_axis(sim, pred)
    sim, pred = _shared_times(sim, pred, notes)
    names = _chosen(_shared_variables(sim, pred, notes), variables)
    first, second = _Side.of(sim, names), _Side.of(pred, names)
    _check_replicas(first, second, notes)
    if paired:
        sim, pred = _pair(sim, pred)
        first, second = _Side.of(sim, names), _Side.of(pred, names)
        notes.append("compared replica by replica")
    elif min(first.replicas, second.replicas) > 1 and _same_start(sim, pred):
        notes.append("both start from the same overlaps, for which paired=True is sharper")
    title = f"{_label(sim)} against {_label(pred)}"
    keep_a, keep_b, times, ended_alike = _finite_part(first, second, sim["time"].values, paired, notes)
    if not np.any(times):
        verdict = _sentence(["DISAGREES" if not ended_alike else "NOTHING TO COMPARE", *notes])
        return Comparison(sim[[]], (), math.nan, threshold, False, verdict, title)
    first, second, sim = first.take(keep_a, times), second.take(keep_b, times), sim.isel(time=times)
    table, entries = {}, []
    for name in names:
        columns, entry = _compare_variable(sim[name], first.values[name], second.values[name], paired)
        table |= columns
        entries.append(entry)
    done = _conclude(sim, table, entries, (first, second), (threshold, rtol), ended_alike, notes, title)
    return done if axis == "time" else _renamed(done, axis)


def _one_axis(sim: "xr.Dataset", pred: "xr.Dataset") -> tuple["xr.Dataset", "xr.Dataset", str]:
    """Both results with an axis called time: iterations stand in for it, and a fixed point is a single time."""
    axes = [next((axis for axis in ("time", "iteration") if axis in ds.dims), "") for ds in (sim, pred)]
    if axes[0] != axes[1]:
        what = [f"over {axis}" if axis else "a fixed point" for axis in axes]
        raise InputError(
            f"compare needs two results of one kind; the first is {what[0]}, the second {what[1]}. Select one point "
            "with .isel(iteration=-1, drop=True), or ask both for the same kind."
        )
    if axes[0] == "iteration":
        return sim.rename(iteration="time"), pred.rename(iteration="time"), "iteration"
    if axes[0] == "":
        return sim.expand_dims(time=[0.0]), pred.expand_dims(time=[0.0]), ""
    return sim, pred, "time"


def _renamed(done: Comparison, axis: str) -> Comparison:
    """The comparison under the name that its axis really has."""
    if "time" not in done.table.dims:
        return done
    table = done.table.rename(time=axis) if axis else done.table.isel(time=0, drop=True)
    verdict = done.verdict.replace("times:", f"{axis}s:") if axis else done.verdict.replace(", times: 1", "")
    return dataclasses.replace(done, table=table, verdict=verdict)


class _Side(NamedTuple):
    """One result as arrays (replica, time, ...); ``replicas`` is 0 if it has no such dimension."""

    values: dict[str, np.ndarray]
    replicas: int

    @staticmethod
    def of(ds: "xr.Dataset", names: list[str]) -> "_Side":
        arrays = {}
        for name in names:
            array = ds[name]
            if "replica" not in array.dims:  # the same in all replicas, or a result without replicas
                array = array.drop_vars("replica", errors="ignore").expand_dims(replica=ds.sizes.get("replica", 1))
            arrays[name] = array.transpose("replica", "time", *_rest(array)).values
        return _Side(arrays, ds.sizes.get("replica", 0))

    def lost(self) -> np.ndarray:
        """(replica, time): some variable is not finite."""
        return np.any([np.any(~np.isfinite(v.reshape(*v.shape[:2], -1)), axis=2) for v in self.values.values()], axis=0)

    def take(self, replicas: np.ndarray, times: np.ndarray) -> "_Side":
        values = {name: v[replicas][:, times] for name, v in self.values.items()}
        return _Side(values, int(np.sum(replicas)) if self.replicas else 0)


def _rest(array: "xr.DataArray") -> list[Any]:
    return sorted((dim for dim in array.dims if dim not in ("replica", "time")), key=str)


def _compare_variable(
    like: "xr.DataArray", x: np.ndarray, y: np.ndarray, paired: bool
) -> tuple[dict[str, tuple[Any, np.ndarray]], Entry]:
    rest, shape, times = _rest(like), x.shape[2:], like["time"].values
    x, y = x.reshape(*x.shape[:2], -1), y.reshape(*y.shape[:2], -1)
    scale = np.maximum(np.max(np.abs(x), axis=(0, 1)), np.max(np.abs(y), axis=(0, 1)))
    if paired:
        x, y = x - y, np.zeros_like(y[:1])
    gap = np.mean(x, axis=0) - np.mean(y, axis=0)
    replicated = len(x) > 1 or len(y) > 1
    error = np.sqrt(_squared_error(x) + _squared_error(y)) if replicated else np.full_like(gap, np.nan)
    z = trajectory_z(x, y, scale) if replicated else np.full(gap.shape[1], np.nan)
    dims = ("time", *rest)
    columns = {
        f"{like.name}_gap": (dims, gap.reshape(len(times), *shape)),
        f"{like.name}_stderr": (dims, error.reshape(len(times), *shape)),
        f"{like.name}_z": (tuple(rest), z.reshape(shape)),
    }
    unique = _unique(rest, shape).ravel()
    rank = np.abs(z) if replicated else np.max(np.abs(gap), axis=0)
    alive = unique & ~np.isnan(rank)
    if not np.any(alive):
        return columns, Entry(str(like.name), 0, int(np.sum(unique)), "", 0.0, 0.0, math.nan, math.nan)
    worst = int(np.argmax(np.where(alive, rank, -1.0)))
    when = int(np.argmax(np.abs(gap[:, worst])))
    labels = [str(like[dim].values[i]) for dim, i in zip(rest, np.unravel_index(worst, shape), strict=True)]
    entry = Entry(
        variable=str(like.name),
        compared=int(np.sum(alive)),
        constant=int(np.sum(unique & ~alive)),
        worst=f"{like.name}[{', '.join(labels)}]" if labels else "",
        gap=float(gap[when, worst]),
        stderr=float(error[when, worst]),
        time=float(times[when]),
        z=float(z[worst]),
    )
    return columns, entry


def _squared_error(x: np.ndarray) -> np.ndarray:
    return np.var(x, axis=0, ddof=1) / len(x) if len(x) > 1 else np.zeros(x.shape[1:])


def _unique(rest: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Which components count: of a symmetric matrix, the upper triangle."""
    count = np.ones(shape, bool)
    for pair in pairs_of(rest):
        i, j = (np.indices(shape)[rest.index(dim)] for dim in pair)
        count &= i <= j
    return count


_MEANING = {
    "gap": "first minus second",
    "stderr": "standard error of the gap",
    "z": "z-score of the trajectory",
}


def _conclude(
    sim: "xr.Dataset",
    table: dict[str, Any],
    entries: list[Entry],
    sides: tuple[_Side, _Side],
    limits: tuple[float, float],
    ended_alike: bool,
    notes: list[str],
    title: str,
) -> Comparison:
    import xarray as xr

    coords = {name: c for name, c in sim.coords.items() if "replica" not in c.dims and name != "replica"}
    data = xr.Dataset(table, coords)
    for name in data.data_vars:
        variable, _, what = str(name).rpartition("_")
        data[name].attrs["long_name"] = f"{variable}: {_MEANING[what]}"
    (threshold, rtol), compared = limits, sum(entry.compared for entry in entries)
    constant = sum(entry.constant for entry in entries)
    if constant:
        notes = [*notes, f"{constant} constant and equal, left out"]
    replicas = [f"{side.replicas} replicas" for side in sides if side.replicas >= 2]
    size = ", ".join([f"components: {compared}", f"times: {sim.sizes['time']}", *replicas])
    if replicas:
        worst = max((e for e in entries if e.compared), key=lambda entry: abs(entry.z), default=None)
        max_z = 0.0 if worst is None else abs(worst.z)
        where = "nothing fluctuates" if worst is None else worst.worst or worst.variable
        close = max_z < threshold
        said = f"{'every |z| <' if close else '|z| reaches'} {threshold:g} (largest {max_z:.2f}, {where})"
    else:
        max_z = math.nan
        sizes = {name: max(float(np.max(np.abs(s.values[name]))) for s in sides) for name in sides[0].values}
        close = all(abs(entry.gap) <= rtol * sizes[entry.variable] for entry in entries)
        said = f"{'every gap is below' if close else 'gaps exceed'} {rtol:g} of the size of the variable"
        notes = ["neither side has replicas, so there is no standard error and no z-score", *notes]
    empty = compared == 0 and any("ended early" in note for note in notes)
    agrees = close and ended_alike and not empty
    if close and not ended_alike and not empty:
        said = f"one side ended early and the other did not; where both go on, {said}"
    word = "NOTHING TO COMPARE" if empty else "AGREES" if agrees else "DISAGREES"
    verdict = _sentence([word, said, size, *notes])
    return Comparison(data, tuple(entries), max_z, threshold, agrees, verdict, title)


def _finite_part(first: _Side, second: _Side, times: np.ndarray, paired: bool, notes: list[str]):
    """Which replicas and times can be compared, and whether the two sides ended alike."""
    lost_a, lost_b = first.lost(), second.lost()
    bad_a, bad_b = np.asarray(lost_a.any(axis=1)), np.asarray(lost_b.any(axis=1))
    keep_a, keep_b, keep_t = np.ones(len(bad_a), bool), np.ones(len(bad_b), bool), np.ones(len(times), bool)
    if not (np.any(bad_a) or np.any(bad_b)):
        return keep_a, keep_b, keep_t, True
    alike = bool(np.any(bad_a) and np.any(bad_b))
    # If it happened on one side only, leave those replicas out, as long as enough others remain; if on both,
    # keep all and compare up to the first such time.
    sound = [~(bad_a | bad_b)] * 2 if paired else [~bad_a, ~bad_b]
    if not alike and all(np.count_nonzero(s) >= min(2, len(s)) for s in sound):
        keep_a, keep_b = sound
    keep_t = ~(np.any(lost_a[keep_a], axis=0) | np.any(lost_b[keep_b], axis=0))
    for side, bad in (("first", bad_a), ("second", bad_b)):
        if np.any(bad):
            what = f"{np.count_nonzero(bad)} of {len(bad)} replicas" if len(bad) > 1 else "all"
            notes.append(f"WARNING: {what} of the {side} result ended early (not finite at some shared time)")
    if not np.all(keep_a) or not np.all(keep_b):
        notes.append("they were left out, which may bias what remains")
    if not np.all(keep_t):
        reach = f"up to t = {times[keep_t][-1]:g}" if np.any(keep_t) else "at no time"
        notes.append(f"both are finite only {reach}")
    if not alike:
        notes.append("the other result did not end early")
    return keep_a, keep_b, keep_t, alike


def _check_replicas(first: _Side, second: _Side, notes: list[str]) -> None:
    if first.replicas == 1 or (first.replicas == 0 and second.replicas == 1):
        raise InputError(
            "compare needs at least 2 replicas for an error bar; got 1. Simulate with replicas=16 or more, "
            "or drop the dimension on both sides with .isel(replica=0) to see the bare gaps."
        )
    if second.replicas == 1:
        notes.append("the second result has a single replica, whose own scatter is not counted")


def _same_start(sim: "xr.Dataset", pred: "xr.Dataset") -> bool:
    return all(ds.attrs.get(name) is not None for ds in (sim, pred) for name in ("seed", "d")) and all(
        sim.attrs[name] == pred.attrs[name] for name in ("seed", "d")
    )


def _pair(sim: "xr.Dataset", pred: "xr.Dataset") -> tuple["xr.Dataset", "xr.Dataset"]:
    if "replica" not in sim.dims or "replica" not in pred.dims:
        raise InputError("paired=True needs replicas on both sides. Leave it out to compare with a single prediction.")
    for name in ("seed", "d"):
        here, there = sim.attrs.get(name), pred.attrs.get(name)
        if here != there:
            raise InputError(
                f"paired=True needs results with the same {name}, so that replicas start alike; got {here} "
                f"and {there}. Make both with one {name}, or leave paired out."
            )
    shared = np.intersect1d(sim["replica"].values, pred["replica"].values)
    if len(shared) < 2:
        raise InputError(f"paired=True needs at least 2 replicas with the same number; got {len(shared)}.")
    return sim.sel(replica=shared), pred.sel(replica=shared)


def _shared_times(sim: "xr.Dataset", pred: "xr.Dataset", notes: list[str]) -> tuple["xr.Dataset", "xr.Dataset"]:
    for side, ds in (("first", sim), ("second", pred)):
        if "time" not in ds.dims or "time" not in ds.coords:
            raise InputError(
                f"compare needs trajectories over time; the {side} result has dimensions {tuple(ds.dims)}."
            )
    shared = np.intersect1d(sim["time"].values, pred["time"].values)
    if len(shared) == 0:
        a, b = sim["time"].values, pred["time"].values
        raise InputError(
            f"The results share no time: the first has {len(a)} in [{a[0]:g}, {a[-1]:g}], the second "
            f"{len(b)} in [{b[0]:g}, {b[-1]:g}]. Ask both for the same times."
        )
    most = max(sim.sizes["time"], pred.sizes["time"])
    if len(shared) < most:
        notes.append(f"only {len(shared)} of {most} times are shared")
    return sim.sel(time=shared), pred.sel(time=shared)


def _shared_variables(sim: "xr.Dataset", pred: "xr.Dataset", notes: list[str]) -> list[str]:
    names = []
    for name, array in sim.data_vars.items():
        other = pred.data_vars.get(name)
        if other is None or array.dtype.kind != "f" or other.dtype.kind != "f":
            continue
        if "time" not in array.dims or "time" not in other.dims or name == "end_time":
            continue
        if _rest(array) == _rest(other) and all(
            np.array_equal(array[dim].values, other[dim].values) for dim in _rest(array)
        ):
            names.append(str(name))
        else:
            notes.append(f"{name} has other dimensions or labels on the two sides and was not compared")
    if not names:
        raise InputError(
            f"The results share no variable over time: the first has {', '.join(map(str, sim.data_vars))}, "
            f"the second {', '.join(map(str, pred.data_vars))}. Compare results of one macrostate."
        )
    return names


def _chosen(shared: list[str], variables: Any) -> list[str]:
    if variables is None:
        return shared
    wanted = [variables] if isinstance(variables, str) else list(variables)
    for name in wanted or ["nothing"]:
        if name not in shared:
            raise InputError(
                f"variables must be among those that both results have, {', '.join(shared)}; got {name!r}."
            )
    return wanted


def _check_problem(sim: "xr.Dataset", pred: "xr.Dataset") -> None:
    here, there = sim.attrs.get("spec_hash"), pred.attrs.get("spec_hash")
    if here is None or there is None or here == there:
        return
    a, b = (_flat(json.loads(ds.attrs.get("problem", "{}"))) for ds in (sim, pred))
    differ = [f"{k} ({a.get(k, 'absent')} / {b.get(k, 'absent')})" for k in sorted({*a, *b}) if a.get(k) != b.get(k)]
    raise InputError(
        f"The results are of two different problems; they differ in {'; '.join(differ[:12]) or 'their hash'}"
        ". Make both from one Problem, or pass check_problem=False to compare them all the same."
    )


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in _flat(inner, f"{path}.{key}".lstrip(".")).items()}
    return {path: value}


def _label(ds: "xr.Dataset") -> str:
    facts = [f"d={ds.attrs['d']:g}"] if isinstance(ds.attrs.get("d"), (int, float)) else []
    facts += [f"{ds.sizes['replica']} replicas"] if ds.sizes.get("replica", 0) > 1 else []
    name = str(ds.attrs.get("method", "a result"))
    return f"{name} [{', '.join(facts)}]" if facts else name


def _sentence(parts: list[str]) -> str:
    return f"{parts[0]}: {'; '.join(parts[1:])}."
