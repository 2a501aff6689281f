r"""Smoothing of a scalar function by a Gaussian: :math:`\sigma_s(m) = E\,\sigma(m + sG)`, with its derivatives.

Closed forms for error functions, polynomials and piecewise linear functions; the trapezoid rule for the rest. For
functions with poles it beats Gauss-Hermite: with step H on :math:`|G| \le 8.5` and poles at distance delta from the
real axis the error is about :math:`e^{-2\pi\delta/(sH)}`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import Module, field
from limitlab.numerics.gauss import normal
from limitlab.numerics.gauss.rules import normal_weights

__all__ = [
    "AbstractSmoother",
    "ErfSmoother",
    "LogisticSmoother",
    "PiecewiseSmoother",
    "PolynomialSmoother",
    "Smoothed",
    "TrapezoidSmoother",
    "logistic_nodes",
    "logistic_width",
]

REACH = 8.5
DIGITS = 32.0  # minus log of the tolerance of the trapezoid rule
LEAST = 33  # nodes
TINY = 1e-150


class Smoothed(NamedTuple):
    r""":math:`\sigma_s(m)`, :math:`\partial_m \sigma_s`, and the pull on s: :math:`E\sigma'' = \partial_s\sigma_s/s`
    for a smooth function, :math:`\partial_s \sigma_s` for one with kinks."""

    value: jax.Array
    slope: jax.Array
    pull: jax.Array


class AbstractSmoother(Module):
    """A function that can be averaged over a Gaussian; ``kinked`` says which pull it has."""

    kinked: ClassVar[bool]

    @abstractmethod
    def __call__(self, m: jax.Array, s: jax.Array) -> Smoothed:
        """At m, with widths s >= 0 that broadcast against it."""

    @abstractmethod
    def energy(self, m: jax.Array, s: jax.Array) -> jax.Array:
        r""":math:`E\,\sigma'(m + sG)^2`."""

    def widest(self) -> float:
        """The largest s that is still accurate."""
        return math.inf


class ErfSmoother(AbstractSmoother):
    r""":math:`\mathrm{erf}((x + by)/\sqrt2)`: with :math:`v^2 = 1 + s^2` it is :math:`2\Phi((m + by)/v) - 1`."""

    by: float = field(static=True, default=0.0)
    kinked: ClassVar[bool] = False

    def __call__(self, m, s):
        v = jnp.sqrt(1 + jnp.square(s))
        x = (m + self.by) / v
        slope = 2 * normal.density(x) / v
        return Smoothed(jax.scipy.special.erf(x / math.sqrt(2)), slope, -slope * x / v)

    def energy(self, m, s):
        w = 1 + 2 * jnp.square(s)
        return 2 / math.pi / jnp.sqrt(w) * jnp.exp(-jnp.square(m + self.by) / w)


class PolynomialSmoother(AbstractSmoother):
    r""":math:`E\,p(m + sG) = \sum_j p^{(2j)}(m)\, s^{2j}/(2^j j!)`, coefficients lowest first."""

    power: tuple[float, ...] = field(static=True)
    kinked: ClassVar[bool] = False

    def __call__(self, m, s):
        first = np.polynomial.polynomial.polyder(self.power)
        second = np.polynomial.polynomial.polyder(first)
        return Smoothed(*(_smooth_polynomial(p, m, s) for p in (np.asarray(self.power), first, second)))

    def energy(self, m, s):
        slope = np.polynomial.polynomial.polyder(self.power)
        return _smooth_polynomial(np.polynomial.polynomial.polymul(slope, slope), m, s)


def _smooth_polynomial(power, m, s):
    total, factor, j = jnp.zeros(jnp.broadcast_shapes(jnp.shape(m), jnp.shape(s))), 1.0, 0
    while len(power) and np.any(power):
        total = total + factor * jnp.polyval(jnp.asarray(power[::-1]), m)
        j += 1
        factor = factor * jnp.square(s) / (2 * j)
        power = np.polynomial.polynomial.polyder(power, 2)
    return total


class PiecewiseSmoother(AbstractSmoother):
    r""":math:`c_0 + c_1 x + \sum_i g_i (x - t_i)_+`, each kink smoothed to
    :math:`(m - t)\Phi((m - t)/s) + s\,\phi((m - t)/s)`."""

    level: float = field(static=True)
    tilt: float = field(static=True)
    bends: tuple[float, ...] = field(static=True)
    places: tuple[float, ...] = field(static=True)
    kinked: ClassVar[bool] = True

    def __call__(self, m, s):
        width = jnp.maximum(s, TINY)
        value, slope, pull = self.level + self.tilt * m + 0 * width, self.tilt + 0 * (m + width), 0 * (m + width)
        for bend, place in zip(self.bends, self.places, strict=True):
            x = (m - place) / width
            below, density = normal.ndtr(x), normal.density(x)
            value = value + bend * ((m - place) * below + width * density)
            slope, pull = slope + bend * below, pull + bend * density
        return Smoothed(value, slope, pull)

    def energy(self, m, s):
        width, slope = jnp.maximum(s, TINY), self.tilt
        total = self.tilt**2 + 0 * (m + width)
        for bend, place in zip(self.bends, self.places, strict=True):
            after = slope + bend
            total = total + (after**2 - slope**2) * normal.ndtr((m - place) / width)
            slope = after
        return total


def _rule(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    G = np.linspace(-REACH, REACH, nodes)
    return G, normal_weights(G)


def _sums(shape, terms: Callable, nodes) -> tuple[jax.Array, ...]:
    """Sum over nodes one by one, so that no array has the nodes as an axis."""
    zero = jnp.zeros(shape)
    count = len(jax.eval_shape(lambda: terms(jax.tree.map(lambda x: x[0], nodes))))

    def add(total, node):
        return tuple(t + f for t, f in zip(total, terms(node), strict=True)), None

    return jax.lax.scan(add, (zero,) * count, nodes, unroll=2)[0]


class LogisticSmoother(AbstractSmoother):
    r""":math:`c + A/(1 + e^{-k(x + by)})`: sigmoid (c, A, k = 0, 1, 1) and tanh (-1, 2, 2), by the trapezoid rule.

    :math:`e^{-k(m + sG)}` is a product of two exponentials, so that a node costs a division and no exponential. The
    poles are at a distance pi/k from the real axis.
    """

    level: float = field(static=True)
    height: float = field(static=True)
    steepness: float = field(static=True)
    by: float = field(static=True, default=0.0)
    nodes: int = field(static=True, default=64)
    kinked: ClassVar[bool] = False

    def widest(self) -> float:
        return logistic_width(self.steepness, self.nodes)

    def _averages(self, m, s, terms):
        k = self.steepness
        G, weights = map(jnp.asarray, _rule(self.nodes))
        far = jnp.exp(jnp.clip(-k * (m + self.by), -600.0, 600.0))
        near = jnp.exp(-k * s * G.reshape(-1, *[1] * max(jnp.ndim(m), jnp.ndim(s))))
        shape = jnp.broadcast_shapes(jnp.shape(m), jnp.shape(s))
        return _sums(shape, lambda node: terms(1 / (1 + far * node[0]), node[1]), (near, weights))

    def __call__(self, m, s):
        def terms(q, weight):
            slope = weight * q * (1 - q)
            return weight * q, slope, slope * (1 - 2 * q)

        k, height = self.steepness, self.height
        value, slope, curvature = self._averages(m, s, terms)
        return Smoothed(self.level + height * value, height * k * slope, height * k**2 * curvature)

    def energy(self, m, s):
        factor = (self.height * self.steepness) ** 2
        return factor * self._averages(m, s, lambda q, weight: (weight * jnp.square(q * (1 - q)),))[0]


def logistic_width(steepness: float, nodes: int) -> float:
    """The largest s at which so many nodes give 14 digits: step H <= 2 pi (pi/k)/(s log(1e14))."""
    return 2 * math.pi**2 / steepness / (2 * REACH / (nodes - 1) * DIGITS)


def logistic_nodes(steepness: float, widest: float) -> int:
    """Nodes for widths up to ``widest``; at least those that the Gaussian itself needs."""
    return max(LEAST, 1 + math.ceil(2 * REACH * widest * DIGITS * steepness / (2 * math.pi**2)))


class TrapezoidSmoother(AbstractSmoother):
    """Any function of one number, by the trapezoid rule and automatic derivatives; accurate for smooth ones."""

    function: Callable = field(static=True)
    by: float = field(static=True, default=0.0)
    nodes: int = field(static=True, default=401)
    kinked: ClassVar[bool] = False

    def _averages(self, m, s, functions):
        shape = jnp.broadcast_shapes(jnp.shape(m), jnp.shape(s))

        def terms(node):
            x = jnp.ravel(jnp.broadcast_to(m + s * node[0] + self.by, shape))
            return tuple(node[1] * jax.vmap(f)(x).reshape(shape) for f in functions)

        return _sums(shape, terms, tuple(map(jnp.asarray, _rule(self.nodes))))

    def __call__(self, m, s):
        first = jax.grad(self.function)
        return Smoothed(*self._averages(m, s, (self.function, first, jax.grad(first))))

    def energy(self, m, s):
        first = jax.grad(self.function)
        return self._averages(m, s, (lambda x: jnp.square(first(x)),))[0]
