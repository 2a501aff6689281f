r"""Trajectories of one training sample in its effective noise, N at a time.

.. math::
    \tilde h^t = h^t + \frac{m_t}{\rho} h_0, \qquad g^t = \sigma^t \ell'(y, \tilde h^t), \qquad
    h^{t+1} = a_t h^t - e_t \Big[g^t + \sum_{s \le t} K(t, s)\, h^s + \xi^t\Big] + \mathrm{noise}

h is the part of the sample's field that is orthogonal to the teacher's, h_0. Tangents of h to a kick inside the force
are probed with random signs, :math:`V^t = \sum_s (dh^t/dP^s)\,\epsilon^s`, so that K(t, s) = alpha E[g'^t V^t eps^s].
z follows the recursion of h without g: a Gaussian path of covariance C_z, the same noise and no force.

The past is kept in blocks of steps: finished blocks are only read, so that products with the past cost what the past
is long, without copies.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.macro.dmft.rows import Fit, Kernels, Model, Row, Scheme
from limitlab.numerics.gauss.rules import sobol_points
from limitlab.numerics.trees import as_array, traced

__all__ = ["Block", "Front", "Sample", "draw_normals", "draw_sample", "empty_block", "first_front", "move", "observe"]

WIDE = 2.0  # variance of the law that (h0, h^0) are drawn from: tails carry E g^2
KINK = 0.1  # half width of the difference that stands in for the slope of a force that jumps
DOUBT = 0.25  # the squared relative error that tangents may have through it
WILD = 10.0  # bound on probed tangents, usually below 1: a few explode near a saddle of the loss and would swamp K
SIGNS, NOISE, HEAT, MASK, LABEL = range(5)  # streams of random numbers


class Sample(eqx.Module):
    """What is drawn once: the teacher's fields, labels, weights (all (N,), weights sum to 1), and the first fields."""

    h0: jax.Array
    y: jax.Array
    weight: jax.Array
    first: jax.Array


class Block(eqx.Module):
    """Fields h, forces g, tangents V, signs, normal variables, and z, of some steps; V, signs (step, probes N).

    z is empty unless rows of K are fitted.
    """

    h: jax.Array
    g: jax.Array
    V: jax.Array
    signs: jax.Array
    Z: jax.Array
    z: jax.Array


class Front(eqx.Module):
    """Fields, tangents, masks and z of the step that comes next."""

    h: jax.Array
    V: jax.Array
    mask: jax.Array
    z: jax.Array


def draw_sample(channel: Any, count: int, rho: float, spread: float, key: jax.Array, seed: tuple[int, ...]) -> Sample:
    """Scrambled Sobol points of a wide Gaussian with weights, whitened to the exact second moments."""
    from scipy.special import ndtri

    rng = np.random.default_rng(np.random.SeedSequence(seed))
    x = np.sqrt(WIDE) * ndtri(sobol_points(2, count, rng))
    weight = np.exp(-(1 - 1 / WIDE) * np.sum(x**2, axis=1) / 2)
    weight /= weight.sum()
    x -= weight @ x
    x = np.linalg.solve(np.linalg.cholesky((x.T * weight) @ x), x.T)
    h0 = np.sqrt(rho) * x[0]
    return jax.device_put(Sample(h0, _labels(traced(channel), key, h0), weight, np.sqrt(spread) * x[1]))


@eqx.filter_jit
def _labels(channel: Any, key: jax.Array, h0: jax.Array) -> jax.Array:
    return channel.sample(jax.random.fold_in(key, LABEL), h0)


@eqx.filter_jit
def first_front(rule: AbstractDescent, sample: Sample, scheme: Scheme, key: jax.Array) -> Front:
    mask = rule.first_mask(_key(key, MASK, 0), len(sample.h0))
    z = sample.first if scheme.identity else jnp.zeros(0)
    return Front(sample.first, jnp.zeros(scheme.probes * len(sample.h0)), mask, z)


def empty_block(count: int, scheme: Scheme, length: int) -> Block:
    line, many = np.zeros((length, count)), np.zeros((length, scheme.probes * count))
    signs, z = many.astype(np.int8), line if scheme.identity else np.zeros((length, 0))
    return jax.device_put(
        Block(as_array(line), as_array(line), as_array(many), as_array(signs), as_array(line), as_array(z))
    )


def observe(model: Model, sample: Sample, past, now: Block, front: Front, key, m, t) -> tuple[Block, Row, jax.Array]:
    """The current block with step t written, row t as the trajectories have it, and the slopes g'."""
    field = front.h + m / model.rho * sample.h0
    g, slope = _force(model, sample.y, field, front.mask)
    signs = jax.random.rademacher(_key(key, SIGNS, t), now.signs.shape[1:], jnp.int8)
    Z = jax.random.normal(_key(key, NOISE, t), g.shape)
    at = t % len(now.h)
    rows = Block(front.h, g, front.V, signs, Z, front.z)
    now = jax.tree.map(lambda block, row: block.at[at].set(row), now, rows)
    share, bend = (model.alpha * sample.weight * x for x in (g, slope))
    probes = len(front.V) // len(g)
    probed = (bend * front.V.reshape(probes, -1)).ravel() / probes
    read = {name: [getattr(block, name) for block in (*past, now)] for name in ("g", "z", "signs")}
    mu = share @ sample.h0
    K = _products(read["signs"], probed, t).at[t].set(jnp.sum(bend))
    row = Row(
        M_C=_products(read["g"], share, t),
        K=K,
        fit=_fit(model, sample, read["z"], g, mu, K, bend, probed, t) if model.scheme.identity else None,
        B=share @ front.h,
        mu=mu,
        loss=sample.weight @ model.loss.value(sample.y, field),
    )
    return now, row, slope


def move(model: Model, k: Kernels, past, now: Block, front: Front, key, slope, t, xi=None) -> Front:
    """Fields, tangents and masks of step t + 1, for closed kernels; ``xi`` if it is known already."""
    rule, at = model.rule, t % len(now.h)
    a, K, blocks = k.a[t], k.K[t], (*past, now)
    e = a * rule.learning_rate if rule.spherical else rule.learning_rate
    if xi is None:
        xi = _combination(k.noise[t], [block.Z for block in blocks], t)
    heat = 0.0
    if rule.heat is not None:
        heat = jax.random.normal(_key(key, HEAT, t), front.h.shape)
        heat = e / rule.learning_rate * jnp.sqrt(2 * rule.heat * rule.learning_rate) * heat
    h = a * front.h - e * (now.g[at] + _combination(K, [block.h for block in blocks], t) + xi) + heat
    z = front.z
    if model.scheme.identity:
        z = a * z - e * (_combination(K, [block.z for block in blocks], t) + xi) + heat
    kick = jnp.tile(slope, model.scheme.probes) * (front.V + now.signs[at])
    V = jnp.clip(a * front.V - e * (kick + _combination(K, [block.V for block in blocks], t)), -WILD, WILD)
    return Front(h, V, rule.next_mask(_key(key, MASK, t + 1), front.mask), z)


def _fit(model: Model, sample: Sample, z: list[jax.Array], g, mu, K, bend, probed, t) -> Fit:
    """What is left of alpha g once K.z and the teacher's field are taken out, against z; and how noisy all this is.

    As in a regression, what K explains already is taken out sample by sample: only the rest makes noise.
    """
    rest = sample.weight * (model.alpha * g - mu / model.rho * sample.h0 - _combination(K, z, t))
    left, noise = _products(z, rest, t), [jnp.sum(jnp.square(x)) for x in (rest, probed, bend - sample.weight * K[t])]
    if model.loss.smooth:
        return Fit(left, *noise)
    past = jnp.sum(jnp.square(jnp.where(jnp.arange(len(K)) < t, K, 0.0))) / jnp.maximum(t, 1)
    return Fit(left, noise[0], noise[1] + DOUBT * past, noise[2] + DOUBT * jnp.square(K[t]))


def _force(model: Model, y, field, mask) -> tuple[jax.Array, jax.Array]:
    """g and the slope g' that tangents see; where g jumps, that of a difference across the jump."""
    rule, loss = model.rule, model.loss
    factor = jnp.where(mask, rule.factor, 0.0) if rule.masked else rule.factor
    first, slope = loss.gradient(y, field)
    if not loss.smooth:
        slope = (loss.gradient(y, field + KINK)[0] - loss.gradient(y, field - KINK)[0]) / (2 * KINK)
    return factor * first, factor * slope


def _key(key, stream: int, t):
    """The key of one stream at step t: the same whoever asks."""
    return jax.random.fold_in(jax.random.fold_in(key, stream), t)


def draw_normals(key, first: int, length: int, count: int) -> jax.Array:
    """The normal variables Z of ``length`` steps, as `observe` will draw them."""
    steps = jnp.arange(first, first + length)
    return jax.vmap(lambda t: jax.random.normal(_key(key, NOISE, t), (count,)))(steps)


def _products(blocks: list[jax.Array], x: jax.Array, t) -> jax.Array:
    """block[s] . x for all s up to t, zero after; one entry more than there are steps."""
    *past, now = blocks
    length = len(now)
    old = [
        jax.lax.cond(i < t // length, lambda b: b.astype(x.dtype) @ x, lambda b: jnp.zeros(length), block)
        for i, block in enumerate(past)
    ]
    out = jnp.concatenate([*old, jnp.zeros(length + 1)])
    return jax.lax.dynamic_update_slice_in_dim(out, now.astype(x.dtype) @ x, t - t % length, 0)


def _combination(x: jax.Array, blocks: list[jax.Array], t) -> jax.Array:
    """The sum over s <= t of x[s] block[s]; x is zero beyond."""
    *past, now = blocks
    length = len(now)
    out = jax.lax.dynamic_slice_in_dim(x, t - t % length, length) @ now
    for i, block in enumerate(past):
        part = x[i * length : (i + 1) * length]
        out = jax.lax.cond(i < t // length, lambda b, p, o: o + p @ b, lambda b, p, o: o, block, part, out)
    return out
