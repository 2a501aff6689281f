"""Inverse sines and tangents to rounding, of many numbers at once.

`jnp.arcsin` and `jnp.arctan2` ask for one number at a time; these are polynomials, which a processor evaluates for
several numbers at once.
"""

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["angle", "arcsine"]

TINY = 1e-300

# asin x = x + x z S(z), z = x^2 <= 1/4: the Chebyshev series of S, cut where it is below rounding; lowest power first.
SERIES = (
    0.16666666666666669,
    0.07499999999998339,
    0.0446428571465343,
    0.03038194412511564,
    0.02237217346223374,
    0.017352380829522573,
    0.013971385245338298,
    0.011477535289577645,
    0.010333252135023941,
    0.005413700558710844,
    0.017517435597255826,
    -0.015029996633529663,
    0.028876900672912598,
)


@jax.custom_jvp
def arcsine(x: jax.Array) -> jax.Array:
    """asin of x cut to [-1, 1]. Its slope is that of a constant from there on."""
    size = jnp.minimum(jnp.abs(x), 1.0)
    return jnp.copysign(_quarter(size, (1 - size) / 2), x)


@arcsine.defjvp
def _(point, direction):
    (x,), (dx,) = point, direction
    square = (1 - x) * (1 + x)
    inside = square > 0
    return arcsine(x), jnp.where(inside, dx / jnp.sqrt(jnp.where(inside, square, 1.0)), 0.0)


@jax.custom_jvp
def angle(y: jax.Array, x: jax.Array) -> jax.Array:
    """atan2(y, x) for x >= 0; 0 if both are 0."""
    size = jnp.abs(y)
    most = jnp.maximum(jnp.maximum(size, x), TINY)
    sine, cosine = size / most, x / most
    length = jnp.sqrt(sine * sine + cosine * cosine)
    length = jnp.maximum(length, 0.5)  # it is at least 1, unless both are 0
    # (1 - sine)/2 from the cosine, which keeps its digits where the sine is close to one
    rest = cosine * cosine / (2 * length * (length + sine))
    return jnp.copysign(_quarter(sine / length, rest), y)


@angle.defjvp
def _(point, direction):
    (y, x), (dy, dx) = point, direction
    square = jnp.maximum(x * x + y * y, TINY)
    return angle(y, x), (x * dy - y * dx) / square


def _quarter(sine: jax.Array, rest: jax.Array) -> jax.Array:
    """asin of ``sine`` in [0, 1], with ``rest`` = (1 - sine)/2."""
    large = sine > 0.5  # asin x = pi/2 - 2 asin sqrt((1 - x)/2)
    z = jnp.where(large, rest, sine * sine)
    root = jnp.where(large, jnp.sqrt(rest), sine)
    total = jnp.full_like(z, SERIES[-1])
    for c in SERIES[-2::-1]:
        total = total * z + c
    value = root + root * z * total
    return jnp.where(large, np.pi / 2 - 2 * value, value)
