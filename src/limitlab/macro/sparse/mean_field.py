"""Infinite width at a finite dimension: the flow of `DimensionFree` from the start that the dimension gives."""

from typing import Any, NamedTuple

import numpy as np

from limitlab.algorithms.settings.one_pass import SparseOnePass
from limitlab.macro.sparse.dimension_free import refined, warn_nodes
from limitlab.macro.sparse.nodes import Nodes, latent_nodes, second_layer_nodes
from limitlab.macro.sparse.solve import Path, solve_path
from limitlab.problems.sparse.representable import warn_unreachable

__all__ = ["MOST", "SparsePlan", "solve_sparse"]

LEVELS = (1, 2, 4, 8)  # panels in a on either side of 0
ORDERS = (5, 7, 9, 11)  # Gauss-Hermite nodes in each latent direction
SOBOL = 2**14
RTOL = 1e-9
MOST = 3 * 2**13  # particles of a product rule; a larger one is replaced by Sobol points


class SparsePlan(NamedTuple):
    """How a flow is to be computed; the fields are those of `MeanField`."""

    d: int
    particles: int | None
    tolerance: float
    rtol: float | None
    seed: int


def solve_sparse(setting: SparseOnePass, times: np.ndarray, plan: SparsePlan) -> tuple[Path, dict[str, Any]]:
    """The path of the neurons, and what a result says of how it was made."""
    note = warn_unreachable(setting)
    neurons, P, d = setting.neurons, setting.teacher.latent, plan.d

    def run_from(nodes: Nodes) -> tuple[Path, bool]:
        rtol = RTOL if plan.rtol is None else plan.rtol
        return solve_path(setting, times, nodes, rtol=rtol, symmetric=False), False

    def path(level: int) -> tuple[Path, bool]:
        return run_from(latent_nodes(setting, d, ORDERS[LEVELS.index(level)], level, None, plan.seed))

    def drawn(seed: int) -> tuple[Path, bool]:
        return run_from(latent_nodes(setting, d, 0, 0, plan.particles or SOBOL, seed))

    sizes = [
        (o - 2) * len(second_layer_nodes(neurons, level)[0]) * o**P for level, o in zip(LEVELS, ORDERS, strict=True)
    ]
    levels = tuple(level for level, size in zip(LEVELS, sizes, strict=True) if size <= MOST)
    if plan.particles is None and len(levels) >= 2:
        run, error = refined(path, levels, plan.tolerance)
        rule = "product of Gauss rules"
    else:
        run, error = refined(drawn, (plan.seed + 1, plan.seed), np.inf)  # the last one is kept
        rule = "scrambled Sobol points"
    warn_nodes("MeanField", error, max(plan.tolerance, 1e-4))
    return run, {"note": note, "d": d, "node_error": error, "nodes": rule, "seed": plan.seed}
