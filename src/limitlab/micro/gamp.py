"""Message passing at finite size, run on data drawn from the problem itself."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.gamp.gamp import GAMP
from limitlab.algorithms.gamp.iteration import Model, Run, begin, gather, march
from limitlab.algorithms.gamp.starts import check_start, start_from
from limitlab.micro.glm_data import DRAW_KEY, check_glm, draw_glm, replica_key
from limitlab.numerics.machine import Progress, check_memory
from limitlab.numerics.trees import traced
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["label_errors", "run_gamp"]

START_KEY = 1
BATCH = 4  # replicas per compiled call, and per report of progress
BLOCK = 64  # points of a trajectory in one compiled call, whatever its length
SANE = 4.0  # times rho (or what the start had): q + V of a posterior is rho, up to fluctuations
WORKSPACE = 3  # copies of X that are alive at the peak: the matrix, and the random bits it is drawn from


def run_gamp(problem: Problem, d: int, replicas: int, seed: int, progress: Progress | None) -> "xr.Dataset":
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
    (algorithm,) = problem.need("algorithm", by="simulate")
    assert isinstance(algorithm, GAMP)
    n = check_glm("simulate with GAMP", problem, d)
    model = Model(problem.teacher.prior, problem.channel)  # type: ignore[attr-defined]
    check_start("simulate with GAMP", model, problem.start, teacher=True)
    needed = _bytes_needed(n, d, algorithm)
    check_memory(
        needed,
        f"It holds the {n} x {d} matrix of inputs and its workspace. Use a smaller d or sample_ratio, "
        'variances="scalar", or precision="float32".',
    )

    live, start = traced(model), traced(problem.start)
    paths, ends = [], []
    # In batches of one compiled call each; a batch holds one matrix at a time, and the last one is filled up.
    size = min(replicas, BATCH)
    for first in range(0, replicas, size):
        keys = jnp.stack([replica_key(seed, r) for r in range(first, first + size)])
        batch = _trajectories(
            problem.inputs,
            live,
            start,
            keys,
            jnp.asarray(float(algorithm.damping)),
            (n, d, algorithm.iterations, algorithm.variances, algorithm.precision),
        )
        for k in range(min(size, replicas - first)):
            path, end = jax.tree.map(lambda x: x[k], batch)  # noqa: B023
            paths.append(np.asarray(path))
            ends.append(end)
        if progress is not None:
            progress(len(paths), replicas, f"GAMP, d = {d}, n = {n}")

    m, q, V, rho, mse, mirrored = np.moveaxis(np.stack(paths, axis=1), -1, 0)  # (iteration, replica) each
    reached = [int(end.steps) if end.diverged else algorithm.iterations for end in ends]
    last = _last_sound(q + V, np.maximum(rho, float(model.prior.second_moment)), reached)
    gone = np.arange(len(m))[:, None] > last
    m, q, V, mse, mirrored = (np.where(gone, np.nan, x) for x in (m, q, V, mse, mirrored))
    diverged = last < algorithm.iterations
    if model.channel.even:
        flip = _mirrored(m, q)
        m, mse = np.where(flip, (-m, mirrored), (m, mse))
    change = np.array([float(end.change) for end in ends])
    run = ("iteration", "replica")
    errors = label_errors(problem.channel, m, q, V, rho)
    return dataset(
        problem,
        {
            "m": (run, m),
            "q": (run, q),
            "V": (run, V),
            "mse": (run, mse),
            "generalisation_error": (run, errors),
            "status": ("replica", np.where(diverged, "diverged", "ok")),
            "end_time": ("replica", last.astype(float)),
        },
        {"iteration": np.arange(algorithm.iterations + 1)},
        method="simulate (GAMP)",
        reference="rangan2011generalized",
        attrs={
            "d": int(d),
            "n": int(n),
            "seed": int(seed),
            "change": change,
            "converged": [
                int(end.converged(float(algorithm.tolerance)) and not bad)
                for end, bad in zip(ends, diverged, strict=True)
            ],
            "bytes_needed": int(needed),
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


@eqx.filter_jit
def _trajectories(inputs, model: Model, start, keys: jax.Array, damping: jax.Array, sizes) -> tuple[jax.Array, Run]:
    """`_trajectory` of each key, one after the other: a matrix is drawn, used and dropped."""
    return jax.lax.map(lambda key: _trajectory(inputs, model, start, key, damping, sizes), keys)


def _trajectory(inputs, model: Model, start, key: jax.Array, damping: jax.Array, sizes) -> tuple[jax.Array, Run]:
    """(m, q, V, rho, |a - w*|^2/d, |a + w*|^2/d) at the start and after each iteration, and how the replica ended."""
    n, d, iterations, variances, precision = sizes
    draw = draw_glm(inputs, model.prior, model.channel, jax.random.fold_in(key, DRAW_KEY), n, d, jnp.dtype(precision))
    data = gather(draw.X, draw.y, variances, scale=1.0)
    w = draw.teacher
    run = begin(*start_from(model, data, start, jax.random.fold_in(key, START_KEY), w), n)

    def look(state):
        errors = [jnp.sum(jnp.square(state.a - sign * w)) for sign in (1, -1)]
        return jnp.stack([state.a @ w, state.a @ state.a, jnp.sum(state.v), w @ w, *errors]) / d

    end, path = march(model, data, run, damping, iterations, look)
    return path, end


def label_errors(channel, m: np.ndarray, q: np.ndarray, V: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """`prediction_error` of the channel on arrays of one shape; NaN gives NaN."""
    live, points = traced(channel), np.stack([np.ravel(x) for x in np.broadcast_arrays(rho, m, q, V)], axis=1)
    padded = np.concatenate([points, np.full((-len(points) % BLOCK, 4), np.nan)])
    blocks = [_label_errors(live, jnp.asarray(block)) for block in padded.reshape(-1, BLOCK, 4)]
    return np.concatenate(blocks)[: len(points)].reshape(np.shape(m))


@eqx.filter_jit
def _label_errors(channel, points):
    def one(point):
        error = channel.prediction_error(*jnp.where(jnp.isnan(point), 0.5, point))
        return jnp.where(jnp.any(jnp.isnan(point)), jnp.nan, error)

    return jax.lax.map(one, points)


def _bytes_needed(n: int, d: int, algorithm: GAMP) -> int:
    entry = jnp.dtype(algorithm.precision).itemsize
    return (WORKSPACE + (algorithm.variances == "vector")) * n * d * entry
