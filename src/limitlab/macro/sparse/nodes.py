"""Quadrature nodes for the law of the neurons at the start: second layer a, latent weights u, norm s of the rest."""

from typing import NamedTuple

import numpy as np

from limitlab.algorithms.settings.one_pass import SparseOnePass
from limitlab.numerics.gauss.rules import chi_square_rule, hermite, panel_nodes, sobol_points
from limitlab.problems.starts.neurons import Neurons

__all__ = ["Nodes", "Rule", "product_nodes", "second_layer_nodes", "sobol_nodes", "start_nodes"]

ORDER = 12  # Gauss nodes of a panel
FARTHEST = 8.5  # of a Gaussian second layer


class Nodes(NamedTuple):
    """Values at time 0, weights that sum to 1; ``even``: a and -a weigh the same; ``exact``: no finer rule exists."""

    a: np.ndarray
    u: np.ndarray
    s: np.ndarray
    weights: np.ndarray
    even: bool
    exact: bool


def _panels(level: int, end: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes on (0, end) in ``level`` panels to 1, graded towards 0, where a layer forms: small |a| are slow."""
    edges = np.concatenate([[0.0], np.geomspace(0.16 / level, 1.0, level)]) if level > 1 else np.array([0.0, 1.0])
    if end > 1:
        edges = np.concatenate([edges, np.geomspace(1.0, end, 1 + max(2, level))[1:]])
    return panel_nodes(edges, order)


def second_layer_nodes(neurons: Neurons, level: int, order: int = ORDER) -> tuple[np.ndarray, np.ndarray, bool, bool]:
    """Nodes and weights of the law of a at the start, whether it is even, and whether the rule is exact."""
    if neurons.given is not None:
        values, counts = np.unique(neurons.given, return_counts=True)
        even = bool(np.array_equal(values, -values[::-1]) and np.array_equal(counts, counts[::-1]))
        return values, counts / counts.sum(), even, True
    scale = float(neurons.layer_scale)
    if neurons.layer == "ones":
        return np.array([scale]), np.ones(1), False, True
    if neurons.layer == "rademacher":
        return np.array([-scale, scale]), np.array([0.5, 0.5]), True, True
    gaussian = neurons.layer == "gaussian"
    if not gaussian and scale > 1:  # few units are slow, and all panels count alike
        a, w = panel_nodes(np.linspace(0.0, 1.0, level + 1), order)
    else:
        a, w = _panels(level, FARTHEST if gaussian else 1.0, order)
    w = w * (np.exp(-(a**2) / 2) if gaussian else 1.0)
    a, w = np.concatenate([-a[::-1], a]), np.concatenate([w[::-1], w])
    return scale * a, w / w.sum(), True, False


def start_nodes(setting: SparseOnePass, level: int) -> Nodes:
    """Infinite dimension: u = 0 and s = scale."""
    neurons, P = setting.neurons, setting.teacher.latent
    a, weights, even, exact = second_layer_nodes(neurons, level)
    return Nodes(a, np.zeros((len(a), P)), np.full(len(a), float(neurons.scale)), weights, even, exact)


class Rule(NamedTuple):
    """Gauss nodes of a product rule: in a on a panel, panels on either side of 0, in each latent direction, in s."""

    second: int
    panels: int
    latent: int
    rest: int

    def size(self, neurons: Neurons, P: int) -> int:
        return len(second_layer_nodes(neurons, self.panels, self.second)[0]) * self.latent**P * self.rest


def product_nodes(setting: SparseOnePass, d: int, rule: Rule) -> Nodes:
    r"""A product rule in d dimensions: :math:`u \sim N(0, \kappa^2 I_P/d)`, :math:`s^2 = \kappa^2\chi^2_{d-P}/d`."""
    neurons, P = setting.neurons, setting.teacher.latent
    a, weights, even, _ = second_layer_nodes(neurons, rule.panels, rule.second)
    x, w = hermite(rule.latent)
    chi, chi_weights = chi_square_rule(d - P, rule.rest)
    grids = np.meshgrid(np.arange(len(a)), np.arange(len(chi)), *[np.arange(rule.latent)] * P, indexing="ij")
    index = [grid.ravel() for grid in grids]
    total = weights[index[0]] * chi_weights[index[1]]
    for axis in index[2:]:
        total = total * w[axis]
    g = np.stack([x[axis] for axis in index[2:]], axis=1) if P else np.zeros((len(total), 0))
    return _placed(a[index[0]], g, chi[index[1]], total, even, neurons, d)


def _placed(a, g, chi, weights, even: bool, neurons: Neurons, d: int) -> Nodes:
    norm = np.sum(g**2, axis=1) + chi if neurons.sphere else float(d)
    scale = float(neurons.scale)
    return Nodes(a, scale * g / np.sqrt(norm)[..., None], scale * np.sqrt(chi / norm), weights, even, False)


def sobol_nodes(setting: SparseOnePass, d: int, particles: int, seed: int) -> Nodes:
    """The same law by scrambled Sobol points in all coordinates, each with its mirror image in u."""
    from scipy.special import gammaincinv, ndtri

    neurons, P = setting.neurons, setting.teacher.latent
    half = max(1, particles // 2)
    points = sobol_points(P + 2, half, np.random.default_rng(seed))
    if neurons.given is None and neurons.layer in ("uniform", "gaussian"):
        a = 2 * points[:, 0] - 1 if neurons.layer == "uniform" else ndtri(points[:, 0])
        a = float(neurons.layer_scale) * a
    else:
        values, shares, _, _ = second_layer_nodes(neurons, 1)
        a = values[np.minimum(np.searchsorted(np.cumsum(shares), points[:, 0]), len(values) - 1)]
    chi = 2 * gammaincinv((d - P) / 2, points[:, 1]) if d > P else np.zeros(half)
    g = ndtri(points[:, 2:])
    even = second_layer_nodes(neurons, 1)[2]
    a, chi, g = np.concatenate([a, a]), np.concatenate([chi, chi]), np.concatenate([g, -g])
    return _placed(a, g, chi, np.full(len(a), 1 / len(a)), even, neurons, d)
