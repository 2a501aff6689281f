"""The right-hand side of the overlap ODE: time, memory, and how it compares with another checkout of limitlab.

With LIMITLAB_BEFORE=FOLDER, a work tree of another commit (`git worktree add`), every row is a ratio to that one. Each
tree runs in a process of its own on one thread; the two take turns, case by case and call by call, so that a busy
moment of the machine hits both. Times are CPU seconds, the fastest of several; compile time has its own rows.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.errors import InputError
from limitlab.macro.overlaps.drift import drift
from limitlab.numerics.trees import as_arrays
from limitlab.problems.asked import Asked
from limitlab.states.overlaps import Overlaps, error_sum

HERE = Path(__file__).resolve().parents[4]  # the checkout, or whatever holds the installed package
# activation, p, k, calls, what is asked of the ratio
SIDES = (("erf", 50, 2, 5, 15.0), ("relu", 50, 2, 3, 10.0), ("tanh", 4, 2, 10, 4.0))
SMALL = tuple((name, p, k, 200, 0.95) for name in ("erf", "relu") for p, k in ((1, 1), (4, 2)))
WIDE = (("erf", 200, 2), ("relu", 200, 2))
# activation, p, k, last time, calls, what is asked
PATHS = (("tanh", 4, 2, 2.0, 2, 3.0), ("erf", 4, 2, 100.0, 10, 0.95))


def side(activation: str, p: int, k: int):
    """A compiled right-hand side, random overlaps for it, CPU seconds to compile it and MiB of its arrays."""
    jax.config.update("jax_enable_compilation_cache", False)
    problem = ll.Problem(
        teacher=ll.Committee(width=k, activation=activation),
        channel=ll.GaussianNoise(variance=0.1),
        student=ll.Committee(width=p, activation=activation),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.2),
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )
    setting = CommitteeOnePass.of(problem, Asked("a benchmark", InputError))
    n, rng = p + k, np.random.default_rng(0)
    A = rng.normal(size=(n, n + 2))
    G = jnp.asarray(A @ A.T / (n + 2))
    start = Overlaps(G[:p, :p], G[:p, p:], G[p:, p:], jnp.asarray(rng.normal(size=p)))
    sums, live = error_sum(setting), as_arrays(setting)
    began = time.process_time()
    call = jax.jit(lambda o: drift(live, sums, o)).lower(start).compile()
    compiled = time.process_time() - began
    memory = call.memory_analysis()
    used = 0.0 if memory is None else memory.temp_size_in_bytes / 2**20
    return lambda: jax.block_until_ready(call(start)), compiled, used


def path(activation: str, p: int, k: int, end: float):
    """A whole prediction, and the CPU seconds of the first one, compilation included."""
    problem = ll.Problem(
        teacher=ll.Committee(width=k, activation=activation),
        student=ll.Committee(width=p, activation=activation),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(),
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )
    times = np.linspace(0.0, end, 11)

    def call():
        return ll.predict(problem, ll.OverlapODE(d=1000), times)

    began = time.process_time()
    call()
    return call, time.process_time() - began, 0.0


def child() -> None:
    """Answer one case or one call a line, until the input ends."""
    call: Any = None  # the first line is a case
    for line in sys.stdin:
        words = json.loads(line)
        if words == "call":
            began = time.process_time()
            call()
            answer = time.process_time() - began
        else:
            call, compiled, used = side(*words) if len(words) == 3 else path(*words)
            out = call()
            numbers = [out.M, out.Q, out.a] if len(words) == 3 else [out.M.values, out.Q.values]
            high = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            answer = {"compile": compiled, "MiB": used, "high": high}
            answer["numbers"] = np.concatenate([np.asarray(x).ravel() for x in numbers]).tolist()
        print(json.dumps(answer), flush=True)


class Tree:
    """A checkout of limitlab in a process of its own."""

    def __init__(self, folder: Path):
        single = {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        }
        words = [sys.executable, __file__, "--child"]
        env = {**os.environ, **single, "PYTHONPATH": str(folder / "src")}
        pipe = subprocess.PIPE
        self.process: Any = subprocess.Popen(words, env=env, stdin=pipe, stdout=pipe, text=True)

    def ask(self, words: Any) -> Any:
        print(json.dumps(words), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def turns(trees: list[Tree], words: tuple, calls: int) -> tuple[list[dict], list[float]]:
    """What each tree says of a case, and its fastest call."""
    said = [tree.ask(words) for tree in trees]
    seconds = [[tree.ask("call") for tree in trees] for _ in range(calls)]
    return said, [min(column) for column in zip(*seconds, strict=True)]


def measure(table: Any) -> None:
    """Fill the table."""
    against = os.environ.get("LIMITLAB_BEFORE")
    trees = [Tree(HERE), *([] if against is None else [Tree(Path(against))])]
    for name, p, k, calls, wanted in (*SIDES, *SMALL):
        said, seconds = turns(trees, (name, p, k), calls)
        report(table, f"right-hand side, {name}, p = {p}, k = {k}", said, seconds, wanted)
    for name, p, k, end, calls, wanted in PATHS:
        said, seconds = turns(trees, (name, p, k, end), calls)
        report(table, f"OverlapODE, {name}, p = {p}, k = {k}, to t = {end:g}", said, seconds, wanted)
    if against:
        trees[-1].close()
    for name, p, k in WIDE:
        said, seconds = turns(trees[:1], (name, p, k), 1)
        held = said[0]["high"] < 1024
        what = f"right-hand side, {name}, p = {p}, k = {k}: seconds; peak MiB of the process"
        table.add(what, f"{seconds[0]:.2f}; {said[0]['high']:.0f}", "< 1024", held)
    trees[0].close()


def report(table: Any, what: str, said: list[dict], seconds: list[float], wanted: float) -> None:
    here = f"{1e3 * seconds[0]:.3g} ms, {said[0]['MiB']:.1f} MiB"
    if len(said) == 1:
        table.add(what, here)
        return
    ratio = seconds[1] / seconds[0]
    table.add(f"{what}: before / now", f"{ratio:.2f}", f">= {wanted:g}", ratio >= wanted)
    table.add("   now; before", f"{here}; {1e3 * seconds[1]:.3g} ms, {said[1]['MiB']:.1f} MiB")
    new, old = (np.asarray(x["numbers"]) for x in said)
    table.add("   largest difference / largest entry", f"{np.max(np.abs(new - old)) / np.max(np.abs(old)):.1e}")
    table.add(
        "   CPU seconds of the first, with compilation: now; before", "; ".join(f"{x['compile']:.1f}" for x in said)
    )


if __name__ == "__main__":
    if "--child" in sys.argv:  # perhaps of another checkout, which has no such module
        child()
    else:
        from limitlab.benchmarks.table import run

        run({"all": measure})
