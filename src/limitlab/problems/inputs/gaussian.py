"""Standard normal inputs."""

from limitlab.problems.base import AbstractInputs

__all__ = ["Gaussian"]


class Gaussian(AbstractInputs):
    r""":math:`x \sim N(0, I_d/d)`."""
