r"""One step of SGD of a two-layer network on signs, and the ridge fit of its second layer.

.. math::
    x \in \{-1, 1\}^d/\sqrt d, \qquad y = h(z) + \sqrt\Delta\,\xi, \qquad f = \frac1p \sum_i a_i \sigma(w_i \cdot x)

The latent signs z are those of the first P coordinates. Weights are held as W (d, p), one column a unit: of the two
layouts this is the faster one, for the fields and for the update.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.micro.steps import FIELD_BOUND, Run
from limitlab.problems.activations.base import Activation

__all__ = ["Network", "Rule", "hypercube_step", "ridge_second_layer", "signs"]

ERROR_BOUND = FIELD_BOUND  # a second layer that diverges shows in the error, not in the fields
CHUNK = 1024  # samples of the ridge fit at a time


class Network(eqx.Module):
    """A two-layer network at finite size: W (d, p), second layer a (p,)."""

    W: jax.Array
    a: jax.Array


class Rule(eqx.Module):
    """What a step needs to know. ``table`` holds h at the 2^P points, ``trains`` is "first", "second" or "both"."""

    activation: Activation
    table: Any
    variance: Any
    learning_rate: Any
    second_layer_rate: Any
    weight_decay: Any
    batch_size: int = eqx.field(static=True)
    trains: str = eqx.field(static=True)
    interacting: bool = eqx.field(static=True, default=True)

    def labels(self, point: jax.Array, key: jax.Array) -> jax.Array:
        """Noisy labels of samples whose latent signs are those of ``point``."""
        y = self.table[point]
        if isinstance(self.variance, jax.Array):  # a plain 0 draws nothing
            y = y + jnp.sqrt(self.variance) * jax.random.normal(key, y.shape)
        return y


def signs(key: jax.Array, count: int, d: int, P: int) -> tuple[jax.Array, jax.Array]:
    """Uniform inputs (count, d) with entries +-1/sqrt(d), one random bit each, and the cube point of the first P."""
    words = jax.random.bits(key, (count, -(-d // 32)), jnp.uint32)
    bits = (words[:, :, None] >> jnp.arange(32, dtype=jnp.uint32)) & jnp.uint32(1)
    x = (1.0 - 2.0 * bits.reshape(count, -1)[:, :d].astype(float)) / jnp.sqrt(float(d))
    return x, (words[:, 0] & jnp.uint32(2**P - 1)).astype(jnp.int32)


def hypercube_step(rule: Rule, d: jax.Array, run: Run, keys: jax.Array, step: jax.Array) -> Run:
    r"""One step on a fresh batch, both gradients at the old parameters:

    .. math::
        w_i \leftarrow (1 - \lambda\tau) w_i + \frac\gamma p \langle a_i \sigma'(w_i \cdot x)\, \mathcal E\, x\rangle,
        \qquad
        a_i \leftarrow (1 - \lambda\tau) a_i + \kappa \tau \langle \sigma(w_i \cdot x)\, \mathcal E\rangle,
        \qquad \tau = \frac{\gamma}{p d}

    for the layers that ``rule.trains``, with :math:`\mathcal E = y - f`, or y if units do not interact. ``keys`` is a
    pair, for inputs and for label noise.
    """
    P = rule.table.shape[0].bit_length() - 1
    key = jax.random.fold_in(keys[0], step)
    x, point = signs(key, rule.batch_size, run.state.W.shape[0], P)
    x = jax.lax.optimization_barrier(x)  # or the compiler draws it once for each of its uses
    y = rule.labels(point, jax.random.fold_in(keys[1], step))
    return move(rule, d, run, x, y, step)


def move(rule: Rule, d: jax.Array, run: Run, x: jax.Array, y: jax.Array, step: jax.Array) -> Run:
    """The step of `hypercube_step` on given samples."""
    net, p = run.state, run.state.a.shape[0]
    rate = rule.learning_rate / (p * rule.batch_size)
    lam = x @ net.W
    value = rule.activation(lam)
    error = y - value @ net.a / p if rule.interacting else y
    alive = run.alive & (jnp.max(jnp.abs(lam)) < FIELD_BOUND) & (jnp.max(jnp.abs(error)) < ERROR_BOUND)
    keep = 1.0
    if isinstance(rule.weight_decay, jax.Array):
        keep = jnp.where(alive, 1 - rule.weight_decay * rule.learning_rate / (p * d), 1.0)
    W, a = net.W, net.a
    if rule.trains != "second":
        slope = jax.vmap(jax.vmap(rule.activation.derivative))(lam)
        C = rate * net.a * slope * error[:, None]
        alive = alive & jnp.all(jnp.isfinite(C))
        C = jnp.where(alive, C, 0.0)
        W = keep * W + (x.T * C if len(x) == 1 else x.T @ C)  # an outer product fuses with the sum
    if rule.trains != "first":
        a = keep * a + jnp.where(alive, rule.second_layer_rate * rate / d * (error @ value), 0.0)
    died = jnp.where(run.alive & ~alive, step, run.died)
    return Run(Network(W, a), alive, died)


@eqx.filter_jit
def ridge_second_layer(rule: Rule, penalty: jax.Array, samples: int, run: Run, keys: jax.Array) -> Run:
    r"""The second layer set to the ridge fit on fresh samples,

    .. math:: a = \mathrm{argmin}\; \langle (y - f)^2 \rangle_n + \frac{\mathrm{penalty}}{p} |a|^2
              = \Big(\frac{\Psi^T\Psi}{np} + \mathrm{penalty}\Big)^{-1} \frac{\Psi^T y}{n},
              \qquad \Psi_{\mu i} = \sigma(w_i \cdot x_\mu),

    through the eigenvalues of :math:`\Psi^T\Psi` or :math:`\Psi\Psi^T`, whichever is smaller. Replicas one by one.
    """

    def one(args):
        state, alive, key = args
        return jnp.where(alive, _ridge(rule, penalty, samples, state.W, key), state.a)

    a = jax.lax.map(one, (run.state, run.alive, keys))
    return Run(Network(run.state.W, a), run.alive, run.died)


def _ridge(rule: Rule, penalty: jax.Array, n: int, W: jax.Array, keys: jax.Array) -> jax.Array:
    d, p = W.shape
    P = rule.table.shape[0].bit_length() - 1
    size = min(CHUNK, n)
    chunks = -(-n // size)

    def features(c):
        x, point = signs(jax.random.fold_in(keys[0], c), size, d, P)
        used = (c * size + jnp.arange(size) < n).astype(float)
        y = rule.labels(point, jax.random.fold_in(keys[1], c))
        return rule.activation(x @ W) * used[:, None], y * used

    def inverse_times(G, b):
        values, vectors = jnp.linalg.eigh(G)
        return vectors @ ((vectors.T @ b) / (jnp.maximum(values, 0.0) + penalty))

    if p <= n:

        def add(c, sums):
            psi, y = features(c)
            return sums[0] + psi.T @ psi, sums[1] + psi.T @ y

        G, b = jax.lax.fori_loop(0, chunks, add, (jnp.zeros((p, p)), jnp.zeros(p)))
        return inverse_times(G / (n * p), b / n)
    psi, y = jax.lax.map(features, jnp.arange(chunks))
    psi, y = psi.reshape(-1, p), y.ravel()
    return psi.T @ inverse_times(psi @ psi.T / (n * p), y / n)
