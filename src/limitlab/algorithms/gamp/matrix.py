r"""Message passing for teachers with several directions: estimates a (d, K), one covariance V (K, K) for all samples.

.. math::
    \omega_\mu = a^T x_\mu - V g_\mu^{\rm old}, \quad g_\mu = \nabla_\omega \log Z(y_\mu, \omega_\mu, V), \quad
    A = \alpha \langle g g^T \rangle, \quad B = a A + X^T g, \quad (a, V) \leftarrow f(A, B)

with a = B V, V = (I + A)^{-1} for Gaussian weights, and sums over the 2^K states for weights +-1. Z is exact for labels
made of one or two signs, and else a sum over nodes.
"""

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.data import DRAW, RUN, draw_set, replica_key, sample_count
from limitlab.algorithms.gamp.iteration import visited
from limitlab.algorithms.gamp.output import HELD, MatrixOutput, output_of
from limitlab.algorithms.gamp.predictions import prediction_errors
from limitlab.algorithms.settings.multi_index import MultiGLM
from limitlab.errors import InputError
from limitlab.modules import filter_jit
from limitlab.numerics.machine import Memory
from limitlab.numerics.shapes import places
from limitlab.numerics.trees import traced
from limitlab.problems.links.base import AbstractLink
from limitlab.problems.links.labels import real_valued
from limitlab.problems.starts import RandomStart
from limitlab.states.request import Request, Seen

if TYPE_CHECKING:
    from limitlab.algorithms.gamp.gamp import GAMP

__all__ = ["matrix_memory", "run_matrix", "symmetries"]

SMALL = 0.01  # of a random start; columns that are equal would stay so
BATCH = 4  # replicas per compiled call
RECOVERED, FORGOTTEN = 1e-3, 0.05  # of V: a run that goes from one to the other has recovered the weights
RUNAWAY = 1e3  # of |a|^2/d
MOST = 10  # directions at most of weights +-1, whose 2^K states are summed
SEARCHED = 4  # directions at most whose signed permutations are all tried
BROKEN = 5.0  # times d^-1/2: by less, one arrangement of the estimates is no better than another


class MatrixState(NamedTuple):
    """Estimates a (d, K), their covariance V (K, K), the last output g (n, K), and whether the run is sound."""

    a: jax.Array
    V: jax.Array
    g: jax.Array
    sound: jax.Array


def step(output: MatrixOutput, gaussian: bool, X: jax.Array, y: jax.Array, now: MatrixState, damping) -> MatrixState:
    """One iteration; a run that is not finite any more, or too large, keeps its last sound state.

    So does one that has recovered the weights, once no label is left that tells anything: it would forget them.
    """
    d = X.shape[1]
    w = (X @ now.a.astype(X.dtype)).astype(float) - now.g @ now.V
    g = output.g(y, w, now.V)
    A = g.T @ g / d
    B = now.a @ A + (g.T.astype(X.dtype) @ X).astype(float).T
    a, V = _gaussian(A, B) if gaussian else _signs(A, B)
    a, V = ((1 - damping) * new + damping * old for new, old in ((a, now.a), (V, now.V)))
    sound = now.sound & jnp.all(jnp.isfinite(a)) & (jnp.max(jnp.sum(a**2, axis=0)) < RUNAWAY * d)
    size = [jnp.max(jnp.diagonal(one)) for one in (now.V, V)]
    known = (size[0] < RECOVERED) & (size[1] > FORGOTTEN)
    kept = [jnp.where(sound & ~known, new, old) for new, old in ((a, now.a), (V, now.V), (g, now.g))]
    return MatrixState(*kept, sound)


def _gaussian(A, B):
    V = jnp.linalg.inv(jnp.eye(len(A)) + A)
    V = (V + V.T) / 2
    return B @ V, V


def _signs(A, B):
    states = jnp.asarray(np.array(list(itertools.product([1.0, -1.0], repeat=len(A)))))
    weight = jax.nn.softmax(B @ states.T - jnp.einsum("si,ij,sj->s", states, A, states) / 2, axis=1)
    a = weight @ states
    second = jnp.einsum("ds,si,sj->ij", weight, states, states) / len(B)
    return a, second - a.T @ a / len(B)


@filter_jit
def _trajectories(nature, output, start, keys, damping, count, sizes):
    """Of each key, one after the other: M, Q and the soundness at the start and after each iteration."""
    return jax.lax.map(lambda key: _trajectory(nature, output, start, key, damping, count, sizes), keys)


def _trajectory(nature, output, start, key, damping, count, sizes):
    n, d, room, precision, gaussian = sizes
    inputs, teacher, channel = nature
    rows, X, y = draw_set(inputs, teacher, channel, jax.random.fold_in(key, DRAW), n, d, jnp.dtype(precision))
    a, V = start.matrix_estimate(jax.random.fold_in(key, RUN), rows)
    first = MatrixState(a, V, jnp.zeros((n, a.shape[1])), jnp.asarray(True))
    y = y.astype(float)

    def look(state):
        return state.a.T @ rows.T / d, state.a.T @ state.a / d, state.V, state.sound

    _, path = visited(lambda state: step(output, gaussian, X, y, state, damping), look, first, count, room)
    return path, rows @ rows.T / d


def matrix_memory(setting: MultiGLM, rule: "GAMP", asked: Request) -> Memory:
    """What `run_matrix` holds: one matrix of inputs and its workspace, and the nodes of a block of samples."""
    d, K = asked.d, setting.teacher.width
    n = sample_count("simulate", setting.ratio, d)
    entry = jnp.dtype(rule.precision).itemsize
    needed = 3 * n * d * entry + 8 * 12 * K * (n + d) + 32 * HELD * (2 * K + 12)
    return Memory(
        needed + 8 * 3 * K * K * asked.replicas * places(rule.iterations),
        f"It holds the {n} x {d} matrix of inputs and its workspace. Use a smaller d or sample_ratio, or "
        'precision="float32".',
    )


def run_matrix(setting: MultiGLM, rule: "GAMP", asked: Request) -> Seen:
    r"""Run `GAMP` on data sets of a `MultiIndex` teacher.

    ``M`` (iteration, replica, teacher, teacher_2) is the overlap a_k . w*_r/d of estimate k with direction r. What the
    labels cannot tell is chosen once for each replica such that the trace of M at its end is largest: a signed
    permutation that leaves the link as it is, a rotation for ``"squares"``. From an `InformedStart`, or where no choice
    is better than another by more than finite size makes it (5/sqrt(d)), nothing is changed. ``M_singular_values``
    do not depend on it; those of directions that are not learned are of order d^-1/2. ``generalisation_error`` is that
    of the label predicted for a new sample, averaged over samples for the overlaps reached (see `prediction_errors`).
    """
    by, d, K, teacher = "simulate with GAMP", asked.d, setting.teacher.width, setting.teacher
    n = sample_count(by, setting.ratio, d)
    if setting.variance == 0 and real_valued(setting.link, K):
        raise InputError(
            f"{by} needs labels with noise, or a few values; got link={setting.link!r}, whose noiseless value is a "
            "real number. Use channel=GaussianNoise(variance) with a variance > 0."
        )
    if rule.variances == "vector":
        raise InputError(f'{by} on several directions has one V for all samples; got variances="vector". Use "scalar".')
    if not setting.gaussian and K > MOST:
        raise InputError(
            f"{by} sums over the 2^K states of weights +-1, K <= {MOST}; got width={K}. Use GaussianPrior()."
        )
    start = RandomStart(SMALL) if setting.start is None else setting.start
    informed = bool(np.any(start.matrix_overlap(K)))
    output = output_of(setting.link, K, setting.variance)
    problem = setting.problem
    nature = (problem.inputs, *traced((teacher, problem.channel)))
    numbers = jnp.asarray(float(rule.damping)), jnp.asarray(rule.iterations)
    sizes = (n, d, places(rule.iterations), rule.precision, setting.gaussian)
    paths, grams = [], []
    size = min(asked.replicas, BATCH)
    for first in range(0, asked.replicas, size):
        keys = jnp.stack([replica_key(asked.seed, r) for r in range(asked.first + first, asked.first + first + size)])
        path, gram = _trajectories(nature, output, traced(start), keys, *numbers, sizes)
        for k in range(min(size, asked.replicas - first)):
            paths.append([np.asarray(x[k])[: rule.iterations + 1] for x in path])
            grams.append(np.asarray(gram[k]))
        if asked.progress is not None:
            asked.progress(len(paths), asked.replicas, f"GAMP, d = {d}, n = {n}")
    M, Q, V, sound = (np.stack([path[i] for path in paths], axis=1) for i in range(4))  # (iteration, replica, ...)
    changes = np.max(np.abs(M[-1] - M[-2]), axis=(1, 2)).tolist() if rule.iterations > 1 else [1.0] * M.shape[1]
    if not informed:
        for r in range(M.shape[1]):
            turn = _turn(setting.link.expected, M[-1, r], d)
            M[:, r], Q[:, r], V[:, r] = turn @ M[:, r], turn @ Q[:, r] @ turn.T, turn @ V[:, r] @ turn.T
    last = sound.sum(axis=0) - 1
    gone = np.arange(len(M))[:, None] > last
    mse = 1 + (np.trace(Q, axis1=2, axis2=3) - 2 * np.trace(M, axis1=2, axis2=3)) / K
    P = np.stack([np.trace(gram) / K for gram in grams])
    values = np.linalg.svd(M, compute_uv=False)
    errors, kind = prediction_errors(output, M, Q, V, np.stack(grams), gone)
    run = ("iteration", "replica")
    seen: dict[str, tuple[Any, Any]] = {
        "M": ((*run, "teacher", "teacher_2"), np.where(gone[..., None, None], np.nan, M)),
        "M_singular_values": ((*run, "teacher"), np.where(gone[..., None], np.nan, values)),
        "mse": (run, np.where(gone, np.nan, mse + P - 1)),
        "generalisation_error": (run, errors),
        "V": (run, np.where(gone, np.nan, np.trace(V, axis1=2, axis2=3) / K)),
        "status": ("replica", np.where(last < rule.iterations, "diverged", "ok")),
        "end_time": ("replica", last.astype(float)),
    }
    about: dict[str, Any] = {"d": int(d), "n": int(n), "seed": int(asked.seed), "change": changes}
    about["generalisation_error_kind"] = kind
    about["bytes_needed"] = matrix_memory(setting, rule, asked).bytes
    return Seen(seen, {"iteration": np.arange(rule.iterations + 1)}, "simulate (GAMP)", "aubin2018committee", about)


def symmetries(link: AbstractLink, K: int) -> list[np.ndarray]:
    """The signed permutations (K, K) of the fields that leave the link as it is; all of them are tried."""
    z = np.random.default_rng(6).normal(size=(200, K))
    y, found = link.on_host(z), []
    for order in itertools.permutations(range(K)):
        for signs in itertools.product([1.0, -1.0], repeat=K):
            g = np.diag(signs)[list(order)]
            if np.max(np.abs(link.on_host(z @ g.T) - y)) < 1e-9 * max(1.0, float(np.max(np.abs(y)))):
                found.append(g)
    return found


def _turn(link: AbstractLink, M: np.ndarray, d: int) -> np.ndarray:
    """The symmetry of the link that brings the estimates nearest to the teacher."""
    K = len(M)
    if not np.all(np.isfinite(M)):
        return np.eye(K)
    z = np.random.default_rng(7).normal(size=(100, K))
    R = np.linalg.qr(np.random.default_rng(8).normal(size=(K, K)))[0]
    best = np.eye(K)
    if np.max(np.abs(link.on_host(z @ R) - link.on_host(z))) < 1e-9:  # any rotation
        left, _, right = np.linalg.svd(M)
        best = (left @ right).T
    elif K <= SEARCHED:
        best = max(symmetries(link, K), key=lambda g: float(np.trace(g @ M)))
    elif np.max(np.abs(link.on_host(z[:, ::-1]) - link.on_host(z))) < 1e-9:  # of named links: any permutation
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(-M.T)
        best = np.zeros((K, K))
        best[rows, columns] = 1.0
    return best if np.trace(best @ M) > np.trace(M) + BROKEN / np.sqrt(d) else np.eye(K)
