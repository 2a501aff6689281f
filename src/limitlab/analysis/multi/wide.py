r"""The majority of many signs: when its units can be told apart at all.

With alpha = a K, K large, and kap(q) = (2/pi) arcsin q,

.. math:: f/K = a\, \Phi_{sign}(\Gamma(q)) + \tfrac12 [\log(1 - q) + q], \qquad
          \Gamma(q) = \kappa(q) + \kappa'(0) (1 - q),

where Phi_sign is E log Z of one sign at that overlap. q jumps from 0 where another maximum overtakes f(0); message
passing needs alpha of order K^2.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

__all__ = ["WideMajority", "wide_majority"]


class WideMajority(NamedTuple):
    """The ratio a = alpha/K of the transition, and the overlap q that it jumps to."""

    ratio: float
    q: float


@functools.cache
def wide_majority() -> WideMajority:
    from scipy.optimize import brentq, minimize_scalar
    from scipy.special import log_ndtr, ndtr

    u = np.arange(-9.0, 9.0001, 0.01)
    p = np.exp(-(u**2) / 2)
    p = p / p.sum()

    def phi(overlap):
        t = u * np.sqrt(overlap / (1 - overlap))
        return float(p @ (2 * ndtr(t) * log_ndtr(t)))

    def f(q, a):
        overlap = 2 / np.pi * (np.arcsin(q) + 1 - q)
        return a * phi(overlap) + (np.log1p(-q) + q) / 2

    def lead(a):
        best: Any = minimize_scalar(
            lambda q: -f(q, a), bounds=(0.5, 0.9999), method="bounded", options={"xatol": 1e-10}
        )
        return -best.fun - f(0.0, a), best.x

    root: Any = brentq(lambda a: lead(a)[0], 6.0, 9.0, xtol=1e-9)
    ratio = float(root)
    return WideMajority(ratio, float(lead(ratio)[1]))
