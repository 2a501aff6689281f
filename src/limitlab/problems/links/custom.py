"""A user's own link."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.modules import field, filter_jit
from limitlab.problems.links.base import AbstractLink
from limitlab.text import code

__all__ = ["CustomLink"]


class CustomLink(AbstractLink):
    """Any function of ``jax.numpy`` that takes the K fields z (K,) of one input and gives one number.

    It has no name and cannot be put in a file.
    """

    given: Callable = field(static=True)

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

    def value(self, z, xp):
        flat = jnp.reshape(z, (-1, z.shape[-1]))
        out = jax.vmap(lambda one: jnp.asarray(self.given(one), flat.dtype))(flat)
        return out.reshape(z.shape[:-1])

    @double
    def on_host(self, z):
        """In blocks of few lengths, so that little is compiled."""
        flat = np.reshape(z, (-1, z.shape[-1]))
        padded = np.zeros((1 << max(10, (len(flat) - 1).bit_length()), flat.shape[1]))
        padded[: len(flat)] = flat
        with jax.ensure_compile_time_eval():
            return np.asarray(_compiled(self, padded), float)[: len(flat)].reshape(z.shape[:-1])

    @double
    def check(self, width):
        try:
            one = jax.eval_shape(self.given, jax.ShapeDtypeStruct((width,), float))
        except Exception as error:
            first = str(error).splitlines()[0][:200]
            raise InputError(
                f"MultiIndex.link must be a jax.numpy function of the {width} fields of one input; {self._label} "
                f"raised {type(error).__name__}: {first}. Write it with jax.numpy, as in "
                "lambda z: jnp.tanh(z[0] + z[1])."
            ) from error
        if one.shape != ():
            raise InputError(
                f"MultiIndex.link must give one number for the {width} fields of one input; {self._label} gives shape "
                f"{one.shape}. It is called with z of shape ({width},)."
            )
        if jnp.issubdtype(one.dtype, jnp.complexfloating):
            raise InputError(
                f"MultiIndex.link must give a real number; {self._label} gives a complex one. Take jnp.real or jnp.abs "
                "of it."
            )
        self._check_places(width)
        super().check(width)

    def _check_places(self, width: int) -> None:
        """JAX takes the last field for one that is not there; NumPy says so."""
        try:
            self.given(np.linspace(0.1, 0.9, width))
        except IndexError as error:
            raise InputError(
                f"MultiIndex.link must use the fields z[0] to z[{width - 1}] (width={width}); {self._label} asks for "
                f"another: {error}. Count from 0, or use a larger width."
            ) from error
        except Exception:  # what only JAX arrays can do
            return


@filter_jit
def _compiled(link: CustomLink, z: jax.Array | np.ndarray) -> jax.Array:
    return link.value(z, jnp)
