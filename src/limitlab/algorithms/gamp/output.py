"""The output function of a link: what a label tells about the fields of several directions."""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.rules import sobol_points
from limitlab.numerics.quadrants import SIGNS, sectors
from limitlab.problems.links.base import AbstractLink
from limitlab.problems.links.labels import levels, sign_only

__all__ = ["BLOCK", "SOBOL", "MatrixOutput", "output_of"]

TINY = 1e-13  # of Z: below it a ratio is noise
ANGLES = 24  # nodes of the integral for two signs
HERMITE = 24  # nodes of an axis
SOBOL = 2048
BLOCK = 128  # samples whose nodes are held at once


class MatrixOutput(eqx.Module):
    """The output function of a link: by sign patterns (their values), or by nodes u (N, K) with probabilities."""

    link: AbstractLink = eqx.field(static=True)
    sides: tuple[float, float] | None = eqx.field(static=True)
    patterns: Any
    nodes: Any
    variance: Any
    two: bool = eqx.field(static=True)

    def likelihood(self, y: jax.Array, v: jax.Array) -> jax.Array:
        """P(y|v), up to a factor that does not depend on v, for values v (..., n) along the last axis."""
        if self.sides is not None:
            low, high = self.sides
            up = (v - low) / (high - low)
            if self.variance is None:
                return jnp.where(y[..., None] == high, up, 1 - up)
            lead = y * (high - low) / self.variance - (high**2 - low**2) / (2 * self.variance)  # log odds of high
            odds = jax.nn.sigmoid(lead)[..., None]
            return odds * up + (1 - odds) * (1 - up)
        if self.variance is not None:
            power = -jnp.square(y[..., None] - v) / (2 * self.variance)
            return jnp.exp(power - jnp.max(power, axis=-1, keepdims=True))
        return (jnp.abs(y[..., None] - v) < 1e-6).astype(float)

    def mean(self, w: jax.Array, V: jax.Array) -> jax.Array:
        """E[y] (n,) for fields of means w (n, K) and covariance V."""
        return self._average(lambda v: v, w, V)

    def square(self, V: jax.Array) -> jax.Array:
        """E y^2 for fields of means 0 and covariance V."""
        noise = 0.0 if self.variance is None else self.variance

        def of(v):
            if self.sides is None:
                return jnp.square(v)
            low, high = self.sides
            return low**2 + (high**2 - low**2) * (v - low) / (high - low)

        return self._average(of, jnp.zeros((1, len(V))), V)[0] + noise

    def _average(self, of, w: jax.Array, V: jax.Array) -> jax.Array:
        if self.patterns is not None:
            return sectors(w, V, jnp, ANGLES, curved=False).p @ of(jnp.asarray(self.patterns))
        u, p = self.nodes
        values, vectors = jnp.linalg.eigh(V)
        spread = u @ ((vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T)
        return jax.lax.map(lambda mean: p @ of(self.link(mean + spread)), w, batch_size=BLOCK)

    @property
    def binary(self) -> bool:
        """Whether labels are -1 and +1."""
        return self.variance is None and self.two

    def g(self, y: jax.Array, w: jax.Array, V: jax.Array) -> jax.Array:
        """g (n, K) at labels y (n,) and means w (n, K)."""
        if self.patterns is not None:
            at, P = sectors(w, V, jnp, ANGLES, curved=False), self.likelihood(y, self.patterns)
            return _ratio(jnp.sum(P * at.p, axis=-1), jnp.einsum("ns,nsk->nk", P, at.dp))
        u, p = self.nodes
        values, vectors = jnp.linalg.eigh(V)
        values = jnp.maximum(values, 1e-12)
        half, back = (vectors * jnp.sqrt(values)) @ vectors.T, (vectors / jnp.sqrt(values)) @ vectors.T
        spread = u @ half

        def one(pair):
            label, mean = pair
            P = p * self.likelihood(label, self.link(mean + spread))
            return _ratio(jnp.sum(P), P @ u) @ back

        return jax.lax.map(one, (y, w), batch_size=BLOCK)


def _ratio(Z: jax.Array, slope: jax.Array) -> jax.Array:
    sound = Z > TINY
    return jnp.where(sound[..., None], slope / jnp.where(sound, Z, 1.0)[..., None], 0.0)


def output_of(link: AbstractLink, width: int, variance: float) -> MatrixOutput:
    """The output function of a link with noise."""
    mean, noise, sides = link.expected, None if variance == 0 else np.asarray(variance), link.sides
    two = _signs(link, width)
    if width <= 2 and all(sign_only(mean, width)):
        return MatrixOutput(mean, sides, mean.on_host(SIGNS[width]), None, noise, two)
    if width <= 2 and (noise is not None or sides is not None) and levels(mean, width) is None:
        x, p = np.polynomial.hermite_e.hermegauss(HERMITE)
        u = np.array(list(itertools.product(x, repeat=width)))
        weight = np.prod(np.array(list(itertools.product(p / p.sum(), repeat=width))), axis=1)
        keep = weight > 1e-12
        return MatrixOutput(mean, sides, None, (u[keep], weight[keep]), noise, two)
    from scipy.special import ndtri

    u = ndtri(sobol_points(width, SOBOL // 2, np.random.default_rng(0)))
    u = np.concatenate([u, -u])
    return MatrixOutput(mean, sides, None, (u, np.full(len(u), 1 / len(u))), noise, two)


def _signs(link: AbstractLink, width: int) -> bool:
    """Whether labels without noise are -1 and +1."""
    few = levels(link, width) if link.sides is None else np.sort(link.sides)
    return few is not None and few.tolist() == [-1.0, 1.0]
