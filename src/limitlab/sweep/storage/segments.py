"""Segments: files of a store to which points are appended, one writer each, and the index of what is in them.

A writer holds a lock on its segment, which the system takes away when the process ends, however it ends: so a claim of
a dead process counts for nothing, and its segment can be carried on by another process of the same machine. What a
killed process left unfinished at the end is cut off before that, and never read. The index is in memory; what is kept
of it on disk is only faster than looking, and made again when it is not there.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from limitlab.errors import ResultFileError
from limitlab.files import unwritable
from limitlab.sweep.storage.folder import KEPT, Folder, NotPlainError, put, shown
from limitlab.sweep.storage.records import (
    CLAIM,
    FULL,
    LARGEST_FILE,
    MAGIC,
    POINT,
    START,
    SUM,
    VOID,
    VOIDED,
    Found,
    checked,
    frame,
    head,
    is_segment,
    pieces,
    torn,
)

try:
    import fcntl
except ImportError:  # no locks: claims count for nothing, and no segment is carried on
    fcntl = None

__all__ = ["Segments", "locked"]

WORTH = 2000  # records that are worth an index on disk
LONG_AGO = 3600.0  # seconds without a change after which nobody writes, on systems without locks
OPEN_FILES = 32
KEPT_OF_TAIL = 1 << 24  # bytes of what stands after the last record that go to quarantine
INDEX_MAGIC = b"limitlab index 2\n\x00\x00\x00\x00\x00\x00\x00"  # 24 bytes
ROW = np.dtype([("key", "S16"), ("place", "<u8"), ("kind", "<u8")])
BITS = 33  # of a place within a segment


def locked(file: int) -> bool:
    """Take the lock of a segment; False if its writer has it, or if nobody can tell and it changed lately."""
    taken = _lock(file)
    return time.time() - os.fstat(file).st_mtime > LONG_AGO if taken is None else taken


def _lock(file: int) -> bool | None:
    """Take the lock of a segment; False if another has it, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        return False if error.errno in (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK) else None


class _Segment:
    """What is known of one segment."""

    def __init__(self, number: int, name: str):
        self.number, self.name = number, name
        self.end = 0  # up to where it is known
        self.size = -1  # when it was last looked at
        self.records = self.saved = 0  # points known, and points in the index on disk
        self.claims: frozenset[bytes] = frozenset()
        self.fault = ""


class Segments:
    """The segments of a store: what points are where, and a segment of its own for what this object writes."""

    def __init__(self, root: Path):
        self.folder, self._indices = Folder(root, "points"), Folder(root, "index")
        self._segments: dict[str, _Segment] = {}
        self._numbered: list[_Segment] = []
        self._where: dict[bytes, int] = {}  # a point: the number of its segment and the place in it
        self._others: dict[bytes, list[int]] = {}  # where it is besides
        self._voids: set[tuple[str, int]] = set()
        self._files: dict[str, int] = {}
        self._own: _Segment | None = None
        self._own_file = -1
        self._process = os.getpid()
        self._looked, self._took = -1e9, 0.0
        self._turn = threading.RLock()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def close(self) -> None:
        """Let go of all files; the segment of this object can be carried on by others."""
        with self._turn:
            for file in self._files.values():
                os.close(file)
            self._files = {}
            if self._own_file >= 0:
                os.close(self._own_file)
            self._own, self._own_file = None, -1

    # --- finding -----------------------------------------------------------------------------------------

    def __contains__(self, key: bytes) -> bool:
        if key in self._where:
            return True
        self.refresh(5.0)
        return key in self._where

    def __len__(self) -> int:
        return len(self._where)

    def keys(self) -> list[bytes]:
        """Names of all points, in order."""
        with self._turn:
            return sorted(self._where)

    def total(self) -> int:
        """The size of all segments."""
        return sum(max(s.size, 0) for s in self._segments.values())

    def length(self, key: bytes) -> int:
        """The bytes of a point's record; 0 if there is none."""
        with self._turn:
            place = self._where.get(key)
            if place is None:
                return 0
            found = self._record(self._numbered[place >> BITS], place & ((1 << BITS) - 1), bare=True)
            return found.length

    def refresh(self, patience: float = 0.0) -> None:
        """Look for what others wrote, unless the last look is less than ``patience`` times its own cost ago."""
        with self._turn:
            began = time.perf_counter()
            if patience and began - self._looked < patience * self._took:
                return
            there = {name: about.st_size for name, about in self.folder.files().items() if is_segment(name)}
            for name in [name for name in self._segments if name not in there]:
                self._forget(name)
            for name, size in there.items():
                segment = self._segments.get(name)
                if segment is None:
                    segment = self._segments[name] = _Segment(len(self._numbered), name)
                    self._numbered.append(segment)
                    self._load(segment, size)
                if size < segment.end:  # it was cut by somebody who should not
                    self._forget(name)
                elif size != segment.size and segment is not self._own:
                    self._look(segment, size)
            self._looked, self._took = time.perf_counter(), time.perf_counter() - began

    def claimed(self, key: bytes) -> bool:
        """Whether another process that is alive says that it computes this point."""
        with self._turn:
            for segment in list(self._segments.values()):
                if segment is not self._own and key in segment.claims:
                    if self._alive(segment):
                        return True
                    segment.claims = frozenset()
            return False

    def _alive(self, segment: _Segment) -> bool:
        """Whether a process holds a segment. Where there are no locks nobody can tell: then no."""
        try:
            file = self.folder.open(segment.name)
        except (OSError, ValueError):
            return False
        try:
            if fcntl is None:
                return False
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except OSError as error:
            return error.errno in (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK)
        finally:
            os.close(file)

    def _forget(self, name: str) -> None:
        segment = self._segments.pop(name)
        if name in self._files:
            os.close(self._files.pop(name))
        for key in [key for key, place in self._where.items() if place >> BITS == segment.number]:
            del self._where[key]
        for key, places in list(self._others.items()):
            places[:] = [place for place in places if place >> BITS != segment.number]
            if places and key not in self._where:
                self._where[key] = places.pop()
            if not places:
                del self._others[key]

    def _look(self, segment: _Segment, size: int) -> None:
        """Read the records of a segment that are new: their heads only."""
        segment.size = size
        try:
            for found in self.pieces(segment.name, segment.end, size, heads=True):
                if found.kind == 0:
                    continue
                self._take(segment, found)
                segment.end = found.place + found.length
        except FileNotFoundError:  # joined with others meanwhile
            return
        except (OSError, ValueError) as error:
            segment.fault = str(error)
            return
        if segment.records >= segment.saved + WORTH:
            self._save(segment)

    def _take(self, segment: _Segment, found: Found) -> None:
        if found.kind == POINT:
            segment.records += 1
            segment.claims -= {found.key}
            self._put(segment, found.key, found.place)
        elif found.kind == VOID:
            with contextlib.suppress(ValueError, struct.error):
                place, _ = VOIDED.unpack_from(found.content)
                self._void(found.content[VOIDED.size :].decode("ascii"), place)
        elif found.kind == CLAIM:
            content = found.content
            segment.claims = frozenset(content[i : i + 16] for i in range(0, len(content) - 15, 16))

    def _put(self, segment: _Segment, key: bytes, place: int) -> None:
        if (segment.name, place) in self._voids:
            return
        where = segment.number << BITS | place
        if self._where.setdefault(key, where) != where:
            others = self._others.setdefault(key, [])
            if where not in others:
                others.append(where)

    def _void(self, name: str, place: int) -> None:
        self._voids.add((name, place))
        segment = self._segments.get(name)
        if segment is None:
            return
        where = segment.number << BITS | place
        try:
            key = self._record(segment, place, bare=True).key
        except (OSError, ValueError):
            key = next((k for k, w in self._where.items() if w == where), b"")
        others = self._others.get(key, [])
        if where in others:
            others.remove(where)
        if self._where.get(key) == where:
            del self._where[key]
            if others:
                self._where[key] = others.pop()
        if not others:
            self._others.pop(key, None)

    # --- reading -----------------------------------------------------------------------------------------

    def read(self, key: bytes) -> Found | None:
        """The record of a point, with its bytes, or with the reason why these are not as they were written."""
        for attempt in range(4):
            with self._turn:
                if key not in self:
                    return None
                place = self._where[key]
                segment = self._numbered[place >> BITS]
                try:
                    found = self._record(segment, place & ((1 << BITS) - 1))
                except FileNotFoundError:  # joined with others meanwhile
                    self._files.pop(segment.name, None)
                    self.refresh()
                    continue
                except NotPlainError as error:
                    return Found(place & ((1 << BITS) - 1), 0, 0, key, b"", str(error))
                except OSError as error:
                    where = shown(self.folder.path / segment.name)
                    raise ResultFileError(
                        f"{where} cannot be read: {error.strerror}. Check its permissions."
                    ) from error
                if not found.fault and found.key != key:  # the index on disk was wrong
                    self._again(segment)
                    continue
                if not found.fault or attempt == 3 or segment is self._own or not self._alive(segment):
                    return found
            time.sleep(0.05)  # its writer may be about to show all of it, over a network
        return None

    def place_of(self, key: bytes) -> tuple[str, int] | None:
        """The segment of a point, and the place in it."""
        with self._turn:
            place = self._where.get(key)
            return None if place is None else (self._numbered[place >> BITS].name, place & ((1 << BITS) - 1))

    def _again(self, segment: _Segment) -> None:
        """Read a segment from its beginning, not by its index."""
        name = segment.name
        self._forget(name)
        with contextlib.suppress(OSError):
            self._indices.remove(f"{name}.idx")
        self.refresh()

    def _file(self, name: str) -> int:
        if name not in self._files:
            while len(self._files) >= OPEN_FILES:
                os.close(self._files.pop(next(iter(self._files))))
            self._files[name] = self.folder.open(name)
        return self._files[name]

    def _record(self, segment: _Segment, place: int, bare: bool = False) -> Found:
        """The record at one place; ``bare`` looks at its head only."""
        file = self._file(segment.name)
        data = os.pread(file, START if bare else 1 << 13, place)
        kind, length, key = head(data)
        where = f"{shown(self.folder.path / segment.name)} at byte {place}"
        if not kind or place + START + length + SUM > os.fstat(file).st_size:
            return Found(place, 0, 0, key, b"", f"{where} does not hold a whole point: it is truncated or damaged")
        if bare:
            return Found(place, START + length + SUM, kind, key)
        data = data[: START + length + SUM]
        while len(data) < START + length + SUM:
            more = os.pread(file, START + length + SUM - len(data), place + len(data))
            if not more:
                break
            data += more
        return checked(data, place, kind, key, where)

    def pieces(self, name: str, first: int = 0, size: int | None = None, heads: bool = False) -> Iterator[Found]:
        """All that is in a segment from a place on (see `records.pieces`)."""
        return pieces(self.folder, name, first, size, heads)

    # --- writing -----------------------------------------------------------------------------------------

    def append(self, kind: int, key: bytes, content: bytes) -> None:
        """Add a record to the segment of this object."""
        with self._turn:
            data = frame(kind, key, content)
            try:
                segment = self._writable()
                place = segment.end
                try:
                    put(self._own_file, data)
                except OSError:
                    with contextlib.suppress(OSError):
                        os.ftruncate(self._own_file, place)
                    raise
            except ResultFileError:
                raise
            except OSError as error:
                raise unwritable(self.folder.path, error, KEPT) from error
            segment.end = segment.size = place + len(data)
            self._take(segment, Found(place, len(data), kind, key, content))

    def flush(self) -> None:
        """Have what this object wrote on the disk."""
        with self._turn:
            if self._own_file >= 0:
                os.fsync(self._own_file)

    def claim(self, keys: list[bytes]) -> None:
        """Say which points this object's process computes now, in place of what was said before."""
        with self._turn:
            if frozenset(keys) != (self._own.claims if self._own else frozenset()):
                self.append(CLAIM, bytes(16), b"".join(keys))

    def void(self, name: str, place: int, length: int) -> None:
        """Say that a record counts no more."""
        self.append(VOID, bytes(16), VOIDED.pack(place, length) + name.encode("ascii"))

    def voided(self, name: str, place: int) -> bool:
        return (name, place) in self._voids

    def _writable(self) -> _Segment:
        """The segment of this object, open and locked."""
        if self._process != os.getpid():  # a fork: the segment is the parent's
            self._own, self._own_file, self._process, self._files = None, -1, os.getpid(), {}
        if self._own is not None:
            gone = os.fstat(self._own_file).st_nlink == 0
            if not gone and self._own.end < FULL:
                return self._own
            if not gone:
                os.fsync(self._own_file)
            os.close(self._own_file)
            self._own, self._own_file = None, -1
        self.folder.make()
        self.refresh()
        host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:40] or "host"
        for name, segment in self._segments.items():
            if name[:-21] == host and self._carry_on(segment):
                return segment
        while True:
            name = f"{host}-{secrets.token_hex(8)}.seg"
            file = self.folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
            try:
                if _lock(file) is False or os.fstat(file).st_nlink != 1:
                    raise BlockingIOError  # somebody took it for left behind
                put(file, MAGIC)
            except BlockingIOError:
                os.close(file)
                continue
            except BaseException:
                os.close(file)
                with contextlib.suppress(OSError):
                    self.folder.remove(name)
                raise
            segment = self._segments[name] = _Segment(len(self._numbered), name)
            self._numbered.append(segment)
            segment.end = segment.size = len(MAGIC)
            self._own, self._own_file = segment, file
            return segment

    def _carry_on(self, segment: _Segment) -> bool:
        """Take over the segment of a process of this machine that ended; what it left unfinished is cut off."""
        if segment.fault or segment.size >= FULL:
            return False
        try:
            file = self.folder.open(segment.name, os.O_RDWR | os.O_APPEND)
        except (OSError, ValueError):
            return False
        about = os.fstat(file)
        mine = about.st_nlink == 1 and about.st_uid == os.geteuid() and about.st_size >= len(MAGIC)
        if not mine or not _lock(file) or os.fstat(file).st_nlink != 1:
            os.close(file)
            return False
        self._look(segment, os.fstat(file).st_size)
        rest = os.pread(file, START, segment.end)
        if segment.fault or (rest and not torn(rest)):
            os.close(file)  # something else than an unfinished record: verify says so
            return False
        os.ftruncate(file, segment.end)
        segment.size = segment.end
        self._own, self._own_file = segment, file
        if segment.claims:
            self.append(CLAIM, bytes(16), b"")
        return True

    def cut(self, name: str) -> bytes:
        """Cut off what stands after the last whole record of a segment that nobody writes; returns what that was.

        Nothing is returned for a record that was not finished: that happens when a process is killed.
        """
        with self._turn:
            segment = self._segments.get(name)
            if segment is None or segment is self._own:
                return b""
            there = self.folder.about(name)
            if there is None or there.st_size <= segment.end:
                return b""
            try:
                file = self.folder.open(name, os.O_RDWR)
            except OSError as error:
                if error.errno in (errno.EROFS, errno.EACCES):  # it may only be read, and the tail is not
                    return b""
                raise
            try:
                about = os.fstat(file)
                if about.st_nlink != 1 or about.st_size <= segment.end or not locked(file):
                    return b""
                self._look(segment, os.fstat(file).st_size)
                rest = os.pread(file, KEPT_OF_TAIL, segment.end) if segment.end else b""
                if segment.end and rest:
                    os.ftruncate(file, segment.end)
                    segment.size = segment.end
                return b"" if torn(rest) else rest
            finally:
                os.close(file)

    # --- the index on disk -------------------------------------------------------------------------------

    def _load(self, segment: _Segment, size: int) -> None:
        """What the index on disk says of a segment, if it is whole; the rest is read from the segment."""
        try:
            data = self._indices.read(f"{segment.name}.idx", min(64 + size, LARGEST_FILE))
        except (OSError, ValueError):
            return
        first = len(INDEX_MAGIC) + 8
        body, total = data[:-SUM], data[-SUM:]
        if len(body) < first or not body.startswith(INDEX_MAGIC) or hashlib.sha256(body).digest() != total:
            return
        (end,) = struct.unpack_from("<Q", body, len(INDEX_MAGIC))
        if end > size or (len(body) - first) % ROW.itemsize:
            return
        rows = np.frombuffer(body, ROW, offset=first)
        if len(rows) and int(rows["place"].max()) >= end:
            return
        keys, places, kinds = body[first:], rows["place"].tolist(), rows["kind"].tolist()
        for number, (place, kind) in enumerate(zip(places, kinds, strict=True)):
            if kind == POINT:
                key = keys[number * ROW.itemsize : number * ROW.itemsize + 16]
                self._put(segment, key, place)
            else:
                with contextlib.suppress(OSError, ValueError):
                    self._take(segment, self._record(segment, place))
        segment.end, segment.records = end, sum(kind == POINT for kind in kinds)
        segment.saved = segment.records

    def _save(self, segment: _Segment) -> None:
        """Write the index of a segment; a store that may only be read has none that is new."""
        segment.saved = segment.records
        rows = []
        with contextlib.suppress(OSError, ValueError):
            for found in self.pieces(segment.name, 0, segment.end, heads=True):
                if found.kind in (POINT, VOID):
                    rows.append(found.key + struct.pack("<QQ", found.place, found.kind))
            body = b"".join([INDEX_MAGIC, struct.pack("<Q", segment.end), *rows])
            self._indices.make()
            self._indices.write(f"{segment.name}.idx", body + hashlib.sha256(body).digest())

    def save(self) -> None:
        """Write the indices of all segments that are worth one."""
        with self._turn:
            for segment in self._segments.values():
                if segment.records >= WORTH and not segment.fault:
                    self._save(segment)

    def names(self) -> list[str]:
        """All segments."""
        return list(self._segments)

    def drop(self, name: str) -> None:
        """Take a segment away, with its index."""
        with self._turn:
            self.folder.remove(name)
            with contextlib.suppress(OSError):
                self._indices.remove(f"{name}.idx")
            if name in self._segments:
                self._forget(name)
