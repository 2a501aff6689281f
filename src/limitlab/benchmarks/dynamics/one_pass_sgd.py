"""Speed of one-pass SGD and its limits, as ratios in one run. Compile time is not counted."""

import resource
import time
from typing import Any

import equinox as eqx
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
from limitlab.numerics.ode.integrate import integrate
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


def bare_step(w, key, n):
    """What no weight-space SGD can avoid: d Gaussians, one product for the fields, one for the update."""
    x = jax.random.normal(jax.random.fold_in(key, n), (1, w.shape[-1]))
    return w + 1e-9 * (x @ w.T).T @ x


def sgd(table: Table, replicas: int = 16, steps: int = 400) -> None:
    p, k = 8, 2
    problem = committee("erf", p, k, rate=0.1)
    rule, setting = traced(problem.algorithm), problem.algorithm.setting(problem, ASKED).live()
    keys = jax.random.split(jax.random.key(0), replicas)

    def runs(d, representation):
        return Run.of(begin(setting, rule, d, 0, jnp.arange(replicas), representation), replicas)

    def direct(d):
        run = runs(d, "weights")
        return lambda: advance(stepper(None), (rule, setting), d, keys, run, jnp.asarray(0), jnp.asarray(steps))

    def reduced(d, n=20 * steps):
        run, dim = runs(d, "overlaps"), jnp.asarray(float(d))
        return lambda: advance(stepper(p + k), (rule, setting), dim, keys, run, jnp.asarray(0), jnp.asarray(n))

    weights = runs(1000, "weights").state.student.rows

    @jax.jit
    def bare(w):
        one = jax.vmap(bare_step, in_axes=(0, 0, None))
        return jax.lax.fori_loop(0, steps, lambda n, s: one(s, keys, n), w)

    a, b, c = together(direct(1000), lambda: bare(weights), reduced(1000), repeats=7)
    unit = 1e6 / (replicas * steps)
    table.add("direct SGD, d = 1000, 8 x 2 / Gaussians and two products", f"{a / b:.2f}", "<= 2", a / b <= 2)
    table.add("   microseconds per step and replica: direct, bare", f"{a * unit:.1f}, {b * unit:.1f}")
    ratio = a / (c / 20)
    table.add("direct / reduced SGD at d = 1000", f"{ratio:.1f}", ">= 3", ratio >= 3)
    sizes = [10**3, 10**5, 10**7, 10**9]
    flat = together(*(reduced(d) for d in sizes), repeats=7)
    spread = max(flat) / min(flat) - 1
    table.add(
        "reduced SGD, cost per step from d = 1e3 to 1e9: spread", f"{100 * spread:.0f} %", "<= 20 %", spread <= 0.2
    )
    table.add("   microseconds per step and replica", ", ".join(f"{x * unit / 20:.2f}" for x in flat))


def wide_right_hand_sides(table: Table) -> None:
    for activation in ("square", "erf", "relu"):
        p, k = 50, 2
        setting = CommitteeOnePass.of(committee(activation, p, k), ASKED)
        sums, start, live = error_sum(setting), limit_overlaps(setting), as_arrays(setting)
        call = eqx.filter_jit(lambda o, sums=sums, live=live: drift(live, sums, o))
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


PARTS = {"ode": ode_against_euler, "sgd": sgd, "wide": wide_right_hand_sides, "memory": flat_memory}

if __name__ == "__main__":
    run(PARTS)
