"""refine: a sweep along one parameter that puts its points where a boundary or a curve needs them."""

import contextlib
import math
import os
from collections.abc import Callable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError, ResultFileError
from limitlab.numerics.checks import check_integer, check_number
from limitlab.problems.problem import Problem
from limitlab.results.points import Point
from limitlab.results.schema import dataset
from limitlab.sweep.engine.compute import Engine, compute, record
from limitlab.sweep.engine.tally import Tally
from limitlab.sweep.engine.work import Budget
from limitlab.sweep.grid import axes_of, check_name, labels_of
from limitlab.sweep.identity import describe, hash_of, verb_name
from limitlab.sweep.job import Job, Task
from limitlab.sweep.refining.line import Line, Scale, Value, read
from limitlab.sweep.refining.result import Refinement
from limitlab.sweep.run import job_of
from limitlab.sweep.storage.store import Store, opened
from limitlab.sweep.table import combine, why
from limitlab.verbs import Watch, main_verb, told

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Refinement", "refine"]

BATCH = 4  # points of a round where one more or less informed choice matters little


@main_verb
def refine(
    verb: Callable,
    problem: Problem,
    over: Mapping[str, tuple[float, float]],
    *,
    of: str | Callable,
    level: float | None = None,
    budget: int = 40,
    start: int = 5,
    batch: int | None = None,
    tolerance: float | None = None,
    log: bool = False,
    grid: Mapping[str, Any] | None = None,
    replicas: int | None = None,
    seed: int | None = None,
    store: str | os.PathLike | Store | None = None,
    name: str | None = None,
    workers: int | None = None,
    scheduler: Any = None,
    time_limit: float | None = None,
    memory_limit: float | str | None = None,
    retry_failed: bool = False,
    progress: Watch = None,
    **arguments: Any,
) -> Refinement:
    """Find where a result changes along one parameter, or resolve its curve, with a given number of points.

    What is looked for depends on what is asked. A number with a ``level``: where it crosses the level. A text: where
    it changes. A number without a level: the curve, with points where straight lines between them miss it most.

    Parameters
    ----------
    verb, problem, arguments
        As in `sweep`; so are replicas, seed, store, name, workers, scheduler, time_limit, memory_limit, retry_failed
        and progress. The points do not depend on workers, nor on what a store has.
    over
        The refined parameter and its range, such as ``{"sample_ratio": (0.5, 3.0)}``. Two whole numbers make all
        points whole.
    of
        A variable of the result (its last time or iteration, its mean over replicas), "success_rate", "status", or
        a function of the result that returns a number, a text, or a pair of a number and its standard error.
    level
        The number to be crossed.
    budget
        Points in total, over the whole grid; points found in a store count.
    start
        Points at equal distances with which every line of the grid begins. Only crossings that they show are found.
    batch
        Points at once in every bracket, or of a curve. 1 in the brackets of an exact value and 4 elsewhere if left
        out; more keep more workers busy, and use the budget less well.
    tolerance
        Ends the search when every interval is at most so wide, in units of the parameter. None spends the budget.
    log
        Halve in the logarithm of the parameter.
    grid
        Further parameters and their values, as in `sweep`: one line, and one boundary, for each combination.

    Returns
    -------
    Refinement
        A point without a value (it failed, or gave NaN) is passed over and named there.

    Notes
    -----
    Exact values and texts are bisected, the widest brackets first. A number with an error (a share of successes, a
    mean over replicas) may be on either side: between two points that surely lie on different sides, the curve is
    taken to be monotone, and a boundary is kept if the best monotone curve that crosses there is nearly as likely as
    the best of all. New points halve the gaps that most probably hold the boundary.

    Examples
    --------
    >>> import limitlab as ll
    >>> problem, over = ll.library.perceptron(), {"sample_ratio": (0.5, 3.0)}
    >>> found = ll.refine(ll.predict, problem, over, of="m", level=0.7, budget=12, limit=ll.BayesOptimal())
    >>> 1.5 < float(found) < 2.5, found.points.m.ndim
    (True, 1)
    """
    import xarray as xr

    parameter, scale = _scale(over, log)
    _check(of, level, tolerance, batch)
    if not isinstance(problem, Problem):
        raise InputError(f"refine needs a Problem; got {problem!r}. Call refine(verb, problem, over, of=...).")
    axes = axes_of(grid) if grid else {}
    if parameter in axes:
        raise InputError(f"refine.over and refine.grid both have {parameter!r}. Keep one.")
    check_integer("refine", "start", start, low=2, remedy="Both ends of the range are among the first points.")
    check_integer("refine", "budget", budget, low=2, remedy="It is the number of points in total.")
    places = [dict(zip(axes, choice, strict=True)) for choice in product(*axes.values())]
    first = scale.start(start)
    if budget < len(first) * len(places):
        raise InputError(
            f"refine.budget must be at least the {len(places)} x {len(first)} points at the start; got {budget}. "
            "Raise it, or lower start."
        )
    engine = Engine(workers, scheduler, Budget.of(time_limit, memory_limit))
    everything = {**axes, parameter: [scale.low, scale.high]}
    job = job_of(verb, problem, everything, replicas, seed, arguments, strict=store is not None, version=name)
    for axis in everything:
        check_name(axis, verb, problem, everything, job.arguments)
    labels = {axis: labels_of(axis, values) for axis, values in axes.items()}
    kept = opened(store)
    lines = [Line(scale, level, budget) for _ in places]
    tasks: list[dict[float, Task]] = [{} for _ in places]
    points: list[dict[float, Point]] = [{} for _ in places]
    asked = describe([parameter, *scale, of, level, budget, start, batch, tolerance, axes], False)
    tally = Tally(job.name, _name(job, asked, 0), budget, kept, told())
    wanted, done = [(i, x) for i in range(len(places)) for x in first], 0
    with engine:
        while wanted:
            for number, (i, x) in enumerate(wanted):
                tasks[i][x] = job.task(done + number, {**places[i], parameter: x})
            if kept is not None:
                for i in sorted({i for i, _ in wanted}):
                    _record(job, _name(job, asked, i), _one(labels, i, parameter, tasks[i]), tasks[i], kept)
            found = compute(job, [tasks[i][x] for i, x in wanted], {}, kept, engine, tally, retry_failed)
            for (i, x), point in zip(wanted, found, strict=True):
                points[i][x], lines[i].values[x] = point, read(point, of)
            done += len(wanted)
            text = _settle(lines, points, level)
            wanted = _bends(lines, batch, tolerance) if level is None and not text else _halves(lines, batch, tolerance)
            wanted = wanted[: budget - done]
    tally.total = done
    tally.tell("finished", force=True)
    attrs = {"seed": job.seed} if job.seeded else {}
    sweeps = [
        combine(
            problem, job.name, _one(labels, i, parameter, points[i]), [points[i][x] for x in sorted(points[i])], attrs
        )
        for i in range(len(places))
    ]
    keys = list(product(*(label.tolist() for label in labels.values())))
    skipped = tuple(
        ({**dict(zip(labels, key, strict=True)), parameter: x}, why(point) or "its value is NaN")
        for key, line, there in zip(keys, lines, points, strict=True)
        for x, point in sorted(there.items())
        if line.values[x] is None
    )
    asked_of = of if isinstance(of, str) else verb_name(of)
    what = f"{asked_of} = {level:g}" if level is not None else f"{'changes' if text else 'curve'} of {asked_of}"
    boundary = _boundary(job, labels, lines, {"parameter": parameter, "of": asked_of, "level": level})
    return Refinement(
        parameter,
        xr.Dataset() if level is None and not text else boundary,
        dict(zip(keys, sweeps, strict=True)) if axes else sweeps[0],
        done,
        skipped,
        what,
    )


def _scale(over: Any, log: Any) -> tuple[str, Scale]:
    """The refined parameter and its range."""
    example = '{"sample_ratio": (0.5, 3.0)}'
    if not isinstance(over, Mapping) or len(over) != 1:
        raise InputError(f"refine.over must be a table of one name and its range, such as {example}; got {over!r}.")
    name, ends = next(iter(over.items()))
    if isinstance(ends, str) or not hasattr(ends, "__len__") or len(ends) != 2:
        raise InputError(f"refine.over[{name!r}] must be two numbers, as in {example}; got {ends!r}.")
    low, high = (check_number("refine", f"over[{name!r}]", x, remedy="Give the ends of the range.") for x in ends)
    if low >= high:
        raise InputError(f"refine.over[{name!r}] must have its lower end first; got {tuple(ends)!r}. Swap them.")
    if log and low <= 0:
        raise InputError(f"refine.log needs a range above 0; got {tuple(ends)!r}. Raise its lower end.")
    whole = all(isinstance(x, (int, np.integer)) for x in ends)
    return str(name), Scale(int(low), int(high), True, bool(log)) if whole else Scale(low, high, False, bool(log))


def _check(of: Any, level: Any, tolerance: Any, batch: Any) -> None:
    if not isinstance(of, str) and not callable(of):
        raise InputError(f'refine.of must be a name such as "risk" or "status", or a function; got {of!r}.')
    if level is not None:
        share = of in ("success", "success_rate")
        edge = {"low": 0, "high": 1, "open_low": True, "open_high": True} if share else {}
        check_number("refine", "level", level, **edge, remedy="It is the value to be crossed.")
        if of == "status":
            raise InputError(f"refine.level must be left out for a text such as status; got {level!r}.")
    if tolerance is not None:
        check_number("refine", "tolerance", tolerance, low=0, remedy="It is a width in units of the parameter.")
    if batch is not None:
        check_integer("refine", "batch", batch, low=1, remedy="It is a number of points.")


def _settle(lines: list[Line], points: list[dict[float, Point]], level: float | None) -> bool:
    """Whether values are texts; a failed point then has its status for a value."""
    texts = {isinstance(value.value, str) for line in lines for value in line.values.values() if value is not None}
    if not texts:
        reason = next(why(point) for there in points for point in there.values())
        raise InputError(
            f"refine needs values, and none of the first {sum(map(len, points))} points gave one: "
            f"{reason or 'all are NaN'}. Change the range, or ask of another variable."
        )
    if len(texts) == 2:
        raise InputError("refine.of must give numbers or texts, not both. Let the function return one kind.")
    if True in texts and level is not None:
        raise InputError(f"refine.level must be left out where the value is a text or a truth value; got {level!r}.")
    if True in texts:
        for line, there in zip(lines, points, strict=True):
            failed = {x: Value(point.failure) for x, point in there.items() if point.failed}
            line.values.update(failed)
    return True in texts


def _halves(lines: list[Line], batch: int | None, tolerance: float | None) -> list[tuple[int, float]]:
    """Points in all brackets that are more than half as wide as the widest: those that one by one would be first."""
    found = []
    for i, line in enumerate(lines):
        for crossing in line.crossings():
            inside = line.halve(crossing, batch or (1 if line.exact else BATCH), tolerance or 0.0)
            found += [(line.width(crossing), i, inside)] if inside else []
    found.sort(key=lambda one: -one[0])
    return [(i, x) for width, i, inside in found if width > found[0][0] / 2 for x in inside]


def _bends(lines: list[Line], batch: int | None, tolerance: float | None) -> list[tuple[int, float]]:
    """Points where straight lines miss most, and at least a quarter as much as the worst."""
    heights = [v.value for line in lines for v in line.values.values() if v is not None and math.isfinite(v.value)]
    height = max(heights, default=0.0) - min(heights, default=0.0)
    found = [(area, i, x) for i, line in enumerate(lines) for area, x in line.bends(height or 1.0, tolerance or 0.0)]
    found.sort(key=lambda one: -one[0])
    return [(i, x) for area, i, x in found[: batch or BATCH] if area > found[0][0] / 4]


def _one(labels: dict[str, np.ndarray], i: int, parameter: str, there: Mapping[float, Any]) -> dict[str, np.ndarray]:
    """The axes of the sweep that a line is: one value of every parameter of the grid, all of the refined one."""
    place = np.unravel_index(i, [len(label) for label in labels.values()]) if labels else ()
    ones = {name: label[k : k + 1] for (name, label), k in zip(labels.items(), place, strict=True)}
    return {**ones, parameter: np.asarray(sorted(there))}


def _name(job: Job, asked: Any, i: int) -> str:
    """The name of a line's record in the store: that of the request, whatever its points turn out to be."""
    return hash_of(job.described, asked, i)[:16]


def _record(job: Job, name: str, axes: dict[str, np.ndarray], tasks: dict[float, Task], store: Store) -> None:
    """Write down which points belong to a line, as for a sweep; a longer record of the same line is left as it is."""
    keys = [task.key for _, task in sorted(tasks.items())]
    with contextlib.suppress(ResultFileError):
        if set(keys) <= set(store.keys_of(name)):
            return
    record(job, name, axes, [task for _, task in sorted(tasks.items())], store)


def _boundary(job: Job, labels: dict[str, np.ndarray], lines: list[Line], attrs: dict[str, Any]) -> "xr.Dataset":
    """Boundaries over the grid and their number; NaN and not_reached where a line has fewer than another."""
    found = [line.crossings() for line in lines]
    most = max(1, *map(len, found))
    shape, dims = tuple(len(label) for label in labels.values()), tuple(labels)

    def table(pick: Callable, empty: Any) -> tuple:
        rows = [[*map(pick, ones), *[empty] * (most - len(ones))] for ones in found]
        return (*dims, "crossing"), np.asarray(rows).reshape(*shape, most)

    variables = {
        "boundary": table(lambda c: c.at, np.nan),
        "low": table(lambda c: float(c.low), np.nan),
        "high": table(lambda c: float(c.high), np.nan),
        "before": table(lambda c: c.before, ""),
        "after": table(lambda c: c.after, ""),
        "status": table(lambda c: "ok", "not_reached"),
        "crossings": (dims, np.asarray([len(ones) for ones in found]).reshape(shape)),
    }
    attrs = {**attrs, "verb": "refine", "swept": list(labels)}
    method = f"refine of {job.name}"
    return dataset(job.problem, variables, {**labels, "crossing": np.arange(most)}, method=method, attrs=attrs)
