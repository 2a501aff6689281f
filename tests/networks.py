"""Small networks that tests choose, on inputs of which all is known: every corner of a cube, and mixtures."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import stepping
from cases import labelled, mixture
from limitlab.macro.mixtures.closed import closed_field, closed_risk
from limitlab.macro.mixtures.start import Units
from limitlab.numerics.cube import cube_points
from limitlab.numerics.keys import Stream, keys_of
from limitlab.problems.networks import Network

__all__ = [
    "FULL",
    "MIXED_D",
    "MIXED_P",
    "cube_network",
    "every_input",
    "every_step",
    "mixed_network",
    "mixed_risk",
    "mixed_steps",
]

# --- the hypercube -------------------------------------------------------------------------------------------


def cube_network(d=6, p=3, seed=0):
    rng = np.random.default_rng(seed)
    return stepping.network(rng.normal(size=(d, p)).T, rng.uniform(-1, 1, p))


def every_input(problem, d=6):
    """All 2^d inputs and their clean labels."""
    labels = problem.teacher.values[np.arange(2**d) % 2**problem.teacher.latent]
    return jnp.asarray(cube_points(d) / np.sqrt(d)), jnp.asarray(labels)


def every_step(problem, net, d=6):
    """What the step of every single input adds to W and a, by the code under test."""
    (x, y), both, state = every_input(problem, d), stepping.live(problem), stepping.learner(problem, net)
    after = jax.jit(jax.vmap(lambda x, y: stepping.moved(both, state, x[None], y[None]).student))(x, y)
    return np.asarray(after.W) - np.asarray(net.W), np.asarray(after.a) - np.asarray(net.a)


# --- mixtures ------------------------------------------------------------------------------------------------

MIXED_D, MIXED_P = 5, 8
FULL = mixture(
    student={"second_layer": "trained", "bias": "trained"},
    start={"second_layer": "uniform", "bias_scale": 0.3},
    weight_decay=0.7,
    second_layer_rate=1.5,
)


def mixed_network(p=MIXED_P, d=MIXED_D, seed=0, bias=True):
    rng = np.random.default_rng(seed)
    W, a, b = 0.8 * rng.normal(size=(d, p)), rng.uniform(-1, 1, p), 0.3 * rng.normal(size=p)
    return Network.of(jnp.asarray(W.T), jnp.asarray(a), jnp.asarray(b) if bias else None)


def mixed_steps(problem, net, count, seed=0, step=0):
    """The networks after one step from the same network, each with its own samples and noise."""
    keys = keys_of(seed, Stream.STEPS, jnp.arange(count))
    return stepping.one_steps(problem, stepping.learner(problem, net), MIXED_D, keys, step).student


def mixed_risk(problem, net):
    """R_N in closed form, differentiable by finite differences."""
    field = closed_field(labelled(problem), problem.inputs.widths(), MIXED_D, mirrored=False)
    return _two_copies(dataclasses.replace(field, values=True), net)


@jax.jit
def _two_copies(field, net):
    half = Units(net.a[None], net.b[None], (net.rows / jnp.sqrt(float(MIXED_D)))[None])
    return closed_risk(field, jax.tree.map(lambda x: jnp.stack([x, x]), half))
