"""A point of a sweep as plain bytes, and back: a table of contents in JSON, then the arrays as they lie in memory.

::

    4 bytes   length of the table of contents as it stands here
    4 bytes   its length when unpacked, 0 if it stands here unpacked
    ...       the table of contents, UTF-8: arrays (name, dimensions, kind, shape), attributes, reason
    ...       the arrays, one after the other

Nothing in it is run or followed. Whatever it declares is held against its length before an array is made, and a text
that unpacks to more than `SMALL` bytes is never written, so that none is read.
"""

import json
import math
import re
import struct
import zlib
from typing import Any

import numpy as np

from limitlab.errors import InputError, ResultFileError
from limitlab.results.attributes import check_depth
from limitlab.results.points import Point, Table

__all__ = ["LARGEST", "decode", "encode"]

LARGEST = 1 << 30  # bytes of a point
SMALL = 1 << 20  # bytes of a table of contents that is packed
LONGEST = 1 << 23  # bytes of any table of contents: JSON takes twenty times as much memory when it is read
MAX_ARRAYS = 10_000
MAX_RANK = 32
BAD = (ValueError, LookupError, TypeError, struct.error, zlib.error, RecursionError, MemoryError)
LENGTHS = struct.Struct("<II")
KIND = re.compile(r"[<>|][biufcSU][0-9]{1,9}|[<>][mM]8\[[0-9]{0,9}[a-zA-Z]{1,2}\]")


def encode(point: Point) -> bytes:
    """The bytes of a point."""
    coords = [(name, dims, _plain(values)) for name, (dims, values) in point.coords.items()]
    variables = [(name, dims, _plain(values)) for name, (dims, values) in point.variables.items()]
    contents: dict[str, Any] = {
        "labels": [[name, list(dims), v.dtype.str, list(v.shape)] for name, dims, v in coords],
        "arrays": [[name, list(dims), v.dtype.str, list(v.shape)] for name, dims, v in variables],
        "attributes": point.attrs,
    }
    if point.skipped:
        contents["skipped"] = list(point.skipped)
    if point.failed:
        contents["reason"], contents["failure"] = point.reason, point.failure
    text = json.dumps(contents, separators=(",", ":"), default=_number).encode()  # ASCII: any text survives
    packed = zlib.compress(text, 1) if len(text) <= SMALL else text
    pieces = [LENGTHS.pack(len(packed), len(text) if packed is not text else 0), packed]
    pieces += [v.tobytes() for _, _, v in (*coords, *variables)]
    data = b"".join(pieces)
    if len(data) > LARGEST or len(packed) > LONGEST:
        raise InputError(
            f"A point takes {len(data)} bytes, {len(packed)} of them attributes; a store takes at most {LARGEST} and "
            f"{LONGEST}. Ask for fewer times or replicas, or sweep a function that returns less."
        )
    return data


def decode(data: bytes, where: str) -> Point:
    """The point in these bytes; `ResultFileError`, naming ``where``, if they are none."""
    try:
        return _point(data)
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        struct.error,
        zlib.error,
        RecursionError,
        MemoryError,
    ) as error:
        words = f"{type(error).__name__}: {str(error)[:160]}"
        raise ResultFileError(f"{where} is not a point of a sweep ({words}).") from error


def _plain(values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind in "OT":
        array = array.astype(str)
    if array.dtype.itemsize == 0:  # texts that are all empty
        array = array.astype(f"{array.dtype.kind}1")
    return array


def _number(value: Any) -> Any:
    """What JSON does not know, as it is in attributes."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _point(data: bytes) -> Point:
    here, whole = LENGTHS.unpack_from(data)
    if LENGTHS.size + here > len(data) or here > LONGEST or whole > SMALL:
        raise ValueError("its table of contents is longer than it may be")
    text = data[LENGTHS.size : LENGTHS.size + here]
    if whole:
        unpack = zlib.decompressobj()
        text = unpack.decompress(text, whole)
        if len(text) != whole or unpack.unconsumed_tail or not unpack.eof:
            raise ValueError("its table of contents is not as long as it says")
    contents = json.loads(text.decode("ascii"))
    rows = [*contents["labels"], *contents["arrays"]]
    if len(rows) > MAX_ARRAYS:
        raise ValueError(f"it has {len(rows)} arrays")
    tables: Table = {}
    place, sizes = LENGTHS.size + here, {}
    for name, dims, kind, shape in rows:
        tables[_text(name)] = (tuple(map(_text, dims)), array := _array(data, place, kind, shape))
        place += array.nbytes
        if array.ndim != len(dims) or any(sizes.setdefault(d, n) != n for d, n in zip(dims, array.shape, strict=True)):
            raise ValueError(f"the shape of {name[:80]!r} is not that of its dimensions")
    if place != len(data) or len(tables) != len(rows):
        raise ValueError("its arrays are not those that it declares")
    attrs = contents["attributes"]
    if not isinstance(attrs, dict):
        raise ValueError("its attributes are no table")
    for value in attrs.values():
        check_depth(value)
    coords = {row[0]: tables.pop(row[0]) for row in contents["labels"]}
    skipped, reason = map(_text, contents.get("skipped", [])), _text(contents.get("reason", ""))
    return Point(tables, coords, attrs, tuple(skipped), reason, _text(contents.get("failure", "failed")))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a name or a reason is no text")
    return value


def _array(data: bytes, place: int, kind: Any, shape: Any) -> np.ndarray:
    if not isinstance(kind, str) or not KIND.fullmatch(kind):
        raise ValueError("an array is of a kind that no point has")
    if len(shape) > MAX_RANK or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError("an array has a shape that is none")
    dtype = np.dtype(kind)
    if dtype.itemsize == 0 or math.prod(max(n, 1) for n in shape) * dtype.itemsize > LARGEST:
        raise ValueError("an array is larger than a point may be")
    size = math.prod(shape) * dtype.itemsize
    if place + size > len(data):
        raise ValueError("an array is longer than what is left")
    array = np.frombuffer(data, dtype, math.prod(shape), place).reshape(shape).copy()
    if dtype.kind == "b" and size and array.view(np.uint8).max() > 1:
        raise ValueError("a truth value is neither true nor false")
    if (
        dtype.kind == "U"
        and size
        and array.astype(dtype.newbyteorder("=")).reshape(-1).view(np.uint32).max() > 0x10FFFF
    ):
        raise ValueError("a text has characters that are none")
    return array
