"""The segments of a store joined into few."""

import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Collection

from limitlab.errors import ResultFileError
from limitlab.files import unwritable
from limitlab.sweep.storage.files.folder import KEPT, put
from limitlab.sweep.storage.files.life import locked
from limitlab.sweep.storage.files.records import FULL, MAGIC, POINT, VOID, VOIDED, frame
from limitlab.sweep.storage.files.segments import new_name
from limitlab.sweep.storage.store import Store

__all__ = ["pack"]

Told = Callable[[int, int, str], None] | None


def pack(store: Store, drop: Collection[str] = (), progress: Told = None) -> tuple[int, int, int]:
    """Join the segments that nobody writes into few, without voids, claims, copies and the points of ``drop``.

    Returns the number of segments before and after, and the bytes that this freed. Killed at any moment it loses
    nothing: the new segment takes its place whole before the old ones go, and a point in both is the same.
    """
    segments, points, parts = store.segments, store.folder("points"), store.folder("parts")
    store.close()
    segments.refresh()
    before, size, unwanted = len(segments.names()), segments.total(), {bytes.fromhex(key) for key in drop}
    with contextlib.ExitStack() as stack:
        sizes = {name: held for name in segments.names() if (held := _hold(store, name, stack)) is not None}
        mine = list(sizes)
        writer = _Writer(store)
        try:
            parts.make()
            total, done, seen = len(segments), 0, set()
            for name in mine:
                for found in segments.pieces(name, size=sizes[name]):
                    if found.kind == VOID:
                        if _known(store, found.content):
                            writer.add(frame(VOID, found.key, found.content))
                    if found.kind != POINT or segments.voided(name, found.place):
                        continue
                    if found.key not in seen and found.key not in unwanted:
                        seen.add(found.key)
                        writer.add(frame(POINT, found.key, found.content))
                    done += 1
                    if progress is not None:
                        progress(min(done, total), total, "pack")
            new = writer.end()
        except ResultFileError:
            writer.undo()
            raise
        except OSError as error:
            writer.undo()
            raise unwritable(points.path, error, KEPT) from error
        except BaseException:
            writer.undo()
            raise
        for name in mine:
            about = points.about(name)
            if about is None or about.st_size == sizes[name]:  # else somebody writes to it, where there are no locks
                segments.drop(name)
    store.tidy()
    segments.refresh()
    segments.save()
    return before, len(segments.names()) if new or mine else before, max(0, size - segments.total())


def _hold(store: Store, name: str, stack: contextlib.ExitStack) -> int | None:
    """Lock a segment that is whole and that nobody writes; its size, or None."""
    try:
        file = store.folder("points").open(name, os.O_RDWR)
    except (OSError, ValueError):
        return None
    stack.callback(os.close, file)
    if os.fstat(file).st_nlink != 1 or not locked(file):
        return None
    size, segments = os.fstat(file).st_size, store.segments
    try:
        whole = all(found.kind or segments.voided(name, found.place) for found in segments.pieces(name, size=size))
    except (OSError, ValueError):
        return None  # damaged: verify first
    return size if whole else None


def _known(store: Store, content: bytes) -> bool:
    """Whether a void is about a segment that is there: it counts until that is gone, were this killed before."""
    return content[VOIDED.size :].decode("ascii", "replace") in store.segments.names()


class _Writer:
    """New segments, written beside their place and put there together."""

    def __init__(self, store: Store):
        self._points, self._parts = store.folder("points"), store.folder("parts")
        self._file, self._size, self._made = -1, 0, []

    def add(self, data: bytes) -> None:
        if self._file < 0 or self._size >= FULL:
            self._close()
            name = f"{socket.gethostname()}@{os.getpid()}.{secrets.token_hex(6)}"
            self._file = self._parts.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            self._made.append(name)
            self._size = len(MAGIC)
            put(self._file, MAGIC)
        put(self._file, data)
        self._size += len(data)

    def _close(self) -> None:
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def end(self) -> int:
        self._close()
        for part in self._made:
            self._parts.move(part, self._points, new_name())
        with self._points.handle() as own, contextlib.suppress(OSError):
            os.fsync(own)
        return len(self._made)

    def undo(self) -> None:
        with contextlib.suppress(OSError):
            self._close()
        for part in self._made:
            with contextlib.suppress(OSError):
                self._parts.remove(part)
