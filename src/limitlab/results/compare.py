"""The gap between two results of one problem, with its error and a verdict in plain words."""

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.checks import check_number
from limitlab.results.comparison import AGREES, DISAGREES, NOTHING, Comparison, Entry
from limitlab.results.sides import (
    Side,
    check_replicas,
    finite_part,
    paired_replicas,
    shared_variables,
)
from limitlab.results.signs import without_signs
from limitlab.results.times import at_shared_times, in_order
from limitlab.results.verdict import closeness, judge, look, place, table_of, with_margin

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Comparison", "Entry", "compare"]

FEW = 4  # replicas, with which Student's law forgives almost everything


def compare(
    sim: "xr.Dataset | Any",
    pred: "xr.Dataset | None" = None,
    *,
    threshold: float = 4.0,
    margin: float | None = None,
    paired: bool = False,
    check_problem: bool = True,
    rtol: float = 1e-6,
    variables: "list[str] | tuple[str, ...] | str | None" = None,
) -> Comparison:
    """Compare two results of one problem, variable by variable, at the times they share.

    Every component of every variable is looked at through a family of profiles in time (its mean, slope, cosines,
    single times, windows of times), and the worst one is reported: its gap, its standard error, and a z-score, which is
    corrected for the number of profiles and components. Of results that agree, ``|z|`` exceeds 4 once in 16000
    comparisons.

    Parameters
    ----------
    sim, pred
        Datasets of the schema, usually a simulation with replicas and a prediction with or without. If both
        have replicas they are compared as two independent samples. A prediction without replicas is interpolated to
        the times of the other if need be. A learning curve alone has both sides: its fits and its theory.
    threshold
        The two agree if every ``|z|`` is below.
    margin
        Differences up to this size do not matter: 0.01 is one per cent of the variable's size, which is the root mean
        square of the second result over its times and components. What differs for certain, but with ``|gap| + 2 s.e.``
        below the margin at every time, then differs within the margin, and ``agrees`` is true.
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
    if pred is None and hasattr(sim, "sides"):
        sim, pred = sim.sides()
    sim, pred = _checked(sim, pred)
    if margin is not None:
        margin = check_number("compare", "margin", margin, low=0, open_low=True, remedy="Use 0.01 for one per cent.")
    threshold = check_number(
        "compare", "threshold", threshold, low=0, open_low=True, remedy="4 raises one false alarm in 16000 comparisons."
    )
    rtol = check_number("compare", "rtol", rtol, low=0, remedy="Use 1e-6, or the tolerance of the two solvers.")
    if check_problem:
        _check_problem(sim, pred)
    notes: list[str] = []
    sim, pred, axis = _one_axis(sim, pred)
    sim, pred = in_order(sim, axis, "first"), in_order(pred, axis, "second")
    names = shared_variables(sim, pred, variables, notes)
    sim, pred = at_shared_times(sim, pred, names, axis, notes)
    (sim, pred), unsigned = without_signs((sim, pred))
    check_replicas(Side.of(sim, names), Side.of(pred, names), notes)
    if paired:
        sim, pred = paired_replicas(sim, pred)
        notes.append("compared replica by replica")
    elif min(sim.sizes.get("replica", 0), pred.sizes.get("replica", 0)) > 1 and _same_start(sim, pred):
        notes.append("both start from the same overlaps, for which paired=True is sharper")
    first, second = Side.of(sim, names), Side.of(pred, names)
    if signless := [name for name in names if name in unsigned]:
        notes.append(f"{', '.join(signless)} up to a sign: absolute values")
    part = finite_part(first, second, sim["time"].values, paired, notes, axis)
    title, times = f"{_label(sim)} against {_label(pred)}", sim["time"].values[part.times]
    if len(times) == 0 or (axis and np.all(times <= 0)):
        if part.alike and len(times):
            notes.append(f"only {place('time', 0, 0, times, axis)}, the start, is shared")
        word = NOTHING if part.alike else DISAGREES
        return Comparison(sim[[]], (), math.nan, threshold, word, _sentence([word, *notes]), title, margin)
    first, second = first.take(part.first, part.times), second.take(part.second, part.times)
    sim = sim.isel(time=part.times)
    seen = [look(sim[name], first.values[name], second.values[name], paired, name in unsigned) for name in names]
    z, entries = judge(seen, times, axis, threshold)
    counts = [f"{side.replicas} replicas" for side in (first, second) if side.replicas >= 2]
    if 2 <= (fewest := min([side.replicas for side in (first, second) if side.replicas >= 2], default=0)) <= FEW:
        notes.insert(0, f"{fewest} replicas show gross differences only, 16 would show ten standard errors")
    max_z, close, said = closeness(seen, entries, bool(counts), threshold, rtol)
    if not counts:
        notes.insert(0, "neither side has replicas, so there is no standard error and no z-score")
    word = AGREES if close and part.alike else DISAGREES
    if not any(entry.compared for entry in entries) and any("ended early" in note for note in notes):
        word = NOTHING
    elif not part.alike:
        said = f"one side ended early and the other did not; where both go on, {said}"
    elif margin is not None:
        word, said = with_margin(word, said, entries, margin)
    size = [f"components: {sum(entry.compared for entry in entries)}", *counts]
    if axis:
        size.insert(1, f"{axis}s: {len(times)}")
    if constant := sum(entry.constant for entry in entries):
        notes.append(f"{constant} constant and equal, left out")
    verdict = _sentence([word, said, ", ".join(size), *notes])
    return Comparison(table_of(sim, seen, z, axis), entries, max_z, threshold, word, verdict, title, margin)


def _one_axis(sim: "xr.Dataset", pred: "xr.Dataset") -> tuple["xr.Dataset", "xr.Dataset", str]:
    """Both results with an axis called time: iterations stand in for it, and a fixed point is a single time."""
    axes = [next((axis for axis in ("time", "iteration") if axis in ds.dims), "") for ds in (sim, pred)]
    if axes[0] != axes[1]:
        what = [f"over {axis}" if axis else "a fixed point" for axis in axes]
        raise InputError(
            f"compare needs two results of one kind; the first is {what[0]}, the second {what[1]}. Select one point "
            "with .isel(iteration=-1, drop=True), or ask both for the same kind."
        )
    if axes[0] == "":
        return sim.expand_dims(time=[0.0]), pred.expand_dims(time=[0.0]), ""
    for side, ds in (("first", sim), ("second", pred)):
        if axes[0] not in ds.coords:
            raise InputError(f"compare needs the {axes[0]}s of the {side} result; its axis has no coordinate.")
    if axes[0] == "iteration":
        return sim.rename(iteration="time"), pred.rename(iteration="time"), "iteration"
    return sim, pred, "time"


def _same_start(sim: "xr.Dataset", pred: "xr.Dataset") -> bool:
    return all(ds.attrs.get(name) is not None for ds in (sim, pred) for name in ("seed", "d")) and all(
        sim.attrs[name] == pred.attrs[name] for name in ("seed", "d")
    )


def _checked(sim: Any, pred: Any) -> "tuple[xr.Dataset, xr.Dataset]":
    import xarray as xr

    for side, result in (("first", sim), ("second", pred)):
        if not isinstance(result, xr.Dataset):
            raise InputError(
                f"compare needs two results of simulate or predict, Datasets; the {side} is a {type(result).__name__}. "
                "Write compare(simulate(problem, d=1000, times=times, replicas=16), predict(problem, times=times))."
            )
    return sim, pred


def _check_problem(sim: "xr.Dataset", pred: "xr.Dataset") -> None:
    here, there = sim.attrs.get("spec_hash"), pred.attrs.get("spec_hash")
    if here is None or there is None or here == there:
        return
    a, b = (_flat(_described(ds)) for ds in (sim, pred))
    differ = [f"{k} ({a.get(k, 'absent')} / {b.get(k, 'absent')})" for k in sorted({*a, *b}) if a.get(k) != b.get(k)]
    raise InputError(
        f"The results are of two different problems; they differ in {'; '.join(differ[:12]) or 'their hash'}"
        ". Make both from one Problem, or pass check_problem=False to compare them all the same."
    )


def _described(ds: "xr.Dataset") -> Any:
    """The problem of a result as tables; none if a stranger's attribute is not one."""
    try:
        return json.loads(ds.attrs.get("problem", "{}"))
    except (TypeError, ValueError):
        return {}


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
