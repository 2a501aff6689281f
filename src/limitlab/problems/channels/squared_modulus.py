"""Labels that are squares."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.normal import HALF_LOG_2PI
from limitlab.numerics.gauss.rules import REACH, between, graded_edges, panel_nodes
from limitlab.numerics.roots import newton
from limitlab.problems.channels.base import Information, Law, Output, weight_floor
from limitlab.problems.channels.modulus import Modulus, blind_residuals, output_of_halves, sharp_modulus
from limitlab.problems.channels.noisy import AbstractNoisyChannel, check_nonnegative

__all__ = ["SquaredModulus"]

FINEST = 1e-9  # of V over the noise: below, E g^2 has its limit, and (E[z|y] - omega)/V only loses digits
INNER = 96  # nodes for z on its half line


class SquaredModulus(AbstractNoisyChannel):
    r""":math:`y = z^2 + \sqrt{\mathrm{variance}}\,\xi`.

    With noise there is no closed form. On z > 0 the posterior has one mode, the positive root of a cubic, and one
    Gauss-Legendre rule around it gives its weight, mean and variance; likewise on z < 0.
    """

    modulus: ClassVar[str | None] = "intensity"

    @property
    def even(self):
        return True

    @property
    def heavy(self):
        return self.noise is not None

    def clean(self, z):
        return jnp.square(z)

    def told(self, z, xp):
        return xp.square(z)

    def blind(self, loss):
        return loss.of == "residual"

    def blind_fields(self, loss, p, V):
        return blind_residuals(self, loss, p, V, jnp.square(REACH * jnp.sqrt(p.rho)))

    def output(self, y, w, V):
        if self.noise is None:
            root = jnp.sqrt(y)
            out = sharp_modulus(root, w, V)
            return Output(out.log_z - jnp.log(2 * root), out.g, out.dg)
        plus, minus = self._halves(y, jnp.abs(w), V)
        out = output_of_halves(*(_pulled(half, jnp.abs(w), V) for half in (plus, minus)))
        return Output(out.log_z, jnp.where(w < 0, -out.g, out.g), out.dg)

    def _halves(self, y, w, V):
        """(log weight, mean, variance) of z > 0 and z < 0 for w >= 0, on the nodes that suit z > 0."""
        y, w, V = jnp.broadcast_arrays(y, w, V)
        peak = _positive_root(self.variance / V / 2 - y, self.variance * w / V / 2)
        bend = 1 / V + (6 * jnp.square(peak) - 2 * y) / self.variance
        width = 1 / jnp.sqrt(jnp.maximum(bend, 0.0) + 1 / jnp.sqrt(self.variance))
        low, high = jnp.maximum(peak - 12 * width, 0.0), peak + 12 * width
        low, high = jax.lax.stop_gradient((low, high))  # only the rule's; a root has no slope at 0
        z, dz = between(low, high, INNER)
        seen = -jnp.square(y[..., None] - jnp.square(z)) / (2 * self.variance)
        shift = -0.5 * jnp.log(self.variance * V) - 2 * HALF_LOG_2PI
        halves = []
        for sign in (1, -1):
            log_p, mean, variance = _moments(z, dz, seen - jnp.square(z - sign * w[..., None]) / (2 * V[..., None]))
            halves.append((log_p + shift, sign * mean, variance))
        return tuple(halves)

    def mean_label(self, w, V):
        return jnp.square(w) + V

    def law(self, q, slope, V0, V):
        return self.even_law(q, slope, V0, V).unfolded()

    def even_law(self, q, slope, V0, V):
        if self.noise is None:
            law = Modulus().even_law(q, slope, V0, V)
            return Law(jnp.square(law.y), law.w, law.weight)
        y, w, weight, _ = self._positive(q, slope, V0, V)
        return Law(y, w, 2 * weight)

    def plain_law(self, q, slope, V0, V):
        if self.noise is None:
            law = Modulus().plain_law(q, slope, V0, V)
            return Law(jnp.square(law.y), law.w, law.weight)
        y, w, weight, _ = self._positive(q, slope, V0)
        return Law(y, w, 2 * weight).unfolded()

    def bayes(self, m, V):
        if self.noise is None:  # y = |z|^2: the Jacobian adds -E log(2|z|), z ~ N(0, rho)
            info = Modulus().bayes(m, V)
            return Information(info.g2, info.phi - (jnp.log(2 * (m + V)) - np.euler_gamma) / 2)
        V = jnp.maximum(V, FINEST * self.variance)
        _, w, weight, (plus, minus) = self._positive(m, 1.0, V)
        out = output_of_halves(*(_pulled(half, jnp.abs(w), V) for half in (plus, minus)))
        return Information(2 * jnp.sum(weight * jnp.square(out.g)), 2 * jnp.sum(weight * out.log_z))

    def _positive(self, q, slope, V0, V=None):
        """Nodes (y, omega) and weights on z > 0, which sum to 1/2, with the halves of the teacher's posterior there.

        ``V``: a student who believes in that variance, whatever is true (V0), weighs its two signs against each other
        at omega = 0, within (V + variance/(4y))/sqrt(y); nodes are graded towards it.
        """
        rho, noise = jnp.square(slope) * q + V0, jnp.sqrt(self.variance)
        edges = graded_edges(0.0, noise, 12 * noise + 160 * rho, 18)[18:]
        y, dy = panel_nodes(jnp.concatenate([-noise * np.array([12.0, 8, 5, 3, 1.5, 0.6]), edges]), 8)
        # where omega lies when y is known and z > 0
        (_, mean, var), _ = self._halves(y, jnp.zeros_like(y), rho)
        tilt, rest = slope * q / rho, q * V0 / rho
        centre, width = tilt * mean, jnp.maximum(jnp.sqrt(rest + jnp.square(tilt) * var), 1e-150)
        fine = jnp.clip(jnp.sqrt(rest), 1e-150, width)
        around = jax.vmap(lambda c, s: graded_edges(c, s, 10 * s, 6))(centre, width)
        far = jnp.abs(centre) + 10 * width
        near = jax.vmap(lambda s, far: graded_edges(0.0, s, far, 6))(fine, far)
        if V is not None:
            size = jnp.maximum(y, noise)
            switch = jnp.clip((V + self.variance / (4 * size)) / jnp.sqrt(size), 1e-12 * far, far)
            near = jnp.concatenate([near, jax.vmap(lambda s, far: graded_edges(0.0, s, far, 12))(switch, far)], 1)
        bound = (centre - 10 * width)[:, None], (centre + 10 * width)[:, None]
        w, dw = jax.vmap(lambda e: panel_nodes(e, 8))(jnp.clip(jnp.concatenate([around, near], 1), *bound))
        y, sd = y[:, None] + 0 * w, weight_floor(q)
        plus, minus = self._halves(y, jnp.abs(slope * w), V0)
        log_p = jnp.where(slope * w >= 0, plus[0], minus[0]) - jnp.square(w / sd) / 2 - jnp.log(sd) - HALF_LOG_2PI
        return y, w, dy[:, None] * dw * jnp.exp(log_p), (plus, minus)

    def label_mse(self, m, V):
        return 2 * V * (2 * m + V) + self.variance

    @property
    def noiseless_rate(self):
        return 1.0 if self.noise is None else 0.0

    def check_labels(self, y, *, by):
        return check_nonnegative(super().check_labels(y, by=by), self, by)


def _pulled(half, w, V):
    """(log weight, pull, bend) from (log weight, mean, variance)."""
    log_p, mean, variance = half
    return log_p, (mean - w) / V, (variance / V - 1) / V


def _positive_root(b, c):
    """The positive root of z^3 + b z - c = 0, c >= 0 (sqrt(max(-b, 0)) at c = 0)."""

    def equation(z):
        slope = 3 * jnp.square(z) + b
        return jnp.where(slope > 0, z**3 + b * z - c, 0.0), jnp.where(slope > 0, slope, 1.0)

    return newton(equation, jnp.sqrt(jnp.maximum(-b, 0.0)) + jnp.cbrt(c), 12)  # falls from an upper bound


def _moments(z, dz, log_p):
    top = jnp.max(log_p, axis=-1, keepdims=True)
    p = dz * jnp.exp(log_p - top)
    total = jnp.sum(p, axis=-1)
    mean = jnp.sum(p * z, axis=-1) / total
    variance = jnp.sum(p * jnp.square(z - mean[..., None]), axis=-1) / total
    return top[..., 0] + jnp.log(total), mean, variance
