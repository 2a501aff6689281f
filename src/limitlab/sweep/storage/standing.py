"""How a store stands, without JAX: which runs into it are alive, and how much of its sweeps is there."""

import socket
import time
from typing import Any, NamedTuple

from limitlab.results.points import Point
from limitlab.sweep.storage.files.life import alive
from limitlab.sweep.storage.store import Store, number_of
from limitlab.verbs import Progress

__all__ = ["Standing", "look", "standing", "state_of"]

SILENT = 60.0  # seconds after which a run on another machine is taken for gone


def state_of(record: dict[str, Any], silent: float = SILENT) -> str:
    """How a run stands: running, finished, interrupted, stopped, or "gone" if nobody is there to say how it ended."""
    state = str(record.get("state", "gone"))
    if state != "running":
        return state
    if record.get("host") == socket.gethostname():
        return "running" if alive(record.get("process"), number_of(record.get("began"))) else "gone"
    return "running" if time.time() - number_of(record.get("updated")) <= silent else "gone"


class Standing(NamedTuple):
    """How much of a sweep is in its store."""

    total: int
    present: int
    failed: int


def standing(store: Store, name: str, progress: Progress | None = None) -> Standing:
    """Points of a sweep: all, there, and failed (as the last run counted them; read again if no run says so)."""
    keys = store.keys_of(name)
    there = [key for key in keys if store.has(key)]
    mine = [record for record in store.runs().values() if record.get("sweep") == name]
    if mine and mine[-1].get("total") == len(keys) and isinstance(mine[-1].get("failed"), int):
        return Standing(len(keys), len(there), mine[-1]["failed"])
    failed = 0
    for number, key in enumerate(there):
        point = store.peek(key)
        failed += isinstance(point, Point) and point.failed
        if progress is not None:
            progress(number + 1, len(there), "reading points")
    return Standing(len(keys), len(there), failed)


def look(store: Store) -> dict[str, tuple[str, dict[str, Any]]]:
    """The runs into a store by name, each with its state and its record; the latest last."""
    return {name: (state_of(record), record) for name, record in store.runs().items()}
