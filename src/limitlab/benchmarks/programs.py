"""The benchmarks by name, how one is run in a process of its own, and what got slower since an earlier run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from limitlab.errors import InputError, ResultFileError
from limitlab.text import did_you_mean

__all__ = ["BENCHMARKS", "Benchmark", "measure", "read", "slower"]

NOTICED = 0.1  # a ratio that is worse by less than a tenth is noise
SURE = 3.0  # or by less than so many times the scatter of its timings
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class Benchmark(NamedTuple):
    """Where its program is, what it measures, whether on one thread, and about how many minutes it takes."""

    module: str
    words: str
    minutes: float
    one_thread: bool = True


BENCHMARKS: dict[str, Benchmark] = {
    "one-pass": Benchmark(
        "dynamics.one_pass_sgd", "ODE; direct and reduced SGD against their bare arithmetic; memory", 6
    ),
    "overlap-rhs": Benchmark("dynamics.overlap_rhs", "right-hand sides of the overlap ODE, time and memory", 3),
    "hypercube": Benchmark("dynamics.hypercube_sgd", "SGD on sparse targets: a step, growth, memory", 3),
    "dimension-free": Benchmark("dynamics.dimension_free", "the flow by quadrature against 10^4 random particles", 2),
    "mean-field": Benchmark("dynamics.mean_field", "mixtures: radial flow against particles", 2),
    "descent": Benchmark("dynamics.descent", "descent on fixed data against its products; DMFT", 4),
    "matrix-flow": Benchmark("dynamics.matrix_flow", "over-parametrised flow against explicit descent and BDF", 3),
    "bayes": Benchmark("static.bayes_optimal", "a Bayes curve against iteration with adaptive quadrature", 1),
    "gamp": Benchmark("static.gamp", "an iteration against its two products; a run with its data", 2),
    "multi": Benchmark("static.multi_index", "two directions against nested quadrature; matrix message passing", 3),
    "erm": Benchmark("static.erm_asymptotics", "logistic asymptotics against quad and a scalar prox", 2),
    "pools": Benchmark("static.pools", "learning curves of a user's rows against refitting", 3),
    "spectra": Benchmark("static.spectra", "400 modes against one; SGD with a spectrum for 10^7 steps", 1),
    "family": Benchmark("house.family", "1000 ODEs and 256 simulations in one sweep against a loop", 3, False),
    "sweep": Benchmark("house.sweep", "what a point costs besides its work; a second worker", 4, False),
    "import": Benchmark("house.import_time", "import limitlab against import jax", 1, False),
    "explorer": Benchmark(
        "house.explorer", "first paint, a slider move, a second visit, twenty visitors and memory", 6, False
    ),
    "first-answer": Benchmark("house.first_answer", "a new process with a warm cache: seconds, compiled programs", 8),
    "store": Benchmark(
        "house.store", "10^4 and 10^5 points written, found, verified, exported, before and now", 40, False
    ),
}


def measure(name: str, parts: list[str], path: Path) -> dict[str, Any]:
    """Run a benchmark in a process of its own, which prints its table; its numbers are kept in ``path`` (JSON)."""
    if name not in BENCHMARKS:
        raise InputError(
            f"benchmark must be one of {', '.join(BENCHMARKS)}; got {name!r}.{did_you_mean(name, BENCHMARKS)}"
        )
    asked = BENCHMARKS[name]
    settings = {**os.environ, **(ONE_THREAD if asked.one_thread else {})}
    path.parent.mkdir(parents=True, exist_ok=True)
    program = [sys.executable, "-m", f"limitlab.benchmarks.{asked.module}", *parts, "--json", str(path)]
    ended = subprocess.run(program, env=settings, preexec_fn=_on_one_core if asked.one_thread else None, check=False)
    if ended.returncode != 0:
        raise InputError(f"the benchmark {name} ended with code {ended.returncode}; what it said is above.")
    return read(path)


def _on_one_core() -> None:
    """Keep the process on one core, where the system can: flags do not reach every pool of threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def read(path: Path) -> dict[str, Any]:
    """The record of an earlier run."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        rows = [{"what": str(row["what"]), **row} for row in record["rows"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultFileError(
            f"{path} is not the record of a benchmark ({error}). Make one by limitlab benchmark NAME."
        ) from error
    return {**record, "rows": rows}


def slower(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """What is worse than before by more than noise, in words."""
    old = {row["what"]: row for row in before["rows"]}
    found = []
    for row in now["rows"]:
        was = old.get(row["what"])
        if was is None or not row.get("better") or not row.get("number") or not was.get("number"):
            continue
        worse = row["number"] / was["number"] if row["better"] == "less" else was["number"] / row["number"]
        noise = max(NOTICED, SURE * (float(row.get("noise", 0.0)) + float(was.get("noise", 0.0))))
        if worse > 1 + noise:
            found.append(f"{row['what']}: {was['value']} before, {row['value']} now (noise {100 * noise:.0f} %)")
    return found
