"""Descent on a share of the samples at a time."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from limitlab.algorithms.descent.rule import AbstractDescentRule
from limitlab.modules import AbstractVar
from limitlab.numerics.checks import check_choice, check_number

__all__ = ["AbstractMaskedDescent", "check_mask", "mask_scale", "uniform"]


def mask_scale(value) -> str:
    return "1" if not isinstance(value, str) and value == 1 else str(value)


def uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """24 bits are enough for a probability, and half the work of a step's masks."""
    return jax.random.uniform(key, shape, jnp.float32)


def check_mask(rule: "AbstractMaskedDescent") -> None:
    name = type(rule).__name__
    check_number(
        name,
        "batch_fraction",
        rule.batch_fraction,
        low=0,
        high=1,
        open_low=True,
        remedy="It is the share of samples used at a time.",
    )
    check_choice(name, "scale", rule.scale, ("1/b", "1"))


class AbstractMaskedDescent(AbstractDescentRule):
    """A share b of the samples at a time, each with probability b at step 0."""

    batch_fraction: AbstractVar[float]
    scale: AbstractVar[str]
    masked: ClassVar[bool] = True

    @property
    def factor(self):
        return 1 / self.batch_fraction if self.scale == "1/b" else 1.0

    def first_mask(self, key, count):
        return uniform(key, (count,)) < self.batch_fraction
