r"""How wrong a matrix estimate is on new samples.

With omega = a^T x ~ N(0, Q), the teacher's fields are z ~ N(M^T Q^{-1} omega, P - M^T Q^{-1} M), so that the mean label
is known twice: as it is, and as the estimate believes (z ~ N(omega, V)). The error is an average over omega.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.gamp.output import MatrixOutput
from limitlab.modules import filter_jit
from limitlab.numerics.gauss.rules import sobol_points
from limitlab.numerics.shapes import filled, places
from limitlab.numerics.trees import as_array

__all__ = ["prediction_errors"]

AXIS = {1: 401, 2: 61, 3: 17}  # nodes of omega on an axis
REACH = {1: 7.0, 2: 5.4, 3: 4.4}
CLOUD = 4096  # nodes beyond three directions
LEAST = 1e-12  # of Q
FLOOR = 1e-9  # of what is left of a field


def prediction_errors(
    output: MatrixOutput, M: np.ndarray, Q: np.ndarray, V: np.ndarray, P: np.ndarray, gone: np.ndarray
) -> tuple[np.ndarray, str]:
    """Errors (iteration, replica) of overlaps M, Q, V (iteration, replica, K, K), Gram matrices P (replica, K, K).

    Of labels -1 and +1 the probability that the likelier one is wrong, else the mean square of y minus its mean; and
    the name of the error. NaN where ``gone``.
    """
    binary = output.binary
    nodes = _nodes(M.shape[-1])
    points = [x.reshape(-1, *x.shape[2:]) for x in (M, Q, V, np.broadcast_to(P, M.shape))]
    fine = ~gone.ravel() & np.all([np.all(np.isfinite(x), axis=(1, 2)) for x in points], axis=0)
    safe = [np.where(fine[:, None, None], x, np.eye(x.shape[-1])) for x in points]
    padded = tuple(filled(x, places(len(fine))) for x in safe)
    errors = np.asarray(_errors(output, nodes, padded, as_array(len(fine)), binary))[: len(fine)]
    return np.where(fine, errors, np.nan).reshape(gone.shape), "classification error" if binary else "mean-square error"


def _nodes(K: int) -> tuple[np.ndarray, np.ndarray]:
    if K not in AXIS:
        from scipy.special import ndtri

        half = ndtri(sobol_points(K, CLOUD // 2, np.random.default_rng(1)))
        return np.concatenate([half, -half]), np.full(CLOUD, 1 / CLOUD)
    axis = np.linspace(-REACH[K], REACH[K], AXIS[K])
    u = np.array(list(itertools.product(axis, repeat=K)))
    u = u[np.sum(u**2, axis=1) <= REACH[K] ** 2]
    p = np.exp(-np.sum(u**2, axis=1) / 2)
    return u, p / p.sum()


@filter_jit
def _errors(output: MatrixOutput, nodes, points: tuple, count: jax.Array, binary: bool):
    """Of the first ``count`` points: one program for a few lengths, and no work for those that are not."""
    u, p = nodes

    def one(point):
        M, Q, V, P = point
        values, vectors = jnp.linalg.eigh(Q)
        known = values > LEAST
        inverse = (vectors * jnp.where(known, 1 / jnp.where(known, values, 1.0), 0.0)) @ vectors.T
        w = u @ ((vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T)
        B = M.T @ inverse
        left = P - B @ M
        left, believed = (x + FLOOR * jnp.eye(len(x)) for x in ((left + left.T) / 2, V))
        truth, guess = output.mean(w @ B.T, left), output.mean(w, believed)
        if binary:
            return (1 - p @ (jnp.where(guess >= 0, 1.0, -1.0) * truth)) / 2
        return output.square(P) + p @ (guess * (guess - 2 * truth))

    def turn(i, errors):
        return errors.at[i].set(one(jax.tree.map(lambda x: x[i], points)))

    return jax.lax.fori_loop(0, count, turn, jnp.zeros(len(points[0])))
