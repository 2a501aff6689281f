"""Speed of several directions: two of them against nested adaptive quadrature, and matrix message passing."""

import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr

import limitlab as ll
from limitlab.algorithms.data import draw_set
from limitlab.algorithms.gamp.matrix import MatrixState
from limitlab.algorithms.gamp.matrix import step as matrix_step
from limitlab.algorithms.gamp.output import output_of
from limitlab.benchmarks.table import Table, best, run, together
from limitlab.macro.multi.branches import Model
from limitlab.macro.multi.information import field_law
from limitlab.modules import filter_jit
from limitlab.problems.links.named import Majority

STEPS = 2
START = np.array([[0.45, 0.2], [0.2, 0.4]])
D, ALPHA, ITERATIONS = 2000, 3, 5


def nested(alpha: float, M: np.ndarray) -> np.ndarray:
    """One step of state evolution of the committee of two with three labels, all by adaptive quadrature."""
    V, sd = np.eye(2) - M, np.sqrt(1 - np.diag(M))
    r = V[0, 1] / (sd[0] * sd[1])
    c, root = np.sqrt(1 - r * r), np.linalg.cholesky(M)

    def phi(x):
        return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)

    def slopes(w):
        h, k = w / sd
        first = quad(lambda x: phi(x) * ndtr((k + r * x) / c), -h, 12, epsabs=1e-8, limit=50)[0]  # both positive
        Z = np.array([first, 1 - ndtr(h) - ndtr(k) + first])
        a, b = (k - r * h) / c, (h - r * k) / c
        dZ = np.array([[phi(h) * ndtr(a), phi(k) * ndtr(b)], [-phi(h) * ndtr(-a), -phi(k) * ndtr(-b)]]) / sd
        Z, dZ = np.append(Z, 1 - Z.sum()), np.vstack([dZ, -dZ.sum(axis=0)])
        keep = Z > 1e-13
        return np.einsum("l,la,lb->ab", 1 / Z[keep], dZ[keep], dZ[keep])

    def entry(i, j):
        def line(v):
            return quad(lambda u: phi(u) * phi(v) * slopes(root @ [u, v])[i, j], -6, 6, epsabs=1e-6, limit=30)[0]

        return quad(line, -6, 6, epsabs=1e-5, limit=30)[0]

    A = alpha * np.array([[entry(0, 0), entry(0, 1)], [0.0, entry(1, 1)]])
    A[1, 0] = A[0, 1]
    return np.linalg.solve(np.eye(2) + A, A)


def fixed_point(table: Table) -> None:
    model = Model(field_law(Majority("zero"), 2, 0.0), gaussian=True)

    def ours():
        M = START
        for _ in range(STEPS):
            M = model.step(3.0, M)
        return M

    fast, began, M = best(ours), time.perf_counter(), START
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quad says that it met rounding
        for _ in range(STEPS):
            M = nested(3.0, M)
    slow = time.perf_counter() - began
    table.ratio(f"K = 2 state evolution, {STEPS} steps: nested adaptive quadrature / ours", slow, fast, ">= 20", 0)
    table.add("   milliseconds per step: quadrature, ours", f"{1e3 * slow / STEPS:.0f}, {1e3 * fast / STEPS:.2f}")
    table.add("   largest difference of M", f"{np.max(np.abs(M - ours())):.1e}")


@filter_jit
def passes(output, X, y, state):
    def body(state, _):
        return matrix_step(output, True, X, y, state, 0.0), None

    return jax.lax.scan(body, state, length=ITERATIONS)[0].a


@jax.jit
def products(X, a):
    def body(a, _):
        return (((X @ a).T @ X) / ALPHA).T, None

    return jax.lax.scan(body, a, length=ITERATIONS)[0]


def message_passing(table: Table) -> None:
    teacher, n = ll.MultiIndex(2, "majority", ties="zero"), ALPHA * D
    drawn = filter_jit(draw_set)(ll.Gaussian(), teacher, ll.GaussianNoise(), jax.random.key(0), n, D)
    a = 0.3 * drawn.teacher.T + 0.3 * jax.random.normal(jax.random.key(1), (D, 2))
    state = MatrixState(a, 0.7 * jnp.eye(2), jnp.zeros((n, 2)), jnp.asarray(True))
    output = output_of(teacher.link, 2, 0.0)
    ours, bare = together(lambda: passes(output, drawn.X, drawn.y, state), lambda: products(drawn.X, a), repeats=7)
    table.ratio(f"matrix GAMP iteration / its two products, K = 2, d = {D}, n = {n}", ours, bare, "<= 1.6")
    table.add(
        "   milliseconds per iteration: ours, products", f"{1e3 * ours / ITERATIONS:.1f}, {1e3 * bare / ITERATIONS:.1f}"
    )


if __name__ == "__main__":
    run({"fixed": fixed_point, "gamp": message_passing})
