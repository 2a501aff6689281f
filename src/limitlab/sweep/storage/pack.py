"""The segments of a store joined into few."""

import contextlib
import errno
import os
import secrets
import socket
from collections.abc import Callable, Collection, Iterator

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
    copied: dict[str, tuple[int, int]] = {}
    writer = _Writer(store)
    try:
        parts.make()
        total, done, seen, names = len(segments), 0, set(), set(segments.names())
        for name in segments.names():
            with _whole(store, name) as there:
                if there is None:
                    continue
                copied[name] = there
                for found in segments.pieces(name, size=there[0]):
                    about = found.content[VOIDED.size :].decode("ascii", "replace") if found.kind == VOID else ""
                    if about in names:  # it counts until that segment is gone, were this killed before
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
    for name, there in copied.items():
        with _locked(store, name) as now:
            if now == there:  # else somebody carries it on: what it has twice goes the next time
                segments.drop(name)
    store.tidy()
    segments.refresh()
    segments.save()
    return before, len(segments.names()) if new or copied else before, max(0, size - segments.total())


@contextlib.contextmanager
def _locked(store: Store, name: str) -> Iterator[tuple[int, int] | None]:
    """Lock a segment that nobody writes: its size, and when it was last written to.

    One at a time: there may be more of them than a process can have files open.
    """
    try:
        file = store.folder("points").open(name, os.O_RDWR)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.EROFS:
            raise unwritable(store.folder("points").path, error, KEPT) from error
        yield None
        return
    try:
        free = os.fstat(file).st_nlink == 1 and locked(file)
        about = os.fstat(file)
        yield (about.st_size, about.st_mtime_ns) if free else None
    finally:
        os.close(file)


@contextlib.contextmanager
def _whole(store: Store, name: str) -> Iterator[tuple[int, int] | None]:
    """The same of a segment that is whole."""
    with _locked(store, name) as there:
        if there is not None:
            segments = store.segments
            try:
                found = segments.pieces(name, size=there[0])
                good = all(one.kind or segments.voided(name, one.place) for one in found)
            except (OSError, ValueError):
                good = False  # damaged: verify first
            there = there if good else None
        yield there


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
