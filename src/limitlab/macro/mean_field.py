r"""Infinitely wide networks at a finite dimension."""

from typing import ClassVar

import equinox as eqx
import numpy as np

from limitlab.algorithms.one_pass.schedules import off_the_clock, on_the_clock
from limitlab.algorithms.requirements import check_labelled, check_sparse_target
from limitlab.errors import LimitUndefinedError
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.mixtures.closed import has_closed_form
from limitlab.macro.mixtures.clouds import Plan, mixture_variables, solve_mixture
from limitlab.macro.sparse.dimension_free import refined, warn_nodes
from limitlab.macro.sparse.nodes import latent_nodes, second_layer_nodes
from limitlab.macro.sparse.solve import Path, solve_path, sparse_dataset
from limitlab.numerics.checks import check_choice, check_integer, check_number
from limitlab.problems.inputs import CustomInputs
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.representable import warn_unreachable
from limitlab.problems.sparse.target import SparseTarget
from limitlab.results.schema import dataset

__all__ = ["MeanField"]

LEVELS = (1, 2, 4, 8)  # panels in a on either side of 0
ORDERS = (5, 7, 9, 11)  # Gauss-Hermite nodes in each latent direction
SOBOL = 2**14
RTOL = 1e-9
MOST = 3 * 2**13  # particles of a product rule; a larger one is replaced by Sobol points


class MeanField(AbstractLimit):
    r"""Infinite width and vanishing steps at a finite dimension d: the flow of the law of neurons.

    For a sparse target the motion is that of `DimensionFree`, from the start that the finite dimension gives,

    .. math:: u_0 \sim N(0, \kappa^2 I_P/d), \qquad s_0^2 \sim \kappa^2 \chi^2_{d-P}/d .

    The average over the coordinates that do not matter is taken as Gaussian. What that neglects (their fourth
    cumulant) is O(1/d), as large as the effect of the start on f away from saddles: use it for escape times and
    exponents, not for constants of order 1/d. As d grows it tends to `DimensionFree`.

    For inputs that bring their labels (mixtures, samplers of the user's) units interact in d dimensions,

    .. math:: d\theta = -\xi(t)\big(\nabla\Psi(\theta; \rho_t) + \lambda\theta\big)\,dt + \sqrt{2 T \xi(t)}\,dB,
              \qquad \Psi(\theta; \rho) = -E\big[(y - f_\rho)\, a\,\sigma(w \cdot x + b)\big], \quad
              \theta = (a, b, w/\sqrt d)

    in two independent clouds, whose outputs give the ``risk`` :math:`\tfrac12 E(y - f_A)(y - f_B)` without the bias
    that a single one of n units has (of order 1/n). What remains is the noise of the particles: vary ``seed`` to see
    it. An isotropic mixture is far better served by `RadialFlow`.

    Needs d, and what `DimensionFree` needs or labelled inputs with `OnlineSGD`. The time is t = gamma step/(p d), twice
    that of Mei, Montanari and Nguyen; ``risk`` is half of their R.

    Parameters
    ----------
    d
        The dimension, at least that of the latent space.
    particles
        Of a sparse target, None: a product of Gauss rules, refined until f changes by less than ``tolerance``, as long
        as it has at most 24576 nodes; else so many scrambled Sobol points (16384 if left out). ``node_error`` compares
        two rules. Of labelled inputs: units in all, in whole fours (200 if left out), each with its mirror image.
    tolerance
        As for `DimensionFree`; labelled inputs do not use it.
    rtol
        Of the integrator. None: 1e-9 for sparse targets, 1e-7 for labelled inputs (1e-3 if gradients are from samples).
    seed
        Of the scrambling, the clouds, the samples and the noise.
    gradients
        Of labelled inputs. "closed": from V and U, for a Gaussian mixture and an activation of straight lines; the cost
        grows with the square of the particles. "samples": means over fixed inputs, for all others. "auto": closed where
        it exists and for at most 256 particles.
    samples
        Fixed inputs of each cloud, and of the test set of the risk. Units fit the ones they see: with 100 units in 20
        dimensions and 16384 samples their norms end 0.4 % too low.
    step
        Longest step of Euler and Maruyama at temperature > 0, on the clock of the schedule.
    """

    d: int | None = eqx.field(static=True, default=None)
    particles: int | None = eqx.field(static=True, default=None)
    tolerance: float = eqx.field(static=True, default=1e-6)
    rtol: float | None = eqx.field(static=True, default=None)
    seed: int = eqx.field(static=True, default=0)
    gradients: str = eqx.field(static=True, default="auto")
    samples: int = eqx.field(static=True, default=16384)
    step: float = eqx.field(static=True, default=0.01)

    reference: ClassVar[str] = "mei2018mean"
    rate: ClassVar[dict[str, float]] = {"p": -0.5}

    def __check_init__(self):
        name = type(self).__name__
        if self.d is not None:
            check_integer(name, "d", self.d, low=1, remedy="It is the input dimension.")
        if self.particles is not None:
            check_integer(name, "particles", self.particles, low=2, remedy="Use a power of 2 such as 4096.")
        check_number(name, "tolerance", self.tolerance, low=1e-13, high=1.0, remedy="Use a tolerance such as 1e-6.")
        if self.rtol is not None:
            check_number(name, "rtol", self.rtol, low=1e-13, high=1e-2, remedy="Use a tolerance such as 1e-9.")
        check_integer(name, "seed", self.seed, low=0, remedy="Seeds are whole numbers.")
        check_choice(name, "gradients", self.gradients, ("auto", "closed", "samples"))
        check_integer(name, "samples", self.samples, low=1, remedy="Use 16384.")
        check_number(name, "step", self.step, low=0, open_low=True, remedy="Use a short time such as 0.01.")

    def check(self, problem: Problem) -> None:
        name = type(self).__name__
        if problem.inputs.labelled:
            self._check_labelled(problem)
            return
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

    def _check_labelled(self, problem: Problem) -> None:
        name = type(self).__name__
        check_labelled(name, problem)
        if self.d is None:
            other = ", or RadialFlow() for infinite dimension" if not isinstance(problem.inputs, CustomInputs) else ""
            raise LimitUndefinedError(f"{name} needs the dimension of the inputs; got d=None. Use {name}(d=40){other}.")
        if self.gradients == "closed" and not has_closed_form(problem):
            raise LimitUndefinedError(
                f'{name}(gradients="closed") needs a Gaussian mixture and an activation of straight lines (relu, abs, '
                f"piecewise); got {problem.inputs!r} and {problem.student.activation!r}. "  # type: ignore[union-attr]
                'Use gradients="samples".'
            )

    def solve(self, problem: Problem, times: np.ndarray):
        assert self.d is not None
        if problem.inputs.labelled:
            return self._solve_labelled(problem, times)
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
        return solve_path(problem, times, nodes, rtol=RTOL if self.rtol is None else self.rtol, symmetric=False)

    def _solve_labelled(self, problem: Problem, times: np.ndarray):
        assert self.d is not None
        clock = on_the_clock(problem.algorithm.schedule, times)  # type: ignore[union-attr]
        plan = Plan(int(self.d), self.particles, self.gradients, self.samples, self.rtol, self.step, self.seed)
        path = solve_mixture(problem, clock, plan)
        variables, coords = mixture_variables(problem, path)
        variables["end_time"] = ((), off_the_clock(clock, times, path.end))
        return dataset(
            problem,
            variables,
            {"time": times, **coords},
            method=type(self).__name__,
            reference=self.reference,
            attrs={"d": plan.d, "seed": self.seed, **path.attrs},
        )
