r"""Success against the sample ratio, and the ratio at which half of the runs succeed.

.. math:: P(\text{success}) = \frac{1}{1 + (\alpha_{50}/\alpha)^{1/\omega}},

a logistic step in log alpha, is fitted by maximum likelihood to the counts. The error of the half-way point is the
interval in which the likelihood, maximised over the width omega, is within a factor exp(-1.92) of the best: 95 %, and
no narrower than the gap between two ratios if success jumps from none to all in it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Progress
from limitlab.gallery.figures import Panel

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Step", "Trend", "chance", "draw_rates", "fit_step", "found_of", "part_of", "success_curve", "trend"]

DROP = 1.92  # of the log-likelihood at the ends of a 95 % interval: half the 95 % quantile of chi^2 with one degree
FLAT = 1e-3  # likelihoods this near are equal: where success jumps from none to all they do not choose


class Step(NamedTuple):
    """The ratio at which half of the runs succeed, the ends of its 95 % interval, and the width in log alpha.

    ``fits`` is the probability that counts of such a step would be as far from it as these are (their deviance, by
    chi^2): if it is tiny, the interval says too little.
    """

    at: float
    low: float
    high: float
    width: float
    fits: float

    def rate(self, alpha):
        """The fitted probability of success."""
        from scipy.special import expit

        return expit(np.log(np.asarray(alpha, float) / self.at) / self.width)

    def __str__(self) -> str:
        return f"{self.at:.2f} [{self.low:.2f}, {self.high:.2f}]"


def fit_step(curve: "xr.Dataset") -> Step:
    """The step of a `success_curve`, or of a result of `success_rate` over sample ratios."""
    from scipy.special import log_expit, xlogy
    from scipy.stats import chi2

    rate = ll.success_rate(curve) if "success" in curve else curve
    x, runs = np.log(rate["sample_ratio"].values), rate["runs"].values
    found = np.rint(rate["success_rate"].values * runs)
    span = float(x[-1] - x[0])
    at, width = np.linspace(x[0] - span / 2, x[-1] + span / 2, 801), np.geomspace(span / 200, 2 * span, 80)
    score = (x - at[:, None, None]) / width[:, None]
    likely = np.sum(found * log_expit(score) + (runs - found) * log_expit(-score), axis=-1)
    profile = likely.max(axis=1)
    inside, best = profile > profile.max() - DROP, profile > profile.max() - FLAT
    middle = float(at[best].mean())
    omega = float(width[np.argmax(likely[np.argmin(np.abs(at - middle))])])
    saturated = np.sum(xlogy(found, found / runs) + xlogy(runs - found, 1 - found / runs))
    fits = float(chi2.sf(2 * (saturated - profile.max()), max(len(x) - 2, 1)))
    low, centre, high = np.exp([at[inside].min(), middle, at[inside].max()]).tolist()
    return Step(centre, low, high, omega, fits)


class Trend(NamedTuple):
    """Half-way points that move with d as a + b form(d): their value at another d, the slope b, and how well it fits.

    ``fits`` is the probability of so large a chi^2 for points that obey the form, 1 if there are but two.
    """

    at: float
    error: float
    slope: float
    slope_error: float
    fits: float

    def __str__(self) -> str:
        return f"{self.at:.1f} ± {self.error:.1f}"


def trend(points: Mapping[int, Step], form: Callable[[np.ndarray], np.ndarray], far: float) -> Trend:
    """Half-way points by dimension, fitted with their errors by a + b form(d) and carried on to the dimension ``far``.

    The standard error of a point is its 95 % interval over 3.92.
    """
    from scipy.stats import chi2

    x = form(np.array(list(points), float))
    y, sigma = np.array([(step.at, (step.high - step.low) / 3.92) for step in points.values()]).T
    rows = np.stack([np.ones_like(x), x], axis=1) / sigma[:, None]
    spread = np.linalg.inv(rows.T @ rows)
    best = spread @ rows.T @ (y / sigma)
    there = np.array([1.0, float(form(np.asarray(far, float)))])
    left = float(np.sum((y / sigma - rows @ best) ** 2))
    fits = float(chi2.sf(left, len(x) - 2)) if len(x) > 2 else 1.0
    error, slope_error = np.sqrt([there @ spread @ there, spread[1, 1]]).tolist()
    return Trend(float(there @ best), error, float(best[1]), slope_error, fits)


def success_curve(
    one: ll.Problem,
    run: "Callable[[float, int, Progress | None], xr.Dataset]",
    ratios: Sequence[float],
    progress: Progress | None,
    method: str,
    last: Sequence[str] = (),
    **attrs,
) -> "xr.Dataset":
    """Which replicas succeed, and when, of ``run(ratio, number of the ratio, progress)`` at every sample ratio.

    Variables named in ``last`` are kept as they are at the last time.

    The run should make a new seed of the number: with one seed for all ratios their data sets share samples, and the
    counts are not independent.
    """
    parts = [run(alpha, i, part_of(progress, i, len(ratios))) for i, alpha in enumerate(ratios)]
    axes = ("sample_ratio", "replica")
    columns = {name: (axes, [part[name].values for part in parts]) for name in ("success", "success_time")}
    columns |= {name: (axes, [part[name].isel(time=-1).values for part in parts]) for name in last}
    return ll.analysis.dataset(one, columns, {"sample_ratio": list(ratios)}, method=method, attrs=attrs)


def part_of(progress: Progress | None, index: int, count: int) -> Progress | None:
    """The progress of one of ``count`` equal parts of a computation."""
    if progress is None:
        return None
    return lambda done, total, label: progress(round(1000 * (index + done / max(total, 1))), 1000 * count, label)


def found_of(curve: "xr.Dataset", alpha: float) -> str:
    """How many succeeded at a ratio, as in "3 of 20"."""
    success = curve["success"].sel(sample_ratio=alpha) > 0
    return f"{int(success.sum())} of {success.size}"


def chance(one: np.ndarray, other: np.ndarray) -> float:
    """How likely so many more successes of one method on the same data sets would be if both were equally good.

    Only data sets on which exactly one of the two succeeds tell them apart: a fair coin for each (McNemar).
    """
    from scipy.stats import binom

    wins, losses = int(np.sum(one & ~other)), int(np.sum(~one & other))
    return float(binom.sf(wins - 1, wins + losses, 0.5)) if wins + losses else 1.0


def draw_rates(axes: Panel, curve: "xr.Dataset", colour: str, marker: str, label: str, shift: float = 0.0) -> None:
    """Shares with Wilson's 95 % intervals as points, their fitted step as a line; shifted so that bars can be told."""
    rate = ll.success_rate(curve)
    share = rate.success_rate.values
    bars = [share - rate.success_rate_low.values, rate.success_rate_high.values - share]
    x = rate.sample_ratio.values
    axes.errorbar(x + shift, share, bars, fmt=marker, color=colour, ms=5, elinewidth=1, capsize=2, label=label)
    dense = np.linspace(x[0], x[-1], 200)
    axes.plot(dense, fit_step(curve).rate(dense), color=colour, lw=1.2, alpha=0.8)
