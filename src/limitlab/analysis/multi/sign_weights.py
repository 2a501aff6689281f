r"""Two signs with weights +-1: where units differ, where all is known in principle, and where message passing knows it.

.. math:: M = M_w(\alpha E[g g^T](M)), \qquad f(I) = \alpha E \log P(y|z) - 2 \log 2

Fixed points are followed along an entry of M, which alpha is solved for: nothing slows down where they end. Alike units
(all entries lam) lose stability where a push along (1, -1) grows by 1; from there M_11 > M_12, and where the largest
alpha of that branch is passed, message passing goes on to M = I. M = I has the larger free entropy earlier.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from limitlab.errors import ConvergenceError
from limitlab.macro.multi.branches import Model, free_entropy
from limitlab.macro.multi.information import field_law
from limitlab.problems.links import AbstractLink

__all__ = ["SignWeights", "sign_weights_thresholds"]

EDGES = (0.05, 0.47)  # of the overlap of alike units: half of it is all that is known of their sum
PUSH = 1e-4
GRID = np.linspace(0.02, 0.98, 49)  # of M_11 beyond that of alike units, in units of what is left
LONGEST = 1000.0  # ratio that is looked at
ALIKE, APART = np.ones((2, 2)), np.array([[1.0, -1.0], [-1.0, 1.0]]) / 2


class SignWeights(NamedTuple):
    """Ratios: units differ in message passing, M = I has the largest free entropy, message passing reaches it."""

    specialisation: float
    information: float
    perfect: float


@functools.lru_cache(maxsize=32)
def sign_weights_thresholds(link: AbstractLink) -> SignWeights:
    """Of a link of two fields that is the same when they change places, and tells their sum."""
    from scipy.optimize import brentq, fsolve, minimize_scalar

    model = Model(field_law(link, 2, 0.0), gaussian=False)

    def ratio(lam) -> float:
        """The alpha at which alike units have the overlap lam."""
        told = model.told(lam * ALIKE)
        at: Any = brentq(lambda alpha: model.answer(alpha * told)[0, 0] - lam, 1e-6, LONGEST, xtol=1e-12)
        return float(at)

    def growth(lam):
        alpha, M = ratio(lam), lam * ALIKE
        slopes = [np.sum(APART * (model.step(alpha, M + s * PUSH * APART) - M)) / (s * PUSH) for s in (1, 2)]
        return 2 * slopes[0] - slopes[1]

    def lead(lam):
        alpha = ratio(lam)
        return free_entropy(model, alpha, lam * ALIKE) - free_entropy(model, alpha, np.eye(2))

    first: Any = brentq(lambda lam: growth(lam) - 1, *EDGES, xtol=1e-9)
    possible: Any = brentq(lead, *EDGES, xtol=1e-9)
    last = np.array([ratio(first), first])  # alpha and M_12 of the branch, as far as it was followed

    def beside(a, guess) -> np.ndarray:
        """alpha and M_12 of the fixed point whose M_11 is a."""

        def off(x):
            M = np.array([[a, x[1]], [x[1], a]])
            return (model.step(x[0], M) - M)[0]

        solved: Any = fsolve(off, guess, full_output=True, xtol=1e-11)
        if solved[2] != 1:
            raise ConvergenceError(f"The branch of different units of {link!r} ends at an overlap of {a:.3g}.")
        return np.asarray(solved[0])

    tops, path = first + (1 - first) * GRID, []
    for a in tops:
        last = beside(a, last)
        path.append(last)
        if len(path) > 1 and path[-1][0] < path[-2][0]:
            break
    if path[-1][0] >= max(x[0] for x in path):
        raise ConvergenceError(f"The branch of different units of {link!r} has no end below M_11 = {tops[-1]:.3g}.")
    k = len(path) - 2
    low, high = tops[max(k - 1, 0)], tops[k + 1]
    top: Any = minimize_scalar(
        lambda a: -beside(a, path[k])[0], bounds=(low, high), method="bounded", options={"xatol": 1e-6}
    )
    return SignWeights(ratio(first), ratio(possible), -float(top.fun))
