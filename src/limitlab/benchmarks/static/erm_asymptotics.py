"""Logistic regression in the limit: one vectorised call against adaptive quadrature with a scalar proximal map.

The reference iterates the same equations as one would write them with scipy: ``quad`` for every average, ``brentq`` for
every proximal point, one sample ratio after the other. Compile time is not counted.
"""

import time
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

import limitlab as ll
from limitlab.benchmarks.table import Table, best, run
from limitlab.macro.erm.erm_asymptotics import ERMAsymptotics

PENALTY = 0.1


def prox(u: float, V: float) -> Any:
    return brentq(lambda p: p - u - V * expit(-p), u, u + V, xtol=1e-14)


def averages(m: float, q: float, V: float) -> tuple[float, float, float]:
    """E f0 g, E g^2, -E dg for a noiseless sign teacher of norm 1, by margins u = y omega."""
    sd, scale = np.sqrt(q), np.sqrt(1 - m**2 / q)

    def average(function):
        def integrand(u):
            return 2 * norm.pdf(u, scale=sd) * function(u, prox(u, V))

        return quad(integrand, -9 * sd, 9 * sd, epsabs=1e-12, epsrel=1e-10, limit=200, points=[0.0])[0]

    def pull(u, p):
        return norm.cdf(m / q * u / scale), expit(-p), expit(p) * expit(-p)

    f0g = average(lambda u, p: norm.pdf(m / q * u / scale) / scale * expit(-p))
    gg = average(lambda u, p: pull(u, p)[0] * expit(-p) ** 2)
    dg = average(lambda u, p: pull(u, p)[0] * pull(u, p)[2] / (1 + V * pull(u, p)[2]))
    return f0g, gg, dg


def iterate(alpha: float, tolerance: float = 1e-8, most: int = 1000) -> tuple[float, float, float]:
    m, q, V = 0.1, 0.1, 1.0
    for _ in range(most):
        f0g, gg, dg = averages(m, q, V)
        new_V = 1 / (PENALTY + alpha * dg)
        new_m, new_q = alpha * f0g * new_V, ((alpha * f0g) ** 2 + alpha * gg) * new_V**2
        change = max(abs(new_m - m) / new_m, abs(new_q - q) / new_q, abs(new_V - V) / new_V)
        m, q, V = new_m, new_q, new_V
        if change < tolerance:
            break
    return m, q, V


def measure(table: Table) -> None:
    problem = ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Sign(),
        loss=ll.LogisticLoss(),
        sample_ratio=1.0,
        algorithm=ll.ERM(penalty=PENALTY),
    )
    alphas = np.linspace(0.2, 10, 50)
    limit = ERMAsymptotics()
    began = time.perf_counter()
    curve = limit.curve(problem, alphas)
    first = time.perf_counter() - began
    ours = best(lambda: limit.curve(problem, alphas).m.values)
    few = alphas[[0, 24, 49]]  # the reference takes minutes: three ratios stand for fifty
    began = time.perf_counter()
    reference = [iterate(a) for a in few]
    theirs = (time.perf_counter() - began) * len(alphas) / len(few)
    found = curve.sel(sample_ratio=few)
    error = max(abs(found.m.values[k] / m - 1) for k, (m, *_) in enumerate(reference))
    table.add(
        "logistic, 50 sample ratios: quad + brentq / one call", f"{theirs / ours:.0f}", ">= 100", theirs / ours >= 100
    )
    table.add(
        "   seconds: ours, theirs (3 ratios, scaled to 50); compilation",
        f"{ours:.2f}, {theirs:.0f}; {first - ours:.1f}",
    )
    table.add("   largest relative difference of m", f"{error:.1e}", "< 1e-6", error < 1e-6)


if __name__ == "__main__":
    run({"all": measure})
