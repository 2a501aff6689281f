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

from limitlab.errors import InputError
from limitlab.numerics.checks import check_choice, check_number
from limitlab.problems.algorithm import AbstractAlgorithm, check_rate

__all__ = ["AbstractDescent", "GradientDescent", "Langevin", "PersistentSGD", "StochasticGD"]


def _scale(value) -> str:
    return "1" if not isinstance(value, str) and value == 1 else str(value)


def _uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """24 bits are enough for a probability, and half the work of a step's masks."""
    return jax.random.uniform(key, shape, jnp.float32)


class AbstractDescent(AbstractAlgorithm):
    """What the rules on a fixed data set share: their masks and their thermal noise."""

    learning_rate: eqx.AbstractVar[float]
    spherical: eqx.AbstractVar[bool]
    penalty: eqx.AbstractVar[float]
    masked: ClassVar[bool] = False

    @property
    def clock(self):
        """Macroscopic time per step."""
        return self.learning_rate

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


def _check(rule: AbstractDescent) -> None:
    name = type(rule).__name__
    check_rate(rule)
    check_number(name, "penalty", rule.penalty, low=0, remedy="Use 0 for none.")
    if rule.spherical and float(rule.penalty) > 0:
        raise InputError(
            f"{name}.penalty acts on the norm of w, which spherical=True keeps fixed; got penalty={rule.penalty:g}. "
            "Use spherical=False, or penalty=0."
        )


def _check_mask(rule) -> None:
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


class GradientDescent(AbstractDescent):
    r"""Full-batch descent on a fixed data set: sigma = 1, T = 0. Clock: t = learning_rate * step."""

    learning_rate: float
    spherical: bool = eqx.field(static=True, default=True)
    penalty: float = 0.0

    def __check_init__(self):
        _check(self)


class AbstractMaskedDescent(AbstractDescent):
    """A share b of the samples at a time, each with probability b at step 0."""

    batch_fraction: eqx.AbstractVar[float]
    scale: eqx.AbstractVar[str]
    masked: ClassVar[bool] = True

    @property
    def factor(self):
        return 1 / self.batch_fraction if self.scale == "1/b" else 1.0

    def first_mask(self, key, count):
        return _uniform(key, (count,)) < self.batch_fraction


class StochasticGD(AbstractMaskedDescent):
    r"""Each step uses every sample with probability b = ``batch_fraction``. Clock: t = learning_rate * step.

    Parameters
    ----------
    scale
        The force of a sample in the batch is multiplied by "1/b", so that its mean is that of full-batch descent, or
        by "1": then rate and clock are those of "1/b" with b times the learning rate.
    """

    learning_rate: float
    batch_fraction: float
    spherical: bool = eqx.field(static=True, default=True)
    penalty: float = 0.0
    scale: str = eqx.field(static=True, converter=_scale, default="1/b")

    def __check_init__(self):
        _check(self)
        _check_mask(self)

    def next_mask(self, key, mask):
        return _uniform(key, mask.shape) < self.batch_fraction


class PersistentSGD(AbstractMaskedDescent):
    r"""Samples enter and leave the batch at random, and stay out for tau = ``persistence_time`` on average.

    .. math:: P(0 \to 1) = \frac{\eta}{\tau}, \quad P(1 \to 0) = \frac{(1-b)\,\eta}{b\tau}, \quad
              E[s_k s_l] = b^2 + b(1-b)\left(1 - \frac{\eta}{b\tau}\right)^{|k-l|}

    from the stationary law P(s = 1) = b = ``batch_fraction``: a sample stays in for b tau/(1-b), and masks are
    correlated over a time b tau. tau = learning_rate/b is `StochasticGD`, b = 1 is `GradientDescent`. Clock:
    t = learning_rate * step.

    Parameters
    ----------
    scale
        "1/b" or "1", as for `StochasticGD`. With "1", rate, persistence time and clock are those of "1/b" with b times
        the learning rate and the persistence time.
    """

    learning_rate: float
    batch_fraction: float
    persistence_time: float
    spherical: bool = eqx.field(static=True, default=True)
    penalty: float = 0.0
    scale: str = eqx.field(static=True, converter=_scale, default="1/b")

    def __check_init__(self):
        _check(self)
        _check_mask(self)
        eta, b, tau = (float(x) for x in (self.learning_rate, self.batch_fraction, self.persistence_time))
        check_number(
            "PersistentSGD",
            "persistence_time",
            self.persistence_time,
            low=eta,
            remedy="A sample cannot stay out for less than one step (learning_rate).",
        )
        if (1 - b) * eta > b * tau * (1 + 1e-12):
            raise InputError(
                f"PersistentSGD.persistence_time must be at least (1 - b) learning_rate/b = {(1 - b) * eta / b:g} for "
                f"b = batch_fraction = {b:g}: below, a sample would have to leave the batch within one step; got "
                f"{tau:g}. Use a longer persistence time or a smaller learning rate."
            )

    def next_mask(self, key, mask):
        enter = self.learning_rate / self.persistence_time
        stay = 1 - (1 - self.batch_fraction) * enter / self.batch_fraction
        return _uniform(key, mask.shape) < jnp.where(mask, stay, enter)


class Langevin(AbstractDescent):
    r"""Full-batch descent with thermal noise, T = ``temperature``. Clock: t = learning_rate * step."""

    learning_rate: float
    temperature: float
    spherical: bool = eqx.field(static=True, default=True)
    penalty: float = 0.0

    def __check_init__(self):
        _check(self)
        check_number("Langevin", "temperature", self.temperature, low=0, remedy="Use 0 for plain descent.")

    @property
    def heat(self):
        return self.temperature
