"""Polynomials: smoothed in closed form by any Gaussian."""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_integer
from limitlab.numerics.gauss.smoothing import PolynomialSmoother
from limitlab.numerics.gauss.terms import polynomial_terms
from limitlab.problems.activations.base import AbstractActivation

__all__ = ["AbstractPolynomial", "Hermite", "Linear", "Square", "hermite"]


class AbstractPolynomial(AbstractActivation):
    """A polynomial with the coefficients ``power``, lowest first."""

    @property
    @abstractmethod
    def power(self) -> tuple[float, ...]:
        """The coefficients, lowest first."""

    @property
    def terms(self):
        return polynomial_terms(list(self.power))

    def smoothed(self, by, widest):
        moved: Any = np.polynomial.Polynomial(self.power)(np.polynomial.Polynomial([by, 1.0]))
        return PolynomialSmoother(tuple(map(float, moved.coef)))


class Square(AbstractPolynomial):
    """x^2."""

    @property
    def name(self):
        return "square"

    @property
    def power(self):
        return 0.0, 0.0, 1.0

    def function(self, x):
        return x**2

    def derivative(self, x):
        return 2 * x


class Linear(AbstractPolynomial):
    """x."""

    @property
    def name(self):
        return "linear"

    @property
    def power(self):
        return 0.0, 1.0

    def function(self, x):
        return x

    def derivative(self, x):
        return jnp.ones_like(x)


class Hermite(AbstractPolynomial):
    r"""The probabilists' Hermite polynomial :math:`He_k` (leading coefficient one)."""

    k: int = field(static=True)

    @property
    def name(self):
        return f"hermite({self.k})"

    @property
    def power(self):
        return tuple(np.polynomial.hermite_e.herme2poly([0.0] * self.k + [1.0]).tolist())

    def function(self, x):
        return jnp.polyval(jnp.asarray(self.power[::-1]), x)

    def derivative(self, x):
        slope = np.polynomial.polynomial.polyder(self.power) if self.k else np.zeros(1)
        return jnp.polyval(jnp.asarray(slope[::-1]), x)


def hermite(k: int) -> Hermite:
    r"""The probabilists' Hermite polynomial :math:`He_k` (leading coefficient one)."""
    k = check_integer("hermite", "k", k, low=0, remedy="Hermite polynomials have degree 0, 1, 2, ...")
    if k > 12:
        raise InputError(f"hermite.k must be at most 12; got {k}. Higher degrees lose all digits in float64.")
    return Hermite(k)
