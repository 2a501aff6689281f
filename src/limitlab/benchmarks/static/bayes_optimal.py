"""Speed of the Bayes-optimal curve against plain iteration with adaptive quadrature, in one run. Compile apart."""

import time

import numpy as np
from scipy.integrate import quad
from scipy.special import log_ndtr

import limitlab as ll
from limitlab.benchmarks.table import Table, best, run
from limitlab.macro.bayes.fixed_points import curve

ALPHAS = np.geomspace(0.05, 50, 50)


def information(m: float) -> float:
    """E g^2 of the noiseless sign, rho = 1, by adaptive quadrature."""
    V = 1 - m

    def integrand(v: float) -> float:
        t = np.sqrt(m / V) * v
        return np.exp(-(t**2) - v**2 / 2 - log_ndtr(t)) / (2 * np.pi) ** 1.5

    return 2 / V * quad(integrand, -12, 12, epsabs=0, epsrel=1e-12, limit=200, points=(0,))[0]


def iterate(alpha: float) -> float:
    m = 0.5
    for _ in range(500):
        A = alpha * information(m)
        m, old = A / (1 + A), m
        if abs(m - old) < 1e-12:  # about what the curve is accurate to
            break
    return m


def measure(table: Table) -> None:
    problem = ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=1.0)

    def ours():
        curve.cache_clear()  # the whole work, nothing remembered
        return ll.sweep(ll.predict, problem, {"sample_ratio": ALPHAS}, limit=ll.BayesOptimal()).m.values

    fast = best(ours)
    began = time.perf_counter()
    plain = np.array([iterate(alpha) for alpha in ALPHAS])
    slow = time.perf_counter() - began
    table.add(
        "Bayes curve, Gaussian and sign, 50 points: iteration with quad / ours",
        f"{slow / fast:.0f}",
        ">= 100",
        slow >= 100 * fast,
    )
    table.add("   seconds: iteration, ours", f"{slow:.2f}, {fast:.4f}")
    table.add("   largest difference of m", f"{np.max(np.abs(plain - ours())):.1e}")


if __name__ == "__main__":
    run({"all": measure})
