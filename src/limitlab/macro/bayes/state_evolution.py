r"""State evolution: approximate message passing as d goes to infinity, iteration by iteration."""

from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.gamp.gamp import GAMP
from limitlab.algorithms.settings.fixed_data import GLM
from limitlab.algorithms.settings.multi_index import MultiGLM, several
from limitlab.errors import InputError
from limitlab.macro.bayes.bayes_optimal import label_errors
from limitlab.macro.bayes.fixed_points import V_FLOOR, FixedPoint, curve, stable_states
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.multi.report import check_bins, evolved_matrix, follows, matrix_setting
from limitlab.modules import Module, field, filter_jit
from limitlab.numerics.checks import check_integer, check_number
from limitlab.numerics.machine import Memory
from limitlab.numerics.shapes import along_rows, places
from limitlab.numerics.trees import plain, traced
from limitlab.problems.asked import Asked
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.channels.base import teacher_given_student
from limitlab.problems.priors import AbstractPrior
from limitlab.problems.problem import Problem
from limitlab.problems.starts.base import AbstractStart, Order
from limitlab.results.schema import dataset
from limitlab.states.direction import Belief, MatrixBelief
from limitlab.states.overlaps import Overlaps
from limitlab.states.run import Run
from limitlab.states.view import Variable, assembled

__all__ = ["Order", "StateEvolution", "evolve", "matched_step", "mismatched_step"]

WEAK = 1e-6
INFORMED = 1 - 1e-9
WELL_INFORMED = 0.99  # of several directions: sharper posteriors are beyond the grid
SHARPEST = 1 - 1e-6  # of one field of a `MultiIndex` teacher
A_FLOOR = 1e-10
PERFECT = 1e-12  # of V: recovery is perfect
MAX_ITERATIONS = 5000
STUCK = "m = 0 is a fixed point of an even channel; start='weak' leaves it where that is possible"
STUCK_AT_RANDOM = ", d=1000 gives a random start the overlap that it has at that size"


def matched_step(prior: AbstractPrior, channel: AbstractChannel, alpha: jax.Array, now: Order) -> Order:
    r"""One iteration on the Nishimori line: A = alpha E g^2, then m = q = m_w(A), V = V_w(A)."""
    A = alpha * channel.bayes(now.m, now.V).g2
    if channel.even:
        A = jnp.where(now.m == 0, 0.0, A)  # exactly stuck, not by 1e-300
    m, V, _ = prior.bayes(jnp.maximum(A, 1e-300))
    return Order(jnp.where(A > 0, m, 0.0), jnp.where(A > 0, m, 0.0), jnp.maximum(V, V_FLOOR))


def mismatched_step(prior: AbstractPrior, channel: AbstractChannel, alpha: jax.Array, now: Order) -> Order:
    r"""One iteration for any m, q, V.

    .. math:: \hat m = \alpha E[f_0 g], \quad \hat q = \alpha E[g^2], \quad \hat\chi = -\alpha E[\partial g]

    with omega ~ N(0, q) and labels y from the teacher's field z ~ N((m/q) omega, rho - m^2/q), whose own output
    function is f_0; then m = E[w f_a], q = E[f_a^2], V = E[f_v] at A = chi, B = m_hat w + sqrt(q_hat) z.
    """
    slope, V0 = teacher_given_student(jnp.asarray(prior.second_moment, float), now.m, now.q)
    law = channel.even_law(now.q, slope, V0, now.V)  # f_0 g, g^2 and dg do not change with the sign of omega
    out = channel.output(law.y, law.w, now.V)
    truth = channel.output(law.y, slope * law.w, V0)
    m_hat, q_hat = alpha * law.mean(truth.g * out.g), alpha * law.mean(jnp.square(out.g))
    A = jnp.maximum(-alpha * law.mean(out.dg), A_FLOOR)
    after = Order(*prior.overlaps(m_hat, q_hat, A))
    # At the truth nothing is left to learn, and only ratios of zeros to compute.
    done = (now.V < PERFECT) | (V0 <= PERFECT * prior.second_moment)
    return jax.tree.map(lambda old, new: jnp.where(done, old, new), now, after)


def evolve(
    prior: AbstractPrior, channel: AbstractChannel, alpha, start: Order, iterations: int, matched: bool
) -> Order:
    """The start and the iterations after it, stacked."""
    room, count = places(iterations + 1), np.asarray(iterations)
    path = _evolve(prior, channel, np.asarray(alpha), Order(*map(np.asarray, start)), count, room, matched)
    return Order(*(np.asarray(x)[: iterations + 1] for x in path))


@filter_jit
def _evolve(prior, channel, alpha, start: Order, count, room: int, matched: bool) -> Order:
    step = matched_step if matched else mismatched_step

    def body(i, carry):
        now, path = carry
        after = step(prior, channel, alpha, now)
        return after, jax.tree.map(lambda line, x: line.at[i + 1].set(x), path, after)

    path = jax.tree.map(lambda x: jnp.zeros(room).at[0].set(x), start)
    return jax.lax.fori_loop(0, count, body, (start, path))[1]


@filter_jit
def _settle(prior, channel, alpha, start: Order, tolerance: float):
    """Iterate to a fixed point; returns it, the number of iterations and the last relative change."""

    def unfinished(carry):
        _, count, change = carry
        return (count < MAX_ITERATIONS) & (change > tolerance)

    def body(carry):
        now, count, _ = carry
        after = mismatched_step(prior, channel, alpha, now)
        change = sum(jnp.abs(b - a) / (jnp.abs(b) + 1e-12) for a, b in zip(now, after, strict=True))
        return after, count + 1, change

    return jax.lax.while_loop(unfinished, body, (start, 0, jnp.asarray(jnp.inf)))


@along_rows
@filter_jit
def _errors(channel: AbstractChannel, rho, path: Order):
    return jax.lax.map(lambda o: channel.prediction_error(rho, o.m, o.q, o.V), path)


class StateEvolution(AbstractLimit):
    r"""Approximate message passing on a single-index teacher, iteration by iteration, as :math:`d \to \infty`.

    .. math:: A^t = \alpha E g^2(m^t, V^t), \qquad m^{t+1} = m_w(A^t), \quad V^{t+1} = V_w(A^t)

    from a start on the Nishimori line (q = m, V = rho - m), where the estimate knows its own error; from any other
    start the three equations for (m, q, V). Entry t of ``iteration`` is the state after t iterations, as in `simulate`
    with `GAMP`. The fixed point (``m_fixed``, ...) is read off the curve of all fixed points, not iterated, so that it
    is right also next to a spinodal; from a start off the Nishimori line it is iterated. V is kept above 1e-26. From
    m = 0 an even channel never leaves: the attribute ``note`` says so.

    Parameters
    ----------
    start
        "uninformed": what the problem's own start says, or the prior mean (m = 0) if it has none. "weak": an overlap
        of 1e-6 rho, "informed": all but 1e-9 of the truth. A number in [0, 1]: that share m/rho.
        Of a `MultiIndex` teacher the overlap is a matrix: that of an `InformedStart`, or 0 (from where alike units
        never specialise); "weak" is 1e-6 and different for every direction, a number that share of the identity.
    iterations
        None: as many as the problem's `GAMP` makes, else 50.
    d
        For a `RandomStart`: the dimension, at which its overlap with the teacher is scale sqrt(rho/d) (in the limit it
        is 0, from where an even channel never leaves). One direction only.
    bins
        As for `BayesOptimal`.
    """

    start: str | float = field(static=True, converter=plain, default="uninformed")
    iterations: int | None = field(static=True, converter=plain, default=None)
    d: float | None = None
    bins: int | None = field(static=True, converter=plain, default=None)

    grows: ClassVar[str] = "n and d"
    stays: ClassVar[str] = "α = n/d, iterations"
    needs: ClassVar[str] = "Gaussian inputs, a SingleIndex or MultiIndex teacher, sample_ratio"
    cost: ClassVar[str] = "a pair of integrals an iteration"
    reference: ClassVar[str] = "rangan2011generalized"
    matrix_reference: ClassVar[str] = "aubin2018committee"
    rate: ClassVar[dict[str, float]] = {"d": -0.5}
    variables: ClassVar[dict[str, Variable]] = {**assembled(Belief, MatrixBelief, Run), "M": Overlaps.variables["M"]}
    axis: ClassVar[str] = "iteration"

    def __check_init__(self):
        if isinstance(self.start, str):
            if self.start not in ("uninformed", "weak", "informed"):
                raise InputError(
                    "StateEvolution.start must be 'uninformed', 'weak', 'informed' or a share m/rho in [0, 1]; got "
                    f"{self.start!r}. Choose one of these."
                )
        else:
            remedy = "It is the share m/rho; a matrix is given by the problem, as Problem(start=InformedStart(M))."
            check_number("StateEvolution", "start", self.start, low=0, high=1, remedy=remedy)
        if self.iterations is not None:
            check_integer("StateEvolution", "iterations", self.iterations, low=1, remedy="Ask for at least one.")
        if self.d is not None:
            check_number("StateEvolution", "d", self.d, low=1, remedy="It is the dimension of a random start.")
        check_bins("StateEvolution", self.bins)

    def setting(self, problem: Problem, asked: Asked) -> "MessagePassing":
        setting = MessagePassing.of(problem, asked, self.start == "uninformed", self.bins)
        if isinstance(setting.glm, MultiGLM):
            self._check_matrix_start(setting, setting.glm, asked)
        return setting

    def _check_matrix_start(self, setting: "MessagePassing", glm: MultiGLM, asked: Asked) -> None:
        K, M = glm.teacher.units, self.begin_matrix(setting)
        most, top = WELL_INFORMED if K > 1 else SHARPEST, float(np.linalg.eigvalsh(M)[-1])
        if top > most:
            asked.refuse(
                f"a start whose overlap has eigenvalues up to {most:g}: what is known better is beyond its grid",
                f"{top:g}",
                "Start from 0.9, say, or from start='informed'; the perfect state stays perfect.",
            )
        if not follows(glm, M):
            asked.refuse(
                f"a start with alike units, M = q 11^T/K, of {K} directions: beyond 3 it knows the committee ansatz "
                "M = q_d I + q_a 11^T/K with q_d = 0 only",
                f"the overlap {np.round(M, 6).tolist()}",
                "Leave the start out, use such a matrix, a smaller width, or simulate GAMP().",
            )

    def memory(self, setting: "MessagePassing", times: np.ndarray | None) -> Memory:
        count = self.iterations or setting.iterations
        K = setting.glm.teacher.units
        return Memory(8 * (40 + 2 * K * K) * count, f"It keeps {count} iterations. Use fewer iterations.")

    def begin(self, glm: GLM, setting: "MessagePassing") -> Order:
        """Where the iteration starts."""
        rho, share = glm.rho, self.start
        if share == "uninformed":
            own = Order(0.0, 0.0, rho) if setting.start is None else setting.start.order(rho, self.d)
            if float(own.m) < 0:
                raise InputError(
                    f"StateEvolution needs InformedStart.overlap = m/rho in [0, 1]; got {float(own.m) / rho:g}."
                )
        else:
            share = {"weak": WEAK, "informed": INFORMED}.get(str(share), share)
            rest = 1e-9 if share == INFORMED else 1 - float(share)
            own = Order(float(share) * rho, float(share) * rho, rest * rho)
        return Order(*(np.asarray(float(x)) for x in (own.m, own.q, max(own.V, V_FLOOR))))

    def begin_matrix(self, setting: "MessagePassing") -> np.ndarray:
        """The overlap of several directions where the iteration starts."""
        K, share = setting.glm.teacher.units, self.start
        if share == "uninformed":
            return np.zeros((K, K)) if setting.start is None else np.asarray(setting.start.matrix_overlap(K))
        if share == "weak":
            return WEAK * np.diag(np.linspace(1.0, 0.5, K))
        return (WELL_INFORMED if share == "informed" else float(share)) * np.eye(K)

    def solve(self, setting: "MessagePassing", times: np.ndarray | None = None):
        if isinstance(setting.glm, MultiGLM):
            start, count = self.begin_matrix(setting), self.iterations or setting.iterations
            return evolved_matrix(setting.glm, start, count, self.bins, "StateEvolution", self.matrix_reference)
        glm = setting.glm
        problem, prior, channel, alpha, rho = glm.problem, glm.prior, glm.channel, glm.ratio, glm.rho
        start = self.begin(glm, setting)
        matched = bool(start.q == start.m)
        count = self.iterations or setting.iterations
        parts = traced(prior), traced(channel)
        path = evolve(*parts, alpha, start, count, matched)
        end, status, attrs = _fixed(glm, start, matched)
        if channel.even and float(start.m) == 0:
            at_random = setting.start is not None and setting.start.alone and setting.start.random
            attrs["note"] = STUCK + (STUCK_AT_RANDOM if at_random else "")
        both = Order(*(np.append(line, np.asarray(x)) for line, x in zip(path, end, strict=True)))
        if matched:  # V down to the floor that simulations have as well; the fixed point as it is
            seen = np.append(np.maximum(path.V, PERFECT * rho), both.V[-1])
            errors = label_errors(channel, both.m, seen)[1]
        else:
            errors = _errors(parts[1], np.asarray(rho), both)
        m, q, V = path
        along = ("iteration",)
        variables = {
            "m": (along, m),
            "q": (along, q),
            "V": (along, V),
            "mse": (along, V if matched else rho - 2 * m + q),
            "generalisation_error": (along, errors[:-1]),
            "m_fixed": ((), float(end.m)),
            "q_fixed": ((), float(end.q)),
            "V_fixed": ((), float(end.V)),
            "mse_fixed": ((), float(end.V) if matched else float(rho - 2 * end.m + end.q)),
            "generalisation_error_fixed": ((), errors[-1]),
            "status": ((), status),
        }
        return dataset(problem, variables, method="StateEvolution", reference=self.reference, attrs=attrs)


class MessagePassing(Module):
    """Undamped message passing on a generalised linear model."""

    glm: GLM | MultiGLM
    start: AbstractStart | None
    iterations: int = field(static=True)

    @classmethod
    def of(cls, problem: Problem, asked: Asked, own_start: bool, bins: int | None = None) -> Self:
        glm = matrix_setting(problem, asked, bins) if several(problem) else GLM.of(problem, asked)
        rule = GAMP() if problem.algorithm is None else problem.algorithm
        if not isinstance(rule, GAMP):
            raise asked.error(
                f"{asked.by} describes message passing (Problem.algorithm=GAMP() or none); got {rule}. See "
                "limits(problem) for the limit of this rule."
            )
        if float(rule.damping) > 0:
            raise asked.error(
                f"{asked.by} follows undamped iterations; got damping={float(rule.damping):g}. A damped run has "
                "the same fixed point but other iterations: use GAMP(damping=0), or BayesOptimal() for the fixed point."
            )
        if own_start and not (problem.start is None or problem.start.alone):
            raise asked.error(
                f"{asked.by} starts from InformedStart, RandomStart or nothing; got {problem.start}. The overlap of "
                "this start depends on the data: give a number, StateEvolution(start=0.3), or start='weak'."
            )
        return cls(glm, problem.start, rule.iterations)


def _fixed(glm: GLM, start: Order, matched: bool) -> tuple[Order, str, dict]:
    """Where the iteration ends, how, and what there is to say about it."""
    if matched:
        state = _reached(curve(glm.prior, glm.channel), glm.ratio, float(start.m))
        return Order(*(np.asarray(x) for x in (state.m, state.m, max(state.V, V_FLOOR)))), "ok", {}
    end, count, change = _settle(traced(glm.prior), traced(glm.channel), np.asarray(glm.ratio), start, 1e-10)
    done = float(change) <= 1e-10
    return end, "ok" if done else "not_converged", {"iterations": int(count), "change": float(change)}


def _reached(line, alpha: float, m: float) -> FixedPoint:
    """The stable fixed point that a monotone iteration from overlap m goes to."""
    rho = float(line.prior.second_moment)
    if line.channel.even and m == 0:
        return FixedPoint(0.0, 0.0, rho, alpha * line.zero_phi, "zero")
    states = stable_states(line, np.array([alpha]))[0]
    # The map rises at m if alpha(A) < alpha there, A being the signal whose overlap is m.
    at = line.at
    here = np.interp(m, at.m, at.alpha, left=line.weak_recovery, right=at.alpha[-1])
    if here < alpha or m == 0:
        return next((s for s in states if s.m >= m), states[-1])
    return next((s for s in reversed(states) if s.m <= m), states[0])
