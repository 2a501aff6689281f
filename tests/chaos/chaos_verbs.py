"""A sweep to be killed: 200 slow points that write down when they are computed. Run as a program by test_chaos.py."""

import os
import sys
import time
from pathlib import Path

import numpy as np

import limitlab as ll
from cases import committee

POINTS = 200
GRID = {"algorithm.learning_rate": np.linspace(0.01, 1.0, POINTS // 2).tolist(), "d": [10, 20]}


def problem() -> ll.Problem:
    """Any problem: only its learning rate is looked at."""
    return committee("linear", "linear", p=1, k=1)


def noisy(problem: ll.Problem, d: int, seed: int) -> float:
    """A random number that depends on the seed alone, and a line in a diary that says when it was drawn."""
    name = f"{problem.algorithm.learning_rate:.17g},{d}"
    handle = os.open(os.environ["CHAOS_DIARY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{name} {time.time():.6f} {os.getpid()}\n".encode())
    os.close(handle)
    time.sleep(float(os.environ.get("CHAOS_PAUSE", "0")))
    return float(np.random.default_rng(seed).normal())


def run(store: str | None, workers: int | None = None, scheduler: str | None = None):
    """The sweep."""
    return ll.sweep(noisy, problem(), GRID, seed=3, store=store, workers=workers, scheduler=scheduler)


if __name__ == "__main__":
    folder, engine = Path(sys.argv[1]), sys.argv[2]
    try:
        run(
            str(folder / "store"),
            workers=int(engine) if engine.isdigit() else None,
            scheduler=None if engine.isdigit() else engine,
        )
    except ll.errors.EngineError as error:
        print(f"EngineError: {error}")
        sys.exit(5)
    print("done")
