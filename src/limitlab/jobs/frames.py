"""What a service and its workers say to each other: a head in JSON and bytes, their lengths before them."""

import json
import struct
from typing import Any, NamedTuple

__all__ = ["LENGTHS", "Frame", "lengths", "pack", "unpacked"]

LENGTHS = struct.Struct("<IQ")
LONGEST, LARGEST = 1 << 24, 1 << 31  # bytes of a head, and of what follows it


class Frame(NamedTuple):
    """A head and its bytes."""

    head: dict[str, Any]
    data: bytes = b""


def pack(frame: Frame) -> bytes:
    """The frame as it goes through a pipe."""
    text = json.dumps(frame.head).encode()
    return LENGTHS.pack(len(text), len(frame.data)) + text + frame.data


def lengths(first: bytes) -> tuple[int, int]:
    """How long head and bytes of the next frame are; ValueError if they are longer than any."""
    text, data = LENGTHS.unpack(first)
    if text > LONGEST or data > LARGEST:
        raise ValueError(f"a frame of {text} and {data} bytes")
    return text, data


def unpacked(text: bytes, data: bytes) -> Frame:
    """The frame of a head as text; ValueError if it is no table."""
    head = json.loads(text)
    if not isinstance(head, dict):
        raise ValueError("the head of a frame is no table")
    return Frame(head, data)
