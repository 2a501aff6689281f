"""Labels that have lost their sign."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.numerics.normal import log_ndtr, log_normal, mills, pair_shares, sech_squared, truncated_variance
from limitlab.numerics.panels import REACH, graded_edges, half_line, normal_nodes, panel_nodes
from limitlab.problems.channels.base import (
    AbstractChannel,
    Information,
    Law,
    Output,
    check_variance,
    is_zero,
    weight_floor,
)

__all__ = [
    "Modulus",
    "check_nonnegative",
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


def positive_half(q, slope, V0, V, noise):
    r"""Nodes (y, omega, weight) for y = z + noise on z > 0; the weights sum to P(z > 0) = 1/2.

    With omega = sqrt(q) v and y = slope omega + r, the mean of z given both is s = slope omega + (V0/T) r. Turned to
    the axes of s and its orthogonal direction, only s has a narrow scale: that of the kink at z = 0.
    """
    T = V0 + noise
    sd, kappa = weight_floor(q), V0 / jnp.sqrt(T)
    S = jnp.square(slope * sd) + jnp.square(kappa)
    root = jnp.sqrt(S)
    a, b = slope * sd / root, kappa / root
    xi, p = normal_nodes(0.15)
    fine = jnp.sqrt(jnp.minimum(V, V0))
    if is_zero(noise):
        x, dx = half_line(jnp.clip(fine / root, 1e-14, 1.0), REACH)
        weight = dx * jnp.exp(-jnp.square(x) / 2) / jnp.sqrt(2 * jnp.pi)
    else:
        tau = jnp.sqrt(V0 * noise / T)
        student_tau = jnp.sqrt(V * noise / (V + noise))
        scale = jnp.clip(jnp.minimum(jnp.minimum(tau, student_tau), fine) / root, 1e-14, 1.0)
        x, dx = panel_nodes(graded_edges(0.0, scale, REACH))
        weight = dx * jnp.exp(-jnp.square(x) / 2 + log_ndtr(root * x / tau)) / jnp.sqrt(2 * jnp.pi)
    x = x[:, None]
    w = sd * (a * x + b * xi)
    r = jnp.sqrt(T) * (b * x - a * xi)
    return slope * w + r, w, weight[:, None] * p


class Modulus(AbstractChannel):
    r""":math:`y = |z| + \sqrt{\mathrm{variance}}\,\xi`."""

    labels: ClassVar[str] = "real"
    even: ClassVar[bool] = True

    variance: float = 0.0

    def __check_init__(self):
        check_variance(self)

    def sample(self, key, z):
        if is_zero(self.variance):
            return jnp.abs(z)
        return jnp.abs(z) + jnp.sqrt(self.variance) * jax.random.normal(key, z.shape, z.dtype)

    def output(self, y, w, V):
        if is_zero(self.variance):
            return sharp_modulus(y, w, V)
        plus, (log_p, pull, bend) = (positive_lobe(y, sign * w, V, self.variance) for sign in (1.0, -1.0))
        return output_of_halves(plus, (log_p, -pull, bend))

    def mean_label(self, w, V):
        t = w / jnp.sqrt(2 * V)
        return jnp.sqrt(2 * V / jnp.pi) * jnp.exp(-jnp.square(t)) + w * jax.scipy.special.erf(t)

    def law(self, q, slope, V0, V):
        y, w, weight = positive_half(q, slope, V0, V, self.variance)
        return Law(jnp.stack([y, y]), jnp.stack([w, -w]), jnp.stack([weight, weight]))

    def bayes(self, m, V):
        y, w, weight = positive_half(m, jnp.ones_like(m), V, V, self.variance)
        out = self.output(y, w, V)
        return Information(2 * jnp.sum(weight * jnp.square(out.g)), 2 * jnp.sum(weight * out.log_z))

    def label_mse(self, m, V):
        rho = m + V
        angle = jnp.arctan2(jnp.sqrt(V * (2 * m + V)), m)
        kept = jnp.sin(angle) - angle * jnp.cos(angle)
        return rho * (2 * jnp.square(jnp.sin(angle / 2)) - 2 / jnp.pi * kept) + self.variance

    @property
    def noiseless_rate(self):
        return 1.0 if is_zero(self.variance) else 0.0

    def check_labels(self, y, *, by):
        return check_nonnegative(super().check_labels(y, by=by), self, by)


def check_nonnegative(y, channel, by):
    """Labels of a modulus or a rectifier without noise have no sign."""
    if is_zero(channel.variance) and (y < 0).any():
        raise InputError(f"{by}: labels of a noiseless {type(channel).__name__} are >= 0; the least is {y.min():g}.")
    return y
