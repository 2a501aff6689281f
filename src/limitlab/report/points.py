"""One point of the report: an entry or a formula, run and watched, as a Dataset that a store keeps."""

import hashlib
import inspect
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab import __version__
from limitlab.figures import png
from limitlab.gallery import ENTRIES
from limitlab.gallery.entry import Check, run
from limitlab.numerics.machine import resident
from limitlab.problems.problem import Problem
from limitlab.report.formulas import FORMULAS
from limitlab.sweep.job import versions

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Outcome", "measured", "named", "outcome_of"]

LOOK = 0.05  # seconds between two looks at the memory


@dataclass(frozen=True)
class Outcome:
    """What became of an entry or a formula: its checks, its picture, what it took; ``reason`` if it broke."""

    name: str
    title: str
    checks: tuple[Check, ...] = ()
    left_out: tuple[str, ...] = ()
    figure: bytes = b""
    seconds: float = 0.0
    processor_seconds: float = 0.0
    memory: float = 0.0
    sizes: str = ""
    seeds: Mapping[str, Any] | None = None
    made_with: Mapping[str, Any] | None = None
    reason: str = ""


def named(name: str, quick: bool) -> str:
    """The point of an entry or formula: name, size, and a digest of the code that makes it. Other code, other point."""
    function = ENTRIES[name].compute if name in ENTRIES else inspect.unwrap(FORMULAS[name].measure)
    source = inspect.getsource(sys.modules[function.__module__])
    digest = hashlib.sha256(f"{__version__}\n{source}".encode()).hexdigest()[:12]
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
            figure = b"" if verdict.figure is None else png(verdict.figure)
        else:
            formula = FORMULAS[name]
            found = formula.measure()
            checks, left_out = (Check(formula.statement, found.ok, found.detail),), ()
            sizes, seeds, figure = "", {}, b""
    about = json.dumps({"left_out": left_out, "sizes": sizes, "seeds": seeds, "made_with": versions()}, default=str)
    return xr.Dataset(
        {
            "statement": ("row", np.array([check.statement for check in checks])),
            "held": ("row", np.array([check.ok for check in checks])),
            "detail": ("row", np.array([check.detail for check in checks])),
            "figure": ("byte", np.frombuffer(figure or b"\0", np.uint8)),
            "about": ((), about),
            **{key: ((), value) for key, value in took.items()},
        }
    )


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
    about, figure = json.loads(str(one["about"].values)), one.figure.values.astype(np.uint8).tobytes()
    return Outcome(
        name,
        title,
        tuple(Check(statement, bool(held), detail) for statement, held, detail in rows),
        tuple(about["left_out"]),
        figure if len(figure) > 1 else b"",
        float(one.seconds),
        float(one.processor_seconds),
        float(one.memory),
        about["sizes"],
        about["seeds"],
        about["made_with"],
    )
