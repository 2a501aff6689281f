r"""Two correlated normals that both exceed a threshold.

.. math::
    L(h, k; \rho) = P(U > h, V > k) = \Phi(-h)\Phi(-k) + \frac1{2\pi}\int_0^X \frac{e^{-Q(x)}}{\cosh x}\,dx, \qquad
    Q(x) = \frac{h^2 + k^2}4 + \frac{(h - k)^2}8 e^{2x} + \frac{(h + k)^2}8 e^{-2x}

with :math:`X = \mathrm{artanh}\,\rho`: Plackett's integral over the correlation in a variable that keeps it smooth, by
Gauss nodes. Beyond X = `FAR` the integral from X to infinity is taken off :math:`L(h, k; 1) = \Phi(-\max(h, k))`
instead. There :math:`s = e^{-x}` is small, and all but :math:`e^{-(h - k)^2/8s^2}` is expanded in s^2:

.. math::
    \int_0^a s^{2m} e^{-c/s^2} ds = J_m = \frac{a^{2m+1} e^{-c/a^2} - 2c J_{m-1}}{2m + 1}, \qquad
    J_0 = a e^{-c/a^2} - \sqrt{\pi c}\,\mathrm{erfc}(\sqrt c/a) .
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc

from limitlab.numerics.gauss import normal
from limitlab.numerics.gauss.rules import legendre

__all__ = ["MOST", "orthant"]

RULES = ((0.8, 6), (1.2, 8), (2.0, 12))  # up to such an X so many nodes: errors below 5e-10
FAR = RULES[-1][0]  # a correlation of 0.964
TERMS = 8  # the first one that is left out has a factor e^(-17 X)
MOST = 40.0  # standard deviations: beyond, a threshold is infinite to rounding


def orthant(h: jax.Array, k: jax.Array, rho: jax.Array) -> jax.Array:
    """P(U > h, V > k) of standard normals of correlation rho; arguments broadcast.

    Fastest if many correlations lie along the last axis and thresholds along the first ones. The largest correlation
    says how many nodes all of them take.
    """
    h = jnp.clip(h, -MOST, MOST)
    k = jnp.clip(k, -MOST, MOST)
    turned = rho < 0  # P(U > h, V > k) = P(U > h) - P(U > h, -V > -k)
    # Tails of the thresholds alone are made once, not again for every pair.
    one, two = jax.lax.optimization_barrier((normal.ndtr(-h), normal.ndtr(-k)))
    both = _positive(h, jnp.where(turned, -k, k), jnp.abs(rho), one, jnp.where(turned, 1 - two, two))
    return jnp.where(turned, one - both, both)


def _positive(h: jax.Array, k: jax.Array, rho: jax.Array, one: jax.Array, two: jax.Array) -> jax.Array:
    apart, same = jnp.square(h - k) / 8, jnp.square(h + k) / 8
    rest = (jnp.square(h) + jnp.square(k)) / 4
    near = one * two + _near(jnp.arctanh(jnp.minimum(rho, math.tanh(FAR))), apart, same, rest)

    def some_far():
        # s at the end, e^-X = sqrt((1 - rho)/(1 + rho)), kept finite where it is not used
        end = jnp.sqrt((1 - jnp.clip(rho, 0.9, 1.0)) / (1 + rho))
        far = jnp.where(h > k, one, two) - _beyond(end, apart, same, rest)
        return jnp.where(rho > math.tanh(FAR), far, near)

    return jax.lax.cond(jnp.any(rho > math.tanh(FAR)), some_far, lambda: near)


def _near(X: jax.Array, apart: jax.Array, same: jax.Array, rest: jax.Array) -> jax.Array:
    """The integral from 0 to X."""
    ends, counts = [end for end, _ in RULES], [count for _, count in RULES]
    table = np.zeros((2, len(RULES), max(counts)))
    for i, count in enumerate(counts):
        nodes, weights = legendre(count)
        table[:, i, :count] = (1 + nodes) / 2, weights / 2
    which = jnp.sum(jnp.max(X) > jnp.asarray(ends[:-1]))
    rule = jnp.asarray(table)[:, which]

    def add(i, total):
        node, weight = rule[0, i], rule[1, i]
        t = jnp.exp(X * node)
        square = jnp.square(t)
        # What depends on rho alone is made once for all pairs of thresholds.
        measure, square, inverse = jax.lax.optimization_barrier((weight * t / (1 + square), square, 1 / square))
        return total + measure * jnp.exp(-rest - apart * square - same * inverse)

    zero = jnp.zeros(jnp.broadcast_shapes(jnp.shape(apart), jnp.shape(X)))
    return X * jax.lax.fori_loop(0, jnp.asarray(counts)[which], add, zero) / math.pi


def _beyond(end: jax.Array, apart: jax.Array, same: jax.Array, rest: jax.Array) -> jax.Array:
    """The integral from X to infinity, e^-X = ``end``."""
    a = jnp.maximum(end, 1e-150)
    front = jnp.exp(-apart / jnp.square(a))
    power, J = a, a * front - jnp.sqrt(math.pi * apart) * erfc(jnp.sqrt(apart) / a)
    coefficient = term = jnp.ones_like(same)  # of exp(-same s^2)/(1 + s^2)
    total = coefficient * J
    for m in range(1, TERMS):
        power = power * jnp.square(a)
        J = (power * front - 2 * apart * J) / (2 * m + 1)
        term = -term * same / m
        coefficient = term - coefficient
        total = total + coefficient * J
    return jnp.exp(-rest) * total / math.pi
