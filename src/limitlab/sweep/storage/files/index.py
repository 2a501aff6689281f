"""The index of a segment on disk: names and places of its points, only faster than looking, and never trusted.

It is a line that says what it is, the place up to which it knows the segment, a row for each point and each void, and
the SHA-256 of all this. Whoever reads a point by it holds the record against the name.
"""

import hashlib
import struct
from collections.abc import Iterable

import numpy as np

from limitlab.sweep.storage.files.records import POINT, SHORTEST, SUM, VOID, Found

__all__ = ["LARGEST_INDEX", "index_of", "rows_in"]

MAGIC = b"limitlab index 2\n\x00\x00\x00\x00\x00\x00\x00"  # 24 bytes
ROW = np.dtype([("key", "S16"), ("place", "<u8"), ("kind", "<u8")])
FIRST = len(MAGIC) + 8  # where rows begin
LARGEST_INDEX = 1 << 27  # bytes: four million points; a segment with more has none


def index_of(records: Iterable[Found], end: int) -> bytes | None:
    """The bytes of an index; None if it would be larger than one may be."""
    rows = [r.key + struct.pack("<QQ", r.place, r.kind) for r in records if r.kind in (POINT, VOID)]
    body = b"".join([MAGIC, struct.pack("<Q", end), *rows])
    return body + hashlib.sha256(body).digest() if len(body) + SUM <= LARGEST_INDEX else None


def rows_in(data: bytes, size: int) -> tuple[int, list[tuple[bytes, int, int]]] | None:
    """The place up to which an index knows its segment of ``size`` bytes, and name, place and kind of its records.

    None if it is not whole, or says more than a segment of this size can hold.
    """
    body, total = data[:-SUM], data[-SUM:]
    if len(body) < FIRST or not body.startswith(MAGIC) or hashlib.sha256(body).digest() != total:
        return None
    (end,) = struct.unpack_from("<Q", body, len(MAGIC))
    if end > size or (len(body) - FIRST) % ROW.itemsize:
        return None
    rows = np.frombuffer(body, ROW, offset=FIRST)
    if not np.isin(rows["kind"], (POINT, VOID)).all() or (len(rows) and int(rows["place"].max()) >= end):
        return None
    if (np.diff(rows["place"].astype(np.int64)) < SHORTEST).any():  # two records cannot be at one place
        return None
    places, kinds = rows["place"].tolist(), rows["kind"].tolist()
    keys = [body[start : start + 16] for start in range(FIRST, len(body), ROW.itemsize)]
    return end, list(zip(keys, places, kinds, strict=True))
