r"""Sample ratios at which learning a single-index teacher becomes possible, and at which it becomes easy.

Everything is read off the curve alpha(A) of all fixed points (`macro.bayes.fixed_points`): its local maxima are the
spinodals where message passing jumps, and the information-theoretic threshold is where two branches have the same free
entropy. Nothing is iterated, so there is no slowing down at a threshold.
"""

from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from limitlab.algorithms.settings.fixed_data import at_ratio
from limitlab.algorithms.settings.multi_index import MultiGLM, several
from limitlab.analysis.multi.thresholds import MultiThresholds, multi_thresholds
from limitlab.errors import InputError
from limitlab.macro.bayes.fixed_points import Curve, curve, stable_states
from limitlab.numerics.machine import relieve
from limitlab.numerics.roots import crossing
from limitlab.problems.asked import Asked
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.networks import MultiIndex, SingleIndex
from limitlab.problems.priors import AbstractPrior
from limitlab.problems.problem import Problem
from limitlab.text import Record
from limitlab.verbs import Watch, verb

__all__ = ["Thresholds", "thresholds"]


@dataclass(frozen=True)
class Thresholds(Record):
    """Sample ratios n/d of the transitions; None where there is no such transition.

    Attributes
    ----------
    weak_recovery
        Above it message passing leaves m = 0; 0 for channels that see the sign of z.
    information
        Above it the best estimator is on the well-informed branch (perfect recovery for noiseless labels).
    algorithmic
        Above it message passing gets there from an uninformed start.
    hard_phase
        True if information < algorithmic: possible, but not by message passing.
    perfect
        True if the well-informed branch is perfect recovery.
    overlap_at_spinodal
        m at the point where message passing jumps.
    accuracy
        Estimated absolute error of each threshold.
    """

    weak_recovery: float
    information: float | None
    algorithmic: float | None
    hard_phase: bool
    perfect: bool
    overlap_at_spinodal: float | None
    accuracy: dict[str, float]

    def __str__(self) -> str:
        if self.algorithmic is None:
            return f"No first-order transition and no perfect recovery; weak recovery at {self.weak_recovery:.6g}."
        what = "perfect recovery" if self.perfect else "the well-informed branch"
        text = f"Weak recovery at {self.weak_recovery:.6g}; {what} is possible above {self.information:.6g}"
        if self.hard_phase:
            return f"{text} and easy above {self.algorithmic:.6g}: hard in between."
        return f"{text}, and easy from there on."


@overload
def thresholds(
    prior: MultiIndex, channel: AbstractChannel | None = None, progress: Watch = None
) -> MultiThresholds: ...
@overload
def thresholds(prior: AbstractPrior, channel: AbstractChannel | None = None, progress: Watch = None) -> Thresholds: ...
@overload
def thresholds(
    prior: Problem, channel: AbstractChannel | None = None, progress: Watch = None
) -> Thresholds | MultiThresholds: ...
@verb
def thresholds(
    prior: AbstractPrior | MultiIndex | Problem, channel: AbstractChannel | None = None, progress: Watch = None
) -> Thresholds | MultiThresholds:
    """Weak-recovery, information-theoretic and algorithmic thresholds of a prior and a channel, or of a problem.

    The answer is a `Thresholds`. Of a `MultiIndex` teacher (Gaussian weights) it is a `MultiThresholds`: which
    directions are trivial, easy and hard, stage by stage, and where the units of a committee specialise.

    Parameters
    ----------
    prior, channel
        For instance ``GaussianPrior()`` and ``Modulus()``; or one Problem, whose teacher's prior and channel are taken
        (its sample ratio and its learner play no part). Or a `MultiIndex` teacher, with a channel that acts on the
        value of its link or, left out, labels without noise; real ones are put in bins, fine enough for the stated
        accuracy.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.

    Examples
    --------
    >>> import limitlab as ll
    >>> round(ll.thresholds(ll.GaussianPrior(), ll.Modulus()).algorithmic, 5)
    1.12847
    >>> round(ll.thresholds(ll.MultiIndex(2, "majority", ties="zero")).specialisation, 4)
    2.0524
    >>> swept = ll.sweep(ll.thresholds, ll.library.phase_retrieval(), {"channel.variance": [0.0, 0.1]})
    >>> swept.sizes["channel.variance"]
    2
    """
    relieve()
    asked = Asked("thresholds", InputError)
    if isinstance(prior, MultiIndex):
        return multi_thresholds(prior, channel)
    if isinstance(prior, Problem) and several(prior):
        if channel is not None or not prior.inputs.normal:
            asked.refuse("a problem with Gaussian inputs, alone", "others", "Call thresholds(teacher, channel).")
        return multi_thresholds(MultiGLM.of(at_ratio(prior, 1.0), asked).teacher, prior.channel)
    if isinstance(prior, Problem):
        prior, channel = _parts(prior, channel, asked)
    remedy = "Call thresholds(prior, channel), thresholds(MultiIndex(...)), or thresholds(problem)."
    prior = asked.part(prior, AbstractPrior, "a prior such as GaussianPrior()", remedy)
    channel = asked.part(channel, AbstractChannel, "a channel such as Sign()", remedy)
    return read_thresholds(curve(prior, channel))


def read_thresholds(line: Curve) -> Thresholds:
    """The thresholds that a curve of fixed points has."""
    weak = line.weak_recovery
    jump = _highest_jump(line)
    accuracy = {"weak_recovery": 1e-10 * weak}
    if jump is None:
        if np.isfinite(line.perfect_from):
            limit = max(line.perfect_from, 0.0)
            return Thresholds(
                weak, limit, limit, False, True, None, {**accuracy, "information": 0.0, "algorithmic": 0.0}
            )
        return Thresholds(weak, None, None, False, False, None, accuracy)
    algorithmic, m = jump
    accuracy["algorithmic"] = 1e-8 * algorithmic
    information, error = _information(line, algorithmic)
    accuracy["information"] = error
    top = stable_states(line, np.array([algorithmic * (1 + 1e-9)]))[0][-1]
    hard = information < algorithmic - accuracy["algorithmic"] - error
    return Thresholds(weak, information, algorithmic, hard, top.kind == "perfect", m, accuracy)


def _parts(problem: Problem, channel: Any, asked: Asked) -> tuple[AbstractPrior, AbstractChannel]:
    """The prior and the channel of a problem that is a single direction seen through Gaussian inputs."""
    if channel is not None:
        raise InputError(
            f"thresholds takes a Problem alone, or a prior and a channel; got a Problem and {channel!r}. Leave the "
            "channel out: the problem has one."
        )
    teacher = asked.part(
        problem.teacher,
        SingleIndex,
        "a problem whose teacher is a single direction with a prior",
        "Use teacher=SingleIndex(prior=GaussianPrior()) and a channel such as Sign().",
    )
    if not problem.inputs.normal:
        asked.refuse(
            "a problem with Gaussian inputs",
            type(problem.inputs).__name__,
            "Use inputs=Gaussian(), or call thresholds(prior, channel).",
        )
    return teacher.prior, problem.channel


def _highest_jump(line: Curve) -> tuple[float, float] | None:
    """The highest local maximum of alpha(A), also at its left end, beyond which the curve falls."""
    at = line.at
    tops = [(float(at.alpha[i]), float(at.m[i])) for i in line.maxima]
    if line.channel.even and at.alpha[np.argmax(at.A > 1e-6 * at.A[-1])] < line.weak_recovery:
        first = line.minima[0] if len(line.minima) else len(at.A) - 1
        if len(line.maxima) == 0 or first < line.maxima[0]:
            tops.append((line.weak_recovery, 0.0))
    return max(tops) if tops else None


def _information(line: Curve, algorithmic: float) -> tuple[float, float]:
    """Where the best of the higher branches overtakes the one that message passing finds; its error."""
    if line.channel.noiseless_rate > 0 and line.perfect_from < algorithmic:
        return line.perfect_from, 0.0  # above it the free entropy of perfect recovery is infinite

    def lead(alpha: float) -> float:
        states = stable_states(line, np.array([alpha]))[0]
        higher = [s for s in states[1:] if s.free_entropy > -np.inf]
        return max((s.free_entropy for s in higher), default=-np.inf) - states[0].free_entropy

    high = algorithmic * (1 - 1e-9)
    ahead = lead(high)
    if ahead <= 0:
        return algorithmic, 0.0
    alpha, off = crossing(lead, 0.0, high, ahead)
    return alpha, max(1e-9, off)
