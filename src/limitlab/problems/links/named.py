"""Links that have a name."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.numerics.checks import check_choice
from limitlab.problems.links.base import AbstractLink

__all__ = ["And", "Majority", "Parity", "Product", "SignSum", "Squares"]


class _Named(AbstractLink):
    word: ClassVar[str] = ""

    @property
    def name(self):
        return self.word

    def check(self, width):
        """Nothing to look at: every field counts."""


class SignSum(_Named):
    r""":math:`\sum_k \mathrm{sign}(z_k)`: K + 1 labels."""

    word = "sign_sum"

    def value(self, z, xp):
        return xp.sum(xp.sign(z), axis=-1)


class Majority(_Named):
    r""":math:`\mathrm{sign} \sum_k \mathrm{sign}(z_k)`; a tie gives 0, or +-1 by a fair coin.

    The coin is tossed by the last digits of the fields, so that it is fair, independent of all else, and falls the same
    way whenever the same input is looked at.
    """

    word = "majority"

    ties: str | None = field(static=True, default=None)

    @property
    def expected(self):
        return Majority("zero") if self.ties == "coin" else self

    @property
    def sides(self):
        return (-1.0, 1.0) if self.ties == "coin" else None

    def settled(self, width, ties):
        if ties is not None:
            check_choice("MultiIndex", "ties", ties, ("zero", "coin"))
        elif width % 2 == 0:
            raise InputError(
                f'MultiIndex.ties must be "zero" (a third label) or "coin" for the majority of {width} signs, an even '
                "number; got none. These are two problems: at width 2 units specialise at 2.052 and 7.155."
            )
        return Majority(ties if width % 2 == 0 else None)

    def value(self, z, xp):
        vote = xp.sign(xp.sum(xp.sign(z), axis=-1))
        return xp.where(vote == 0, _coin(z, xp), vote) if self.ties == "coin" else vote


class Parity(_Named):
    r""":math:`\mathrm{sign} \prod_k z_k`."""

    word = "parity"

    def value(self, z, xp):
        return xp.prod(xp.sign(z), axis=-1)


class Product(_Named):
    r""":math:`\prod_k z_k`."""

    word = "product"

    def value(self, z, xp):
        return xp.prod(z, axis=-1)


class Squares(_Named):
    r""":math:`\frac1K \sum_k z_k^2`."""

    word = "squares"

    def value(self, z, xp):
        return xp.mean(xp.square(z), axis=-1)


class And(_Named):
    """1 if all fields are positive, else 0."""

    word = "and"

    def value(self, z, xp):
        return xp.where(xp.all(z > 0, axis=-1), 1.0, 0.0)


def _coin(z: Any, xp: Any) -> Any:
    """+-1 from the bits of the fields (..., K), mixed as in Murmur."""
    small = z.astype(xp.float32)
    bits = jax.lax.bitcast_convert_type(small, jnp.uint32) if xp is jnp else np.ascontiguousarray(small).view(np.uint32)
    total = xp.zeros(z.shape[:-1], xp.uint32)
    for k in range(z.shape[-1]):
        total = (total ^ bits[..., k]) * xp.uint32(0x9E3779B1)
        total = total ^ (total >> xp.uint32(15))
    total = total * xp.uint32(0x85EBCA6B)
    total = total ^ (total >> xp.uint32(13))
    return 1.0 - 2.0 * ((total >> xp.uint32(7)) & xp.uint32(1)).astype(z.dtype)
