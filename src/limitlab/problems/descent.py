"""Gradient rules on a fixed data set. Clock of all: t = learning_rate * step."""

import equinox as eqx

from limitlab.numerics.checks import check_number
from limitlab.problems.algorithm import AbstractAlgorithm, check_rate

__all__ = ["GradientDescent", "Langevin", "PersistentSGD", "StochasticGD"]


def _fraction(rule: AbstractAlgorithm) -> None:
    check_number(
        type(rule).__name__,
        "batch_fraction",
        rule.batch_fraction,  # type: ignore[attr-defined]
        low=0,
        high=1,
        open_low=True,
        remedy="It is the share of samples used at a time.",
    )


class GradientDescent(AbstractAlgorithm):
    r"""Full-batch descent on a fixed data set, kept on the sphere by default. Clock: t = learning_rate * step."""

    learning_rate: float
    spherical: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        check_rate(self)


class StochasticGD(AbstractAlgorithm):
    r"""Each step uses every sample with probability ``batch_fraction``. Clock: t = learning_rate * step."""

    learning_rate: float
    batch_fraction: float

    def __check_init__(self):
        check_rate(self)
        _fraction(self)


class PersistentSGD(AbstractAlgorithm):
    r"""Samples enter and leave the batch at random, staying out for ``persistence_time`` on average.

    Clock: t = learning_rate * step.
    """

    learning_rate: float
    batch_fraction: float
    persistence_time: float

    def __check_init__(self):
        check_rate(self)
        _fraction(self)
        check_number(
            "PersistentSGD",
            "persistence_time",
            self.persistence_time,
            low=float(self.learning_rate),
            remedy="A sample cannot stay out for less than one step (learning_rate).",
        )


class Langevin(AbstractAlgorithm):
    r"""Full-batch descent with thermal noise. Clock: t = learning_rate * step."""

    learning_rate: float
    temperature: float

    def __check_init__(self):
        check_rate(self)
        check_number("Langevin", "temperature", self.temperature, low=0, remedy="Use 0 for plain descent.")
