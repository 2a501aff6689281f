r"""What is learned when: the stages in which message passing finds the directions of a multi-index teacher.

With a subspace S learned, a small overlap delta beside it grows as

.. math:: \delta' = \alpha F(\delta), \qquad F(\delta) = E_{y, w}[G \delta G], \quad
          G = E[z_\perp z_\perp^T - I | y, w],

so that it is found above alpha = 1/(top eigenvalue of F). Directions with E[z_perp | y, w] not 0 are *trivial*: they
are found at any alpha > 0, or as soon as S is. Those with G = 0 are *hard*: no number of samples proportional to d
does. It is the mean given y that counts, not E[y z], since any transformation of the label is free.
"""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from limitlab.algorithms.settings.multi_index import CHANNELS
from limitlab.analysis.multi.moments import Slots, Tables, at_zero, middles, slots, tables
from limitlab.analysis.multi.sign_weights import sign_weights_thresholds
from limitlab.analysis.multi.wide import wide_majority
from limitlab.errors import InputError
from limitlab.macro.multi.committees import is_committee, specialisation
from limitlab.problems.channels import AbstractChannel, GaussianNoise
from limitlab.problems.links.base import AbstractLink
from limitlab.problems.links.labels import real_valued, sign_only
from limitlab.problems.links.named import Majority, Parity, Product, Squares
from limitlab.problems.links.seen import seen_through
from limitlab.problems.networks import MultiIndex
from limitlab.text import Record

__all__ = ["MultiThresholds", "Stage", "multi_thresholds"]

SEEN = 1e-6  # of E|E[z|y]|^2: a direction is trivial (random nodes, or a skew direction: a hundred times as much)
GONE = {True: 1e-2, False: 1e-3}  # of the size of a direction that is not found, if fields are integrated, or not
FLAT = 1e-7  # of the top eigenvalue of F: a direction is hard
ROUNDED = 2e-3  # of the entries of directions that random nodes found
NOISY = 5e-4  # of ratios with noise: values of the link are rounded to a small part of it
EQUAL = 1e-2  # of eigenvalues of F given a direction: nearer ones are taken for equal, a grid tells equal ones apart
UNSURE = 4e-3  # of eigenvalues of F that random nodes found: nearer ones are taken for equal
FEWER = 0.62  # of the nodes of an axis, for the error: no cell is a whole number of others
ROUGH = {0: 1e-6, 1: 5e-5, 2: 1e-4, 3: 5e-4}  # least relative error that is stated: a cell has one label
MOST = 3  # directions of a link without a name
BINS = {0: (8, 16), 1: (400, 800), 2: (100, 200), 3: (80, 160)}  # by the number of fields that are integrated
GRID = np.concatenate([np.geomspace(1e-4, 0.05, 12), np.linspace(0.07, 0.93, 44), 1 - np.geomspace(0.06, 2e-3, 14)])


@dataclass(frozen=True)
class Stage(Record):
    """Directions (k, K) that are found together, above which sample ratio, and how: "trivial", "easy" or "hard".

    ``names`` are the directions in words, ``given`` what has to be found before.
    """

    alpha: float
    kind: str
    names: tuple[str, ...]
    given: tuple[str, ...]
    directions: np.ndarray

    def __str__(self) -> str:
        after = f", given {', '.join(self.given)}" if self.given else ""
        when = {"trivial": "at once", "hard": "never with O(d) samples"}.get(self.kind, f"above {self.alpha:.6g}")
        return f"{', '.join(self.names)}: {when}{after}"


@dataclass(frozen=True)
class MultiThresholds(Record):
    """What message passing finds of a multi-index teacher, and above which sample ratio n/d.

    Attributes
    ----------
    trivial
        Directions that are found at any ratio, in words.
    easy
        The others that are found, each with its ratio.
    hard
        Directions that are not found with O(d) samples.
    stages
        All of them in order: the grand staircase.
    specialisation
        Where the units of a committee become different from each other; None for other links.
    information
        Of the majority of many signs: where its units can be told apart by any means, 7.6802 K to leading order in K;
        hard from there to ``specialisation``. Of two signs with weights +-1: where all is known in principle. None
        where no number is known, or that is the larger one.
    accuracy
        Estimated relative error of the ratios: what half as many bins change, plus twice what fewer nodes do.
    perfect
        Of two signs with weights +-1: where message passing finds all of them. None for Gaussian weights.
    """

    trivial: tuple[str, ...]
    easy: dict[str, float]
    hard: tuple[str, ...]
    stages: tuple[Stage, ...]
    specialisation: float | None
    information: float | None
    accuracy: float
    perfect: float | None = None

    def __str__(self) -> str:
        lines = [f"{number + 1}. {stage}" for number, stage in enumerate(self.stages)]
        if self.perfect is not None:
            lines.append(f"All weights: possible above {self.information:.6g}, easy above {self.perfect:.6g}")
        return "\n".join(lines)


class _Growth(NamedTuple):
    """Top eigenvalue of F and its matrix (k, k), E E[z_perp|.]E[z_perp|.]^T, and the information on s."""

    top: float
    matrix: np.ndarray
    mean: np.ndarray
    g2: float


def multi_thresholds(teacher: MultiIndex, channel: AbstractChannel | None) -> MultiThresholds:
    """The stages of a teacher; ``channel`` None means labels without noise."""
    K, behind = teacher.width, GaussianNoise() if channel is None else channel
    if not isinstance(behind, AbstractChannel):
        raise InputError(f"thresholds(teacher, channel) needs a channel such as Sign(), or none; got {channel!r}.")
    link = seen_through(teacher.link, behind, K)
    if link is None:
        raise InputError(
            "thresholds of a MultiIndex needs a channel whose labels are known on average for every value of the link: "
            f"{CHANNELS}, or your own with a method `told`; got {channel!r}."
        )
    variance = 0.0 if behind.added_variance is None else float(behind.added_variance)
    if not teacher.prior.gaussian:
        if K != 2 or variance > 0 or not is_committee(link):
            raise InputError(
                "thresholds of a MultiIndex needs GaussianPrior() weights (or +-1 beside the sum or majority of two "
                f"signs, without noise); got {teacher.prior!r} with {teacher.link!r}, width={K}. Use prior="
                "GaussianPrior()."
            )
        return _sign_weights(link)
    if is_committee(link):
        return _committee(link, K, variance)
    named = _named(link, K) if variance == 0 and link.sides is None else None
    if named is not None:
        return named
    if K > MOST:
        raise InputError(
            f"thresholds needs at most {MOST} directions, or a sign committee, a parity or a mean of squares, "
            f"without noise; got width={K}, link={link!r}. Use a smaller width."
        )
    real = sum(not one for one in sign_only(link.expected, K))
    exact = not real_valued(link, K) or variance > 0
    many = _staircase(link, K, variance, BINS[real][1])
    few = many if exact else _staircase(link, K, variance, BINS[real][0])
    coarse = _staircase(link, K, variance, BINS[real][1], share=FEWER)
    found = _extrapolated(few, many, coarse, exact, ROUGH[real])
    rounded = variance > 0 and real_valued(link, K)
    return dataclasses.replace(found, accuracy=max(found.accuracy, NOISY)) if rounded else found


def _committee(link: AbstractLink, K: int, variance: float) -> MultiThresholds:
    if K == 1:
        return _report([Stage(0.0, "trivial", ("z1",), (), np.eye(1))], K, None, 1e-6)
    at, mean = specialisation(link, K, variance), np.ones((1, K)) / np.sqrt(K)
    rest = np.linalg.svd(mean)[2][1:]
    name = " + ".join(f"z{k + 1}" for k in range(K)) if K <= 4 else "the mean of the fields"
    all_else = "z1 - z2" if K == 2 else "all differences of fields"
    stages = [Stage(0.0, "trivial", (name,), (), mean), Stage(at.alpha, "easy", (all_else,), (name,), rest)]
    out = _report(stages, K, at.alpha, 1e-6)
    possible = wide_majority().ratio * K if isinstance(link, Majority) and variance == 0 else np.inf
    return dataclasses.replace(out, information=possible) if possible < at.alpha else out


def _sign_weights(link: AbstractLink) -> MultiThresholds:
    """Two signs with weights +-1: small overlaps grow as those of Gaussian ones, larger ones do not."""
    at = sign_weights_thresholds(link)
    out = _committee(link, 2, 0.0)
    easy = dataclasses.replace(out.stages[1], alpha=at.specialisation)
    out = _report([out.stages[0], easy], 2, at.specialisation, 1e-6)
    return dataclasses.replace(out, information=at.information, perfect=at.perfect)


def _named(link: AbstractLink, K: int) -> MultiThresholds | None:
    """Closed forms: mean of squares K/2, product of two fields, parity of signs."""
    names, every = tuple(f"z{k + 1}" for k in range(K)), np.eye(K)
    z = np.random.default_rng(9).normal(size=(300, K))
    same = [one for one in (Squares(), Product(), Parity()) if np.allclose(one.on_host(z), link.on_host(z), atol=1e-12)]
    if not same or K == 1:
        return None
    if isinstance(same[0], Squares):
        return _report([Stage(K / 2, "easy", names, (), every)], K, None, 0.0)
    if isinstance(same[0], Product) and K == 2:
        return _report([Stage(1 / _bessel(), "easy", names, (), every)], K, None, 1e-9)
    if isinstance(same[0], Parity):
        kind, alpha = ("easy", np.pi**2 / 4) if K == 2 else ("hard", np.inf)
        return _report([Stage(alpha, kind, names, (), every)], K, None, 0.0)
    return None


def _bessel() -> float:
    """E[G_11^2 + y^2] of y = z1 z2, with density K_0(|y|)/pi and G_11 = |y| K_1/K_0 - 1."""
    from scipy.integrate import quad
    from scipy.special import k0, k0e, k1e

    def integrand(y):
        return ((y * k1e(y) / k0e(y) - 1) ** 2 + y * y) * k0(y) * 2 / np.pi

    return quad(integrand, 0, 1, epsabs=1e-13, limit=200)[0] + quad(integrand, 1, 60, epsabs=1e-13, limit=200)[0]


def _report(stages: list[Stage], K: int, special: float | None, accuracy: float) -> MultiThresholds:
    def of(kind):
        return tuple(name for stage in stages if stage.kind == kind for name in stage.names)

    easy = {name: stage.alpha for stage in stages if stage.kind == "easy" for name in stage.names}
    return MultiThresholds(of("trivial"), easy, of("hard"), tuple(stages), special, None, accuracy)


def _extrapolated(
    few: list[Stage], many: list[Stage], coarse: list[Stage], exact: bool, rough: float
) -> MultiThresholds:
    """From bins and twice as many: an error that falls with their square is taken off.

    What is stated covers errors that fall like 1/bins, and more slowly than the width of the cells between nodes.
    """
    stages, worst = [], 1e-9
    for k, b in enumerate(many):
        a, c = (other[k] if k < len(other) and other[k].kind == b.kind else None for other in (few, coarse))
        if a is None or c is None:
            stages.append(b)
            worst = 1.0  # bins or nodes decide what there is
            continue
        if b.kind != "easy" or b.alpha == 0 or not np.isfinite(b.alpha):
            stages.append(b)
            continue
        stages.append(b if exact else dataclasses.replace(b, alpha=(4 * b.alpha - a.alpha) / 3))
        worst = max(worst, rough, (abs(a.alpha - b.alpha) + 2 * abs(b.alpha - c.alpha)) / b.alpha)
    K = many[0].directions.shape[1]
    alike = np.ones((1, K)) / np.sqrt(K)
    first = many[0].kind == "trivial" and len(many[0].directions) == 1 and len(stages) > 1 and K > 1
    first = first and abs(abs(float((many[0].directions @ alike.T)[0, 0])) - 1) < 1e-6
    special = stages[1].alpha if first and stages[1].kind == "easy" else None
    return _report(stages, K, special, worst)


def _staircase(link: AbstractLink, K: int, variance: float, bins: int, share: float = 1.0) -> list[Stage]:
    """One stage after the other, each given those before; with a ``share`` of the nodes of an axis."""
    where, sure = slots(link, K, variance, bins), real_valued(link, K) and variance == 0
    link = link.expected
    real = sum(not one for one in sign_only(link, K))
    noisy = real > 2
    known, stages, alpha = np.zeros((0, K)), [], 0.0
    while len(known) < K:
        others = np.linalg.svd(known)[2][len(known) :] if len(known) else np.eye(K)
        others = _tidy(others)
        seen = SEEN * (100 if noisy or (real and not _plain(known)) else 1)
        if len(known) == 0:
            growth = _first(link, K, where, noisy, share)
        elif len(known) == 1:
            growth, alpha = _second(link, K, where, known[0], others, alpha, sure, share, seen)
        else:
            growth = _known_exactly(link, K, where, known, others, share)
        values, vectors = np.linalg.eigh(growth.mean)
        if values[-1] > seen:
            found, kind, alpha_now = vectors[:, values > seen].T, "trivial", alpha
        elif growth.top > FLAT:
            size, axes = np.linalg.eigh(growth.matrix)
            found, kind = axes[:, size > GONE[real > 0] * size[-1]].T, "easy"
            alpha_now = max(alpha, 1 / growth.top)
        else:
            found, kind, alpha_now = np.eye(len(others)), "hard", np.inf
        directions = _tidy(found @ others, ROUNDED if noisy else 1e-6)
        names, before = _names(directions), tuple(name for stage in stages for name in stage.names)
        if kind == "trivial" and alpha_now > 0:
            kind = "easy"  # at once with what comes before
        stages.append(Stage(float(alpha_now), kind, names, before, directions))
        if kind == "hard":
            break
        known, alpha = np.concatenate([known, directions]), alpha_now
    return stages


def _first(link: AbstractLink, K: int, where: Slots, noisy: bool, share: float) -> _Growth:
    runs = [at_zero(link, K, where, seed, share) for seed in (range(4) if noisy else range(1))]
    P = np.mean([run[0] for run in runs], axis=0)
    keep = P > 1e-13
    pairs = [(a, b) for a in range(len(runs)) for b in range(len(runs)) if a != b or len(runs) == 1]
    mean, F = np.zeros((K, K)), 0.0
    for a, b in pairs:  # squares of noisy averages would be biased
        (_, f, S), (_, h, T) = runs[a], runs[b]
        mean = mean + np.einsum("ya,yb,y->ab", f[keep], h[keep], 1 / P[keep]) / len(pairs)
        F = F + np.einsum("yab,ycd,y->adbc", S[keep], T[keep], 1 / P[keep]) / len(pairs)
    top, matrix = _top(np.asarray(F), K, UNSURE if noisy else 1e-3)
    return _Growth(top, matrix, (mean + mean.T) / 2, 0.0)


def _top(F: np.ndarray, k: int, near: float = 1e-3) -> tuple[float, np.ndarray]:
    """The largest eigenvalue of delta -> F(delta), and the PSD matrix that belongs to it (of several, their sum)."""
    flat = F.reshape(k * k, k * k)
    values, vectors = np.linalg.eigh((flat + flat.T) / 2)
    same = vectors[:, values > values[-1] * (1 - near) - 1e-12]
    matrix = (same @ (same.T @ np.eye(k).ravel())).reshape(k, k)  # the part of the identity: PSD, of largest range
    if np.trace(matrix) < 1e-9:
        matrix = vectors[:, -1].reshape(k, k)
    return float(values[-1]), (matrix + matrix.T) / 2


def _given(t: Tables, lam: float) -> _Growth:
    """What labels tell once s is known to the overlap lam."""
    v, k = 1 - lam, t.first.shape[-1]
    if v < 1e-9:
        p, Z, first, second = t.ds * np.exp(-(t.s**2) / 2) / np.sqrt(2 * np.pi), t.P, t.first, t.second
        slope = np.zeros_like(Z)
    else:
        u = np.arange(-5.6, 5.6001, min(0.2, 0.35 * np.sqrt(v / lam)))
        p = np.exp(-(u**2) / 2)
        p, w = p / p.sum(), np.sqrt(lam) * u
        gap = t.s[None] - w[:, None]
        kernel = t.ds * np.exp(-(gap**2) / (2 * v)) / np.sqrt(2 * np.pi * v)
        Z, slope = kernel @ t.P, (kernel * gap / v) @ t.P
        first, second = (np.tensordot(kernel, x, 1) for x in (t.first, t.second))
    sound = Z > 1e-13
    weight = np.where(sound, p[:, None] / np.where(sound, Z, 1.0), 0.0)
    F = np.einsum("nl,nlab,nlcd->adbc", weight, second, second, optimize=True)
    top, matrix = _top(F, k, EQUAL if k > 1 else 1e-3)
    mean = np.einsum("nl,nla,nlb->ab", weight, first, first, optimize=True)
    return _Growth(top, matrix, mean, float(np.sum(weight * slope**2)))


def _second(link, K, where, v, others, before: float, exact: bool, share: float, seen: float) -> tuple[_Growth, float]:
    """What comes after one direction, along the branch on which message passing finds it.

    ``exact``: it can be recovered perfectly. More than ``seen`` of E|E[z|y]|^2 is none of an error of the direction.
    """
    t = tables(link, K, where, v, others, share)
    half = _given(t, 0.5)
    if np.linalg.eigvalsh(half.mean)[-1] > seen:
        return half, before
    path, reach = [], before
    for lam in GRID:
        now = _given(t, lam)
        alpha = lam / ((1 - lam) * now.g2) if now.g2 > 0 else np.inf
        if alpha >= reach:  # else it is jumped over
            reach = alpha
            path.append((lam, alpha, now))
            if alpha * now.top >= 1:
                break
    if path and path[-1][1] * path[-1][2].top >= 1 and not (exact and path[-1][0] > 0.98):
        return _crossing(t, path), before
    if exact:  # above the last maximum of alpha(lam) it is
        known = _given(t, 1.0)
        return known, max(before, path[-1][1] if path else before)
    return path[-1][2]._replace(top=0.0), before


def _crossing(t: Tables, path: list) -> _Growth:
    """Where growth reaches 1, between the last two points of a path; its top is 1/alpha there."""
    low, high = path[-2][0] if len(path) > 1 else 1e-6, path[-1][0]

    def lead(lam):
        now = _given(t, lam)
        return lam / ((1 - lam) * now.g2) * now.top - 1, now

    for _ in range(60):
        lam = (low + high) / 2
        value, now = lead(lam)
        low, high = (lam, high) if value < 0 else (low, lam)
        if high - low < 1e-12:
            break
    _, now = lead((low + high) / 2)
    return now


def _known_exactly(link, K, where, known, others, share: float) -> _Growth:
    """Given two directions without error: the best case, so that the ratio is a lower bound."""
    axis, one = middles(4.5, int(60 * share))
    s, p = np.array([[a, b] for a in axis for b in axis]), np.outer(one, one).ravel()
    x, q = middles(6.5, int(1200 * share))
    features = np.stack([np.ones_like(x), x, x**2 - 1], axis=1) * q[:, None]
    mean = top = 0.0
    for at, weight in zip(s, p, strict=True):
        out = where.sums(link.on_host(at @ known + x[:, None] * others), features)
        keep = out[:, 0] > 1e-13
        mean += weight * np.sum(out[keep, 1] ** 2 / out[keep, 0])
        top += weight * np.sum(out[keep, 2] ** 2 / out[keep, 0])
    return _Growth(top, np.eye(1), np.array([[mean]]), 0.0)


def _tidy(rows: np.ndarray, near: float = 1e-6) -> np.ndarray:
    """The same span by unit vectors of the axes, if it is one of these; else with a positive first large entry each.

    Entries as ``near`` to 0, or to the largest one, as the directions are known are taken for it, if they stay
    orthonormal.
    """
    projector = rows.T @ rows
    axes = np.nonzero(np.abs(np.diag(projector) - 1) < max(1e-6, near**2))[0]
    if len(axes) == len(rows):
        return np.eye(rows.shape[1])[axes]
    size = np.abs(rows)
    share = size / size.max(axis=1, keepdims=True)
    clean = np.sign(rows) * np.where(share < near, 0.0, np.where(share > 1 - near, 1.0, share))
    clean = clean / np.linalg.norm(clean, axis=1, keepdims=True)
    rows = clean if np.allclose(clean @ clean.T, np.eye(len(rows)), atol=1e-6) else rows
    first = np.argmax(share > 1 - max(near, 1e-6), axis=1)  # equal ones differ by rounding
    return rows * np.sign(rows[np.arange(len(rows)), first])[:, None]


def _plain(rows: np.ndarray) -> bool:
    """Whether directions are sums and differences of fields, so that they are known without error."""
    size = np.abs(rows)
    return bool(np.all((size < 1e-9) | (size > size.max(axis=1, keepdims=True, initial=0.0) - 1e-9)))


def _names(rows: np.ndarray) -> tuple[str, ...]:
    return tuple(_name(row) for row in rows)


def _name(row: np.ndarray) -> str:
    shown = np.where(np.abs(row) < 1e-6, 0.0, row)
    size = np.max(np.abs(shown))
    terms = []
    for k, value in enumerate(shown / size):
        if value:
            factor = "" if abs(abs(value) - 1) < 1e-5 else f"{abs(value):.3g}*"
            terms.append(("- " if value < 0 else "+ ") + f"{factor}z{k + 1}")
    return " ".join(terms).removeprefix("+ ")
