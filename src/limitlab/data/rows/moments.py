r"""Averages of a loss over a normal field, row by row: of its proximal pull, and of what it pays.

Smooth losses by Gauss-Hermite nodes; across a kink these would jump from node to node, so there the line is cut at the
kinks, with Gauss-Legendre nodes on every part. All rows go through one compiled program, a block at a time.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import filter_jit
from limitlab.problems.losses.base import AbstractConvexLoss

__all__ = ["by_blocks", "losses_of", "paid", "pulls"]

BLOCKS = (512, 2048)  # rows of one compiled call: small pools, and others, whatever their number
NODES = 32  # of Gauss-Hermite
PART = 24  # of Gauss-Legendre on a part of the line
REACH = 8.5  # standard deviations
TINY = 1e-300


def pulls(loss: AbstractConvexLoss, y: np.ndarray, mean: np.ndarray, sd: np.ndarray, V: np.ndarray) -> np.ndarray:
    """(3, rows): E g, E g^2 and -E dg/dh with g = (prox(h) - h)/V over h ~ N(mean, sd^2)."""
    return by_blocks(partial(_pulls, loss), y, mean, sd, V)


def paid(loss: AbstractConvexLoss, y: np.ndarray, mean: np.ndarray, sd: np.ndarray, V: np.ndarray) -> np.ndarray:
    """(2, rows): E loss(y, h) and E loss(y, prox(h))."""
    return by_blocks(partial(_paid, loss), y, mean, sd, V)


def losses_of(loss: AbstractConvexLoss, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(3, rows): the loss of every output z with its first and second derivative."""
    return by_blocks(partial(_losses, loss), y, z)


def by_blocks(function: Callable[..., jax.Array], *columns: np.ndarray) -> np.ndarray:
    """What a function of columns gives, a block of rows at a time: compiled for two sizes, whatever the pool."""
    rows = len(columns[0])
    size = next((size for size in BLOCKS if rows <= size), BLOCKS[-1])
    parts = []
    for k in range(0, rows, size):
        block = [column[k : k + size] for column in columns]
        short = size - len(block[0])
        block = [np.concatenate([column, np.ones(short)]) for column in block] if short else block
        parts.append(np.asarray(function(*block))[:, : size - short])
    return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


@filter_jit
def _pulls(loss: AbstractConvexLoss, y, mean, sd, V):
    s, weight = _nodes(loss, y, mean, sd, V)
    _, pull, bend = jax.lax.optimization_barrier(loss.proximal(s, V[:, None]))  # not once for every average
    sign = y if loss.of == "margin" else -1.0
    return jnp.stack([sign * _mean(pull, weight), _mean(jnp.square(pull), weight), -_mean(bend, weight)])


@filter_jit
def _paid(loss: AbstractConvexLoss, y, mean, sd, V):
    s, weight = _nodes(loss, y, mean, sd, jnp.full_like(V, TINY))
    test = _mean(loss.scalar(s), weight)
    s, weight = _nodes(loss, y, mean, sd, V)
    train = _mean(loss.scalar(loss.proximal(s, V[:, None]).point), weight)
    return jnp.stack([test, train])


@filter_jit
def _losses(loss: AbstractConvexLoss, y, z):
    return jnp.stack([loss.value(y, z), *loss.gradient(y, z)])


def _mean(x, weight):
    """Over the nodes of every row; one rule for all rows is a product with a vector, which is faster."""
    return x @ weight if weight.ndim == 1 else jnp.sum(weight * x, axis=1)


def _nodes(loss: AbstractConvexLoss, y, mean, sd, V):
    """Margins or residuals s of every row with weights that sum to 1."""
    centre = loss.variable(y, mean)
    if not loss.sharp or not loss.features(V)[0]:
        x, w = np.polynomial.hermite_e.hermegauss(NODES)
        return centre[:, None] + sd[:, None] * x, jnp.asarray(w / w.sum())
    x, w = np.polynomial.legendre.leggauss(PART)
    kinks = [jnp.broadcast_to(jnp.asarray(kink, float), centre.shape) for kink in loss.features(V)[0]]
    cuts = [jnp.clip((kink - centre) / sd, -REACH, REACH) for kink in kinks]
    ends = jnp.stack([jnp.full_like(centre, -REACH), *jnp.sort(jnp.stack(cuts), axis=0), jnp.full_like(centre, REACH)])
    half, middle = (ends[1:] - ends[:-1]) / 2, (ends[1:] + ends[:-1]) / 2
    u = jnp.moveaxis(middle[..., None] + half[..., None] * x, 0, 1).reshape(len(centre), -1)
    part = jnp.moveaxis(half[..., None] * w, 0, 1).reshape(len(centre), -1)
    return centre[:, None] + sd[:, None] * u, part * jnp.exp(-jnp.square(u) / 2) / np.sqrt(2 * np.pi)
