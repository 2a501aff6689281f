"""Writes points into a store, packs it or throws away, until it is killed. Run as a program by test_writers.py."""

import hashlib
import os
import sys
from pathlib import Path

import numpy as np

from limitlab.results.points import Point
from limitlab.sweep.storage.care import gc
from limitlab.sweep.storage.pack import pack
from limitlab.sweep.storage.store import Store

TASKS = {"pack": pack, "gc": gc}


def key_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:32]


def unwanted(number: int) -> bool:
    """Whether a point belongs to no sweep, so that `gc` may throw it away at any moment."""
    return number % 7 == 6


def point_of(number: int) -> Point:
    """Points of all sizes: a write may be cut anywhere."""
    values = np.random.default_rng(number).normal(size=10 ** (number % 5))
    return Point({"x": (("i",), values)}, attrs={"provenance": {"key": key_of(number)}})


if __name__ == "__main__":
    folder, task, first, step = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    store = Store(folder)
    diary = os.open(Path(folder).parent / "diary", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    print("ready", flush=True)
    number = first
    while True:
        if task in TASKS:
            TASKS[task](store)
            continue
        if not store.has(key_of(number)):
            store.write(key_of(number), point_of(number))
            os.write(diary, f"{number}\n".encode())  # from here on it must be there
        number += step
