"""The service: workers, who comes next, and what is already known.

Everything here runs on one asyncio loop and computes nothing. A worker that dies, or is killed because it did not heed
a cancel in the middle of compiled code, is replaced.
"""

import asyncio
import contextlib
import os
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from limitlab.errors import InputError, LimitlabError
from limitlab.jobs.answers import from_bytes
from limitlab.jobs.frames import LENGTHS, Frame, lengths, pack, unpacked
from limitlab.jobs.requests import Request
from limitlab.numerics.machine import resident

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["BusyError", "Job", "Service"]

ENDED = ("done", "cancelled", "failed", "died")
GRACE = 0.7  # seconds that a cancelled verb has until it next tells its progress
PATIENCE = 20.0  # the same of theory: what it compiles serves the next question too
ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a worker has a core; threads that wait would spin
LOOK = 1.0  # seconds between two looks at the memory of workers that are at work
AT_WORK = 1.5  # times the memory of an idle worker that one may have while it computes
START = 60.0  # seconds that a new worker has until it is ready


class BusyError(LimitlabError):
    """The queue is full."""


class Job:
    """What became of a request, for one visitor.

    Attributes
    ----------
    status
        "queued", "running", then "done", "cancelled", "failed" (with ``words``), or "died" (its worker did).
    share, label
        How much of it is done, and what is being done.
    answer
        A table, of verbs that give no Dataset.
    cached
        Whether the answer was known already.
    arrived
        How many results have come so far: more than before if ``result`` is new.
    """

    def __init__(self, request: Request, visitor: str, slot: str, watch: "Callable[[Job], None] | None"):
        self.request, self.visitor, self.slot = request, visitor, slot
        self.status, self.share, self.label, self.words, self.kind = "queued", 0.0, "", "", ""
        self.warned: tuple[str, ...] = ()
        self.answer: dict[str, Any] | None = None
        self.cached, self.partial = False, False
        self.arrived = 0
        self._data, self._watch, self._ended = b"", watch, asyncio.Event()

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def result(self) -> "xr.Dataset | None":
        """The Dataset, or what there is of it so far (``partial``); None if there is none."""
        return from_bytes(self._data) if self._data else None

    async def wait(self) -> "Job":
        """Until it has ended, whichever way."""
        await self._ended.wait()
        return self

    def _tell(self, **changes: Any) -> None:
        if self.ended:
            return
        for name, value in changes.items():
            setattr(self, name, value)
        self.arrived += "_data" in changes
        if self.ended:
            self._ended.set()
        if self._watch is not None:
            self._watch(self)


class _Task:
    """A request that is to be computed once, for all jobs that wait for it."""

    def __init__(self, request: Request, number: int, slow: bool = False):
        self.request, self.number, self.slow = request, number, slow or request.heavy
        self.jobs: list[Job] = []
        self.worker: _Worker | None = None

    def tell(self, **changes: Any) -> None:
        for job in list(self.jobs):
            job._tell(**changes)


class _Worker:
    """A process, and the task that it is at."""

    def __init__(self, light: bool):
        self.light, self.ready = light, False
        self.task: _Task | None = None
        self.process: Any = None
        self.why = ""  # it was ended by the service
        self.reading: asyncio.Task | None = None
        self.warming: deque[_Task] = deque()


class Service:
    """Workers, a queue and a cache; ``async with Service() as service: ...``.

    Parameters
    ----------
    workers
        Processes; None: one per core. With two or more, one takes no long runs, so that theory is never kept waiting.
    queue
        Requests that may wait, of all visitors together; one visitor may have a quarter of them. A page asks up to six
        at once: so twenty visitors have room.
    memory
        Bytes above which a worker is replaced once it is idle; one that takes half as much again while it computes is
        ended, and its job says so.
    cache
        Bytes of answers that are kept.
    warm
        Requests that every worker does at its start, so that the first visitor does not wait for compilers.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        queue: int = 256,
        memory: int = 3 << 30,
        cache: int = 256 << 20,
        warm: tuple[Request, ...] = (),
    ):
        count = os.cpu_count() or 1 if workers is None else workers
        self._workers = [_Worker(light=i == 0 and count > 1) for i in range(count)]
        self._queue, self._memory, self._room, self._warm = queue, memory, cache, warm
        self._waiting: OrderedDict[str, deque[_Task]] = OrderedDict()  # by visitor; the first one's turn is next
        self._tasks: dict[str, _Task] = {}  # by key: queued or at work
        self._known: OrderedDict[str, Frame] = OrderedDict()
        self._number, self._open = 0, False
        self._looking: asyncio.Task | None = None

    # --- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "Service":
        self._open = True
        await asyncio.gather(*(self._start(worker) for worker in self._workers))
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._open = False
        if self._looking is not None:
            self._looking.cancel()
        for task in list(self._tasks.values()):
            task.tell(status="cancelled")
        for worker in self._workers:
            if worker.process is not None and worker.process.returncode is None:
                worker.process.kill()
        await asyncio.gather(*(worker.reading for worker in self._workers if worker.reading is not None))

    @property
    def pids(self) -> list[int]:
        """Of the workers that are there."""
        return [w.process.pid for w in self._workers if w.process is not None and w.process.returncode is None]

    @property
    def warm(self) -> bool:
        """Whether every worker is ready."""
        return all(worker.ready and not worker.warming for worker in self._workers)

    async def _start(self, worker: _Worker) -> None:
        worker.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "limitlab.jobs.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 20,
            env={**ALONE, **os.environ},
        )
        worker.ready, worker.why = False, ""
        worker.reading = asyncio.create_task(self._read(worker))

    async def _look(self) -> None:
        """End workers that take too much memory while they compute: nobody else would."""
        while True:
            await asyncio.sleep(LOOK)
            for worker in [worker for worker in self._workers if worker.task is not None]:
                if resident(worker.process.pid) > AT_WORK * self._memory and worker.process.returncode is None:
                    worker.why = f"it took more than {AT_WORK * self._memory / (1 << 30):.2g} GB of memory"
                    worker.process.kill()

    async def _read(self, worker: _Worker) -> None:
        """Frames of a worker until it ends; then another one takes its place."""
        stream: Any = worker.process.stdout
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            while True:
                text, data = lengths(await stream.readexactly(LENGTHS.size))
                frame = unpacked(await stream.readexactly(text), await stream.readexactly(data))
                self._heard(worker, frame)
        if worker.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
        code = await worker.process.wait()
        worker.process._transport.close()  # its pipes would else be closed when nobody listens any more
        task, worker.task, was_ready = worker.task, None, worker.ready
        worker.ready = False
        if task is not None:
            self._forget(task)
            words = (
                f"The process that computed this ended ({worker.why or _ending(code)}); another one takes its place."
            )
            words += " Ask for something smaller." if worker.why else " Try again."
            task.tell(status="died", words=words)
        if self._open:
            if not was_ready and task is None:
                await asyncio.sleep(1.0)  # one that cannot even start must not be started without pause
            if self._open:
                await self._start(worker)

    # --- what visitors do -----------------------------------------------------------------------------------------

    def submit(
        self,
        request: Request,
        visitor: str = "",
        watch: Callable[[Job], None] | None = None,
        slot: str = "",
        slow: bool = False,
    ) -> Job:
        """Ask for an answer; ``watch(job)`` is called whenever something new is known.

        A new request takes the place of the visitor's earlier one in the same ``slot`` (unless it is ""). One that is
        ``slow`` is kept away from the worker that answers at once. Raises `BusyError` if too many wait.
        """
        if slot:
            for task in list(self._tasks.values()):
                for job in [job for job in task.jobs if (job.visitor, job.slot) == (visitor, slot)]:
                    if task.request != request:
                        self.cancel(job)
        job = Job(request, visitor, slot, watch)
        known = self._known.get(request.key)
        if known is not None:
            self._known.move_to_end(request.key)
            job.cached = True
            job._tell(**_ended_well(known))
            return job
        task = self._tasks.get(request.key)
        if task is None:
            self._check_room(visitor)
            if any(side not in self._known for side in request.sides):
                raise InputError("A result that is to be compared is not known any more. Compute it again.")
            task = self._tasks[request.key] = self._task(request, slow)
            self._waiting.setdefault(visitor, deque()).append(task)
        task.jobs.append(job)
        if task.worker is not None:
            job._tell(status="running")
        self._next()
        return job

    def cancel(self, job: Job) -> None:
        """The visitor does not want it any more. What others wait for goes on."""
        task = self._tasks.get(job.request.key)
        if job.ended or task is None or job not in task.jobs:
            return
        task.jobs.remove(job)
        job._tell(status="cancelled")
        if task.jobs:
            return
        self._forget(task)
        if task.worker is not None:
            self._send(task.worker, Frame({"do": "cancel", "id": task.number}))
            grace = GRACE if task.request.heavy else PATIENCE
            asyncio.get_running_loop().call_later(grace, self._kill, task.worker, task)

    def known(self, request: Request) -> bool:
        """Whether the answer is there already."""
        return request.key in self._known

    def leave(self, visitor: str) -> None:
        """A visitor is gone: nothing is computed for them any more."""
        for task in list(self._tasks.values()):
            for job in [job for job in task.jobs if job.visitor == visitor]:
                self.cancel(job)

    # --- who is next ----------------------------------------------------------------------------------------------

    def _task(self, request: Request, slow: bool = False) -> _Task:
        self._number += 1
        return _Task(request, self._number, slow)

    def _check_room(self, visitor: str) -> None:
        own = len(self._waiting.get(visitor, ()))
        if sum(map(len, self._waiting.values())) >= self._queue or own >= max(1, self._queue // 4):
            raise BusyError("Too many requests are waiting. Try again in a moment.")

    def _forget(self, task: _Task) -> None:
        if self._tasks.get(task.request.key) is task:
            del self._tasks[task.request.key]
        for queue in self._waiting.values():
            with contextlib.suppress(ValueError):
                queue.remove(task)

    def _next(self) -> None:
        """Give idle workers the next tasks, visitor by visitor."""
        for worker in self._workers:
            if worker.ready and worker.task is None and (task := self._turn(worker)) is not None:
                self._run(worker, task)

    def _turn(self, worker: _Worker) -> _Task | None:
        for visitor in list(self._waiting):
            queue = self._waiting[visitor]
            task = next((task for task in queue if not (worker.light and task.slow)), None)
            if task is not None:
                queue.remove(task)
                self._waiting.move_to_end(visitor)  # the others come first now
            if not queue:
                del self._waiting[visitor]
            if task is not None:
                return task
        return worker.warming.popleft() if worker.warming else None  # visitors come first

    def _run(self, worker: _Worker, task: _Task) -> None:
        worker.task, task.worker = task, worker
        request = task.request
        head = {"do": "run", "id": task.number, "verb": request.verb, "problem": request.problem}
        head["arguments"], data = request.arguments, request.data
        if request.sides:
            sides = [self._known[side].data for side in request.sides]
            head["first"], data = len(sides[0]), b"".join(sides)
        self._send(worker, Frame(head, data))
        task.tell(status="running")

    def _send(self, worker: _Worker, frame: Frame) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            worker.process.stdin.write(pack(frame))

    def _kill(self, worker: _Worker, task: _Task) -> None:
        """A cancel was not heeded in time: the worker is in the middle of compiled code."""
        if worker.task is task and worker.process.returncode is None:
            worker.process.kill()

    # --- what workers say -----------------------------------------------------------------------------------------

    def _heard(self, worker: _Worker, frame: Frame) -> None:
        said, task = frame.head.get("said"), worker.task
        if said == "ready":
            worker.ready = True
            worker.warming = deque(map(self._task, self._warm))
        elif task is None or frame.head.get("id") != task.number:
            return
        elif said == "progress":
            task.tell(share=float(frame.head["share"]), label=str(frame.head["label"]))
        elif said == "partial":
            task.tell(_data=frame.data, partial=True)
        else:
            self._finished(worker, task, frame)
        self._next()

    def _finished(self, worker: _Worker, task: _Task, frame: Frame) -> None:
        worker.task = None
        self._forget(task)
        if frame.head["said"] == "done":
            self._keep(task.request.key, frame)
            task.tell(**_ended_well(frame))
        elif frame.head["said"] == "failed":
            task.tell(status="failed", words=str(frame.head["words"]), kind=str(frame.head["kind"]))
        if int(frame.head.get("memory", 0)) > self._memory:
            worker.ready = False
            worker.process.stdin.close()  # it ends by itself, and another one takes its place

    def _keep(self, key: str, frame: Frame) -> None:
        self._known[key] = frame
        while len(self._known) > 1 and sum(len(f.data) + 1000 for f in self._known.values()) > self._room:
            self._known.popitem(last=False)


def _ended_well(frame: Frame) -> dict[str, Any]:
    return {
        "_data": frame.data,
        "answer": frame.head.get("answer"),
        "warned": tuple(frame.head.get("warned", ())),
        "partial": False,
        "share": 1.0,
        "status": "done",
    }


def _ending(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
