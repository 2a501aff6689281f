"""Speed of message passing, as ratios in one run. Compile time is not counted."""

import jax
import jax.numpy as jnp

import limitlab as ll
from limitlab.algorithms.data import draw_set
from limitlab.algorithms.gamp.iteration import Model, begin, gather
from limitlab.algorithms.gamp.iteration import iterate as passes
from limitlab.algorithms.gamp.trajectories import _trajectories
from limitlab.benchmarks.table import Table, run, together
from limitlab.modules import filter_jit
from limitlab.numerics.random import normal
from limitlab.numerics.shapes import places
from limitlab.numerics.trees import traced

D, ALPHA, ITERATIONS = 4000, 2, 5


@filter_jit
def iterate(model, data, run):
    return passes(model, data, run, jnp.asarray(0.0), ITERATIONS, ITERATIONS, lambda s: jnp.mean(s.v))[1]


@jax.jit
def products(X, a):
    """The two products of an iteration and nothing else."""

    def body(a, _):
        return ((X @ a) @ X) / ALPHA, None

    return jax.lax.scan(body, a, length=ITERATIONS)[0]


def iteration(table: Table, precision: str, variances: str, channel) -> None:
    model = Model(*traced((ll.GaussianPrior(), channel)))
    dtype = jnp.dtype(precision)
    n = ALPHA * D
    draw = filter_jit(draw_set)(
        ll.Gaussian(), ll.SingleIndex(model.prior), model.channel, jax.random.key(0), n, D, dtype
    )
    data = gather(draw.X, draw.y, variances, scale=1.0)
    run = begin(jnp.zeros(D), jnp.ones(D), n)
    ours, bare = together(lambda: iterate(model, data, run), lambda: products(draw.X, jnp.ones(D, dtype)), repeats=7)
    wanted = 1.5 if variances == "scalar" else 3.0
    table.add(
        f"GAMP iteration / its two products, d = {D}, n = {n}, {channel}, {variances}, {precision}",
        f"{ours / bare:.2f}",
        f"<= {wanted:g}",
        ours / bare <= wanted,
    )
    table.add(
        "   milliseconds per iteration: ours, products", f"{1e3 * ours / ITERATIONS:.1f}, {1e3 * bare / ITERATIONS:.1f}"
    )


PEER_SECONDS, PEER_PRODUCTS = 0.26, 0.56e-3  # a Cython code for the same run, and what its products took there


def whole_run(table: Table) -> None:
    """Logistic labels, d = 1000, 20 iterations, the data drawn as well."""
    d, n, iterations = 1000, 2000, 20
    problem = ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Logistic(),
        sample_ratio=n / d,
        algorithm=ll.GAMP(iterations=iterations),
    )
    nature = (problem.inputs, *traced((problem.teacher, problem.channel)))
    count, sizes = jnp.asarray(iterations), (n, d, places(iterations), "scalar", "float64")
    draw = jax.jit(lambda key: normal(key, (n, d)) / jnp.sqrt(d))
    X = draw(jax.random.key(0))

    @jax.jit
    def bare(a):
        return jax.lax.scan(lambda a, _: (((X @ a) @ X) / 2, None), a, length=iterations)[0]

    ours, products, drawn, public = together(
        lambda: _trajectories(nature, None, jnp.asarray(0), jnp.arange(1), jnp.asarray(0.0), count, sizes)[0],
        lambda: bare(jnp.ones(d)),
        lambda: draw(jax.random.key(1)),
        lambda: ll.simulate(problem, d).m.values,
        repeats=15,
    )
    what = "GAMP, logistic, d = 1000, ratio 2, 20 iterations and its data"
    table.ratio(f"{what} / (twice its products + the drawing)", ours, 2 * products + drawn, "<= 1")
    table.add("   milliseconds: ours, products, drawing", ", ".join(f"{1e3 * x:.1f}" for x in (ours, products, drawn)))
    peer = PEER_SECONDS * products / iterations / PEER_PRODUCTS
    table.ratio("   simulate itself / a peer (0.26 s, scaled by the products)", public, peer, "<= 1")


def measure(table: Table) -> None:
    for channel in (ll.Sign(), ll.Modulus(variance=0.1)):
        for precision in ("float64", "float32"):
            iteration(table, precision, "scalar", channel)
    iteration(table, "float64", "vector", ll.Sign())


if __name__ == "__main__":
    run({"iterations": measure, "run": whole_run})
