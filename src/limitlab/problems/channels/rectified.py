"""Labels cut off at zero."""

import jax.numpy as jnp

from limitlab.numerics.gauss.normal import log_ndtr, log_normal, mills, truncated_variance
from limitlab.numerics.gauss.rules import REACH, graded_edges, normal_nodes, panel_nodes
from limitlab.problems.channels.base import Information, Law, Output, weight_floor
from limitlab.problems.channels.modulus import output_of_halves, positive_half, positive_lobe
from limitlab.problems.channels.noisy import AbstractNoisyChannel, check_nonnegative

__all__ = ["Rectified"]


class Rectified(AbstractNoisyChannel):
    r""":math:`y = \max(z, 0) + \sqrt{\mathrm{variance}}\,\xi`.

    Without noise y = 0 is an atom: it has a probability, the rest a density.
    """

    def clean(self, z):
        return jnp.maximum(z, 0.0)

    def told(self, z, xp):
        return xp.maximum(z, 0.0)

    def output(self, y, w, V):
        root = jnp.sqrt(V)
        t = -w / root
        if self.noise is None:
            dark = y == 0
            log_z = jnp.where(dark, log_ndtr(t), log_normal(y, w, V))
            g = jnp.where(dark, -mills(t) / root, (y - w) / V)
            return Output(log_z, g, jnp.where(dark, truncated_variance(t) - 1, -1.0) / V)
        minus = (
            log_normal(y, 0.0, self.variance) + log_ndtr(t),
            -mills(t) / root,
            (truncated_variance(t) - 1) / V,
        )
        return output_of_halves(positive_lobe(y, w, V, self.variance), minus)

    def mean_label(self, w, V):
        s = w / jnp.sqrt(V)
        return w * jnp.exp(log_ndtr(s)) + jnp.sqrt(V) * jnp.exp(log_normal(s, 0.0, 1.0))

    def law(self, q, slope, V0, V):
        if self.noise is None:
            return self.plain_law(q, slope, V0, V)
        # z < 0 and z > 0 are equally likely to the student at omega = y - y sqrt(T/noise)
        ratio = jnp.sqrt(1 + V / self.variance)
        return self._law(q, slope, V0, V, (ratio - 1, self.variance * ratio))

    def plain_law(self, q, slope, V0, V):
        return self._law(q, slope, V0, V, None)

    def bayes(self, m, V):
        law = self.plain_law(m, jnp.ones_like(m), V, V)
        out = self.output(law.y, law.w, V)
        return Information(law.mean(jnp.square(out.g)), law.mean(out.log_z))

    def _law(self, q, slope, V0, V, switch):
        lit = Law(*(x.ravel() for x in positive_half(q, slope, V0, V, self.variance, switch)))
        sd = weight_floor(q)
        edges = [graded_edges(0.0, 1.0, REACH)]
        for width in (jnp.sqrt(V), jnp.sqrt(V0) / jnp.maximum(jnp.abs(slope), 1e-6)):
            edges.append(graded_edges(0.0, jnp.clip(width / sd, 1e-14, 1.0), REACH))
        v, dv = panel_nodes(jnp.concatenate(edges))
        w = sd * v
        weight = dv * jnp.exp(log_normal(v, 0.0, 1.0) + log_ndtr(-slope * w / jnp.sqrt(V0)))
        if self.noise is None:
            dark = Law(jnp.zeros_like(w), w, weight)
        else:
            x, p = normal_nodes()
            y = jnp.sqrt(self.variance) * (x + 0 * w[:, None])
            dark = Law(y.ravel(), (w[:, None] + 0 * x).ravel(), (weight[:, None] * p).ravel())
        return Law(*(jnp.concatenate(pair) for pair in zip(lit, dark, strict=True)))

    def label_mse(self, m, V):
        rho = m + V
        angle = jnp.arctan2(jnp.sqrt(V * (2 * m + V)), m)
        kept = jnp.sin(angle) - angle * jnp.cos(angle)
        return rho * (jnp.square(jnp.sin(angle / 2)) - kept / (2 * jnp.pi)) + self.variance

    @property
    def noiseless_rate(self):
        return 0.5 if self.noise is None else 0.0

    def check_labels(self, y, *, by):
        return check_nonnegative(super().check_labels(y, by=by), self, by)
