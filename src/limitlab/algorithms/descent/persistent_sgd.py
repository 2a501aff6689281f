"""Descent on a share of the samples that changes slowly."""

from typing import ClassVar

import jax.numpy as jnp

from limitlab.algorithms.descent.base import check_descent_rule
from limitlab.algorithms.descent.masked import AbstractMaskedDescent, check_mask, mask_scale, uniform
from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_number

__all__ = ["PersistentSGD"]


class PersistentSGD(AbstractMaskedDescent):
    r"""Samples enter and leave the batch at random, and stay out for tau = ``persistence_time`` on average.

    .. math:: P(0 \to 1) = \frac{\eta}{\tau}, \quad P(1 \to 0) = \frac{(1-b)\,\eta}{b\tau}, \quad
              E[s_k s_l] = b^2 + b(1-b)\left(1 - \frac{\eta}{b\tau}\right)^{|k-l|}

    from the stationary law P(s = 1) = b = ``batch_fraction``: a sample stays in for b tau/(1-b), and masks are
    correlated over a time b tau. tau = learning_rate/b is `StochasticGD`, b = 1 is `GradientDescent`. Clock:
    t = learning_rate * step; a student of m units has learning_rate/m in the place of eta everywhere.

    Parameters
    ----------
    scale
        "1/b" or "1", as for `StochasticGD`. With "1" a run is that of "1/b" with b times the learning rate and the
        persistence time, and at a time t it is where that is at b t.
    fresh
        n new samples at every step, as in `GradientDescent`: then nothing of the mask persists but its size.
    """

    takes: ClassVar[str] = "a fixed data set, a share of it that changes slowly"
    reference: ClassVar[tuple[str, ...]] = ("mignacco2021stochasticity",)

    learning_rate: float
    batch_fraction: float
    persistence_time: float
    spherical: bool = field(static=True, default=True)
    penalty: float = 0.0
    scale: str = field(static=True, converter=mask_scale, default="1/b")
    fresh: bool = field(static=True, default=False)

    def __check_init__(self):
        check_descent_rule(self)
        check_mask(self)
        check_number(
            "PersistentSGD",
            "persistence_time",
            self.persistence_time,
            low=0,
            open_low=True,
            remedy="It is the time for which a sample stays out, on average.",
        )

    def check_beside(self, problem):
        """A sample stays out, and in, for one step at least: the step is learning_rate/m for a student of m units."""
        eps, b, tau = float(self.clock(problem, 1)), float(self.batch_fraction), float(self.persistence_time)
        step = "learning_rate" if eps == float(self.learning_rate) else "learning_rate/m"
        if tau < eps * (1 - 1e-12):
            raise InputError(
                f"PersistentSGD.persistence_time must be at least {step} = {eps:g}: a sample cannot stay out for less "
                f"than one step; got {tau:g}. Use a longer persistence time or a smaller learning rate."
            )
        if (1 - b) * eps > b * tau * (1 + 1e-12):
            raise InputError(
                f"PersistentSGD.persistence_time must be at least (1 - b) {step}/b = {(1 - b) * eps / b:g} for "
                f"b = batch_fraction = {b:g}: below, a sample would have to leave the batch within one step; got "
                f"{tau:g}. Use a longer persistence time or a smaller learning rate."
            )

    def next_mask(self, key, mask, width=1):
        enter = self.learning_rate / width / self.persistence_time
        stay = 1 - (1 - self.batch_fraction) * enter / self.batch_fraction
        return uniform(key, mask.shape) < jnp.where(mask, stay, enter)
