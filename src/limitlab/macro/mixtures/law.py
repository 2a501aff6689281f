r"""Mixtures seen by rotation-invariant networks: what remains of x is its length, what remains of w its norm.

.. math::
    f(x) = E_\rho\big[a\,\sigma_s(b)\big], \quad s = r|x|, \qquad
    \mathrm{risk} = \tfrac12 E(y - f)^2 = \tfrac12 E y^2 + \int V\,d\rho + \tfrac12 \iint U\,d\rho\,d\rho

with :math:`\sigma_s` the average over directions, r = |w|/sqrt(d), V = -E[y a sigma], U = E[a sigma a' sigma'] and
:math:`\Psi = V + \int U(\theta, \cdot)\,d\rho` the derivative of the risk. No angle and no matrix U is ever needed:
everything goes through f at the nodes of |x|. Of anisotropic mixtures (infinite d) both norms of w remain,
:math:`s^2 = \tau_\pm^2 r_1^2 + r_2^2`.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.algorithms.settings.one_pass import LabelledOnePass
from limitlab.modules import Module, filter_jit
from limitlab.numerics.gauss.rules import length_nodes
from limitlab.numerics.gauss.smoothing import AbstractSmoother, PiecewiseSmoother, Smoothed
from limitlab.numerics.gauss.sphere import DirectionSmoother, SpherePiecewise
from limitlab.numerics.shapes import along_rows
from limitlab.numerics.trees import as_array
from limitlab.problems.activations.base import Activation
from limitlab.problems.inputs.labelled import Widths

__all__ = [
    "Radial",
    "RadialData",
    "RadialUnits",
    "at_infinity",
    "make_data",
    "network",
    "norm_speeds",
    "potential",
    "risk",
    "risks",
    "seen",
]

PANELS = 4  # of 16 nodes each, for the length of x in a class; dimensions below 10 have sharper features


class Radial(NamedTuple):
    """One-pass SGD on two classes that differ in width."""

    one_pass: LabelledOnePass
    widths: Widths

    @property
    def two_norms(self) -> bool:
        """Whether the classes differ on some coordinates only."""
        return self.widths.share is not None

    @property
    def output_weight(self) -> float:
        """The second layer, where it is one fixed number."""
        a = self.one_pass.student.output_weights
        return float(self.one_pass.neurons.layer_scale if a is None else a[0])


class RadialUnits(NamedTuple):
    """A cloud of units: second layer a (n,), bias b (n,), norms r (n, blocks)."""

    a: Any
    b: Any
    r: Any


class RadialData(Module):
    """Nodes of the data: lengths of x (J, blocks), labels (J,), weights (J,) that sum to 1; and the smoother."""

    lengths: jax.Array
    labels: jax.Array
    weights: jax.Array
    noise: jax.Array
    smoother: AbstractSmoother


def make_data(setting: Radial, d: float, panels: int | None = None) -> RadialData:
    """The data of a mixture at dimension d (math.inf allowed)."""
    taus = np.array(setting.widths.taus)
    length, weight = length_nodes(d, panels or (PANELS if d >= 10 else 4 * PANELS))
    lengths = (taus[:, None] * length).ravel()[:, None]
    if setting.two_norms:
        lengths = np.concatenate([lengths, np.ones_like(lengths)], axis=1)
    return RadialData(
        lengths=as_array(lengths),
        labels=as_array(np.repeat([1.0, -1.0], len(length))),
        weights=as_array(np.tile(weight / 2, 2)),
        noise=as_array(float(setting.one_pass.channel.variance)),
        smoother=_smoother(setting.one_pass.student.activation, d),
    )


def _smoother(activation: Activation, d: float) -> AbstractSmoother:
    if math.isinf(d):
        return activation.smoother(4.0)
    if d > 1 and activation.pieces() is not None:
        gaussian = activation.smoother()
        assert isinstance(gaussian, PiecewiseSmoother)
        return SpherePiecewise.of(gaussian, int(d))
    return DirectionSmoother(activation.function, activation.derivative, int(d))


def seen(law: RadialData, x: RadialUnits) -> tuple[Smoothed, jax.Array]:
    """The average unit (n, J), its derivatives in b and in s, and s itself."""
    s = x.r * law.lengths[:, 0] if x.r.shape[1] == 1 else jnp.sqrt(jnp.square(x.r) @ jnp.square(law.lengths).T)
    value, slope, pull = law.smoother(x.b[:, None], s)
    return Smoothed(value, slope, pull if law.smoother.kinked else s * pull), s


def network(law: RadialData, x: RadialUnits, weights: jax.Array) -> jax.Array:
    """f at the nodes of the data."""
    return (weights * x.a) @ seen(law, x)[0].value


def risk(law: RadialData, f: jax.Array) -> jax.Array:
    """Half the mean square error, label noise included."""
    return law.weights @ jnp.square(law.labels - f) / 2 + law.noise / 2


def potential(law: RadialData, f: jax.Array, x: RadialUnits) -> jax.Array:
    r""":math:`\Psi(\theta; \rho)` of units in the field f of a law rho."""
    return -x.a * (seen(law, x)[0].value @ (law.weights * (law.labels - f)))


@lru_cache(maxsize=256)
@double
def at_infinity(activation: Activation) -> float | None:
    """The average unit as r grows without bound, half of sigma(-inf) + sigma(inf); None if it has no limit."""
    far = np.asarray([-1e9, 1e9, -3e9, 3e9])
    values = np.asarray(jax.jit(jax.vmap(activation.function))(far), float)
    settled = np.all(np.isfinite(values)) and np.allclose(values[:2], values[2:], rtol=1e-9, atol=1e-9)
    return float(values[:2].mean()) if settled else None


def norm_speeds(law: RadialData, x: RadialUnits, pull: jax.Array, s: jax.Array, error: jax.Array) -> jax.Array:
    """The motion of the norms (n, blocks) under weighted errors (J,)."""
    if x.r.shape[1] == 1:
        return (x.a * (pull @ (error * law.lengths[:, 0])))[:, None]
    steep = pull / jnp.maximum(s, 1e-300)
    return x.a[:, None] * x.r * (steep @ (error[:, None] * jnp.square(law.lengths)))


@along_rows
@filter_jit
def risks(law: RadialData, f: jax.Array) -> jax.Array:
    """`risk` along a path (time, J)."""
    return jax.vmap(lambda row: risk(law, row))(f)
