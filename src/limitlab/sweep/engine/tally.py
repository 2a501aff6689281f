"""How far a sweep is: counted as it goes, told to whoever watches, written down for `limitlab status`."""

import os
import secrets
import socket
import time
from typing import Any

from limitlab.errors import ResultFileError
from limitlab.sweep.storage.store import Store
from limitlab.verbs import Progress, logger

__all__ = ["Tally"]

EVERY = 1.0  # seconds between two records of a run


class Tally:
    """Counts of points: there already, done now, failed, running."""

    def __init__(self, name: str, sweep: str, total: int, store: Store | None, progress: Progress | None):
        self.name, self.total, self.found, self.done, self.failed, self.running = name, total, 0, 0, 0, 0
        self._sweep, self._store, self._progress = sweep, store, progress
        self._run = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
        self._began, self._clock, self._written = time.time(), time.monotonic(), -EVERY
        self._state, self._note = "running", ""
        self.needed = False  # whether a store that cannot be written to is an error: not if all points are there

    @property
    def rate(self) -> float:
        """Points per second of this run."""
        return self.done / max(time.monotonic() - self._clock, 1e-9)

    @property
    def label(self) -> str:
        words = [f"{self.running} running"] if self.running else []
        words += [f"{self.failed} failed"] if self.failed else []
        words += [f"{self.rate:.3g}/s"] if self.done else []
        return ": ".join([f"sweep of {self.name}", *([", ".join(words)] if words else [])])

    def prepare(self, named: int) -> None:
        """Before the first point: how many of them are known by name. The clock of the rate starts after the last."""
        self._began, self._clock = time.time(), time.monotonic()
        if self._progress is not None:
            self._progress(0, self.total, f"sweep of {self.name}: {named} of {self.total} points named")

    def count(self, failed: bool, found: bool = False) -> None:
        """One more point, found in the store or just done."""
        self.found, self.done, self.failed = self.found + found, self.done + (not found), self.failed + failed
        self.tell()

    def say(self, note: str) -> None:
        """Something that whoever watches should know, such as a wait for workers."""
        if note and note != self._note:
            logger.warning("sweep of %s: %s", self.name, note)
        self._note = note
        self.tell()

    def tell(self, state: str = "running", force: bool = False) -> None:
        if state != "running":
            words = "sweep of %s %s: %d points, %d found, %d done, %d failed"
            logger.info(words, self.name, state, self.total, self.found, self.done, self.failed)
        self._state = state
        if self._progress is not None and state == "running":
            self._progress(self.found + self.done, self.total, self.label + (f" ({self._note})" if self._note else ""))
        now = time.monotonic()  # the time of the day may be set back
        if self._store is not None and (force or now - self._written >= EVERY):
            self._written = now
            try:
                self._store.keep_run(self._run, self.record())
            except ResultFileError:
                if self.needed:
                    raise

    def record(self) -> dict[str, Any]:
        """What `limitlab status` reads."""
        return {
            "sweep": self._sweep,
            "verb": self.name,
            "state": self._state,
            "note": self._note,
            "total": self.total,
            "found": self.found,
            "done": self.done,
            "failed": self.failed,
            "running": self.running if self._state == "running" else 0,
            "began": self._began,
            "updated": time.time(),
            "host": socket.gethostname(),
            "process": os.getpid(),
        }
