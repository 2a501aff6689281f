"""What a process does with points that it is given: compute, keep, and mind its memory and time."""

import contextlib
import dataclasses
import faulthandler
import functools
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from limitlab._setup import double
from limitlab.errors import EngineError, InputError, LimitlabError
from limitlab.numerics.checks import check_number
from limitlab.numerics.machine import relieve, resident
from limitlab.problems.problem import Problem
from limitlab.results.points import Point
from limitlab.sweep import identity
from limitlab.sweep.engine.families import family
from limitlab.sweep.engine.overruns import forget_overrun, overran, overrun_noted
from limitlab.sweep.job import Job, Task, stamped, versions, visit
from limitlab.sweep.storage.files.encoding import encode
from limitlab.sweep.storage.store import MARKER, Store

__all__ = ["Budget", "Chunk", "Outcome", "Together", "makers", "packed", "perform", "perform_all", "together"]

UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
LOOK = 0.05  # seconds between two looks at the clock and the memory
GRACE = 1.0  # seconds after which a point that does not let Python look is ended all the same
# Threads of a worker take turns: one point has all processors anyway, warnings are caught for the whole process, and
# factorisations of many matrices in two threads can wait for each other for ever (each holds a thread of XLA's pool).
_turn = threading.Lock()
MAKERS = ("limitlab", "jax", "jaxlib")
OVER_BUDGET = 77  # exit code of a process that ended itself


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Points that are done together: in one compiled call of ``width`` lanes, or one after the other (0).

    Points that another sweep is computing are left for later, unless ``anyway``.
    """

    tasks: tuple[Task, ...]
    width: int = 0
    anyway: bool = False

    @property
    def cost(self) -> float:
        return sum(task.cost for task in self.tasks)


@dataclasses.dataclass(frozen=True)
class Budget:
    """Seconds for a point, and bytes for the process that computes it; None is no limit."""

    seconds: float | None = None
    memory: float | None = None

    @classmethod
    def of(cls, seconds: Any, memory: Any) -> "Budget":
        """A budget from what a user asks for: seconds, and bytes or a text such as "2 GB"."""
        if seconds is not None:
            check_number(
                "sweep", "time_limit", seconds, low=0, open_low=True, remedy="It is the seconds that a point may take."
            )
        if isinstance(memory, str):
            text = memory.strip().upper()
            number = text.rstrip("KMGTB ")
            try:
                memory = float(number) * UNITS[text[len(number) :].strip()]
            except (ValueError, KeyError):
                raise InputError(
                    f"sweep.memory_limit must be bytes or a text such as '2 GB'; got {memory!r}."
                ) from None
        if memory is not None:
            check_number(
                "sweep", "memory_limit", memory, low=0, open_low=True, remedy="It is in bytes, or a text like '2 GB'."
            )
        return cls(seconds, memory)

    def __bool__(self) -> bool:
        return self.seconds is not None or self.memory is not None


class Outcome(NamedTuple):
    """What became of a point: its result, or None if the store has it, or if it is left for ``later``.

    ``data`` are bytes that are still to be stored.
    """

    index: int
    point: Point | None
    data: bytes | None = None
    warned: tuple[tuple[type[Warning], str], ...] = ()
    later: bool = False


def perform(
    job: Job,
    chunk: Chunk,
    store: Store | None,
    budget: Budget | None = None,
    keep: bool = False,
    ready: "Together | None" = None,
) -> Iterator[Outcome]:
    """Compute the points of a chunk that the store does not have, keeping each as soon as it is there.

    With ``keep`` the bytes of their files come back too, for someone who sees the store. ``ready`` is what `together`
    gave for this chunk, if that was called ahead.
    """
    todo, others = list(chunk.tasks), []
    if store is not None:
        there, todo, others = _shared_out(chunk, store)
        yield from (Outcome(task.index, None) for task in there)
        yield from (Outcome(task.index, None, later=True) for task in others)
    try:
        yield from _perform(
            job, Chunk(tuple(todo), chunk.width), store, budget, keep, ready if len(todo) == len(chunk.tasks) else None
        )
    finally:
        if store is not None:
            store.claim([])  # nothing to say if all of them were stored


def _shared_out(chunk: Chunk, store: Store) -> tuple[list[Task], list[Task], list[Task]]:
    """The points of a chunk that the store has, those that are to be computed here, and those that others compute.

    Whoever claims looks once more afterwards: of two that claimed one point at the same moment at least one sees the
    other, and leaves it for later.
    """
    there = [task for task in chunk.tasks if store.has(task.key)]
    todo = [task for task in chunk.tasks if task not in there]
    if chunk.anyway:
        return there, todo, []
    mine = [task for task in todo if not store.claimed(task.key)]
    if mine:
        store.claim([task.key for task in mine])
        store.refresh()
        kept = [task for task in mine if store.has(task.key) or not store.claimed(task.key)]
        if len(kept) < len(mine):
            store.claim([task.key for task in kept])
        mine = kept
    return there, mine, [task for task in todo if task not in mine]


def _perform(
    job: Job, chunk: Chunk, store: Store | None, budget: Budget | None, keep: bool, ready: "Together | None"
) -> Iterator[Outcome]:
    todo = chunk.tasks
    if budget:
        import xarray  # noqa: F401  # a second, which is not the first point's
    ready = together(job, chunk) if ready is None else ready
    for number, task in enumerate(todo):
        if store is not None and store.has(task.key):  # another sweep was faster
            yield Outcome(task.index, None)
            continue
        began = time.perf_counter()
        problem, keywords = task.asked or ((job.problem, {}) if task.refused else job.ask(task.here))
        if store is not None and budget is not None and (where := overran(store, task.key)) is not None:
            _record_overrun(job, task, problem, store, budget, where)
            yield Outcome(task.index, None)
            continue
        if ready.points is not None:
            point, seconds = ready.points[number], ready.seconds / len(todo)
        else:
            with _Watch(job, task, problem, store, budget or Budget()):
                point = visit(job, task, problem, keywords)
            seconds = time.perf_counter() - began
        data = None
        if keep or store is not None:
            data = encode(stamped(job, task, problem, point, seconds))
        if store is not None and data is not None:
            store.write(task.key, data)
        yield Outcome(task.index, point, data if keep else None)
    relieve()


def packed(job: Job) -> bytes:
    """A job for other processes."""
    from distributed.protocol.pickle import dumps

    return dumps(job)


@functools.lru_cache(maxsize=4)
def _unpacked(data: bytes) -> Job:
    """A job in a worker, the same object for all chunks: what is compiled for its functions serves them all."""
    from distributed.protocol.pickle import loads

    return loads(data)


@double
def perform_all(
    data: bytes, chunk: Chunk, place: tuple[str, str] | None, budget: Budget, asking: dict[str, Any] | None = None
) -> list[Outcome]:
    """The same in a worker process. A worker that does not see the store sends back what has to be stored.

    ``asking`` is `makers` where the names of the points were made: other numerics are refused before anything is
    computed. (A worker that does not know this argument is older than it, and refused by Python.)
    """
    job, store = _unpacked(data), _seen(place)
    asking = {"numerics": job.described["numerics_version"]} if asking is None else asking
    _check_makers(asking)
    with _turn, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warn_once(tuple(asking.items()))
        outcomes = list(perform(job, chunk, store, budget, keep=place is not None and store is None))
    warned = tuple(
        {(w.category, str(w.message)): None for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)}
    )
    return [outcomes[0]._replace(warned=warned), *outcomes[1:]] if outcomes else []


def makers() -> dict[str, Any]:
    """What makes numbers here: the numerics version, and those of limitlab and JAX."""
    return {"numerics": identity.NUMERICS_VERSION, **{name: versions()[f"{name}_version"] for name in MAKERS}}


def _check_makers(there: dict[str, Any]) -> None:
    """Refuse to compute points for a program whose numbers are of another version: they would have its names."""
    here = makers()
    if there.get("numerics") != here["numerics"]:
        raise EngineError(
            f"The worker on {socket.gethostname()} has numerics version {here['numerics']} (limitlab "
            f"{here['limitlab']}), and this sweep {there.get('numerics')} (limitlab {there.get('limitlab')}). Nothing "
            "of that worker is stored. Install one limitlab on both sides, start the worker again, and run again."
        )


@functools.cache
def _warn_once(asking: tuple[tuple[str, Any], ...]) -> None:
    here = makers()
    other = [f"{name} {here[name]} instead of {there}" for name, there in asking if here.get(name) != there]
    if other:
        words = f"The worker on {socket.gethostname()} has {', '.join(other)}: last digits may differ."
        warnings.warn(words, UserWarning, stacklevel=2)


def _seen(place: tuple[str, str] | None) -> Store | None:
    """The store, if this machine has the very same folder; kept from chunk to chunk, with what it knows."""
    if place is None or not (Path(place[0]) / MARKER).exists():
        return None
    try:
        if _store_at(place).gone():
            _store_at.cache_clear()
        return _store_at(place) if _store_at(place).id == place[1] else None
    except LimitlabError:
        return None


@functools.lru_cache(maxsize=1)
def _store_at(place: tuple[str, str]) -> Store:
    return Store(place[0], create=False)


class Together(NamedTuple):
    """Points of one compiled call, or None if it has to be one by one, and the seconds that it took."""

    points: list[Point] | None
    seconds: float


@double
def together(job: Job, chunk: Chunk) -> Together:
    """All points of a chunk in one compiled call, filled up to its width with copies."""
    if not chunk.width or not chunk.tasks:
        return Together(None, 0.0)
    began = time.perf_counter()
    try:
        asked = [task.asked or job.ask(task.here) for task in chunk.tasks]
        asked += [asked[-1]] * (chunk.width - len(asked))
        seeds = [task.seed or 0 for task in chunk.tasks]
        seeds += [seeds[-1]] * (chunk.width - len(seeds))
        keywords = {name: value for name, value in asked[0][1].items() if name != "seed" or not job.seeded}
        points = family(job.verb, job.name, [problem for problem, _ in asked], seeds, keywords)[: len(chunk.tasks)]
    except (LimitlabError, TypeError, ValueError):
        points = None  # one of them is refused: one by one it is said which
    return Together(points, time.perf_counter() - began)


class _Watch:
    """Ends this process when a point takes more time or memory than it may, after writing down that it did.

    Compiled code cannot be interrupted from inside, so the process goes; another takes its place and finds the point
    already recorded. Code that keeps Python's lock (a long regular expression, an extension) does not even let the
    thread of this object look at the clock: then the system's own clock ends the process, which has no time to record
    anything but where it was, in a file that the next process finds.
    """

    def __init__(self, job: Job, task: Task, problem: Problem, store: Store | None, budget: Budget):
        self._job, self._task, self._problem, self._store, self._budget = job, task, problem, store, budget
        self._done, self._stack = threading.Event(), contextlib.ExitStack()

    def __enter__(self) -> None:
        if self._budget:
            threading.Thread(target=self._look, daemon=True).start()
        if self._budget.seconds is not None:
            if self._store is not None:
                note = self._stack.enter_context(overrun_noted(self._store, self._task.key))
            else:  # elsewhere: all that it can do for the others is to go
                note = self._stack.enter_context(open(os.devnull, "w")).fileno()
            faulthandler.dump_traceback_later(self._budget.seconds + GRACE, exit=True, file=note)
            self._stack.callback(faulthandler.cancel_dump_traceback_later)

    def __exit__(self, *_: Any) -> None:
        self._stack.close()
        self._done.set()

    def _look(self) -> None:
        began = time.monotonic()
        while not self._done.wait(LOOK):
            took, holds = time.monotonic() - began, resident()
            seconds, memory = self._budget.seconds, self._budget.memory
            if seconds is not None and took > seconds:
                self._end("out_of_time", f"took more than the {seconds:g} seconds of its budget", took)
            if memory is not None and holds > memory:
                self._end("out_of_memory", f"its process held {holds:.3g} bytes; its budget is {memory:.3g}", took)

    def _end(self, failure: str, reason: str, took: float) -> None:
        """Record, then go, even if the point ends meanwhile: what is recorded is what everybody sees."""
        point = Point(reason=f"OverBudget: {reason}. Raise the budget and retry.", failure=failure)
        try:
            if self._store is not None:
                self._store.write(self._task.key, stamped(self._job, self._task, self._problem, point, took))
        finally:
            os._exit(OVER_BUDGET)


def _record_overrun(job: Job, task: Task, problem: Problem, store: Store, budget: Budget, where: str) -> None:
    """Record a point with which a process was ended by the system's clock."""
    took = budget.seconds or 0.0
    words = f"took more than the {took:g} seconds of its budget without letting Python look at the clock{where}"
    point = Point(reason=f"OverBudget: {words}. Raise the budget and retry.", failure="out_of_time")
    store.write(task.key, stamped(job, task, problem, point, took))
    forget_overrun(store, task.key)
