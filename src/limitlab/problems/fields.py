r"""A linear predictor seen by a new sample: the joint law of its output omega = w.x and the label y.

.. math:: \omega \sim N(0, q), \qquad y \sim Z_0(y, \tfrac{m}{q}\omega, \rho - \tfrac{m^2}{q}), \qquad
          m = w \cdot w^*/d, \quad q = |w|^2/d, \quad \rho = |w^*|^2/d

A simulation that knows (m, q) and a limit that predicts them take all errors on new samples from here.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.numerics.gauss.normal import measure
from limitlab.numerics.gauss.rules import REACH, graded_edges, panel_nodes
from limitlab.problems.channels.base import AbstractChannel, BinaryChannel
from limitlab.problems.channels.gaussian_noise import GaussianNoise
from limitlab.problems.channels.modulus import Modulus
from limitlab.problems.channels.squared_modulus import SquaredModulus
from limitlab.problems.losses import AbstractConvexLoss

__all__ = ["Fields", "Predictor", "Response", "blind_residuals", "errors", "fields", "label_moments", "response"]

BASE, TEACHER, LOSS = 8, 12, 6  # panels on each side of a feature: of the normal law, the teacher, the loss
ORDER = 12


class Predictor(NamedTuple):
    r"""w = (m/rho) w* + sigma xi, by t = m/(sqrt(rho) sigma): nothing cancels when w is nearly parallel to w*."""

    t: jax.Array
    sigma: jax.Array
    rho: jax.Array

    @staticmethod
    def of(m, q, rho) -> "Predictor":
        sigma = jnp.sqrt(jnp.maximum(q - jnp.square(m) / rho, 1e-300))
        return Predictor(m / (jnp.sqrt(rho) * sigma), sigma, rho)

    @property
    def m(self):
        return jnp.sqrt(self.rho) * self.t * self.sigma

    @property
    def q(self):
        return jnp.square(self.sd)

    @property
    def sd(self):
        return self.sigma * jnp.sqrt(1 + jnp.square(self.t))

    @property
    def slope(self):
        """m/q: the teacher's mean output is slope * omega."""
        return jnp.sqrt(self.rho) * self.t / (self.sigma * (1 + jnp.square(self.t)))

    @property
    def V0(self):
        """rho - m^2/q: the variance left to the teacher's output when omega is known."""
        return self.rho / (1 + jnp.square(self.t))


class Fields(NamedTuple):
    """Nodes (y, omega) with weights, and f0 = d/d(mean) log Z_0 there."""

    y: jax.Array
    w: jax.Array
    f0: jax.Array
    weight: jax.Array


def blind_residuals(channel: AbstractChannel, loss: AbstractConvexLoss) -> bool:
    """True if a fit learns nothing (m = 0: the labels are even in z) and y - omega is a label with more noise."""
    return isinstance(channel, (Modulus, SquaredModulus)) and loss.of == "residual"


def fields(
    channel: AbstractChannel, loss: AbstractConvexLoss, p: Predictor, V: jax.Array, blind: bool = False
) -> Fields:
    """Nodes for the law of (y, omega), fine where the channel changes and where the proximal map of the loss does.

    ``blind``: the predictor is known to have m = 0, and `blind_residuals` holds; p.t is not looked at.
    """
    if blind:
        return _blind(channel, loss, p, V)
    if isinstance(channel, BinaryChannel):
        mirrored = channel.mirror and (loss.of == "margin" or loss.even)
        parts = [_margins(channel, loss, p, V, y) for y in ((1.0,) if mirrored else (1.0, -1.0))]
        nodes = [jnp.concatenate(column) for column in zip(*parts, strict=True)]
        return Fields(nodes[0], nodes[1], nodes[2], nodes[3] * 2 if mirrored else nodes[3])
    if isinstance(channel, GaussianNoise) and loss.of == "residual":
        return _residuals(channel, loss, p, V)
    centres, width = loss.features(V)
    fine = jnp.square(width) if len(centres) and not loss.sharp else p.V0
    law = channel.plain_law(p.q, p.slope, p.V0, jnp.minimum(fine, p.V0))
    return Fields(law.y, law.w, channel.output(law.y, p.slope * law.w, p.V0).g, law.weight)


def _margins(channel: BinaryChannel, loss, p: Predictor, V, y: float):
    """Nodes for one label, in v = y omega/sd."""
    edges = [graded_edges(0.0, 1.0, REACH, BASE)]
    centres, width = channel.features(p.V0)
    stretch = jnp.sqrt(p.rho) * jnp.maximum(jnp.abs(p.t), 1e-6) / jnp.sqrt(1 + jnp.square(p.t))  # slope * sd
    for centre in centres:
        place = jnp.clip(y * jnp.asarray(centre) / stretch, -REACH, REACH)
        edges.append(graded_edges(place, jnp.clip(width / stretch, 1e-14, 1.0), 2 * REACH, TEACHER))
    centres, width = loss.features(V)
    for centre in centres:
        place = jnp.asarray(centre if loss.of == "margin" else 1 - y * centre)
        edges += [_around(place / p.sd, None if loss.sharp else width / p.sd)]
    v, dv = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH, REACH), ORDER)
    label = jnp.full_like(v, y)
    out = channel.output(label, p.slope * p.sd * y * v, p.V0)
    weight = measure(v, dv, out.log_z)
    return label, p.sd * y * v, out.g, weight


def _residuals(channel: GaussianNoise, loss, p: Predictor, V) -> Fields:
    r"""For a linear teacher only r = y - omega ~ N(0, s^2) counts, and E f0 g = E dg/dy = E r g / s^2 by parts."""
    variance = label_error(channel, p)
    sd = jnp.sqrt(variance)
    centres, width = loss.features(V)
    edges = [graded_edges(0.0, 1.0, REACH, TEACHER)]
    edges += [_around(jnp.asarray(c) / sd, None if loss.sharp else width / sd) for c in centres]
    v, dv = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH, REACH), ORDER)
    r = sd * v
    return Fields(r, jnp.zeros_like(r), r / variance, measure(v, dv))


def _blind(channel, loss, p: Predictor, V) -> Fields:
    """omega ~ N(0, q) is independent of y = phi(z) + noise: y - omega is a label with q more noise, and f0 = 0."""
    noise = channel.variance + jnp.square(p.sigma)
    sd, top = jnp.sqrt(noise), REACH * jnp.sqrt(p.rho)
    top = (jnp.square(top) if isinstance(channel, SquaredModulus) else top) + REACH * sd
    centres, width = loss.features(V)
    edges = [graded_edges(0.0, sd, top, 2 * TEACHER)]
    for centre in centres:
        place = jnp.clip(jnp.asarray(centre), -REACH * sd, top)
        edges.append(place[None] if loss.sharp else graded_edges(place, jnp.minimum(width, top), 2 * top, TEACHER))
    r, dr = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH * sd, top), ORDER)
    noisier = eqx.tree_at(lambda c: c.variance, channel, noise)
    nothing = jnp.zeros_like(r)
    return Fields(r, nothing, nothing, dr * jnp.exp(noisier.output(r, nothing, p.rho).log_z))


def _around(place, width):
    """Edges at a feature of the loss, in units of the field: one for a kink, graded panels for a bend."""
    place = jnp.clip(place, -REACH, REACH)
    if width is None:
        return place[None]
    return graded_edges(place, jnp.clip(width, 1e-12, 1.0), 2 * REACH, LOSS)


def label_moments(channel: AbstractChannel, rho) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""c1 = E[y z]/rho, y2 = E y^2, and what no linear predictor explains, y2 - c1^2 rho."""
    rho = jnp.asarray(rho, float)
    if isinstance(channel, GaussianNoise):
        noise = jnp.asarray(channel.variance, float)
        return jnp.ones(()), rho + noise, noise
    zero = jnp.zeros(())
    c1 = jnp.zeros(()) if channel.even else jax.grad(lambda w: jnp.sum(channel.mean_label(w, rho)))(zero)
    y2 = jnp.square(channel.mean_label(zero, rho)) + channel.label_mse(zero, rho)
    return c1, y2, y2 - jnp.square(c1) * rho


def label_error(channel: AbstractChannel, p: Predictor) -> jax.Array:
    r"""E (y - omega)^2 = y2 - c1^2 rho + rho (c1 - m/rho)^2 + sigma^2."""
    c1, _, rest = label_moments(channel, p.rho)
    return rest + p.rho * jnp.square(c1 - p.m / p.rho) + jnp.square(p.sigma)


class Response(NamedTuple):
    """E f0 g, E g^2 and -E dg of the proximal map, and E loss(y, prox): the loss averaged over the data set."""

    f0_g: jax.Array
    g_g: jax.Array
    bend: jax.Array
    train_loss: jax.Array


def response(
    channel: AbstractChannel, loss: AbstractConvexLoss, p: Predictor, V: jax.Array, blind: bool = False
) -> Response:
    """How the fitted outputs answer to the fields, averaged over their law."""
    y, w, f0, weight = fields(channel, loss, p, V, blind)
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
    y, w, _, weight = fields(channel, loss, p, jnp.asarray(1e-300), blind)
    label = label_error(channel, p)
    wrong = jnp.sum(jnp.where(y * w < 0, weight, 0.0)) if isinstance(channel, BinaryChannel) else label
    mse = p.rho * jnp.square(1 - p.m / p.rho) + jnp.square(p.sigma)
    risk = jnp.sum(weight * loss.value(y, w))
    return {"risk": risk, "label_mse": label, "generalisation_error": wrong, "mse": mse}
