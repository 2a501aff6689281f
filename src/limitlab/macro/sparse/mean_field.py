"""Infinite width at a finite dimension: the flow of `DimensionFree` from the start that the dimension gives."""

from typing import Any, NamedTuple

import numpy as np

from limitlab.algorithms.settings.one_pass import SparseOnePass
from limitlab.macro.sparse.dimension_free import refined, warn_nodes
from limitlab.macro.sparse.nodes import Nodes, Rule, product_nodes, sobol_nodes
from limitlab.macro.sparse.solve import Path, solve_path
from limitlab.problems.sparse.representable import warn_unreachable

__all__ = ["MOST", "SparsePlan", "solve_sparse"]

RULES = (
    Rule(6, 1, 3, 3),
    Rule(8, 1, 4, 4),
    Rule(10, 1, 5, 5),
    Rule(12, 2, 7, 6),
    Rule(12, 4, 9, 7),
    Rule(12, 8, 11, 9),
)
SOBOL, COARSE = 2**14, 5e-5  # points, and about how far they move f
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
    note, d = warn_unreachable(setting), plan.d

    def run_from(nodes: Nodes) -> tuple[Path, bool]:
        rtol = RTOL if plan.rtol is None else plan.rtol
        return solve_path(setting, times, nodes, rtol=rtol, symmetric=False), False

    def path(rule: Rule) -> tuple[Path, bool]:
        return run_from(product_nodes(setting, d, rule))

    def drawn(seed: int) -> tuple[Path, bool]:
        return run_from(sobol_nodes(setting, d, plan.particles or SOBOL, seed))

    rules = [rule for rule in RULES if rule.size(setting.neurons, setting.teacher.latent) <= MOST]
    words, run, error = "product of Gauss rules", None, None
    if plan.particles is None and len(rules) >= 2:
        run, error = refined(path, rules, plan.tolerance)
    if run is None or (run.status == "ok" and (error or 0.0) > max(plan.tolerance, COARSE)):  # s varies much
        other, apart = refined(drawn, (plan.seed + 1, plan.seed), np.inf)  # the last one is kept
        if run is None or (apart or 0.0) < (error or 0.0):
            words, run, error = "scrambled Sobol points", other, apart
    warn_nodes("MeanField", error, max(plan.tolerance, 1e-4))
    return run, {"note": note, "d": d, "node_error": error, "nodes": words, "seed": plan.seed}
