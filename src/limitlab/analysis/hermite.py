r"""Hermite coefficients of an activation, its information exponent, and the sample complexity that follows.

.. math::
    c_n = E[\sigma(z)\, h_n(z)], \qquad h_n = He_n/\sqrt{n!}, \quad z \sim N(0, 1), \qquad
    E[\sigma(\lambda)\sigma_*(\lambda^*)] = \sum_n c_n c^*_n \rho^n

for unit-variance fields of correlation rho. The integrals are done by Gauss-Legendre panels that are halved
wherever two halves disagree with their whole, so that kinks and jumps are found, wherever they are, to within
rounding.
"""

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.analysis.multi.exponents import FIELDS, generative_exponent
from limitlab.errors import ConvergenceError, InputError
from limitlab.modules import Module, field
from limitlab.numerics.checks import check_integer, check_number
from limitlab.numerics.gauss.rules import between
from limitlab.numerics.machine import relieve
from limitlab.problems.activations import Activation, activation
from limitlab.problems.networks import MultiIndex
from limitlab.text import Record
from limitlab.verbs import verb

__all__ = [
    "HermiteExpansion",
    "SampleComplexity",
    "hermite_coefficients",
    "hermite_expansion",
    "information_exponent",
    "sample_complexity_class",
]

NODES = 16  # per panel
BLOCK = 64  # panels per call of the activation: one shape, so that JAX compiles it once
PANEL = 0.25  # width at the start; zero is an edge
LEVELS = 60  # halvings: a panel is then narrower than the spacing of doubles at 1
MAX_PANELS = 20_000  # panels in dispute at one level; more means that the integral does not settle anywhere
MAX_DEGREE = 200
TOLERANCE = 1e-14  # disagreement of a panel that is accepted, as a share of its fair part of the norm


class HermiteExpansion(Record, Module):
    """Coefficients c_0, ..., c_degree, an estimate of their absolute error, and how both were obtained."""

    coefficients: np.ndarray
    norm: float
    error: float
    method: str = field(static=True)
    activation: str = field(static=True)


class SampleComplexity(Record, Module):
    """Samples n ~ d^power (log d)^logs that spherical one-pass SGD needs to leave its random start."""

    exponent: int = field(static=True)
    power: int = field(static=True)
    logs: int = field(static=True)
    words: str = field(static=True)

    def __str__(self) -> str:
        return self.words


@verb
def hermite_expansion(sigma: "str | Activation | Callable", degree: int = 30) -> HermiteExpansion:
    """The expansion of any activation, with its error estimate.

    Parameters
    ----------
    sigma
        A name, an `Activation` or a ``jax.numpy`` function. It must grow more slowly than exp(z^2/4).
    degree
        The last coefficient asked for, at most 200.

    Notes
    -----
    The range is [-L, L], L = 2 sqrt(degree) + 14, cut into panels of width 1/4 with an edge at
    zero. The error is the sum of the last disagreements between panels and their halves, plus rounding, plus
    a bound of what lies outside L. Named activations are right to better than 1e-12 of their norm. A feature
    narrower than about 0.01 that leaves no trace at the first nodes can be missed.
    """
    relieve()
    sigma = activation(sigma)
    degree = check_integer("hermite_expansion", "degree", degree, low=0, remedy="Ask for at least c_0.")
    if degree > MAX_DEGREE:
        raise InputError(f"hermite_expansion.degree must be at most {MAX_DEGREE}; got {degree}.")
    reach = 2 * np.sqrt(degree) + 14
    half = int(np.ceil(reach / PANEL))
    edges = PANEL * np.arange(-half, half + 1)
    left, right = edges[:-1], edges[1:]
    whole = _integrals(sigma, left, right, degree)
    kept, disagreement = np.zeros(degree + 2), 0.0
    levels = 0
    while len(left) and len(left) <= MAX_PANELS and levels < LEVELS:
        levels += 1
        middle = (left + right) / 2
        first, second = (_integrals(sigma, *ends, degree) for ends in ((left, middle), (middle, right)))
        scale = np.sqrt(max(kept[-1] + whole[:, -1].sum(), 0.0)) or 1.0
        gaps = np.abs(first + second - whole)
        gap = np.maximum(np.max(gaps[:, :-1], axis=1), gaps[:, -1] / scale)  # the last column is E sigma^2
        settled = gap <= TOLERANCE * scale
        kept += np.sum((first + second)[settled], axis=0)
        disagreement += float(gap[settled].sum())
        left, right = (np.concatenate([a[~settled], b[~settled]]) for a, b in ((left, middle), (middle, right)))
        whole = np.concatenate([first[~settled], second[~settled]])
    unsettled = float(np.sum(np.abs(whole[:, :-1]))) if len(left) else 0.0
    kept += np.sum(whole, axis=0)
    edge = np.asarray([sigma(jnp.asarray(x)) for x in (-reach, reach)], float)
    outside = float(np.max(np.abs(edge))) * np.exp(-(reach**2) / 4)
    norm = float(np.sqrt(max(kept[-1], 0.0)))
    error = disagreement + unsettled + outside + 1e-15 * norm * np.sqrt(degree + 1)
    if not error < 1e-6 * max(norm, 1e-300) and norm > 0:
        raise ConvergenceError(
            f"The Hermite coefficients of {sigma!r} did not converge: estimated error {error:.2g} for a norm "
            f"of {norm:.2g}. The activation must have finitely many kinks and grow more slowly than "
            "exp(z^2/4).",
            estimate=kept[:-1],
        )
    method = f"adaptive Gauss-Legendre panels on [-{reach:.3g}, {reach:.3g}], {levels} levels of halving"
    return HermiteExpansion(kept[:-1], norm, error, method, sigma.name)


@verb
def hermite_coefficients(sigma: "str | Activation | Callable", degree: int) -> np.ndarray:
    r"""Coefficients :math:`c_0, ..., c_{degree}`, :math:`c_n = E[\sigma(z) He_n(z)]/\sqrt{n!}`.

    Right to better than 1e-12 for named activations; `hermite_expansion` also gives the error estimate.
    """
    return hermite_expansion(sigma, degree).coefficients


@verb
def information_exponent(
    sigma: "str | Activation | MultiIndex | Callable", degree: int = 30, tolerance: float = 1e-8
) -> int:
    r"""The smallest :math:`n \ge 1` with :math:`c_n \ne 0`.

    Zero means :math:`|c_n| \le \mathrm{tolerance}\,\sqrt{E\sigma^2}`.

    It is that of the target: near a random start the drift of the overlap m is of order m^(n-1). Of several fields, as
    a text such as ``"z1*z2"`` or a `MultiIndex`, it is the least total degree of :math:`E[y\, He(z)] \ne 0`, as
    `generative_exponent` has it.
    """
    check_number("information_exponent", "tolerance", tolerance, low=0, high=1, open_low=True, remedy="Use 1e-8.")
    degree = check_integer("information_exponent", "degree", degree, low=1, remedy="Look at c_1 at least.")
    if isinstance(sigma, MultiIndex) or (isinstance(sigma, str) and re.search(FIELDS, sigma)):
        return _of_fields(sigma, min(degree, 12))
    expansion = hermite_expansion(sigma, degree)
    if expansion.error > tolerance * max(expansion.norm, 1e-300) and expansion.norm > 0:
        raise InputError(
            "information_exponent.tolerance must exceed the error of the coefficients, "
            f"{expansion.error:.2g}, relative to their norm {expansion.norm:.2g}; got {tolerance:g}. Use a "
            "larger tolerance."
        )
    found = np.nonzero(np.abs(expansion.coefficients[1:]) > tolerance * expansion.norm)[0]
    if len(found) == 0:
        raise InputError(
            f"{expansion.activation} has no Hermite coefficient c_n, 1 <= n <= {degree}, above {tolerance:g} "
            "of its norm: it is constant, or its information exponent is larger. Raise degree."
        )
    return int(found[0]) + 1


def _of_fields(target: "str | MultiIndex", degree: int) -> int:
    found = generative_exponent(target, degree).information
    if not found:
        raise InputError(
            f"{target!r} has no moment E[y He_n(z)], 1 <= n <= {degree}, that can be seen: its information exponent is "
            "larger. Raise degree."
        )
    return found


@verb
def sample_complexity_class(target: "int | str | Activation | Callable") -> SampleComplexity:
    """How many samples spherical one-pass SGD needs to find the direction of a single-index target.

    n = O(d), O(d log d), O(d^(l-1)) for information exponents l = 1, 2 and l >= 3 (for l >= 3 up to powers of
    log d), from a random start at the best step size (Ben Arous, Gheissari, Jagannath 2021).

    Parameters
    ----------
    target
        An information exponent, or an activation whose exponent is then computed.
    """
    if isinstance(target, str) or callable(target):
        exponent = information_exponent(target)
    else:
        exponent = check_integer("sample_complexity_class", "exponent", target, low=1, remedy="Exponents start at 1.")
    power, logs = max(exponent - 1, 1), int(exponent == 2)
    order = {1: "O(d)", 2: "O(d log d)"}.get(exponent, f"O(d^{power}) up to logarithms")
    reason = {
        1: "the gradient points to the target from the start",
        2: "the random start is an unstable fixed point, left exponentially fast from m of order d^-1/2",
    }.get(exponent, f"near the start the gradient is of order m^{exponent - 1} with m of order d^-1/2")
    return SampleComplexity(exponent, power, logs, f"information exponent {exponent}: n = {order}; {reason}.")


def _integrals(sigma: Activation, left: np.ndarray, right: np.ndarray, degree: int) -> np.ndarray:
    """Rows: panels. Columns: contributions to c_0, ..., c_degree, and last to E sigma^2."""
    z, dz = between(left, right, NODES)
    padded = np.zeros((-(-len(z) // BLOCK) * BLOCK, NODES))
    padded[: len(z)] = z
    each = jax.vmap(sigma.function)  # a custom activation is a function of one scalar
    blocks = [np.asarray(each(jnp.asarray(b)), float) for b in padded.reshape(-1, BLOCK * NODES)]
    values = np.concatenate(blocks).reshape(-1, NODES)[: len(z)]
    if not np.all(np.isfinite(values)):
        where = float(z[~np.isfinite(values)][0])
        raise InputError(f"The activation {sigma!r} is not finite at {where:g}. It must be finite on the whole line.")
    # h_n exp(-z^2/4) stays bounded where h_n itself would overflow.
    bell = np.exp(-(z**2) / 4)
    weights = dz * bell * values / np.sqrt(2 * np.pi)
    out = np.empty((len(z), degree + 2))
    previous, here = np.zeros_like(z), bell
    for n in range(degree + 1):
        out[:, n] = np.sum(weights * here, axis=1)
        previous, here = here, (z * here - np.sqrt(n) * previous) / np.sqrt(n + 1)
    out[:, -1] = np.sum(weights * bell * values, axis=1)
    return out
