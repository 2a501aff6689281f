"""Where points are computed: in this process, in local processes, or on a dask cluster.

dask is imported only when processes are asked for. The scheduler of local processes lives in this one; the workers are
programs of their own, so that a script needs no ``if __name__ == "__main__"``, and Ctrl-C reaches this process alone.
They talk on the loopback only, and only to those who have the keys of the run.
"""

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from limitlab.errors import EngineError, InputError
from limitlab.results.points import Point, families_of
from limitlab.sweep.engine.keys import FILES, keys_in
from limitlab.sweep.engine.tally import Tally
from limitlab.sweep.engine.work import Budget, Chunk, Outcome, makers, packed, perform, perform_all, together
from limitlab.sweep.job import Job
from limitlab.sweep.storage.store import Store
from limitlab.text import printable

__all__ = ["Cluster", "cluster", "in_process", "on_cluster"]

AHEAD = 3  # chunks handed out per worker thread: enough to keep it busy, few enough for any scheduler
PATIENCE = 120.0  # seconds without any worker before a sweep gives up
DEADLY = 3  # times that dask gives a point up (after four deaths each) before it is recorded as killed
RESTARTS = 20  # of local workers whose program was killed
STILLBORN = 3  # times that the program ends while there is no worker
LAST_LINES, LAST_LETTERS = 12, 300  # of what the program said, in an error
TRACE = ("Traceback (", "The above exception ", "During handling of ")  # lines of dask's own that say nothing


def in_process(job: Job, chunks: list[Chunk], store: Store | None, tally: Tally) -> Iterator[Outcome]:
    """One after the other, here; where a verb says that it may, compiled calls of many points run ahead in threads.

    Predictions do, and share the processors. Simulations do not: factorisations of many matrices in two threads can
    wait for each other for ever (each holds a thread of XLA's pool).
    """
    cores, families = os.cpu_count() or 1, families_of(job.verb)
    with ThreadPoolExecutor(cores) as pool:
        calls: dict[int, Future] = {}
        for number, chunk in enumerate(chunks):
            tally.running = len(chunk.tasks) if chunk.width else 1
            tally.tell()
            if number > 0 and families is not None and families.threads:  # the first call compiles for all
                for ahead in range(number, min(number + 2 * cores, len(chunks))):
                    if chunks[ahead].width and ahead not in calls:
                        calls[ahead] = pool.submit(together, job, chunks[ahead])
            try:
                yield from perform(job, chunk, store, ready=calls[number].result() if number in calls else None)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            calls.pop(number, None)
    tally.running = 0


class Cluster(NamedTuple):
    """A dask client, and the local workers that were started for it, if any."""

    client: Any
    workers: "_LocalWorkers | None" = None


@contextlib.contextmanager
def cluster(workers: int | None, scheduler: Any) -> Iterator[Cluster]:
    """A dask client: one that is open already, of a scheduler by its address or cluster, or of new local processes."""
    try:
        import dask
        import distributed
    except ImportError as error:
        raise EngineError("Sweeps in several processes need dask. Install it: pip install distributed.") from error
    if scheduler is not None and not isinstance(scheduler, str):
        if isinstance(scheduler, distributed.Client):
            yield Cluster(scheduler)
            return
        if not isinstance(getattr(scheduler, "scheduler_address", None), str):  # as a dask cluster has
            raise InputError(f"sweep.scheduler must be an address, a dask client or a dask cluster; got {scheduler!r}.")
        # With the keys of its cluster. A client is nobody's default: one that failed would stay it, and xarray asks the
        # default for a lock when it writes a file.
        with _quietly_closed(distributed.Client(scheduler, set_as_default=False)) as client:
            yield Cluster(client)
        return
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is said by the sweep itself
    with contextlib.ExitStack() as stack:
        if scheduler is not None:
            try:
                asked = distributed.Client(scheduler, timeout=20, set_as_default=False)
                client = stack.enter_context(_quietly_closed(asked))
            except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
                keys = " It may want a certificate, or another one: give --tls-ca-file, --tls-cert and --tls-key."
                if isinstance(error, TypeError):  # nobody was asked
                    raise EngineError(
                        f"{scheduler} cannot be reached without certificates. Give --tls-ca-file, --tls-cert and "
                        "--tls-key; in Python, Client(address, security=Security(...)) as the scheduler."
                    ) from error
                raise EngineError(
                    f"No dask scheduler answers at {scheduler} ({type(error).__name__}). Start one with dask "
                    "scheduler, and give the address that it prints, such as tls://host:8786." + keys
                ) from error
            yield Cluster(client)
            return
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="limitlab-", ignore_cleanup_errors=True))
        security = keys_in(scratch)
        # By itself dask works in a folder of /tmp that all users share, and looks for modules there first.
        with dask.config.set({"distributed.scheduler.http.routes": [], "temporary-directory": scratch}):
            local = distributed.LocalCluster(
                n_workers=0,
                processes=True,
                host="127.0.0.1",
                protocol="tls://",
                security=security,
                scheduler_port=0,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
            )
        stack.callback(_quietly, local.close, timeout=10)
        sys.path[:] = [path for path in sys.path if not path.startswith(scratch)]
        asked = distributed.Client(local, security=security, set_as_default=False)
        client = stack.enter_context(_quietly_closed(asked))
        yield Cluster(client, stack.enter_context(_LocalWorkers(workers or 1, local.scheduler_address, scratch)))


# Bytes that a worker may keep for its next array. dask would have every larger piece than 64 kB given back at once, and
# the pages of arrays made anew each time: twice the processor time. These are the sizes that glibc itself grows to.
KEPT = {"MALLOC_MMAP_THRESHOLD_": 2**25, "MALLOC_TRIM_THRESHOLD_": 2**26}


class _LocalWorkers:
    """A program that keeps workers for a scheduler on this machine, each with its share of the processors.

    The program starts a worker again that was killed; a thread here starts the program again if that was. It finds
    modules as this program does, but not first in the current folder: what lies there is not run by its name.
    """

    def __init__(self, count: int, address: str, scratch: str):
        self._count, self._address, self._scratch, self._closing = count, address, scratch, threading.Event()
        self._said: deque[str] = deque(maxlen=LAST_LINES)
        self._ended = 0
        self._program = self._start()

    def __enter__(self) -> "_LocalWorkers":
        threading.Thread(target=self._keep, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._closing.set()
        self._program.terminate()
        try:
            self._program.wait(timeout=5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._program.pid, 9)

    def _keep(self) -> None:
        for _ in range(RESTARTS):
            self._program.wait()
            if self._closing.wait(0.5):
                return
            self._ended += 1
            self._program = self._start()

    def check(self, threads: int) -> None:
        """Raise if the program ends again and again before it has a worker: it is of no use to wait for one."""
        if threads:
            self._ended = 0
        elif self._ended >= STILLBORN:
            said = printable("\n".join(self._said) or "nothing")
            raise EngineError(
                f"The workers end as soon as they start, and say at last:\n{said}\nEverything stored is kept. Remove "
                "the cause, and run again."
            )

    def _listen(self, program: subprocess.Popen) -> None:
        with program.stderr or contextlib.nullcontext(()) as lines:
            for line in lines:
                told = line.decode("utf-8", "replace").rstrip()[:LAST_LETTERS]
                # Where an error came from is long, and would push away what a worker said before its keeper gave up.
                if told and not told[0].isspace() and not told.startswith(TRACE):
                    self._said.append(told)

    def _start(self) -> subprocess.Popen:
        share = max(1, (os.cpu_count() or 1) // self._count)
        settings = {
            **os.environ,
            "NPROC": str(share),  # threads of XLA
            "OMP_NUM_THREADS": str(share),
            "OPENBLAS_NUM_THREADS": str(share),
            **{name: os.environ.get(name, str(size)) for name, size in KEPT.items()},
            "PYTHONPATH": _own_paths(),
            "DASK_LOGGING__DISTRIBUTED": "error",
            "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
        }
        own = Path(__file__).parents[2]
        paths = [os.path.abspath(path) for path in sys.path]
        program = PROGRAM.format(paths=paths, origin=str(own / "__init__.py"), root=str(own.parent))
        words = ["-P", "-c", program, self._address, "--nworkers", str(self._count), "--nthreads", "1"]
        words += ["--memory-limit", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        words += ["--death-timeout", "30", "--host", "127.0.0.1", "--local-directory", self._scratch]
        cert, key = (os.path.join(self._scratch, name) for name in FILES)
        words += ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        started = subprocess.Popen(
            [sys.executable, *words], env=settings, stdin=quiet, stdout=quiet, stderr=pipe, start_new_session=True
        )
        threading.Thread(target=self._listen, args=(started,), daemon=True).start()
        return started


# The worker of dask, with the folders of this program behind those that Python knows by itself.
PROGRAM = """
import importlib.util, sys
sys.path += [path for path in {paths!r} if path not in sys.path]
if getattr(importlib.util.find_spec("limitlab"), "origin", None) != {origin!r}:
    sys.path.insert(0, {root!r})
from distributed.cli.dask_worker import main
main()
"""


def _own_paths() -> str:
    """What the environment says of folders with modules, without the current folder, which an empty name means."""
    said = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(os.path.abspath(path) for path in said if path and not _here(path))


def _here(path: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(os.curdir)


def on_cluster(
    job: Job, chunks: list[Chunk], store: Store | None, tally: Tally, budget: Budget, where: Cluster
) -> Iterator[Outcome]:
    """On the workers of a dask client, the costly chunks first, a few ahead of every worker."""
    client = where.client
    place = None if store is None else (str(store.path), store.id)
    data, asking = packed(job), makers()
    waiting, running, quiet_since = list(reversed(chunks)), {}, time.monotonic()
    rank, deaths = len(waiting), Counter()
    while waiting or running:
        threads = _threads(client)
        quiet_since = time.monotonic() if threads else quiet_since
        if where.workers is not None:
            where.workers.check(threads)
        if not threads and time.monotonic() - quiet_since > PATIENCE:
            raise _no_workers()
        while waiting and len(running) < AHEAD * max(threads, 1):
            chunk, rank = waiting.pop(), rank - 1
            with _talking_to(client):
                words = (data, chunk, place, budget, asking)
                future = client.submit(perform_all, *words, pure=False, priority=rank, retries=0)
            running[future] = chunk
        tally.running = min(threads, len(running))
        tally.say("" if threads else "waiting for workers")
        for future in _finished(client, list(running)):
            chunk = running.pop(future)
            if _killed(future):
                yield from _again(chunk, waiting, deaths)
            else:
                yield from _outcomes(future)
            future.release()
    tally.running = 0


def _finished(client: Any, futures: list) -> list:
    """Futures that have ended, waiting up to half a second for one; a scheduler that is gone is said aloud."""
    import distributed

    if client.status not in ("running", "connecting"):
        raise _gone(client)
    with _talking_to(client), client.as_current(), contextlib.suppress(TimeoutError):
        distributed.wait(futures, timeout=0.5, return_when="FIRST_COMPLETED")
    # One that is lost died with the worker that held it, and is computed again: what it stored is found.
    done = [future for future in futures if future.status not in ("pending", "lost")]
    if any(future.status == "cancelled" for future in done):
        raise _gone(client)
    return done


def _killed(future: Any) -> bool:
    """Whether worker after worker died with this chunk."""
    import distributed

    return future.status == "error" and isinstance(future.exception(), distributed.KilledWorker)


def _again(chunk: Chunk, waiting: list[Chunk], deaths: Counter) -> Iterator[Outcome]:
    """Try the points of a chunk one by one; a point that goes on killing is recorded and left.

    A worker takes down what it was handed besides, so that a first death proves nothing about a point.
    """
    for task in reversed(chunk.tasks):
        deaths[task.key] += 1
        if deaths[task.key] < DEADLY:
            waiting.append(Chunk((task,)))
        else:
            reason = (
                "KilledWorker: every process that tried this point died. Look for memory, or give it a budget; workers "
                "that do not see the store end like this when a point is over its budget."
            )
            yield Outcome(task.index, Point(reason=reason, failure="killed"))


def _outcomes(future: Any) -> Iterator[Outcome]:
    """What a chunk gave; an error (a store that is full, a verb that returns no numbers) is raised here."""
    error, outcomes = None, []
    with _talking_to(future.client):
        try:
            if future.status != "error":
                outcomes = future.result(timeout=PATIENCE)  # computed again if its worker died meanwhile
        except TimeoutError as late:
            raise _no_workers() from late
        except Exception:
            if future.status != "error":
                raise
        error = future.exception() if future.status == "error" else None
    if isinstance(error, TypeError) and f"{perform_all.__name__}()" in str(error):
        raise EngineError(
            "A worker has another limitlab than this program, so old or so new that they do not understand each other. "
            "Nothing of it is stored. Install one limitlab on both sides, start the worker again, and run again."
        ) from error
    if error:
        raise error
    for outcome in outcomes:
        for category, text in outcome.warned:
            warnings.warn(text, category, stacklevel=2)
        yield outcome


def _threads(client: Any) -> int:
    """How many points can run at once."""
    with _talking_to(client):
        return sum(client.nthreads().values())


@contextlib.contextmanager
def _talking_to(client: Any) -> Iterator[None]:
    """What dask raises when its scheduler goes away in the middle of a call is one error of ours."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        if isinstance(error, (OSError, CancelledError)) or client.status != "running":  # a TimeoutError is an OSError
            raise _gone(client) from error
        raise


def _no_workers() -> EngineError:
    return EngineError(
        f"No worker has answered for {PATIENCE:g} seconds. Everything stored is kept. Start workers, and run again."
    )


def _gone(client: Any) -> EngineError:
    address = getattr(getattr(client, "scheduler", None), "address", "?")
    return EngineError(
        f"The dask scheduler at {address} is gone. Everything stored is kept. Start it again, and run the sweep again: "
        "only what is missing is computed."
    )


@contextlib.contextmanager
def _quietly_closed(client: Any) -> Iterator[Any]:
    try:
        yield client
    finally:
        _quietly(client.close, timeout=5)


def _quietly(close: Any, **settings: Any) -> None:
    """Close something that may have gone already."""
    with contextlib.suppress(Exception):
        close(**settings)
