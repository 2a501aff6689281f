r"""What a prior is: the law of one teacher weight, and its calculus.

Everything follows from the posterior of a weight seen through Gaussian noise,

.. math:: P(w)\, e^{Bw - Aw^2/2} / Z_w(A, B),

its normalisation, mean and variance.
"""

from abc import abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.numerics.gauss.rules import REACH, graded_edges, panel_nodes
from limitlab.problems.part import Part

__all__ = ["AbstractPrior", "BayesWeights", "Posterior"]


class Posterior(NamedTuple):
    """log Z_w, mean f_a and variance f_v of the posterior of a weight."""

    log_z: jax.Array
    mean: jax.Array
    variance: jax.Array


class BayesWeights(NamedTuple):
    """Overlap m = E w f_a, error V = E f_v, and Phi_w = E log Z_w at signal A."""

    m: jax.Array
    V: jax.Array
    phi: jax.Array


class AbstractPrior(Part):
    r"""The law of one weight w, independent of the others, with mean zero.

    To add a prior, write one small file like ``laplace.py`` with a frozen class that has

    - ``second_moment``: E w^2; ``reach``: a size that |w| exceeds with negligible probability (1e-16);
    - ``sample(key, shape)``;
    - ``denoise(A, B)``: `Posterior`, elementwise in JAX, for A from 0 to 1e12;
    - ``dimension``: 1 for a density, the share of the continuous part for a mixture with atoms, 0 if discrete.

    ``bayes`` and ``overlaps`` then follow by a one-dimensional integral; a prior that is concentrated away from 0
    (such as +-1) should replace them, as ``rademacher.py`` does.
    """

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """E w^2."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """|w| is below this but for a probability of 1e-16."""

    @property
    def dimension(self) -> float:
        """Information dimension of the law."""
        return 1.0

    @property
    def entropy(self) -> float:
        """Shannon entropy of a discrete law (dimension 0), in nats."""
        name = type(self).__name__
        raise InputError(f"{name} has no entropy: a law with dimension 0 is discrete and needs one. Give {name} both.")

    @abstractmethod
    def sample(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Independent weights."""

    def vector(self, key: jax.Array, d: int) -> jax.Array:
        """The weights of one teacher in d dimensions."""
        return self.sample(key, (d,))

    @property
    def gaussian(self) -> bool:
        """True if weights are normal: their law is known by its second moment, direction by direction."""
        return False

    def blocks(self, key: jax.Array, places: jax.Array, squares: jax.Array) -> jax.Array:
        """The weights of one teacher whose coordinates belong to ``places`` (d,) among blocks."""
        return self.vector(key, len(places))

    @abstractmethod
    def denoise(self, A: jax.Array, B: jax.Array) -> Posterior:
        """log Z_w(A, B), posterior mean and variance, elementwise."""

    def bayes(self, A: jax.Array) -> BayesWeights:
        r"""m, V and Phi_w at signal A: B has the density N(B; 0, A) Z_w(A, B)."""
        B, p = self._nodes(A, A, A)
        post = self.denoise(A, B)
        m, V = jnp.sum(p * jnp.square(post.mean)), jnp.sum(p * post.variance)
        rho = self.second_moment  # the smaller of m and V keeps its digits, the other is what remains
        return BayesWeights(jnp.where(m < V, m, rho - V), jnp.where(m < V, rho - m, V), jnp.sum(p * post.log_z))

    def overlaps(self, m_hat: jax.Array, q_hat: jax.Array, A: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        r"""m = E[w f_a], q = E[f_a^2], V = E[f_v] for f_a(A, B), B = m_hat w + sqrt(q_hat) z (A need not match)."""
        q_hat = jnp.maximum(q_hat, 1e-300)
        B, p = self._nodes(m_hat, q_hat, A)
        truth = self.denoise(jnp.square(m_hat) / q_hat, m_hat * B / q_hat)
        post = self.denoise(A, B)
        return jnp.sum(p * truth.mean * post.mean), jnp.sum(p * jnp.square(post.mean)), jnp.sum(p * post.variance)

    def _nodes(self, m_hat, q_hat, A):
        """B = m_hat w + sqrt(q_hat) z: nodes and probabilities."""
        root = jnp.sqrt(q_hat)
        far = REACH * root + jnp.abs(m_hat) * self.reach
        scale = 0.3 * jnp.minimum(root, jnp.sqrt(jnp.maximum(A, 1e-300)))
        B, dB = panel_nodes(graded_edges(0.0, scale, far, 40))
        return B, jnp.exp(self.log_evidence(m_hat, q_hat, B)) * dB

    def log_evidence(self, m_hat: jax.Array, q_hat: jax.Array, B: jax.Array) -> jax.Array:
        """The log density of B = m_hat w + sqrt(q_hat) z; replace it where large terms would cancel."""
        log_z = self.denoise(jnp.square(m_hat) / q_hat, m_hat * B / q_hat).log_z
        return log_z - jnp.square(B) / (2 * q_hat) - 0.5 * jnp.log(2 * jnp.pi * q_hat)
