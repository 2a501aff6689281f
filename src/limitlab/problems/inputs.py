"""Where the inputs come from. All are scaled so that |x|^2 is about 1."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.numerics.checks import check_number

__all__ = [
    "AbstractInputs",
    "AbstractLabelledInputs",
    "AnisotropicMixture",
    "CustomInputs",
    "Gaussian",
    "Hypercube",
    "IsotropicMixture",
]


class AbstractInputs(eqx.Module):
    """A law of inputs x in d dimensions with E|x|^2 about 1."""

    labelled: ClassVar[bool] = False


class Gaussian(AbstractInputs):
    r""":math:`x \sim N(0, I_d/d)`."""


class Hypercube(AbstractInputs):
    r""":math:`x` uniform on :math:`\{-1, 1\}^d/\sqrt d`."""


class AbstractLabelledInputs(AbstractInputs):
    """Inputs that come with their label y: a problem with these has no teacher."""

    labelled: ClassVar[bool] = True

    @abstractmethod
    def draw(self, key: jax.Array, count: int, d: int) -> tuple[jax.Array, jax.Array]:
        """``count`` samples: x (count, d) and y (count,)."""


def _classes(key: jax.Array, count: int) -> jax.Array:
    return jax.random.rademacher(key, (count,), dtype=float)


def _check_delta(mixture) -> None:
    name = type(mixture).__name__
    check_number(name, "delta", mixture.delta, low=0, high=1, open_high=True, remedy="Use 0 <= delta < 1.")


class IsotropicMixture(AbstractLabelledInputs):
    r""":math:`y = \pm 1` with equal odds, :math:`x = (1 + y\,\mathrm{delta})\,z`, :math:`z \sim N(0, I_d/d)`."""

    delta: float

    def __check_init__(self):
        _check_delta(self)

    def draw(self, key, count, d):
        key_y, key_z = jax.random.split(key)
        y = _classes(key_y, count)
        z = jax.lax.optimization_barrier(jax.random.normal(key_z, (count, d)))
        return ((1 + self.delta * y) / jnp.sqrt(float(d)))[:, None] * z, y


class AnisotropicMixture(AbstractLabelledInputs):
    r"""As `IsotropicMixture` on a ``fraction`` of the coordinates; the others have variance 1/d in both classes.

    At dimension d these are the first round(fraction d) coordinates.
    """

    delta: float
    fraction: float

    def __check_init__(self):
        _check_delta(self)
        check_number(
            "AnisotropicMixture", "fraction", self.fraction, low=0, high=1, remedy="It is a share of coordinates."
        )

    def informative(self, d: int) -> int:
        """How many coordinates tell the classes apart."""
        return round(float(self.fraction) * d)

    def draw(self, key, count, d):
        key_y, key_z = jax.random.split(key)
        y = _classes(key_y, count)
        z = jax.lax.optimization_barrier(jax.random.normal(key_z, (count, d)))
        scale = jnp.where(jnp.arange(d) < jnp.round(self.fraction * d), 1 + self.delta * y[:, None], 1.0)
        return scale * z / jnp.sqrt(float(d)), y


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
