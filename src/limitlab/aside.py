"""A computation beside the main thread, so that Ctrl-C is heard at any moment.

Python hears a signal between two of its own instructions, in the main thread only, and a program that is compiled, or
one long step of it, is a single instruction. So the main thread waits, and somebody else computes. What is computed,
and by which settings of JAX, is the same; a function of the user's that is told how far it is runs where it did before.
"""

import contextlib
import contextvars
import ctypes
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["aside"]

PATIENCE = 0.5  # seconds that are left to the computation to end in good order when it is stopped
AGAIN = 0.05  # seconds between two requests to stop: one may be lost where Python cannot raise
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


class _Work(Generic[T]):
    """A thread that computes, and the two letter boxes between it and the one that waits."""

    def __init__(self, compute: Callable[[Told | None], T], told: Told | None):
        self._compute, self._told, self._given_up = compute, told, False
        self._to_main: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._to_work: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._settings = _settings()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._run,), name="limitlab", daemon=False
        )

    def result(self) -> _Ended[T]:
        """How the work ends; what it tells meanwhile is told."""
        self._thread.start()
        while not isinstance(letter := self._to_main.get(), _Ended):
            self._to_work.put(self._heard(letter))
        self._thread.join()
        return letter

    def _heard(self, letter: tuple[int, int, str]) -> BaseException | None:
        """What the user's function raises ends the work, which hands it back."""
        try:
            if self._told is not None:
                self._told(*letter)
        except BaseException as error:
            return error
        return None

    def give_up(self) -> None:
        """Ask the work to stop, for a moment; who does not hear is left alone."""
        self._given_up = True
        self._to_work.put(KeyboardInterrupt())
        until = time.monotonic() + PATIENCE
        while self._thread.is_alive() and time.monotonic() < until:
            ident = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(KeyboardInterrupt))
            self._thread.join(AGAIN)

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
