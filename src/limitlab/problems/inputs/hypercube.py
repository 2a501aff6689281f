"""Signs."""

from limitlab.problems.base import AbstractInputs

__all__ = ["Hypercube"]


class Hypercube(AbstractInputs):
    r""":math:`x` uniform on :math:`\{-1, 1\}^d/\sqrt d`."""
