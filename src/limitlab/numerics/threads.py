"""The old address of `one_thread`."""

from limitlab.numerics.machine import one_thread

__all__ = ["one_thread"]
