r"""The best penalty of a convex fit, and when its labels are separable.

.. math:: \lambda_{opt} = \mathrm{argmin}_\lambda\ \mathrm{generalisation\ error}(\lambda)
"""

from typing import Any

import numpy as np

from limitlab.algorithms.settings.fixed_data import ConvexFit
from limitlab.errors import ConvergenceError, InputError
from limitlab.macro.erm.erm_asymptotics import solve_erm
from limitlab.macro.erm.separability import separability_ratio
from limitlab.modules import Module, field
from limitlab.numerics.machine import relieve
from limitlab.problems.asked import Asked
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.inputs import AbstractSpectrum, Gaussian
from limitlab.problems.networks import SingleIndex
from limitlab.problems.priors import AbstractPrior, GaussianPrior
from limitlab.problems.problem import Problem
from limitlab.text import Record
from limitlab.verbs import Watch, verb

__all__ = ["OptimalPenalty", "optimal_penalty", "separability_threshold"]

LANES = 32  # penalties tried at once
FLAT = 1e-12  # relative differences of the error below this are rounding


TO_INFINITY = "The error falls all the way to an infinite penalty."
TO_ZERO = "The error falls all the way to no penalty."


class OptimalPenalty(Record, Module):
    """The penalty of least generalisation error.

    Attributes
    ----------
    penalty
        0 or infinity if the error falls all the way to that end. ``float(result)`` is the penalty.
    generalisation_error
        Its value there: accurate to many digits even where the minimum is flat and ``penalty`` is not.
    within
        The penalties between which the error exceeds the least one by at most 0.1 %.
    note
        What a reader must know, in words; "" if nothing.
    """

    penalty: float
    generalisation_error: float
    within: tuple[float, float]
    note: str = field(static=True, default="")

    def __float__(self) -> float:
        return self.penalty

    def __str__(self) -> str:
        low, high = self.within
        head = f"penalty = {self.penalty:.5g}, generalisation error = {self.generalisation_error:.6g}"
        return f"{head} (within 0.1 % from {low:.3g} to {high:.3g}). {self.note}".rstrip()


@verb
def separability_threshold(
    channel: AbstractChannel,
    prior: AbstractPrior | None = None,
    progress: Watch = None,
    spectrum: AbstractSpectrum | None = None,
) -> float:
    r"""The samples per dimension below which labels can be separated by a hyperplane through the origin.

    .. math:: 1/\alpha_c = \min_t E\,(Z + tU)_+^2, \qquad U = y z^*/\sqrt\rho

    Infinite for noiseless signs; 2 for labels that are pure noise. Without penalty the logistic fit exists only above,
    max margin only below. Only the second moment of the prior counts. Of a ``spectrum`` of the inputs
    count the signal, what is ``unexplained`` of the teacher, and the share of directions whose eigenvalue is not 0.
    """
    relieve()
    asked = Asked("separability_threshold", InputError)
    channel = asked.part(channel, AbstractChannel, "a channel such as Sign(flip=0.1)", "Give one.")
    prior = GaussianPrior() if prior is None else prior
    prior = asked.part(prior, AbstractPrior, "a prior such as GaussianPrior()", "Leave it out for this one.")
    if spectrum is None:
        return separability_ratio(channel, float(prior.second_moment))
    modes: Any = Gaussian(spectrum=spectrum).modes
    wrong = SingleIndex(prior).off_spectrum(modes)
    if wrong is not None:
        asked.refuse(*wrong)
    rank = float(np.sum(np.asarray(modes.h)[np.asarray(modes.c) > 0]))
    return rank * separability_ratio(channel, float(modes.signal(prior.second_moment)), float(modes.unexplained))


@verb
def optimal_penalty(
    problem: Problem | Any,
    loss: Any = None,
    *,
    samples: int | None = None,
    theory: str | None = None,
    progress: Watch = None,
) -> OptimalPenalty:
    """The penalty that makes the generalisation error of the problem's fit least; the problem's own is not used.

    For labels -1 and +1 the error is the probability of a wrong sign, otherwise the mean-square error of the output.
    Square loss is in closed form unless a spectrum of the inputs says what the teacher is; others by grids of
    penalties, each solved in one call, closing in on the minimum.

    Of a `Pool` ask ``optimal_penalty(pool, LogisticLoss(), samples=100)``: the penalty of least expected loss after so
    many samples, by the same ``theory`` as `learning_curve`. An estimator of scikit-learn may stand for the loss.
    """
    relieve()
    own = getattr(problem, "optimal_penalty", None)
    if own is not None:
        return OptimalPenalty(*own(loss=loss, samples=samples, theory=theory))
    given = [name for name, value in (("loss", loss), ("samples", samples), ("theory", theory)) if value is not None]
    if given:
        raise InputError(f"optimal_penalty: a Problem needs nothing besides; got {', '.join(given)}. Leave these out.")
    setting = ConvexFit.of(problem, Asked("optimal_penalty", InputError))
    if setting.loss.hard:
        raise InputError("optimal_penalty: MaxMargin() has no penalty. Use HingeLoss() or LogisticLoss().")
    ratio = setting.ratio
    modes = setting.modes
    unit = 1.0 if modes is None else float(np.max(modes.c))  # eigenvalues and penalties have one scale
    low, high = 1e-8 * unit / (1 + ratio) ** 2, 1e6 * unit * (1 + ratio)
    grid = np.linspace(np.log(low), np.log(high), LANES)
    error = _errors(setting, grid)
    if setting.loss.quadratic and (modes is None or modes.t2 is None):
        return _ridge(setting, grid, error)
    lowest = np.nanmin(error)
    if np.nanmax(error) - lowest < FLAT * lowest:
        return OptimalPenalty(np.inf, float(lowest), (0.0, np.inf), "The error is the same for every penalty.")
    whole = grid
    tied = np.nonzero(error - lowest <= FLAT * lowest)[0]
    if tied[-1] == LANES - 1:
        return OptimalPenalty(np.inf, float(lowest), _within(setting, whole, whole[-1], lowest), TO_INFINITY)
    if tied[0] == 0:
        return OptimalPenalty(0.0, float(lowest), _within(setting, whole, whole[0], lowest), TO_ZERO)
    best = int(tied[len(tied) // 2])
    while grid[1] - grid[0] > 0.02:
        left, right = grid[max(best - 1, 0)], grid[min(best + 1, LANES - 1)]
        grid = np.linspace(left, right, LANES)
        error = _errors(setting, grid)
        best = int(np.nanargmin(error))
    # Near a minimum differences drown in rounding: a polynomial through all points finds it better than the least one.
    middle, half = (grid[0] + grid[-1]) / 2, (grid[-1] - grid[0]) / 2
    fitted = np.polynomial.Polynomial.fit((grid - middle) / half, error, 6)
    places = np.linspace(-1, 1, 20001)
    at = middle + half * places[np.argmin(fitted(places))]
    least = float(_errors(setting, np.full(LANES, at))[0])
    return OptimalPenalty(float(np.exp(at)), least, _within(setting, whole, at, least))


def _errors(setting: ConvexFit, log_penalty: np.ndarray) -> np.ndarray:
    alpha = np.full(len(log_penalty), setting.ratio)
    values, status, words = solve_erm(setting, alpha, np.exp(log_penalty))
    if any(s != "ok" for s in status):
        bad = next(w for s, w in zip(status, words, strict=True) if s != "ok")
        raise ConvergenceError(f"optimal_penalty: {bad}", values["generalisation_error"])
    return values["generalisation_error"]


def _within(setting: ConvexFit, grid: np.ndarray, best: float, lowest: float) -> tuple[float, float]:
    """Where the error leaves a band of 0.1 % above the least, on both sides of the best penalty (in logarithms)."""
    bar, ends = 1.001 * lowest, [grid[0], grid[-1]]
    near, far = [best, best], ends  # zooming, not bisection: all lanes of a compiled call cost as much as one
    for _ in range(4):
        sides = [np.linspace(n, f, LANES // 2) for n, f in zip(near, far, strict=True)]
        above = _errors(setting, np.concatenate(sides)).reshape(2, -1) > bar
        first = [int(np.argmax(row)) if row.any() else len(row) - 1 for row in above]
        near = [side[max(k - 1, 0)] for side, k in zip(sides, first, strict=True)]
        far = [side[k] for side, k in zip(sides, first, strict=True)]
    low, high = (float(np.exp(f)) for f in far)
    return 0.0 if far[0] == grid[0] else low, np.inf if far[1] == grid[-1] else high


def _ridge(setting: ConvexFit, grid: np.ndarray, error: np.ndarray) -> OptimalPenalty:
    """(y2 - c1^2 rho)/(c1^2 rho): noise over signal of the best linear model, for every sample ratio.

    With a spectrum it is noise over the second moment of the teacher's weights, if that is the same on all modes.
    """
    rho, modes = setting.rho, setting.modes
    c1, _, rest = (float(x) for x in setting.channel.label_moments(rho))
    if modes is not None:
        rho, rest = float(setting.prior.second_moment), rest + c1**2 * float(modes.unexplained)
    if c1 == 0:
        kind = "no better than a coin" if setting.channel.labels == "binary" else "best as zero"
        note = f"The labels have no linear part: the prediction is {kind}."
        return OptimalPenalty(np.inf, float(error[-1]), (0.0, np.inf), note)
    penalty = max(0.0, rest / (c1**2 * rho))
    note = "" if penalty > 0 else "A linear teacher without noise needs no penalty."
    ratio = setting.ratio
    if penalty == 0 and ratio == 1:
        return OptimalPenalty(0.0, 0.0, (0.0, 0.0), note)
    values, _, _ = solve_erm(setting, np.array([ratio]), np.array([penalty]))
    least = float(values["generalisation_error"][0])
    if least < 1e-30:
        return OptimalPenalty(penalty, 0.0, (0.0, 0.0), note)
    return OptimalPenalty(penalty, least, _within(setting, grid, np.log(max(penalty, np.exp(grid[0]))), least), note)
