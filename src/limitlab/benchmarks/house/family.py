"""Sweeps whose points share compiled calls (overlap ODEs, small simulations) against a Python loop. Compile apart."""

import dataclasses
import time

import numpy as np

import limitlab as ll
from limitlab.benchmarks.table import Table, run

TIMES = np.linspace(0, 10, 21)
GRID = {
    "algorithm.learning_rate": np.linspace(0.1, 1.0, 50).tolist(),
    "channel.variance": np.linspace(0.0, 0.5, 20).tolist(),
}
ALONE, ROUNDS = 50, 5


def problem() -> ll.Problem:
    return ll.Problem(
        teacher=ll.Committee(width=2, activation="erf"),
        channel=ll.GaussianNoise(variance=0.1),
        student=ll.Committee(width=4, activation="erf"),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.2),
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )


def simulations(representation: str):
    """256 simulations in a sweep, and the seconds that one takes in a loop of 32 of them."""
    grid, few = {"algorithm.learning_rate": np.linspace(0.5, 1.0, 256).tolist()}, np.linspace(0.5, 1.0, 32).tolist()
    keywords = {"d": 100, "times": [0.0, 1.0], "replicas": 2, "representation": representation}

    def alone():
        for seed, rate in enumerate(few):
            here = dataclasses.replace(problem(), algorithm=ll.OnlineSGD(learning_rate=rate))
            ll.simulate(here, seed=seed, **keywords)

    def together():
        ll.sweep(ll.simulate, problem(), grid, seed=0, **keywords)

    alone()
    together()
    slow = min(seconds(alone) for _ in range(3)) / len(few)
    fast = min(seconds(together) for _ in range(3)) / 256
    return slow, fast


def sweep():
    return ll.sweep(ll.predict, problem(), GRID, limit=ll.OverlapODE(), times=TIMES)


def loop():
    """Every twentieth point of the grid, one by one."""
    out = []
    for n in range(ALONE):
        rate, variance = GRID["algorithm.learning_rate"][n], GRID["channel.variance"][7 * n % 20]
        here = dataclasses.replace(
            problem(), algorithm=ll.OnlineSGD(learning_rate=rate), channel=ll.GaussianNoise(variance=variance)
        )
        out.append(ll.predict(here, ll.OverlapODE(), TIMES))
    return out


def seconds(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure(table: Table) -> None:
    first = seconds(sweep)
    loop()
    slow, fast = np.inf, np.inf
    for _ in range(ROUNDS):  # in turn, so that a busy moment of the machine hits both
        slow, fast = min(slow, seconds(loop) / ALONE), min(fast, seconds(sweep) / 1000)
    whole, apart = sweep(), 0.0
    for n, alone in enumerate(loop()):
        here = whole.isel({"algorithm.learning_rate": n, "channel.variance": 7 * n % 20})
        apart = max(apart, *(float(np.max(np.abs(here[name] - alone[name]))) for name in ("risk", "M", "Q")))
    ratio = slow / fast
    table.add("1000 ODE, erf 4 x 2: Python loop / sweep", f"{ratio:.1f}", ">= 20", ratio >= 20)
    table.add("   milliseconds a problem: loop, sweep", f"{1e3 * slow:.1f}, {1e3 * fast:.2f}")
    table.add("   largest difference of risk, M, Q in 50 problems", f"{apart:.1e}", "<= 1e-8", apart <= 1e-8)
    table.add("   seconds of the first sweep, compile included", f"{first:.1f}")
    for representation in ("weights", "overlaps"):
        slow, fast = simulations(representation)
        table.add(f"256 simulations by {representation}, d = 100: Python loop / sweep", f"{slow / fast:.1f}")
        table.add("   milliseconds a problem: loop, sweep", f"{1e3 * slow:.1f}, {1e3 * fast:.2f}")


if __name__ == "__main__":
    run({"all": measure})
