"""compute: the points of a sweep, from the store where it has them, from an engine where not."""

import contextlib
import dataclasses
import os
import random
import tempfile
import time
import warnings
from typing import Any

import numpy as np

from limitlab.errors import DamagedFileWarning, InputError, LimitlabError, ResultFileError
from limitlab.numerics.checks import check_integer
from limitlab.numerics.machine import Growth
from limitlab.results.points import Point
from limitlab.sweep.engine.chunks import chunks_of
from limitlab.sweep.engine.engines import cluster, in_process, on_cluster
from limitlab.sweep.engine.tally import Tally
from limitlab.sweep.engine.work import Budget
from limitlab.sweep.job import Job, Task
from limitlab.sweep.storage.standing import look
from limitlab.sweep.storage.store import Store
from limitlab.sweep.table import TOGETHER
from limitlab.text import one_line

__all__ = ["Engine", "compute", "record"]

ROUNDS = 3
LONG = 600.0  # seconds for which a sweep waits for points that another one computes
SOON = 10.0  # seconds after which it says so


class Engine:
    """Where points are computed; opened once for all of them."""

    def __init__(self, workers: int | None = None, scheduler: Any = None, budget: Budget | None = None):
        if workers is not None:
            check_integer("sweep", "workers", workers, low=1, remedy="It is a number of processes; None uses this one.")
            if scheduler is not None:
                raise InputError("sweep takes workers or a scheduler, not both. Workers of a scheduler are its own.")
        self.budget = budget or Budget()
        self._workers = 1 if workers is None and scheduler is None and self.budget else workers
        self._scheduler, self._stack, self._open = scheduler, contextlib.ExitStack(), None

    @property
    def processes(self) -> int:
        """How many processes, as far as is known beforehand; 0 is this one."""
        return self._workers or (16 if self._scheduler is not None else 0)

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def run(self, job: Job, chunks: list, store: Store | None, tally: Tally):
        if not self.processes:
            return in_process(job, chunks, store, tally)
        if self._open is None:
            self._open = self._stack.enter_context(cluster(self._workers, self._scheduler))
        return on_cluster(job, chunks, store, tally, self.budget, self._open)


def compute(
    job: Job,
    tasks: list[Task],
    widths: dict,
    store: Store | None,
    engine: Engine,
    tally: Tally,
    retry_failed: bool = False,
) -> list[Point]:
    """The points of the tasks, from the store where it has them; every other one is computed and kept."""
    points: dict[int, Point] = {}
    growth = Growth(f"sweep of {job.name}", TOGETHER.format(len(tasks)))
    with contextlib.ExitStack() as stack:
        try:
            if store is None and engine.processes:  # processes hand over through files
                store = Store(stack.enter_context(tempfile.TemporaryDirectory(prefix="limitlab-")))
            elif store is not None:
                store.tidy()
                for fault in store.segments.faults():
                    words = f"{fault}. Its points count as missing. Run limitlab store verify, or mend what it says."
                    warnings.warn(words, DamagedFileWarning, stacklevel=2)
                tally.tell(force=True)
            left, rounds, anyway = {task.index: task for task in tasks}, 0, False
            while left:  # once, unless points are damaged or taken away meanwhile, or other sweeps compute some of them
                todo = []
                for task in left.values():
                    if not _found(task, points, store, tally, retry_failed):
                        todo.append(task)
                    growth.check()
                if todo and not tally.needed:
                    tally.needed = True
                    tally.tell(force=True)  # a store that cannot be written to is found here
                later = 0
                chunks = chunks_of(todo, widths, engine.processes)
                chunks = [dataclasses.replace(chunk, anyway=True) for chunk in chunks] if anyway else chunks
                for outcome in engine.run(job, chunks, store, tally) if todo else ():
                    later += outcome.later
                    if not outcome.later:
                        _take(outcome, left[outcome.index], points, store, tally)
                        growth.check()
                left = {index: task for index, task in left.items() if index not in points}
                if later and store is not None:
                    anyway = _wait(list(left.values()), store, tally)
                    continue
                rounds += 1
                if left and rounds == ROUNDS:
                    raise ResultFileError(
                        f"{len(left)} points vanished from the store as soon as they were in it. Run again."
                    )
        except KeyboardInterrupt:
            _recount(tasks, points, store, tally)
            tally.tell("interrupted", force=True)
            raise
        except LimitlabError as error:
            with contextlib.suppress(LimitlabError):
                _recount(tasks, points, store, tally)
                tally.say(str(error))
                tally.tell("stopped", force=True)
            raise
        except Exception:  # raised by whoever watches
            tally.tell("stopped", force=True)
            raise
    tally.tell("finished", force=True)
    return [points[task.index] for task in tasks]


def _wait(tasks: list[Task], store: Store, tally: Tally) -> bool:
    """Until another sweep has stored one of these points, or does not compute it any more.

    True if it does neither for `LONG`, as a process that was stopped: then they are computed here as well.
    """
    pause, began, said = 0.02, time.monotonic(), False
    while (waited := time.monotonic() - began) < LONG:
        store.refresh()
        if any(store.has(task.key) or not store.claimed(task.key) for task in tasks):
            tally.say("")
            return False
        tally.say(f"waiting for {len(tasks)} points that another sweep computes")
        if waited > SOON and not said:
            said = True
            warnings.warn(_waiting(store, len(tasks)), UserWarning, stacklevel=2)
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, 1.0)
    return True


def _waiting(store: Store, count: int) -> str:
    """Whom a sweep waits for, in words."""
    runs = [record for state, record in look(store).values() if state == "running"]
    others = {f"process {run.get('process')} on {run.get('host')}" for run in runs if run.get("process") != os.getpid()}
    who = one_line(", ".join(sorted(others)) or "another process")
    return (
        f"A sweep waits for {count} points that {who} computes. If that is stopped, let it go on or end it; after "
        f"{LONG / 60:g} minutes they are computed here as well."
    )


def _recount(tasks: list[Task], points: dict[int, Point], store: Store | None, tally: Tally) -> None:
    """Count what processes stored and had no time to report."""
    if store is not None:
        tally.done += sum(task.index not in points and store.has(task.key) for task in tasks)


def _found(task: Task, points: dict[int, Point], store: Store | None, tally: Tally, retry_failed: bool) -> bool:
    if store is None or not store.has(task.key):
        return False
    point = store.read(task.key)
    if point is None:
        return False
    if point.failed and retry_failed:
        store.remove(task.key)
        return False
    points[task.index] = point
    tally.count(point.failed, found=True)
    return True


def _take(outcome: Any, task: Task, points: dict[int, Point], store: Store | None, tally: Tally) -> None:
    if outcome.data is not None and store is not None:
        store.write(task.key, outcome.data)
    point = outcome.point if outcome.point is not None or store is None else store.read(task.key)
    if point is not None:
        points[task.index] = point
        tally.count(point.failed)


def record(job: Job, name: str, labels: dict[str, np.ndarray], tasks: list[Task], store: Store) -> None:
    """Write down what a sweep is made of, so that it can be put together again, and its points are missed if gone."""
    axes = {axis: values.tolist() for axis, values in labels.items()}
    about = {**job.described, "name": job.name, "axes": axes, "points": len(tasks)}
    try:
        store.keep_sweep(name, about, [task.key for task in tasks])
    except ResultFileError:
        if not all(store.has(task.key) for task in tasks):  # a complete store may be one that can only be read
            raise
