"""Speed of message passing, as ratios in one run. Compile time is not counted."""

import equinox as eqx
import jax
import jax.numpy as jnp
from timing import Table, together

import limitlab as ll
from limitlab.algorithms.data import draw_set
from limitlab.algorithms.gamp.iteration import Model, begin, gather
from limitlab.algorithms.gamp.iteration import iterate as passes
from limitlab.numerics.trees import traced

D, ALPHA, ITERATIONS = 4000, 2, 5


@eqx.filter_jit
def iterate(model, data, run):
    return passes(model, data, run, jnp.asarray(0.0), ITERATIONS, lambda s: jnp.mean(s.v))[1]


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
    draw = eqx.filter_jit(draw_set)(
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


def main() -> None:
    table = Table()
    for channel in (ll.Sign(), ll.Modulus(variance=0.1)):
        for precision in ("float64", "float32"):
            iteration(table, precision, "scalar", channel)
    iteration(table, "float64", "vector", ll.Sign())
    print("\n" + table.markdown())


if __name__ == "__main__":
    main()
