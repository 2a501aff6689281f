r"""Population gradients of networks of kinks on Gaussian mixtures, in closed form.

.. math::
    E[\sigma'_i f z] = \Sigma\Big(\langle a_j E[\sigma'_i\sigma'_j]\,\theta_j \rangle_j
                       + \langle a_j E[\sigma''_i \sigma_j]\rangle_j\,\theta_i\Big), \qquad
    \sigma_i = \sigma(u_i + b_i), \quad u_i = \theta_i \cdot z, \quad z = \sqrt d\,x \sim N(0, \Sigma)

in each class, with the mean over all units but i itself and its mirror image: at infinite width a unit does not act on
itself, and leaving it out makes the norms of few units ten times less biased. With
:math:`\sigma = c + \sum_k g_k (u - t_k)_+`, thresholds h in units of the width
:math:`s_i = (\theta_i\Sigma\theta_i)^{1/2}` of u_i, the correlation rho of two fields, :math:`\bar\rho^2 = 1 - \rho^2`,
and L the probability that both pass their thresholds, a pair of kinks has

.. math::
    \sigma'\sigma' \to L, \quad
    \sigma'\sigma \to \phi(k)\Phi(\tfrac{\rho k - h}{\bar\rho}) + \rho\,\phi(h)\Phi(\tfrac{\rho h - k}{\bar\rho}) - kL,
    \quad \sigma''\sigma \to \phi(h)\,\bar\rho\,(x\Phi + \phi)(x), \; x = \tfrac{\rho h - k}{\bar\rho} .

A slope at minus infinity counts as a kink 40 widths to the left.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import LabelledOnePass
from limitlab.macro.mixtures.start import Units
from limitlab.modules import Module, field
from limitlab.numerics.gauss import normal
from limitlab.numerics.gauss.orthant import MOST, orthant
from limitlab.numerics.trees import as_array
from limitlab.problems.activations.base import Activation
from limitlab.problems.inputs.labelled import Widths

__all__ = ["ClosedField", "closed_field", "closed_pull", "closed_risk", "has_closed_form"]

NARROW = 1e-150
LABELS = np.array([1.0, -1.0])


class ClosedField(Module):
    """The kinks of sigma, the variances (2, d) of the classes y = 1, -1, and whether units come with mirror images."""

    level: float = field(static=True)
    tilt: float = field(static=True)
    places: tuple[float, ...] = field(static=True)
    bends: tuple[float, ...] = field(static=True)
    variances: jax.Array
    mirrored: bool = field(static=True)
    values: bool = field(static=True)  # whether E[sigma sigma] is needed: for a trained second layer
    shifts: bool = field(static=True)  # whether E[sigma' sigma] is needed: for trained biases


class _Kinks(NamedTuple):
    """Of each unit: width s (n,), constant c (n,), thresholds h (K, n) in units of s; bends g (K,)."""

    s: jax.Array
    c: jax.Array
    h: jax.Array
    g: np.ndarray


class _Pairs(NamedTuple):
    r"""Matrices (n, n): :math:`E\sigma'_i\sigma'_j, E\sigma''_i\sigma_j, E\sigma'_i\sigma_j, E\sigma_i\sigma_j`."""

    slopes: jax.Array
    curvature: jax.Array
    mixed: jax.Array
    value: jax.Array


def has_closed_form(setting: LabelledOnePass) -> bool:
    """Whether the inputs are a Gaussian mixture and the activation is made of straight lines."""
    return setting.inputs.widths() is not None and setting.student.activation.pieces() is not None


def closed_field(setting: LabelledOnePass, widths: Widths, d: int, mirrored: bool) -> ClosedField:
    """What the closed gradients of a problem at dimension d need."""
    telling = setting.inputs.blocks(d)
    tau = np.array(widths.taus)[:, None]
    variances = np.where(np.arange(d) < (d if telling is None else telling), tau**2, 1.0)
    return _field(setting.student.activation, variances, mirrored, setting.trained, setting.biased)


def _field(activation: Activation, variances: np.ndarray, mirrored: bool, values: bool, shifts: bool) -> ClosedField:
    pieces = activation.pieces()
    if pieces is None:
        raise TypeError(f"Closed gradients need an activation of straight lines; got {activation!r}.")
    level, tilt, places, bends = (x.tolist() for x in pieces)
    return ClosedField(level, tilt, tuple(places), tuple(bends), as_array(variances), mirrored, values, shifts)


def _kinks(field: ClosedField, cloud: Units, q: jax.Array) -> _Kinks:
    s = jnp.maximum(jnp.sqrt(q), NARROW)
    c = field.level + field.tilt * cloud.b
    h = (jnp.asarray(field.places)[:, None] - cloud.b) / s
    bends = np.asarray(field.bends)
    if field.tilt:  # tilt u = tilt ((u + 40 s)_+ - 40 s)
        c, bends = c - field.tilt * MOST * s, np.append(bends, field.tilt)
        h = jnp.concatenate([h, jnp.full((1, len(s)), -MOST)])
    return _Kinks(s, c, jnp.clip(h, -MOST, MOST), bends)


def _alone(kinks: _Kinks) -> tuple[jax.Array, jax.Array, jax.Array]:
    r""":math:`E\sigma_i, E\sigma'_i, E\sigma''_i`."""
    phi, above = normal.density(kinks.h), normal.ndtr(-kinks.h)
    g = jnp.asarray(kinks.g)
    return kinks.c + kinks.s * (g @ (phi - kinks.h * above)), g @ above, (g @ phi) / kinks.s


def _pair(kinks: _Kinks, i, j, rho: jax.Array, values: bool, shifts: bool):
    """The moments of the pairs (i, j) of fields with correlations rho: symmetric ones, and i to j, j to i."""
    s, c, h, g = kinks
    value, above, density = _alone(kinks)
    bar = jnp.maximum(jnp.sqrt((1 - rho) * (1 + rho)), NARROW)
    hi, hj, both = h[:, i][:, None], h[:, j][None, :], jnp.asarray(g[:, None] * g)
    L = orthant(hi, hj, rho)

    def total(x):
        return jnp.einsum("kl,klp->p", both, x)

    def towards(hi, hj):
        """x, phi(h_i) and phi(h_i) Phi(x): the second field given that the first is at its threshold."""
        x = (rho * hi - hj) / bar
        return x, normal.density(hi), normal.density(hi) * normal.ndtr(x)

    (x, pi, A), (y, pj, B) = towards(hi, hj), towards(hj, hi)
    there = density[i] * c[j] + s[j] / s[i] * total(bar * (x * A + pi * normal.density(x)))
    back = density[j] * c[i] + s[i] / s[j] * total(bar * (y * B + pj * normal.density(y)))
    product, mixed = jnp.zeros_like(rho), (jnp.zeros_like(rho),) * 2
    if shifts:
        first = total(B + rho * A - hj * L)
        second = total(A + rho * B - hi * L)
        mixed = (above[i] * c[j] + s[j] * first, above[j] * c[i] + s[i] * second)
    if values:
        ramps = total((rho + hi * hj) * L - hj * A - hi * B + bar * pi * normal.density((hj - rho * hi) / bar))
        product = c[i] * value[j] + c[j] * value[i] - c[i] * c[j] + s[i] * s[j] * ramps
    return total(L), (there, back), mixed, product


def _pairs(
    field: ClosedField, units: Units, variance: jax.Array, i, j, values: bool, shifts: bool
) -> tuple[_Kinks, _Pairs]:
    """The pairs (i, j), i <= j, all others 0; of mirrored units the mean over the images of j (slopes: half the
    difference)."""
    gram = (units.theta * variance) @ units.theta.T
    kinks = _kinks(field, units, jnp.diagonal(gram))
    rho = jnp.clip(gram[i, j] / (kinks.s[i] * kinks.s[j]), -1.0, 1.0)
    place = np.full(gram.shape, 2 * len(i))
    place[j, i] = len(i) + np.arange(len(i))
    place[i, j] = np.arange(len(i))

    def matrix(there, back):
        return jnp.concatenate([there, back, jnp.zeros(1)])[place]

    def full(sign):
        slopes, curvature, mixed, value = _pair(kinks, i, j, sign * rho, values, shifts)
        return _Pairs(matrix(slopes, slopes), matrix(*curvature), matrix(*mixed), matrix(value, value))

    signs = jnp.array([1.0, -1.0] if field.mirrored else [1.0])
    each = jax.lax.map(full, signs)  # one after the other: the rarer branches of `orthant` stay branches
    mean = jax.tree.map(lambda x: jnp.mean(x, axis=0), each)
    return kinks, mean._replace(slopes=jnp.tensordot(signs, each.slopes, 1) / len(signs))


def _listed(cloud: Units) -> Units:
    """All units in one row."""
    return Units(cloud.a.ravel(), cloud.b.ravel(), cloud.theta.reshape(-1, cloud.theta.shape[-1]))


def closed_pull(field: ClosedField, cloud: Units) -> Units:
    r""":math:`-\nabla\Psi` at every unit of one cloud: :math:`E[(y - f)\sigma_i], a_i E[(y - f)\sigma'_i],
    a_i E[(y - f)\sigma'_i z]`."""
    units, (images, m) = _listed(cloud), cloud.a.shape
    a, theta = units.a, units.theta
    index = np.arange(images * m)
    others = (index[:, None] % m != index % m) / (images * (m - 1.0))
    i, j = np.nonzero(np.triu(others > 0))

    def of_class(y, variance):
        kinks, pairs = _pairs(field, units, variance, i, j, field.values, field.shifts)
        value, slope, curvature = _alone(kinks)
        pairs = jax.tree.map(lambda x: others * x, pairs)
        bend = (y * curvature - pairs.curvature @ a)[:, None] * theta - pairs.slopes @ (a[:, None] * theta)
        return Units(y * value - pairs.value @ a, a * (y * slope - pairs.mixed @ a), a[:, None] * variance * bend)

    both = jax.lax.map(lambda each: of_class(*each), (LABELS, field.variances))
    return jax.tree.map(lambda x, like: jnp.mean(x, axis=0).reshape(like.shape), both, cloud)


def closed_risk(field: ClosedField, clouds: Units) -> jax.Array:
    r""":math:`\tfrac12 E(y - f_A)(y - f_B)` of two clouds."""
    units, n = _listed(clouds), clouds.a[0].size
    i, j = (x.ravel() for x in np.meshgrid(np.arange(n), n + np.arange(n), indexing="ij"))

    def of_class(y, variance):
        kinks, pairs = _pairs(field, units, variance, i, j, values=True, shifts=False)
        product = units.a[:n] @ pairs.value[:n, n:] @ units.a[n:] / n**2
        return (1 - 2 * y * jnp.mean(units.a * _alone(kinks)[0]) + product) / 2

    return jnp.mean(jax.lax.map(lambda each: of_class(*each), (LABELS, field.variances)))
