"""Labels by logistic odds."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.rules import panel_nodes
from limitlab.problems.channels.base import Output
from limitlab.problems.channels.binary import BinaryChannel

__all__ = ["Logistic"]

MODERATE = 1.1  # V up to which the grid is exact to rounding
DROP = 45.0  # of the logarithm: 9.5 standard deviations
FAR = 1e12  # deviations of the prior from 0, beyond which they have no digits left: an infinite field is as far
GRID = np.linspace(-8.5, 8.5, 45)


class Logistic(BinaryChannel):
    r""":math:`P(y = \pm 1) = 1/(1 + e^{-yz})`.

    .. math:: g = \langle y\sigma(-yz) \rangle, \qquad
              dg = -\langle \sigma(z)\sigma(-z) \rangle + \mathrm{Var}(y\sigma(-yz))

    over the posterior of z: by parts, so that nothing cancels when V is small.
    """

    mirror: ClassVar[bool] = True

    def sample(self, key, z):
        return jnp.where(jax.random.uniform(key, z.shape) < jax.nn.sigmoid(z), 1.0, -1.0).astype(z.dtype)

    def told(self, z, xp):
        return xp.tanh(z / 2)

    def output(self, y, w, V):
        y, w, V = (jnp.asarray(x, float) for x in (y, w, V))
        return jax.lax.cond(jnp.all(V <= MODERATE), _on_a_grid, _on_panels, y, w, V)

    def mean_label(self, w, V):
        return 2 * jnp.exp(self.output(jnp.ones_like(w), w, V).log_z) - 1

    def features(self, V):
        return (0.0,), jnp.sqrt(V + 1.0)


def _on_a_grid(y, w, V) -> Output:
    r"""The trapezoidal rule: few nodes, right to rounding while V is moderate.

    In units of sqrt(V) the nearest pole of sigma is at distance pi/sqrt(V), which costs
    exp(pi^2/2V - 2 pi^2/(h sqrt V)). The posterior lies between the prior and a normal law shifted by y sqrt(V), so the
    grid is centred half way. With x = y u, :math:`yz = yw + \sqrt V u` needs no exponential at each node, only at each
    w and at each (u, V). One node after the other: four sums stay in the cache. The variance is taken around
    sigma(-yw), from which the mean differs by O(V) where V is small, so that nothing cancels.
    """
    root, field, shape = jnp.sqrt(V), y * w, jnp.broadcast_shapes(y.shape, w.shape, V.shape)
    u = GRID.reshape(-1, *(1,) * len(root.shape)) + root / 2
    weight = jnp.exp(-jnp.square(u) / 2)
    weight, tilt = weight / jnp.sum(weight, 0), jnp.exp(-root * u)
    down, up = jnp.exp(jnp.minimum(field, 0.0)), jnp.exp(-jnp.maximum(field, 0.0))  # e^yw = down/up, neither overflows
    centre = up / (down + up)

    def add(k, sums):
        total, mean, square, bend = sums
        odds = up * tilt[k]
        hit = 1 / (down + odds)  # sigma(yz)/down
        miss, p = odds * hit, weight[k] * hit  # sigma(-yz)
        apart = miss - centre
        return total + p, mean + p * apart, square + p * apart * apart, bend + p * miss * hit

    total, mean, square, bend = jax.lax.fori_loop(0, len(GRID), add, (jnp.zeros(shape),) * 4)
    mean = mean / total
    log_z = jnp.minimum(field, 0.0) + jnp.log(total)
    dg = square / total - mean * mean - bend * down / total
    return Output(*(jnp.broadcast_to(x, shape) for x in (log_z, y * (centre + mean), dg)))


def _on_panels(y, w, V) -> Output:
    """Panels around the top of the posterior and around z = 0, for any V."""
    y, w, V = (x[..., None] for x in jnp.broadcast_arrays(y, jnp.clip(w, -FAR * jnp.sqrt(V), FAR * jnp.sqrt(V)), V))
    z, dz = panel_nodes(jax.lax.stop_gradient(_edges(y, w, V)), 10)
    yz = y * z
    e = jnp.exp(-jnp.abs(yz))
    log_p = -jnp.square(z - w) / (2 * V) - jnp.log1p(e) + jnp.minimum(yz, 0.0)
    top = jnp.max(log_p, -1, keepdims=True)
    p = dz * jnp.exp(log_p - top)
    total = jnp.sum(p, -1)
    miss = jnp.where(yz > 0, e, 1.0) / (1 + e)  # sigma(-yz)
    mean = jnp.sum(p * miss, -1) / total
    spread = jnp.sum(p * jnp.square(miss - mean[..., None]), -1) / total
    bend = jnp.sum(p * miss * (1 - miss), -1) / total
    log_z = top[..., 0] + jnp.log(total) - jnp.log(2 * jnp.pi * V[..., 0]) / 2
    return Output(jnp.minimum(log_z, 0.0), y[..., 0] * mean, spread - bend)


def _log_posterior(z, y, w, V):
    return -jnp.square(z - w) / (2 * V) - jax.nn.softplus(-y * z)


def _edges(y, w, V):
    """Panels to where the density is e^-45 of its top, graded from there and from z = 0."""
    top, sides = _top(y, w, V), np.array([-1.0, 1.0])
    least, end = _log_posterior(top, y, w, V) - DROP, top + sides * jnp.sqrt(2 * DROP * V)
    for _ in range(5):  # Newton's from outside stays outside: the logarithm is concave, and more so than the prior's
        slope = (w - end) / V + y * jax.nn.sigmoid(-y * end)
        end = end - (_log_posterior(end, y, w, V) - least) / slope
    low, high = end[..., :1], end[..., 1:]
    ladder, around = np.array([0.17, 0.56, 1.0]), np.array([1.5, 4.5, 11, 28.0])
    zero = jnp.clip(np.append(-around, around), low, high)
    return jnp.concatenate([top + ladder * (low - top), top + ladder * (high - top), zero], -1)


def _top(y, w, V):
    r"""Where the posterior has its mode, to a part of 1: :math:`z = w + yV\sigma(-yz)`.

    With z = +-yu it is :math:`u = c + V\sigma(-u)` at a u >= 0, which exceeds max(c, 0) by log(1 + V) + 1 at most.
    """
    middle = y * w + V / 2
    c = jnp.abs(middle) - V / 2
    u, length = jnp.maximum(c, 0.0), jnp.log1p(V) + 1
    for k in range(1, 8):
        higher = u + length / 2**k
        u = jnp.where(higher < c + V * jax.nn.sigmoid(-higher), higher, u)
    return y * jnp.where(middle < 0, -u, u)
