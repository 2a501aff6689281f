"""One batch of trajectories from step 0 on: in a single causal pass, or by iteration of guessed kernels."""

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.macro.dmft.paths import (
    Block,
    Front,
    Sample,
    draw_normals,
    empty_block,
    first_front,
    move,
    observe,
)
from limitlab.macro.dmft.rows import Kernels, Model, Row, Scheme, close_row, first_kernels, roomier
from limitlab.modules import Module, filter_jit
from limitlab.verbs import Pace, tick

__all__ = ["Batch", "block_length", "bytes_needed", "continue_batch", "first_batch", "iterate_batch"]

BLOCKS = 8  # of the past, for the number of steps first asked for; more are added when a run goes on
LONG = 64  # steps of a block from which on kernels begin with a quarter of the room: room costs time
PIECE = 16  # steps of the first compiled call; of later ones as many as a part of a second takes


class Batch(Module):
    """Everything that a batch needs to go on: finished blocks, the current one, and kernels up to step ``t`` - 1."""

    sample: Sample
    past: tuple[Block, ...]
    now: Block
    front: Front
    kernels: Kernels
    t: int


def block_length(steps: int) -> int:
    """Steps in one block, for a run of rows 0, ..., steps: a multiple of 8, so that compiled shapes are shared."""
    return max(8, -(-(steps + 1) // (8 * BLOCKS)) * 8)


def _slots(steps: int, length: int) -> int:
    """Room for blocks: a power of two, so that going on rarely compiles anew."""
    slots = BLOCKS if length < LONG else BLOCKS // 4
    while slots * length < steps + 1:
        slots *= 2
    return slots


def bytes_needed(count: int, scheme: Scheme, steps: int, iterated: bool = False, units: int = 1) -> int:
    """Memory of one batch: 32 + 9 probes bytes per trajectory, unit and step, and seven kernels, twice."""
    length, probes = block_length(steps), scheme.probes
    slots = _slots(steps, length)
    each = 24 + 9 * probes + (8 if scheme.identity else 0) + (16 + 16 * probes if iterated else 0)
    return units * count * each * (steps + 3 * length) + 2 * 7 * 8 * (units * (slots * length + 1)) ** 2


def first_batch(model: Model, sample: Sample, M: np.ndarray, rest: np.ndarray, key: jax.Array, length: int) -> Batch:
    """Step 0, at overlaps M (m, k); the first fields of the sample have the Gram matrix ``rest`` (m, m)."""
    front = first_front(model.rule, sample, model.scheme, key)
    kernels = first_kernels(_slots(0, length) * length + 1, M, rest)
    units, count = sample.first.shape
    return Batch(sample, (), empty_block(units, count, model.scheme, length), front, kernels, 0)


def continue_batch(model: Model, batch: Batch, key: jax.Array, last: int) -> Batch:
    """Close all rows up to step ``last``: each needs earlier ones only, so one pass is exact."""
    length, count = len(batch.now.h) // model.units, batch.now.h.shape[1]
    empty = empty_block(model.units, count, model.scheme, length)
    past, now, front, k, t = batch.past, batch.now, batch.front, batch.kernels, batch.t
    pace = Pace(PIECE)
    while t <= last:
        tick((t / (last + 1)) ** 2)  # a step costs what lies behind it
        slots = max(_slots(t, length), len(k.M) // length)
        if len(k.M) < slots * length + 1:
            k = roomier(k, slots * length + 1)
        upto = min(last + 1, (t // length + 1) * length, pace.upto(t))
        slotted = past + (empty,) * (slots - 1 - len(past))
        now, front, k = _stage(model, batch.sample, slotted, now, front, k, key, np.asarray(t), np.asarray(upto))
        jax.block_until_ready(k.M)
        t = upto
        if t % length == 0:
            past, now = (*past, now), empty
    return Batch(batch.sample, past, now, front, k, t)


@filter_jit
def _stage(model: Model, sample: Sample, past, now: Block, front: Front, k: Kernels, key, first, last):
    def step(t, carry):
        now, front, k = carry
        now, row, tangent = observe(model, sample, past, now, front, key, k.M[t], t)
        k = close_row(model, k, t, row)
        return now, move(model, k, past, now, front, key, tangent, t), k

    return jax.lax.fori_loop(first, last, step, (now, front, k))


# --- by iteration ------------------------------------------------------------------------------------------


def iterate_batch(model: Model, batch: Batch, key: jax.Array, last: int, tolerance: float, iterations: int):
    """Follow all trajectories in guessed kernels, estimate the kernels anew, until m and C_z change no more.

    Random numbers are the same at each iteration, so that its fixed point is that of the causal pass. Returns the
    batch, the number of iterations and the last change.
    """
    m, k, length, count = model.units, len(model.P), len(batch.now.h) // model.units, batch.now.h.shape[1]
    slots, stages = _slots(last, length), last // length + 1
    start = batch.kernels
    if len(start.M) < slots * length + 1:
        start = roomier(start, slots * length + 1)
    size = slots * length + 1
    rows, pairs = jnp.zeros((size, m, size * m)), jnp.zeros((size, m, m))
    nothing = Row(M_C=rows, K=rows, fit=None, B=pairs, mu=jnp.zeros((size, m, k)), loss=jnp.zeros(size))
    guess, end = _close_all(model, start, nothing, jnp.asarray(last)), jnp.asarray(last)
    Z = jnp.concatenate([draw_normals(key, s * length, length, m, count) for s in range(stages)])
    change, done = float("inf"), 0
    while done < iterations and not change <= tolerance:
        rows = _sweep(model, batch, guess, Z, key, last, slots)
        new = _close_all(model, start, rows, end)
        change = float(jnp.maximum(jnp.max(jnp.abs(new.M - guess.M)), jnp.max(jnp.abs(new.Cz - guess.Cz))))
        guess, done = new, done + 1
        tick(done / iterations)
    return guess, done, change


def _sweep(model: Model, batch: Batch, k: Kernels, Z, key, last: int, slots: int) -> Row:
    """The rows of all steps, as trajectories in the kernels k have them."""
    sample, front, past, probes, means = batch.sample, batch.front, [], [], []
    m, length, count = model.units, len(batch.now.h) // model.units, batch.now.h.shape[1]
    empty = empty_block(m, count, model.scheme, length)
    for stage in range(last // length + 1):
        t = stage * length
        xi = k.noise[t * m : (t + length) * m, : len(Z)] @ Z
        slotted = (*past, *(empty,) * (slots - 1 - len(past)))
        block, front, probed, mean = _blind_stage(model, sample, slotted, empty, front, k, key, xi, np.asarray(t))
        past.append(block)
        probes.append(probed)
        means.append(mean)
    return _estimate(model, sample, past, probes, means, len(k.M))


@filter_jit
def _blind_stage(model: Model, sample: Sample, past, now: Block, front: Front, k: Kernels, key, xi, start):
    """One block of steps in given kernels. What `observe` says of the kernels is not asked for, hence not computed."""

    m, length = model.units, len(now.h) // model.units

    def step(i, carry):
        now, front, probes, means = carry
        now, row, tangent = observe(model, sample, past, now, front, key, k.M[start + i], start + i)
        noise = jax.lax.dynamic_slice_in_dim(xi, i * m, m, 0)
        front = move(model, k, past, now, front, key, tangent, start + i, noise)
        probes = jax.lax.dynamic_update_slice_in_dim(probes, tangent.probed, i * m, 0)
        mean = (jnp.sum(tangent.bend, axis=2), row.B, row.mu, row.loss)
        return now, front, probes, jax.tree.map(lambda all, one: all.at[i].set(one), means, mean)

    pairs = jnp.zeros((length, m, m))
    means = (pairs, pairs, jnp.zeros((length, m, len(model.P))), jnp.zeros(length))
    return jax.lax.fori_loop(0, length, step, (now, front, jnp.zeros_like(now.V), means))


@filter_jit
def _estimate(model: Model, sample: Sample, past, probes, means, size: int) -> Row:
    m = model.units
    g, signs = (jnp.concatenate([getattr(b, name) for b in past]) for name in ("g", "signs"))
    bend, B, mu, loss = (jnp.concatenate(x) for x in zip(*means, strict=True))
    count = len(loss)
    K = (jnp.concatenate(probes) @ signs.astype(float).T).reshape(count, m, count, m)
    steps = jnp.arange(count)
    K = jnp.where((steps[:, None] > steps)[:, None, :, None], K, 0.0).at[steps, :, steps].set(bend)
    M_C = (model.alpha * sample.weight * g) @ g.T
    M_C, K = (
        jnp.pad(x.reshape(count, m, count * m), [(0, size - count), (0, 0), (0, (size - count) * m)]) for x in (M_C, K)
    )
    B, mu, loss = (jnp.pad(x, [(0, size - count)] + [(0, 0)] * (x.ndim - 1)) for x in (B, mu, loss))
    return Row(M_C, K, None, B, mu, loss)


@filter_jit
def _close_all(model: Model, start: Kernels, rows: Row, last) -> Kernels:
    def step(t, k):
        return close_row(model, k, t, jax.tree.map(lambda x: x[t], rows))

    return jax.lax.fori_loop(0, last + 1, step, start)
