"""Binary weights."""

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.normal import measure, sech_squared
from limitlab.numerics.gauss.rules import REACH, graded_edges, panel_nodes
from limitlab.problems.priors.base import AbstractPrior, BayesWeights, Posterior

__all__ = ["RademacherPrior"]


def _log_cosh(x):
    return jnp.abs(x) + jnp.log1p(jnp.exp(-2 * jnp.abs(x))) - jnp.log(2.0)


class RademacherPrior(AbstractPrior):
    r""":math:`w = \pm 1` with equal odds.

    .. math:: 1 - m = e^{-A/2}\, E\, \mathrm{sech}(\sqrt A z), \qquad
              \Phi_w = -\tfrac A2 + E \log\cosh(A + \sqrt A z)
    """

    @property
    def second_moment(self):
        return 1.0

    @property
    def reach(self):
        return 1.0

    @property
    def dimension(self):
        return 0.0

    @property
    def entropy(self):
        return float(np.log(2.0))

    def sample(self, key, shape):
        return jax.random.rademacher(key, shape, float)

    def denoise(self, A, B):
        return Posterior(_log_cosh(B) - A / 2, jnp.tanh(B), sech_squared(B) + 0 * A)

    def bayes(self, A):
        root = jnp.sqrt(jnp.maximum(A, 1e-300))
        z, p = self._nodes_of(root, root)
        V = jnp.exp(-A / 2) * jnp.sum(p / jnp.cosh(jnp.minimum(jnp.abs(root * z), 700.0)))
        # For small A the sum m = E tanh^2(B) keeps its digits, 1 - V does not; for large A both do.
        B = A + root * z
        m = jnp.sum(p * jnp.square(jnp.tanh(B)))
        phi = jnp.sum(p * _log_cosh(B)) - A / 2
        return BayesWeights(jnp.where(A < 1.0, m, 1 - V), V, phi)

    def overlaps(self, m_hat, q_hat, A):
        root = jnp.sqrt(jnp.maximum(q_hat, 1e-300))
        z, p = self._nodes_of(m_hat / root, root)
        B = m_hat + root * z
        return jnp.sum(p * jnp.tanh(B)), jnp.sum(p * jnp.square(jnp.tanh(B))), jnp.sum(p * sech_squared(B))

    def _nodes_of(self, shift, root):
        """Nodes z and probabilities of a standard normal, graded towards 0 and towards B = 0 at z = -shift."""
        fine = jnp.clip(1 / root, 1e-12, 1.0)
        edges = [graded_edges(0.0, fine, REACH), graded_edges(jnp.clip(-shift, -REACH, REACH), fine, 2 * REACH)]
        z, dz = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH, REACH))
        return z, measure(z, dz)
