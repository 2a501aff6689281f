"""What a link is: a function of the K fields of a teacher."""

import dataclasses
from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.problems.part import Part
from limitlab.text import code

__all__ = ["AbstractLink"]

POINTS = 2048  # at which a link is looked at
SCALES = (1.0, 0.3, 2.5)


class AbstractLink(Part):
    """A function of the fields z (..., K) that gives one output (...)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The text of a problem file."""

    @abstractmethod
    def value(self, z: Any, xp: Any) -> Any:
        """The output, computed by ``xp``, which is ``numpy`` or ``jax.numpy``."""

    @property
    def named(self) -> bool:
        """True if the name says all, so that a file can hold it."""
        return True

    def function(self, z: jax.Array) -> jax.Array:
        return self.value(z, jnp)

    def on_host(self, z: np.ndarray) -> np.ndarray:
        """The same by NumPy: nothing is compiled."""
        return np.asarray(self.value(z, np), float)

    @property
    def expected(self) -> "AbstractLink":
        """The mean of the output for given fields, if chance decides; else the link itself."""
        return self

    @property
    def sides(self) -> tuple[float, float] | None:
        """The two labels between which chance decides, `expected` being their mean; None if nothing is left to it."""
        return None

    def settled(self, width: int, ties: str | None) -> "AbstractLink":
        """The link of so many fields, its ties broken as asked; or `InputError` if there is none such."""
        if ties is not None:
            raise InputError(
                f'MultiIndex.ties is for link="majority", whose vote may be even; got ties={ties!r} with '
                f"link={self!r}. Leave it out."
            )
        self.check(width)
        return self

    def check(self, width: int) -> None:
        """`InputError` unless the output is finite, and every field counts."""
        rng = np.random.default_rng(0)
        z, other = (np.concatenate([scale * rng.normal(size=(POINTS, width)) for scale in SCALES]) for _ in range(2))
        y = self.on_host(z)
        if not np.all(np.isfinite(y)):
            at = z[np.argmin(np.isfinite(y))].round(3).tolist()
            raise InputError(f"MultiIndex.link must give finite numbers; {self!r} does not at z = {at}.")
        if np.ptp(y) <= 1e-12 * np.max(np.abs(y)):
            raise InputError(
                f"MultiIndex.link must not be constant; {self!r} is {y[0]:g} everywhere. Let every field count."
            )
        for k in range(width):
            moved = z.copy()
            moved[:, k] = other[:, k]
            if np.max(np.abs(self.on_host(moved) - y)) <= 1e-12 * np.max(np.abs(y)):
                raise InputError(
                    f"MultiIndex.link must use all of z1 to z{width} (width={width}); {self!r} ignores z{k + 1}. "
                    + (f"Use width={width - 1}, or let z{k + 1} count." if width > 1 else "Let it count.")
                )

    def __call__(self, fields):
        return self.function(fields)

    def __repr__(self) -> str:
        return code(self.name) if self.named else super().__repr__()

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, field.name) for field in dataclasses.fields(self))))
