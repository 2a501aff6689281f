r"""Functions on the hypercube :math:`\{-1, 1\}^P`: points, characters, the Walsh transform.

Point b has :math:`z_{i+1} = 1 - 2\,\mathrm{bit}_i(b)`; the set S of coordinates is the number whose bits are set
there, so that :math:`\chi_S(z_b) = \prod_{i \in S} z_i = (-1)^{|S \cap b|}`.
"""

from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["cube_points", "members", "walsh"]


def cube_points(P: int) -> np.ndarray:
    """All points of the cube, one a row (2^P, P)."""
    return 1.0 - 2.0 * ((np.arange(2**P)[:, None] >> np.arange(P)) & 1)


def members(mask: int) -> list[int]:
    """The coordinates of a set, counted from 0."""
    return [i for i in range(int(mask).bit_length()) if mask >> i & 1]


@overload
def walsh(values: jax.Array) -> jax.Array: ...
@overload
def walsh(values: np.ndarray) -> np.ndarray: ...
def walsh(values: Any) -> Any:
    r"""Fourier coefficients of a function given by its values along the last axis: :math:`2^{-P}\sum_z h \chi_S`.

    Twice the transform is 2^-P times the identity: values are ``2**P * walsh(coefficients)``. O(P 2^P), for NumPy and
    JAX arrays alike.
    """
    xp = jnp if isinstance(values, jax.Array) else np
    values = xp.asarray(values, float)
    size, lead = values.shape[-1], values.shape[:-1]
    if size & (size - 1) or size == 0:
        raise ValueError(f"the last axis must be a power of 2 long, got {size}")
    half = 1
    while half < size:
        pairs = values.reshape(*lead, size // (2 * half), 2, half)
        low, high = pairs[..., 0, :], pairs[..., 1, :]
        values = xp.stack([(low + high) / 2, (low - high) / 2], axis=-2).reshape(*lead, size)
        half *= 2
    return values
