r"""Sparse targets of the hypercube in the limit of wide networks, many dimensions and small steps."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from limitlab.algorithms.settings.one_pass import SparseOnePass
from limitlab.errors import AccuracyWarning, InputError
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.sparse.nodes import ORDER, start_nodes
from limitlab.macro.sparse.solve import Path, solve_path, sparse_dataset, sparse_memory
from limitlab.modules import field
from limitlab.numerics.checks import check_integer, check_number
from limitlab.numerics.machine import Memory
from limitlab.numerics.trees import plain
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.representable import warn_unreachable
from limitlab.states.fourier import FourierView
from limitlab.states.radii import UnitLaw
from limitlab.states.run import Run
from limitlab.states.view import Variable, assembled
from limitlab.verbs import caution

__all__ = ["DimensionFree", "refined", "warn_nodes"]

LEVELS = (1, 2, 4, 8, 16, 32)  # panels of the rule in a, on either side of 0
FINE = 1e-5  # tolerances below start with four panels
WORRY = 1e-5
COARSE = 1e-3  # of what is a first-order correction itself


class DimensionFree(AbstractLimit):
    r"""Infinite width and dimension, vanishing steps: the flow of the law of neurons (a, u, s) of `drift`.

    .. math:: f(z) = E_\rho[a\,\sigma_s(u \cdot z)], \quad \sigma_s(m) = E\,\sigma(m + sG), \qquad a_0 \sim \mu_a,\;
              u_0 = 0,\; s_0 = \mathrm{scale}

    u are the weights on the latent coordinates, s is the norm of all others. The start is a law on a line, so that
    Gauss nodes in a_0 carry it with spectral accuracy; their number is doubled until no Fourier coefficient moves by
    ``tolerance``. A second layer of +-1 is exact with two particles (and can learn no more than two neurons can).

    Needs `Hypercube` inputs, a `SparseTarget`, a `RandomStart`, the square loss and `OnlineSGD` or `LayerwiseSGD`.
    Time: t = gamma * step/(p d). Symmetries of the target are kept exactly: rounding would leave degenerate saddles
    after t of order 100. ``risk`` is half of E(y - f)^2.

    Parameters
    ----------
    corrected
        Follow the noise of finite steps to first order in gamma/(p b) (`macro.sparse.step_noise`): it widens s, and
        gives neurons a common part that acts back on f. ``risk`` then has what this and a finite width add on the other
        coordinates. Costs O(n^3) an evaluation, so that at most 192 nodes are used.
    nodes
        Nodes in a on either side of 0 (a multiple of 12), instead of doubling.
    tolerance
        Change of any Fourier coefficient on doubling the nodes that is accepted; ``node_error`` says what it was.
    rtol
        Relative tolerance of the integrator.

    Notes
    -----
    One evaluation of the flow costs O(n 2^P G) with n nodes and G = 1 (closed forms) to about 100 (tanh, sigmoid), and
    at most a few arrays of 32 MiB.
    """

    corrected: bool = field(static=True, default=False)
    nodes: int | None = field(static=True, converter=plain, default=None)
    tolerance: float = field(static=True, converter=plain, default=1e-8)
    rtol: float = field(static=True, converter=plain, default=1e-10)

    grows: ClassVar[str] = "p and d, with steps to 0"
    stays: ClassVar[str] = "the P coordinates that matter, time"
    needs: ClassVar[str] = "Hypercube inputs, a SparseTarget, a RandomStart, the square loss, OnlineSGD or LayerwiseSGD"
    cost: ClassVar[str] = "O(n 2^P) an evaluation with n nodes"
    reference: ClassVar[str] = "abbe2022merged"
    rate: ClassVar[dict[str, float]] = {"d": -1.0, "p": -0.5}
    variables: ClassVar[dict[str, Variable]] = assembled(FourierView, UnitLaw, Run)

    def __check_init__(self):
        name = type(self).__name__
        if self.nodes is not None:
            check_integer(name, "nodes", self.nodes, low=ORDER, remedy=f"Use a multiple of {ORDER}.")
            if self.nodes % ORDER:
                raise InputError(f"{name}.nodes must be a multiple of {ORDER}, the nodes of a panel; got {self.nodes}.")
        check_number(name, "tolerance", self.tolerance, low=1e-13, high=1.0, remedy="Use a tolerance such as 1e-8.")
        check_number(name, "rtol", self.rtol, low=1e-13, high=1e-2, remedy="Use a tolerance such as 1e-10.")

    def setting(self, problem: Problem, asked: Asked) -> SparseOnePass:
        return SparseOnePass.of(problem, asked)

    def memory(self, setting: SparseOnePass, times: np.ndarray) -> Memory:
        n = 2 * (ORDER * LEVELS[-1] if self.nodes is None else self.nodes)
        return sparse_memory(setting, n, len(times), "nodes", squared=self.corrected)

    def solve(self, setting: SparseOnePass, times: np.ndarray):
        note = warn_unreachable(setting)

        def path(level: int) -> tuple[Path, bool]:
            nodes = start_nodes(setting, level)
            run = solve_path(setting, times, nodes, rtol=self.rtol, corrected=self.corrected)
            return run, nodes.exact

        levels = LEVELS if self.tolerance > FINE else LEVELS[2:]
        levels = tuple(level for level in levels if level <= 8) if self.corrected else levels
        levels = levels if self.nodes is None else (self.nodes // ORDER,)
        run, error = refined(path, levels, max(self.tolerance, 0.1 * COARSE) if self.corrected else self.tolerance)
        warn_nodes(type(self).__name__, error, max(self.tolerance, COARSE if self.corrected else WORRY))
        attrs = {"note": note, "node_error": error, "corrected": self.corrected}
        return sparse_dataset(self, setting, times, run, attrs)


def refined(path, levels: Sequence[Any], tolerance: float) -> tuple[Path, float | None]:
    """The path at the first level that moves no coefficient by more than the tolerance, and by how much it did."""
    run, exact = path(levels[0])
    if exact:
        return run, 0.0
    error = None
    for level in levels[1:]:
        finer, _ = path(level)
        error = _change(run, finer)
        run = finer
        if error <= tolerance or run.status != "ok":
            break
    return run, error


def _change(one: Path, two: Path) -> float:
    """The largest difference of f, which bounds that of every coefficient, where both are finite."""
    gap = np.abs(one.f - two.f)
    return float(np.nanmax(gap)) if np.any(np.isfinite(gap)) else 0.0


def warn_nodes(name: str, error: float | None, worry: float = WORRY) -> None:
    """Warn if the finest rule was not fine enough."""
    if error is not None and error > worry:
        caution(
            f"{name}: doubling the nodes still moves f by {error:.1e} at the finest rule; trust that many digits, or "
            "ask for earlier times.",
            AccuracyWarning,
        )
