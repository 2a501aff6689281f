"""Dynamical mean-field theory: descent on a fixed data set as d goes to infinity, at a finite step."""

import json
import warnings
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.descent_requirements import check_descent, start_overlaps
from limitlab.errors import AccuracyWarning, InputError, LimitUndefinedError
from limitlab.macro.dmft.paths import draw_sample
from limitlab.macro.dmft.report import report
from limitlab.macro.dmft.rows import Kernels, Model, Scheme
from limitlab.macro.dmft.solve import Batch, block_length, bytes_needed, continue_batch, first_batch, iterate_batch
from limitlab.macro.dmft.state import DMFTState
from limitlab.macro.limit import AbstractLimit
from limitlab.micro.descent_steps import warn_if_unstable
from limitlab.numerics.checks import check_choice, check_integer, check_number, check_times, whole_steps
from limitlab.numerics.machine import check_memory
from limitlab.numerics.trees import traced
from limitlab.problems.losses import PhaseRetrievalLoss
from limitlab.problems.problem import Problem
from limitlab.spec import spec_hash

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["DMFT"]

BLURRED = 2.0  # an overlap of the start below this many sqrt(alpha/trajectories) is lost in their noise
OVERSHOOTS = 1.6  # eta h^2 of the largest field; batches were lost from 1.65 on
RIDGE = 0.1  # of the identity, in units of C_z; 0.01 gives the same
KINK_RIDGE = 0.01  # where the identity alone gives K, a larger one biases it


class DMFT(AbstractLimit):
    r"""Descent of one direction w on n = alpha d samples as :math:`d \to \infty`, step by step (eta is not small).

    .. math::
        h^{t+1} &= a_t h^t - e_t \Big[g^t + \sum_{s \le t} K(t, s)\, h^s + \xi^t\Big] + \mathrm{noise}, \qquad
        g^t = \sigma^t\, \ell'(y, h^t + \tfrac{m_t}{\rho} h_0) \\
        m_{t+1} &= a_t m_t - e_t\, \alpha E[h_0 g^t], \qquad
        E[\xi^t \xi^s] = M_C(t, s) = \alpha E[g^t g^s], \qquad K(t, s) = \alpha E[\partial g^t / \partial P^s]

    for the field h of one training sample, orthogonal to the teacher's field h_0 ~ N(0, rho); P^s is a kick inside the
    force at step s, K(t, t) = alpha E[g'^t]. The averages are over ``trajectories``, and the norm comes from the
    kernels, so that the sphere is kept exactly. Needs Gaussian inputs, a `SingleIndex` teacher, and a start independent
    of the data. Clock: t = learning_rate * step.

    The result has ``m``, ``q``, ``train_loss``, ``risk``; ``C`` = w(t).w(t')/d and ``R``, the response of w(t) to a
    field on w at t' per unit time; the memory kernels ``M_C`` and ``M_R`` = -K/eta for t' < t, ``delta_nu`` = K(t, t);
    ``nu`` = (1 - a)/eta, the multiplier that keeps the sphere (else the ridge); ``residual``, by how much
    :math:`\alpha E[g^t h^t]` differs from what the kernels say. The dimension ``replica`` counts batches: independent
    solutions, whose scatter is the Monte-Carlo error.

    Memory: 24 + 9 probes bytes per trajectory and step, and blocks of steps beyond the last (``bytes_needed`` has all),
    one batch at a time. Work: 6 trajectories * steps^2.

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
        Whether each row of K is corrected by an exact identity between alpha E[g^t h^s] and the kernels. Without it
        C is biased in hard cases. None: yes if causal, no if iterated (which does not converge well with it).
    seed
        A whole number.
    d
        For a `RandomStart`: the dimension at which its overlap with the teacher is sqrt(q rho/d) (in the limit it is 0,
        from where labels without a sign never leave).
    tolerance, iterations
        Of the iterated scheme: the change of m and C at which it stops, and the most iterations.
    """

    trajectories: int = eqx.field(static=True, default=4096)
    batches: int = eqx.field(static=True, default=8)
    scheme: str = eqx.field(static=True, default="causal")
    probes: int = eqx.field(static=True, default=1)
    identity: bool | None = eqx.field(static=True, default=None)
    seed: int = eqx.field(static=True, default=0)
    d: float | None = eqx.field(static=True, default=None)
    tolerance: float = eqx.field(static=True, default=1e-9)
    iterations: int = eqx.field(static=True, default=200)

    reference: ClassVar[str] = "mignacco2021stochasticity"
    rate: ClassVar[dict[str, float]] = {"d": -0.5}

    def __check_init__(self):
        check_integer("DMFT", "trajectories", self.trajectories, low=8, remedy="Thousands give errors of a per cent.")
        check_integer("DMFT", "batches", self.batches, low=1, remedy="Use 2 or more for error bars.")
        check_choice("DMFT", "scheme", self.scheme, ("causal", "iterated"))
        check_integer("DMFT", "probes", self.probes, low=1, remedy="One is enough.")
        check_integer("DMFT", "seed", self.seed, low=0, remedy="Seeds are whole numbers.")
        check_number("DMFT", "tolerance", self.tolerance, low=0, open_low=True, remedy="Use 1e-9, say.")
        check_integer("DMFT", "iterations", self.iterations, low=1, remedy="Ask for at least one.")
        if self.d is not None:
            check_number("DMFT", "d", self.d, low=1, remedy="It is the dimension of a random start.")
        if self.scheme == "iterated" and self.identity:
            raise InputError(
                "DMFT.identity must be False (or left out) for scheme='iterated', which hardly converges with it; got "
                "True. Use scheme='causal'."
            )

    def check(self, problem: Problem) -> None:
        check_descent("DMFT", problem)
        if not problem.loss.smooth and not self._identity:  # type: ignore[union-attr]
            raise LimitUndefinedError(
                f"DMFT needs scheme='causal' with identity=True for a loss with kinks; got {problem.loss} with "
                f"scheme={self.scheme!r}, identity={self.identity}. Leave both out, or use a smooth loss such as "
                "SquaredHingeLoss()."
            )

    def solve(self, problem: Problem, times: np.ndarray) -> "xr.Dataset":
        steps = self._prepare(problem, times, kept=1)
        solved, notes = [], []
        for index in range(self.batches):
            kernels, note = self._kernels(problem, index, int(steps[-1]))
            solved.append(kernels)
            notes.append(note)
        return self._report(problem, times, steps, solved, notes)

    def run(self, problem: Problem, times) -> "tuple[xr.Dataset, DMFTState]":
        """Like `predict`, and the state to go on from; it holds the paths of all batches."""
        return self._continue(problem, times, None)

    def resume(self, problem: Problem, state: DMFTState, times) -> "tuple[xr.Dataset, DMFTState]":
        """Go on from a state of `run` (or `DMFTState.load`): the same numbers as a run from the start would have."""
        state.check(spec_hash(problem), self._settings())
        return self._continue(problem, times, state)

    def _continue(self, problem: Problem, times, state: DMFTState | None):
        self.check(problem)
        if self.scheme != "causal":
            raise InputError("DMFT.run and resume need scheme='causal': iteration has no state. Use predict.")
        times = check_times(times)
        steps = self._prepare(problem, times, kept=self.batches)
        model, batches = self._model(problem), []
        for index in range(self.batches):
            batch = self._begin(problem, index, int(steps[-1])) if state is None else state.batches[index]
            batches.append(continue_batch(model, batch, self._key(index), int(steps[-1])))
        data = self._report(problem, times, steps, [batch.kernels for batch in batches], [{}] * self.batches)
        return data, DMFTState(tuple(batches), spec_hash(problem), self._settings())

    def _prepare(self, problem: Problem, times: np.ndarray, kept: int) -> np.ndarray:
        """The steps of the asked times, after a word on memory and on the step size."""
        steps = whole_steps(times, problem.algorithm.clock(problem, 1.0))  # type: ignore[union-attr]
        needed = kept * self._bytes(int(steps[-1]))
        check_memory(
            needed,
            f"It holds {self.trajectories} trajectories of {int(steps[-1])} steps. Use fewer trajectories and more "
            "batches, a shorter time, or a larger learning_rate.",
            by="DMFT",
        )
        self._warn(problem, unstable=warn_if_unstable("DMFT", problem))
        return steps

    def _warn(self, problem: Problem, unstable: bool) -> None:
        """Two ways in which finitely many trajectories are worse than the theory they stand for."""
        rule, loss, ratio = problem.need("algorithm", "loss", "sample_ratio", by="DMFT")
        m, blur = abs(start_overlaps(problem, self.d)[0]), float(np.sqrt(ratio / self.trajectories))
        if problem.channel.even and 0 < m < BLURRED * blur:
            warnings.warn(
                f"DMFT: the overlap {m:.2g} of the start is not well above what {self.trajectories} trajectories "
                f"resolve (about {blur:.2g}): how it grows from there is Monte-Carlo noise. Use trajectories="
                f"{int(ratio * (BLURRED / m) ** 2) + 1} or more, or simulate.",
                AccuracyWarning,
                stacklevel=5,
            )
        longest = 4 * np.log(self.trajectories)  # the largest h^2 among draws of variance 2
        reach = float(rule.learning_rate) * float(rule.factor) * 4 * float(getattr(loss, "prefactor", 0.0)) * longest
        if isinstance(loss, PhaseRetrievalLoss) and reach > OVERSHOOTS and not unstable:
            warnings.warn(
                f"DMFT: at learning_rate={float(rule.learning_rate):g} steps of rare trajectories with a large field "
                f"overshoot, and may carry a batch away (simulations bear more). Use a learning_rate below "
                f"{float(rule.learning_rate) * OVERSHOOTS / reach:.2g}; the status says which batches diverged.",
                AccuracyWarning,
                stacklevel=5,
            )

    def _bytes(self, steps: int) -> int:
        return bytes_needed(self.trajectories, self.probes, steps, block_length(steps), self.scheme == "iterated")

    def _kernels(self, problem: Problem, index: int, last: int) -> tuple[Kernels, dict]:
        model, key, batch = self._model(problem), self._key(index), self._begin(problem, index, last)
        if self.scheme == "causal":
            return continue_batch(model, batch, key, last).kernels, {}
        kernels, count, change = iterate_batch(model, batch, key, last, self.tolerance, self.iterations)
        return kernels, {"iterations": count, "change": change}

    @property
    def _identity(self) -> bool:
        return self.scheme == "causal" if self.identity is None else bool(self.identity)

    def _scheme(self, problem: Problem) -> Scheme:
        return Scheme(self.probes, self._identity, RIDGE if problem.loss.smooth else KINK_RIDGE)  # type: ignore[union-attr]

    def _model(self, problem: Problem) -> Model:
        rule, loss, ratio = problem.need("algorithm", "loss", "sample_ratio", by="DMFT")
        rho = float(problem.teacher.prior.second_moment)  # type: ignore[union-attr]
        scheme, even = self._scheme(problem), bool(problem.channel.even)
        return Model(*traced((rule, loss)), jnp.asarray(float(ratio)), jnp.asarray(rho), scheme, even)

    def _begin(self, problem: Problem, index: int, last: int) -> Batch:
        model, key = self._model(problem), self._key(index)
        rho = float(model.rho)
        m, q = start_overlaps(problem, self.d)
        sample = draw_sample(
            problem.channel, self.trajectories, rho, max(q - m * m / rho, 0.0), key, (self.seed, index)
        )
        return first_batch(model, sample, m, q, key, block_length(last))

    def _key(self, index: int) -> jax.Array:
        return jax.random.fold_in(jax.random.key(self.seed), index)

    def _settings(self) -> str:
        names = ("trajectories", "batches", "probes", "seed", "d")
        return json.dumps({name: getattr(self, name) for name in names} | {"identity": self._identity})

    def _report(self, problem: Problem, times, steps, solved: list[Kernels], notes: list[dict]) -> "xr.Dataset":
        attrs = {
            "trajectories": self.trajectories,
            "scheme": self.scheme,
            "seed": self.seed,
            "bytes_needed": self._bytes(int(steps[-1])),
        }
        attrs |= {name: [note[name] for note in notes] for name in notes[0]}
        settled = [note.get("change", 0.0) <= self.tolerance for note in notes]
        return report(problem, times, steps, solved, settled, self.reference, attrs)
