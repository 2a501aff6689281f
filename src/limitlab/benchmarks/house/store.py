"""A large store: how long it takes to fill, find again, look at, verify and export, and how much memory each needs.

Every step is a process of its own, so that its largest memory can be told. The temporary folder needs about 10 KB of
disk for each point.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import limitlab as ll
from limitlab.benchmarks.house.sweep import RATE, problem, trivial
from limitlab.benchmarks.table import Table, run

FILL, POINTS = "fill", 100_000


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
    folders = [len(list(place.iterdir())) for place in (store / "points").iterdir()]
    table.add("folders, and files in the smallest and largest", f"{len(folders)}, {min(folders)}, {max(folders)}")
    files = list((store / "points").glob("*/*.nc"))
    size = sum(path.stat().st_size for path in files)
    taken = sum(512 * path.stat().st_blocks for path in files)
    table.add("bytes of a point, and on disk with its blocks", f"{size / points:.0f}, {taken / points:.0f}")
    lost = files[:: max(1, points // 100)]
    for path in lost:
        path.unlink()
    row(f"the same again after {len(lost)} points are gone, the rest found and checked", again)
    cli = ["-c", "from limitlab.cli import main; main()"]
    row("limitlab status", [*cli, "status", str(store)])
    row("limitlab store ls", [*cli, "store", "ls", str(store)])
    row("limitlab store verify", [*cli, "store", "verify", str(store)])
    row("limitlab store export to CSV", [*cli, "store", "export", str(store), "--out", str(folder / "a.csv")])
    row("limitlab store export to one netCDF", [*cli, "store", "export", str(store), "--out", str(folder / "a.nc")])


def large(table: Table) -> None:
    """10^5 points in a folder that is removed."""
    with tempfile.TemporaryDirectory() as scratch:
        measure(table, Path(scratch), POINTS)


if __name__ == "__main__":
    if sys.argv[1:2] == [FILL]:
        fill(sys.argv[2], int(sys.argv[3]))
    else:
        run({"large": large})
