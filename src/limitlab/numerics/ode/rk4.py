"""One classical Runge-Kutta step that also says how fast the drift turns, for steps chosen along the way."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

__all__ = ["norm", "plus", "runge_kutta_step"]

T = TypeVar("T")


def norm(x: Any) -> jax.Array:
    """Euclidean norm of all numbers of a tree."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x)))


def plus(x: T, by: jax.Array | float, y: T) -> T:
    """x + by * y, leaf by leaf."""
    return jax.tree.map(lambda u, v: u + by * v, x, y)


def runge_kutta_step(drift: Callable[[T], T], y: T, h: jax.Array) -> tuple[T, jax.Array]:
    r"""y(t + h) of dy/dt = drift(y) to fourth order, and the rate |d drift|/|dy| seen between the stages.

    The stages are power iterations on the Jacobian, so the rate finds its fast directions. They are a scan, so that
    the drift, which may be a large expression, is compiled once.
    """
    floor = 1e-8 * (1 + norm(y))  # displacements below it say nothing about a rate: rounding

    def stage(carry, coefficients):
        before, point, total, rate = carry
        lead, weight = coefficients
        here = plus(y, lead * h, before)
        slope = drift(here)
        seen = norm(plus(slope, -1.0, before)) / (norm(plus(here, -1.0, point)) + floor)
        return (slope, here, plus(total, weight, slope), jnp.where(lead > 0, jnp.maximum(rate, seen), rate)), None

    zero = jax.tree.map(jnp.zeros_like, y)
    table = (jnp.array([0.0, 0.5, 0.5, 1.0]), jnp.array([1.0, 2.0, 2.0, 1.0]) / 6)
    (_, _, total, rate), _ = jax.lax.scan(stage, (zero, y, zero, jnp.zeros(())), table)
    return plus(y, h, total), rate
