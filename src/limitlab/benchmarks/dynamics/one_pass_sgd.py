"""Speed of one-pass SGD and its limits, as ratios in one run. Compile time is not counted."""

import resource
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab.algorithms.loop import advance
from limitlab.algorithms.one_pass.base import begin, stepper
from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.benchmarks.table import Table, best, run, together
from limitlab.errors import InputError
from limitlab.macro.overlaps.drift import drift, flow
from limitlab.modules import filter_jit
from limitlab.numerics.linalg import gram_factor
from limitlab.numerics.ode.integrate import integrate
from limitlab.numerics.random import normal
from limitlab.numerics.trees import as_arrays, traced
from limitlab.problems.asked import Asked
from limitlab.states.overlaps import Overlaps, error_sum, limit_overlaps
from limitlab.states.run import Run


def committee(activation: str, p: int, k: int, rate: float = 0.5) -> Any:
    return ll.Problem(
        teacher=ll.Committee(width=k, activation=activation),
        student=ll.Committee(width=p, activation=activation),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.2),
        algorithm=ll.OnlineSGD(learning_rate=rate),
    )


ASKED = Asked("a benchmark", InputError)


def ode_against_euler(table: Table) -> None:
    setting = CommitteeOnePass.of(committee("erf", 4, 2), ASKED)
    live, sums, start = as_arrays(setting), error_sum(setting), limit_overlaps(setting)

    @jax.jit
    def euler(start: Overlaps) -> Overlaps:
        def body(_, o):
            return jax.tree.map(lambda x, v: x + 0.01 * v, o, drift(live, sums, o))

        return jax.lax.fori_loop(0, 10_000, body, start)

    def adaptive():
        return integrate(flow, start, np.array([100.0]), (live, sums, jnp.ones(4)), rtol=1e-8, atol=1e-9)

    slow, fast = together(lambda: euler(start), lambda: adaptive().values.M)
    error = float(jnp.max(jnp.abs(euler(start).M - adaptive().values.M[0])))
    table.add(
        "ODE, erf 4 x 2, t = 100: 1e4 Euler steps / adaptive at rtol 1e-8",
        f"{slow / fast:.1f}",
        ">= 5",
        slow / fast >= 5,
    )
    table.add("   seconds adaptive; steps; error of Euler in M", f"{fast:.3f}; {adaptive().steps}; {error:.1e}")


def bare(weights: jax.Array, keys: jax.Array, steps: int, block: int, draw: Any = jax.random.normal):
    """What no weight-space SGD can avoid: d Gaussians a step, drawn ``block`` steps at once, the fields, the update.

    One replica after the other, in the layout and with the block that are fastest here.
    """
    d, small = weights.shape[-1], jnp.asarray(1e-9, weights.dtype)

    def one(both):
        w, key = both

        def draw_and_go(i, w):
            x = draw(jax.random.fold_in(key, i), (block, d), w.dtype)
            return jax.lax.fori_loop(0, block, lambda n, w: w + (small * (w @ x[n]))[:, None] * x[n], w)

        return jax.lax.fori_loop(0, steps // block, draw_and_go, w)

    go = jax.jit(lambda w, keys: jax.lax.map(one, (w, keys)))
    return lambda: go(weights, keys)


def bare_chain(start: Run, keys: jax.Array, steps: int, block: int, d: int):
    """What no chain of overlaps can avoid: c + 1 Gaussians a step (the norm of the rest is about normal), a Cholesky
    factor, the fields, and two outer products; all replicas side by side."""
    Q, M, P = (start.state[name] for name in ("Q", "M", "P"))
    p, c = Q.shape[-1], Q.shape[-1] + P.shape[-1]

    def step(o, g):
        Q, M = o
        omega = jnp.block([[Q, M], [M.T, P[0]]])
        s = gram_factor(omega) @ g[:c]
        C = 1e-9 * s[:p]
        norm = (jnp.sum(g[:c] ** 2) + (d - c) + jnp.sqrt(2.0 * (d - c)) * g[c]) / d
        cross = C[:, None] * s[:p]
        return Q + (cross + cross.T + norm * C[:, None] * C) / d, M + C[:, None] * s[p:] / d

    def draw_and_go(i, o):
        g = jax.vmap(lambda key: normal(jax.random.fold_in(key, i), (block, c + 1)))(keys)
        return jax.lax.fori_loop(0, block, lambda n, o: jax.vmap(step)(o, g[:, n]), o)

    go = jax.jit(lambda o: jax.lax.fori_loop(0, steps // block, draw_and_go, o))
    return lambda: go((Q, M))


def runs(problem: Any, d: int, replicas: int, representation: str):
    """(rule, setting), keys and runs as the loop has them."""
    both = traced(problem.algorithm), problem.algorithm.setting(problem, ASKED).live()
    keys = jax.random.split(jax.random.key(0), replicas)
    start = begin(both[1], both[0], d, 0, jnp.arange(replicas), representation)
    return both, keys, Run.of(start, replicas)


def direct_and_bare(table: Table, d: int, p: int, k: int, replicas: int) -> None:
    both, keys, run = runs(committee("erf", p, k, rate=0.1), d, replicas, "weights")
    steps = max(64, 2**20 // (d * replicas) // 64 * 64)  # milliseconds: a busy machine leaves some calls alone

    def direct():
        return advance(stepper(None), both, d, keys, run, jnp.asarray(0), jnp.asarray(steps))

    weights = run.state.student.rows
    blocks = sorted({min(64, max(1, n // d)) for n in (2**13, 2**15)})
    bares = [bare(weights, keys, steps, block, draw) for draw in (jax.random.normal, normal) for block in blocks]
    single = bare(weights.astype(jnp.float32), keys, steps, min(64, max(1, 2**13 // d)))
    a, s, *rest = together(direct, single, *bares, repeats=101)
    unit, b, ours = 1e6 / (replicas * steps), min(rest[: len(blocks)]), min(rest[len(blocks) :])
    what = f"direct SGD, d = {d}, {p} x {k}, {replicas} replica{'s' * (replicas > 1)} / block-drawn bare step"
    table.ratio(what, a, ours, "<= 1.3")
    table.add("   / the bare step that draws JAX's normal numbers", f"{a / b:.2f}")
    table.add(
        "   microseconds per step and replica: direct, bare, with JAX's numbers, in single precision",
        f"{a * unit:.1f}, {ours * unit:.1f}, {b * unit:.1f}, {s * unit:.1f}",
    )


def sgd(table: Table) -> None:
    for p in (8, 50):
        for d in (250, 1000, 4000):
            for replicas in (1, 16):
                direct_and_bare(table, d, p, 2, replicas)


def reduced_sgd(table: Table, replicas: int = 16, steps: int = 8192) -> None:
    problem = committee("erf", 8, 2, rate=0.1)
    unit = 1e6 / (replicas * steps)

    def reduced(d):
        both, keys, run = runs(problem, d, replicas, "overlaps")
        dim = jnp.asarray(float(d))
        return lambda: advance(stepper(10), both, dim, keys, run, jnp.asarray(0), jnp.asarray(steps))

    both, keys, run = runs(problem, 1000, replicas, "weights")
    few = steps // 16
    _, chain_keys, chain = runs(problem, 1000, replicas, "overlaps")
    direct, chained, least = together(
        lambda: advance(stepper(None), both, 1000, keys, run, jnp.asarray(0), jnp.asarray(few)),
        reduced(1000),
        bare_chain(chain, chain_keys, steps, 64, 1000),
        repeats=7,
    )
    table.add("reduced SGD, 8 x 2 / its bare arithmetic", f"{chained / least:.2f}", "<= 3", chained / least <= 3)
    table.add("   microseconds per step and replica: reduced, bare", f"{chained * unit:.2f}, {least * unit:.2f}")
    ratio = 16 * direct / chained
    table.add("direct / reduced SGD at d = 1000", f"{ratio:.1f}", ">= 3", ratio >= 3)
    flat = together(*(reduced(d) for d in (10**3, 10**5, 10**7, 10**9)), repeats=7)
    spread = max(flat) / min(flat) - 1
    table.add(
        "reduced SGD, cost per step from d = 1e3 to 1e9: spread", f"{100 * spread:.0f} %", "<= 20 %", spread <= 0.2
    )
    table.add("   microseconds per step and replica", ", ".join(f"{x * unit:.2f}" for x in flat))


def wide_right_hand_sides(table: Table) -> None:
    for activation in ("square", "erf", "relu"):
        p, k = 50, 2
        setting = CommitteeOnePass.of(committee(activation, p, k), ASKED)
        sums, start, live = error_sum(setting), limit_overlaps(setting), as_arrays(setting)
        call = filter_jit(lambda o, sums=sums, live=live: drift(live, sums, o))
        seconds = best(lambda call=call, start=start: call(start).Q, repeats=3)
        used = call.lower(start).compile().compiled.memory_analysis().temp_size_in_bytes
        table.add(f"right-hand side, {activation}, p = 50, k = 2", f"{1e3 * seconds:.1f} ms, {used / 2**20:.0f} MiB")


def flat_memory(table: Table) -> None:
    problem = committee("erf", 2, 1, rate=0.1)
    clock = problem.algorithm.clock(problem, 1000)

    def run(steps):
        began = time.perf_counter()
        ll.simulate(problem, 1000, np.array([0.5, 1.0]) * steps * clock, replicas=64, representation="overlaps")
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.perf_counter() - began

    before, _ = run(10_000)
    after, seconds = run(1_000_000)
    table.add(
        "memory growth from 1e4 to 1e6 steps x 64 replicas",
        f"{after - before:.1f} MiB",
        "none (< 20)",
        after - before < 20,
    )
    table.add("   seconds for 1e6 steps x 64 replicas", f"{seconds:.0f}")


PARTS = {
    "ode": ode_against_euler,
    "sgd": sgd,
    "reduced": reduced_sgd,
    "wide": wide_right_hand_sides,
    "memory": flat_memory,
}

if __name__ == "__main__":
    run(PARTS)
