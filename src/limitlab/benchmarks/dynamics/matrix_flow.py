"""Speed of the flow of over-parametrised phase retrieval, as ratios in one run. Compile time is not counted."""

import math

import numpy as np
from scipy.integrate import solve_ivp

import limitlab as ll
from limitlab.algorithms.descent.wide import draw_instance
from limitlab.algorithms.settings.fixed_data import PhaseData
from limitlab.benchmarks.table import Table, run, together
from limitlab.macro.wide.matrix_flow import flow
from limitlab.problems.asked import Asked
from limitlab.states.matrix import Instance

D, ALPHA, END = 30, 3.0, 1e5  # dimension, samples per dimension, time s to which the flow goes
EPS = 0.02  # step of explicit descent in s; about 0.05 is the limit of stability
STEPS = 20_000  # of explicit descent that are timed


def problem(width: int) -> ll.Problem:
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=ALPHA,
        student=ll.Committee(width=width, activation="square"),
        loss=ll.PhaseRetrievalLoss(prefactor=0.25),  # for which s is the time t
        start=ll.RandomStart(),
        algorithm=ll.GradientDescent(learning_rate=EPS * width, spherical=False),
    )


def dense_bdf(instance: Instance) -> np.ndarray:
    """The same flow on the d(d+1)/2 entries of A, by a general stiff solver with the exact Jacobian."""
    X, b, w = instance
    d = len(w)
    rows, columns = np.triu_indices(d)
    double = np.where(rows == columns, 1.0, 2.0)
    outer = X[:, rows] * X[:, columns] * double  # x^T A x = outer . a

    def full(a):
        A = np.zeros((d, d))
        A[rows, columns] = A[columns, rows] = a
        return A

    def pull(A):
        return (X.T * (b - np.einsum("ij,ij->i", X @ A, X))) @ X

    def motion(_, a):
        A = full(a)
        S = pull(A)
        return (S @ A + A @ S)[rows, columns]

    def jacobian(_, a):
        A = full(a)
        S, XA = pull(A), X @ A
        units = np.zeros((len(a), d, d))
        units[np.arange(len(a)), rows, columns] = units[np.arange(len(a)), columns, rows] = 1.0
        straight = (S @ units + units @ S)[:, rows, columns].T
        bent = X[:, rows] * XA[:, columns] + XA[:, rows] * X[:, columns]
        return straight - bent.T @ outer

    start = np.eye(d)[rows, columns]
    return full(solve_ivp(motion, (0, END), start, "BDF", rtol=1e-8, atol=1e-10, jac=jacobian).y[:, -1])


def against_descent(table: Table) -> None:
    wide = problem(2 * D)
    limit = ll.MatrixFlow(d=D)
    ours, steps = together(
        lambda: ll.predict(wide, limit, [END]).error.values,
        lambda: ll.simulate(wide, D, [STEPS * EPS]).error.values,
        repeats=3,
    )
    ratio = steps / STEPS * END / EPS / ours
    table.add(f"flow, d = {D}, width {2 * D}, to s = {END:g}: seconds", f"{ours:.2f}", "<= 10", ours <= 10)
    table.add(f"   explicit descent, eps = {EPS}: microseconds per step", f"{1e6 * steps / STEPS:.0f}")
    table.add(f"   {END / EPS:.0e} explicit steps (extrapolated) / flow", f"{ratio:.0f}", ">= 10", ratio >= 10)


def against_bdf(table: Table) -> None:
    instance = draw_instance("a benchmark", PhaseData.of(problem(D), Asked("a benchmark")), D, 0, 0)
    ours, bdf = together(
        lambda: flow(instance, np.eye(D), np.array([END])).states[0], lambda: dense_bdf(instance), repeats=3
    )
    V = np.asarray(flow(instance, np.eye(D), np.array([END])).states[0])
    gap = np.max(np.abs(V @ V.T - dense_bdf(instance)))
    table.add(f"dense BDF on {D * (D + 1) // 2} unknowns / flow on n = {len(instance.b)}", f"{bdf / ours:.1f}")
    table.add("   largest difference of A", f"{gap:.1e}", "<= 1e-4", bool(gap <= 1e-4))


def width_free(table: Table) -> None:
    widths = (D, 10 * D, 100 * D, math.inf)
    calls = [lambda m=m: ll.predict(problem(D), ll.MatrixFlow(d=D, width=m), [1e3]).error.values for m in widths]
    seconds = together(*calls, repeats=9)
    for width, took in zip(widths[1:], seconds[1:], strict=True):
        ratio = took / seconds[0]
        table.add(f"flow to s = 1000 at width {width:g} / at width {D}", f"{ratio:.2f}", "<= 1.5", ratio <= 1.5)


def measure(table: Table) -> None:
    against_descent(table)
    against_bdf(table)
    width_free(table)


if __name__ == "__main__":
    run({"all": measure})
