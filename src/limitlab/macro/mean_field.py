r"""Infinitely wide networks at a finite dimension."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from limitlab.algorithms.one_pass.schedules import off_the_clock, on_the_clock
from limitlab.algorithms.settings.one_pass import LabelledOnePass, SparseOnePass
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.mixtures.closed import has_closed_form
from limitlab.macro.mixtures.clouds import Plan, mixture_memory, mixture_variables, solve_mixture
from limitlab.macro.sparse.mean_field import MOST, SparsePlan, solve_sparse
from limitlab.macro.sparse.solve import sparse_dataset, sparse_memory
from limitlab.modules import field
from limitlab.numerics.checks import check_choice, check_integer, check_number, check_seed
from limitlab.numerics.machine import Memory
from limitlab.numerics.trees import plain
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.states.fourier import FourierView
from limitlab.states.radii import RadiiView, UnitLaw
from limitlab.states.run import Run
from limitlab.states.view import Variable, assembled

__all__ = ["MeanField"]


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
        as it has at most 24576 nodes; else, or where those are better, so many scrambled Sobol points (16384 if left
        out). ``node_error`` compares two rules. Of labelled inputs: units in all, in whole fours (200 if left out),
        each with its mirror image.
    tolerance
        Rules are refined until the finer one moves f by no more than this; labelled inputs do not use it.
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

    d: int | None = field(static=True, converter=plain, default=None)
    particles: int | None = field(static=True, converter=plain, default=None)
    tolerance: float = field(static=True, converter=plain, default=1e-5)
    rtol: float | None = field(static=True, converter=plain, default=None)
    seed: int = field(static=True, converter=plain, default=0)
    gradients: str = field(static=True, default="auto")
    samples: int = field(static=True, converter=plain, default=16384)
    step: float = field(static=True, converter=plain, default=0.01)

    grows: ClassVar[str] = "p, with steps to 0"
    stays: ClassVar[str] = "d, time"
    needs: ClassVar[str] = "d, and what DimensionFree needs; or inputs that bring their labels, with OnlineSGD"
    cost: ClassVar[str] = "particles², or particles × samples, an evaluation"
    reference: ClassVar[str] = "mei2018mean"
    rate: ClassVar[dict[str, float]] = {"p": -0.5}
    variables: ClassVar[dict[str, Variable]] = assembled(FourierView, RadiiView, UnitLaw, Run)

    def __check_init__(self):
        name = type(self).__name__
        if self.d is not None:
            check_integer(name, "d", self.d, low=1, high=2**53, remedy="It is the input dimension.")
        if self.particles is not None:
            check_integer(name, "particles", self.particles, low=2, remedy="Use a power of 2 such as 4096.")
        check_number(name, "tolerance", self.tolerance, low=1e-13, high=1.0, remedy="Use a tolerance such as 1e-5.")
        if self.rtol is not None:
            check_number(name, "rtol", self.rtol, low=1e-13, high=1e-2, remedy="Use a tolerance such as 1e-9.")
        check_seed(name, self.seed)
        check_choice(name, "gradients", self.gradients, ("auto", "closed", "samples"))
        check_integer(name, "samples", self.samples, low=1, remedy="Use 16384.")
        check_number(name, "step", self.step, low=0, open_low=True, remedy="Use a short time such as 0.01.")

    def setting(self, problem: Problem, asked: Asked) -> "_Sparse | _Labelled":
        return (_Labelled if problem.inputs.labelled else _Sparse).of(self, problem, asked)

    def memory(self, setting: "_Sparse | _Labelled", times: np.ndarray) -> Memory:
        return setting.memory(self, times)

    def solve(self, setting: "_Sparse | _Labelled", times: np.ndarray):
        return setting.solve(self, times)


class _Sparse(NamedTuple):
    """A sparse target in d dimensions."""

    one_pass: SparseOnePass
    d: int

    @classmethod
    def of(cls, limit: MeanField, problem: Problem, asked: Asked) -> "_Sparse":
        one_pass = SparseOnePass.of(problem, asked)
        latent = one_pass.teacher.latent
        if limit.d is None:
            asked.refuse(
                "the dimension of a sparse target's inputs",
                "d=None",
                "Use MeanField(d=100), or DimensionFree() for infinite dimension.",
            )
        if limit.d < latent:
            asked.refuse(f"d at least the number of latent variables, {latent}", f"d={limit.d}", "Use a larger d.")
        return cls(one_pass, int(limit.d))

    def memory(self, limit: MeanField, times: np.ndarray) -> Memory:
        return sparse_memory(self.one_pass, limit.particles or MOST, len(times), "particles")

    def solve(self, limit: MeanField, times: np.ndarray):
        plan = SparsePlan(self.d, limit.particles, limit.tolerance, limit.rtol, limit.seed)
        path, attrs = solve_sparse(self.one_pass, times, plan)
        return sparse_dataset(limit, self.one_pass, times, path, attrs)


class _Labelled(NamedTuple):
    """Labelled inputs in d dimensions."""

    one_pass: LabelledOnePass
    d: int

    @classmethod
    def of(cls, limit: MeanField, problem: Problem, asked: Asked) -> "_Labelled":
        one_pass = LabelledOnePass.of(problem, asked)
        inputs, activation = one_pass.inputs, one_pass.student.activation
        if limit.d is None:
            other = ", or RadialFlow() for infinite dimension" if inputs.widths() is not None else ""
            asked.refuse("the dimension of the inputs", "d=None", f"Use {asked.by}(d=40){other}.")
        if limit.gradients == "closed" and not has_closed_form(one_pass):
            asked._replace(by=f'{asked.by}(gradients="closed")').refuse(
                "a Gaussian mixture and an activation of straight lines (relu, abs, piecewise)",
                f"{inputs!r} and {activation!r}",
                'Use gradients="samples".',
            )
        return cls(one_pass, int(limit.d))

    def _plan(self, limit: MeanField) -> Plan:
        return Plan(self.d, limit.particles, limit.gradients, limit.samples, limit.rtol, limit.step, limit.seed)

    def memory(self, limit: MeanField, times: np.ndarray) -> Memory:
        return mixture_memory(self.one_pass, len(times), self._plan(limit))

    def solve(self, limit: MeanField, times: np.ndarray):
        setting, plan = self.one_pass, self._plan(limit)
        clock = on_the_clock(setting.algorithm.schedule, times)
        path = solve_mixture(setting, clock, plan)
        variables, coords = mixture_variables(setting, path)
        end: dict[str, Any] = {"end_time": ((), off_the_clock(clock, times, path.end))}
        return dataset(
            setting.problem,
            {**variables, **end},
            {"time": times, **coords},
            method=type(limit).__name__,
            reference=limit.reference,
            attrs={"d": plan.d, "seed": limit.seed, **path.attrs},
        )
