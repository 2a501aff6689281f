"""Speed of descent on a fixed data set and of its dynamical mean-field theory, in one run. Compile apart."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab.benchmarks.table import Table, best, run, together

ALPHA, RATE, STEPS = 3.0, 0.01, 200


def problem(rule=None) -> ll.Problem:
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=ALPHA,
        loss=ll.PhaseRetrievalLoss(),
        start=ll.InformedStart(0.5),
        algorithm=ll.GradientDescent(RATE) if rule is None else rule,
    )


@jax.jit
def bare_products(X, w, count):
    """The two products of a step, as often as there are steps."""

    def step(_, w):
        w = w + 1e-9 * (X.T @ (X @ w))
        return w / jnp.linalg.norm(w)

    return jax.lax.fori_loop(0, count, step, w)


def measure(table: Table) -> None:
    for d in (500, 1500):
        X = jax.random.normal(jax.random.key(0), (int(ALPHA * d), d)) / np.sqrt(d)
        w = jnp.ones(d)

        def run(steps, d=d):
            return ll.simulate(problem(), d=d, times=np.array([steps * RATE]), replicas=1).m.values

        long, short, bare = together(
            lambda: run(2 * STEPS), lambda: run(STEPS), lambda X=X, w=w: bare_products(X, w, STEPS), repeats=4
        )
        ratio = (long - short) / bare  # drawing the data and measuring cancel
        table.add(f"GD step at d = {d} / its two matrix-vector products", f"{ratio:.2f}", "<= 1.3", ratio <= 1.3)
    for steps in (100, 300):
        times = np.array([steps * RATE])
        limits = [
            ll.DMFT(trajectories=4096, batches=1, identity=False, scheme=scheme) for scheme in ("causal", "iterated")
        ]
        fast, slow = (best(lambda x=x, t=times: ll.predict(problem(), x, times=t).m.values, repeats=2) for x in limits)
        gap = max(float(abs(np.subtract(*(ll.predict(problem(), x, times=times).m.values for x in limits))).max()), 0.0)
        table.add(
            f"DMFT, {steps} steps, 4096 trajectories: iterated / causal", f"{slow / fast:.1f}", ">= 7", slow >= 7 * fast
        )
        table.add("   seconds: iterated, causal; difference of m", f"{slow:.2f}, {fast:.3f}; {gap:.0e}")
    for steps in (150, 300):
        for count in (4096, 8192):
            limit = ll.DMFT(trajectories=count, batches=1)
            took = best(
                lambda x=limit, s=steps: ll.predict(problem(), x, times=np.array([s * RATE])).m.values, repeats=2
            )
            memory = ll.predict(problem(), limit, times=np.array([steps * RATE])).attrs["bytes_needed"] / 2**20
            table.add(
                f"   DMFT with identity, {steps} steps, {count} trajectories: seconds, MiB", f"{took:.2f}, {memory:.0f}"
            )


def squares(m: int, start=None, spherical: bool = False) -> ll.Problem:
    """A student of m squares; its step is that of one unit on the clock."""
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=ALPHA,
        student=ll.Committee(m, "square"),
        loss=ll.PhaseRetrievalLoss(),
        start=ll.RandomStart() if start is None else start,
        algorithm=ll.GradientDescent(m * RATE, spherical=spherical),
    )


def units(table: Table) -> None:
    """The cost of a second and a third unit, at equal steps."""
    limit, times = ll.DMFT(trajectories=4096, batches=1), np.array([100 * RATE])
    cases = [problem(ll.GradientDescent(RATE, spherical=False))]
    cases += [squares(m, ll.OverlapStart(Q=np.eye(m), M=np.linspace(0.5, 0.1, m)[:, None], P=[[1.0]])) for m in (2, 3)]
    one, two, three = together(*(lambda p=p: ll.predict(p, limit, times).train_loss.values for p in cases), repeats=4)
    table.add("DMFT, 100 steps, 4096 trajectories: two units / one", f"{two / one:.1f}", "<= 6", two <= 6 * one)
    table.add(
        "   three units / one; seconds of one, two, three", f"{three / one:.1f}; {one:.2f}, {two:.2f}, {three:.2f}"
    )


def success(table: Table) -> None:
    """A curve of successes, 40 runs at 8 ratios: in one call, by `simulate` for every ratio, and for every run.

    `simulate` goes on to the last time, as a loop of a user's would; in one call a run that has succeeded ends. The
    programs are compiled before; CPU time, so that other processes do not count.
    """
    ratios, d, runs, t_max, every = np.linspace(2.0, 5.5, 8), 64, 40, 20.0, 50
    one, looks = squares(2), RATE * np.arange(0, round(t_max / RATE) + 1, every)
    cells = [dataclasses.replace(one, sample_ratio=a) for a in ratios]

    def by_ratio():
        return [float(ll.success_rate(ll.simulate(cell, d, looks, replicas=runs)).success_rate) for cell in cells]

    def by_run():
        for cell in cells:
            for seed in range(runs):
                ll.simulate(cell, d, looks, replicas=1, seed=seed)

    def at_once():
        rate = ll.success_rate(one, d=d, sample_ratios=ratios, t_max=t_max, runs=runs, every=every)
        return rate.success_rate.values

    same = np.array_equal(by_ratio(), at_once())
    seconds = [[_cpu(work) for work in (at_once, by_ratio, by_run, at_once)] for _ in range(2)]
    fast = min(min(row[0], row[3]) for row in seconds)
    cell, single = (min(row[i] for row in seconds) for i in (1, 2))
    table.add(
        "success at 8 ratios, 40 runs each, d = 64: simulate for every ratio / one call",
        f"{cell / fast:.1f}",
        ">= 5",
        cell >= 5 * fast,
    )
    table.add("   simulate for every run / one call", f"{single / fast:.1f}", ">= 5", single >= 5 * fast)
    table.add("   CPU seconds; the same shares", f"{single:.1f}, {cell:.1f}, {fast:.1f}; {same}")


def _cpu(work) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


if __name__ == "__main__":
    run({"steps": measure, "units": units, "success": success})
