"""Which terms of a target a network can represent at all, before any dynamics."""

import functools
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import RepresentationWarning
from limitlab.problems.activations.base import Activation
from limitlab.problems.networks import Committee
from limitlab.problems.sparse.target import SparseTarget, term_name
from limitlab.verbs import caution

__all__ = ["unreachable_terms", "warn_of", "warn_unreachable"]

TOLERANCE = 1e-10
MAX_DEGREE = 12


@functools.lru_cache(maxsize=256)
@double
def _parts(sigma: Activation) -> tuple[str, str, int | None]:
    """The even part ("zero", "constant", "any"), the odd part ("zero", "linear", "any"), the degree of a polynomial."""
    x = np.cos(np.pi * (np.arange(101) + 0.5) / 101) * 6.0
    y, mirrored = (np.asarray(jax.vmap(sigma.function)(jnp.asarray(p)), float) for p in (x, -x))
    small = TOLERANCE * max(1e-300, np.max(np.abs(y)))
    even, odd = (y + mirrored) / 2, (y - mirrored) / 2
    kind_even = "zero" if np.max(np.abs(even)) < small else "constant" if np.ptp(even) < small else "any"
    slope = odd @ x / (x @ x)
    kind_odd = "zero" if np.max(np.abs(odd)) < small else "linear" if np.max(np.abs(odd - slope * x)) < small else "any"
    for degree in range(MAX_DEGREE + 1):
        fit = np.polynomial.Chebyshev.fit(x, y, degree, domain=[-6, 6])
        if np.max(np.abs(fit(x) - y)) < small:
            return kind_even, kind_odd, degree
    return kind_even, kind_odd, None


def unreachable_terms(activation: Activation, target: SparseTarget) -> tuple[list[int], str]:
    r"""The sets of the target that no mixture of :math:`E\sigma(u \cdot z + sG)` contains, and why.

    An odd activation gives odd functions, one whose odd part is linear (relu, abs) no odd term of degree 3 or more, a
    polynomial nothing above its degree.
    """
    even, odd, degree = _parts(activation)
    lost, reasons = [], []

    def lose(test, reason: str) -> None:
        found = [mask for mask in target.terms if test(mask.bit_count()) and mask not in lost]
        if found:
            lost.extend(found)
            reasons.append(reason)

    if degree is not None:
        lose(lambda k: k > degree, f"it is a polynomial of degree {degree}")
    if even != "any":
        why = "it is odd" if even == "zero" else "it is odd up to a constant"
        lose(lambda k: k % 2 == 0 and (k > 0 or even == "zero"), why)
    if odd != "any":
        why = "it is even" if odd == "zero" else "its odd part is linear"
        lose(lambda k: k % 2 == 1 and (k > 1 or odd == "zero"), why)
    return sorted(lost), " and ".join(reasons)


class _Learner(Protocol):
    @property
    def teacher(self) -> SparseTarget: ...
    @property
    def student(self) -> Committee: ...


def warn_unreachable(setting: _Learner) -> str | None:
    """Warn, and return the words, if the student can never represent the target."""
    return warn_of(setting.student.activation, setting.teacher)


def warn_of(activation: Activation, target: SparseTarget) -> str | None:
    """The same for a student with this activation and no biases."""
    lost, reason = unreachable_terms(activation, target)
    if not lost:
        return None
    names = ", ".join(term_name(mask, target.variables) for mask in lost[:6]) + (" ..." if len(lost) > 6 else "")
    floor = 0.5 * sum(target.terms[mask] ** 2 for mask in lost)
    words = (
        f"A student with activation {activation!r} can never represent {names}: {reason}. Its risk stays at or "
        f"above {floor:.4g} plus noise. Use a shifted activation such as shifted(tanh, 0.5)."
    )
    caution(words, RepresentationWarning)
    return words
