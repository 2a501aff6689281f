r"""Smoothing of a scalar function by one coordinate of a random direction.

.. math:: \sigma_s(m) = E\,\sigma(m + s\,G_d), \qquad G_d = \sqrt d\,\omega_1, \quad |\omega| = 1 \text{ at random}

:math:`G_d` has variance 1 and tends to a Gaussian: these are the smoothers of `numerics.gauss.smoothing` at finite
d.
With :math:`z = (t - m)/s`, a kink at t needs

.. math::
    P(G_d > z) = \tfrac12 I_{1 - z^2/d}(\tfrac{d-1}2, \tfrac12), \qquad
    E[G_d; G_d > z] = \frac{\sqrt d\, c_d}{d - 1} (1 - z^2/d)_+^{(d-1)/2}, \qquad
    c_d = \frac{\Gamma(d/2)}{\sqrt\pi\,\Gamma((d-1)/2)} .
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import field
from limitlab.numerics.gauss.rules import direction_rule
from limitlab.numerics.gauss.smoothing import REACH, AbstractSmoother, PiecewiseSmoother, Smoothed

__all__ = ["DirectionSmoother", "SpherePiecewise"]

CELLS = 512  # of the table of tail probabilities
TINY = 1e-150
FAR = 9.0  # standard deviations


def _log_c(d: int) -> float:
    """log c_d; by Stirling's series for large d, where the difference of two log-gammas has lost its digits."""
    a = (d - 1) / 2
    if d < 100:
        from scipy.special import gammaln

        return float(gammaln(a + 0.5) - gammaln(a) - 0.5 * math.log(math.pi))
    return 0.5 * math.log(a / math.pi) - 1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5)


@cache
def _tail_table(d: int) -> tuple[float, float, np.ndarray]:
    r"""P(G_d > z) as quintic pieces in the latitude :math:`\sin\psi = z/\sqrt d`, in which it is smooth up to the pole.

    The pieces run from the highest latitude that matters down to the equator."""
    from scipy.special import betainc

    top = math.asin(min(1.0, FAR / math.sqrt(d)))
    psi = np.linspace(top, 0.0, CELLS + 1)
    h = top / CELLS
    sine = np.sin(psi)
    log_cosine = np.where(sine < 1, 0.5 * np.log1p(-np.minimum(np.square(sine), 1 - 1e-16)), -1e3)  # -1e3: the pole
    value = 0.5 * (1 - betainc(0.5, (d - 1) / 2, np.minimum(np.square(sine), 1.0)))
    c = math.exp(_log_c(d))
    slope = c * np.exp((d - 2) * log_cosine) * h
    bend = c * (d - 2) * np.exp(max(d - 3, 0) * log_cosine) * sine * h**2
    v0, v1, s0, s1, b0, b1 = value[:-1], value[1:], slope[:-1], slope[1:], bend[:-1], bend[1:]
    gap = v1 - v0
    pieces = [
        v0,
        s0,
        b0 / 2,
        10 * gap - 6 * s0 - 4 * s1 - 1.5 * b0 + 0.5 * b1,
        -15 * gap + 8 * s0 + 7 * s1 + 1.5 * b0 - b1,
        6 * gap - 3 * (s0 + s1) - 0.5 * b0 + 0.5 * b1,
    ]
    return top, h, np.stack(pieces)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _tail(z, d: int):
    top, h, pieces = _tail_table(d)
    x = jnp.clip(jnp.abs(z) / math.sqrt(d), 0.0, 1.0)
    place = jnp.clip((top - jnp.arcsin(x)) / h, 0.0, CELLS)
    cell = jnp.minimum(place.astype(int), CELLS - 1)
    u = place - cell
    c = jnp.asarray(pieces)[:, cell]
    tail = c[0] + u * (c[1] + u * (c[2] + u * (c[3] + u * (c[4] + u * c[5]))))
    return jnp.where(z >= 0, tail, 1 - tail)


@_tail.defjvp
def _tail_slope(d: int, point, direction):
    (z,), (dz,) = point, direction
    density = math.exp(_log_c(d)) / math.sqrt(d) * _cosine_power(z, d, d - 3)
    return _tail(z, d), -density * dz


def _cosine_power(z, d: int, power: int):
    """(1 - z^2/d)^(power/2) on the sphere, 0 beyond it."""
    share = jnp.square(z) / d
    inside = share < 1
    return jnp.where(inside, jnp.exp(power / 2 * jnp.log1p(-jnp.where(inside, share, 0.0))), 0.0)


class SpherePiecewise(AbstractSmoother):
    r""":math:`c_0 + c_1 x + \sum_i g_i (x - t_i)_+` averaged over a direction in d >= 2 dimensions."""

    level: float = field(static=True)
    tilt: float = field(static=True)
    bends: tuple[float, ...] = field(static=True)
    places: tuple[float, ...] = field(static=True)
    d: int = field(static=True)
    kinked: ClassVar[bool] = True

    @classmethod
    def of(cls, gaussian: PiecewiseSmoother, d: int) -> "SpherePiecewise":
        return cls(gaussian.level, gaussian.tilt, gaussian.bends, gaussian.places, d)

    def __call__(self, m, s):
        width = jnp.maximum(s, TINY)
        value, slope, pull = self.level + self.tilt * m + 0 * width, self.tilt + 0 * (m + width), 0 * (m + width)
        factor = math.sqrt(self.d) * math.exp(_log_c(self.d)) / (self.d - 1)
        for bend, place in zip(self.bends, self.places, strict=True):
            z = (place - m) / width
            above = _tail(z, self.d)
            moment = factor * _cosine_power(z, self.d, self.d - 1)
            value = value + bend * (width * moment - (place - m) * above)
            slope, pull = slope + bend * above, pull + bend * moment
        return Smoothed(value, slope, pull)

    def energy(self, m, s):
        width, slope = jnp.maximum(s, TINY), self.tilt
        total = self.tilt**2 + 0 * (m + width)
        for bend, place in zip(self.bends, self.places, strict=True):
            total = total + ((slope + bend) ** 2 - slope**2) * _tail((place - m) / width, self.d)
            slope = slope + bend
        return total


class DirectionSmoother(AbstractSmoother):
    """Any function of one number averaged over a direction, by quadrature; for smooth ones."""

    function: Callable = field(static=True)
    derivative: Callable = field(static=True)
    d: int = field(static=True)
    nodes: int = field(static=True, default=201)
    kinked: ClassVar[bool] = True  # its pull is the derivative in s

    def __call__(self, m, s):
        G, weights = map(jnp.asarray, direction_rule(self.d, self.nodes, REACH))
        shape = jnp.broadcast_shapes(jnp.shape(m), jnp.shape(s))

        def add(total, node):
            g, w = node
            x = jnp.ravel(jnp.broadcast_to(m + s * g, shape))
            y, slope = jax.vmap(self.function)(x), jax.vmap(self.derivative)(x)
            new = (y, slope, g * slope)
            return tuple(t + w * f.reshape(shape) for t, f in zip(total, new, strict=True)), None

        zero = jnp.zeros(shape)
        return Smoothed(*jax.lax.scan(add, (zero, zero, zero), (G, weights))[0])

    def energy(self, m, s):
        G, weights = map(jnp.asarray, direction_rule(self.d, self.nodes, REACH))
        shape = jnp.broadcast_shapes(jnp.shape(m), jnp.shape(s))

        def add(total, node):
            x = jnp.ravel(jnp.broadcast_to(m + s * node[0], shape))
            return total + node[1] * jnp.square(jax.vmap(self.derivative)(x)).reshape(shape), None

        return jax.lax.scan(add, jnp.zeros(shape), (G, weights))[0]
