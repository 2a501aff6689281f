"""Random laws that JAX does not have, or not fast enough inside a compiled loop."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["chi_square", "normal", "wishart"]

ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0; with 52 more behind them a number in [1, 2)
RADIUS, ANGLE = 40, 24  # bits of 64 that the two polar coordinates get
ROOT_HALF = np.int64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
WHOLE = np.int64(0x4338000000000000)  # the bits of 3 * 2**51: a whole number added to them is one added to it


def normal(key: jax.Array, shape: tuple[int, ...] = (), dtype: Any = float) -> jax.Array:
    r"""Standard normal numbers, as `jax.random.normal` has them, in less than a third of its time.

    Box and Muller's pairs :math:`\sqrt{-2\log u}\,(\sin, \cos)(2\pi v)`. The generator costs most, so a pair takes
    64 random bits: 40 for u and 24 for v, both in the middle of their cells. Angles that are evenly spaced have the
    moments of the circle, and u cuts the law off at 7.5, which one number in 10^13 exceeds. Logarithm and sine are
    polynomials accurate to rounding, without branches, so that they run in vector registers.

    The first half of the numbers are the sines and the second half the cosines of the same radii.
    """
    return _normal(key, tuple(shape), np.dtype(dtype))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _normal(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    size = math.prod(shape)
    bits = jax.random.bits(key, ((size + 1) // 2,), jnp.uint64)
    u = (2.0 - _in_one_to_two(bits >> np.uint64(ANGLE), RADIUS)) - 0.5**RADIUS / 2
    half_turns = 2 * _in_one_to_two(bits & np.uint64(2**ANGLE - 1), ANGLE) - (3.0 - 0.5**ANGLE)  # from -1 to 1
    radius, half_turns = jax.lax.optimization_barrier((jnp.sqrt(-2 * _log(u)), half_turns))
    folded = jnp.where(jnp.abs(half_turns) > 0.5, jnp.copysign(1.0, half_turns) - half_turns, half_turns)
    sines = [radius * _sine(x) for x in (folded, 0.5 - jnp.abs(half_turns))]
    return jnp.concatenate(sines)[:size].reshape(shape).astype(dtype)


def _in_one_to_two(bits: jax.Array, count: int) -> jax.Array:
    """1 + bits / 2**count."""
    return jax.lax.bitcast_convert_type((bits << np.uint64(52 - count)) | ONE, jnp.float64)


def _log(u: jax.Array) -> jax.Array:
    """log u of positive normal numbers: u = 2**e m, 1/2 <= m**2 < 2, log m = 2 artanh((m - 1)/(m + 1))."""
    bits = jax.lax.bitcast_convert_type(u, jnp.int64)
    e = (bits - ROOT_HALF) >> np.int64(52)
    m = jax.lax.bitcast_convert_type(bits - (e << np.int64(52)), jnp.float64)
    power = jax.lax.bitcast_convert_type(e + WHOLE, jnp.float64) - 3 * 2.0**51
    s = (m - 1) / (m + 1)
    return power * math.log(2.0) + s * _polynomial([2 / k for k in range(1, 20, 2)], s * s)


def _sine(x: jax.Array) -> jax.Array:
    """sin(pi x), |x| <= 1/2."""
    y = math.pi * x
    return y * _polynomial([(-1) ** k / math.factorial(2 * k + 1) for k in range(10)], y * y)


def _polynomial(coefficients: list[float], x: jax.Array) -> jax.Array:
    total = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def chi_square(key: jax.Array, degrees, shape: tuple[int, ...] = ()) -> jax.Array:
    r"""Exact draws of :math:`\chi^2_n`, n = ``degrees`` >= 0 (a traced number or array is allowed; 0 gives 0).

    Marsaglia and Tsang's squeeze for the gamma law of shape n/2, all lanes at once until every lane has accepted;
    a lane is accepted with probability above 0.95, so one or two rounds are enough. Shapes below one are drawn at
    shape + 1 and multiplied by u**(1/shape).
    """
    a = jnp.broadcast_to(jnp.asarray(degrees, float) / 2, shape)
    positive = a > 0
    safe = jnp.where(positive, a, 1.0)
    boosted = jnp.where(safe < 1, safe + 1, safe)
    scale = boosted - 1 / 3
    c = 1 / jnp.sqrt(9 * scale)

    def attempt(key):
        key_x, key_u = jax.random.split(key)
        x = normal(key_x, shape)
        v = (1 + c * x) ** 3
        log_u = jnp.log1p(-jax.random.uniform(key_u, shape))
        inside = jnp.where(v > 0, v, 1.0)
        accept = (v > 0) & (log_u < x**2 / 2 + scale * (1 - inside + jnp.log(inside)))
        return accept, scale * inside

    def body(state):
        key, done, value = state
        key, use = jax.random.split(key)
        accept, proposal = attempt(use)
        return key, done | accept, jnp.where(done, value, proposal)

    key, key_boost = jax.random.split(key)
    start = (key, jnp.zeros(shape, bool), jnp.zeros(shape))
    value = jax.lax.while_loop(lambda s: ~jnp.all(s[1]), body, start)[2]
    boost = jnp.exp(jnp.log1p(-jax.random.uniform(key_boost, shape)) / safe)
    return jnp.where(positive, 2 * value * jnp.where(safe < 1, boost, 1.0), 0.0)


def wishart(key: jax.Array, p: int, degrees) -> jax.Array:
    r"""One draw of G G^T, G of shape (p, n) with standard normal entries, n = ``degrees`` (any real n >= p - 1).

    Bartlett's factor: a triangular matrix with normal entries below and chi variables of n, n-1, ... degrees on
    the diagonal, so that the cost does not depend on n. For a whole n < p the later diagonal entries are zero
    and the rank is n, as it must be.
    """
    key_n, key_c = jax.random.split(key)
    left = jnp.maximum(degrees - jnp.arange(p), 0.0)
    diagonal = jnp.sqrt(chi_square(key_c, left, (p,)))
    below = jnp.tril(normal(key_n, (p, p)), -1)
    # Columns beyond the degrees of freedom are absent when n < p.
    below = jnp.where(jnp.arange(p)[None, :] < degrees, below, 0.0)
    L = below + jnp.diag(diagonal)
    return L @ L.T
