"""Message passing at finite size, run on data drawn from the problem itself."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.data import DRAW, RUN, draw_set, replica_key, sample_count
from limitlab.algorithms.gamp.iteration import Iterated, Model, begin, gather, iterate
from limitlab.algorithms.gamp.starts import check_start, start_from
from limitlab.algorithms.settings.fixed_data import GLM
from limitlab.modules import filter_jit
from limitlab.numerics.machine import Memory
from limitlab.numerics.shapes import places
from limitlab.numerics.trees import as_array, traced
from limitlab.states.request import Request, Seen

if TYPE_CHECKING:
    from limitlab.algorithms.gamp.gamp import GAMP

__all__ = ["gamp_memory", "label_errors", "run_gamp"]

BATCH = 4  # replicas per compiled call, and per report of progress
BLOCK = 64  # points of a trajectory in one compiled call, whatever its length
SANE = 4.0  # times rho (or what the start had): q + V of a posterior is rho, up to fluctuations
WORKSPACE = 3  # copies of X that are alive at the peak: the matrix, and the random bits it is drawn from


def gamp_memory(setting: GLM, rule: "GAMP", asked: Request) -> Memory:
    """What `run_gamp` holds: one matrix and its workspace, and the trajectories of all replicas."""
    d, entry = asked.d, jnp.dtype(rule.precision).itemsize
    n = sample_count("simulate", setting.ratio, d)
    matrix = (WORKSPACE + (rule.variances == "vector")) * n * d * entry
    return Memory(
        matrix + 8 * 30 * asked.replicas * (places(rule.iterations) + 1) + 8 * 20 * (n + d),
        f"It holds the {n} x {d} matrix of inputs and its workspace, and {rule.iterations} iterations of "
        f"{asked.replicas} replicas. Use a smaller d or sample_ratio, fewer iterations or replicas, "
        'variances="scalar", or precision="float32".',
    )


def run_gamp(setting: GLM, rule: "GAMP", asked: Request) -> Seen:
    r"""Run `GAMP` on ``replicas`` data sets of the problem, each with its own teacher, inputs and labels.

    Entry t of dimension ``iteration`` is the state after t iterations, 0 the start, as in state evolution:

    - ``m`` = a . w*/d, ``q`` = a . a/d, ``V`` = mean posterior variance, ``mse`` = |a - w*|^2/d;
    - ``generalisation_error`` on a new sample, averaged exactly over samples for the (m, q, V) reached: the
      probability of a wrong label if labels are binary, predicted by the sign of the mean label, else the mean
      squared error of the mean label; label noise counts as error;
    - ``status`` of each replica, "ok" or "diverged" (numbers up to its last sound state, NaN after; ``end_time`` is
      the last iteration with numbers). A run has diverged if its numbers are no longer finite, or if it ends with
      q + V more than 4 times rho (or than at its start, if that was larger): the mean and variance of a posterior
      have q + V = rho. A burst from which the iteration comes back is no divergence. The trajectory is the result, so
      a run that has not converged within the asked iterations is "ok"; the attributes ``change`` (the last relative
      change of a, one per replica) and ``converged`` (1 if that is within the tolerance, or the weights are
      recovered) say how far it got.

    A channel that does not see the sign of z leaves the sign of a free: it is chosen once for each replica such
    that m is positive at the iteration where a is closest to the teacher up to a sign (largest |m|/sqrt(q)), and
    applies to the whole trajectory.
    """
    by, d = "simulate with GAMP", asked.d
    n = sample_count(by, setting.ratio, d)
    model = Model(setting.prior, setting.channel)
    check_start(by, model, setting.start, teacher=True)

    nature, start = (setting.inputs, *traced((setting.teacher, setting.channel))), traced(setting.start)
    damping, count = as_array(float(rule.damping)), as_array(rule.iterations, int)
    sizes = (n, d, places(rule.iterations), rule.variances, rule.precision)
    paths, ends = [], []
    # In batches of one compiled call each; a batch holds one matrix at a time, and the last one is filled up.
    size = min(asked.replicas, BATCH)
    for first in range(0, asked.replicas, size):
        which = as_array(asked.seed), asked.first + first + np.arange(size)
        batch = jax.device_get(_trajectories(nature, start, *which, damping, count, sizes))
        for k in range(min(size, asked.replicas - first)):
            path, end = jax.tree.map(lambda x: x[k], batch)  # noqa: B023
            paths.append(path)
            ends.append(end)
        if asked.progress is not None:
            asked.progress(len(paths), asked.replicas, f"GAMP, d = {d}, n = {n}")

    path = np.stack(paths, axis=1)[: rule.iterations + 1]
    m, q, V, rho, mse, mirrored = np.moveaxis(path, -1, 0)  # (iteration, replica) each
    reached = [int(end.steps) if end.diverged else rule.iterations for end in ends]
    last = _last_sound(q + V, np.maximum(rho, float(model.prior.second_moment)), reached)
    gone = np.arange(len(m))[:, None] > last
    m, q, V, mse, mirrored = (np.where(gone, np.nan, x) for x in (m, q, V, mse, mirrored))
    diverged = last < rule.iterations
    if model.channel.even:
        flip = _mirrored(m, q)
        m, mse = np.where(flip, (-m, mirrored), (m, mse))
    change = np.array([float(end.change) for end in ends])
    run = ("iteration", "replica")
    seen: dict[str, tuple[Any, Any]] = {"m": (run, m), "q": (run, q), "V": (run, V), "mse": (run, mse)}
    if setting.inputs.normal or setting.inputs.signs:  # fields of other inputs need not be normal
        seen["generalisation_error"] = (run, label_errors(setting.channel, m, q, V, rho))
    seen |= {
        "status": ("replica", np.where(diverged, "diverged", "ok")),
        "end_time": ("replica", last.astype(float)),
    }
    ended = [end.converged(float(rule.tolerance)) and not bad for end, bad in zip(ends, diverged, strict=True)]
    return Seen(
        seen,
        {"iteration": np.arange(rule.iterations + 1)},
        "simulate (GAMP)",
        "rangan2011generalized",
        {
            "d": int(d),
            "n": int(n),
            "seed": int(asked.seed),
            "change": change,
            "converged": [int(x) for x in ended],
            "bytes_needed": gamp_memory(setting, rule, asked).bytes,
        },
    )


def _last_sound(size: np.ndarray, rho: np.ndarray, reached: list[int]) -> np.ndarray:
    """The last iteration to keep of each replica, from size = q + V (iteration, replica) and the last with numbers."""
    sound = size <= SANE * np.maximum(rho[0], size[0])
    last = [end if sound[end, r] else np.max(np.nonzero(sound[:end, r])[0]) for r, end in enumerate(reached)]
    return np.array(last)


def _mirrored(m: np.ndarray, q: np.ndarray) -> np.ndarray:
    """For each replica: is m negative where |m|/sqrt(q) is largest?"""
    cosine = np.abs(m) / np.sqrt(np.maximum(q, 1e-300))
    best = np.argmax(np.where(np.isfinite(cosine), cosine, -1.0), axis=0)
    return m[best, np.arange(m.shape[1])] < 0


@filter_jit
def _trajectories(nature, start, seed, replicas, damping, count, sizes) -> tuple[jax.Array, Iterated]:
    """`_trajectory` of each replica, one after the other: a matrix is drawn, used and dropped."""
    return jax.lax.map(lambda r: _trajectory(nature, start, replica_key(seed, r), damping, count, sizes), replicas)


def _trajectory(nature, start, key: jax.Array, damping, count, sizes) -> tuple[jax.Array, Iterated]:
    """(m, q, V, rho, |a - w*|^2/d, |a + w*|^2/d) at the start and after each iteration, and how the replica ended."""
    n, d, room, variances, precision = sizes
    (inputs, teacher, channel), model = nature, Model(nature[1].prior, nature[2])
    w, X, y = draw_set(inputs, teacher, channel, jax.random.fold_in(key, DRAW), n, d, jnp.dtype(precision))
    data = gather(X, y, variances, scale=1.0)
    run = begin(*start_from(model, data, start, jax.random.fold_in(key, RUN), w), n)

    def look(state):
        errors = [jnp.sum(jnp.square(state.a - sign * w)) for sign in (1, -1)]
        return jnp.stack([state.a @ w, state.a @ state.a, jnp.sum(state.v), w @ w, *errors]) / d

    end, path = iterate(model, data, run, damping, count, room, look)
    return path, end


def label_errors(channel, m: np.ndarray, q: np.ndarray, V: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """`prediction_error` of the channel on arrays of one shape; NaN gives NaN."""
    points = np.stack([np.ravel(x) for x in np.broadcast_arrays(rho, m, q, V)], axis=1)
    errors = np.full(len(points), np.nan)
    known, live = np.flatnonzero(np.all(np.isfinite(points), axis=1)), traced(channel)
    for block in np.array_split(known, range(BLOCK, len(known), BLOCK)):
        padded = np.zeros((BLOCK, 4))
        padded[: len(block)] = points[block]
        errors[block] = np.asarray(_label_errors(live, as_array(padded), as_array(len(block))))[: len(block)]
    return errors.reshape(np.shape(m))


@filter_jit
def _label_errors(channel, points: jax.Array, count: jax.Array) -> jax.Array:
    """The first ``count`` of a block: one program for any number of points, and no work for those that are not."""

    def one(i, errors):
        return errors.at[i].set(channel.prediction_error(*points[i]))

    return jax.lax.fori_loop(0, count, one, jnp.zeros(len(points)))
