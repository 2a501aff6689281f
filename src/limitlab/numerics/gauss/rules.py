r"""Every rule of quadrature: nodes and weights with :math:`\int f \approx \sum_i w_i f(x_i)`.

* *Gauss rules* (Legendre, Hermite, Gegenbauer, chi-square): n nodes are exact for polynomials of degree 2n - 1.
* *Panels*: Gauss-Legendre rules side by side, graded towards the places where an integrand changes quickly.
  Gauss-Hermite rules miss features that are much narrower than the Gaussian weight (a posterior variance of 1e-10
  under a prior variance of 1). Panels whose lengths grow geometrically from the narrowest scale to the widest see all
  scales with a fixed number of nodes, so that one compiled rule serves every parameter.
* *Trapezoid rules* converge geometrically for smooth integrands under a Gaussian weight and beat Gauss-Hermite for
  functions with poles (tanh).
* *Sobol points* take over where a product rule is out of reach.
"""

import math
from functools import cache
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import Module, field

__all__ = [
    "GaussianRule",
    "between",
    "chi_square_rule",
    "direction_rule",
    "gegenbauer_rule",
    "graded_edges",
    "half_line",
    "hermite",
    "legendre",
    "length_edges",
    "length_nodes",
    "normal_nodes",
    "normal_rule",
    "normal_weights",
    "panel_nodes",
    "product_rule",
    "sobol_points",
    "trapezoid_steps",
]

REACH = 12.0  # standard deviations kept: exp(-72) is nothing
PER_SIDE = 16
ORDER = 12

# Step of the trapezoid rule by dimension: the finest that keeps the number of nodes below about 4e5.
trapezoid_steps = {1: 0.05, 2: 0.12, 3: 0.25, 4: 0.5}
RADIUS = 8.2  # exp(-RADIUS**2/2) = 2.5e-15
SOBOL_POINTS = 2**15
SMALL = 16  # below, one coordinate of a direction does not vanish smoothly enough at its ends for the trapezoid rule
LONG = 6.0  # of a chi variable, whose deviation is about 0.7

Rule = tuple[np.ndarray, np.ndarray]
Either = TypeVar("Either", np.ndarray, jax.Array)


# --- Gauss rules of one variable ---------------------------------------------------------------------------------


@cache
def legendre(order: int) -> Rule:
    """The uniform weight on [-1, 1]; weights sum to 2."""
    return _fixed(*np.polynomial.legendre.leggauss(order))


@cache
def hermite(order: int) -> Rule:
    """A standard normal; weights sum to 1."""
    x, w = np.polynomial.hermite_e.hermegauss(order)
    return _fixed(x, w / w.sum())


def gegenbauer_rule(n: int, nodes: int = 24) -> Rule:
    r"""One coordinate of a uniform point on the unit sphere of :math:`R^n`; weights sum to 1.

    Density proportional to (1 - x^2)^((n-3)/2); n = 2 is the arcsine law, n = 1 the fair coin +-1.
    """
    from scipy.special import roots_gegenbauer

    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if n == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    if n == 2:
        x = np.cos((2 * np.arange(nodes) + 1) * np.pi / (2 * nodes))
        return x, np.full(nodes, 1 / nodes)
    x, w = roots_gegenbauer(nodes, (n - 2) / 2)
    return x, w / w.sum()


def chi_square_rule(freedom: int, count: int) -> Rule:
    """A chi-square variable, from the recurrence of the Laguerre polynomials; weights sum to 1."""
    if freedom == 0:
        return np.zeros(1), np.ones(1)
    k, alpha = np.arange(count), freedom / 2 - 1
    off = np.sqrt(k[1:] * (k[1:] + alpha))
    x, vectors = np.linalg.eigh(np.diag(2 * k + 1 + alpha) + np.diag(off, 1) + np.diag(off, -1))
    return 2 * x, vectors[0] ** 2


def _fixed(x: np.ndarray, w: np.ndarray) -> Rule:
    """Arrays that everybody shares are not to be changed."""
    x.flags.writeable = w.flags.writeable = False
    return x, w


# --- panels ------------------------------------------------------------------------------------------------------


def between(low: Either, high: Either, order: int) -> tuple[Either, Either]:
    """Gauss-Legendre nodes and weights (..., order) from ``low`` (...) to ``high`` (...), of either kind of array."""
    x, w = legendre(order)
    half, middle = (high - low)[..., None] / 2, (high + low)[..., None] / 2
    return middle + half * x, half * w


def panel_nodes(edges: Either, order: int = ORDER) -> tuple[Either, Either]:
    """Nodes and weights between neighbouring edges (sorted here; empty panels weigh 0), of either kind of array."""
    edges = jnp.sort(edges, -1) if isinstance(edges, jax.Array) else np.sort(edges, -1)
    x, w = between(edges[..., :-1], edges[..., 1:], order)
    return x.reshape(*edges.shape[:-1], -1), w.reshape(*edges.shape[:-1], -1)


def graded_edges(centre: jax.Array | float, scale: jax.Array | float, reach: jax.Array | float, per_side=PER_SIDE):
    """Edges centre +- s, s growing from a fraction of ``scale`` to ``reach`` like a hyperbolic sine."""
    scale = jnp.minimum(scale, reach)
    x = jnp.linspace(0.0, 1.0, per_side + 1)[1:] * jnp.arcsinh(reach / scale)
    s = scale * jnp.sinh(x)
    return jnp.concatenate([centre - s[::-1], jnp.asarray(centre, float)[None], centre + s])


def half_line(scale: jax.Array | float, reach: jax.Array | float, order: int = ORDER, per_side=PER_SIDE):
    """Nodes and weights on [0, reach], graded towards 0."""
    edges = graded_edges(0.0, scale, reach, per_side)
    return panel_nodes(edges[per_side:], order)


# --- normal variables --------------------------------------------------------------------------------------------


def normal_weights(x: np.ndarray, dx: np.ndarray | float = 1.0) -> np.ndarray:
    """Weights of nodes x for a standard normal, which sum to 1; ``dx`` are those for dx (1: equal steps)."""
    w = dx * np.exp(-(x**2) / 2)
    return w / w.sum()


def normal_nodes(step: float = 0.25, reach: float = 9.0) -> Rule:
    """The trapezoid rule for a standard normal: spectral accuracy for smooth integrands of its own scale."""
    half = int(np.ceil(reach / step))
    x = step * np.arange(-half, half + 1)
    return x, normal_weights(x)


class GaussianRule(Module):
    """Nodes (n, r) and weights (n,) summing to one."""

    nodes: np.ndarray | jax.Array
    weights: np.ndarray | jax.Array
    name: str = field(static=True)


def normal_rule(r: int, twin: bool = False) -> GaussianRule:
    """A rule for r independent standard normals; ``twin=True`` gives one with other nodes, for error estimates."""
    if r < 1:
        raise ValueError(f"r must be at least 1, got {r}")
    return _ball(r, twin) if r in trapezoid_steps else _sobol(r, twin)


def _ball(r: int, twin: bool) -> GaussianRule:
    """The trapezoid rule on a cube, cut to the ball where the Gaussian weight matters."""
    h = trapezoid_steps[r]
    half = int(np.ceil(RADIUS / h))
    axis = h * (np.arange(-half, half + 1) + (0.5 if twin else 0.0))
    # Build axis by axis and cut to the ball at once, so that the full cube is never stored.
    nodes, square = np.zeros((1, 0)), np.zeros(1)
    for _ in range(r):
        total = square[:, None] + axis[None, :] ** 2
        row, column = np.nonzero(total <= RADIUS**2)
        nodes = np.concatenate([nodes[row], axis[column, None]], axis=1)
        square = total[row, column]
    weights = np.exp(-square / 2)
    return GaussianRule(nodes, weights / weights.sum(), f"trapezoid rule in {r} fields, {len(weights)} nodes")


def product_rule(x: np.ndarray, w: np.ndarray, n: int, least: float = 0.0) -> Rule:
    """All n-tuples of nodes whose weight exceeds ``least`` times the largest, and the weights, summing to one."""
    nodes, weights = np.zeros((1, 0)), np.ones(1)
    for _ in range(n):
        total = weights[:, None] * w[None, :] / w.max()
        row, column = np.nonzero(total > least)
        nodes, weights = np.concatenate([nodes[row], x[column, None]], axis=1), total[row, column]
    return nodes, weights / weights.sum()


def sobol_points(dimension: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Scrambled Sobol points (count, dimension) strictly inside the unit cube."""
    from scipy.stats import qmc  # slow to import

    points = qmc.Sobol(dimension, scramble=True, rng=rng).random_base2(max(0, math.ceil(math.log2(count))))[:count]
    return np.clip(points, 1e-12, 1 - 1e-12)


def _sobol(r: int, twin: bool) -> GaussianRule:
    from scipy.special import ndtri

    half = ndtri(sobol_points(r, SOBOL_POINTS // 2, np.random.default_rng(1 if twin else 0)))
    nodes = np.concatenate([half, -half])
    # Whiten, so that second moments (and, by the mirror image, all odd ones) are exact.
    values, vectors = np.linalg.eigh(nodes.T @ nodes / len(nodes))
    nodes = nodes @ (vectors / np.sqrt(values)) @ vectors.T
    weights = np.full(len(nodes), 1 / len(nodes))
    return GaussianRule(nodes, weights, f"scrambled Sobol points in {r} fields, {len(nodes)} nodes")


# --- directions and lengths --------------------------------------------------------------------------------------


def direction_rule(d: int, nodes: int, reach: float) -> Rule:
    r""":math:`\sqrt d\,\omega_1` of a random direction: Gauss rules, and in many dimensions the trapezoid rule in the
    latitude, up to ``reach`` standard deviations."""
    if d < SMALL:
        x, weights = gegenbauer_rule(d, nodes)
        return math.sqrt(d) * x, weights
    top = math.asin(min(1.0, reach / math.sqrt(d)))
    sine = np.sin(np.linspace(-top, top, nodes))
    weights = np.exp((d - 2) / 2 * np.log1p(-np.minimum(np.square(sine), 1 - 1e-16)))
    return math.sqrt(d) * sine, weights / weights.sum()


def length_edges(d: float, panels: int) -> np.ndarray:
    """Equal panels that cover the law of a length to 8 standard deviations."""
    peak = math.sqrt(d - 1)
    return np.linspace(max(0.0, peak - LONG), peak + LONG, panels + 1)


def length_nodes(d: float, edges: np.ndarray | int, order: int = 16) -> Rule:
    r""":math:`|z|/\sqrt d`, :math:`z \sim N(0, I_d)`: Gauss panels times the density of chi_d.

    ``edges`` are those of the panels for |z|, or how many equal ones there are.
    """
    if math.isinf(d):
        return np.ones(1), np.ones(1)
    chi, dchi = panel_nodes(length_edges(d, edges) if isinstance(edges, int) else edges, order)
    log_density = (d - 1) * np.log(chi) - chi**2 / 2
    weights = dchi * np.exp(log_density - log_density.max())
    return chi / math.sqrt(d), weights / weights.sum()
