r"""Which limit governs widths p ~ d^kappa and learning rates gamma ~ d^-delta, and what is left of the noise.

One step of SGD moves the overlaps by :math:`\delta t\,X`, :math:`\delta t = \gamma/(pd)`, and

.. math::
    E[X] = \Psi_{flow} + \frac{\gamma}{p}\,\Psi_{Var}, \qquad
    \frac{\gamma}{p} \sim d^{-(\kappa+\delta)}, \qquad
    \text{fluctuations} \sim \sqrt{\delta t} \sim d^{-(1+\kappa+\delta)/2}

so that everything depends on s = kappa + delta. For s >= 0 the clock is t = gamma step/(p d). For s < 0 the
term :math:`\Psi_{Var}`, which knows the teacher only through the size of the error, is the fastest: on its
own clock t' = (gamma/p)^2 step/d it gives Q an equation of its own while M stands still, with fluctuations of
the order of :math:`\sqrt{\delta t'} \sim d^{-(1+2s)/2}`; at s = -1/2 a single sample moves Q by O(1) and no
equation is left.

This is the phase diagram of Veiga et al. 2022 (arXiv 2202.00293), derived here in our scaling. In the code
published with that paper (checked in its update rule) the scaling is the same: 1/p and 1/k in front of the
networks, step gamma/p, p ~ d^kappa, gamma ~ d^-delta. It calls the regions green (s > 0), blue (s = 0) and
orange (s < 0), and ends the orange one at -delta = (kappa + 1)/2, that is where gamma^2/(p d), the jump of
the *norm* of Q in one step, is O(1). At kappa = 0 this is our s = -1/2, the jump of an *entry*; for kappa > 0
it is stricter, and the words of a `Regime` between the two say so.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.modules import Module, field
from limitlab.numerics.checks import check_number
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.text import Record
from limitlab.verbs import verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["REGIONS", "ProblemRegime", "Regime", "regime", "regime_diagram", "regime_of"]

REGIONS = {
    "gradient flow": "s > 0: the noise of SGD vanishes",
    "learning-rate noise": "s = 0: drift and noise of SGD are of the same order (Saad and Solla)",
    "noise dominated": "-1/2 < s < 0: the noise of SGD is faster than its drift",
    "no deterministic limit": "s <= -1/2: single samples move the overlaps by O(1)",
}


class Regime(Record, Module):
    """A point of the phase diagram. Exponents are of d.

    Attributes
    ----------
    region, limit
        A key of `REGIONS`, and the name of the limit that governs ("none" if there is none).
    variance_exponent
        Of gamma/p, the learning-rate-squared term relative to the gradient flow.
    noise_exponent
        Of gamma Delta/p, what label noise adds to the drift, and of the excess risk it leaves at the end (if
        negative). The floor Delta/2 of the risk is always there.
    fluctuation_exponent
        Of the distance of a single run from its limit on the governing clock (positive or zero: no limit).
    samples_exponent
        Of the number of samples per unit of the governing clock.
    """

    kappa: float
    delta: float
    variance_exponent: float
    noise_exponent: float
    fluctuation_exponent: float
    samples_exponent: float
    region: str = field(static=True)
    limit: str = field(static=True)
    clock: str = field(static=True)
    words: str = field(static=True)

    def __str__(self) -> str:
        return f"{self.region} ({self.limit}): {self.words}"


class ProblemRegime(Record, Module):
    """Sizes of what the limits neglect, for one problem at one d.

    ``variance`` = gamma/(p B) multiplies the learning-rate-squared term, ``noise`` = Delta gamma/(p B) its
    part from label noise, ``fluctuation`` = sqrt(gamma/(p d B)) is the distance of a run from OverlapODE (up
    to a factor that grows with time), ``width_error`` = 1/sqrt(p) and ``dimension_error`` = 1/sqrt(d) bound
    that of OverlapODE from HighDimMeanField.
    """

    variance: float
    noise: float
    fluctuation: float
    width_error: float
    dimension_error: float
    samples_per_time: float
    limit: str = field(static=True)
    words: str = field(static=True)

    def __str__(self) -> str:
        return f"{self.limit}: {self.words}"


@verb
def regime(kappa: float, delta: float) -> Regime:
    r"""The limit at width p ~ d^kappa, kappa >= 0, and learning rate gamma ~ d^-delta, as d grows.

    .. math:: s = \kappa + \delta: \quad \gamma/p \sim d^{-s}, \quad n \sim d^{1+s} \text{ samples per time}

    f = (1/p) sum_i a_i sigma(w_i.x), first-layer step gamma/p; see the module for the derivation.
    """
    kappa = check_number("regime", "kappa", kappa, low=0, remedy="The width is d^kappa and at least one.")
    delta = check_number("regime", "delta", delta, remedy="The learning rate is d^-delta.")
    s = kappa + delta
    s = 0.0 if abs(s) < 1e-12 else s  # 0.3 - 0.3 computed another way is still the line
    wide = kappa > 0
    if s > 0:
        region, limit = "gradient flow", "HighDimMeanField" if wide else "OverlapODE"
        words = (
            f"the learning-rate-squared term and the label noise in the drift vanish as d^{-s:g}; noise only "
            "sets the floor Delta/2 of the risk. "
        ) + (
            "The width grows too: HighDimMeanField holds, up to 1/sqrt(p) + 1/sqrt(d)."
            if wide
            else "The width is fixed: OverlapODE at vanishing learning rate."
        )
    elif s == 0:
        region, limit = "learning-rate noise", "OverlapODE"
        words = (
            "drift, learning-rate-squared term and label noise are of the same order: OverlapODE with all "
            "its terms. Label noise leaves an excess risk of the order gamma Delta/p above its floor, and "
            "too large a rate does not learn."
        )
        if wide:
            words += " HighDimMeanField drops the term in gamma/p, which stays here, and does not hold."
    elif s > -0.5:
        region, limit = "noise dominated", "OverlapODE"
        words = (
            "the learning-rate-squared term is the fastest: on the clock t' = (gamma/p)^2 step/d it alone "
            "moves Q, M does not move, and nothing is learned before Q has changed by O(1). OverlapODE "
            "holds with Q driven by that term; lower the learning rate to gamma = O(p)."
        )
        if -delta >= (kappa + 1) / 2:
            words += (
                " Single entries of Q still follow an equation, but one sample changes the norm of Q by "
                "O(1) or more (gamma^2/(p d) does not vanish); the code of Veiga et al. 2022 has no "
                "equation there."
            )
    else:
        region, limit = "no deterministic limit", "none"
        words = "a single sample moves the overlaps by O(1) or more: runs differ at any d. Lower the rate."
    clock = "t = gamma step/(p d)" if s >= 0 else "t' = (gamma/p)^2 step/d"
    per_clock = 1 + s if s >= 0 else 1 + 2 * s
    exponents = (-s + 0.0, -s + 0.0, -per_clock / 2, per_clock)
    return Regime(kappa, delta, *exponents, region, limit, clock, words)


@verb
def regime_of(problem: Problem, d: float) -> ProblemRegime:
    """How far one problem at dimension d is from each limit, in numbers.

    OverlapODE is named unless the learning-rate-squared term (gamma/p) and 1/sqrt(p) are both below a tenth,
    when HighDimMeanField is as good; above sqrt(gamma/(p d)) = 1/2 no equation describes a single run. These
    lines are conventions: the numbers are what counts.
    """
    setting = CommitteeOnePass.of(problem, Asked("regime_of"))
    d = check_number("regime_of", "d", d, low=1, remedy="It is the input dimension.")
    p, rule = setting.student.width, setting.algorithm
    variance = float(rule.learning_rate) / (p * rule.batch_size)
    noise = variance * float(setting.channel.variance)
    # For gamma/p > 1 the jumps of Q, (gamma/p)^2/d, outweigh those of the drift.
    fluctuation = math.sqrt(variance / d) * max(1.0, math.sqrt(variance))
    if fluctuation > 0.5:
        limit, head = "none", "single samples move the overlaps by O(1)"
    elif variance < 0.1 and 1 / math.sqrt(p) < 0.1:
        limit, head = "HighDimMeanField", "wide, and the learning-rate-squared term is small"
    else:
        limit, head = "OverlapODE", "all terms in the learning rate count"
        if variance > 1:
            head = "the learning-rate-squared term outweighs the drift"
    words = (
        f"{head}: gamma/p = {variance:.3g}, label noise in the drift {noise:.3g}, fluctuations of a run "
        f"about {fluctuation:.2g}, 1/sqrt(p) = {p**-0.5:.2g}, 1/sqrt(d) = {d**-0.5:.2g}."
    )
    return ProblemRegime(variance, noise, fluctuation, p**-0.5, d**-0.5, d / variance, limit, words)


@verb
def regime_diagram(kappas, deltas) -> "xr.Dataset":
    """The phase diagram on a grid, for plotting: ``region``, ``limit`` and the exponents over (kappa, delta).

    A plain labelled table: it belongs to no problem, hence not to the schema of results.
    """
    import xarray as xr

    kappas, deltas = (np.atleast_1d(np.asarray(x, float)) for x in (kappas, deltas))
    table = [[regime(float(k), float(e)) for e in deltas] for k in kappas]
    names = (
        "region",
        "limit",
        "variance_exponent",
        "noise_exponent",
        "fluctuation_exponent",
        "samples_exponent",
    )
    variables = {
        name: (("kappa", "delta"), np.array([[getattr(r, name) for r in row] for row in table])) for name in names
    }
    return xr.Dataset(
        variables,
        {"kappa": kappas, "delta": deltas},
        {"reference": "veiga2022phase", "regions": list(REGIONS)},
    )
