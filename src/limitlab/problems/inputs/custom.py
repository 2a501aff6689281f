"""Samples of the user's."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.problems.inputs.labelled import AbstractLabelledInputs

__all__ = ["CustomInputs"]


class CustomInputs(AbstractLabelledInputs):
    r"""Samples of the user's: ``sampler(key, count, d)`` gives x (count, d) and y (count,), by ``jax``; Python only.

    Scale x so that |x|^2 is about 1; weights start with |w|^2 about d.
    """

    sampler: Callable = eqx.field(static=True)

    def __check_init__(self):
        if not callable(self.sampler):
            raise InputError(f"CustomInputs.sampler must be a function of (key, count, d); got {self.sampler!r}.")

    def draw(self, key, count, d):
        try:
            x, y = self.sampler(key, count, d)
            x, y = jnp.asarray(x, float), jnp.asarray(y, float)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"CustomInputs.sampler(key, count, d) must return x (count, d) and y (count,) made with jax; it raised "
                f"{type(error).__name__}: {error}."
            ) from error
        if x.shape != (count, d) or y.shape != (count,):
            raise InputError(
                f"CustomInputs.sampler(key, {count}, {d}) must return x of shape {(count, d)} and y of shape "
                f"{(count,)}; got {x.shape} and {y.shape}."
            )
        return x, y
