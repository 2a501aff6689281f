"""Labels that are the output itself, with or without Gaussian noise."""

from typing import ClassVar

import jax.numpy as jnp

from limitlab.numerics.gauss.normal import log_normal, measure
from limitlab.numerics.gauss.rules import REACH, graded_edges, normal_nodes, panel_nodes
from limitlab.problems.channels.base import Law, Output, weight_floor
from limitlab.problems.channels.noisy import AbstractNoisyChannel
from limitlab.problems.predictor import ORDER, TEACHER, Fields, around

__all__ = ["GaussianNoise"]


class GaussianNoise(AbstractNoisyChannel):
    r""":math:`y = z + \sqrt{\mathrm{variance}}\,\xi`."""

    on_a_line: ClassVar[bool] = True

    def clean(self, z):
        return z

    def told(self, z, xp):
        return z

    def output(self, y, w, V):
        T = V + self.variance
        return Output(log_normal(y, w, T), (y - w) / T, -1 / T + 0 * (y + w))

    def mean_label(self, w, V):
        return w

    def law(self, q, slope, V0, V):
        x, p = normal_nodes()
        w = weight_floor(q) * (x[:, None] + 0 * x)
        y = slope * w + jnp.sqrt(V0 + self.variance) * x
        return Law(y, w, jnp.asarray(p[:, None] * p))

    def label_mse(self, m, V):
        return V + self.variance

    def label_moments(self, rho):
        noise = jnp.asarray(self.variance, float)
        return jnp.ones(()), jnp.asarray(rho, float) + noise, noise

    def fields(self, loss, p, V):
        r"""Of a residual loss only r = y - omega ~ N(0, s^2) counts, and E f0 g = E dg/dy = E r g / s^2 by parts."""
        if loss.of != "residual":
            return super().fields(loss, p, V)
        variance = self.label_error(p)
        sd = jnp.sqrt(variance)
        centres, width = loss.features(V)
        edges = [graded_edges(0.0, 1.0, REACH, TEACHER)]
        edges += [around(jnp.asarray(c) / sd, None if loss.sharp else width / sd) for c in centres]
        v, dv = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH, REACH), ORDER)
        r = sd * v
        return Fields(r, jnp.zeros_like(r), r / variance, measure(v, dv))

    @property
    def noiseless_rate(self):
        return 1.0 if self.noise is None else 0.0
