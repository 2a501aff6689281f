"""A user's own activation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.problems.activations.base import AbstractActivation
from limitlab.text import code

__all__ = ["Custom"]


class Custom(AbstractActivation):
    """Any differentiable function of ``jax.numpy``; it has no name and cannot be put in a file."""

    given: Callable = field(static=True)

    @double
    def __check_init__(self):
        try:
            self.derivative(jnp.asarray(0.3))
        except Exception as error:
            raise InputError(
                f"activation must be a differentiable jax.numpy function of one scalar; {self._label} raised "
                f"{type(error).__name__}: {error}. Write it with jax.numpy instead of numpy."
            ) from error

    @property
    def _label(self) -> str:
        return getattr(self.given, "__name__", type(self.given).__name__)

    @property
    def name(self):
        return f"custom:{self._label}"

    @property
    def named(self):
        return False

    def __repr__(self):
        return code(self.given)

    def function(self, x):
        return self.given(x)

    def derivative(self, x):
        return jax.grad(lambda x: jnp.sum(self.given(x)))(x)
