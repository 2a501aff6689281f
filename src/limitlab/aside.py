"""A computation beside the main thread, so that Ctrl-C is heard at any moment.

Python hears a signal between two of its own instructions, in the main thread only, and a program that is compiled, or
one long step of it, is a single instruction. So the main thread waits, and somebody else computes. What is computed,
and by which settings of JAX, is the same; a function of the user's that is told how far it is runs where it did before.
"""

import contextlib
import contextvars
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["aside", "has_company"]

PATIENCE = 0.5  # seconds that are left to the computation to end in good order when it is stopped
AGAIN = 0.05  # seconds between two requests to stop: one may be lost where Python cannot raise
LOOK = 0.25  # seconds between two looks around where waiting cannot be interrupted
SETTINGS = (  # of JAX, which a user may have changed for this thread alone
    "jax_enable_x64",
    "jax_default_device",
    "jax_disable_jit",
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_check_tracer_leaks",
    "jax_log_compiles",
    "jax_enable_checks",
)

T = TypeVar("T")
Told = Callable[[int, int, str], object]

_workers: list[threading.Thread] = []


class _Ended:
    """How a computation ended: with a value or an error, or ``not begun`` since its thread has other settings."""

    def __init__(self, value: Any = None, error: BaseException | None = None, begun: bool = True):
        self.value, self.error, self.begun = value, error, begun


def has_company() -> bool:
    """Whether a computation that was given up is still in a step that cannot be interrupted."""
    _workers[:] = [worker for worker in _workers if worker.is_alive()]
    return bool(_workers)


def aside(compute: Callable[[Told | None], T], told: Told | None) -> T:
    """What ``compute(told)`` returns or raises, computed beside the main thread if this is it.

    ``told`` is called in this thread. When Ctrl-C comes, KeyboardInterrupt is raised there as well, and the call ends
    after half a second at the most: what cannot be interrupted goes on by itself to its next line of Python.
    """
    if not _worthwhile():
        return compute(told)
    work = _Work(compute, told)
    try:
        ended = work.wait()
    except BaseException:
        work.give_up()
        raise
    if not ended.begun:
        return compute(told)
    if ended.error is not None:
        raise ended.error
    return ended.value


def _worthwhile() -> bool:
    """Only the main thread hears signals; who watches it line by line (a debugger, a profiler) is to see all of it."""
    watched = sys.gettrace() is not None or sys.getprofile() is not None
    alone = threading.current_thread() is threading.main_thread()
    return alone and not watched and callable(signal.getsignal(signal.SIGINT))


def _settings() -> list[Any]:
    jax = sys.modules.get("jax")
    return [] if jax is None else [getattr(jax.config, name, None) for name in SETTINGS]


class _Work:
    """A thread that computes, and the two letter boxes between it and the one that waits."""

    def __init__(self, compute: Callable[[Told | None], Any], told: Told | None):
        self._compute, self._told, self._given_up = compute, told, False
        self._to_main: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._to_work: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._settings = _settings()
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="limitlab", daemon=False)
        self._thread.start()

    def wait(self) -> _Ended:
        """Tell what is to be told until the work has ended."""
        while True:
            try:
                letter = self._to_main.get(timeout=LOOK)
            except queue.Empty:
                continue
            if isinstance(letter, _Ended):
                self._thread.join()
                return letter
            try:
                assert self._told is not None
                self._told(*letter)
            except BaseException as error:  # it ends the work, which hands it back
                self._to_work.put(error)
            else:
                self._to_work.put(None)

    def give_up(self) -> None:
        """Ask the work to stop, for a moment; who does not hear is left alone."""
        import ctypes

        self._given_up = True
        self._to_work.put(KeyboardInterrupt())
        until = time.monotonic() + PATIENCE
        while self._thread.is_alive() and time.monotonic() < until:
            ident = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(KeyboardInterrupt))
            self._thread.join(AGAIN)
        if self._thread.is_alive():
            _workers.append(self._thread)

    def _run(self) -> None:
        with contextlib.suppress(KeyboardInterrupt):  # one that comes too late has nobody to tell
            if _settings() != self._settings:
                self._to_main.put(_Ended(begun=False))
                return
            try:
                ended = _Ended(self._compute(None if self._told is None else self._tell))
            except BaseException as error:
                ended = _Ended(error=error)
            self._to_main.put(ended)

    def _tell(self, done: int, total: int, label: str) -> None:
        if not self._given_up:
            self._to_main.put((done, total, label))
            error = self._to_work.get()
            if error is not None:
                raise error
        if self._given_up:
            raise KeyboardInterrupt
