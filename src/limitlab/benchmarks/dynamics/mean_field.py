"""Speed of mean-field flows on mixtures, in one run: the radial reduction, particles times samples. Compile apart."""

import time

import jax
import jax.numpy as jnp
import numpy as np

import limitlab as ll
from limitlab.benchmarks.table import Table, best, run, together
from limitlab.macro.mixtures.samples import SampleField, sample_field, sample_pull
from limitlab.macro.mixtures.start import Units
from limitlab.modules import filter_jit

D, PARTICLES, SAMPLES = 40, 1000, 16384


def problem(width: int = 800) -> ll.Problem:
    return ll.Problem(
        inputs=ll.IsotropicMixture(delta=0.5),
        student=ll.Committee(width=width, activation=ll.piecewise((0.5, -2.5), (1.5, 7.5))),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(scale=0.8),
        algorithm=ll.OnlineSGD(learning_rate=1.0),
    )


@jax.jit
def bare_products(z, theta):
    """The two matrix products that every gradient over samples needs, in the same pieces."""
    return jax.lax.scan(lambda total, piece: (total + (theta @ piece.T) @ piece, None), jnp.zeros_like(theta), z)[0]


@filter_jit
def gradient(field: SampleField, cloud: Units) -> Units:
    return sample_pull(field, cloud)


def measure(table: Table) -> None:
    table, learner, times = Table(), problem(), np.array([10.0])
    fast = best(lambda: ll.predict(learner, ll.RadialFlow(d=D), times=times).risk.values, repeats=3)
    full = ll.MeanField(d=D, particles=PARTICLES, gradients="samples", samples=SAMPLES)
    ll.predict(learner, full, times=np.array([0.01]))  # compile
    began = time.perf_counter()
    ll.predict(learner, full, times=times)
    slow = time.perf_counter() - began
    table.add(
        f"to t = 10, d = {D}: {PARTICLES} particles in d dimensions / RadialFlow",
        f"{slow / fast:.0f}",
        ">= 50",
        slow >= 50 * fast,
    )
    table.add("   seconds: particles, RadialFlow (96 nodes at most)", f"{slow:.1f}, {fast:.3f}")
    field = sample_field(full.parsed(learner).one_pass, D, SAMPLES, jax.random.key(0))
    theta = 0.8 / np.sqrt(D) * jax.random.normal(jax.random.key(1), (1, PARTICLES, D))
    cloud = Units(jnp.ones((1, PARTICLES)), jnp.zeros((1, PARTICLES)), theta)
    rows, pieces = jnp.concatenate([theta[0], jnp.zeros((PARTICLES, 1))], axis=1), field.pieces(PARTICLES)[0]
    ours, bare = together(lambda: gradient(field, cloud), lambda: bare_products(pieces, rows), repeats=9)
    table.add(
        f"gradient of {PARTICLES} particles x {SAMPLES} samples / its two products",
        f"{ours / bare:.2f}",
        "<= 2",
        ours <= 2 * bare,
    )


if __name__ == "__main__":
    run({"all": measure})
