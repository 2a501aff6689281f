"""Records: what a segment of a store is made of.

A segment is a line that says what it is, then records::

    4 bytes   how a record begins        1 byte    its kind: a point, a void, a claim
    3 bytes   zeros                      8 bytes   length of its content
    16 bytes  the name of the point      4 bytes   CRC-32 of these 32 bytes
    ...       its content                32 bytes  SHA-256 of all before

A **void** says that a record of some segment counts no more; a **claim** lists the points that the writer of its
segment is computing, in place of all that it claimed before.
"""

import errno
import hashlib
import os
import re
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from limitlab.sweep.storage.files.encoding import LARGEST
from limitlab.sweep.storage.files.folder import Folder, NotPlainError, shown

__all__ = [
    "CLAIM",
    "FULL",
    "LARGEST_FILE",
    "MAGIC",
    "MOST_CLAIMED",
    "POINT",
    "SHORTEST",
    "START",
    "SUM",
    "VOID",
    "VOIDED",
    "Found",
    "checked",
    "frame",
    "head",
    "is_segment",
    "pieces",
    "torn",
]

MAGIC = b"limitlab segment 2\r\n\x00\x1a\xff\xfe"  # 24 bytes
MARK = b"\xf5LL\x02"
HEAD, CHECK = struct.Struct("<4sB3xQ16s"), struct.Struct("<I")
START, SUM = HEAD.size + CHECK.size, 32
POINT, VOID, CLAIM = 1, 2, 3
NAME = re.compile(r"[A-Za-z0-9.-]{1,40}-[0-9a-f]{16}\.seg")
FULL = 1 << 30  # bytes after which a writer begins another segment
LARGEST_FILE = FULL + LARGEST + (1 << 20)
BLOCK = 1 << 20  # bytes read at a time
MAX_FALSE = 10_000  # places of a segment that are damaged, or begin as a record does and are none
VOIDED = struct.Struct("<QQ")  # content of a void: place and length in the segment whose name follows
MOST_CLAIMED = 4096  # points of a claim
LONGEST = {POINT: LARGEST, VOID: VOIDED.size + 64, CLAIM: 16 * MOST_CLAIMED}  # bytes of the content, by kind
SHORTEST = START + SUM  # bytes of a record


class Found(NamedTuple):
    """A piece of a segment: a record, or (kind 0) bytes that are none, with the reason in words."""

    place: int
    length: int
    kind: int
    key: bytes
    content: bytes = b""
    fault: str = ""


def frame(kind: int, key: bytes, content: bytes) -> bytes:
    """The bytes of a record."""
    head = HEAD.pack(MARK, kind, len(content), key)
    body = b"".join([head, CHECK.pack(zlib.crc32(head)), content])
    return body + hashlib.sha256(body).digest()


def is_segment(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def pieces(folder: Folder, name: str, first: int = 0, size: int | None = None, heads: bool = False) -> Iterator[Found]:
    """All that is in a segment from a place on: records, and bytes that are none (kind 0), but for a torn tail.

    With ``heads`` the contents of points are neither read nor checked.
    """
    file, where = folder.open(name), shown(folder.path / name)
    try:
        size = os.fstat(file).st_size if size is None else size
        if size > LARGEST_FILE:
            raise NotPlainError(f"{where} has {size} bytes, more than a segment ever has")
        if first == 0:
            if os.pread(file, min(len(MAGIC), size), 0) != MAGIC[:size]:  # it may just be written
                raise NotPlainError(f"{where} is not a segment of a store")
            first = len(MAGIC)
        block, place = _Block(file, size, where), first
        while place + START <= size:
            kind, length, key = head(block.at(place, START))
            whole = START + length + SUM
            if kind and place + whole > size:
                return  # the last record is not whole: its writer was killed, or is writing it
            if not kind:
                after = _next(block, place + 1)
                if after is None:
                    return
                block.count()
                yield Found(place, after - place, 0, b"", b"", f"{where} is damaged at byte {place}")
                place = after
            elif heads and kind == POINT:
                yield Found(place, whole, kind, key)
                place += whole
            else:
                found = checked(block.at(place, whole), place, kind, key, f"{where} at byte {place}")
                if not found.kind:
                    block.count()
                yield found
                place += whole
    finally:
        os.close(file)


def head(data: bytes) -> tuple[int, int, bytes]:
    """Kind, length and name of a record; kind 0 if this is not how one begins."""
    if len(data) < START:
        return 0, 0, b""
    mark, kind, length, key = HEAD.unpack_from(data)
    if mark != MARK or CHECK.unpack_from(data, HEAD.size)[0] != zlib.crc32(data[: HEAD.size]):
        return 0, 0, b""
    return (kind, length, key) if length <= LONGEST.get(kind, -1) else (0, 0, b"")


def checked(data: bytes, place: int, kind: int, key: bytes, where: str) -> Found:
    body = memoryview(data)[:-SUM]
    if hashlib.sha256(body).digest() != data[-SUM:]:
        words = f"{where} does not have the checksum that it was written with: it is damaged"
        return Found(place, len(data), 0, key, b"", words)
    return Found(place, len(data), kind, key, data[START:-SUM])


def torn(rest: bytes) -> bool:
    """Whether a segment ends as one does whose writer was killed: with the beginning of a record, or of zeros."""
    return (
        head(rest)[0] != 0 or (len(rest) < START and (rest[: len(MARK)] == MARK[: len(rest)])) or not any(rest[:START])
    )


def _next(block: "_Block", place: int) -> int | None:
    """Where the next record begins; `NotPlainError` if too much looks as if one did, which happens by intent only."""
    while place + START <= block.size:
        data = block.at(place, min(BLOCK, block.size - place))
        at = data.find(MARK)
        while at >= 0:
            if at + START > len(data):
                break
            if head(data[at : at + START])[0]:
                return place + at
            block.count()
            at = data.find(MARK, at + 1)
        place = block.data_after(place + max(len(data) - START + 1, 1))
    return None


class _Block:
    """A file read in large pieces."""

    def __init__(self, file: int, size: int, name: str):
        self.file, self.size, self.name, self._first, self._data = file, size, name, 0, b""
        self._false = 0

    def count(self) -> None:
        """One more place that is not as a writer leaves it."""
        self._false += 1
        if self._false > MAX_FALSE:
            raise NotPlainError(f"{self.name} is full of beginnings of records that are none")

    def at(self, place: int, length: int) -> bytes:
        first = place - self._first
        if first < 0 or first + length > len(self._data):
            self._first, self._data = place, _pread(self.file, max(length, min(BLOCK, self.size - place)), place)
            first = 0
        return self._data[first : first + length]

    def data_after(self, place: int) -> int:
        """The place, or the next one that is not in a hole of the file: those are quickly made and large."""
        if not hasattr(os, "SEEK_DATA") or place >= self.size:
            return place
        try:
            return max(place, os.lseek(self.file, place, os.SEEK_DATA))
        except OSError as error:
            return self.size if error.errno == errno.ENXIO else place


def _pread(file: int, length: int, place: int) -> bytes:
    data = os.pread(file, length, place)
    while len(data) < length and (more := os.pread(file, length - len(data), place + len(data))):
        data += more
    return data
