r"""Probabilities of the sign patterns of one, two or three normal fields, with their derivatives in the mean.

.. math:: \Phi_2(h, k; r) = \Phi(h) \Phi(k) + \frac{1}{2\pi} \int_0^{\arcsin r}
          e^{-(h^2 + k^2 - 2hk \sin\theta) / (2 \cos^2\theta)}\, d\theta

The integral is the same for all quadrants but for its sign, so one of them serves all four. With 48 Gauss-Legendre
nodes it is right to rounding for |r| <= 0.99; fewer do for smaller ones. Three fields are two of them given the third,
and an integral over that one.
"""

import itertools
from typing import Any, NamedTuple

import jax
import numpy as np

__all__ = ["SIGNS", "Sectors", "sectors"]

NODES = ((0.3, 12), (0.6, 16), (0.85, 24), (1.0, 48))  # by the size of r
SIGNS = {K: np.array(list(itertools.product([1.0, -1.0], repeat=K))) for K in (1, 2, 3)}
REACH = 6.5  # standard deviations of the third field
HALF = 18  # nodes of it on either side of 0
FEW = 16  # nodes of the integral above, where the third field is averaged


class Sectors(NamedTuple):
    """Probabilities (..., S) of the sign patterns of z ~ N(w, V), gradients (..., S, K), Hessians (..., S, K, K)."""

    p: Any
    dp: Any
    ddp: Any = None


def sectors(w: Any, V: Any, xp: Any, nodes: int | None = None, curved: bool = True) -> Sectors:
    """The sign patterns `SIGNS` of K fields with means w (..., K) and covariance V (K, K); for K = 3 no Hessians.

    ``nodes`` of the integral are found by r, unless V is traced; without ``curved`` there are no Hessians.
    """
    if w.shape[-1] == 3:
        return _space(w, V, xp)
    return _line(w, V, xp) if w.shape[-1] == 1 else _plane(w, V, xp, nodes, curved)


def _line(w, V, xp):
    sd = xp.sqrt(V[0, 0])
    h, sign = w / sd, xp.asarray(SIGNS[1][:, 0])
    dp = sign * _phi(h, xp) / sd
    return Sectors(_ndtr(sign * h, xp), dp[..., None], (-h * dp / sd)[..., None, None])


def _plane(w, V, xp, nodes, curved=True):
    sd = xp.sqrt(xp.stack([V[0, 0], V[1, 1]]))
    h, k = w[..., 0] / sd[0], w[..., 1] / sd[1]
    r = V[0, 1] / (sd[0] * sd[1])
    c = xp.sqrt(1 - r * r)
    if nodes is None:
        nodes = next(count for size, count in NODES if abs(r) <= size)
    x, dx = np.polynomial.legendre.leggauss(nodes)
    end = xp.arcsin(r)
    theta = end * (x + 1) / 2
    half = 0.5 / xp.cos(theta) ** 2
    power = -(h * h + k * k)[..., None] * half + (h * k)[..., None] * (2 * xp.sin(theta) * half)
    shared = xp.exp(power) @ (dx * end / (4 * np.pi))
    s, t = SIGNS[2].T
    p = _ndtr(s * h[..., None], xp) * _ndtr(t * k[..., None], xp) + s * t * shared[..., None]
    d1 = s * _phi(h, xp)[..., None] * _ndtr(t * ((k - r * h) / c)[..., None], xp)
    d2 = t * _phi(k, xp)[..., None] * _ndtr(s * ((h - r * k) / c)[..., None], xp)
    dp = xp.stack([d1 / sd[0], d2 / sd[1]], -1)
    if not curved:
        return Sectors(p, dp)
    j = s * t * (_phi(h, xp) * _phi((k - r * h) / c, xp) / c)[..., None]
    one = (-h[..., None] * d1 - r * j) / V[0, 0]
    two = (-k[..., None] * d2 - r * j) / V[1, 1]
    mixed = j / (sd[0] * sd[1])
    ddp = xp.stack([xp.stack([one, mixed], -1), xp.stack([mixed, two], -1)], -1)
    return Sectors(p, dp, ddp)


def _space(w, V, xp):
    sd = xp.sqrt(V[2, 2])
    beta = V[:2, 2] / V[2, 2]
    C = V[:2, :2] - beta[:, None] * V[:2, 2]
    x, dx = np.polynomial.legendre.leggauss(HALF)
    cut = xp.clip(-w[..., 2] / sd, -REACH, REACH)[..., None]
    p, dp = [], []
    for low, high in ((cut, REACH), (-REACH, cut)):
        at = low + (high - low) * (x + 1) / 2
        weight = _phi(at, xp) * dx * (high - low) / 2
        both = _plane(w[..., None, :2] + sd * at[..., None] * beta, C, xp, None if xp is np else FEW, curved=False)
        p.append(xp.einsum("...j,...js->...s", weight, both.p))
        flat = xp.einsum("...j,...jsk->...sk", weight, both.dp)
        third = xp.einsum("...j,...js->...s", weight * at, both.p) / sd - flat @ beta
        dp.append(xp.concatenate([flat, third[..., None]], -1))
    p, dp = xp.stack(p, -1), xp.stack(dp, -2)
    return Sectors(p.reshape(*p.shape[:-2], 8), dp.reshape(*dp.shape[:-3], 8, 3))


def _phi(x: Any, xp: Any) -> Any:
    return xp.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _ndtr(x: Any, xp: Any) -> Any:
    if xp is np:
        from scipy.special import ndtr

        return ndtr(x)
    return jax.scipy.special.ndtr(x)
