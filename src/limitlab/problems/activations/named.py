r"""Activations without arguments. "erf" is :math:`\mathrm{erf}(x/\sqrt2)`."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.gauss.normal import erf
from limitlab.numerics.gauss.smoothing import ErfSmoother, LogisticSmoother, logistic_nodes
from limitlab.numerics.gauss.terms import Term, logistic_mixture
from limitlab.problems.activations.base import AbstractActivation, Pieces

__all__ = ["Abs", "AbstractNamed", "Erf", "Relu", "Sigmoid", "Sign", "Tanh"]


def _mixture(scale: float) -> Term:
    weights, widths = zip(*logistic_mixture(), strict=True)
    return Term(weights, 0, "sign", tuple(scale * w for w in widths))


class AbstractNamed(AbstractActivation):
    """A function known by a word, with its exact terms."""

    word: ClassVar[str]
    exact: ClassVar[tuple[Term, ...]]

    @property
    def name(self):
        return self.word

    @property
    def terms(self):
        return self.exact


class Erf(AbstractNamed):
    r""":math:`\mathrm{erf}(x/\sqrt2)`."""

    word: ClassVar[str] = "erf"
    exact: ClassVar[tuple[Term, ...]] = (Term(1.0, 0, "sign", 1.0),)

    def function(self, x):
        return erf(x / jnp.sqrt(2.0), jnp)

    def derivative(self, x):
        return jnp.sqrt(2 / jnp.pi) * jnp.exp(-(x**2) / 2)

    def pieces(self):
        return None

    def smoothed(self, by, widest):
        return ErfSmoother(by)


class Relu(AbstractNamed):
    r""":math:`\max(x, 0)`."""

    word: ClassVar[str] = "relu"
    exact: ClassVar[tuple[Term, ...]] = (Term(0.5, 1), Term(0.5, 1, "sign"))

    def function(self, x):
        return jnp.maximum(x, 0.0)

    def derivative(self, x):
        return jnp.where(x > 0, 1.0, 0.0)

    def pieces(self):
        return Pieces(np.asarray(0.0), np.asarray(0.0), np.zeros(1), np.ones(1))


class Abs(AbstractNamed):
    r""":math:`|x|`."""

    word: ClassVar[str] = "abs"
    exact: ClassVar[tuple[Term, ...]] = (Term(1.0, 1, "sign"),)

    def function(self, x):
        return jnp.abs(x)

    def derivative(self, x):
        return jnp.sign(x)

    def pieces(self):
        return Pieces(np.asarray(0.0), np.asarray(-1.0), np.zeros(1), np.full(1, 2.0))


class Sign(AbstractNamed):
    r""":math:`\mathrm{sign}(x)`."""

    word: ClassVar[str] = "sign"
    exact: ClassVar[tuple[Term, ...]] = (Term(1.0, 0, "sign"),)

    def function(self, x):
        return jnp.sign(x)

    def derivative(self, x):
        return jnp.zeros_like(x)

    def pieces(self):
        return None


class Tanh(AbstractNamed):
    r""":math:`\tanh x = 2\,\mathrm{sigmoid}(2x) - 1 = E\,\mathrm{sign}(x + \tau\xi)` over a mixture of widths tau."""

    word: ClassVar[str] = "tanh"
    reference: ClassVar[tuple[str, ...]] = ("stefanski1991normal",)  # moments as those of mixtures of erf
    exact: ClassVar[tuple[Term, ...]] = (_mixture(0.5),)

    def function(self, x):
        return jnp.tanh(x)

    def derivative(self, x):
        return 1 - jnp.tanh(x) ** 2

    def pieces(self):
        return None

    def smoothed(self, by, widest):
        return LogisticSmoother(-1.0, 2.0, 2.0, by, logistic_nodes(2.0, widest))


class Sigmoid(AbstractNamed):
    r""":math:`1/(1 + e^{-x}) = (1 + E\,\mathrm{sign}(x + \tau\xi))/2` over a mixture of widths tau."""

    word: ClassVar[str] = "sigmoid"
    reference: ClassVar[tuple[str, ...]] = ("stefanski1991normal",)  # moments as those of mixtures of erf
    exact: ClassVar[tuple[Term, ...]] = (Term(0.5), _mixture(1.0).scaled(0.5))

    def function(self, x):
        return jax.nn.sigmoid(x)

    def derivative(self, x):
        return jax.nn.sigmoid(x) * jax.nn.sigmoid(-x)

    def pieces(self):
        return None

    def smoothed(self, by, widest):
        return LogisticSmoother(0.0, 1.0, 1.0, by, logistic_nodes(1.0, widest))
