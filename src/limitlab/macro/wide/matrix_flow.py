r"""Over-parametrised phase retrieval: the closed flow of the student's matrix A = WW^T/m."""

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from limitlab.algorithms.data import sample_count
from limitlab.algorithms.descent.wide import descend, draw_instance, start_factor, warn_if_unstable
from limitlab.algorithms.settings.fixed_data import WideDescent
from limitlab.errors import InputError
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.wide.factor_flow import FactorFlow
from limitlab.modules import field
from limitlab.numerics.checks import check_choice, check_integer, check_number, check_seed, whole_steps
from limitlab.numerics.machine import Memory, one_thread
from limitlab.numerics.ode.integrate import Followed, follow
from limitlab.numerics.trees import plain
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.states.matrix import NOTHING, Instance, Retrieved, look, matrix_attrs, matrix_variables
from limitlab.states.run import Run
from limitlab.states.success import Criterion
from limitlab.states.view import Variable, assembled
from limitlab.text import show
from limitlab.verbs import turns

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["MatrixFlow", "flow"]

COPIES = 12  # of an n x n matrix, at the peak of a step


def flow(instance: Instance, V: np.ndarray, s: np.ndarray, rtol: float = 1e-8) -> Followed:
    """Factors V of A at increasing values of s, dA/ds = S A + A S, from V at s = 0."""
    with one_thread():
        return follow(lambda y: FactorFlow(instance.X, instance.b, y), V, s, rtol=rtol)


class MatrixFlow(AbstractLimit):
    r"""Gradient flow of a committee of m squares on a given data set of phase retrieval, for any m up to infinity.

    .. math:: \frac{dA}{dt} = 4\kappa\,(S A + A S), \qquad S = \sum_\mu r_\mu x_\mu x_\mu^T, \quad
              r_\mu = (x_\mu \cdot w^*)^2 - x_\mu^T A x_\mu

    It is exact at finite d and closed in A = WW^T/m, a d x d matrix, so that its cost does not depend on m. Width
    infinity starts at A = scale^2 I; m < d keeps the rank m. Data, teacher and start of a replica are those of
    ``simulate`` with the same d and seed.

    Needs noiseless labels without a sign, a student ``Committee(width=m, activation="square")``, free weights
    (``GradientDescent(..., spherical=False)``), and a loss kappa r^2: ``PhaseRetrievalLoss(kappa)`` on `Modulus`
    labels (whose f^2 is then the student's output), or ``SquareLoss()`` on `SquaredModulus` (kappa = 1/2).

    Time: t = learning_rate * step / m, that of a single unit for m = 1; a learning rate in proportion to m moves all
    widths alike. On the clock s of dA/ds = S A + A S, s = 4 kappa t (attribute ``s_per_time``): s = t for the
    prefactor 1/4. With the time lr * step of the unscaled flow it is s = 4 kappa lr step/m.

    Gives ``risk``, ``train_loss`` and ``error`` = \|A - A*\|^2/\|A*\|^2 by time and replica; ``success``: an error
    below 0.01 at an asked time, and ``success_time``, the first such time (infinite if there is none).

    Parameters
    ----------
    d
        Input dimension; there is no limit of infinite d here.
    width
        m of the start: None takes the student's, ``math.inf`` a student of infinite width.
    replicas, seed
        How many data sets, each with its own teacher and start.
    scheme
        "flow": learning rate to 0, by a stiff solver whose steps grow as the flow slows down. "descent": the very
        steps of gradient descent, A <- (1 + eps S) A (1 + eps S) with eps = 4 kappa learning_rate/(student's width).
    rtol
        Error of a step of the flow, relative to the norm of W.
    """

    d: int = field(static=True, converter=plain, default=20)
    width: float | None = field(static=True, converter=plain, default=None)
    replicas: int = field(static=True, converter=plain, default=1)
    seed: int = field(static=True, converter=plain, default=0)
    scheme: str = field(static=True, default="flow")
    rtol: float = field(static=True, converter=plain, default=1e-8)

    grows: ClassVar[str] = "the width if asked; the step goes to 0"
    stays: ClassVar[str] = "d, n, the data set itself"
    needs: ClassVar[str] = "noiseless labels without a sign, a student of squares, free weights"
    cost: ClassVar[str] = "matrices of d × d, whatever the width"
    reference: ClassVar[str] = "saraomannelli2020optimization"
    rate: ClassVar[dict[str, float]] = {"width": -0.5}  # of a run at finite width from one with width=inf
    variables: ClassVar[dict[str, Variable]] = assembled(Retrieved, Criterion, Run)

    def __check_init__(self):
        check_integer("MatrixFlow", "d", self.d, low=2, high=2**53, remedy="It is the input dimension.")
        check_integer("MatrixFlow", "replicas", self.replicas, low=1, remedy="Ask for at least one data set.")
        check_seed("MatrixFlow", self.seed)
        check_choice("MatrixFlow", "scheme", self.scheme, ("flow", "descent"))
        check_number("MatrixFlow", "rtol", self.rtol, low=1e-12, high=1e-3, remedy="Use a tolerance such as 1e-8.")
        width = self.width
        if width is not None and not _is_width(width):
            raise InputError(
                "MatrixFlow.width must be a whole number from 1 to 2^53, math.inf, or None for the student's; got "
                f"{show(width)}."
            )

    def setting(self, problem: Problem, asked: Asked) -> WideDescent:
        return WideDescent.of(problem, asked)

    def start(self, setting: WideDescent, replica: int) -> tuple[Instance, np.ndarray]:
        """Data set of a replica, and V (d, min(m, d)) with A(0) = V V^T."""
        instance = draw_instance("MatrixFlow", setting, self.d, self.seed, replica)
        return instance, start_factor(setting, self.d, self.seed, replica, self._width(setting))

    def _width(self, setting: WideDescent) -> float:
        return setting.width if self.width is None else self.width

    def memory(self, setting: WideDescent, times: np.ndarray) -> Memory:
        n, width = sample_count("MatrixFlow", setting.ratio, self.d), self._width(setting)
        drawn = 0 if math.isinf(width) else 3 * int(width) * self.d
        solved = COPIES * n**2 if self.scheme == "flow" else 0
        path = (len(times) + 12) * self.d * min(width, self.d) if self.scheme == "flow" else 12 * self.d**2
        return Memory(
            int(8 * (solved + 6 * n * self.d + drawn + path + 40 * self.replicas * len(times))),
            f"It solves for n = {n} unknowns at each step, from {width:g} x {self.d} weights. Use a smaller d, width "
            "or sample_ratio, or fewer times or replicas.",
        )

    def solve(self, setting: WideDescent, times: np.ndarray) -> "xr.Dataset":
        n = sample_count("MatrixFlow", setting.ratio, self.d)
        width = self._width(setting)
        run = self._descent if self.scheme == "descent" else self._flow
        seen, status, end, steps = zip(*(run(setting, times, r) for r in turns(range(self.replicas))), strict=True)
        return dataset(
            setting.problem,
            matrix_variables(times, list(seen), list(status), list(end)),
            {"time": times},
            method=f"MatrixFlow ({self.scheme})",
            reference=self.reference,
            attrs={
                **matrix_attrs(setting.kappa),
                "d": self.d,
                "n": n,
                "seed": self.seed,
                "width": "infinite" if math.isinf(width) else int(width),
                "rtol": self.rtol,
                "steps": max(steps),
            },
        )

    def _flow(self, setting: WideDescent, times: np.ndarray, replica: int):
        instance, V = self.start(setting, replica)
        kappa = setting.kappa
        run = flow(instance, V, 4 * kappa * times, self.rtol)
        seen = [NOTHING if state is None else look(instance, state, kappa) for state in run.states]
        return seen, run.status, run.end / (4 * kappa), run.steps

    def _descent(self, setting: WideDescent, times: np.ndarray, replica: int):
        instance, V = self.start(setting, replica)
        if replica == 0:
            warn_if_unstable("MatrixFlow", setting, instance)
        run = descend(setting, instance, V, whole_steps(times, setting.clock))
        return run.seen, run.status, times[-1] if run.status == "ok" else run.end * setting.clock, run.end


def _is_width(width: object) -> bool:
    if isinstance(width, bool) or not isinstance(width, (int, float, np.integer, np.floating)):
        return False
    return bool(width == math.inf or (1 <= width < 2**53 and float(width).is_integer()))
