r"""What a network on labelled inputs has learned: its population risk on test points, and the shape of its cloud.

.. math:: \mathrm{risk} = \tfrac12 E(y - f)^2, \qquad r_i = |w_i|/\sqrt d, \qquad
          \mathrm{polarisation} = \Big|\frac1p \sum_i \frac{w_i}{|w_i|}\Big|

Test points are new to the learner and fixed along time. Those of a mixture come in mirror images x, -x, half of them
from each class; those of an isotropic one have stratified lengths (one in each quantile of the law of |x|), so that
what remains of the noise is that of directions. The estimate is unbiased.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaincinv

from limitlab.micro.mixture_steps import Network
from limitlab.problems.activations.base import Activation
from limitlab.problems.activations.kinks import unit_functions
from limitlab.problems.inputs import AbstractLabelledInputs, AnisotropicMixture, IsotropicMixture

__all__ = ["CHUNK", "Points", "Seen", "how", "observe", "points"]

CHUNK = 512  # test points in one product
TINY = 1e-150


class Points(eqx.Module):
    """Test points x (m, d) with labels y (m,); ``mirrored``: each stands for itself and for -x."""

    x: jax.Array
    y: jax.Array
    mirrored: bool = eqx.field(static=True)


class Seen(NamedTuple):
    """A network's macrostate; fields that were not asked for are None."""

    risk: jax.Array
    polarisation: jax.Array
    alignment: jax.Array | None
    r: jax.Array | None
    a: jax.Array | None
    b: jax.Array | None


def how(inputs: AbstractLabelledInputs, count: int) -> str:
    """In words, what the risk is measured on."""
    if isinstance(inputs, IsotropicMixture):
        return f"{count} new points, half of each class, stratified lengths, mirrored directions"
    if isinstance(inputs, AnisotropicMixture):
        return f"{count} new points, half of each class, mirrored"
    return f"{count} new draws of the sampler"


def points(inputs: AbstractLabelledInputs, key: jax.Array, count: int, d: int) -> Points:
    """About ``count`` test points (a mirror image counts as one), whole chunks of them."""
    if not isinstance(inputs, (IsotropicMixture, AnisotropicMixture)):
        x, y = inputs.draw(key, -(-count // CHUNK) * CHUNK, d)
        return Points(x, y, False)
    half = -(-count // (2 * CHUNK)) * CHUNK
    key_z, key_u = jax.random.split(key)
    y = jnp.where(jnp.arange(half) % 2 == 0, 1.0, -1.0)
    z = jax.random.normal(key_z, (half, d)) / jnp.sqrt(float(d))
    stretch = 1 + float(inputs.delta) * y[:, None]
    if isinstance(inputs, AnisotropicMixture):
        stretch = jnp.where(jnp.arange(d) < inputs.informative(d), stretch, 1.0)
    else:
        u = (np.arange(half) // 2 + np.asarray(jax.random.uniform(key_u, (half,)))) / (half / 2)
        length = np.sqrt(2 * gammaincinv(d / 2, u) / d)
        z = z * (jnp.asarray(length) / jnp.sqrt(jnp.sum(z**2, axis=1)))[:, None]
    return Points(stretch * z, y, True)


def test_risk(activation: Activation, tests: Points, net: Network) -> jax.Array:
    """Half the mean square error on the test points, chunk after chunk."""
    d, p = net.W.shape
    value_of, _ = unit_functions(activation)
    x, y = tests.x.reshape(-1, CHUNK, d), tests.y.reshape(-1, CHUNK)

    def add(total, chunk):
        x, y = chunk
        lam = x @ net.W
        loss = jnp.sum((y - value_of(lam + net.b) @ net.a / p) ** 2)
        if tests.mirrored:
            loss = (loss + jnp.sum((y - value_of(net.b - lam) @ net.a / p) ** 2)) / 2
        return total + loss, None

    return jax.lax.scan(add, jnp.zeros(()), (x, y))[0] / (2 * y.size)


@eqx.filter_jit
def observe(activation: Activation, tests: Points, informative: int | None, net: Network) -> Seen:
    """The macrostates of all replicas, one after the other, so that memory stays bounded."""
    return jax.lax.map(lambda both: _observe(activation, both[0], informative, both[1]), (tests, net))


def _observe(activation: Activation, tests: Points, informative: int | None, net: Network) -> Seen:
    d = net.W.shape[0]
    square = jnp.square(net.W) / d
    norm = jnp.sqrt(jnp.sum(square, axis=0))
    direction = jnp.mean(net.W / jnp.maximum(norm, TINY), axis=1) / jnp.sqrt(float(d))
    r, alignment = norm, None
    if informative is not None:
        parts = jnp.stack([jnp.sum(square[:informative], axis=0), jnp.sum(square[informative:], axis=0)], axis=1)
        r, alignment = jnp.sqrt(parts), jnp.mean(parts[:, 0] / jnp.maximum(jnp.sum(parts, axis=1), TINY))
    polarisation = jnp.sqrt(jnp.sum(direction**2))
    return Seen(test_risk(activation, tests, net), polarisation, alignment, r, net.a, net.b)
