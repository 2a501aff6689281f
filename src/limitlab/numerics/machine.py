"""What this machine has and what is too much for it, and arrays with blanks."""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from limitlab.errors import InputError
from limitlab.verbs import Progress

__all__ = [
    "Growth",
    "Memory",
    "Progress",
    "blank",
    "check_memory",
    "cores",
    "count_maps",
    "fits",
    "in_units",
    "maps_allowed",
    "memory_here",
    "one_thread",
    "relieve",
    "resident",
]

SHARE = 0.8  # of the memory here that a computation may take
CONTAINERS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
MAPS = 0.4  # of the memory maps allowed, from which compiled programs are given up
LOOK = 1.0  # seconds between two counts of the memory maps
SOON = 0.05  # seconds between two looks at the memory of this process
_looked = -LOOK  # when they were last counted
_left = 0  # how many were left when programs were last given up


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Products and decompositions of NumPy and SciPy inside use a single thread.

    For small matrices a second one does not help, and on a busy machine they wait for each other.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


def blank(values: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """NaN where ``gone`` (time, replica), along all further axes of ``values``."""
    return np.where(gone.reshape(gone.shape + (1,) * (values.ndim - gone.ndim)), np.nan, values)


class Memory(NamedTuple):
    """Bytes that a computation holds at its peak, beyond what the process had, and how to need fewer, in words."""

    bytes: int
    remedy: str


def check_memory(needed: Memory | None, by: str) -> None:
    """Raise `InputError` if the machine has less memory than is needed; None is not known, and not refused."""
    have = memory_here()
    if needed is not None and needed.bytes > SHARE * have:
        raise InputError(
            f"{by} needs about {in_units(needed.bytes)} of memory, this machine has {in_units(have)}. {needed.remedy}"
        )


class Growth:
    """How far the memory of this process has grown since: `check` raises before there is none left."""

    def __init__(self, by: str, remedy: str):
        self._by, self._remedy, self._began, self._looked = by, remedy, resident(), time.monotonic()

    def check(self) -> None:
        if time.monotonic() - self._looked < SOON:  # nothing grows faster than memory can be written
            return
        self._looked = time.monotonic()
        check_memory(Memory(int(resident() - self._began), self._remedy), self._by)


def fits(needed: int) -> bool:
    """Whether so many bytes are within what this machine has."""
    return needed <= SHARE * memory_here()


def in_units(count: int) -> str:
    """Bytes in words: 60.0 GiB."""
    size, unit = count / 2**30, "GiB"
    for larger in ("TiB", "PiB", "EiB"):
        if size < 1000:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}" if size < 1000 else f"{size:.1e} {unit}"


def resident(process: int | None = None) -> float:
    """Bytes of memory that this process holds, or another one; 0 of one that is gone."""
    try:
        pages = int(Path(f"/proc/{process or 'self'}/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        if process is not None:
            return 0.0
        import psutil

        return float(psutil.Process().memory_info().rss)


@cache
def memory_here() -> int:
    """Bytes of memory of this machine, or of the container that the process runs in."""
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**62
    for name in CONTAINERS:
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        have = min(have, int(text)) if text.isdigit() else have
    return have


def relieve() -> None:
    """Give up compiled programs before the process has more memory maps than Linux allows, which would kill it.

    XLA maps some pages for every compiled kernel, a few hundred for a new shape. Every verb and question asks this when
    it is called; maps are counted once a second at most.
    """
    global _looked, _left
    if time.monotonic() - _looked < LOOK:
        return
    _looked = time.monotonic()
    most = MAPS * maps_allowed()
    if count_maps() > max(most, _left + most / 2):
        import jax

        jax.clear_caches()
        gc.collect()
        _left = count_maps()  # what other libraries hold: programs are not given up for their sake


def count_maps() -> int:
    """How many memory maps the process has; 0 where that is not known."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


@cache
def maps_allowed() -> int:
    """How many memory maps a process may have."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return 65530
