r"""The moments of `field_sums` for error functions, of many problems side by side.

With :math:`v_A = 1 + \Omega_{AA}` and all of :math:`\sigma = \mathrm{erf}(x/\sqrt2)`:

.. math::
    E[\sigma_A \sigma_B] &= \tfrac2\pi \arcsin\frac{\Omega_{AB}}{\sqrt{v_A v_B}}, \qquad
    E[\sigma'_i\, s_B\, \sigma_C] = \frac2\pi
        \frac{\Omega_{BC} - \Omega_{iB} \Omega_{iC}/v_i}{\sqrt{v_i v_C - \Omega_{iC}^2}} \\
    E[\sigma'_i \sigma'_j \sigma_C \sigma_D] &= \frac{4}{\pi^2 \sqrt{D_{ij}}} \arcsin\frac{S_{CD}}{\sqrt{u_C u_D}},
    \qquad D_{ij} = v_i v_j - \Omega_{ij}^2

where S and u are what is left of Omega and v once the (blurred) fields i and j are known to be zero. The same numbers
as `ClosedSum`, several times faster: what depends on (i, j) is made once for all (C, D), and problems lie along the
last axis, where the processor takes several at once.
"""

from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.fields import FieldMoments

__all__ = ["arcsine", "erf_moments"]

# FDLIBM: asin x = x + x z N(z)/D(z), z = x^2 <= 1/4, highest power first.
NUMERATOR = (
    3.47933107596021167570e-05,
    7.91534994289814532176e-04,
    -4.00555345006794114027e-02,
    2.01212532134862925881e-01,
    -3.25565818622400915405e-01,
    1.66666666666666657415e-01,
)
DENOMINATOR = (
    7.70381505559019352791e-02,
    -6.88283971605453293030e-01,
    2.02094576023350569471e00,
    -2.40339491173441421878e00,
    1.0,
)


def arcsine(x: jax.Array) -> jax.Array:
    """asin to rounding, of x cut to [-1, 1]. `jnp.arcsin` asks the C library for one number at a time."""
    size = jnp.minimum(jnp.abs(x), 1.0)
    large = size > 0.5  # asin x = pi/2 - 2 asin sqrt((1 - x)/2)
    z = jnp.where(large, (1 - size) / 2, size * size)
    root = jnp.where(large, jnp.sqrt(z), size)
    value = root + root * z * (_horner(NUMERATOR, z) / _horner(DENOMINATOR, z))
    value = jnp.where(large, np.pi / 2 - 2 * value, value)
    return jnp.where(x < 0, -value, value)


def _horner(coefficients: tuple[float, ...], z: jax.Array) -> jax.Array:
    total = jnp.full_like(z, coefficients[0])
    for c in coefficients[1:]:
        total = total * z + c
    return total


def erf_moments(Omega: jax.Array, c: jax.Array, noise: jax.Array, p: int) -> FieldMoments:
    """I (n, lanes), L (p, n, lanes) and V (p, p, lanes) from Omega (n, n, lanes), c (n, lanes) and noise (lanes,)."""
    n, moving = Omega.shape[0], Omega[:p]
    v = 1 + jnp.stack([Omega[A, A] for A in range(n)])
    scale = 1 / jnp.sqrt(v)
    pairs = arcsine(Omega * scale[:, None] * scale[None, :])
    weight = c[None] / jnp.sqrt(v[:p, None] * v[None, :] - moving * moving)  # (p, C)
    values = sum((pairs[:, C] * c[C] for C in range(n)), start=jnp.zeros(()))
    along = sum(weight[:, None, C] * Omega[None, :, C] for C in range(n))  # (p, B)
    on_itself = sum(weight[:, C] * moving[:, C] for C in range(n))
    slopes = along - moving * (on_itself / v[:p])[:, None]
    pair = {ij: m for m, ij in enumerate(combinations_with_replacement(range(p), 2))}
    upper = _four_fields(Omega, v, c, noise, list(pair))
    V = [jnp.stack([upper[pair[min(i, j), max(i, j)]] for j in range(p)]) for i in range(p)]
    return FieldMoments(2 / np.pi * values, 2 / np.pi * slopes, jnp.stack(V))


def _four_fields(Omega: jax.Array, v: jax.Array, c: jax.Array, noise: jax.Array, pairs: list) -> jax.Array:
    """V for every pair (i, j). Rows are picked one by one: a gather would take number after number."""

    def picked(x: jax.Array, side: int) -> jax.Array:
        return jnp.stack([x[pair[side]] for pair in pairs])

    n, first, second = len(v), picked(Omega, 0), picked(Omega, 1)  # (ij, C)
    one, two, both = picked(v, 0), picked(v, 1), jnp.stack([Omega[pair] for pair in pairs])
    determinant = one * two - both * both
    # (alpha, beta) are the regression coefficients of every field on the blurred fields i and j.
    alpha = (two[:, None] * first - both[:, None] * second) / determinant[:, None]
    beta = (one[:, None] * second - both[:, None] * first) / determinant[:, None]
    scale = 1 / jnp.sqrt(v[None] - alpha * first - beta * second)
    alpha, beta, first, second = alpha * scale, beta * scale, first * scale, second * scale
    total = jnp.zeros_like(determinant)
    for C in range(n):
        rho = Omega[C, C:][None] * scale[:, C, None] * scale[:, C:]
        rho = rho - alpha[:, C, None] * first[:, C:] - beta[:, C, None] * second[:, C:]
        angle = arcsine(rho)
        total = total + c[C] * c[C] * angle[:, 0] + sum(2 * c[C] * c[D] * angle[:, D - C] for D in range(C + 1, n))
    return (4 / np.pi**2 * total + 2 / np.pi * noise) / jnp.sqrt(determinant)
