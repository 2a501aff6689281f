"""One point of the report: an entry or a formula, run and watched, as a Dataset that a store keeps."""

import functools
import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import limitlab
from limitlab.errors import ResultFileError
from limitlab.gallery import ENTRIES
from limitlab.gallery.entry import FIGURE, Check, Verdict, run, write
from limitlab.numerics.machine import resident
from limitlab.problems.problem import Problem
from limitlab.report.formulas import FORMULAS
from limitlab.sweep.job import versions

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Outcome", "measured", "named", "outcome_of"]

LOOK = 0.05  # seconds between two looks at the memory
FORM = 2  # of what is kept of a point: raised when that changes


@dataclass(frozen=True)
class Outcome:
    """What became of an entry or a formula: its checks, its files, what it took; ``reason`` if it broke."""

    name: str
    title: str
    checks: tuple[Check, ...] = ()
    left_out: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    seconds: float = 0.0
    processor_seconds: float = 0.0
    memory: float = 0.0
    sizes: str = ""
    seeds: Mapping[str, Any] | None = None
    made_with: Mapping[str, Any] | None = None
    reason: str = ""

    @property
    def figure(self) -> bytes:
        """The picture as a PNG; empty of a formula."""
        return self.files.get(FIGURE, b"")


def digest_of(folder: Path) -> str:
    """Of all code in a folder and below it."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _package() -> str:
    return digest_of(Path(limitlab.__file__).parent)


def named(name: str, quick: bool) -> str:
    """The point of an entry or formula: name, size, and a digest of the package. Other code anywhere, other point."""
    digest = hashlib.sha256(f"{FORM} {_package()}".encode()).hexdigest()[:12]
    size = "quick" if quick and name in ENTRIES and ENTRIES[name].quick is not None else "full"
    return f"{name} {size} {digest}"


def measured(problem: Problem, point: str) -> "xr.Dataset":
    """Run what a point names (`named`). The problem is not looked at: it is what sweeps are about."""
    import xarray as xr

    name, size, _ = point.split()
    with _watched() as took:
        if name in ENTRIES:
            verdict = run(ENTRIES[name], quick=size == "quick")
            checks, left_out, sizes = verdict.checks, verdict.left_out, verdict.sizes
            seeds = {key: ds.attrs["seed"] for key, ds in verdict.data.items() if "seed" in ds.attrs}
            files = _files_of(verdict)
        else:
            formula = FORMULAS[name]
            found = formula.measure()
            checks, left_out = (Check(formula.statement, found.ok, found.detail),), ()
            sizes, seeds, files = "", {}, {}
    lengths = {name: len(content) for name, content in files.items()}
    about = {"left_out": left_out, "sizes": sizes, "seeds": seeds, "made_with": versions(), "files": lengths}
    return xr.Dataset(
        {
            "statement": ("row", np.array([check.statement for check in checks])),
            "held": ("row", np.array([check.ok for check in checks])),
            "detail": ("row", np.array([check.detail for check in checks])),
            "files": ("word", _words(b"".join(files.values()))),
            "about": ((), json.dumps(about, default=str)),
            **{key: ((), value) for key, value in took.items()},
        }
    )


def _cost(problem: Problem, point: str) -> float:
    """Seconds that a point is said to take, so that the long ones begin first."""
    name, size, _ = point.split()
    if name not in ENTRIES:
        return 1.0
    entry = ENTRIES[name]
    return entry.quick.seconds if size == "quick" and entry.quick is not None else entry.seconds


vars(measured)["cost"] = _cost  # sweeps look for it there


def _files_of(verdict: Verdict) -> dict[str, bytes]:
    """What ``limitlab run`` leaves in a folder, the film excepted."""
    with tempfile.TemporaryDirectory(prefix="limitlab-") as name:
        write(verdict, Path(name))
        return {path.name: path.read_bytes() for path in sorted(Path(name).iterdir())}


@contextmanager
def _watched() -> Iterator[dict[str, float]]:
    """Seconds by the clock and of the processors, and the most memory that the process held meanwhile."""
    took, done = {"memory": resident()}, threading.Event()

    def look() -> None:
        while not done.wait(LOOK):
            took["memory"] = max(took["memory"], resident())

    watcher = threading.Thread(target=look, daemon=True)
    began, worked = time.perf_counter(), time.process_time()
    watcher.start()
    try:
        yield took
    finally:
        done.set()
        watcher.join()
        took |= {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - worked}


def outcome_of(name: str, ds: "xr.Dataset") -> Outcome:
    """What a point says, from a sweep of that point alone."""
    title = ENTRIES[name].title if name in ENTRIES else FORMULAS[name].statement
    one = ds.isel(point=0)
    if str(one.status.values) != "ok":
        return Outcome(name, title, reason=str(one.reason.values))
    rows = zip(one.statement.values.tolist(), one.held.values.tolist(), one.detail.values.tolist(), strict=True)
    about = json.loads(str(one["about"].values))
    return Outcome(
        name,
        title,
        tuple(Check(statement, bool(held), detail) for statement, held, detail in rows),
        tuple(about["left_out"]),
        _parted(one.files.values.astype("<u8").tobytes(), about["files"]),
        float(one.seconds),
        float(one.processor_seconds),
        float(one.memory),
        about["sizes"],
        about["seeds"],
        about["made_with"],
    )


def _words(content: bytes) -> np.ndarray:
    """Bytes as words of eight, zeros at their end: a store labels every element, which would be eight times a byte."""
    return np.frombuffer(content.ljust(8 * max(1, -(-len(content) // 8)), b"\0"), "<u8")


def _parted(content: bytes, lengths: Mapping[str, int]) -> dict[str, bytes]:
    """The files of a point from their bytes in a row. A store may come from a stranger: names are plain."""
    for name in lengths:
        if not name or Path(name).name != name or name.startswith("."):
            raise ResultFileError(
                f"A point of the report has a file {name!r}, which is no plain name. Remove the store."
            )
    ends = list(accumulate(lengths.values(), initial=0))
    return {name: content[start:end] for name, start, end in zip(lengths, ends, ends[1:], strict=False)}
