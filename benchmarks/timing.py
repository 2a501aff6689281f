"""Shared helpers of the benchmarks: best-of timing and a table of ratios."""

import time
from collections.abc import Callable
from typing import Any

import jax


def best(call: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds of the fastest of several calls, after one that compiles."""
    jax.block_until_ready(call())
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def together(*calls: Callable[[], Any], repeats: int = 5) -> list[float]:
    """As `best` for several calls, taken in turn, so that a busy moment of the machine hits all of them."""
    for call in calls:
        jax.block_until_ready(call())
    fastest = [float("inf")] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            began = time.perf_counter()
            jax.block_until_ready(call())
            fastest[i] = min(fastest[i], time.perf_counter() - began)
    return fastest


class Table:
    """Rows of (what, ratio, wanted, held)."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, bool | None]] = []

    def add(self, what: str, value: str, wanted: str = "", held: bool | None = None) -> None:
        self.rows.append((what, value, wanted, held))
        mark = "" if held is None else ("yes" if held else "NO")
        print(f"{what:<72} {value:>22}   {wanted:<24} {mark}", flush=True)

    def markdown(self) -> str:
        lines = ["| what | measured | wanted | held |", "|---|---|---|---|"]
        lines += [f"| {a} | {b} | {c} | {'' if d is None else 'yes' if d else 'no'} |" for a, b, c, d in self.rows]
        return "\n".join(lines)
