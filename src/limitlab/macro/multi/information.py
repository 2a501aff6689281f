r"""What labels tell about K fields at an overlap matrix M.

.. math:: Z(y, w, V) = E_{z \sim N(w, V)} P(y|z), \quad g = \nabla_w \log Z, \qquad
          E[g g^T], \quad \Phi_{out} = E \log Z, \qquad w \sim N(0, M), \; y \sim Z, \; V = I - M

The outer average is a trapezoidal rule in the eigenvectors of M, of dimension rank(M); two interlaced grids give its
error. Z and its gradient are exact for labels made of one to three signs, and else sums over nodes: panels between its
kinks and jumps for one field, beside which up to two others may show their signs; for more of them Gauss-Hermite where
that converges, an even grid of two fields with noisy labels where it does not, else two independent scramblings of
Sobol points (squares of noisy averages would be biased, so that a square is the product of the two).
"""

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np

from limitlab.macro.multi.line import breaks_of, surest_of_one
from limitlab.numerics.gauss.rules import sobol_points
from limitlab.numerics.quadrants import SIGNS, sectors
from limitlab.problems.links import AbstractLink
from limitlab.problems.links.labels import Labels, labels_of, levels, parity, sign_only

__all__ = [
    "RANK",
    "FieldLaw",
    "Information",
    "Known",
    "certainty",
    "evidence",
    "field_law",
    "information",
    "root",
    "sobol_rule",
    "surest",
]

TINY = 1e-13  # of Z: a difference of probabilities is right to 1e-16, and below this the ratio is noise
RANK = 1e-12  # of an eigenvalue of M
REACH = {1: 7.0, 2: 6.2, 3: 5.0}  # of the outer grid
STEP = {1: 0.1, 2: 0.3, 3: 0.9}
SHARP = {1: 0.15, 2: 0.3, 3: 0.8}  # steps per width of the posterior, where that is narrow
MOST = {1: 4000, 2: 500, 3: 20}  # points of an axis
BLOCK = 2_000_000  # numbers held at once
FINE = {1: 4, 2: 3, 3: 1}  # times shorter steps where there is a kink
HERMITE = {2: (16, 24, 32, 48), 3: (8, 12, 16)}
TRIED = 24  # means at which nodes are tried
FAR = 1e-3  # a change under more of these nodes from which they will not converge
GRID = (0.4, 0.2, 0.1)  # steps of an even grid of two fields
NEAR = 1e-3  # a relative change of E gg^T under half the step that is good enough
PLANE = 6.8  # such a grid ends here
SOBOL = {2: 2**12, 3: 2**12}
LINE = 9.0  # one field is integrated up to here
ORDER = 12  # nodes of a panel
GOOD = 2e-5  # a change of E gg^T under more nodes that is as good as none


class Rule(NamedTuple):
    """Nodes u (N, K) and probabilities (N,) of normal fields; two sets of them if they are random.

    One field, the number ``real``, has panels instead, which are made for the width of the posterior; ``breaks`` are
    among their edges. Of the other fields only the signs count. Two fields may have an even grid, of a ``step``.
    """

    name: str
    sets: tuple[tuple[np.ndarray, np.ndarray], ...]
    breaks: np.ndarray = np.zeros(0)
    real: int = 0
    step: float = 0.0


class FieldLaw(NamedTuple):
    """A link of K fields, its labels, and how Z is computed: sign patterns P(y|pattern) (L, S), or nodes.

    ``mirrored``: turning all fields around turns the label around or leaves it, so that half of the outer grid does.
    """

    link: AbstractLink
    width: int
    labels: Labels
    patterns: np.ndarray | None
    rule: Rule
    mirrored: bool

    @property
    def sharp(self) -> bool:
        """Whether labels change at once where fields do, so that weights +-1 can be recovered perfectly."""
        return self.labels.kind == "discrete" and levels(self.link, self.width) is not None


class Information(NamedTuple):
    """E gg^T (K, K), E log Z, and the mean square of the predicted label."""

    gg: np.ndarray
    phi: float
    predicted: float


def field_law(link: AbstractLink, width: int, variance: float, bins: int | None = None) -> FieldLaw:
    """The law of labels, and the best rule that is known for it (kept: asking again costs nothing)."""
    return _field_law(link, width, float(variance), bins)


@functools.lru_cache(maxsize=64)
def _field_law(link: AbstractLink, width: int, variance: float, bins: int | None) -> FieldLaw:
    labels, mean = labels_of(link, width, variance, bins), link.expected
    mirrored = labels.kind != "binned" and parity(mean, width) != 0
    if width in SIGNS and all(sign_only(mean, width)):
        patterns = labels.likelihood(mean.on_host(SIGNS[width])).T
        return FieldLaw(mean, width, labels, patterns, Rule("exact", ()), mirrored)
    probe = 0.4 * np.eye(width) + 0.08 * (np.ones((width, width)) - np.eye(width))
    before = None
    real = [k for k, only in enumerate(sign_only(mean, width)) if not only]
    if width == 1 or (width in SIGNS and len(real) == 1 and labels.kind != "binned"):
        beside = real[0] if real else 0
        return FieldLaw(mean, width, labels, None, Rule("panels", (), _breaks(mean, width, beside), beside), mirrored)
    smooth = labels.kind == "noisy" or (labels.sides is not None and levels(mean, width) is None)
    for count in HERMITE[width] if smooth else ():
        law = FieldLaw(mean, width, labels, None, _hermite(width, count), mirrored)
        now = _tried(law, probe)
        change = np.inf if before is None else np.max(np.abs(now - before)) / max(1.0, float(np.max(np.abs(now))))
        if change < GOOD:
            return law
        if FAR < change < np.inf:
            break
        before = now
    if width == 2 and smooth:
        return _on_grid(FieldLaw(mean, width, labels, None, Rule("grid", (), step=GRID[0]), mirrored), probe)
    return FieldLaw(mean, width, labels, None, sobol_rule(width, 0), mirrored)


def _on_grid(law: FieldLaw, probe: np.ndarray) -> FieldLaw:
    """The law with the longest step of an even grid that half of it confirms, or with the shortest one."""
    now = _tried(law, probe)
    for step in GRID[1:]:
        finer = law._replace(rule=law.rule._replace(step=step))
        before, now = now, _tried(finer, probe)
        if np.max(np.abs(now - before)) < NEAR * np.max(np.abs(now)):
            return law
        law = finer
    return law


def _tried(law: FieldLaw, M: np.ndarray) -> np.ndarray:
    """The mean of gg^T over a few w: enough to see whether nodes do."""
    w = np.random.default_rng(0).normal(size=(TRIED, law.width)) @ root(M)
    return _part(law, w, np.full(TRIED, 1 / TRIED), np.eye(law.width) - M)[0]


def _breaks(link: AbstractLink, width: int, real: int) -> np.ndarray:
    """Where a link of one real field and the signs of others jumps or has a kink."""

    def of(signs):
        return breaks_of(lambda x: link.on_host(np.insert(np.tile(signs, (len(x), 1)), real, x, axis=1)), -LINE, LINE)

    every = np.concatenate([of(signs) for signs in (SIGNS[width - 1] if width > 1 else np.zeros((1, 0)))])
    return np.unique(every.round(12))


def _hermite(width: int, count: int) -> Rule:
    x, p = np.polynomial.hermite_e.hermegauss(count)
    p = p / p.sum()
    keep = p > 1e-16
    x, p = x[keep], p[keep]
    u = np.array(list(itertools.product(x, repeat=width)))
    weight = np.prod(np.array(list(itertools.product(p, repeat=width))), axis=1)
    few = weight > 1e-14
    return Rule("hermite", ((u[few], weight[few] / weight[few].sum()),))


def sobol_rule(width: int, seed: int) -> Rule:
    """Two independent sets of Sobol points, the mirror images with them, whitened."""
    from scipy.special import ndtri

    sets = []
    for rng in np.random.default_rng(seed).spawn(2):
        half = ndtri(sobol_points(width, SOBOL[width] // 2, rng))
        u = np.concatenate([half, -half])
        values, vectors = np.linalg.eigh(u.T @ u / len(u))
        sets.append((u @ (vectors / np.sqrt(values)) @ vectors.T, np.full(len(u), 1 / len(u))))
    return Rule("sobol", tuple(sets))


def root(V: np.ndarray, power: float = 0.5) -> np.ndarray:
    """A power of a symmetric matrix."""
    values, vectors = np.linalg.eigh(V)
    return (vectors * np.maximum(values, 1e-14) ** power) @ vectors.T


def outer(M: np.ndarray, shift: float, half: bool = False, finer: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Nodes w (n, K) and probabilities of N(0, M); ``shift`` moves the grid by that share of its step.

    ``half``: a point stands for its mirror image as well; ``finer``: steps are so many times shorter.
    """
    values, vectors = np.linalg.eigh(M)
    kept = [i for i in range(len(values)) if values[i] > RANK]
    if not kept:
        return np.zeros((1, len(M))), np.ones(1)
    rank = len(kept)
    axes = []
    for i in kept:
        width = np.sqrt(max(1 - values[i], 1e-9) / values[i])
        step = max(min(STEP[rank], SHARP[rank] * width), 2 * REACH[rank] / MOST[rank])
        step = step / finer
        count = int(np.ceil(REACH[rank] / step))
        axes.append((np.arange(-count, count + 1) + shift) * step)
    u = np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)
    size = np.sum(u**2, axis=1)
    u = u[size < (REACH[rank] + 0.5) ** 2]
    side = u @ np.array([1.0, 1e-4, 1e-8])[:rank]
    u, side = (x[side >= 0] if half else x for x in (u, side))
    p = np.exp(-np.sum(u**2, axis=1) / 2) * np.where(half & (side == 0), 0.5, 1.0)
    return u @ (vectors[:, kept] * np.sqrt(values[kept])).T, p / p.sum()


def information(law: FieldLaw, M: np.ndarray, shift: float = 0.0) -> Information:
    """What labels tell at the overlap M, with one of the two outer grids (``shift`` 0 or 1/2)."""
    w, p = outer(M, shift, law.mirrored)
    V = np.eye(law.width) - M
    total: Any = None
    size = len(law.labels.y) * (len(law.rule.sets[0][0]) + 8 if law.rule.sets else 40)
    if law.rule.name == "panels":
        size = max(size, len(_panels(law, V)[0]) * (1 if law.width == 1 else 16 * 2**law.width))
    for part in np.array_split(np.arange(len(w)), max(1, len(w) * size // BLOCK)):
        now = _part(law, w[part], p[part], V)
        total = now if total is None else [a + b for a, b in zip(total, now, strict=True)]
    return Information(*total)


def _part(law: FieldLaw, w: np.ndarray, p: np.ndarray, V: np.ndarray) -> list:
    Z, slopes = evidence(law, w, V)
    weight = p[:, None] * law.labels.weight
    sound = Z > TINY
    safe = np.where(sound, Z, 1.0)
    ratio = np.where(sound, weight / safe, 0.0)
    first, second = slopes[0], slopes[-1]
    gg = np.einsum("nl,nla,nlb->ab", ratio, first, second, optimize=True)
    phi = float(np.sum(weight * safe * np.log(safe)))
    mean = Z @ (law.labels.weight * law.labels.y)
    return [(gg + gg.T) / 2, phi, float(p @ mean**2)]


def surest(law: FieldLaw, M: np.ndarray) -> float:
    """E max_y Z, the probability that the best guess of a discrete label is right.

    It has a kink where the guess changes, so that finer grids are extrapolated.
    """
    if law.width == 1 and law.rule.name == "panels":
        return surest_of_one(lambda w: evidence(law, w[:, None], np.eye(1) - M)[0], float(M[0, 0]))
    fine = FINE[max(1, int(np.sum(np.linalg.eigvalsh(M) > RANK)))]
    values = []
    for finer in (fine, 2 * fine):
        w, p = outer(M, 0.0, law.mirrored, finer)
        parts = np.array_split(np.arange(len(w)), max(1, len(w) // 20_000))
        values.append(sum(p[k] @ np.max(evidence(law, w[k], np.eye(law.width) - M)[0], axis=1) for k in parts))
    return float((4 * values[1] - values[0]) / 3)


def evidence(law: FieldLaw, w: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Z (n, L) and its gradients (n, L, K): one, or two independent estimates of it."""
    if law.patterns is not None:
        at = sectors(w, V, np, curved=False)
        return at.p @ law.patterns.T, [np.einsum("nsk,ls->nlk", at.dp, law.patterns, optimize=True)]
    if law.rule.name == "panels":
        return _by_panels(law, w, V)
    if law.rule.name == "grid":
        return _by_grid(law, w, V)
    half, back = root(V), root(V, -0.5)
    Z, slopes = np.zeros((len(w), len(law.labels.y))), []
    for u, p in law.rule.sets:
        P = law.labels.likelihood(law.link.on_host(w[:, None, :] + u @ half), axis=1)  # (n, L, N)
        sums = P @ (p[:, None] * np.column_stack([np.ones(len(u)), u]))
        Z = Z + sums[..., 0] / len(law.rule.sets)
        slopes.append(sums[..., 1:] @ back)
    return Z, slopes


def _panels(law: FieldLaw, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of the real field, and their weights: panels as narrow as its posterior, or as the noise of a label."""
    k = law.rule.real
    step = 1.5 * np.sqrt(V[k, k])
    if law.labels.kind == "noisy":
        slope = np.ptp(law.labels.y) / (2 * LINE)
        step = min(step, 1.5 * np.sqrt(law.labels.variance) / max(1.0, slope))
    if law.width > 1:  # or as what they tell about the signs beside them
        step = min(step, 1.5 * float(np.min(np.sqrt(np.diag(_given(V, k)[1])) / (np.abs(_given(V, k)[0]) + 1e-9))))
    even = np.linspace(-LINE, LINE, int(np.ceil(2 * LINE / max(step, 2e-3))) + 1)
    edges = np.unique(np.concatenate([even, law.rule.breaks]))
    x, dx = np.polynomial.legendre.leggauss(ORDER)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * dx).ravel()


def _given(V: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The regression (K - 1,) of the other fields on field k, and their covariance given it."""
    rest = [j for j in range(len(V)) if j != k]
    slope = V[rest, k] / V[k, k]
    return slope, V[np.ix_(rest, rest)] - np.outer(slope, V[k, rest])


def _by_panels(law: FieldLaw, w: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """One real field z by panels; given it, the signs of the others are those of normal fields."""
    k, K = law.rule.real, law.width
    z, dz = _panels(law, V)
    gap = z - w[:, [k]]
    kernel = dz * np.exp(-(gap**2) / (2 * V[k, k])) / np.sqrt(2 * np.pi * V[k, k])
    if K == 1:
        P = law.labels.likelihood(law.link.on_host(z[:, None]))  # (N, L)
        return kernel @ P, [((kernel * gap / V[k, k]) @ P)[..., None]]
    rest, signs = [j for j in range(K) if j != k], SIGNS[K - 1]
    fields = np.insert(np.tile(signs, (len(z), 1)), k, np.repeat(z, len(signs)), axis=1)
    P = law.labels.likelihood(law.link.on_host(fields))  # (N S, L)
    slope, left = _given(V, k)
    at = sectors(w[:, None, rest] + gap[..., None] * slope, left, np, curved=False)

    def summed(x):
        return (kernel[..., None] * x).reshape(len(w), -1) @ P

    out = np.empty((len(w), P.shape[1], K))
    for i, j in enumerate(rest):
        out[..., j] = summed(at.dp[..., i])
    out[..., k] = summed(gap[..., None] / V[k, k] * at.p) - out[..., rest] @ slope
    return summed(at.p), [out]


def _by_grid(law: FieldLaw, w: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Two fields on an even grid, which stays where it is: what labels tell at its nodes is the same for all w."""
    h = min(law.rule.step, 0.7 * float(np.sqrt(np.linalg.eigvalsh(V)[0])))
    count = int(np.ceil(PLANE / h))
    axis = (np.arange(-count, count) + 0.5) * h
    z = np.stack([x.ravel() for x in np.meshgrid(axis, axis, indexing="ij")], axis=1)
    z = z[np.sum(z**2, axis=1) < PLANE**2]
    inverse, labels = np.linalg.inv(V), len(law.labels.y)
    share = h * h / (2 * np.pi * np.sqrt(np.linalg.det(V)))
    sums: Any = np.zeros((3, len(w), labels))
    for some in np.array_split(z, max(1, len(z) * max(len(w), labels) // BLOCK)):
        P = law.labels.likelihood(law.link.on_host(some))  # (N, L)
        gap = some - w[:, None]
        score = gap @ inverse
        kernel = share * np.exp(-np.sum(gap * score, axis=-1) / 2)
        sums += np.stack([kernel @ P, (kernel * score[..., 0]) @ P, (kernel * score[..., 1]) @ P])
    return sums[0], [np.stack([sums[1], sums[2]], axis=-1)]


class Known(NamedTuple):
    """Once all fields are known: E log P(y|z), the mean square of the predicted label, and E max_y P(y|z)."""

    phi: float
    predicted: float
    surest: float


def certainty(law: FieldLaw) -> Known:
    """What labels leave to chance once all is known; nothing, if they are a function of the fields."""
    if law.patterns is not None:
        P, p = law.patterns.T, np.full(2**law.width, 0.5**law.width)
    elif law.rule.sets or law.rule.name == "grid":
        u, p = law.rule.sets[0] if law.rule.sets else sobol_rule(law.width, 0).sets[0]
        P = law.labels.likelihood(law.link.on_host(u))
    else:
        signs = SIGNS[law.width - 1] if law.width > 1 else np.zeros((1, 0))
        z = np.repeat(np.linspace(-LINE, LINE, 4001), len(signs))
        p = np.exp(-(z**2) / 2)
        fields = np.insert(np.tile(signs, (4001, 1)), law.rule.real, z, axis=1)
        P, p = law.labels.likelihood(law.link.on_host(fields)), p / p.sum()
    weight, y = law.labels.weight, law.labels.y
    phi = float(p @ (np.where(P > 0, P * np.log(np.where(P > 0, P, 1.0)), 0.0) @ weight))
    return Known(phi, float(p @ (P @ (weight * y)) ** 2), float(p @ np.max(P, axis=1)))
