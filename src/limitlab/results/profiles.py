r"""Where two sets of trajectories differ most: a family of profiles in time, one number per replica each.

.. math::
    u_r = \sum_t \frac{\phi(t)}{s(t)} \big(x_r(t) - \hat x(t)\big), \qquad
    \tau = \frac{\bar u}{\mathrm{std}(u)/\sqrt R} \sim \text{Student}_{R-1}

for the trajectory x_r of one scalar in replica r, its prediction, and the spread s(t). The points of one trajectory are
correlated, replicas are not. A deviation may have any shape, so phi runs through

- the mean, three cosines (the first is a slope) and the alternating profile, which have a third of the error budget in
  equal parts;
- every single time, and every window of 2, 4, 8, ... neighbouring times up to a half, which have the rest.

A profile of chance p is as rare as -log(1 - p) accidents; divided by its share of the budget, this is how many such are
expected by chance, and the least of these numbers is the component's (the correction of Bonferroni and Sidak).

Spread and shares come from the mean squares of x_r - x^ about the *prediction*, not about the mean. If the prediction
is right and replicas are normal, the law of the matrix (x_r(t) - x^(t)) does not change when replicas are rotated into
each other, and these sums are invariant: whatever is chosen by them, Student's law stays exact, at two replicas as at
many :cite:p:`lauter1996exact,westfall2004weighted`. So a place where the distance from the prediction sticks out of its
neighbourhood may have a larger share, and a spread may be smoothed in time, without a false alarm more. For two samples
the squares are taken about the common mean, and Student's law has the degrees of freedom of the smaller one.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["ROUNDING", "Worst", "normal_score", "worst_profiles"]

ROUNDING = 1e-9  # relative; spreads and gaps below are rounding
COSINES = 4  # the mean and three more
SMOOTH = 1 / 3  # share of the mean, the cosines and the alternating profile together
EVEN = 1 / 4  # share of the rest that is given out evenly, wherever the distance sticks out
NEAR = 2  # neighbours on either side that a time is measured by


class Worst(NamedTuple):
    """Of each component (all arrays have one entry per component) the profile that is least likely by chance.

    ``log_count`` is the logarithm of how many as rare as this are expected by chance among all its profiles; NaN where
    nothing fluctuates and both are equal. ``gap`` and ``error`` are those of the profile, whose weights phi/s are
    scaled to sum to 1 in absolute value. ``kind`` is "mean", "slope", "cosine 2", "cosine 3", "alternating", "time" or
    "window"; ``first`` and ``last`` are the positions in time between which it lies.
    """

    log_count: np.ndarray
    gap: np.ndarray
    error: np.ndarray
    kind: np.ndarray
    first: np.ndarray
    last: np.ndarray


def worst_profiles(x: np.ndarray, y: np.ndarray, scale: np.ndarray) -> Worst:
    """The worst profile of each component of trajectories x (replica, time, component) against y, laid out alike.

    If y has a single replica it counts as exact; with more, it is a second sample. Times at which nothing fluctuates
    and both are equal, to rounding of ``scale`` (component,), are left out; where nothing fluctuates and they differ,
    there is no chance.
    """
    count = x.shape[2]
    log_count, gaps, errors = (np.full(count, np.nan) for _ in range(3))
    worst = Worst(log_count, gaps, errors, np.full(count, "", "<U11"), np.zeros(count, int), np.zeros(count, int))
    gap = np.mean(x, axis=0) - np.mean(y, axis=0)
    still = np.sqrt(_variance(x) + _variance(y)) <= ROUNDING * scale
    wrong = still & (np.abs(gap) > ROUNDING * scale)
    patterns, member = np.unique(~still, axis=1, return_inverse=True)
    for number, alive in enumerate(patterns.T):
        if np.any(alive):
            these, times = np.flatnonzero(member.ravel() == number), np.flatnonzero(alive)
            _search(x[:, times][..., these], y[:, times][..., these], scale[these], worst, these, times)
    for c in np.flatnonzero(np.any(wrong, axis=0)):
        t = int(np.argmax(np.where(wrong[:, c], np.abs(gap[:, c]), -1.0)))
        for array, value in zip(worst, (-np.inf, gap[t, c], 0.0, "time", t, t), strict=True):
            array[c] = value
    return worst


def normal_score(log_count: np.ndarray) -> np.ndarray:
    """The z >= 0 that a normal number exceeds in size as often as there is at least one accident, 1 - exp(-count)."""
    from scipy.special import ndtri_exp

    small = np.minimum(log_count, 0.0)  # below, also where the count is less than the smallest float
    log_p = np.where(log_count < -30, small, np.log(-np.expm1(-np.exp(np.clip(log_count, -30, 30)))))
    return np.maximum(-ndtri_exp(log_p - np.log(2.0)), 0.0)


class _Block(NamedTuple):
    """Profiles of one kind: u (n, J, c) and v (m, J, c) per replica, sums of absolute weights (J, c), their places."""

    kind: str
    u: np.ndarray
    v: np.ndarray
    size: np.ndarray
    first: np.ndarray
    last: np.ndarray


def _search(
    x: np.ndarray, y: np.ndarray, scale: np.ndarray, worst: Worst, these: np.ndarray, times: np.ndarray
) -> None:
    """Fill in the worst profile of ``these`` components, which fluctuate at ``times``."""
    squares, freedom, centre = _squares(x, y)
    x, y = x - centre, y - centre
    log_squares = np.log(squares)
    near, reach = _near(log_squares)
    excess = (log_squares - near) * np.where(reach == 0, 0.5, 1.0)  # the ends are guessed with twice the error
    chance = _chance(excess, freedom)
    # Spreads that jump by more than chance are taken as they are, others are smoothed over the neighbours.
    own = np.maximum(1 - chance, 1 / (1 + 2 * reach))
    weight = np.exp(-(near + own * (log_squares - near)) / 2)
    blocks = list(_blocks(x, y, weight))
    smooth = np.array([block.kind not in ("time", "window") for block in blocks])
    budget = np.where(smooth, SMOOTH / max(np.sum(smooth), 1), (1 - SMOOTH) / max(np.sum(~smooth), 1))
    budget = np.log(budget / np.sum(budget))
    found = [_student(block, scale) for block in blocks]
    shares = _shares(blocks, excess, np.sqrt(freedom) * chance)
    log_count = np.concatenate([f[0] - b - s for f, b, s in zip(found, budget, shares, strict=True)])
    pick, every = np.argmin(log_count, axis=0), np.arange(len(these))
    worst.log_count[these] = log_count[pick, every]
    worst.gap[these] = np.concatenate([f[1] for f in found])[pick, every]
    worst.error[these] = np.concatenate([f[2] for f in found])[pick, every]
    worst.kind[these] = np.concatenate([np.full(len(b.first), b.kind) for b in blocks])[pick]
    worst.first[these] = times[np.concatenate([b.first for b in blocks])[pick]]
    worst.last[these] = times[np.concatenate([b.last for b in blocks])[pick]]


def _blocks(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Iterator[_Block]:
    """The family; of few times, only what differs."""
    steps = len(weight)
    index, zero = np.arange(steps), np.zeros(1, int)
    shapes: dict[str, np.ndarray] = {"mean": np.ones(steps)}
    names = ["mean", "slope", *(f"cosine {k}" for k in range(2, COSINES))]
    shapes |= {names[k]: np.cos(np.pi * k * (index + 0.5) / steps) for k in range(1, min(COSINES, steps))}
    if steps > COSINES:
        shapes["alternating"] = (-1.0) ** index
    for kind, shape in shapes.items():
        w = shape[:, None] * weight
        u, v = (np.einsum("rtc,tc->rc", values, w)[:, None] for values in (x, y))
        yield _Block(kind, u, v, np.sum(np.abs(w), axis=0)[None], zero, zero + steps - 1)
    if steps > 1:
        yield _Block("time", x, y, np.ones_like(weight), index, index)
    u, v, w = _running(x * weight), _running(y * weight), _running(weight[None])[0]
    length = 2
    while length <= steps // 2:
        first = np.arange(0, steps - length + 1, max(1, length // 4))
        last = first + length
        yield _Block("window", u[:, last] - u[:, first], v[:, last] - v[:, first], w[last] - w[first], first, last - 1)
        length *= 2


def _running(values: np.ndarray) -> np.ndarray:
    """Sums over time (axis 1) up to each, the first of them empty."""
    return np.concatenate([np.zeros_like(values[:, :1]), np.cumsum(values, axis=1)], axis=1)


def _student(block: _Block, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log of the accidents, gap and standard error (J, c) of profiles, each alone."""
    u, v = block.u, block.v
    n, m = len(u), len(v)
    # Of two samples, the degrees of freedom of the smaller one: safe whatever their spreads. Welch's estimate is large
    # just when a spread is small by chance: with 2 replicas against 64 it raised false alarms in 74 % of trials.
    freedom = min(k - 1 for k in (n, m) if k > 1)
    gap = (np.mean(u, axis=0) - np.mean(v, axis=0)) / block.size
    error = np.sqrt(_variance(u) / n + _variance(v) / m) / block.size
    # Fluctuations that cancel in this profile leave rounding, of which Student's law knows nothing.
    blank = (error <= ROUNDING * scale) & (np.abs(gap) <= ROUNDING * scale)
    return np.where(blank, np.inf, _log_accidents(gap, error, freedom)), gap, error


def _log_accidents(mean: np.ndarray, error: np.ndarray, freedom: int) -> np.ndarray:
    """log(-log(1 - p)) for p = P(|tau| > |mean|/error) under Student's law, also far below the smallest float."""
    from scipy.stats import t as student

    tau = np.abs(mean) / np.where(error > 0, error, 1.0)
    tail = 2 * student.sf(tau, freedom)
    # Where the tail is below the smallest float: sf(tau) -> tau pdf(tau)/freedom
    far = np.log(2.0) + student.logpdf(tau, freedom) + np.log(np.maximum(tau, 1.0) / freedom)
    with np.errstate(divide="ignore"):  # p = 1
        log_count = np.where(tail > 0, np.log(-np.log1p(-np.where(tail > 0, tail, 0.5))), far)
    return np.where(error > 0, log_count, np.where(mean == 0, np.inf, -np.inf))


def _shares(blocks: list[_Block], excess: np.ndarray, power: np.ndarray) -> list[np.ndarray]:
    """log of each profile's share within its block's budget: larger where the distance from the prediction sticks out.

    ``excess`` (T, c) is that of the single times, in the logarithm of the mean square.
    """
    local = [block for block in blocks if block.kind in ("time", "window")]
    logs = []
    for block in local:
        if block.kind == "window":
            squares = np.sum(np.square(block.u), axis=0) + np.sum(np.square(block.v), axis=0)
            excess = np.log(np.maximum(squares, 1e-300))
            excess = excess - np.median(excess, axis=0)
        logs.append(power * excess)
    shares = [np.zeros_like(block.size) for block in blocks if block.kind not in ("time", "window")]
    if local:
        top = np.max([np.max(log, axis=0) for log in logs], axis=0)
        raised = [np.exp(log - top) for log in logs]
        total = np.mean([np.mean(r, axis=0) for r in raised], axis=0)
        shares += [np.log((EVEN + (1 - EVEN) * r / total) / len(r)) for r in raised]
    return shares


def _squares(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """Mean squares (T, c) about what both should have in common, of how many independent numbers, and that centre."""
    n, m = len(x), len(y)
    if 1 in (n, m):
        centre, many = (y[0], x) if m == 1 else (x[0], y)
        return np.mean(np.square(many - centre), axis=0), len(many), centre
    centre = (np.sum(x, axis=0) + np.sum(y, axis=0)) / (n + m)
    total = np.sum(np.square(x - centre), axis=0) + np.sum(np.square(y - centre), axis=0)
    return total / (n + m - 1), n + m - 1, centre


def _near(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the neighbours of each time say of it, as many on either side, and how many these are on one side.

    At the ends a straight line through the next two says it, or the only other.
    """
    steps = len(values)
    index, sums = np.arange(steps), _running(values[None])[0]
    reach = np.minimum(np.minimum(index, steps - 1 - index), NEAR)
    near = (sums[index + reach + 1] - sums[index - reach] - values) / np.maximum(2 * reach, 1)[:, None]
    for end, (one, two) in ((0, (1, 2)), (-1, (-2, -3))):
        near[end] = 2 * values[one] - values[two] if steps > 2 else values[one] if steps > 1 else values[end]
    return near, reach[:, None]


def _chance(excess: np.ndarray, freedom: int) -> np.ndarray:
    """How much of the jumps of the spread from time to time is chance: 1 if all of it, near 0 if it really jumps."""
    from scipy.special import polygamma
    from scipy.stats import chi2

    expected = polygamma(1, freedom / 2) * (
        1 + 1 / (2 * NEAR)
    )  # variance of the log of a chi square, and of its neighbours'
    seen = np.median(np.square(excess), axis=0) / chi2.median(1)
    return np.minimum(1.0, expected / np.maximum(seen, 1e-300))


def _variance(x: np.ndarray) -> np.ndarray:
    return np.var(x, axis=0, ddof=1) if len(x) > 1 else np.zeros(x.shape[1:])
