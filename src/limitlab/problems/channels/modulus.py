"""Labels that have lost their sign."""

from typing import TYPE_CHECKING, ClassVar

import jax
import jax.numpy as jnp

from limitlab.modules import tree_at
from limitlab.numerics.gauss.normal import (
    log_ndtr,
    log_normal,
    measure,
    mills,
    pair_shares,
    sech_squared,
    truncated_variance,
)
from limitlab.numerics.gauss.rules import REACH, graded_edges, half_line, normal_nodes, panel_nodes
from limitlab.numerics.trees import is_zero
from limitlab.problems.channels.base import Information, Law, Output, weight_floor
from limitlab.problems.channels.noisy import AbstractNoisyChannel, check_nonnegative
from limitlab.problems.predictor import ORDER, TEACHER, Fields, Predictor

if TYPE_CHECKING:
    from limitlab.problems.losses.base import AbstractConvexLoss

__all__ = [
    "Modulus",
    "blind_residuals",
    "output_of_halves",
    "positive_half",
    "positive_lobe",
    "sharp_modulus",
]


def sharp_modulus(y, w, V) -> Output:
    """y = |z| without noise."""
    u = y * w / V
    log_z = jnp.logaddexp(log_normal(y, w, V), log_normal(-y, w, V))
    return Output(log_z, (y * jnp.tanh(u) - w) / V, (jnp.square(y) * sech_squared(u) / V - 1) / V)


def output_of_halves(plus, minus) -> Output:
    """From (log weight, pull, bend) of z > 0 and of z < 0: pull = (E[z] - omega)/V, bend = (Var[z] - V)/V^2."""
    log_z, p, r = pair_shares(plus[0], minus[0])
    g = p * plus[1] + r * minus[1]
    return Output(log_z, g, p * plus[2] + r * minus[2] + p * r * jnp.square(plus[1] - minus[1]))


def positive_lobe(y, w, V, noise):
    """(log weight, pull, bend) of z > 0 when y = z + noise there; nothing cancels when V is small."""
    T = V + noise
    t = (w * noise + y * V) / jnp.sqrt(T * V * noise)
    h = mills(t)
    pull = (y - w) / T + jnp.sqrt(noise / (T * V)) * h
    return log_normal(y, w, T) + log_ndtr(t), pull, -h * (h + t) / V - truncated_variance(t) / T


def positive_half(q, slope, V0, V, noise, switch=None):
    r"""Nodes (y, omega, weight) for y = z + noise on z > 0; the weights sum to P(z > 0) = 1/2.

    With omega = sqrt(q) v and y = slope omega + r, the mean of z given both is s = slope omega + (V0/T) r. Turned to
    the axes of s (x) and its orthogonal direction (xi), only s has a narrow scale as long as the student believes what
    is true (slope = 1, V = V0): that of the kink at z = 0.

    Parameters
    ----------
    switch
        (c, width): a student who believes something else changes its mind on a second line, omega + c y = 0, oblique in
        (x, xi), within width/\|y\|, and at its own kink. The nodes in xi are then graded towards that line.
    """
    T = V0 + noise
    sd, kappa = weight_floor(q), V0 / jnp.sqrt(T)
    S = jnp.square(slope * sd) + jnp.square(kappa)
    root = jnp.sqrt(S)
    a, b = slope * sd / root, kappa / root
    fine = jnp.sqrt(jnp.minimum(V, V0))
    if is_zero(noise):
        x, dx = half_line(jnp.clip(fine / root, 1e-14, 1.0), REACH)
        weight = measure(x, dx)
    else:
        tau = jnp.sqrt(V0 * noise / T)
        student_tau = jnp.sqrt(V * noise / (V + noise))
        scale = jnp.clip(jnp.minimum(jnp.minimum(tau, student_tau), fine) / root, 1e-14, 1.0)
        x, dx = panel_nodes(jnp.concatenate([graded_edges(0.0, scale, REACH), graded_edges(0.0, 1.0, REACH, 4)]))
        weight = measure(x, dx, log_ndtr(root * x / tau))
    x = x[:, None]
    if switch is None:
        xi, p = normal_nodes(0.15)
    else:
        xi, p = _towards(x[:, 0], sd, slope, jnp.sqrt(T), (a, b), V, noise, *switch)
    w = sd * (a * x + b * xi)
    r = jnp.sqrt(T) * (b * x - a * xi)
    return slope * w + r, w, weight[:, None] * p


def _towards(x, sd, slope, root_T, axes, V, noise, c, width):
    """Nodes and probabilities of a standard normal xi for every x, graded towards the line omega + c y = 0."""
    a, b = axes
    w, y = (sd * a, sd * b), (slope * sd * a + root_T * b, slope * sd * b - root_T * a)  # what x and xi add to each
    of_x, of_xi = (w[k] + c * y[k] for k in (0, 1))
    safe = jnp.where(jnp.abs(of_xi) < 1e-150, 1e-150, of_xi)
    place = -of_x * x / safe
    there = jnp.abs(y[0] * x + y[1] * place)  # |y| on the line
    scale = width / jnp.maximum(there, 1e-150)
    if not is_zero(noise):
        scale = jnp.minimum(scale, jnp.sqrt(V * (V + noise) / noise))
    scale = jnp.clip(scale / jnp.abs(safe), 1e-12, 1.0)
    base = graded_edges(0.0, 1.0, REACH, 6)

    def line(place, scale):
        edges = [base, graded_edges(jnp.clip(place, -REACH, REACH), scale, 2 * REACH, 12)]
        return panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH, REACH), 10)

    xi, dxi = jax.vmap(line)(place, scale)
    return xi, measure(xi, dxi)


def blind_residuals(
    channel: AbstractNoisyChannel, loss: "AbstractConvexLoss", p: Predictor, V: jax.Array, clean: jax.Array
) -> Fields:
    """omega ~ N(0, q) is independent of y = phi(z) + noise: y - omega is a label with q more noise, and f0 = 0.

    ``clean``: a size that phi(z) exceeds with negligible probability.
    """
    noise = channel.variance + jnp.square(p.sigma)
    sd = jnp.sqrt(noise)
    top = clean + REACH * sd
    centres, width = loss.features(V)
    edges = [graded_edges(0.0, sd, top, 2 * TEACHER)]
    for centre in centres:
        place = jnp.clip(jnp.asarray(centre), -REACH * sd, top)
        edges.append(place[None] if loss.sharp else graded_edges(place, jnp.minimum(width, top), 2 * top, TEACHER))
    r, dr = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH * sd, top), ORDER)
    noisier = tree_at(lambda c: c.variance, channel, noise)
    nothing = jnp.zeros_like(r)
    return Fields(r, nothing, nothing, dr * jnp.exp(noisier.output(r, nothing, p.rho).log_z))


class Modulus(AbstractNoisyChannel):
    r""":math:`y = |z| + \sqrt{\mathrm{variance}}\,\xi`."""

    modulus: ClassVar[str | None] = "modulus"

    @property
    def even(self):
        return True

    @property
    def heavy(self):
        return self.noise is not None

    def clean(self, z):
        return jnp.abs(z)

    def told(self, z, xp):
        return xp.abs(z)

    def blind(self, loss):
        return loss.of == "residual"

    def blind_fields(self, loss, p, V):
        return blind_residuals(self, loss, p, V, REACH * jnp.sqrt(p.rho))

    def output(self, y, w, V):
        if self.noise is None:
            return sharp_modulus(y, w, V)
        plus, (log_p, pull, bend) = (positive_lobe(y, sign * w, V, self.variance) for sign in (1.0, -1.0))
        return output_of_halves(plus, (log_p, -pull, bend))

    def mean_label(self, w, V):
        t = w / jnp.sqrt(2 * V)
        return jnp.sqrt(2 * V / jnp.pi) * jnp.exp(-jnp.square(t)) + w * jax.scipy.special.erf(t)

    def law(self, q, slope, V0, V):
        return self.even_law(q, slope, V0, V).unfolded()

    def even_law(self, q, slope, V0, V):
        # the student weighs its two signs against each other at omega = 0
        y, w, weight = positive_half(q, slope, V0, V, self.variance, (0.0, V + self.variance))
        return Law(y, w, 2 * weight)

    def plain_law(self, q, slope, V0, V):
        return self._plain(q, slope, V0, V).unfolded()

    def bayes(self, m, V):
        law = self._plain(m, jnp.ones_like(m), V, V)
        out = self.output(law.y, law.w, V)
        return Information(law.mean(jnp.square(out.g)), law.mean(out.log_z))

    def _plain(self, q, slope, V0, V):
        y, w, weight = positive_half(q, slope, V0, V, self.variance)
        return Law(y, w, 2 * weight)

    def label_mse(self, m, V):
        rho = m + V
        angle = jnp.arctan2(jnp.sqrt(V * (2 * m + V)), m)
        kept = jnp.sin(angle) - angle * jnp.cos(angle)
        return rho * (2 * jnp.square(jnp.sin(angle / 2)) - 2 / jnp.pi * kept) + self.variance

    @property
    def noiseless_rate(self):
        return 1.0 if self.noise is None else 0.0

    def check_labels(self, y, *, by):
        return check_nonnegative(super().check_labels(y, by=by), self, by)
