"""A computation beside the main thread, so that Ctrl-C is heard at any moment.

Python hears a signal between two of its own instructions, in the main thread only, and a program that is compiled, or
one long step of it, is a single instruction. So the main thread waits, and somebody else computes. What is computed,
and by which settings of JAX, is the same; a function of the user's that is told how far it is runs where it did before.
"""

import atexit
import contextlib
import contextvars
import ctypes
import os
import queue
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["aside", "computing"]

PATIENCE = 0.5  # seconds that are left to the computation to end in good order when it is stopped
AGAIN = 0.05  # seconds between two requests to stop: one may be lost where Python cannot raise
INTERRUPTED = 130  # exit code of a process that Ctrl-C ended
IMPORTER = "<frozen importlib._bootstrap>"
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

_left: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()  # alone, and may still compute
_beside: dict[int, int] = {}  # a thread that waits -> the one that computes for it


def computing(thread: int) -> int:
    """The thread in which is computed what this one waits for: another one, or itself."""
    return _beside.get(thread, thread)


class _Ended(Generic[T]):
    """How a computation ended: with a value or an error, or ``not begun`` since its thread has other settings."""

    def __init__(self, value: Any = None, error: BaseException | None = None, begun: bool = True):
        self.value: T = value
        self.error, self.begun = error, begun


def aside(compute: Callable[[Told | None], T], told: Told | None) -> T:
    """What ``compute(told)`` returns or raises, computed beside the main thread if this is it.

    ``told`` is called in this thread. When Ctrl-C comes, KeyboardInterrupt is raised there as well, and the call ends
    after half a second at the most: what cannot be interrupted goes on by itself to its next line of Python.
    """
    if not _worthwhile():
        return compute(told)
    work = _Work(compute, told)
    try:
        ended = work.result()
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


def _leave() -> None:
    """When Python ends it waits for a thread that was left alone, until Ctrl-C comes again: that thread would crash
    while Python takes itself apart. So the process ends here."""
    if any(thread.is_alive() for thread in _left):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, or nobody reads
                stream.flush()
        os._exit(INTERRUPTED)


def _imports(thread: int) -> bool:
    """Whether a thread is importing now, by the functions that it is in."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename == IMPORTER:
            return True
        frame = frame.f_back
    return False


class _Work(Generic[T]):
    """A thread that computes, and the two letter boxes between it and the one that waits."""

    def __init__(self, compute: Callable[[Told | None], T], told: Told | None):
        self._compute, self._told, self._given_up = compute, told, False
        self._to_main: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._to_work: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._settings, self._over = _settings(), threading.Event()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._run,), name="limitlab", daemon=False
        )

    def result(self) -> _Ended[T]:
        """How the work ends; what it tells meanwhile is told."""
        here = threading.get_ident()
        try:
            self._thread.start()
            _beside[here] = self._thread.ident or here
            while not isinstance(letter := self._to_main.get(), _Ended):
                self._to_work.put(self._heard(letter))
            self._thread.join()
            return letter
        finally:
            _beside.pop(here, None)

    def _heard(self, letter: tuple[int, int, str]) -> BaseException | None:
        """What the user's function raises ends the work, which hands it back."""
        try:
            if self._told is not None:
                self._told(*letter)
        except BaseException as error:
            return error
        return None

    def give_up(self) -> None:
        """Ask the work to stop, for a moment; who does not hear is left alone.

        Nor is an import interrupted: a library that is half loaded stays so.
        """
        self._given_up = True
        _left.add(self._thread)
        atexit.unregister(_leave)
        atexit.register(_leave)  # the last to come is the first to be called, before JAX takes itself apart
        self._to_work.put(KeyboardInterrupt())
        until = time.monotonic() + PATIENCE
        while not self._over.is_set() and time.monotonic() < until:
            ident = self._thread.ident or 0
            if not _imports(ident):
                error = ctypes.py_object(KeyboardInterrupt)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), error)
            self._over.wait(AGAIN)  # Python takes a thread for dead whose `join` is interrupted

    def _run(self) -> None:
        with contextlib.suppress(KeyboardInterrupt):  # one that comes too late has nobody to tell
            try:
                self._to_main.put(self._ended())
            finally:
                self._over.set()

    def _ended(self) -> _Ended[T]:
        if _settings() != self._settings:
            return _Ended(begun=False)
        try:
            return _Ended(self._compute(None if self._told is None else self._tell))
        except BaseException as error:
            return _Ended(error=error)

    def _tell(self, done: int, total: int, label: str) -> None:
        if not self._given_up:
            self._to_main.put((done, total, label))
            error = self._to_work.get()
            if error is not None:
                raise error
        if self._given_up:
            raise KeyboardInterrupt
