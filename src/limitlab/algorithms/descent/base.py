r"""Gradient rules on a fixed data set of n samples.

.. math:: G = \sum_\mu \sigma_\mu \ell'(y_\mu, w \cdot x_\mu)\, x_\mu, \qquad
          w \leftarrow (1 - \eta\lambda)\, w - \eta G + \sqrt{2T\eta}\, N(0, I_d)

with eta = ``learning_rate``, lambda = ``penalty``, masks sigma_mu and a temperature T that depend on the rule; then, if
``spherical``, w is put back on the sphere :math:`|w|^2 = d`. Clock of all: t = learning_rate * step
(over the width of a wide student of squares, see `MatrixFlow`).
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.algorithms.checks import SPHERE, check_rate
from limitlab.errors import InputError
from limitlab.numerics.checks import check_choice, check_number
from limitlab.problems.base import AbstractAlgorithm

__all__ = ["AbstractDescent", "AbstractMaskedDescent", "check_descent_rule", "check_mask", "mask_scale", "uniform"]


def mask_scale(value) -> str:
    return "1" if not isinstance(value, str) and value == 1 else str(value)


def uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """24 bits are enough for a probability, and half the work of a step's masks."""
    return jax.random.uniform(key, shape, jnp.float32)


class AbstractDescent(AbstractAlgorithm):
    """What the rules on a fixed data set share: their masks and their thermal noise."""

    learning_rate: eqx.AbstractVar[float]
    spherical: eqx.AbstractVar[bool]
    penalty: eqx.AbstractVar[float]
    masked: ClassVar[bool] = False
    clock_words: ClassVar[str] = "t = γ·step/m"

    def clock(self, problem, d):
        """Macroscopic time per step, gamma/m for a student of m units."""
        return self.learning_rate / (1 if problem.student is None else problem.student.units)

    def clock_in_words(self, problem):
        return "t = γ·step" if problem.student is None else self.clock_words

    def references(self):
        return (*self.reference, *SPHERE) if self.spherical else self.reference

    def usual_limit(self, problem):
        return "DMFT" if problem.student is None else "MatrixFlow"

    @property
    def heat(self):
        """The temperature T of the added noise."""
        return 0.0

    @property
    def factor(self):
        """What the force of a sample in the batch is multiplied by."""
        return 1.0

    def first_mask(self, key: jax.Array, count: int) -> jax.Array:
        """Which of ``count`` samples are in the batch at step 0."""
        return jnp.ones(count, bool)

    def next_mask(self, key: jax.Array, mask: jax.Array) -> jax.Array:
        """Which samples are in the batch at the next step."""
        return mask


def check_descent_rule(rule: AbstractDescent) -> None:
    name = type(rule).__name__
    check_rate(rule)
    check_number(name, "penalty", rule.penalty, low=0, remedy="Use 0 for none.")
    if rule.spherical and float(rule.penalty) > 0:
        raise InputError(
            f"{name}.penalty acts on the norm of w, which spherical=True keeps fixed; got penalty={rule.penalty:g}. "
            "Use spherical=False, or penalty=0."
        )


def check_mask(rule) -> None:
    name = type(rule).__name__
    check_number(
        name,
        "batch_fraction",
        rule.batch_fraction,
        low=0,
        high=1,
        open_low=True,
        remedy="It is the share of samples used at a time.",
    )
    check_choice(name, "scale", rule.scale, ("1/b", "1"))


class AbstractMaskedDescent(AbstractDescent):
    """A share b of the samples at a time, each with probability b at step 0."""

    batch_fraction: eqx.AbstractVar[float]
    scale: eqx.AbstractVar[str]
    masked: ClassVar[bool] = True

    @property
    def factor(self):
        return 1 / self.batch_fraction if self.scale == "1/b" else 1.0

    def first_mask(self, key, count):
        return uniform(key, (count,)) < self.batch_fraction
