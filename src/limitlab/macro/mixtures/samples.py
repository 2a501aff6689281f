r"""Population gradients of any network on any labelled inputs, as means over a fixed set of samples.

.. math:: E[(y - f)\sigma'_i z] \approx \frac1S \sum_\mu (y_\mu - f(x_\mu))\,\sigma'(\theta_i \cdot z_\mu + b_i)\,z_\mu,
          \quad z = \sqrt d\,x

Two matrix products, fields and gradients, over pieces of the samples that stay in the cache.
"""

import jax
import jax.numpy as jnp

from limitlab.algorithms.settings.one_pass import LabelledOnePass
from limitlab.errors import InputError
from limitlab.macro.mixtures.start import Units
from limitlab.modules import Module, field
from limitlab.problems.activations.base import Activation
from limitlab.problems.base import CHUNK

__all__ = ["SampleField", "sample_field", "sample_pull", "sample_risk"]

CACHE = 2**16  # numbers of units x samples (512 KiB)
LEAST = 32  # samples at a time


class SampleField(Module):
    """Samples (z, 1) (S, d + 1) with labels (S,); ``values``: a trained second layer asks for more."""

    activation: Activation
    z: jax.Array
    y: jax.Array
    values: bool = field(static=True)

    def pieces(self, units: int) -> tuple[jax.Array, jax.Array]:
        """As many samples at a time as keep units x samples within the cache."""
        size = min(CHUNK, max(LEAST, 1 << (CACHE // units).bit_length() - 1))
        return self.z.reshape(-1, size, self.z.shape[1]), self.y.reshape(-1, size)


def sample_field(setting: LabelledOnePass, d: int, samples: int, key: jax.Array) -> SampleField:
    """So many fixed inputs (of a mixture with their mirror images, half of each class)."""
    inputs = setting.inputs
    drawn = inputs.test_points(key, samples, d)
    x, y = drawn.x, drawn.y
    if y is None:
        raise InputError(f"{type(inputs).__name__}.test_points must bring labels; they have none.")
    if drawn.mirrored:
        x, y = jnp.concatenate([x, -x]), jnp.concatenate([y, y])
    z = jnp.concatenate([jnp.sqrt(float(d)) * x, jnp.ones((len(y), 1))], axis=1)
    return SampleField(setting.student.activation, z, y, setting.trained)


def sample_pull(field: SampleField, cloud: Units) -> Units:
    r""":math:`-\nabla\Psi` at every unit of one cloud, as `closed_pull`, without its own part of f."""
    a, b, theta = cloud
    images, m, d = theta.shape
    value_of, _ = field.activation.unit_functions()
    rows = jnp.concatenate([theta, b[..., None]], axis=-1).reshape(-1, d + 1)

    def add(total, piece):
        z, y = piece
        # Value and slope from one pass over the fields; kept, or the compiler takes the function again for each use.
        value, back = jax.lax.optimization_barrier(jax.vjp(value_of, rows @ z.T))
        own = jnp.einsum("im,ims->ms", a, value.reshape(images, m, -1)) / (images * (m - 1))
        error = (y - jnp.ones(m) @ own) + own
        error = jnp.broadcast_to(error, (images, *error.shape)).reshape(value.shape)
        da = jnp.sum(value * error, axis=1) if field.values else jnp.zeros(images * m)
        return (total[0] + da, total[1] + back(error)[0] @ z), None

    zero = (jnp.zeros(images * m), jnp.zeros_like(rows))
    da, moved = (x / len(field.y) for x in jax.lax.scan(add, zero, field.pieces(images * m))[0])
    moved = a[..., None] * moved.reshape(images, m, d + 1)
    return Units(da.reshape(a.shape), moved[..., d], moved[..., :d])


def sample_risk(field: SampleField, clouds: Units) -> jax.Array:
    r""":math:`\tfrac12 E(y - f_A)(y - f_B)` of two clouds on the samples."""
    value_of, _ = field.activation.unit_functions()
    n, d = clouds.a[0].size, clouds.theta.shape[-1]
    a, rows = clouds.a.reshape(2, n), jnp.concatenate([clouds.theta, clouds.b[..., None]], axis=-1)

    def add(total, piece):
        z, y = piece
        value = value_of(rows.reshape(-1, d + 1) @ z.T).reshape(2, n, -1)
        return total + jnp.sum(jnp.prod(y - jnp.einsum("cn,cns->cs", a, value) / n, axis=0)), None

    return jax.lax.scan(add, jnp.zeros(()), field.pieces(2 * n))[0] / (2 * len(field.y))
