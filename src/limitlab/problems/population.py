"""The loss that a linear output pays on new samples."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.trees import traced
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.fields import Predictor, errors
from limitlab.problems.losses import AbstractConvexLoss, AbstractLoss

__all__ = ["population_risk"]

BLOCK = 64  # points of one compiled call, whatever their number


def population_risk(channel: AbstractChannel, loss: AbstractLoss, m: np.ndarray, q: np.ndarray, rho: float):
    r"""E loss(y, w.x) for overlaps m = w.w*/d and q = \|w\|^2/d, elementwise; NaN gives NaN."""
    live = traced((channel, loss))
    points = np.stack([np.ravel(x) for x in np.broadcast_arrays(m, q)], axis=1)
    padded = np.concatenate([points, np.full((-len(points) % BLOCK, 2), np.nan)])
    parts = [np.asarray(_risks(*live, jnp.asarray(block), jnp.asarray(rho))) for block in padded.reshape(-1, BLOCK, 2)]
    return np.concatenate(parts)[: len(points)].reshape(np.shape(m))


@eqx.filter_jit
def _risks(channel, loss, points, rho):
    def one(point):
        m, q = jnp.where(jnp.isnan(point), 0.5, point)
        if isinstance(loss, AbstractConvexLoss):
            risk = errors(channel, loss, Predictor.of(m, q, rho))["risk"]
        else:
            risk = loss.expected(m, q, rho, jnp.asarray(channel.variance, float))
        return jnp.where(jnp.any(jnp.isnan(point)), jnp.nan, risk)

    return jax.lax.map(one, points)
