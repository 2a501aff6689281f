r"""Overlap equations of one-pass SGD as d grows at fixed widths."""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.algorithms.settings.spectral import spectral_setting
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.overlaps.drift import crowds, flow, limit_start, quadrature_error, tolerance, warn_of_error
from limitlab.macro.overlaps.family import How, kin, solve_many
from limitlab.macro.overlaps.size import is_cheap, jacobian_bytes, overlap_bytes, path_bytes, solver_for, start_bytes
from limitlab.macro.overlaps.spectral import predict_spectral, spectral_memory
from limitlab.modules import field, filter_jit
from limitlab.numerics.checks import check_choice, check_integer, check_number, check_seed, check_times
from limitlab.numerics.gauss.fields import AbstractFieldSum
from limitlab.numerics.machine import Memory, check_memory, fits
from limitlab.numerics.ode.integrate import Integration, integrate
from limitlab.numerics.trees import as_array, as_arrays, plain
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.points import Point
from limitlab.results.schema import derived, overlap_dataset
from limitlab.states.direction import Direction
from limitlab.states.overlaps import ByMode, Overlaps, check_room, error_sum, initial_overlaps, risks, start_key
from limitlab.states.run import Run
from limitlab.states.view import AbstractView, Variable, assembled
from limitlab.verbs import turns

__all__ = ["OverlapODE"]


@filter_jit
def _draw(setting: CommitteeOnePass, seed: np.ndarray, replica: np.ndarray, d: np.ndarray) -> Overlaps:
    return initial_overlaps(setting, start_key(as_array(seed), as_array(replica)), as_array(d))


class OverlapODE(AbstractLimit):
    r"""Online SGD of committees at fixed widths as :math:`d \to \infty`: the ODE of `drift`.

    Needs Gaussian inputs, the square loss and a fresh sample at every step. Time: t = gamma * step / (p d), so a
    time t costs t p d / gamma steps. All terms in the learning rate are kept. Units that start with the very same
    weights stay together under SGD and are integrated as one: for activations with a kink the equations of two
    parallel units are not Lipschitz (they feel the square root of 1 - rho) and rounding would pull them apart.

    With a spectrum of the inputs there is one matrix of overlaps for every mode (`limitlab.macro.overlaps.spectral`),
    and one linear unit may have any convex loss and channel. Then ``d`` is for least squares: the means are exact at
    that d.

    Parameters
    ----------
    d
        None starts from the limiting overlaps. A number draws the start at that dimension: a random start then
        keeps its O(d^-1/2) overlaps, without which it may sit on a saddle for ever. ``simulate`` with the same
        seed starts from the same overlaps.
    replicas, seed
        How many such starts (only with ``d``).
    rtol
        Relative tolerance of the integrator; not finer than a tenth of the error of a quadrature, where one is used.
    method
        "auto", or force "closed" / "quadrature" Gaussian moments.
    solver
        "auto" (explicit, then implicit on long plateaus), "explicit" or "implicit".
    """

    d: float | None = None
    replicas: int = field(static=True, converter=plain, default=1)
    seed: int = field(static=True, converter=plain, default=0)
    rtol: float = field(static=True, converter=plain, default=1e-10)
    method: str = field(static=True, default="auto")
    solver: str = field(static=True, default="auto")

    grows: ClassVar[str] = "d"
    stays: ClassVar[str] = "widths p and k, learning rate γ, time"
    needs: ClassVar[str] = "Gaussian inputs, committees, square loss (one linear unit: any convex), fresh samples"
    cost: ClassVar[str] = "O(p²(p + k)²) Gaussian moments an evaluation"
    reference: ClassVar[str] = "saad1995online"
    rate: ClassVar[dict[str, float]] = {"d": -0.5}
    variables: ClassVar[dict[str, Variable]] = {
        **assembled(AbstractView, Overlaps, ByMode, Run),
        "generalisation_error": Direction.variables["generalisation_error"],
    }

    def __check_init__(self):
        if self.d is not None:
            check_number(
                "OverlapODE", "d", self.d, low=1, remedy="It is the dimension of the start; None means infinity."
            )
        check_integer("OverlapODE", "replicas", self.replicas, low=1)
        check_seed("OverlapODE", self.seed)
        check_number("OverlapODE", "rtol", self.rtol, low=1e-13, high=1e-2, remedy="Use a tolerance such as 1e-10.")
        check_choice("OverlapODE", "method", self.method, ("auto", "closed", "quadrature"))
        check_choice("OverlapODE", "solver", self.solver, ("auto", "explicit", "implicit"))

    def setting(self, problem: Problem, asked: Asked) -> Any:
        return CommitteeOnePass.of(problem, asked) if problem.inputs.modes is None else spectral_setting(problem, asked)

    def start(self, problem: Problem, replica: int) -> Overlaps:
        """Where the ODE of one replica starts, with a spectrum on every mode."""
        return self._start(self.parsed(problem), replica)

    def _check_room(self, setting: CommitteeOnePass) -> None:
        if self.d is not None:
            Q, M, P = setting.start.limit(setting.student.width, setting.teacher.width)
            check_room(setting.start, np.asarray(Q), np.asarray(M), np.asarray(P), self.d)

    def _start(self, setting: CommitteeOnePass, replica: int) -> Overlaps:
        if self.d is None:
            return limit_start(setting)
        numbers = map(np.asarray, (self.seed, replica, float(self.d)))
        return jax.device_get(_draw(as_arrays(setting), *numbers))

    def memory(self, setting: Any, times: np.ndarray) -> Memory:
        if setting.inputs.modes is not None:
            return spectral_memory(setting, times)
        p, k, replicas = setting.student.width, setting.teacher.width, self.replicas if self.d is not None else 1
        whole = overlap_bytes(setting, p, self.method)
        seen = start_bytes(p, k) + path_bytes(p, k, len(times) * replicas)
        if fits(seen) and not fits(whole):  # many units may be few that differ
            whole = overlap_bytes(setting, len(crowds(self._start(setting, 0)).first), self.method)
        if self.solver == "implicit":
            whole += jacobian_bytes(p, k)
        return Memory(
            seen + whole,
            f"It follows the overlaps of {p} student and {k} teacher units. Use fewer units, times or replicas; "
            "HighDimMeanField follows wide students by their law.",
        )

    def solve(self, setting: Any, times: np.ndarray):
        if setting.inputs.modes is not None:
            return predict_spectral(self, setting, times)
        self._check_room(setting)
        live = as_arrays(setting)
        runs = [self._run(setting, live, times, r) for r in turns(range(self.replicas if self.d is not None else 1))]
        return self._dataset(setting, (live, as_arrays(error_sum(setting, self.method))), times, runs)

    def _run(self, setting: CommitteeOnePass, live: CommitteeOnePass, times: np.ndarray, replica: int) -> Integration:
        start = self._start(setting, replica)
        sets = crowds(start)
        small = sets.pick(start)
        sums = as_arrays(error_sum(setting, self.method, units=len(sets.first)))
        args = (live, sums, sets.copies)
        rtol = tolerance(self.rtol, *args[:2], small, args[2])
        solver = solver_for(self.solver, small)
        run = integrate(flow, small, times, args, rtol=rtol, atol=0.01 * rtol, solver=solver, cheap=is_cheap(sums))
        return run._replace(values=sets.spread(run.values))

    def _dataset(
        self,
        setting: CommitteeOnePass,
        args: tuple[CommitteeOnePass, AbstractFieldSum],
        times: np.ndarray,
        runs: list[Integration],
    ):
        path: Overlaps = jax.tree.map(lambda *x: np.stack(x, axis=1), *(run.values for run in runs))  # (time, replica)
        values, error = risks(*args, path), max(quadrature_error(args, path, r) for r in range(len(runs)))
        warn_of_error(error, args[1].name)
        return overlap_dataset(
            setting.problem,
            times,
            path,
            values,
            status=[run.status for run in runs],
            end_time=[run.end_time for run in runs],
            method="OverlapODE",
            reference=self.reference,
            replicated=self.d is not None,
            attrs=self.about(args[1].name, error, runs[0].solver, max(run.steps for run in runs)),
        )

    def about(self, moments: str, error: float, solver: str, steps: int) -> dict[str, Any]:
        """What a result says of how it was made."""
        drawn = {} if self.d is None else {"d": float(self.d), "seed": self.seed}
        made = {"gaussian_moments": moments, "quadrature_error": error, "solver": solver, "steps": steps}
        return {**made, "rtol": self.rtol, **drawn}

    def kin(self, problem: Problem) -> Hashable | None:
        return None if self.d is not None or self.solver == "implicit" else kin(problem)

    def many(self, problems: Sequence[Problem], times: Any) -> list[Point]:
        setting = self.setting(problems[0], Asked("OverlapODE"))
        needed = self.memory(setting, times)
        check_memory(needed._replace(bytes=len(problems) * needed.bytes), by="OverlapODE")
        results = solve_many(setting, problems, check_times(times), How(self.rtol, self.method, self.solver))
        stamp = {"method": "OverlapODE", "reference": self.reference}
        return [
            Point(x.variables, x.coords, {**stamp, **derived(problem, ("time",)), **self.about(*x.made)})
            for problem, x in zip(problems, results, strict=True)
        ]
