"""What a linear output pays on new samples, and how a fit answers to its own."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import filter_jit
from limitlab.numerics.trees import traced
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.losses.base import AbstractConvexLoss, AbstractLoss
from limitlab.problems.predictor import Fields, Predictor

__all__ = ["Response", "errors", "population_risk", "response"]

BLOCK = 64  # points of one compiled call, whatever their number


class Response(NamedTuple):
    """E f0 g, E g^2 and -E dg of the proximal map, and E loss(y, prox): the loss averaged over the data set."""

    f0_g: jax.Array
    g_g: jax.Array
    bend: jax.Array
    train_loss: jax.Array


def _fields(channel: AbstractChannel, loss: AbstractConvexLoss, p: Predictor, V, blind: bool) -> Fields:
    return channel.blind_fields(loss, p, V) if blind else channel.fields(loss, p, V)


def response(
    channel: AbstractChannel, loss: AbstractConvexLoss, p: Predictor, V: jax.Array, blind: bool = False
) -> Response:
    """How the fitted outputs answer to the fields, averaged over their law.

    ``blind``: the predictor is known to have m = 0 (`AbstractChannel.blind` holds); p.t is not looked at.
    """
    y, w, f0, weight = _fields(channel, loss, p, V, blind)
    point, pull, bend = loss.proximal(loss.variable(y, w), V)
    g = y * pull if loss.of == "margin" else -pull
    return Response(*(jnp.sum(weight * x) for x in (f0 * g, jnp.square(g), -bend, loss.scalar(point))))


def errors(
    channel: AbstractChannel, loss: AbstractConvexLoss, p: Predictor, blind: bool = False
) -> dict[str, jax.Array]:
    """What the predictor pays on new samples.

    ``risk``: the loss. ``label_mse``: E (y - omega)^2. ``generalisation_error``: the probability that sign(omega) is
    the wrong label if labels are -1 and +1, else ``label_mse``. ``mse``: |w - w*|^2/d.
    """
    y, w, _, weight = _fields(channel, loss, p, jnp.asarray(1e-300), blind)
    label = channel.label_error(p)
    wrong = jnp.sum(jnp.where(y * w < 0, weight, 0.0)) if channel.labels == "binary" else label
    mse = p.rho * jnp.square(1 - p.m / p.rho) + jnp.square(p.sigma)
    risk = jnp.sum(weight * loss.value(y, w))
    return {"risk": risk, "label_mse": label, "generalisation_error": wrong, "mse": mse}


def population_risk(channel: AbstractChannel, loss: AbstractLoss, m: np.ndarray, q: np.ndarray, rho: float):
    r"""E loss(y, w.x) for overlaps m = w.w*/d and q = \|w\|^2/d, elementwise; NaN gives NaN."""
    live = traced((channel, loss))
    points = np.stack([np.ravel(x) for x in np.broadcast_arrays(m, q)], axis=1)
    padded = np.concatenate([points, np.full((-len(points) % BLOCK, 2), np.nan)])
    parts = [np.asarray(_risks(*live, block, np.asarray(rho))) for block in padded.reshape(-1, BLOCK, 2)]
    return np.concatenate(parts)[: len(points)].reshape(np.shape(m))


@filter_jit
def _risks(channel: AbstractChannel, loss: AbstractLoss, points, rho):
    def one(point):
        m, q = jnp.where(jnp.isnan(point), 0.5, point)
        return jnp.where(jnp.any(jnp.isnan(point)), jnp.nan, loss.risk(channel, m, q, rho))

    return jax.lax.map(one, points)
