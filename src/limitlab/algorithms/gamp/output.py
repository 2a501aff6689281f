"""The output function of a link: what a label tells about the fields of several directions."""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import AccuracyWarning
from limitlab.modules import Module, field, tree_at
from limitlab.numerics.gauss.rules import sobol_points
from limitlab.numerics.quadrants import SIGNS, sectors
from limitlab.problems.links.base import AbstractLink
from limitlab.problems.links.labels import levels, sign_only
from limitlab.verbs import caution

__all__ = ["HELD", "MatrixOutput", "Nodes", "output_of"]

TINY = 1e-13  # of Z: below it a ratio is noise
ANGLES = 24  # nodes of the integral for two signs
BESIDE = 12  # the same beside a real field, where many are averaged
HERMITE = 24  # nodes of an axis, for mean labels
SOBOL = 2048
FEW = 40  # nodes of an axis beside signs, for mean labels
HELD = 2**15  # nodes of all samples of a block
REACH = 5.6  # standard deviations of a field that has a grid
AXIS = {1: (128, 256, 512, 1024), 2: (32, 64, 128, 192)}  # nodes of an axis of one or two of these
CLOUD = (2**11, 2**13, 2**15)  # of more
GOOD = 0.02  # of g: an error that finite size hides
BAD = 0.1  # one that is warned of
PROBES = 40
OVERLAPS = (0.1, 0.5, 0.9)  # where nodes are tried


class Nodes(NamedTuple):
    """Nodes u (N, R) of the fields ``real`` with probabilities (N,); of the others only the signs count."""

    real: tuple[int, ...]
    u: Any
    p: Any


class MatrixOutput(Module):
    """The output function of a link: by sign patterns (their values), or by nodes; ``few`` of them for mean labels."""

    link: AbstractLink = field(static=True)
    sides: tuple[float, float] | None = field(static=True)
    patterns: Any
    real: tuple[int, ...] = field(static=True)
    nodes: Any
    few: Any
    variance: Any
    two: bool = field(static=True)

    def likelihood(self, y: Any, v: Any, xp: Any = jnp) -> Any:
        """P(y|v), up to a factor that does not depend on v, for values v (..., n) along the last axis."""
        if self.sides is not None:
            low, high = self.sides
            up = (v - low) / (high - low)
            if self.variance is None:
                return xp.where(y[..., None] == high, up, 1 - up)
            lead = y * (high - low) / self.variance - (high**2 - low**2) / (2 * self.variance)  # log odds of high
            odds = (1 / (1 + xp.exp(-lead)))[..., None]
            return odds * up + (1 - odds) * (1 - up)
        if self.variance is not None:
            power = -xp.square(y[..., None] - v) / (2 * self.variance)
            return xp.exp(power - xp.max(power, axis=-1, keepdims=True))
        return (xp.abs(y[..., None] - v) < 1e-6).astype(float)

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
        few = Nodes(self.real, *self.few)
        block = max(1, HELD // len(few.p))
        return jax.lax.map(lambda mean: self._averaged(of, few, mean, V), w, batch_size=block)

    def _averaged(self, of, nodes: Nodes, w: jax.Array, V: jax.Array) -> jax.Array:
        at = self._at_nodes(nodes, w, V, jnp)
        P = nodes.p if at.near is None else nodes.p[:, None] * at.near.p
        return jnp.sum(P * of(_values(self.link, at.z, jnp)).reshape(P.shape))

    @property
    def binary(self) -> bool:
        """Whether labels are -1 and +1."""
        return self.variance is None and self.two

    def g(self, y: jax.Array, w: jax.Array, V: jax.Array) -> jax.Array:
        """g (n, K) at labels y (n,) and means w (n, K)."""
        if self.patterns is not None:
            at, P = sectors(w, V, jnp, ANGLES, curved=False), self.likelihood(y, self.patterns)
            return _ratio(jnp.sum(P * at.p, axis=-1), jnp.einsum("ns,nsk->nk", P, at.dp), jnp)
        nodes, block = Nodes(self.real, *self.nodes), max(1, HELD // len(self.nodes[0]))
        return jax.lax.map(lambda one: self.by_nodes(nodes, one[0], one[1], V, jnp), (y, w), batch_size=block)

    def by_nodes(self, nodes: Nodes, y: Any, w: Any, V: Any, xp: Any) -> Any:
        """g (K,) at one label y and means w (K,).

        Real fields have nodes. Given these the others are normal, with probabilities of their signs in closed form.
        """
        at = self._at_nodes(nodes, w, V, xp)
        P = self.likelihood(y, _values(self.link, at.z, xp), xp)
        if at.near is None:
            P = nodes.p * P
            return _ratio(xp.sum(P), P @ at.score, xp)
        P = nodes.p[:, None] * P.reshape(len(nodes.p), -1)
        Z, beside = xp.sum(P * at.near.p), xp.einsum("ns,nsk->k", P, at.near.dp)
        straight = xp.sum(P * at.near.p, axis=1) @ at.score - beside @ at.slope
        parts = dict(zip(nodes.real, straight, strict=True)) | dict(zip(at.rest, beside, strict=True))
        return _ratio(Z, xp.stack([parts[k] for k in range(len(w))]), xp)

    def _at_nodes(self, nodes: Nodes, w: Any, V: Any, xp: Any) -> "_AtNodes":
        real = list(nodes.real)
        rest = [k for k in range(len(w)) if k not in real]
        at, back = V[np.ix_(real, real)], V[np.ix_(rest, real)]
        values, vectors = xp.linalg.eigh(at)
        values = xp.maximum(values, 1e-12)
        shift = nodes.u @ ((vectors * xp.sqrt(values)) @ vectors.T)  # (N, R)
        score = nodes.u @ ((vectors / xp.sqrt(values)) @ vectors.T)
        if not rest:
            return _AtNodes(w + shift, score, None, None, ())
        slope = back @ ((vectors / values) @ vectors.T)  # (S, R): of the others on the real ones
        left = V[np.ix_(rest, rest)] - slope @ back.T
        near = sectors(w[np.array(rest)] + shift @ slope.T, left, xp, BESIDE, curved=False)
        signs, size = SIGNS[len(rest)], (len(shift), 2 ** len(rest))
        fields = {k: xp.broadcast_to((w[k] + shift[:, i])[:, None], size) for i, k in enumerate(real)}
        fields |= {k: xp.broadcast_to(signs[:, i], size) for i, k in enumerate(rest)}
        z = xp.stack([fields[k] for k in range(len(w))], axis=-1).reshape(-1, len(w))
        return _AtNodes(z, score, near, slope, tuple(rest))


class _AtNodes(NamedTuple):
    """Fields z at nodes (times signs of the others), scores (N, R); of the others: signs, slopes, which they are."""

    z: Any
    score: Any
    near: Any
    slope: Any
    rest: tuple[int, ...]


def _values(link: AbstractLink, z: Any, xp: Any) -> Any:
    return link(z) if xp is jnp else link.on_host(z)


def _ratio(Z: Any, slope: Any, xp: Any) -> Any:
    sound = Z > TINY
    return xp.where(sound[..., None], slope / xp.where(sound, Z, 1.0)[..., None], 0.0)


@functools.lru_cache(maxsize=32)
def output_of(link: AbstractLink, width: int, variance: float) -> MatrixOutput:
    """The output function of a link with noise, by the fewest nodes that are good enough (kept)."""
    mean, noise, sides = link.expected, None if variance == 0 else np.asarray(variance), link.sides
    two = _signs(link, width)
    only = sign_only(mean, width)
    if width in SIGNS and all(only):
        return MatrixOutput(mean, sides, mean.on_host(SIGNS[width]), (), None, None, noise, two)
    real = tuple(k for k in range(width) if not only[k])
    if len(real) > 2 or width - len(real) > 2:
        real = tuple(range(width))
    smooth = width <= 2 and (noise is not None or sides is not None) and levels(mean, width) is None
    few = _hermite(width) if smooth else _cloud(width, SOBOL)
    if len(real) < width:
        few = _grid(real, FEW)[1:]
    output = MatrixOutput(mean, sides, None, real, None, few, noise, two)
    nodes = _best(output, link, real, width)
    return tree_at(lambda one: one.nodes, output, (nodes.u, nodes.p), is_leaf=lambda x: x is None)


def _best(output: MatrixOutput, link: AbstractLink, real: tuple[int, ...], width: int) -> Nodes:
    """The fewest nodes that agree with more of them; the most, with a warning, if none does."""
    rng, tried = np.random.default_rng(7), []
    for overlap in OVERLAPS:
        w = np.sqrt(overlap) * rng.normal(size=(PROBES, width))
        value = output.link.on_host(w + np.sqrt(1 - overlap) * rng.normal(size=(PROBES, width)))
        if output.sides is not None:
            low, high = output.sides
            value = np.where(rng.uniform(size=PROBES) < (value - low) / (high - low), high, low)
        noise = 0.0 if output.variance is None else np.sqrt(output.variance) * rng.normal(size=PROBES)
        tried.append((value + noise, w, (1 - overlap) * np.eye(width)))

    def at(nodes):
        return [np.stack([output.by_nodes(nodes, *one, V, np) for one in zip(y, w, strict=True)]) for y, w, V in tried]

    counts = AXIS.get(len(real), CLOUD)
    make = _grid if len(real) in AXIS else _scattered
    nodes, off = make(real, counts[0]), np.inf
    before = at(nodes)
    for count in counts[1:]:
        more = make(real, count)
        after = at(more)
        off = max(
            float(np.sqrt(np.mean((b - a) ** 2) / max(np.mean(b**2), 1e-12)))
            for a, b in zip(before, after, strict=True)
        )
        if off < GOOD:
            return nodes
        nodes, before = more, after
    if off / 2 > BAD:  # more nodes have at most half the error of fewer
        caution(
            f"GAMP on link={link!r}: what a label tells is known to {off / 2:.0%} only, since it changes over lengths "
            "that are small beside the fields. Use a larger variance of the noise.",
            AccuracyWarning,
        )
    return nodes


def _grid(real: tuple[int, ...], count: int) -> Nodes:
    """The middles of even cells, those beyond REACH left out."""
    axis = REACH * (2 * np.arange(count) + 1 - count) / count
    u = np.array(list(itertools.product(axis, repeat=len(real))))
    u = u[np.sum(u**2, axis=1) <= REACH**2]
    p = np.exp(-np.sum(u**2, axis=1) / 2)
    return Nodes(real, u, p / p.sum())


def _scattered(real: tuple[int, ...], count: int) -> Nodes:
    return Nodes(real, *_cloud(len(real), count))


def _cloud(width: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import ndtri

    half = ndtri(sobol_points(width, count // 2, np.random.default_rng(0)))
    return np.concatenate([half, -half]), np.full(count, 1 / count)


def _hermite(width: int) -> tuple[np.ndarray, np.ndarray]:
    x, p = np.polynomial.hermite_e.hermegauss(HERMITE)
    u = np.array(list(itertools.product(x, repeat=width)))
    weight = np.prod(np.array(list(itertools.product(p / p.sum(), repeat=width))), axis=1)
    keep = weight > 1e-12
    return u[keep], weight[keep]


def _signs(link: AbstractLink, width: int) -> bool:
    """Whether labels without noise are -1 and +1."""
    few = levels(link, width) if link.sides is None else np.sort(link.sides)
    return few is not None and few.tolist() == [-1.0, 1.0]
