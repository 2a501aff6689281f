"""Timings taken in turn, and the table of ratios that a benchmark fills."""

import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from limitlab.benchmarks.machine import limits
from limitlab.files import whole

__all__ = ["Row", "Seconds", "Table", "best", "run", "together"]

FASTER_THAN_IDEAL = 0.2  # by which a fitted exponent may exceed the ideal one: caches, and sizes that are not large


class Seconds(float):
    """The shortest of several timings; ``noise`` is how much longer the median was, as a share."""

    noise: float = 0.0

    @classmethod
    def of(cls, taken: Sequence[float]) -> "Seconds":
        made = cls(min(taken))
        made.noise = statistics.median(taken) / min(taken) - 1
        return made


def best(call: Callable[[], Any], repeats: int = 5) -> Seconds:
    """Seconds of the fastest of several calls, after one that compiles."""
    return together(call, repeats=repeats)[0]


def together(*calls: Callable[[], Any], repeats: int = 5) -> list[Seconds]:
    """As `best` for several calls, taken in turn, so that a busy moment of the machine hits all of them."""
    for call in calls:
        jax.block_until_ready(call())
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for i, call in enumerate(calls):
            began = time.perf_counter()
            jax.block_until_ready(call())
            taken[i].append(time.perf_counter() - began)
    return [Seconds.of(x) for x in taken]


class Row(NamedTuple):
    """What was measured, in words, as a number (None of a remark) with its relative noise; what was wanted; if it held.

    ``better`` is "less" or "more" where a number can be worse than another one.
    """

    what: str
    value: str
    wanted: str
    held: bool | None
    number: float | None
    noise: float
    better: str | None


class Table:
    """Rows that are printed as they come."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, what: str, value: str, wanted: str = "", held: bool | None = None, noise: float = 0.0) -> None:
        """A row; its number is the first in ``value``, and what is better is told by the sign in ``wanted``."""
        found = re.match(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", value)
        number = float(found.group()) if found and held is not None else None
        better = {"<": "less", ">": "more"}.get(wanted[:1])
        self.rows.append(
            Row(
                what,
                value,
                wanted,
                None if held is None else bool(held),
                number,
                float(noise),
                better if found else None,
            )
        )
        mark = "" if held is None else ("yes" if held else "NO")
        print(f"{what:<72} {value:>22}   {wanted:<24} {mark}", flush=True)

    def ratio(self, what: str, a: float, b: float, wanted: str, digits: int = 2) -> None:
        """a/b, wanted "<= 1.3" or ">= 20"."""
        bound = float(wanted.split()[1])
        held = a / b <= bound if wanted.startswith("<") else a / b >= bound
        self.add(what, f"{a / b:.{digits}f}", wanted, held, sum(getattr(x, "noise", 0.0) for x in (a, b)))

    def growth(self, what: str, sizes: Sequence[float], seconds: Sequence[float], ideal: float) -> None:
        """The exponent with which time grows, beside the ideal one."""
        slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        wanted = f"<= {ideal + FASTER_THAN_IDEAL:.2g} (ideal {ideal:g})"
        self.add(f"{what}: exponent", f"{slope:.2f}", wanted, slope <= ideal + FASTER_THAN_IDEAL)

    def markdown(self) -> str:
        """To paste into a text."""
        lines = ["| what | measured | wanted | held |", "|---|---|---|---|"]
        held = {None: "", True: "yes", False: "no"}
        return "\n".join([*lines, *(f"| {r.what} | {r.value} | {r.wanted} | {held[r.held]} |" for r in self.rows)])


def run(parts: dict[str, Callable[[Table], None]]) -> None:
    """The program of a benchmark: its parts (all, or those asked for), then ``--json FILE`` with every number."""
    words = sys.argv[1:]
    path = words[words.index("--json") + 1] if "--json" in words else None
    chosen = [word for word in words if word in parts] or list(parts)
    table = Table()
    machine = limits()
    print("this machine: " + ", ".join(f"{name} {value:.3g}" for name, value in machine.items()), flush=True)
    for name in chosen:
        parts[name](table)
    if path is not None:
        record = {"machine": machine, "jax": jax.__version__, "rows": [row._asdict() for row in table.rows]}
        with whole(path) as part:
            Path(part).write_text(json.dumps(record, indent=1), encoding="utf-8")
