"""Segments: files of a store to which points are appended, one writer each, and the index of what is in them.

A writer holds a lock on its segment, which the system takes away when the process ends, however it ends: so a claim of
a dead process counts for nothing, and its segment can be carried on by another process of the same machine. What a
killed process left unfinished at the end is cut off before that, and never read. The index is in memory; what is kept
of it on disk is only faster than looking, and made again when it is not there.
"""

import contextlib
import errno
import os
import re
import secrets
import socket
import struct
import threading
import time
import warnings
from collections.abc import Iterator

from limitlab.errors import DamagedFileWarning, ResultFileError
from limitlab.files import unwritable
from limitlab.sweep.storage.files.folder import KEPT, Folder, NotPlainError, Root, piece, put, shown
from limitlab.sweep.storage.files.index import LARGEST_INDEX, index_of, rows_in
from limitlab.sweep.storage.files.life import held, lock, locked
from limitlab.sweep.storage.files.places import Places, Segment
from limitlab.sweep.storage.files.records import (
    CLAIM,
    FULL,
    LARGEST_FILE,
    MAGIC,
    MOST_CLAIMED,
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

__all__ = ["Segments", "new_name"]

WORTH = 2000  # records that are worth an index on disk
OPEN_FILES = 32
ROOM = 1 << 12  # bytes by which an index may be longer than its segment
KEPT_OF_TAIL = 1 << 24  # bytes of what stands after the last record that go to quarantine


def new_name() -> str:
    """A name for a segment that this machine begins."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:40] or "host"
    return f"{host}-{secrets.token_hex(8)}.seg"


class Segments:
    """The segments of a store: what points are where, and a segment of its own for what this object writes."""

    def __init__(self, root: Root):
        self.folder, self._indices = Folder(root, "points"), Folder(root, "index")
        self._segments: dict[str, Segment] = {}
        self._places = Places()
        self._believes = True  # the indices on disk, until one of them says what is not so
        self._files: dict[str, int] = {}
        self._own: Segment | None = None
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
        if key in self._places:
            return True
        self.refresh(5.0)
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> list[bytes]:
        """Names of all points, in order."""
        with self._turn:
            return sorted(self._places)

    def total(self) -> int:
        """The size of all segments."""
        return sum(max(s.size, 0) for s in self._segments.values())

    def length(self, key: bytes) -> int:
        """The bytes of a point's record; 0 if there is none."""
        with self._turn:
            at = self._places.of(key)
            return 0 if at is None else self._record(*at, bare=True).length

    def refresh(self, patience: float = 0.0) -> None:
        """Look for what others wrote, unless the last look is less than ``patience`` times its own cost ago."""
        with self._turn:
            began = time.perf_counter()
            if patience and began - self._looked < patience * self._took:
                return
            there = {name: about for name, about in self.folder.files().items() if is_segment(name)}
            self._forget([name for name in self._segments if name not in there])
            for name, about in there.items():
                segment, size = self._segments.get(name), about.st_size
                if segment is None:
                    segment = self._segments[name] = self._places.segment(name)
                    self._load(segment, about)
                if size < segment.end:  # it was cut by somebody who should not
                    if segment is self._own:
                        self._let_go()
                    self._forget([name])
                elif size != segment.size and segment is not self._own:
                    self._look(segment, size)
            self._looked, self._took = time.perf_counter(), time.perf_counter() - began

    def faults(self) -> list[str]:
        """Why segments cannot be read, in words; their points count as missing."""
        return [segment.fault for segment in self._segments.values() if segment.fault]

    def claimed(self, key: bytes) -> bool:
        """Whether another process that is alive says that it computes this point."""
        with self._turn:
            for segment in list(self._segments.values()):
                if segment is not self._own and key in segment.claims:
                    if self._alive(segment):
                        return True
                    segment.claims = set()
            return False

    def _alive(self, segment: Segment) -> bool:
        """Whether a process holds a segment."""
        try:
            file = self.folder.open(segment.name)
        except (OSError, ValueError):
            return False
        try:
            return held(file)
        finally:
            os.close(file)

    def _forget(self, names: list[str]) -> None:
        for name in [name for name in names if name in self._files]:
            os.close(self._files.pop(name))
        self._places.forget([self._segments.pop(name) for name in names])

    def _look(self, segment: Segment, size: int) -> None:
        """Read the records of a segment that are new: their heads only."""
        segment.size, segment.fault = size, ""
        try:
            for found in self.pieces(segment.name, segment.end, size, heads=True):
                if found.kind == 0:
                    continue
                self._take(segment, found)
                segment.end = found.place + found.length
        except FileNotFoundError:  # joined with others meanwhile
            return
        except (OSError, ValueError) as error:
            where = shown(self.folder.path / segment.name)
            segment.fault = f"{where} cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            return
        finally:
            if segment.claims and not self._alive(segment):  # many may be there, and they count for nothing
                segment.claims = set()
        if segment.records >= segment.saved + WORTH:
            self._save(segment)

    def _take(self, segment: Segment, found: Found) -> None:
        if found.kind == POINT:
            segment.records += 1
            segment.claims.discard(found.key)
            self._places.put(segment, found.key, found.place)
        elif found.kind == VOID:
            with contextlib.suppress(ValueError, struct.error):
                place, _ = VOIDED.unpack_from(found.content)
                if place < LARGEST_FILE:
                    self._void(found.content[VOIDED.size :].decode("ascii"), place, found.key)
        elif found.kind == CLAIM:
            content = found.content
            segment.claims = {content[i : i + 16] for i in range(0, len(content) - 15, 16)}

    def _void(self, name: str, place: int, key: bytes) -> None:
        """A record counts no more. The void says whose it was; an older one does not, then the record itself does."""
        self._places.void(name, place)
        segment = self._segments.get(name)
        if segment is None:
            return
        self._places.drop(segment, key, place)
        with contextlib.suppress(OSError, ValueError):
            self._places.drop(segment, self._record(segment, place, bare=True).key, place)

    # --- reading -----------------------------------------------------------------------------------------

    def read(self, key: bytes) -> Found | None:
        """The record of a point, with its bytes, or with the reason why these are not as they were written."""
        for attempt in range(4):
            with self._turn:
                at = self._places.of(key) if key in self else None
                if at is None:
                    return None
                segment, place = at
                try:
                    found = self._record(segment, place)
                except FileNotFoundError:  # joined with others meanwhile
                    self._files.pop(segment.name, None)
                    self.refresh()
                    continue
                except NotPlainError as error:
                    return Found(place, 0, 0, key, b"", str(error))
                except OSError as error:
                    where = shown(self.folder.path / segment.name)
                    raise ResultFileError(
                        f"{where} cannot be read: {error.strerror}. Check its permissions."
                    ) from error
                if found.key != key and (self._believes or not found.fault):  # an index on disk was wrong
                    self.reread()
                    continue
                if not found.fault or attempt == 3 or segment is self._own or not self._alive(segment):
                    return found
            time.sleep(0.05)  # its writer may be about to show all of it, over a network
        return None

    def place_of(self, key: bytes) -> tuple[str, int] | None:
        """The segment of a point, and the place in it."""
        with self._turn:
            at = self._places.of(key)
            return None if at is None else (at[0].name, at[1])

    def reread(self) -> None:
        """Read all segments from their beginnings, and believe no index on disk any more: one said what is not so."""
        with self._turn:
            own, self._believes = self._own, False
            others = [name for name, segment in self._segments.items() if segment is not own]
            self._forget(others)
            if own is not None:
                self._places.forget([own])
                own.end, own.records = 0, 0
                self._look(own, own.size)
            for name in others:
                with contextlib.suppress(OSError):
                    self._indices.remove(f"{name}.idx")
            self.refresh()

    def _file(self, name: str) -> int:
        if name not in self._files:
            while len(self._files) >= OPEN_FILES:
                os.close(self._files.pop(next(iter(self._files))))
            self._files[name] = self.folder.open(name)
        return self._files[name]

    def _record(self, segment: Segment, place: int, bare: bool = False) -> Found:
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
            keys = keys[:MOST_CLAIMED]  # a hint: others may compute the rest as well
            if set(keys) != (self._own.claims if self._own else set()):
                self.append(CLAIM, bytes(16), b"".join(keys))

    def void(self, name: str, place: int, length: int, key: bytes = b"") -> None:
        """Say that a record counts no more, and whose it was if that is known."""
        self.append(VOID, key or bytes(16), VOIDED.pack(place, length) + name.encode("ascii"))

    def voided(self, name: str, place: int) -> bool:
        return self._places.voided(name, place)

    def _writable(self) -> Segment:
        """The segment of this object, open and locked."""
        if self._process != os.getpid():  # a fork: the segment is the parent's
            self._own, self._own_file, self._process, self._files = None, -1, os.getpid(), {}
        if self._own is not None:
            about = os.fstat(self._own_file)
            whole = about.st_nlink > 0 and about.st_size == self._own.end
            if whole and self._own.end < FULL:
                return self._own
            if whole:
                os.fsync(self._own_file)
                os.close(self._own_file)
                self._own, self._own_file = None, -1
            else:
                self._let_go()
        self.folder.make()
        self.refresh()
        for name, segment in self._segments.items():
            if name[:-21] == new_name()[:-21] and self._carry_on(segment):
                return segment
        while True:
            name = new_name()
            file = self.folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
            try:
                if lock(file) is False or os.fstat(file).st_nlink != 1:
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
            segment = self._segments[name] = self._places.segment(name)
            segment.end = segment.size = len(MAGIC)
            self._own, self._own_file = segment, file
            return segment

    def _let_go(self) -> None:
        """Of a segment that somebody else took away or changed: its lock would make its claims count."""
        own, about = self._own, os.fstat(self._own_file)
        os.close(self._own_file)
        self._own, self._own_file = None, -1
        if own is not None and about.st_nlink:
            words = f"{shown(self.folder.path / own.name)} was changed by somebody else while points were written to it"
            warnings.warn(f"{words}. What is lost is computed again.", DamagedFileWarning, stacklevel=2)

    def _carry_on(self, segment: Segment) -> bool:
        """Take over the segment of a process of this machine that ended; what it left unfinished is cut off."""
        if segment.fault or segment.size >= FULL:
            return False
        try:
            file = self.folder.open(segment.name, os.O_RDWR | os.O_APPEND)
        except (OSError, ValueError):
            return False
        about = os.fstat(file)
        mine = about.st_nlink == 1 and about.st_uid == os.geteuid() and about.st_size >= len(MAGIC)
        if not mine or not lock(file) or os.fstat(file).st_nlink != 1:
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
                size = os.fstat(file).st_size
                self._look(segment, size)
                if not 0 < segment.end < size:
                    return b""
                unfinished = torn(os.pread(file, START, segment.end))
                rest = b"" if unfinished else piece(file, segment.end, KEPT_OF_TAIL)
                os.ftruncate(file, segment.end)
                segment.size = segment.end
                return rest
            finally:
                os.close(file)

    # --- the index on disk -------------------------------------------------------------------------------

    def _load(self, segment: Segment, about: os.stat_result) -> None:
        """What the index on disk says of a segment, if it is whole; the rest is read from the segment.

        An index is far smaller than what its segment takes on the disk: of a file that is mostly a hole it is not read.
        """
        if not self._believes or about.st_size > LARGEST_FILE:
            return
        most = min(about.st_size, 512 * about.st_blocks) + ROOM
        try:
            found = rows_in(self._indices.read(f"{segment.name}.idx", min(most, LARGEST_INDEX)), about.st_size)
        except (OSError, ValueError):
            return
        if found is None:
            return
        segment.end, rows = found
        for key, place, kind in rows:
            if kind == POINT:
                segment.records += 1
                self._places.put(segment, key, place)
            else:
                with contextlib.suppress(OSError, ValueError):
                    if self._record(segment, place, bare=True).kind == VOID:  # a void is short, whatever the index says
                        self._take(segment, self._record(segment, place))
        segment.saved = segment.records

    def _save(self, segment: Segment) -> None:
        """Write the index of a segment; a store that may only be read has none that is new."""
        segment.saved = segment.records
        with contextlib.suppress(OSError, ValueError, ResultFileError):
            data = index_of(self.pieces(segment.name, 0, segment.end, heads=True), segment.end)
            if data is not None:
                self._indices.make()
                self._indices.write(f"{segment.name}.idx", data)

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
                self._forget([name])
