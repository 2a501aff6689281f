"""A large store: how long it takes to fill, find again, look at, verify and export, and how much memory each needs.

    python benchmarks/store.py [points] [folder]

Every step is a process of its own, so that its largest memory can be told. The folder (a temporary one unless given)
needs about 10 KB of disk for each point.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from timing import Table

import limitlab as ll
from sweep import RATE, problem, trivial

FILL = "fill"


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


def measure(folder: Path, points: int) -> None:
    """Print the table."""
    table, store = Table(), folder / "store"
    again = [__file__, FILL, str(store), str(points)]

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
    print(table.markdown())


if __name__ == "__main__":
    if sys.argv[1:2] == [FILL]:
        fill(sys.argv[2], int(sys.argv[3]))
    else:
        count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 100_000
        with tempfile.TemporaryDirectory() as scratch:
            measure(Path(sys.argv[2]) if len(sys.argv) > 2 else Path(scratch), count)
