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
    """Panels around the prior and around z = 0, for any V."""
    y, w, V = jnp.broadcast_arrays(y, w, V)
    root = jnp.sqrt(V)[..., None]
    x, dx = _standard_panels(w[..., None] / root, 1 / root)
    z = w[..., None] + root * x
    yz = y[..., None] * z
    e = jnp.exp(-jnp.abs(yz))
    log_p = -jnp.square(x) / 2 - jnp.log1p(e) + jnp.minimum(yz, 0.0)
    top = jnp.max(log_p, -1, keepdims=True)
    p = dx * jnp.exp(log_p - top)
    total = jnp.sum(p, -1)
    miss = jnp.where(yz > 0, e, 1.0) / (1 + e)  # sigma(-yz)
    mean = jnp.sum(p * miss, -1) / total
    spread = jnp.sum(p * jnp.square(miss - mean[..., None]), -1) / total
    bend = jnp.sum(p * miss * (1 - miss), -1) / total
    mass = jnp.sum(dx * jnp.exp(-jnp.square(x) / 2), -1)  # sqrt(2 pi), as this rule sees it
    return Output(top[..., 0] + jnp.log(total / mass), y * mean, spread - bend)


def _standard_panels(shift, width):
    """Nodes of a standard normal x, with panels also around x = -shift (z = 0) at a scale ``width``."""
    ladder = np.array([-9.5, -5, -1.8, 1.8, 5, 9.5])
    around = np.array([-28.0, -11, -4.5, -1.5, 1.5, 4.5, 11, 28.0])
    edges = jnp.concatenate(
        [jnp.broadcast_to(ladder, (*shift.shape[:-1], len(ladder))), jnp.clip(around * width - shift, -9.5, 9.5)], -1
    )
    return panel_nodes(edges, 10)
