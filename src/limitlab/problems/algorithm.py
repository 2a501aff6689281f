"""Learning rules. Each states its clock: the macroscopic time gained per step."""

import equinox as eqx

from limitlab.numerics.checks import check_integer, check_number

__all__ = [
    "ERM",
    "GAMP",
    "AbstractAlgorithm",
    "GradientDescent",
    "Langevin",
    "OnlineSGD",
    "PersistentSGD",
    "StochasticGD",
]


class AbstractAlgorithm(eqx.Module):
    """How the learner uses its samples."""


def _rate(rule: AbstractAlgorithm) -> None:
    check_number(
        type(rule).__name__,
        "learning_rate",
        rule.learning_rate,  # type: ignore[attr-defined]
        low=0,
        open_low=True,
        remedy="Use a positive learning rate.",
    )


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


class OnlineSGD(AbstractAlgorithm):
    r"""One-pass stochastic gradient descent: fresh samples at every step.

    .. math::
        w_i \leftarrow w_i + \frac{\gamma}{p}\, \langle a_i \sigma'(\lambda_i)\, \mathcal E\, x \rangle, \qquad
        a_i \leftarrow a_i + \kappa \frac{\gamma}{p d}\, \langle \sigma(\lambda_i)\, \mathcal E \rangle,
        \qquad \mathcal E = y - f(x)

    with the mean over ``batch_size`` samples, gamma = ``learning_rate``, kappa = ``second_layer_rate``. With
    ``spherical=True`` every w_i is put on the sphere of radius sqrt(d) at the start and after each step.
    Clock: t = gamma * step / (p d).
    """

    learning_rate: float
    spherical: bool = eqx.field(static=True, default=False)
    batch_size: int = eqx.field(static=True, default=1)
    second_layer_rate: float = 1.0

    def __check_init__(self):
        _rate(self)
        check_integer("OnlineSGD", "batch_size", self.batch_size, low=1, remedy="Each step needs a sample.")
        check_number(
            "OnlineSGD", "second_layer_rate", self.second_layer_rate, low=0, remedy="Use 0 to freeze the second layer."
        )

    def clock(self, width: int, d: float):
        """Macroscopic time per step, gamma/(p d)."""
        return self.learning_rate / (width * d)


class GradientDescent(AbstractAlgorithm):
    r"""Full-batch descent on a fixed data set, kept on the sphere by default. Clock: t = learning_rate * step."""

    learning_rate: float
    spherical: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        _rate(self)


class StochasticGD(AbstractAlgorithm):
    r"""Each step uses every sample with probability ``batch_fraction``. Clock: t = learning_rate * step."""

    learning_rate: float
    batch_fraction: float

    def __check_init__(self):
        _rate(self)
        _fraction(self)


class PersistentSGD(AbstractAlgorithm):
    r"""Samples enter and leave the batch at random, staying out for ``persistence_time`` on average.

    Clock: t = learning_rate * step.
    """

    learning_rate: float
    batch_fraction: float
    persistence_time: float

    def __check_init__(self):
        _rate(self)
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
        _rate(self)
        check_number("Langevin", "temperature", self.temperature, low=0, remedy="Use 0 for plain descent.")


class GAMP(AbstractAlgorithm):
    """Generalised approximate message passing; the new iterate is mixed with ``damping`` of the old one."""

    damping: float = 0.0

    def __check_init__(self):
        check_number("GAMP", "damping", self.damping, low=0, high=1, open_high=True, remedy="Use 0 <= damping < 1.")


class ERM(AbstractAlgorithm):
    r"""Exact minimisation of :math:`\sum_\mu \ell(y_\mu, w\cdot x_\mu) + \tfrac12\,\mathrm{penalty}\,|w|^2`."""

    penalty: float = 0.0

    def __check_init__(self):
        check_number("ERM", "penalty", self.penalty, low=0, remedy="Use 0 for none.")
