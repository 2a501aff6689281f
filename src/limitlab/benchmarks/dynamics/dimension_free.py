"""Speed of the dimension-free flow by quadrature against random particles, in one run. Compile apart."""

import resource
import time

import numpy as np

import limitlab as ll
from limitlab.benchmarks.table import Table, best, run
from limitlab.library import merged_staircase
from limitlab.macro.sparse.nodes import Nodes, start_nodes
from limitlab.macro.sparse.solve import solve_path
from limitlab.numerics.cube import walsh

TIMES = np.array([2.0, 5.0])
PARTICLES = 10_000


def coefficients(problem, nodes: Nodes) -> np.ndarray:
    return walsh(solve_path(problem, TIMES, nodes, rtol=1e-6).f)


def random_nodes(problem, seed: int) -> Nodes:
    a = np.random.default_rng(seed).uniform(-1, 1, PARTICLES)
    P = problem.teacher.latent
    return Nodes(a, np.zeros((PARTICLES, P)), np.ones(PARTICLES), np.full(PARTICLES, 1 / PARTICLES), False, False)


def measure(table: Table) -> None:
    problem = ll.DimensionFree().parsed(merged_staircase())
    fine = coefficients(problem, start_nodes(problem, 16))

    def ours():
        return coefficients(problem, start_nodes(problem, 1))

    fast = best(ours)
    cloud = random_nodes(problem, 0)
    coefficients(problem, cloud)  # compile
    began = time.perf_counter()
    plain = coefficients(problem, cloud)
    slow = time.perf_counter() - began
    gaps = [float(np.max(np.abs(x - fine))) for x in (ours(), plain)]
    table.add(
        "4-term staircase to t = 5: 10^4 random particles / 24 nodes",
        f"{slow / fast:.0f}",
        ">= 100",
        slow >= 100 * fast,
    )
    table.add("   seconds: particles, nodes", f"{slow:.2f}, {fast:.4f}")
    table.add("   largest error: nodes, particles", f"{gaps[0]:.1e}, {gaps[1]:.1e}", "nodes better", gaps[0] < gaps[1])
    for P in (2, 4, 6, 8, 10):
        terms = " + ".join("*".join(f"z{i}" for i in range(1, k + 1)) for k in range(1, P + 1))
        one = ll.DimensionFree().parsed(merged_staircase(terms))
        nodes = start_nodes(one, 4)
        took = best(lambda one=one, nodes=nodes: solve_path(one, TIMES[:1], nodes, rtol=1e-6), repeats=2)
        table.add(f"   seconds to t = 2, tanh, 96 nodes, P = {P}", f"{took:.3f}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    terms = " + ".join("*".join(f"z{i}" for i in range(1, k + 1)) for k in range(1, 17))
    wide = ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget(terms),
        student=ll.Committee(width=100, activation="shifted(erf, 0.5)", second_layer="trained"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(second_layer="uniform"),
        algorithm=ll.OnlineSGD(learning_rate=1.0),
    )
    wide = ll.DimensionFree().parsed(wide)
    began = time.perf_counter()
    solve_path(wide, np.array([0.5]), start_nodes(wide, 4), rtol=1e-5)
    took = time.perf_counter() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    table.add("P = 16, erf, 96 nodes, to t = 0.5: memory growth (MiB)", f"{grown:.0f}", "<= 1024", grown <= 1024)
    table.add("   seconds with compile", f"{took:.1f}")


if __name__ == "__main__":
    run({"all": measure})
