"""Sweeps: what a point costs besides its own work, what a second worker brings, what stays on disk.

Ratios and costs of one run. The speed-up of vmapped families over a loop is the benchmark ``family``.
"""

import resource
import tempfile
import time
from typing import Any

import numpy as np

import limitlab as ll
from limitlab.benchmarks.table import Table, run
from limitlab.sweep.engine.chunks import widths_of
from limitlab.sweep.engine.compute import Engine, compute
from limitlab.sweep.engine.tally import Tally
from limitlab.sweep.job import Job
from limitlab.sweep.storage.store import Store

RATE = "algorithm.learning_rate"


def problem(width: int = 1) -> ll.Problem:
    """One-pass SGD, of which the trivial verb looks at the learning rate only."""
    return ll.Problem(
        teacher=ll.Committee(width=width, activation="erf"),
        student=ll.Committee(width=width, activation="erf"),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.3),
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )


def trivial(problem: Any) -> float:
    """Costs nothing."""
    return 2 * problem.algorithm.learning_rate


def seconds(call) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def overhead(table: Table, points: int = 10_000) -> None:
    """A sweep of trivial points: all that is measured is what the sweep itself costs."""
    rates = np.linspace(0.1, 1.0, points).tolist()
    engines = {"in memory": None, "this process, stored": {}, "two local processes, stored": {"workers": 2}}
    for name, engine in engines.items():
        with tempfile.TemporaryDirectory() as folder:
            keywords = {} if engine is None else {"store": folder + "/s", **engine}
            first = seconds(lambda k=keywords: ll.sweep(trivial, problem(), {RATE: rates}, **k))
            wanted = ("< 5 ms", first / points < 5e-3) if engine else ("", None)
            table.add(f"{points} trivial points, {name}", f"{1e3 * first / points:.2f} ms a point", *wanted)
            if engine:
                again = seconds(lambda k=keywords: ll.sweep(trivial, problem(), {RATE: rates}, **k))
                table.add("  the same again: all found", f"{1e3 * again / points:.2f} ms a point")
                store = Store(keywords["store"])
                table.add("  verify", f"{1e3 * seconds(store.verify) / points:.2f} ms a point")
                table.add("  on disk", f"{store.size()[1] / points:.0f} bytes a point")
    table.add("largest memory of this process", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


def second_worker(table: Table) -> None:
    """Simulations of about half a second each, with processes that have compiled already."""
    job = Job(ll.simulate, problem(4), {"d": 1000, "times": [0.0, 0.5], "replicas": 4}, 0, "argument")
    took = {}
    for workers in (1, 2):
        with Engine(workers) as engine:
            warm = [job.task(i, {RATE: 0.5 + 1e-6 * i}) for i in range(4 * workers)]
            tasks = [job.task(i, {RATE: 0.5 + 1e-3 * i}) for i in range(1, 41)]
            for points in (warm, tasks):
                tally = Tally("simulate", "", len(points), None, None)
                took[workers] = seconds(lambda p=points, t=tally, e=engine: compute(job, p, widths_of(p), None, e, t))
        table.add(f"40 simulations, {workers} worker(s)", f"{took[workers] / 40:.3f} s a point")
    ratio = took[1] / took[2]
    table.add("two workers against one", f"{ratio:.2f} times as fast", ">= 1.7", ratio >= 1.7)


if __name__ == "__main__":
    run({"overhead": overhead, "second-worker": second_worker})
