r"""Nodes and weights for Gaussian expectations :math:`E\,g(z)`, :math:`z \sim N(0, I_r)`.

The trapezoid rule on a cube, cut to the ball where the Gaussian weight matters, converges geometrically for
smooth integrands and beats Gauss-Hermite for functions with poles (tanh). In more than four dimensions a product
rule is out of reach and scrambled Sobol points take over. Every rule has a twin with other nodes; the difference
between the two is the error estimate.
"""

import equinox as eqx
import jax
import numpy as np

__all__ = ["GaussianRule", "gegenbauer_rule", "normal_rule", "trapezoid_steps"]

# Step of the trapezoid rule by dimension: the finest that keeps the number of nodes below about 4e5.
trapezoid_steps = {1: 0.05, 2: 0.12, 3: 0.25, 4: 0.5}
RADIUS = 8.2  # exp(-RADIUS**2/2) = 2.5e-15
SOBOL_POINTS = 2**15


class GaussianRule(eqx.Module):
    """Nodes (n, r) and weights (n,) summing to one."""

    nodes: np.ndarray | jax.Array
    weights: np.ndarray | jax.Array
    name: str = eqx.field(static=True)


def _trapezoid(r: int, twin: bool) -> GaussianRule:
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


def _sobol(r: int, twin: bool) -> GaussianRule:
    from scipy.special import ndtri
    from scipy.stats import qmc

    points = qmc.Sobol(r, scramble=True, rng=np.random.default_rng(1 if twin else 0)).random(SOBOL_POINTS // 2)
    half = ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    nodes = np.concatenate([half, -half])
    # Whiten, so that second moments (and, by the mirror image, all odd ones) are exact.
    values, vectors = np.linalg.eigh(nodes.T @ nodes / len(nodes))
    nodes = nodes @ (vectors / np.sqrt(values)) @ vectors.T
    weights = np.full(len(nodes), 1 / len(nodes))
    return GaussianRule(nodes, weights, f"scrambled Sobol points in {r} fields, {len(nodes)} nodes")


def normal_rule(r: int, twin: bool = False) -> GaussianRule:
    """A rule for r independent standard normals; ``twin=True`` gives one with other nodes, for error estimates."""
    if r < 1:
        raise ValueError(f"r must be at least 1, got {r}")
    return _trapezoid(r, twin) if r in trapezoid_steps else _sobol(r, twin)


def gegenbauer_rule(n: int, nodes: int = 24) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes and weights for one coordinate of a uniform point on the unit sphere of :math:`R^n`.

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
