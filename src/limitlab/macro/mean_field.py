r"""Infinitely wide networks at a finite dimension."""

from typing import ClassVar

import equinox as eqx
import numpy as np

from limitlab.errors import LimitUndefinedError
from limitlab.macro.dimension_free import refined, warn_nodes
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.sparse_solve import Path, solve_path, sparse_dataset
from limitlab.macro.start_nodes import latent_nodes, second_layer_nodes
from limitlab.numerics.checks import check_integer, check_number
from limitlab.problems.problem import Problem
from limitlab.problems.representable import warn_unreachable
from limitlab.problems.requirements import check_sparse_target
from limitlab.problems.targets import SparseTarget

__all__ = ["MeanField"]

LEVELS = (1, 2, 4, 8)  # panels in a on either side of 0
ORDERS = (5, 7, 9, 11)  # Gauss-Hermite nodes in each latent direction
SOBOL = 2**14
MOST = 3 * 2**13  # particles of a product rule; a larger one is replaced by Sobol points


class MeanField(AbstractLimit):
    r"""Infinite width and vanishing steps at a finite dimension d: the flow of the law of neurons.

    For a sparse target the motion is that of `DimensionFree`, from the start that the finite dimension gives,

    .. math:: u_0 \sim N(0, \kappa^2 I_P/d), \qquad s_0^2 \sim \kappa^2 \chi^2_{d-P}/d .

    The average over the coordinates that do not matter is taken as Gaussian. What that neglects (their fourth
    cumulant) is O(1/d), as large as the effect of the start on f away from saddles: use it for escape times and
    exponents, not for constants of order 1/d. As d grows it tends to `DimensionFree`.

    Needs what `DimensionFree` needs, and d.

    Parameters
    ----------
    d
        The dimension, at least that of the latent space.
    particles
        None: a product of Gauss rules, refined until f changes by less than ``tolerance``, as long as it has at most
        24576 nodes; else so many scrambled Sobol points (16384 if left out). ``node_error`` compares two rules.
    tolerance, rtol
        As for `DimensionFree`.
    seed
        Of the scrambling.
    """

    d: int | None = eqx.field(static=True, default=None)
    particles: int | None = eqx.field(static=True, default=None)
    tolerance: float = eqx.field(static=True, default=1e-6)
    rtol: float = eqx.field(static=True, default=1e-9)
    seed: int = eqx.field(static=True, default=0)

    reference: ClassVar[str] = "mei2018mean"
    rate: ClassVar[dict[str, float]] = {"p": -0.5}

    def __check_init__(self):
        name = type(self).__name__
        if self.d is not None:
            check_integer(name, "d", self.d, low=1, remedy="It is the input dimension.")
        if self.particles is not None:
            check_integer(name, "particles", self.particles, low=2, remedy="Use a power of 2 such as 4096.")
        check_number(name, "tolerance", self.tolerance, low=1e-13, high=1.0, remedy="Use a tolerance such as 1e-6.")
        check_number(name, "rtol", self.rtol, low=1e-13, high=1e-2, remedy="Use a tolerance such as 1e-9.")
        check_integer(name, "seed", self.seed, low=0, remedy="Seeds are whole numbers.")

    def check(self, problem: Problem) -> None:
        name = type(self).__name__
        check_sparse_target(name, problem)
        assert isinstance(problem.teacher, SparseTarget)
        if self.d is None:
            raise LimitUndefinedError(
                f"{name} needs the dimension of a sparse target's inputs; got d=None. Use MeanField(d=100), or "
                "DimensionFree() for infinite dimension."
            )
        if self.d < problem.teacher.latent:
            raise LimitUndefinedError(
                f"{name} needs d at least the number of latent variables, {problem.teacher.latent}; got d={self.d}. "
                "Use a larger d."
            )

    def solve(self, problem: Problem, times: np.ndarray):
        assert self.d is not None
        note = warn_unreachable(problem)
        P, d = problem.teacher.latent, int(self.d)  # type: ignore[attr-defined]

        def path(level: int) -> tuple[Path, bool]:
            order = ORDERS[LEVELS.index(level)]
            nodes = latent_nodes(problem, d, order, level, None, self.seed)
            return self._path(problem, times, nodes), False

        def drawn(seed: int) -> tuple[Path, bool]:
            nodes = latent_nodes(problem, d, 0, 0, self.particles or SOBOL, seed)
            return self._path(problem, times, nodes), False

        sizes = [
            (o - 2) * len(second_layer_nodes(problem, level)[0]) * o**P for level, o in zip(LEVELS, ORDERS, strict=True)
        ]
        levels = tuple(level for level, size in zip(LEVELS, sizes, strict=True) if size <= MOST)
        if self.particles is None and len(levels) >= 2:
            run, error = refined(path, levels, self.tolerance)
            rule = "product of Gauss rules"
        else:
            run, error = refined(drawn, (self.seed + 1, self.seed), np.inf)  # the last one is kept
            rule = "scrambled Sobol points"
        warn_nodes(type(self).__name__, error, max(self.tolerance, 1e-4))
        attrs = {"note": note, "d": d, "node_error": error, "nodes": rule, "seed": self.seed}
        return sparse_dataset(self, problem, times, run, attrs)

    def _path(self, problem: Problem, times: np.ndarray, nodes) -> Path:
        return solve_path(problem, times, nodes, rtol=self.rtol, symmetric=False)
