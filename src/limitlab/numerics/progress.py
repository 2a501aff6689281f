"""The old address of `Progress`."""

from limitlab.numerics.machine import Progress

__all__ = ["Progress"]
