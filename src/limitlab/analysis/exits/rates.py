r"""Which learning rates leave the plateau, which learn, which is best, and what width gains.

Samples to escape: n = (d/Gamma) log(...)/(8(1 - Gamma c_p)) with Gamma = gamma/p, so that Gamma = 1/(2 c_p)
is best.
"""

import math

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.analysis.exits.formulas import Plateau, plateau_in, unit_rate
from limitlab.modules import Module, field
from limitlab.numerics.checks import check_integer, check_number
from limitlab.numerics.machine import relieve
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.text import Record
from limitlab.verbs import Watch, verb

__all__ = [
    "CriticalRate",
    "Gain",
    "OptimalRate",
    "critical_learning_rate",
    "optimal_learning_rate",
    "overparametrisation_gain",
]

ALIGNED = 1 / 6  # Gamma above which a common displacement from the teacher grows (no label noise)


class OptimalRate(Record, Module):
    """The rate that leaves the plateau with the fewest samples; ``float(rate)`` is its ``value``.

    ``prefactor`` is that of n = prefactor * d * log(...). ``learns`` is False where the full equations at
    this rate do not learn; ``note`` then says so. ``escape`` and ``learning`` are the bounds of
    `critical_learning_rate`.
    """

    value: float
    prefactor: float
    escape: float
    learning: float
    learns: bool
    note: str = field(static=True)

    def __float__(self) -> float:
        return self.value


class CriticalRate(Record, Module):
    """Rates at which the behaviour changes; ``float(rate)`` is the ``learning`` bound.

    Attributes
    ----------
    escape
        At and above it the plateau m = 0 is stable.
    learning
        At and above it the risk does not go to its floor.
    sharp
        False where label noise turns the learning bound into a crossover (p >= 2, Delta > 0).
    """

    escape: float
    learning: float
    sharp: bool
    note: str = field(static=True)

    def __float__(self) -> float:
        return self.learning


class Gain(Record, Module):
    """Samples needed at width 1 over samples needed at this width, prefactors of d log(...) only.

    ``at_optimum`` compares the optimal rates of both (Arnaboldi et al. 2023: (12 + Delta)/(2 + Delta) as the
    width grows); ``attainable`` keeps to rates that also learn.
    """

    width: float
    variance: float
    at_optimum: float
    attainable: float
    note: str = field(static=True)

    def __float__(self) -> float:
        return self.attainable


@verb
def optimal_learning_rate(problem: Problem, progress: Watch = None) -> OptimalRate:
    r"""The rate with the fewest samples to leave the plateau.

    .. math:: \gamma_{opt} = \frac{p}{2 + 2/p + 8/p^2 + \Delta}

    times the batch size. The problem's own rate is ignored. For p >= 2 and little noise gamma_opt > p/6: SGD
    leaves the plateau at this rate but does not learn. Needs the problem of `exit_time`, from any start.
    """
    relieve()
    here, unit = _plateau_and_unit("optimal_learning_rate", problem)
    critical = _critical(here, unit)
    value = unit / (2 * here.c)
    learns = value < critical.learning
    note = (
        ""
        if learns
        else (
            "This rate minimises the samples to leave the plateau, but it is not below the learning bound "
            f"{critical.learning:.4g}: the full equations do not learn at it. Stay below that bound."
        )
    )
    return OptimalRate(value, here.c / 2, critical.escape, critical.learning, learns, note)


@verb
def critical_learning_rate(problem: Problem, progress: Watch = None) -> CriticalRate:
    r"""Where escape and learning end.

    .. math:: \gamma_{escape} = p/c_p = 2\gamma_{opt}, \qquad \gamma_{learning} = \min(p/6, p/c_p)

    times the batch size; for p = 1 both are 2/(12 + Delta). For p >= 2 without noise the aligned state, all
    units at the teacher, is stable below p/6 and unstable above. With label noise and p >= 2 there is no
    sharp bound: the state that is reached moves away from the teacher smoothly as gamma passes p/6;
    `asymptotic_risk` has it. Needs the problem of `exit_time`, from any start; its own rate is ignored.
    """
    relieve()
    return _critical(*_plateau_and_unit("critical_learning_rate", problem))


@verb
def overparametrisation_gain(width: float, variance: float = 0.0) -> Gain:
    r"""What a student of ``width`` p (math.inf allowed) gains over p = 1.

    .. math::
        \text{at\_optimum} = \frac{c_1}{c_p} \to \frac{12 + \Delta}{2 + \Delta}, \qquad
        \text{attainable} = 4 c_1 \max_{\Gamma \le 1/6} \Gamma(1 - \Gamma c_p)

    (the maximum over all rates gives the first). Without noise attainable = (2/3)(6 - c_p) for p >= 2, which
    is at most 10/3.
    """
    if width != math.inf:
        width = check_integer(
            "overparametrisation_gain", "width", width, low=1, high=2**53, remedy="Use math.inf for the limit."
        )
    variance = check_number("overparametrisation_gain", "variance", variance, low=0, remedy="It is the label noise.")
    one, wide = 6 + variance / 2, 1 + 1 / width + 4 / width**2 + variance / 2

    def prefactor(Gamma: float, c: float) -> float:
        return 1 / (8 * Gamma * (1 - Gamma * c))

    best = prefactor(1 / (2 * one), one)
    free = prefactor(1 / (2 * wide), wide)
    bound = 1 / (2 * wide) if width == 1 else min(1 / (2 * wide), ALIGNED)
    kept = prefactor(bound, wide)
    note = (
        "Ratios of the prefactors of d log(...): the logarithms differ as well. The second is approached "
        "from rates below the learning bound."
    )
    return Gain(float(width), variance, best / free, best / kept, note)


def _plateau_and_unit(by: str, problem: Problem) -> tuple[Plateau, float]:
    """The plateau, and the learning rate at which Gamma is one: p times the batch size."""
    setting = CommitteeOnePass.of(problem, Asked(by))
    return plateau_in(setting, Asked(by)), float(unit_rate(setting))


def _critical(here: Plateau, unit: float) -> CriticalRate:
    escape = unit / here.c
    if here.width == 1:
        return CriticalRate(escape, escape, True, "One unit: it learns whenever it leaves the plateau.")
    learning = min(unit * ALIGNED, escape)
    if learning == escape:
        return CriticalRate(escape, learning, True, "With this much noise the plateau becomes stable first.")
    if here.variance == 0:
        return CriticalRate(
            escape,
            learning,
            True,
            "Between the two bounds SGD leaves the plateau but its risk does not go to zero.",
        )
    note = (
        "With label noise and p >= 2 the learning bound is a crossover: the excess risk grows smoothly "
        "through it; see asymptotic_risk."
    )
    return CriticalRate(escape, learning, False, note)
