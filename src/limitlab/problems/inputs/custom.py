"""Samples of the user's."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.problems.inputs.labelled import AbstractLabelledInputs

__all__ = ["CustomInputs"]


class CustomInputs(AbstractLabelledInputs):
    r"""Samples of the user's: ``sampler(key, count, d)`` gives x (count, d) and y (count,), by ``jax``; Python only.

    Scale x so that |x|^2 is about 1; weights start with |w|^2 about d.
    """

    sampler: Callable = field(static=True)

    @double
    def __check_init__(self):
        if not callable(self.sampler):
            raise InputError(f"CustomInputs.sampler must be a function of (key, count, d); got {self.sampler!r}.")

    def draw(self, key, count, d, dtype=float):
        try:
            x, y = self.sampler(key, count, d)
            x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
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

    def test_words(self, count):
        return f"{count} new draws of the sampler"

    def check(self, d):
        """Raise `InputError` unless the sampler gives finite samples that follow its key."""
        draw = jax.jit(lambda key: self.draw(key, 16, d))
        (x, y), (x2, y2) = draw(jax.random.key(0)), draw(jax.random.key(1))
        if np.array_equal(x, x2) and np.array_equal(y, y2):
            raise InputError(
                "CustomInputs.sampler must draw from its key with jax.random: compiled, it gives the same samples for "
                "every key (NumPy's random numbers are drawn once and for all when a step is compiled)."
            )
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
            raise InputError(
                f"CustomInputs.sampler must return finite x and y; 16 samples at d={d} have {np.sum(~np.isfinite(x))} "
                f"and {np.sum(~np.isfinite(y))} entries that are not. Mend the sampler."
            )
