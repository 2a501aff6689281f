r"""Averages over the random start of phase retrieval, without draws wherever that is possible.

The start is p + 1 random unit vectors, one of them the teacher, and enters through

.. math:: \mu_0 = d\sum_j m_j^2, \qquad \tau_0 = 2d\sum_{j<l} Q_{jl}^2
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from limitlab.analysis.exits.formulas import Plateau
from limitlab.numerics.gauss.rules import legendre

__all__ = [
    "Average",
    "annealed_log",
    "mean_over_overlap",
    "quenched_log",
    "random_starts",
    "single_unit_exit",
    "start_numbers",
]

DRAWS = 2**15  # of the start, where the deterministic average does not converge
REACH = 12.0  # standard deviations kept of a normal law


class Average(NamedTuple):
    """A mean over starts, its standard error (0 if deterministic), the share of starts, and a remark."""

    value: float
    stderr: float = 0.0
    fraction: float = 1.0
    note: str = ""


def annealed_log(p: int, d: float, T: float) -> float:
    """log[(p+1)(T d + 1 - T)/(2p)], the logarithm of growth needed from the mean start."""
    return math.log((p + 1) * (T * d + 1 - T) / (2 * p))


def mean_over_overlap(function: Callable[[float], float], d: float, limiting: bool, upto: float = 1.0) -> float:
    r"""Integral over :math:`u = m^2 <` ``upto`` of function(u) under the law of one squared overlap.

    m = sin(theta) has density proportional to cos(theta)^(d-2) for unit vectors in d dimensions; ``limiting``
    replaces it by m ~ N(0, 1/d). A logarithmic divergence of the function at 0 is allowed.
    """
    from scipy.integrate import quad
    from scipy.special import betaln

    if limiting:
        top = min(REACH, math.sqrt(d * upto))
        norm = math.sqrt(2 / math.pi)
        return quad(
            lambda x: norm * math.exp(-x * x / 2) * function(x * x / d),
            0,
            top,
            epsabs=1e-12,
            epsrel=1e-11,
            limit=200,
        )[0]
    top = min(REACH / math.sqrt(max(d - 2, 1e-9)), math.asin(math.sqrt(min(upto, 1.0))))
    log_norm = math.log(2) - betaln(0.5, (d - 1) / 2)

    def integrand(angle: float) -> float:
        log_density = log_norm + (d - 2) * math.log(max(math.cos(angle), 1e-300))
        return math.exp(log_density) * function(math.sin(angle) ** 2)

    return quad(integrand, 0, top, epsabs=1e-12, epsrel=1e-11, limit=200)[0]


def quenched_log(p: int, d: float, T: float, limiting: bool) -> Average:
    r"""E log[(T p(p+1) d + (2 p mu_0 - tau_0)(1-T)) / (2 p mu_0)] over the random start.

    ``limiting`` takes mu_0 ~ chi^2_p and tau_0 ~ 2 chi^2_{p(p-1)/2}, independent; otherwise mu_0 and tau_0
    are those of unit vectors in d dimensions. E log mu_0 is a one-dimensional integral and the logarithm of
    the numerator, which hardly varies, is summed from its cumulants. Where they do not converge (T d of order
    one) draws take over.
    """
    if p == 1:
        log = lambda u: math.log(T / u + 1 - T) if u > 0 else 0.0  # noqa: E731
        return Average(mean_over_overlap(log, d, limiting, math.inf if limiting else 1.0))
    start = -_mean_log_overlaps(p, d, limiting)
    mean = (p + 1) * (T * d + 1 - T) / 2  # of the numerator over 2p
    pairs = p * (p - 1)
    k2 = (8 * p**3 + 4 * pairs) * (1.0 if limiting else (d - 1) / (d + 2))  # exact; k3, k4 up to O(1/d)
    k3, k4 = 64 * p**4 - 32 * pairs, 768 * p**5 + 384 * pairs
    s = (1 - T) / (2 * p * mean)
    terms = (-k2 * s**2 / 2, k3 * s**3 / 3, -(k4 + 3 * k2**2) * s**4 / 4)
    if 2 * abs(k2 * k3) * s**5 < 1e-5 and abs(terms[2]) < 1e-3:
        return Average(math.log(mean) + sum(terms) + start)
    return _drawn_log(p, d, T, limiting, mean, k2, start)


def _mean_log_overlaps(p: int, d: float, limiting: bool) -> float:
    r"""E log mu_0 = int ds/s (e^-s - E[e^(-s d m^2)]^p), by the trapezoid rule in log s."""
    from scipy.special import betaln, digamma

    if limiting:
        return math.log(2) + float(digamma(p / 2))
    t, w = legendre(200)
    step = 0.05
    s = np.exp(step * np.arange(-740, 1 + int(75 / (p * step))))  # both tails are below 1e-16
    width = np.sqrt(d * (1 + 2 * s))  # the integrand over theta is a bell of width 1/width
    top = np.minimum(REACH / width, np.pi / 2)
    angle = top[:, None] * (t + 1) / 2
    with np.errstate(divide="ignore"):  # cos(pi/2) is zero: log density minus infinity
        exponent = -s[:, None] * d * np.sin(angle) ** 2 + (d - 2) * np.log(np.cos(angle))
    laplace = np.exp(math.log(2) - betaln(0.5, (d - 1) / 2)) * np.sum(w * np.exp(exponent), axis=1) * top / 2
    return float(step * np.sum(np.exp(-s) - laplace**p))


def random_starts(p: int, d: float, number: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps m (number, p) and Q (number, p, p) of p + 1 unit vectors in d dimensions, exact in law."""
    L = np.tril(rng.standard_normal((number, p + 1, p + 1)), -1)  # Bartlett's factor of a Wishart matrix
    left = d - np.arange(p + 1.0)
    L = np.where(left > 0, L, 0.0)
    chi = np.sqrt(rng.chisquare(np.where(left > 0, left, 1.0), (number, p + 1)))
    L += np.where(left > 0, chi, 0.0)[:, None, :] * np.eye(p + 1)
    L /= np.linalg.norm(L, axis=2, keepdims=True)
    gram = L @ np.swapaxes(L, 1, 2)
    return gram[:, 1:, 0], gram[:, 1:, 1:]


def start_numbers(m: np.ndarray, Q: np.ndarray, d: float) -> tuple[np.ndarray, np.ndarray]:
    """mu_0 = d sum m_j^2 and tau_0 = 2 d sum_{j<l} Q_jl^2."""
    return d * np.sum(m**2, axis=1), d * (np.sum(Q**2, axis=(1, 2)) - m.shape[1])


def _drawn_log(p: int, d: float, T: float, limiting: bool, mean: float, k2: float, start: float) -> Average:
    """The numerator's mean logarithm by draws, with its own mean and variance as control variates."""
    rng = np.random.default_rng(0)
    if limiting:
        mu, tau = rng.chisquare(p, DRAWS), 2 * rng.chisquare(p * (p - 1) / 2, DRAWS)
    else:
        pieces = [start_numbers(*random_starts(p, d, 1024, rng), d) for _ in range(DRAWS // 1024)]
        mu, tau = (np.concatenate(x) for x in zip(*pieces, strict=True))
    x = (1 - T) * (mu - p - (tau - p * (p - 1)) / (2 * p))
    if np.any(mean + x <= 0):
        share = float(np.mean(mean + x <= 0))
        note = (
            f"The quenched formula is undefined at a share {share:.2g} of the starts: there the mutual "
            "overlaps of the units, which it neglects at the exit, weigh more than the threshold. Use a "
            f"larger T*d (here {T * d:.3g})."
        )
        return Average(math.nan, math.nan, 1 - share, note)
    controls = np.stack([x, x**2 - k2 * ((1 - T) / (2 * p)) ** 2], axis=1)
    values = np.log(mean + x)
    slope = np.linalg.lstsq(controls - controls.mean(axis=0), values - values.mean(), rcond=None)[0]
    rest = values - controls @ slope
    note = f"T*d = {T * d:.3g} is small: averaged over {DRAWS} drawn starts."
    return Average(float(rest.mean()) + start, float(rest.std(ddof=1) / math.sqrt(DRAWS)), 1.0, note)


def single_unit_exit(plateau: Plateau, d: float, T: float, factor: float = 1.0) -> Average:
    r"""Mean exit time of one unit, without linearisation, started at ``factor`` times its squared overlap u.

    .. math::
        t = \frac1{2\alpha} \log\frac{u_T (\alpha - \beta F u)}{F u (\alpha - \beta u_T)}

    with u_T = T + (1 - T) u, which needs alpha > beta u_T: below the noise floor it is never reached.
    """
    alpha, beta = plateau.pull
    if alpha <= 0 or T >= alpha / beta:
        return Average(math.inf, 0.0, 0.0)
    last = (alpha / beta - T) / (1 - T)  # starts beyond it are asked for a risk below the noise floor

    def time(u: float) -> float:
        target = T + (1 - T) * u
        if u <= 0 or factor * u >= target:
            return 0.0
        return math.log(target * (alpha - beta * factor * u) / (factor * u * (alpha - beta * target))) / (2 * alpha)

    share = mean_over_overlap(lambda u: 1.0, d, False, last)
    share = 1.0 if share > 1 - 1e-9 else share
    return Average(mean_over_overlap(time, d, False, last) / share, 0.0, share)
