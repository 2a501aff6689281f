"""Speed of SGD on sparse targets of the hypercube, as ratios in one run. Compile time is not counted."""

import resource
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab.algorithms.loop import advance
from limitlab.algorithms.one_pass.base import begin, stepper
from limitlab.benchmarks.table import Table, best, run, together
from limitlab.errors import InputError
from limitlab.numerics.keys import Stream, keys_of
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.states.fourier import observe
from limitlab.states.run import Run

TANH = "shifted(tanh, 0.5)"


def staircase(P: int) -> str:
    return " + ".join("*".join(f"z{i}" for i in range(1, k + 1)) for k in range(1, P + 1))


def sparse(P: int, p: int, batch: int = 1, activation: str = TANH) -> Any:
    return ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget(staircase(P)),
        student=ll.Committee(width=p, activation=activation, second_layer="trained"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(second_layer="uniform"),
        algorithm=ll.OnlineSGD(learning_rate=0.5, batch_size=batch),
    )


def live(problem: Any):
    """(rule, setting), as the loop has them."""
    return traced(problem.algorithm), problem.algorithm.setting(problem, Asked("a benchmark", InputError)).live()


def start(problem: Any, d: int, replicas: int = 1) -> Run:
    rule, setting = live(problem)
    return Run.of(begin(setting, rule, d, 0, jnp.arange(replicas), "weights"), replicas)


def full(problem: Any, d: int, steps: int, replicas: int = 1):
    both, keys = live(problem), keys_of(0, Stream.STEPS, jnp.arange(replicas))
    run = start(problem, d, replicas)
    return lambda: advance(stepper(None), both, d, keys, run, jnp.asarray(0), jnp.asarray(steps))


def bare(problem: Any, d: int, steps: int, replicas: int = 1):
    """What no SGD can avoid: the random bits as signs, one product for the fields, one for the update."""
    batch, keys = problem.algorithm.batch_size, keys_of(0, Stream.STEPS, jnp.arange(replicas))
    net = start(problem, d, replicas).state.student.rows.swapaxes(1, 2)

    def one(W, key, n):
        x = jax.lax.optimization_barrier(problem.inputs.draw(jax.random.fold_in(key, n), batch, d))
        lam = 1e-9 * (x @ W)
        return W + (x.T * lam if batch == 1 else x.T @ lam)

    @jax.jit
    def loop(W, last):
        return jax.lax.fori_loop(0, last, lambda n, W: jax.vmap(one, (0, 0, None))(W, keys, n), W)

    return lambda: loop(net, jnp.asarray(steps))


def ratios(table: Table) -> None:
    for d, p, batch, steps, replicas in ((100, 100, 1, 4000, 1), (100, 100, 1, 1000, 8), (1000, 200, 32, 40, 1)):
        problem = sparse(4, p, batch)
        a, b = together(full(problem, d, steps, replicas), bare(problem, d, steps, replicas), repeats=9)
        what = f"SGD step, d = {d}, width {p}, batch {batch}, {replicas} replica{'s' * (replicas > 1)}"
        table.add(f"{what} / its bits and two products", f"{a / b:.2f}", "<= 2", a / b <= 2)
        unit = 1e6 / (steps * replicas)
        table.add("   microseconds per step and replica: full, bare", f"{a * unit:.1f}, {b * unit:.1f}")


def growth(table: Table) -> None:
    """Cost of a step as d, the width or P grows; wanted: not faster than the number of weights, flat in P."""
    base = 2000
    sizes = [(250, 100), (500, 100), (1000, 100), (2000, 100)]
    seconds = together(*(full(sparse(4, p), d, base) for d, p in sizes), repeats=5)
    table.add(
        "step, width 100, d = 250, 500, 1000, 2000 (microseconds)", ", ".join(f"{1e6 * s / base:.1f}" for s in seconds)
    )
    table.growth("   growth with d", [d for d, _ in sizes], seconds, 1)
    widths = [50, 100, 200, 400]
    seconds = together(*(full(sparse(4, p), 500, base) for p in widths), repeats=5)
    table.add("step, d = 500, width 50, 100, 200, 400", ", ".join(f"{1e6 * s / base:.1f}" for s in seconds))
    table.growth("   growth with the width", widths, seconds, 1)
    latent = [2, 4, 8, 12]
    seconds = together(*(full(sparse(P, 100), 100, base) for P in latent), repeats=5)
    spread = max(seconds) / min(seconds)
    table.add("step, d = width = 100, P = 2, 4, 8, 12", ", ".join(f"{1e6 * s / base:.1f}" for s in seconds))
    table.add("   largest / smallest", f"{spread:.2f}", "<= 1.5", spread <= 1.5)


def look(problem: Any, d: int):
    net, keys = start(problem, d).state.student, keys_of(0, Stream.LOOK, jnp.arange(1))
    values = jnp.asarray(problem.teacher.values)
    return lambda: observe(problem.student.activation, values, net, keys, jnp.asarray(0))


def measurement(table: Table) -> None:
    for activation in (TANH, "shifted(relu, 0.5)"):
        seconds = {P: best(look(sparse(P, 100, activation=activation), 100), repeats=3) for P in range(2, 13, 2)}
        text = ", ".join(f"{1e3 * s:.0f}" for s in seconds.values())
        table.add(f"one measurement, {activation}, P = 2, 4, ..., 12 (ms)", text)
        table.growth("   growth with the points 2^P, P = 10 to 12", [2**10, 2**12], [seconds[10], seconds[12]], 1)


def memory(table: Table) -> None:
    problem = sparse(16, 100)
    ll.simulate(sparse(2, 100), 100, [0.0])
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.perf_counter()
    sim = ll.simulate(problem, 100, np.array([0.0, 0.01]))
    after, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.perf_counter() - began
    promised = sim.attrs["bytes_needed"] / 2**20
    table.add(
        "memory growth at P = 16, two times (MiB); said in advance",
        f"{after - before:.0f}; {promised:.0f}",
        "<= 512",
        after - before <= 512,
    )
    table.add("   seconds, compile included", f"{seconds:.1f}")


PARTS = {"ratios": ratios, "growth": growth, "measurement": measurement, "memory": memory}


if __name__ == "__main__":
    run(PARTS)
