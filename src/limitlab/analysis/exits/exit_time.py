r"""When does SGD leave its random start? Exit times, by formula and from trajectories.

.. math:: R(t_{ext}) - \Delta/2 = (1 - T)\,(R(0) - \Delta/2), \qquad 0 < T < 1

In samples: n = t p d B/gamma with batches of B samples.
"""

import math

from limitlab.analysis.exits.averages import Average, annealed_log, quenched_log, single_unit_exit
from limitlab.analysis.exits.floor import AsymptoticRisk, asymptotic_risk
from limitlab.analysis.exits.formulas import Plateau, plateau_of
from limitlab.analysis.exits.measured import measured_exit_time
from limitlab.analysis.exits.ode import ode_exit, ode_exits
from limitlab.analysis.exits.rates import (
    CriticalRate,
    Gain,
    OptimalRate,
    critical_learning_rate,
    optimal_learning_rate,
    overparametrisation_gain,
)
from limitlab.analysis.exits.result import ExitTime
from limitlab.numerics.checks import check_choice, check_integer, check_number, check_seed
from limitlab.numerics.machine import Memory, check_memory, relieve
from limitlab.problems.problem import Problem
from limitlab.verbs import Watch, verb

__all__ = [
    "AVERAGES",
    "AsymptoticRisk",
    "CriticalRate",
    "ExitTime",
    "Gain",
    "OptimalRate",
    "asymptotic_risk",
    "critical_learning_rate",
    "exit_time",
    "measured_exit_time",
    "optimal_learning_rate",
    "overparametrisation_gain",
]

HELD, DRAWN = 8, 1024  # matrices of overlaps held for a start, and starts that are drawn at once at least
AVERAGES = ("annealed", "quenched", "full", "noise_corrected")
LAWS = ("printed", "finite", "limiting")
PROBES = 16  # starts from which a linearised formula is checked against the full equations


@verb
def exit_time(
    problem: Problem,
    d: float,
    threshold: float,
    average: str = "quenched",
    *,
    law: str = "printed",
    starts: int = 512,
    seed: int = 0,
    progress: Watch = None,
) -> ExitTime:
    r"""Time at which projected one-pass SGD of squares has lost a share ``threshold`` of its excess risk.

    With growth = 8 (1 - Gamma c_p), c_p = 1 + 1/p + 4/p^2 + Delta/2, Gamma = gamma/p:

    .. math::
        t_{annealed} = \frac{1}{\text{growth}} \log\frac{(p+1)(Td + 1 - T)}{2p}, \qquad
        t_{quenched} = \frac{1}{\text{growth}} E \log\frac{Tp(p+1)d + (2p\mu_0 - \tau_0)(1-T)}{2p\mu_0}

    Parameters
    ----------
    problem
        Student of squares with a = 1, teacher one square, OnlineSGD(spherical=True),
        RandomStart(sphere=True): ``library.escaping_mediocrity``.
    d
        Input dimension, at least 2.
    threshold
        T, between 0 and 1.
    average
        "annealed" and "quenched": the formulas above, linearised around the start. "full": the mean exit time
        of the overlap equations, without linearisation (closed form for p = 1, else integrated from random
        starts). "noise_corrected": as "full" with m_j(0) -> sqrt(F) m_j(0), which puts in the noise of SGD
        during the escape, F = 1 + 4 Gamma (10 - 6/p + 8/p^2 + Delta)/growth; asymptotic in d (residuals of a
        few per cent at d = 1000).
    law
        Law of (mu_0, tau_0) in "quenched". "finite": unit vectors in d dimensions. "limiting": mu_0 ~
        chi^2_p, tau_0 ~ 2 chi^2_{p(p-1)/2}. "printed", as Arnaboldi et al. 2023 write it: limiting for p = 1,
        finite for p >= 2. The two differ by about 1/d in the logarithm. "full" and "noise_corrected" use the
        finite law.
    starts, seed
        Random starts for "full" and "noise_corrected" at p >= 2.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.

    Notes
    -----
    The linearised formulas give a number even where the full equations never reach the threshold (above the
    learning bound, or below the noise floor). The number is then returned with ``reached`` False and a note
    that says so.
    """
    relieve()
    plateau = plateau_of("exit_time", problem, random_start=True)
    d = check_number("exit_time", "d", d, low=2, high=1e15, remedy="It is the input dimension.")
    T = check_number(
        "exit_time",
        "threshold",
        threshold,
        low=0,
        high=1,
        open_low=True,
        open_high=True,
        remedy="Use e.g. 0.2.",
    )
    check_choice("exit_time", "average", average, AVERAGES)
    check_choice("exit_time", "law", law, LAWS)
    starts = check_integer("exit_time", "starts", starts, low=2, remedy="An average needs several starts.")
    seed = check_seed("exit_time", seed)
    p, growth = plateau.width, plateau.growth
    needed = 8 * (p + 1) ** 2 * HELD * max(starts, DRAWN)
    check_memory(Memory(needed, f"It follows {starts} starts of {p} units. Use fewer starts or units."), "exit_time")
    if growth <= 0:
        return _result(plateau, d, T, Average(math.inf, 0.0, 0.0), average, _why_not(plateau, T))
    if average == "annealed":
        mean = Average(annealed_log(p, d, T) / growth)
    elif average == "quenched" or p > 1:
        limiting = law == "limiting" or (law == "printed" and p == 1)
        log = quenched_log(p, d, T, limiting if average == "quenched" else False)
        mean = log._replace(value=log.value / growth, stderr=log.stderr / growth)
    else:
        mean = Average(math.nan)
    if average in ("annealed", "quenched"):
        return _linearised(plateau, d, T, mean, average, seed)
    factor, waited = plateau.noise_factor if average == "noise_corrected" else 1.0, math.inf
    if p == 1:
        mean = single_unit_exit(plateau, d, T, factor)
    else:
        exits = ode_exits(plateau, d, T, starts, seed, factor)
        mean, waited = ode_exit(exits, mean.value), exits.waited
    note = "" if mean.fraction == 1 else _why_not(plateau, T, waited)
    if average == "noise_corrected" and p * factor > d / 20:
        note += f" The noise factor F = {factor:.3g} times p is not small against d = {d:g}."
    return _result(plateau, d, T, mean, average, note.strip())


def _linearised(plateau: Plateau, d: float, T: float, mean: Average, average: str, seed: int) -> ExitTime:
    """The formula's number, with what the full equations say about it."""
    if plateau.width == 1:
        share, waited = single_unit_exit(plateau, d, T).fraction, math.inf
    else:
        exits = ode_exits(plateau, d, T, PROBES, seed)
        share, waited = exits.fraction, exits.waited
    note = mean.note
    if mean.value < 0:
        note += f" The formula is negative: T*d = {T * d:.3g} is too small for it."
    if share < 1:
        note += f" {_why_not(plateau, T, waited)} The formula, linearised at the start, cannot see this."
    return _result(plateau, d, T, mean._replace(fraction=share), average, note.strip())


def _why_not(plateau: Plateau, T: float, waited: float = math.inf) -> str:
    p, Gamma = plateau.width, plateau.Gamma
    if plateau.growth <= 0:
        return (
            f"Not reached: gamma/p = {Gamma:.4g} is not below 1/c_p = {1 / plateau.c:.4g}, so that the "
            "plateau m = 0 is stable and the full equations never leave it."
        )
    until = "" if math.isinf(waited) else f" (integrated until they settled, at most to t = {waited:.3g})"
    head = f"Not reached from every start by the full equations{until}: "
    if p > 1 and Gamma >= 1 / 6:
        return head + (
            f"gamma/p = {Gamma:.4g} is above 1/6. They leave the plateau but cannot align with the teacher, "
            f"and the share of the excess risk that is left need not fall to {1 - T:.3g}."
        )
    return head + (
        f"noise leaves more than a share {1 - T:.3g} of the initial excess risk; see asymptotic_risk. Lower "
        "the threshold or the learning rate."
    )


def _result(plateau: Plateau, d: float, T: float, mean: Average, formula: str, note: str) -> ExitTime:
    return ExitTime(mean.value, mean.value * d / plateau.Gamma, mean.stderr, mean.fraction, T, formula, note)
