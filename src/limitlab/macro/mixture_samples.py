r"""Population gradients of any network on any labelled inputs, as means over a fixed set of samples.

.. math:: E[(y - f)\sigma'_i z] \approx \frac1S \sum_\mu (y_\mu - f(x_\mu))\,\sigma'(\theta_i \cdot z_\mu + b_i)\,z_\mu,
          \quad z = \sqrt d\,x

Two matrix products, fields and gradients, over pieces of the samples that stay in the cache.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.macro.mixture_start import Cloud
from limitlab.micro.mixture_measure import CHUNK, points
from limitlab.problems.activations import Activation
from limitlab.problems.inputs import AbstractLabelledInputs
from limitlab.problems.kinks import unit_functions
from limitlab.problems.problem import Problem

__all__ = ["SampleField", "sample_field", "sample_pull", "sample_risk"]


class SampleField(eqx.Module):
    """Samples z (pieces, CHUNK, d) with labels (pieces, CHUNK); ``values``: a trained second layer asks for more."""

    activation: Activation
    z: jax.Array
    y: jax.Array
    values: bool = eqx.field(static=True)


def sample_field(problem: Problem, d: int, samples: int, key: jax.Array) -> SampleField:
    """So many fixed inputs (of a mixture with their mirror images, half of each class)."""
    inputs, student = problem.inputs, problem.student
    assert isinstance(inputs, AbstractLabelledInputs) and student is not None
    drawn = points(inputs, key, samples, d)
    x, y = drawn.x, drawn.y
    if drawn.mirrored:
        x, y = jnp.concatenate([x, -x]), jnp.concatenate([y, y])
    z = jnp.sqrt(float(d)) * x.reshape(-1, CHUNK, d)
    return SampleField(student.activation, z, y.reshape(-1, CHUNK), student.second_layer == "trained")


def sample_pull(field: SampleField, cloud: Cloud) -> Cloud:
    r""":math:`-\nabla\Psi` at every unit of one cloud, as `closed_pull`, without its own part of f."""
    a, b, theta = cloud
    images, m, d = theta.shape
    value_of, slope_of = unit_functions(field.activation)
    rows, biases = theta.reshape(-1, d), b.reshape(-1, 1)
    others = images * (m - 1)

    def add(total, piece):
        z, y = piece
        lam = rows @ z.T + biases
        value = value_of(lam)
        own = jnp.sum(a[..., None] * value.reshape(images, m, -1), axis=0)
        error = jnp.broadcast_to(y - (jnp.sum(own, axis=0) - own) / others, (images, *own.shape)).reshape(lam.shape)
        push = slope_of(lam) * error
        da = jnp.sum(value * error, axis=1) if field.values else jnp.zeros(images * m)
        return (total[0] + da, total[1] + jnp.sum(push, axis=1), total[2] + push @ z), None

    zero = (jnp.zeros(images * m), jnp.zeros(images * m), jnp.zeros_like(rows))
    da, db, dtheta = (x / field.y.size for x in jax.lax.scan(add, zero, (field.z, field.y))[0])
    return Cloud(da.reshape(a.shape), a * db.reshape(b.shape), a[..., None] * dtheta.reshape(theta.shape))


def sample_risk(field: SampleField, clouds: Cloud) -> jax.Array:
    r""":math:`\tfrac12 E(y - f_A)(y - f_B)` of two clouds on the samples."""
    value_of, _ = unit_functions(field.activation)
    n, d = clouds.a[0].size, clouds.theta.shape[-1]
    a, b, theta = clouds.a.reshape(2, n), clouds.b.reshape(-1, 1), clouds.theta.reshape(-1, d)

    def add(total, piece):
        z, y = piece
        value = value_of(theta @ z.T + b).reshape(2, n, -1)
        return total + jnp.sum(jnp.prod(y - jnp.einsum("cn,cns->cs", a, value) / n, axis=0)), None

    return jax.lax.scan(add, jnp.zeros(()), (field.z, field.y))[0] / (2 * field.y.size)
