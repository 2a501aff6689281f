r"""Trajectories of one training sample in its effective noise, N at a time.

.. math::
    \tilde h^t = h^t + M_t P^{-1} h_0, \qquad g^t = \sigma^t g(y, \tilde h^t), \qquad
    h^{t+1} = A_t h^t - E_t \Big[g^t + \sum_{s \le t} K(t, s)\, h^s + \xi^t\Big] + \mathrm{noise}

h (m numbers) is the part of the sample's fields that is orthogonal to the teacher's, h_0 (k numbers). With J the
Jacobian of g, tangents of h to a kick inside the force are probed with random signs, one for each unit,
:math:`V^t = \sum_s (dh^t/dP^s)\,\epsilon^s`, so that :math:`K(t, s) = \alpha E[J^t V^t (\epsilon^s)^T]`, in this order.
z follows the recursion of h without g: a Gaussian path of covariance C_z, the same noise and no force.

The past is kept in blocks of steps: finished blocks are only read, so that products with the past cost what the past
is long, without copies.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.macro.dmft.rows import Fit, Kernels, Model, Row, Scheme
from limitlab.modules import Module, filter_jit
from limitlab.numerics.gauss.rules import sobol_points
from limitlab.numerics.linalg import gram_factor
from limitlab.numerics.random import normal
from limitlab.numerics.trees import as_array

__all__ = [
    "Block",
    "Front",
    "Sample",
    "Tangent",
    "draw_normals",
    "draw_sample",
    "empty_block",
    "first_front",
    "move",
    "observe",
]

WIDE = 2.0  # variance of the law that (h0, h^0) are drawn from: tails carry E g^2
DOUBT = 0.25  # the squared relative error that tangents may have where a force jumps
WILD = 10.0  # bound on probed tangents, usually below 1: a few explode near a saddle of the loss and would swamp K
FEW = 4  # rows that are multiplied with the past one by one: the product of thin matrices takes twice as long
SIGNS, NOISE, HEAT, MASK, LABEL = range(5)  # streams of random numbers


class Sample(Module):
    """What is drawn once: the teacher's fields (k, N), labels, weights (N,) that sum to 1, and first fields (m, N)."""

    h0: jax.Array
    y: jax.Array
    weight: jax.Array
    first: jax.Array


class Block(Module):
    """Fields h, forces g, tangents V, signs, normal variables, and z, of some steps; a row for each step and unit.

    V and signs have probes N columns, the others N; z has none unless rows of K are fitted.
    """

    h: jax.Array
    g: jax.Array
    V: jax.Array
    signs: jax.Array
    Z: jax.Array
    z: jax.Array


class Front(Module):
    """Fields, tangents and z (m rows each) and masks of the step that comes next."""

    h: jax.Array
    V: jax.Array
    mask: jax.Array
    z: jax.Array


def draw_sample(
    labels: Callable[[jax.Array, jax.Array], jax.Array],
    count: int,
    P: np.ndarray,
    rest: np.ndarray,
    key: jax.Array,
    seed: tuple[int, ...],
) -> Sample:
    """Scrambled Sobol points of a wide Gaussian with weights, whitened to the exact second moments.

    ``labels`` (key, h0 (N, k)) -> y; h0 has the Gram matrix P (k, k), the first fields ``rest`` (m, m).
    """
    from scipy.special import ndtri

    rng, k = np.random.default_rng(np.random.SeedSequence(seed)), len(P)
    x = np.sqrt(WIDE) * ndtri(sobol_points(k + len(rest), count, rng))
    weight = np.exp(-(1 - 1 / WIDE) * np.sum(x**2, axis=1) / 2)
    weight /= weight.sum()
    x -= weight @ x
    x = np.linalg.solve(np.linalg.cholesky((x.T * weight) @ x), x.T)
    h0, first = (gram_factor(np.asarray(C)) @ y for C, y in ((P, x[:k]), (rest, x[k:])))
    return jax.device_put(Sample(h0, _labels(labels, jax.random.fold_in(key, LABEL), h0.T), weight, first))


@filter_jit
def _labels(labels: Any, key: jax.Array, h0: jax.Array) -> jax.Array:
    return labels(key, h0)


@filter_jit
def first_front(rule: AbstractDescent, sample: Sample, scheme: Scheme, key: jax.Array) -> Front:
    m, count = sample.first.shape
    mask = rule.first_mask(_key(key, MASK, 0), count)
    z = sample.first if scheme.identity else jnp.zeros((m, 0))
    return Front(sample.first, jnp.zeros((m, scheme.probes * count)), mask, z)


def empty_block(units: int, count: int, scheme: Scheme, length: int) -> Block:
    rows = length * units
    line, many = np.zeros((rows, count)), np.zeros((rows, scheme.probes * count))
    signs, z = many.astype(np.int8), line if scheme.identity else np.zeros((rows, 0))
    return jax.device_put(
        Block(as_array(line), as_array(line), as_array(many), as_array(signs), as_array(line), as_array(z))
    )


class Tangent(NamedTuple):
    """The Jacobian J (m, m, N) that tangents see, and what is averaged to row t of K: all but signs of the past.

    ``bend`` is alpha times the weighted J (m, m, N), ``probed`` its product with V, (m, probes N).
    """

    J: jax.Array
    bend: jax.Array
    probed: jax.Array


def observe(model: Model, sample: Sample, past, now: Block, front: Front, key, M, t) -> tuple[Block, Row, Tangent]:
    """The current block with step t written, row t as the trajectories have it, and the tangents."""
    m, field = model.units, front.h + model.along(M) @ sample.h0
    g, J = _force(model, sample.y, field, front.mask)
    signs = jax.random.rademacher(_key(key, SIGNS, t), front.V.shape, jnp.int8)
    Z = normal(_key(key, NOISE, t), g.shape)
    at = t % (len(now.h) // m) * m
    rows = Block(front.h, g, front.V, signs, Z, front.z)
    now = jax.tree.map(lambda block, row: jax.lax.dynamic_update_slice_in_dim(block, row, at, 0), now, rows)
    share, bend = (model.alpha * sample.weight * x for x in (g, J))
    tangent = Tangent(J, bend, _times(bend, front.V) / model.scheme.probes)
    read = {name: [getattr(block, name) for block in (*past, now)] for name in ("g", "z", "signs")}
    mu = share @ sample.h0.T
    if model.scheme.mutation == "swapped":
        K = _swapped(read["signs"], bend, front.V, t)
    else:
        K = _products(read["signs"], tangent.probed, t)
    K = jax.lax.dynamic_update_slice_in_dim(K, jnp.sum(bend, axis=2), t * m, axis=1)
    row = Row(
        M_C=_products(read["g"], share, t),
        K=K,
        fit=_fit(model, sample, read["z"], g, mu, K, tangent, t) if model.scheme.identity else None,
        B=share @ front.h.T,
        mu=mu,
        loss=sample.weight @ model.force.value(sample.y, field),
    )
    return now, row, tangent


def move(model: Model, k: Kernels, past, now: Block, front: Front, key, tangent: Tangent, t, xi=None) -> Front:
    """Fields, tangents and masks of step t + 1, for closed kernels; ``xi`` if it is known already."""
    rule, m, blocks = model.rule, model.units, (*past, now)
    at, eps = t % (len(now.h) // m) * m, model.eps
    g, signs = (jax.lax.dynamic_slice_in_dim(x, at, m, 0) for x in (now.g, now.signs))
    K, noise = (jax.lax.dynamic_slice_in_dim(x, t * m, m, 0) for x in (k.K, k.noise))
    a = k.a[t][:, None]
    e = a * eps if rule.spherical else eps
    if xi is None:
        xi = _combination(noise, [block.Z for block in blocks], t)
    heat = 0.0
    if rule.heat is not None:
        heat = normal(_key(key, HEAT, t), front.h.shape)
        heat = e / eps * jnp.sqrt(2 * rule.heat * eps) * heat
    h = a * front.h - e * (g + _combination(K, [block.h for block in blocks], t) + xi) + heat
    z = front.z
    if model.scheme.identity:
        z = a * z - e * (_combination(K, [block.z for block in blocks], t) + xi) + heat
    kick = _times(tangent.J, front.V + signs)
    V = jnp.clip(a * front.V - e * (kick + _combination(K, [block.V for block in blocks], t)), -WILD, WILD)
    return Front(h, V, rule.batch_after(_key(key, MASK, t + 1), front.mask, m), z)


def _times(J: jax.Array, V: jax.Array) -> jax.Array:
    """J V, trajectory by trajectory: J (m, m, N), V (m, probes N)."""
    m, _, count = J.shape
    parts = [J[:, b, None] * V[b].reshape(-1, count) for b in range(m)]
    return functools.reduce(jnp.add, parts).reshape(m, -1)


def _swapped(signs: list[jax.Array], bend: jax.Array, V: jax.Array, t) -> jax.Array:
    """alpha E[D(t, s) J^t] instead of alpha E[J^t D(t, s)], by one probe: for tests."""
    m = len(V)
    parts = []
    for b in range(m):  # column b of the block: the sum over c of V_a (e^s)_c J_cb
        each = [_products(signs, V * bend[c, b], t).reshape(m, -1, m)[:, :, c] for c in range(m)]
        parts.append(sum(each))
    return jnp.stack(parts, axis=2).reshape(m, -1)


def _fit(model: Model, sample: Sample, z: list[jax.Array], g, mu, K, tangent: Tangent, t) -> Fit:
    """What is left of alpha g once K.z and the teacher's field are taken out, against z; and how noisy all this is.

    As in a regression, what K explains already is taken out sample by sample: only the rest makes noise.
    """
    m = model.units
    rest = sample.weight * (model.alpha * g - model.along(mu) @ sample.h0 - _combination(K, z, t))
    own = jax.lax.dynamic_slice_in_dim(K, t * m, m, axis=1)
    noise = [_mean(x, m**p) for x, p in ((rest, 1), (tangent.probed, 1), (_apart(tangent.bend, sample.weight, own), 2))]
    left = _products(z, rest, t)
    if model.force.smooth:
        return Fit(left, *noise)
    past = jnp.sum(jnp.square(jnp.where(jnp.arange(K.shape[1]) < t * m, K, 0.0))) / (m**2 * jnp.maximum(t, 1))
    return Fit(left, noise[0], noise[1] + DOUBT * past, noise[2] + DOUBT * jnp.sum(jnp.square(own)) / m**2)


def _apart(bend: jax.Array, weight: jax.Array, mean: jax.Array) -> jax.Array:
    return bend - weight * mean[:, :, None]


def _mean(x: jax.Array, count: int) -> jax.Array:
    return jnp.sum(jnp.square(x)) / count


def _force(model: Model, y, field, mask) -> tuple[jax.Array, jax.Array]:
    """g and J of the samples in the batch."""
    rule = model.rule
    factor = jnp.where(mask, rule.factor, 0.0) if rule.masked else rule.factor
    g, J = model.force(y, field)
    return factor * g, factor * J


def _key(key, stream: int, t):
    """The key of one stream at step t: the same whoever asks."""
    return jax.random.fold_in(jax.random.fold_in(key, stream), t)


def draw_normals(key, first: int, length: int, units: int, count: int) -> jax.Array:
    """The normal variables Z (length m, N) of ``length`` steps, as `observe` will draw them."""
    steps = jnp.arange(first, first + length)
    drawn = jax.vmap(lambda t: normal(_key(key, NOISE, t), (units, count)))(steps)
    return drawn.reshape(-1, count)


def _products(blocks: list[jax.Array], x: jax.Array, t) -> jax.Array:
    """x . block[s, b] (rows of x, (s, b)) for all s up to t, zero after; one step more than there are in blocks."""
    *past, now = blocks
    m, rows = len(x), len(now)
    length = rows // m

    def read(block: jax.Array) -> jax.Array:
        block = block.astype(x.dtype)
        return jnp.stack([block @ row for row in x]) if m <= FEW else x @ block.T

    old = [jax.lax.cond(i < t // length, read, lambda b: jnp.zeros((m, rows)), block) for i, block in enumerate(past)]
    out = jnp.concatenate([*old, jnp.zeros((m, rows + m))], axis=1)
    return jax.lax.dynamic_update_slice_in_dim(out, read(now), (t - t % length) * m, axis=1)


def _combination(x: jax.Array, blocks: list[jax.Array], t) -> jax.Array:
    """The sum over s <= t of x[:, (s, b)] block[s, b]; x is zero beyond."""
    *past, now = blocks
    m, rows = len(x), len(now)
    length = rows // m

    def added(part: jax.Array, block: jax.Array) -> jax.Array:
        return (part[0] @ block)[None] if m == 1 else part @ block

    out = added(jax.lax.dynamic_slice_in_dim(x, (t - t % length) * m, rows, axis=1), now)
    for i, block in enumerate(past):
        part = x[:, i * rows : (i + 1) * rows]
        out = jax.lax.cond(i < t // length, lambda b, p, o: o + added(p, b), lambda b, p, o: o, block, part, out)
    return out
