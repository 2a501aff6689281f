"""An activation and its slope in the form that runs fastest: straight lines with kinks as a sum of ramps."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from limitlab.problems.activations.base import Activation
from limitlab.problems.activations.smoothers import linear_pieces

__all__ = ["unit_functions"]

FEW = 8  # ramps; with more, the table of knots is the faster one


def unit_functions(activation: Activation) -> tuple[Callable, Callable]:
    r"""sigma and sigma' on arrays; :math:`c_0 + c_1 x + \sum_k g_k (x - t_k)_+` if it is one of few kinks."""
    pieces = linear_pieces(activation)
    if pieces is None or len(pieces[2]) > FEW:
        flat = jax.vmap(activation.derivative)
        return activation.function, lambda x: flat(x.ravel()).reshape(x.shape)
    level, tilt, places, bends = (x.tolist() for x in pieces)
    kinks = list(zip(places, bends, strict=True))

    def value(x):
        total = level + tilt * x if tilt else level
        for place, bend in kinks:
            total = total + bend * jnp.maximum(x - place, 0.0)
        return total

    def slope(x):
        total = jnp.full_like(x, tilt)
        for place, bend in kinks:
            total = total + jnp.where(x > place, bend, 0.0)
        return total

    return value, slope
