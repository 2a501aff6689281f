"""Being stopped: Ctrl-C, the kill of a batch system (SIGTERM), a terminal that is closed (SIGHUP): all the same."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["stoppable"]

PATIENCE = 15.0  # seconds in which a second Ctrl-C does not disturb the clean-up after the first


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """KeyboardInterrupt on any of them. Several may come, or one twice: cleaning up goes on undisturbed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopped: float | None = None

    def stop(*_: Any) -> None:
        nonlocal stopped
        now = time.monotonic()
        if stopped is None or now - stopped > PATIENCE:
            stopped = now
            raise KeyboardInterrupt

    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    if hasattr(signal, "SIGHUP"):
        usual[signal.SIGHUP] = signal.SIG_DFL
    before = {number: signal.getsignal(number) for number in usual}
    mine = [number for number, handler in usual.items() if before[number] is handler]  # nohup and others have theirs
    for number in mine:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, before[number])
