"""Being stopped: Ctrl-C, the kill of a batch system (SIGTERM), a terminal that is closed (SIGHUP): all the same."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["Stop", "stoppable"]

PATIENCE = 15.0  # seconds in which a second Ctrl-C does not disturb the clean-up after the first


class Stop:
    """Whether a signal to stop has come.

    Python raises KeyboardInterrupt wherever it happens to be. In a callback of compiled code, or while an object is
    taken apart, it is lost: so work that goes on asks again with `check`.
    """

    def __init__(self) -> None:
        self._when: float | None = None

    def __call__(self, *_: Any) -> None:
        now = time.monotonic()
        if self._when is None or now - self._when > PATIENCE:
            self._when = now
            raise KeyboardInterrupt

    def check(self) -> None:
        if self._when is not None:
            raise KeyboardInterrupt


@contextlib.contextmanager
def stoppable() -> Iterator[Stop]:
    """KeyboardInterrupt on any of them. Several may come, or one twice: cleaning up goes on undisturbed."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    if hasattr(signal, "SIGHUP"):
        usual[signal.SIGHUP] = signal.SIG_DFL
    before = {number: signal.getsignal(number) for number in usual}
    mine = [number for number, handler in usual.items() if before[number] is handler]  # nohup and others have theirs
    for number in mine:
        signal.signal(number, stop)
    try:
        yield stop
    finally:
        for number in mine:
            signal.signal(number, before[number])
