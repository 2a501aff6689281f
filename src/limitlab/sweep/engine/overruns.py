"""Last words of processes that the system's clock ended with a point: in a file of the store, for the next process."""

import contextlib
import os
import re
from collections.abc import Iterator

from limitlab.sweep.storage.store import Store
from limitlab.text import printable

__all__ = ["forget_overrun", "overran", "overrun_noted"]

MAX_WORDS = 1 << 16  # bytes


@contextlib.contextmanager
def overrun_noted(store: Store, key: str) -> Iterator[int]:
    """A file for the last words of a process that is ended with this point; it goes if the process is not."""
    parts = store.folder("parts")
    parts.make()
    forget_overrun(store, key)
    note = parts.open(_name(key), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        yield note
    finally:
        os.close(note)
        forget_overrun(store, key)


def overran(store: Store, key: str) -> str | None:
    """Where a process was when it was ended with this point, in words; None if none was."""
    try:
        said = store.folder("parts").read(_name(key), MAX_WORDS).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    if not said.startswith("Timeout ("):  # it still runs, or was killed by somebody else
        return None
    own = next((thread for thread in said.split("\n\n") if " in visit\n" in thread), "")  # that computed the point
    last = re.search(r'File "[^"]*", line (\d+) in (\S+)', own)  # the most recent call comes first
    return f" (in {printable(last[2])}, line {last[1]})" if last else ""


def forget_overrun(store: Store, key: str) -> None:
    """Take the last words away."""
    with contextlib.suppress(OSError):
        store.folder("parts").remove(_name(key))


def _name(key: str) -> str:
    return f"over-{key}"
