"""Small dense linear algebra that tolerates singular Gram matrices."""

import jax
import jax.numpy as jnp

__all__ = ["gram_factor", "nearest_psd", "pseudo_inverse", "realised"]


def gram_factor(C: jax.Array, tolerance: float = 1e-14) -> jax.Array:
    r"""Lower-triangular L with L L^T = C for a positive semi-definite C; a vanishing pivot gives a zero column.

    Works on the last two axes of any batch; unrolled over the columns, because a batch of small factorisations
    is faster this way than through LAPACK and can be differentiated forwards.
    """
    n = C.shape[-1]
    scale = jnp.diagonal(C, axis1=-2, axis2=-1)
    rest, columns = C, []
    for j in range(n):
        pivot = rest[..., j, j]
        good = pivot > tolerance * scale[..., j]
        root = jnp.sqrt(jnp.where(good, pivot, 1.0))
        column = jnp.where(good[..., None], rest[..., :, j] / root[..., None], 0.0)
        column = jnp.where(jnp.arange(n) >= j, column, 0.0)
        columns.append(column)
        rest = rest - column[..., :, None] * column[..., None, :]
    return jnp.stack(columns, axis=-1)


def realised(gram: jax.Array, key: jax.Array, d: int) -> jax.Array:
    r"""Vectors (n, d) with exactly the Gram matrix ``gram`` (n, n), times d, and a random orientation.

    W = sqrt(d) L U, L L^T = gram, with U orthonormal rows of a random frame.
    """
    if d >= gram.shape[0]:
        factor = gram_factor(gram)
    else:  # fewer dimensions than vectors: keep the d leading directions; the others vanish or it is refused
        values, vectors = jnp.linalg.eigh(gram)
        factor = vectors[:, -d:] * jnp.sqrt(jnp.maximum(values[-d:], 0.0))
    frame, _ = jnp.linalg.qr(jax.random.normal(key, (d, factor.shape[1])))
    return jnp.sqrt(d) * factor @ frame.T


def pseudo_inverse(C: jax.Array, tolerance: float = 1e-12) -> jax.Array:
    """Moore-Penrose inverse of a symmetric positive semi-definite matrix (last two axes)."""
    values, vectors = jnp.linalg.eigh(C)
    good = values > tolerance * jnp.maximum(values[..., -1:], 1e-300)
    inverse = jnp.where(good, 1 / jnp.where(good, values, 1.0), 0.0)
    return (vectors * inverse[..., None, :]) @ jnp.swapaxes(vectors, -1, -2)


def nearest_psd(C: jax.Array) -> jax.Array:
    """The nearest positive semi-definite matrix in the Frobenius norm: negative eigenvalues set to zero."""
    values, vectors = jnp.linalg.eigh(C)
    return (vectors * jnp.maximum(values, 0.0)[..., None, :]) @ jnp.swapaxes(vectors, -1, -2)
