"""sweep: a verb at every point of a grid of parameters, as one Dataset with a dimension for each."""

import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError, LimitlabError
from limitlab.macro.limit import AbstractLimit
from limitlab.numerics.checks import check_seed
from limitlab.problems.problem import Problem
from limitlab.results.points import families_of
from limitlab.sweep.engine.chunks import widths_of
from limitlab.sweep.engine.compute import Engine, compute, record
from limitlab.sweep.engine.tally import Tally
from limitlab.sweep.engine.work import Budget
from limitlab.sweep.grid import axes_of, check_arguments, check_name, fields_of, keywords_of, labels_of
from limitlab.sweep.identity import describe, hash_of, verb_name
from limitlab.sweep.job import Job, Task
from limitlab.sweep.storage.store import Store, opened
from limitlab.sweep.table import combine
from limitlab.verbs import Watch, main_verb, told

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["job_of", "sweep"]

NAMED = 500  # points between two words about their naming


@main_verb
def sweep(
    verb: Callable,
    problem: Problem,
    grid: Mapping[str, Any],
    *,
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
) -> "xr.Dataset":
    """Call ``verb(problem, **arguments)`` at every point of the product of the grid.

    Parameters
    ----------
    verb
        `simulate`, `predict`, `thresholds`, or any function of a Problem that returns a Dataset, a number, or a
        record of numbers.
    problem
        The problem at which all points start.
    grid
        Name -> values. A name is a path in the problem ("sample_ratio", "algorithm.learning_rate",
        "student.width"), a keyword of the verb ("d", "seed", "limit") or a path in one ("limit.d").
    replicas
        Passed to the verb, or to its limit.
    seed
        Every point has random streams of its own, made from this number and the point's hash: results do not depend
        on the number of workers, on their order, or on restarts. 0 if left out; a limit with a seed of its own keeps
        that unless a seed is given here.
    store
        A folder (or `Store`) that keeps every point as soon as it is done; points that it has are not computed again.
    name
        What you call the present state of your own functions and classes, such as "v2". A store knows them by their
        code and all that it reads, and refuses what it cannot know for certain (a lock, a file). With a name they are
        known by that and their places: give another one whenever they change.
    workers
        Local processes; None computes in this one.
    scheduler
        The address of a dask scheduler ("tcp://host:8786"), or a dask client.
    time_limit, memory_limit
        Seconds for a point, and bytes (or "2 GB") for the process that computes it. A point over its budget is
        recorded as ``out_of_time`` or ``out_of_memory``. Needs processes: ``workers=1`` if left out.
    retry_failed
        Compute stored points again that failed.
    progress
        True draws a bar; a function is called as progress(done, total, label) after every point; None is silent.
    arguments
        Passed to the verb at every point, such as ``limit=OverlapODE(), times=times``.

    Returns
    -------
    xarray.Dataset
        One dimension per parameter, in the order of the grid and under its name there, before those of the
        verb's own result. A point that fails has NaN, its status ("failed", "out_of_time", "out_of_memory", "killed")
        and the error's words in ``reason``; the sweep goes on. Variables whose shape or labels change from point to
        point (M with the student's width) cannot be one array: they are left out and named in the attribute
        ``left_out``.

    Examples
    --------
    >>> import limitlab as ll
    >>> problem, rates = ll.library.escaping_mediocrity(), [0.05, 0.1]
    >>> limit = ll.OverlapODE(d=1000)
    >>> ds = ll.sweep(ll.predict, problem, {"algorithm.learning_rate": rates}, limit=limit, times=[0.0, 1.0])
    >>> ds.risk.sel({"algorithm.learning_rate": 0.1}).dims
    ('time', 'replica')
    """
    axes = axes_of(grid) if isinstance(problem, Problem) else {}
    engine = Engine(workers, scheduler, Budget.of(time_limit, memory_limit))
    job = job_of(verb, problem, axes, replicas, seed, arguments, strict=store is not None, version=name)
    if store is None and not engine.processes and not job.seeded:
        job = dataclasses.replace(job, named=False)
    for axis in axes:
        check_name(axis, verb, problem, axes, job.arguments)
    labels = {axis: labels_of(axis, values) for axis, values in axes.items()}
    if store is None and not engine.processes and (whole := _whole_curve(job, axes)) is not None:
        return whole
    kept = opened(store)
    record_name = "" if kept is None else _record_name(job, axes, labels)
    tally = Tally(job.name, record_name, math.prod(map(len, axes.values())), kept, told())
    tasks = list(_tasks(job, axes, tally))
    if kept is not None:
        record(job, record_name, labels, tasks, kept)
    with engine:
        widths = {} if engine.budget else widths_of(tasks)  # a budget is for one point, so they are done one by one
        points = compute(job, tasks, widths, kept, engine, tally, retry_failed)
    if all(point.failed for point in points):
        warnings.warn(f"All {len(points)} points failed, the first with {points[0].reason}", UserWarning, stacklevel=3)
    return combine(problem, job.name, labels, points, {"seed": job.seed} if job.seeded else {})


def _record_name(job: Job, axes: dict[str, list], labels: dict[str, np.ndarray]) -> str:
    """The name of the list of points in a store; parts, whose labels are only their classes, are described."""
    parts = {axis: job.identity(values) for axis, values in axes.items() if any(map(fields_of, values))}
    about = {axis: describe(values) for axis, values in labels.items()}
    return hash_of(job.described, about, *([parts] if parts else []))[:16]


def _tasks(job: Job, axes: dict[str, list], tally: Tally) -> Iterator[Task]:
    """The points of the grid, named, which takes about a millisecond each."""
    for number, choice in enumerate(product(*axes.values())):
        if number % NAMED == 0:
            tally.prepare(number)
        yield job.task(number, dict(zip(axes, choice, strict=True)))
    tally.prepare(tally.total)


def job_of(
    verb: Callable,
    problem: Problem,
    axes: dict[str, list],
    replicas: int | None,
    seed: int | None,
    arguments: dict[str, Any],
    strict: bool,
    version: str | None = None,
) -> Job:
    """What all points share, with replicas and seeds where the verb or its limit takes them."""
    if not isinstance(problem, Problem):
        raise InputError(f"sweep needs a Problem; got {problem!r}. Call sweep(verb, problem, grid, ...).")
    known, free = keywords_of(verb)
    if version is not None and (not isinstance(version, str) or not version):
        raise InputError(f'sweep.name must be a text such as "v2", which names your own code; got {version!r}.')
    if version is not None and "name" in known:
        raise InputError(
            f"sweep.name names your own code in a store, and {verb_name(verb)} has an argument of that name; got "
            f"{version!r}. Sweep a function that calls it under another name."
        )
    arguments = dict(arguments)
    limit: Any = arguments.get("limit")
    inside = fields_of(limit) if isinstance(limit, AbstractLimit) else []
    if replicas is not None:
        if "replicas" in known or free:
            arguments["replicas"] = replicas
        elif "replicas" in inside:
            arguments["limit"] = dataclasses.replace(limit, replicas=replicas)
        else:
            raise InputError(f"sweep.replicas: {verb_name(verb)} has no replicas; got {replicas}. Leave it out.")
    if seed is not None:
        check_seed("sweep", seed)
    seeded = "argument" if "seed" in known else "limit" if seed is not None and "seed" in inside else ""
    if seed is not None and not seeded:
        if not free:
            raise InputError(f"sweep.seed: {verb_name(verb)} draws no random numbers; got {seed}. Leave it out.")
        seeded = "argument"
    if "seed" in axes and seed is not None:
        raise InputError(f"sweep.grid['seed'] is also an argument ({seed}). Keep one.")
    for value in axes.get("seed", ()) if seeded == "argument" else ():
        check_seed("sweep", value, "grid['seed']")
    check_arguments(verb, arguments, axes, seeded)
    return Job(verb, problem, arguments, 0 if seed is None else seed, seeded, strict, version=version)


def _whole_curve(job: Job, axes: dict[str, list]) -> "xr.Dataset | None":
    """Many sample ratios in one go, by verbs (and limits) that know how; None: point by point."""
    families = families_of(job.verb)
    if families is None or list(axes) != ["sample_ratio"] or job.seeded:
        return None
    try:
        curve = families.curve(job.problem, np.asarray(axes["sample_ratio"], float), job.arguments)
        return None if curve is None else curve.assign_attrs(swept=["sample_ratio"], verb=job.name)
    except (LimitlabError, TypeError, ValueError):
        return None  # one of the points is refused: the slow road says which, and keeps the others
