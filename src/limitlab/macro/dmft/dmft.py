"""Dynamical mean-field theory: descent on a fixed data set as d goes to infinity, at a finite step."""

import json
from typing import TYPE_CHECKING, ClassVar

import jax
import numpy as np

from limitlab._setup import double
from limitlab.algorithms.descent.curvature import warn_if_unstable
from limitlab.algorithms.settings.fixed_data import CommitteeDescent, Descent
from limitlab.errors import AccuracyWarning, InputError
from limitlab.macro.dmft.forces import AbstractForce, CommitteeForce, LineForce
from limitlab.macro.dmft.paths import draw_sample
from limitlab.macro.dmft.report import report
from limitlab.macro.dmft.rows import Kernels, Model, Scheme
from limitlab.macro.dmft.solve import Batch, block_length, bytes_needed, continue_batch, first_batch, iterate_batch
from limitlab.macro.dmft.state import DMFTState
from limitlab.macro.limit import AbstractLimit
from limitlab.modules import Module, field
from limitlab.numerics.checks import check_choice, check_integer, check_number, check_seed, check_times, whole_steps
from limitlab.numerics.keys import folded
from limitlab.numerics.linalg import nearest_psd
from limitlab.numerics.machine import Memory, check_memory, relieve
from limitlab.numerics.trees import as_array, plain, traced
from limitlab.problems.asked import Asked
from limitlab.problems.base import AbstractTeacher
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.problem import Problem
from limitlab.spec import spec_hash
from limitlab.states.committee import CommitteeView
from limitlab.states.direction import TwoTimes
from limitlab.states.matrix import Retrieved
from limitlab.states.request import second_times
from limitlab.states.run import Run
from limitlab.states.view import Variable, assembled
from limitlab.verbs import caution, turns

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["DMFT"]

SETTLED = 1024  # trajectories of a force that jumps from which on its bias is below the error bar of 8 batches
BLURRED = 2.0  # an overlap of the start below this many sqrt(alpha/trajectories) is lost in their noise
OVERSHOOTS = 1.6  # eta h^2 of the largest field; batches were lost from 1.65 on


class _Labels(Module):
    """Labels of the teacher's fields (N, k)."""

    teacher: AbstractTeacher
    channel: AbstractChannel

    def __call__(self, key: jax.Array, fields: jax.Array) -> jax.Array:
        return self.channel.sample(key, self.teacher.link(fields))


class DMFT(AbstractLimit):
    r"""Descent of one direction w, or of m units, on n = alpha d samples as :math:`d \to \infty`, at a finite step.

    .. math::
        h^{t+1} &= a_t h^t - e_t \Big[g^t + \sum_{s \le t} K(t, s)\, h^s + \xi^t\Big] + \mathrm{noise}, \qquad
        g^t = \sigma^t\, \ell'(y, h^t + \tfrac{m_t}{\rho} h_0) \\
        m_{t+1} &= a_t m_t - e_t\, \alpha E[h_0 g^t], \qquad
        E[\xi^t \xi^s] = M_C(t, s) = \alpha E[g^t g^s], \qquad K(t, s) = \alpha E[\partial g^t / \partial P^s]

    for the field h of one training sample, orthogonal to the teacher's field h_0 ~ N(0, rho); P^s is a kick inside the
    force at step s, K(t, t) = alpha E[g'^t]. The averages are over ``trajectories``, and the norm comes from the
    kernels, so that the sphere is kept exactly. Needs Gaussian inputs, a `SingleIndex` teacher, and a start independent
    of the data. Clock: t = learning_rate * step.

    A student ``Committee(width=m)`` with a fixed second layer c has the same equations with h and xi in R^m, h_0 in R^k
    of a `SingleIndex`, `Committee` or `MultiIndex` teacher, and matrices for numbers, in this order:

    .. math::
        g_a = \sigma\, m\, \frac{\partial \ell(y, f)}{\partial h_a}, \quad J = \frac{\partial g}{\partial h}, \quad
        M_{t+1} = A_t M_t - E_t\, \alpha E[g^t h_0^T], \quad M_C(t, s) = \alpha E[g^t g^{s\,T}], \quad
        K(t, s) = \alpha E\Big[J^t \frac{dh^t}{dP^s}\Big], \quad K(t, t) = \alpha E[J^t]

    at eps = learning_rate/m, on the clock t = eps * step. Its result has ``M`` (student, teacher) and ``Q`` (student,
    student_2), ``C``, ``R``, ``M_C`` and ``M_R`` over (time, time_2, student, student_2), ``delta_nu`` over pairs of
    units, ``nu`` over units, and ``error`` as simulations have it. It starts from ``OverlapStart(Q, M, P)`` or
    ``InformedStart(m)``. Units with kinks (relu) have forces that jump: see below.

    The result of one direction has ``m``, ``q``, ``train_loss``, ``risk``; ``C`` = w(t).w(t')/d and ``R``, the response
    of w(t) to a field on w at t' per unit time; the memory kernels ``M_C`` and ``M_R`` = -K/eta for t' < t,
    ``delta_nu`` = K(t, t); ``nu`` = (1 - a)/eta, the multiplier that keeps the sphere (else the ridge); ``residual``,
    by how much :math:`\alpha E[g^t h^t]` differs from what the kernels say. The dimension ``replica`` counts batches:
    independent solutions, whose scatter is the Monte-Carlo error. No bias is seen beside it from 256 trajectories on,
    but for forces that jump (`HingeLoss`, `AmplitudeLoss`, units with kinks): there one of order 1/trajectories
    remains, which may be 0.4 of the scatter of single batches at 256 (you are warned) and is 0.2 of it at 1024.

    Memory: 32 + 9 probes bytes per trajectory, unit and step, and blocks of steps beyond the last (``bytes_needed`` has
    all), one batch at a time. Work: 8 trajectories * (m steps)^2.

    Parameters
    ----------
    trajectories, batches
        How many trajectories make one solution, and how many independent solutions.
    scheme
        "causal": one pass, each row of the kernels from those before. "iterated": guessed kernels, improved until
        nothing changes; with the same random numbers its fixed point is the causal pass, at many times the work.
    probes
        Random signs per trajectory that probe the tangents.
    identity
        Whether each row of K is also taken from an exact identity, alpha E[g^t z^s] = sum_r C_z(s, r) K(t, r): a
        regression, to which tangents are a second estimate; the two are weighted by their noise. Without it C is wrong
        in hard cases. None: yes if causal, no if iterated (which does not converge well with it).
    seed
        A whole number.
    d
        For a `RandomStart`: the dimension at which its overlap with the teacher is sqrt(q rho/d) (in the limit it is 0,
        from where labels without a sign never leave). For one direction only.
    tolerance, iterations
        Of the iterated scheme: the change of m and C at which it stops, and the most iterations.
    """

    trajectories: int = field(static=True, converter=plain, default=4096)
    batches: int = field(static=True, converter=plain, default=8)
    scheme: str = field(static=True, default="causal")
    probes: int = field(static=True, converter=plain, default=1)
    identity: bool | None = field(static=True, default=None)
    seed: int = field(static=True, converter=plain, default=0)
    d: float | None = field(static=True, converter=plain, default=None)
    tolerance: float = field(static=True, converter=plain, default=1e-9)
    iterations: int = field(static=True, converter=plain, default=200)

    grows: ClassVar[str] = "n and d"
    stays: ClassVar[str] = "α = n/d, the step, time"
    needs: ClassVar[str] = "Gaussian inputs, a teacher of a few directions, a descent rule, a start blind to data"
    cost: ClassVar[str] = "8 trajectories × (m steps)² operations a batch"
    reference: ClassVar[str] = "mignacco2021stochasticity"
    rate: ClassVar[dict[str, float]] = {"d": -0.5}
    variables: ClassVar[dict[str, Variable]] = assembled(TwoTimes, CommitteeView, Retrieved, Run)

    def __check_init__(self):
        check_integer("DMFT", "trajectories", self.trajectories, low=8, remedy="Thousands give errors of a per cent.")
        check_integer("DMFT", "batches", self.batches, low=1, remedy="Use 2 or more for error bars.")
        check_choice("DMFT", "scheme", self.scheme, ("causal", "iterated"))
        check_integer("DMFT", "probes", self.probes, low=1, remedy="One is enough.")
        check_seed("DMFT", self.seed)
        check_number("DMFT", "tolerance", self.tolerance, low=0, open_low=True, remedy="Use 1e-9, say.")
        check_integer("DMFT", "iterations", self.iterations, low=1, remedy="Ask for at least one.")
        if self.d is not None:
            check_number("DMFT", "d", self.d, low=1, remedy="It is the dimension of a random start.")
        if self.scheme == "iterated" and self.identity:
            raise InputError(
                "DMFT.identity must be False (or left out) for scheme='iterated', which hardly converges with it; got "
                "True. Use scheme='causal'."
            )

    def setting(self, problem: Problem, asked: Asked) -> Descent | CommitteeDescent:
        setting = _setting(problem, asked)
        force = _force(setting)
        if not force.smooth and not self._identity:
            what = "a loss with kinks" if not setting.loss.smooth else "units with kinks"
            asked.refuse(
                f"scheme='causal' with identity=True for {what}",
                f"{setting.loss if not setting.loss.smooth else problem.student} with scheme={self.scheme!r}, "
                f"identity={self.identity}",
                "Leave both out, or use a smooth one.",
            )
        if self.d is not None and isinstance(setting, CommitteeDescent):
            asked.refuse("DMFT.d for one direction only", f"d={self.d:g}", "Give the overlaps: OverlapStart(Q, M, P).")
        return setting

    def solve(self, setting: Descent | CommitteeDescent, times: np.ndarray) -> "xr.Dataset":
        steps = self._prepare(setting, times)
        solved, notes = [], []
        for index in turns(range(self.batches)):
            kernels, note = self._kernels(setting, index, int(steps[-1]))
            solved.append(kernels)
            notes.append(note)
        return self._report(setting, times, steps, solved, notes)

    @double
    def run(self, problem: Problem, times) -> "tuple[xr.Dataset, DMFTState]":
        """Like `predict`, and the state to go on from; it holds the paths of all batches."""
        return self._continue(problem, times, None)

    @double
    def resume(self, problem: Problem, state: DMFTState, times) -> "tuple[xr.Dataset, DMFTState]":
        """Go on from a state of `run` (or `DMFTState.load`): the same numbers as a run from the start would have."""
        state.check(spec_hash(problem), self._settings())
        return self._continue(problem, times, state)

    def _continue(self, problem: Problem, times, state: DMFTState | None):
        relieve()
        setting = self.setting(problem, Asked("DMFT"))
        if self.scheme != "causal":
            raise InputError("DMFT.run and resume need scheme='causal': iteration has no state. Use predict.")
        times = check_times(times)
        check_memory(self._memory(setting, times, self.batches), by="DMFT")
        steps = self._prepare(setting, times)
        model, batches = self._model(setting), []
        for index in turns(range(self.batches)):
            batch = self._begin(setting, index, int(steps[-1])) if state is None else state.batches[index]
            batches.append(continue_batch(model, batch, self._key(index), int(steps[-1])))
        data = self._report(setting, times, steps, [batch.kernels for batch in batches], [{}] * self.batches)
        return data, DMFTState(tuple(batches), spec_hash(problem), self._settings())

    def memory(self, setting: Descent | CommitteeDescent, times: np.ndarray) -> Memory:
        return self._memory(setting, times, kept=1)

    def _memory(self, setting: Descent | CommitteeDescent, times: np.ndarray, kept: int) -> Memory:
        last = int(whole_steps(times, setting.clock)[-1])
        looks = 8 * 5 * self.batches * len(times) * (len(second_times(times)) + 6)
        return Memory(
            kept * self._bytes(setting, last) + looks,
            f"It holds {self.trajectories} trajectories of {last} steps"
            + (f" of {units} units" if (units := _force(setting).units) > 1 else "")
            + ". Use fewer trajectories and more batches, a "
            "shorter time, or a larger learning_rate.",
        )

    def _prepare(self, setting: Descent | CommitteeDescent, times: np.ndarray) -> np.ndarray:
        """The steps of the asked times, after a word on the step size."""
        unstable = isinstance(setting, Descent) and warn_if_unstable("DMFT", setting)
        self._warn(setting, unstable)
        return whole_steps(times, setting.clock)

    def _warn(self, setting: Descent | CommitteeDescent, unstable: bool) -> None:
        """Three ways in which finitely many trajectories are worse than the theory they stand for."""
        rule, ratio = setting.rule, setting.ratio
        m = float(np.max(np.abs(np.asarray(setting.overlaps(self.d).M))))
        force, blur = _force(setting), float(np.sqrt(ratio / self.trajectories))
        if setting.even and 0 < m < BLURRED * blur:
            caution(
                f"DMFT: the overlap {m:.2g} of the start is not well above what {self.trajectories} trajectories "
                f"resolve (about {blur:.2g}): how it grows from there is Monte-Carlo noise. Use trajectories="
                f"{int(ratio * (BLURRED / m) ** 2) + 1} or more, or simulate.",
                AccuracyWarning,
            )
        if not force.smooth and self.trajectories < SETTLED:
            whose = "units with kinks" if setting.loss.smooth else type(setting.loss).__name__
            caution(
                f"DMFT: the force of {whose} jumps, and {self.trajectories} trajectories then have a bias of order "
                "1/trajectories that batches do not show, about 0.4 of the scatter of one batch at 256. Use "
                f"trajectories={SETTLED} or more.",
                AccuracyWarning,
            )
        longest = 2 * _upper_tail(self.trajectories, force.units + setting.teacher.units)
        reach = setting.clock * float(rule.factor) * float(force.quartic) * longest
        if reach > OVERSHOOTS and not unstable:
            caution(
                f"DMFT: at learning_rate={float(rule.learning_rate):g} steps of rare trajectories with a large field "
                f"overshoot, and may carry a batch away (simulations bear more). Use a learning_rate below "
                f"{float(rule.learning_rate) * OVERSHOOTS / reach:.2g}; the status says which batches diverged.",
                AccuracyWarning,
            )

    def _bytes(self, setting: Descent | CommitteeDescent, steps: int) -> int:
        units = _force(setting).units
        return bytes_needed(self.trajectories, self._scheme(setting), steps, self.scheme == "iterated", units)

    def _kernels(self, setting: Descent | CommitteeDescent, index: int, last: int) -> tuple[Kernels, dict]:
        model, key, batch = self._model(setting), self._key(index), self._begin(setting, index, last)
        if self.scheme == "causal":
            return continue_batch(model, batch, key, last).kernels, {}
        kernels, count, change = iterate_batch(model, batch, key, last, self.tolerance, self.iterations)
        return kernels, {"iterations": count, "change": change}

    @property
    def _identity(self) -> bool:
        return self.scheme == "causal" if self.identity is None else bool(self.identity)

    def _scheme(self, setting: Descent | CommitteeDescent) -> Scheme:
        return Scheme(self.probes, self._identity)

    def _model(self, setting: Descent | CommitteeDescent) -> Model:
        rule, force = traced((setting.rule, _force(setting)))
        alpha, P = np.asarray(float(setting.ratio)), np.asarray(setting.overlaps(None).P, float)
        return Model(rule, force, as_array(alpha), as_array(P), self._scheme(setting), setting.even)

    def _begin(self, setting: Descent | CommitteeDescent, index: int, last: int) -> Batch:
        model, key, start = self._model(setting), self._key(index), setting.overlaps(self.d)
        Q, M, P = (np.asarray(x, float) for x in (start.Q, start.M, start.P))
        rest = nearest_psd(np.asarray(Q - M @ np.linalg.solve(P, M.T)))
        labels = _Labels(*traced((setting.teacher, setting.channel)))
        sample = draw_sample(labels, self.trajectories, P, rest, key, (self.seed, index))
        return first_batch(model, sample, M, rest, key, block_length(last))

    def _key(self, index: int) -> jax.Array:
        return folded(self.seed, index)

    def _settings(self) -> str:
        names = ("trajectories", "batches", "probes", "seed", "d")
        return json.dumps({name: getattr(self, name) for name in names} | {"identity": self._identity})

    def _report(
        self, setting: Descent | CommitteeDescent, times, steps, solved: list[Kernels], notes: list[dict]
    ) -> "xr.Dataset":
        attrs = {
            "trajectories": self.trajectories,
            "scheme": self.scheme,
            "seed": self.seed,
            "bytes_needed": self._bytes(setting, int(steps[-1])),
        }
        attrs |= {name: [note[name] for note in notes] for name in notes[0]}
        settled = [note.get("change", 0.0) <= self.tolerance for note in notes]
        return report(setting, times, steps, solved, settled, self.reference, attrs)


def _upper_tail(count: int, fields: int) -> float:
    """The largest squared norm among so many draws of standard normal fields: 2 log(count) of two."""
    from scipy.special import chdtri

    return float(chdtri(fields, 1 / count))


def _setting(problem: Problem, asked: Asked) -> Descent | CommitteeDescent:
    """One direction, or a committee."""
    if problem.student is None or problem.student.linear:
        return Descent.of(problem, asked)
    return CommitteeDescent.of(problem, asked)


def _force(setting: Descent | CommitteeDescent) -> AbstractForce:
    if isinstance(setting, Descent):
        return LineForce(setting.loss)
    return CommitteeForce(setting.loss, setting.student, setting.overlaps(None).a)
