"""Stores: what a point costs to write, find again, verify and export, beside a file for each as it was before.

``formats`` compares the two ways in one run, in turn; ``large`` is a sweep of 10^5 points in which every step is a
process of its own, so that its largest memory can be told. The temporary folder needs about 10 KB for each point.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import limitlab as ll
from limitlab.benchmarks.house.old_store import OldStore
from limitlab.benchmarks.house.sweep import RATE, problem, trivial
from limitlab.benchmarks.table import Table, run
from limitlab.results.points import Point
from limitlab.sweep.identity import hash_of
from limitlab.sweep.job import Job, stamped, visit
from limitlab.sweep.storage.export import export
from limitlab.sweep.storage.store import Store

FILL, POINTS, BLOCK = "fill", 100_000, 500
STEPS = ("write", "find again and read", "verify", "export to CSV")


def one_number() -> Point:
    """What a sweep keeps of a verb that returns a number."""
    job = Job(trivial, problem(), {})
    task = job.task(0, {RATE: 0.5})
    return stamped(job, task, problem(), visit(job, task, problem(), {}), 0.001)


def trajectory() -> Point:
    """The overlaps of an ODE at 21 times."""
    job = Job(ll.predict, problem(4), {"limit": ll.OverlapODE(), "times": np.linspace(0, 1, 21)})
    task = job.task(0, {RATE: 0.5})
    return stamped(job, task, problem(4), visit(job, task, *job.ask({RATE: 0.5})), 0.001)


def copies(point: Point, keys: list[str]):
    """The point under other names."""
    for key in keys:
        yield dataclasses.replace(point, attrs={**point.attrs, "provenance": {**point.attrs["provenance"], "key": key}})


def clocks() -> np.ndarray:
    """Seconds that went by, and seconds of processor."""
    return np.array([time.perf_counter(), time.process_time()])


def in_turn(old: Callable[[list[str]], Any], new: Callable[[list[str]], Any], keys: list[str]) -> np.ndarray:
    """Seconds of both for all points, block by block, so that a busy moment of the machine hits both."""
    took = np.zeros((2, 2))
    for first in range(0, len(keys), BLOCK):
        for number, call in enumerate((old, new)):
            took[number] += seconds(lambda call=call, first=first: call(keys[first : first + BLOCK]))
    return took


def seconds(call: Callable[[], Any]) -> np.ndarray:
    began = clocks()
    call()
    return clocks() - began


def compared(table: Table, folder: Path, what: str, point: Point, count: int, parts: int = 1) -> None:
    """A file for each point against segments: milliseconds and bytes of a point.

    All points are written, found and read, verified, exported. After the writing this is done in parts, each spread
    over the whole store, and what is known so far is said after each: at 10^5 points the old way takes half an hour.
    """
    keys = [hash_of("benchmark", number)[:32] for number in range(count)]
    old, new = OldStore(folder / "old"), Store(folder / "new")

    def write(store: Any) -> Callable[[list[str]], Any]:
        return lambda some: [store.write(k, p) for k, p in zip(some, copies(point, some), strict=True)]

    def read(store: Any) -> Callable[[list[str]], None]:
        def all_of(some: list[str]) -> None:
            for key in some:
                if not store.has(key) or not isinstance(store.peek(key), Point):
                    raise RuntimeError(f"{key} was lost")

        return all_of

    took = {step: np.zeros((2, 2)) for step in STEPS}
    took[STEPS[0]] = in_turn(write(old), write(new), keys)
    new.close()
    took[STEPS[1]][1] = seconds(lambda: Store(folder / "new"))
    again = Store(folder / "new")
    stores: list[Any] = [old, again]  # what an export asks of a store both have
    checked: list[list[tuple[int, list[Any]]]] = [[], []]
    took[STEPS[2]][1] = seconds(lambda: checked[1].append(again.verify()))
    for number in range(parts):
        name, some, files = f"part{number}", sorted(keys)[number::parts], [folder / "old.csv", folder / "new.csv"]
        about = {"name": "trivial", "axes": {RATE: list(range(len(some)))}, "points": len(some)}
        for store in stores:
            store.keep_sweep(name, about, some)
        took[STEPS[1]] += in_turn(read(old), read(again), some)
        took[STEPS[2]][0] += seconds(lambda number=number: checked[0].append(old.verify(number, parts)))
        for which in (0, 1):
            one = stores[which], files[which], name
            took[STEPS[3]][which] += seconds(lambda one=one: export(*one))
        if files[0].read_bytes() != files[1].read_bytes():
            raise RuntimeError("the two stores say different things")
        if parts > 1:
            told = "; ".join(f"{step} {took[step].round(1).tolist()}" for step in STEPS)
            print(f"{number + 1} of {parts} parts, seconds and those of processor, before and now: {told}", flush=True)
    for told in checked:
        if sum(good for good, _ in told) != count or any(bad for _, bad in told):
            raise RuntimeError("not every point that was written was found good")
    for step in STEPS:
        (before, busy), (after, busy_now) = took[step]
        each = 1e3 / count
        words = f"{each * before:.3f}, {each * after:.3f} ({each * busy:.3f}, {each * busy_now:.3f} of processor)"
        table.ratio(f"{count} points, {what}, {step}: before / now", before, after, ">= 5", digits=1)
        table.add(f"   {step}: milliseconds a point, before and now", words)
    total = sum(took.values(), np.zeros((2, 2)))[:, 0]
    table.ratio(f"{count} points, {what}, all four: before / now", total[0], total[1], ">= 5", digits=1)
    paths = list(old.files())
    sizes = sum(path.stat().st_size for path in paths), again.size()[1]
    table.ratio(f"{count} points, {what}, bytes: before / now", sizes[0], sizes[1], ">= 3", digits=1)
    blocks = sum(512 * path.stat().st_blocks for path in paths) / count
    held = len(list((folder / "new" / "points").iterdir()))
    words = f"{sizes[0] / count:.0f} ({blocks:.0f} with blocks), {sizes[1] / count:.0f}; {count}, {held}"
    table.add("   bytes a point before and now; files before and now", words)


def formats(table: Table) -> None:
    """10^4 points of two kinds."""
    for what, point in (("one number", one_number()), ("ODE at 21 times", trajectory())):
        with tempfile.TemporaryDirectory() as scratch:
            compared(table, Path(scratch), what, point, 10_000)


def formats_large(table: Table) -> None:
    """10^5 points."""
    with tempfile.TemporaryDirectory() as scratch:
        compared(table, Path(scratch), "one number", one_number(), POINTS, parts=10)


def fill(folder: str, points: int) -> None:
    """Sweep trivial points into a store, with two local processes."""
    rates = np.linspace(0.1, 1.0, points).tolist()
    found = ll.sweep(trivial, problem(), {RATE: rates}, store=folder, workers=2)
    np.testing.assert_array_equal(found["trivial"], 2 * np.array(rates))


def step(words: list[str]) -> tuple[float, float]:
    """Seconds that a command takes, and the largest memory of its process in MB."""
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(words)} ended with {status}.")
    return time.perf_counter() - began, used.ru_maxrss / 1e3


def measure(table: Table, folder: Path, points: int) -> None:
    """Fill the table."""
    store = folder / "store"
    again = ["-m", "limitlab.benchmarks.house.store", FILL, str(store), str(points)]

    def row(name: str, words: list[str]) -> None:
        took, memory = step(words)
        table.add(name, f"{took:.0f} s, {1e3 * took / points:.2f} ms a point, {memory:.0f} MB")

    row(f"{points} trivial points, two local processes, stored", again)
    held = Store(store)
    table.add("segments", f"{len(held.segments.names())}")
    table.add("bytes of a point", f"{held.size()[1] / points:.0f}")
    lost = list(held.keys())[:: max(1, points // 100)]
    for key in lost:
        held.remove(key)
    held.close()
    row(f"the same again after {len(lost)} points are gone, the rest found and checked", again)
    cli = ["-c", "from limitlab.cli import main; main()"]
    row("limitlab status", [*cli, "status", str(store)])
    row("limitlab store ls", [*cli, "store", "ls", str(store)])
    row("limitlab store verify", [*cli, "store", "verify", str(store)])
    row("limitlab store pack", [*cli, "store", "pack", str(store)])
    row("limitlab store export to CSV", [*cli, "store", "export", str(store), "--out", str(folder / "a.csv")])
    row("limitlab store export to one netCDF", [*cli, "store", "export", str(store), "--out", str(folder / "a.nc")])


def large(table: Table) -> None:
    """A sweep of 10^5 points in a folder that is removed."""
    with tempfile.TemporaryDirectory() as scratch:
        measure(table, Path(scratch), POINTS)


if __name__ == "__main__":
    if sys.argv[1:2] == [FILL]:
        fill(sys.argv[2], int(sys.argv[3]))
    else:
        run({"formats": formats, "formats-large": formats_large, "large": large})
