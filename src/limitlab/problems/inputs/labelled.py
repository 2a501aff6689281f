"""Inputs that bring their labels."""

from abc import abstractmethod
from typing import Any, ClassVar

import jax

from limitlab.problems.base import AbstractInputs

__all__ = ["AbstractLabelledInputs"]


class AbstractLabelledInputs(AbstractInputs):
    """Inputs that come with their label y: a problem with these has no teacher."""

    labelled: ClassVar[bool] = True

    @abstractmethod
    def draw(self, key: jax.Array, count: int, d: int, dtype: Any = float) -> tuple[jax.Array, jax.Array]:
        """``count`` samples: x (count, d) and y (count,)."""
