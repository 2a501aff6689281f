"""Inputs that bring their labels."""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax

from limitlab.problems.base import AbstractInputs

__all__ = ["AbstractLabelledInputs", "Widths"]


class Widths(NamedTuple):
    """Two classes y = 1 and -1, equally likely, of centred normal inputs: sqrt(d) x has the deviations ``taus``.

    ``share``: only on this share of the coordinates, the others have 1 in both classes; None if on all of them.
    """

    taus: tuple[float, float]
    share: float | None = None


class AbstractLabelledInputs(AbstractInputs):
    """Inputs that come with their label y: a problem with these has no teacher."""

    labelled: ClassVar[bool] = True

    @abstractmethod
    def draw(self, key: jax.Array, count: int, d: int, dtype: Any = float) -> tuple[jax.Array, jax.Array]:
        """``count`` samples: x (count, d) and y (count,)."""

    def widths(self) -> Widths | None:
        """The widths of the classes if that is all in which they differ, else None."""
        return None
