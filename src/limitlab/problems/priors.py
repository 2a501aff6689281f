"""Laws of a single teacher weight."""

import equinox as eqx

from limitlab.numerics.checks import check_number

__all__ = ["AbstractPrior", "GaussBernoulliPrior", "GaussianPrior", "LaplacePrior", "RademacherPrior"]


class AbstractPrior(eqx.Module):
    """The law of one weight w, independent of the others; ``second_moment`` is E w^2."""

    @property
    def second_moment(self) -> float:
        raise TypeError(f"{type(self).__name__} does not state its second moment")


class GaussianPrior(AbstractPrior):
    r""":math:`w \sim N(0, \mathrm{variance})`."""

    variance: float = 1.0

    def __check_init__(self):
        check_number("GaussianPrior", "variance", self.variance, low=0, open_low=True, remedy="Use a positive one.")

    @property
    def second_moment(self) -> float:
        return self.variance


class RademacherPrior(AbstractPrior):
    r""":math:`w = \pm 1` with equal odds."""

    @property
    def second_moment(self) -> float:
        return 1.0


class GaussBernoulliPrior(AbstractPrior):
    r""":math:`w = 0` with probability 1 - density, else :math:`N(0, \mathrm{variance})`."""

    density: float
    variance: float = 1.0

    def __check_init__(self):
        check_number(
            "GaussBernoulliPrior", "density", self.density, low=0, high=1, open_low=True, remedy="Use 0 < density <= 1."
        )
        check_number(
            "GaussBernoulliPrior", "variance", self.variance, low=0, open_low=True, remedy="Use a positive one."
        )

    @property
    def second_moment(self) -> float:
        return self.density * self.variance


class LaplacePrior(AbstractPrior):
    r""":math:`p(w) = e^{-|w|/\mathrm{scale}}/(2\,\mathrm{scale})`."""

    scale: float

    def __check_init__(self):
        check_number("LaplacePrior", "scale", self.scale, low=0, open_low=True, remedy="Use a positive scale.")

    @property
    def second_moment(self) -> float:
        return 2 * self.scale**2
