r"""Generative exponents: the first moments of the fields that any transformation of the label can show.

.. math:: k^* = \min\{k \ge 1 : E[He_k(z) | y] \ne 0\} \le k = \min\{k \ge 1 : E[y\, He_k(z)] \ne 0\}

with all products of Hermite polynomials of total degree k for several fields.
"""

import itertools
import math
import re
from collections.abc import Callable

import numpy as np

from limitlab.analysis.multi.moments import slots
from limitlab.errors import InputError
from limitlab.numerics.checks import check_integer
from limitlab.numerics.gauss.rules import sobol_points
from limitlab.numerics.machine import relieve
from limitlab.problems.activations import AbstractActivation, activation
from limitlab.problems.links import AbstractLink
from limitlab.problems.links.custom import CustomLink
from limitlab.problems.links.labels import sign_only
from limitlab.problems.networks import MultiIndex
from limitlab.verbs import verb

__all__ = ["GenerativeExponent", "generative_exponent"]

BINS = 48
NODES = {0: 1, 1: 2**16, 2: 500, 3: 2**18}
SEEN = {0: 1e-10, 1: 1e-8, 2: 1e-6, 3: 1e-3}  # a share of the variance that is not zero, by the fields integrated
MOST = 12  # fields at most
FIELDS = "z[0-9]+"  # what a text of fields has, and the name of an activation has not


class GenerativeExponent(int):
    """A number k*, with the information exponent k of the same link beside it, and what both imply."""

    information: int

    def __new__(cls, generative: int, information: int):
        out = super().__new__(cls, generative)
        out.information = information
        return out

    @property
    def one_pass(self) -> str:
        """Samples of one-pass SGD, from k."""
        k = self.information
        return {1: "n ~ d", 2: "n ~ d log d"}.get(k, f"n ~ d^{k - 1}" if k else "no power of d is known")

    @property
    def best(self) -> str:
        """Samples of the best known algorithms (low degree, queries, reused batches with any label map), from k*."""
        power = max(1.0, int(self) / 2)
        return "n ~ d" if power == 1 else f"n ~ d^{power:g}"

    @property
    def words(self) -> str:
        return (
            f"Generative exponent {int(self)}, information exponent {self.information or 'beyond the degree'}: "
            f"one-pass SGD needs {self.one_pass}; reused batches and the best known algorithms {self.best}; "
            "statistically n ~ d."
        )

    def __str__(self) -> str:
        return str(int(self))


@verb
def generative_exponent(
    target: "str | AbstractActivation | MultiIndex | Callable", degree: int = 8
) -> GenerativeExponent:
    r"""The smallest k >= 1 with :math:`E[He_k(z) | y] \ne 0`, a whole number that also tells what it implies.

    Parameters
    ----------
    target
        An activation or its name, a text of fields such as ``"sign(z1*z2*z3)"``, or a `MultiIndex` teacher.
    degree
        The largest k that is looked at.

    Examples
    --------
    >>> import limitlab as ll
    >>> int(ll.generative_exponent("hermite(3)")), int(ll.information_exponent("hermite(3)"))
    (1, 3)
    """
    relieve()
    degree = check_integer("generative_exponent", "degree", degree, low=1, high=12, remedy="Look at 1 to 12.")
    rule, K = _link(target)
    signs = sign_only(rule, K)
    real = sum(not one for one in signs)
    if real > 3 or K > MOST:
        raise InputError(
            f"generative_exponent needs at most 3 fields beside those whose sign alone counts, and {MOST} in all; got "
            f"{real} of {K}. Use fewer."
        )
    found, first = 0, 0
    for k in range(1, degree + 1):
        shown, plain = _shares(rule, K, signs, k)
        found = found or (k if shown > SEEN[real] else 0)
        first = first or (k if plain > SEEN[real] else 0)
        if found and first:
            break
    if not found:
        raise InputError(
            f"{target!r} has no moment E[He_k(z)|y], 1 <= k <= {degree}, that can be seen: it is constant, or its "
            "generative exponent is larger. Raise degree."
        )
    return GenerativeExponent(found, first)


def _link(target) -> tuple[AbstractLink, int]:
    """A link and its number of fields."""
    if isinstance(target, MultiIndex):
        return target.link.expected, target.width
    if isinstance(target, str) and re.search(FIELDS, target):
        width = max(int(number) for number in re.findall(r"z([0-9]+)", target))
        return MultiIndex(width, target).link, width
    if isinstance(target, AbstractLink):
        raise InputError(
            f"generative_exponent needs a MultiIndex teacher for link={target!r}: it has no width. Use one."
        )
    sigma = activation(target)
    one = CustomLink(lambda z: sigma(z[0]))
    one.check(1)
    return one, 1


def _shares(rule: AbstractLink, K: int, signs: tuple[bool, ...], k: int) -> tuple[float, float]:
    """Of degree k: sum of E (E[He|y])^2, and of E[y He]^2/E y^2, He normalised.

    With random nodes squares are products of two independent sums, which have no bias.
    """
    one = _sums(rule, K, signs, k, 0)
    other = _sums(rule, K, signs, k, 1) if sum(not sign for sign in signs) == 3 else one
    P, size = (one[0] + other[0]) / 2, {m: math.prod(math.factorial(i) for i in m) for m in one[1]}
    keep = P > 1e-12
    shown = sum(float(np.sum(a[keep] * other[1][m][keep] / P[keep])) / size[m] for m, a in one[1].items())
    return shown, sum(a * other[2][m] / size[m] for m, a in one[2].items()) / max(one[3], 1e-300)


def _sums(
    rule: AbstractLink, K: int, signs: tuple[bool, ...], k: int, seed: int
) -> tuple[np.ndarray, dict, dict, float]:
    """P_y, E[He 1_y] and E[y He] of all products of degree k, and E y^2."""
    real, patterned = ([i for i in range(K) if signs[i] == which] for which in (False, True))
    u, p = _nodes(len(real), seed)
    where = slots(rule, K, 0.0, BINS)
    powers = [m for m in itertools.product(range(k + 1), repeat=K) if sum(m) == k]
    sums: dict = {m: 0.0 for m in powers}
    P, y2, plain = 0.0, 0.0, dict.fromkeys(powers, 0.0)
    half = [0.5] + [_he(m - 1, np.zeros(1))[0] / np.sqrt(2 * np.pi) for m in range(1, k + 1)]  # E[He_m 1_{z > 0}]
    for pattern in itertools.product([1.0, -1.0], repeat=len(patterned)):
        z = np.empty((len(u), K))
        z[:, real], z[:, patterned] = u, pattern
        y = rule.on_host(z)
        P = P + where.sums(y, p[:, None])[:, 0] / 2 ** len(patterned)
        y2 += float(p @ y**2) / 2 ** len(patterned)
        for m in powers:
            value = p.copy()
            for i, j in enumerate(real):
                value = value * _he(m[j], u[:, i])
            for i, j in enumerate(patterned):
                value = value * half[m[j]] * pattern[i] ** m[j]
            sums[m] = sums[m] + where.sums(y, value[:, None])[:, 0]
            plain[m] += float(value @ y)
    return np.asarray(P), sums, plain, y2


def _he(m: int, x: np.ndarray) -> np.ndarray:
    return np.polynomial.hermite_e.hermeval(x, [0.0] * m + [1.0])


def _nodes(real: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    count = NODES[real]
    if real == 3:
        from scipy.special import ndtri

        u = ndtri(sobol_points(3, count // 2, np.random.default_rng(seed)))
        u = np.concatenate([u, -u])
        return u, np.full(len(u), 1 / len(u))
    axis = np.linspace(-8.5, 8.5, count + 1)
    axis = (axis[1:] + axis[:-1]) / 2
    u = np.array(list(itertools.product(axis, repeat=real))) if real else np.zeros((1, 0))
    p = np.exp(-np.sum(u**2, axis=1) / 2)
    return u, p / p.sum()
