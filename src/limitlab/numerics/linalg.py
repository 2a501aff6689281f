"""Small dense linear algebra that tolerates singular Gram matrices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.random import normal

__all__ = ["gram_factor", "leading_vector", "nearest_psd", "on_sphere", "pseudo_inverse", "realised"]

LANCZOS_STEPS = 80


def _home(C: Any) -> Any:
    """NumPy for its own arrays, whose operations are no programs; else JAX."""
    return np if isinstance(C, np.ndarray) else jnp


def gram_factor(C: Any, tolerance: float = 1e-14) -> Any:
    r"""Lower-triangular L with L L^T = C for a positive semi-definite C; a vanishing pivot gives a zero column.

    Works on the last two axes of any batch; unrolled over the columns, because a batch of small factorisations
    is faster this way than through LAPACK and can be differentiated forwards.
    """
    xp, n = _home(C), C.shape[-1]
    scale = xp.diagonal(C, axis1=-2, axis2=-1)
    rest, columns = C, []
    for j in range(n):
        pivot = rest[..., j, j]
        good = pivot > tolerance * scale[..., j]
        root = xp.sqrt(xp.where(good, pivot, 1.0))
        column = xp.where(good[..., None], rest[..., :, j] / root[..., None], 0.0)
        column = xp.where(xp.arange(n) >= j, column, 0.0)
        columns.append(column)
        rest = rest - column[..., :, None] * column[..., None, :]
    return xp.stack(columns, axis=-1)


def realised(gram: jax.Array, key: jax.Array, d: int) -> jax.Array:
    r"""Vectors (n, d) with exactly the Gram matrix ``gram`` (n, n), times d, and a random orientation.

    W = sqrt(d) L U, L L^T = gram, with U orthonormal rows of a random frame.
    """
    if d >= gram.shape[0]:
        factor = gram_factor(gram)
    else:  # fewer dimensions than vectors: keep the d leading directions; the others vanish or it is refused
        values, vectors = jnp.linalg.eigh(gram)
        factor = vectors[:, -d:] * jnp.sqrt(jnp.maximum(values[-d:], 0.0))
    frame, _ = jnp.linalg.qr(normal(key, (d, factor.shape[1])))
    return jnp.sqrt(d) * factor @ frame.T


def on_sphere(w: jax.Array) -> jax.Array:
    """The vector w (d,) at length sqrt(d)."""
    return w * jnp.sqrt(w.shape[0] / (w @ w))


def pseudo_inverse(C: jax.Array, tolerance: float = 1e-12) -> jax.Array:
    """Moore-Penrose inverse of a symmetric positive semi-definite matrix (last two axes)."""
    values, vectors = jnp.linalg.eigh(C)
    good = values > tolerance * jnp.maximum(values[..., -1:], 1e-300)
    inverse = jnp.where(good, 1 / jnp.where(good, values, 1.0), 0.0)
    return (vectors * inverse[..., None, :]) @ jnp.swapaxes(vectors, -1, -2)


def nearest_psd(C: Any) -> Any:
    """The nearest positive semi-definite matrix in the Frobenius norm: negative eigenvalues set to zero."""
    xp = _home(C)
    values, vectors = xp.linalg.eigh(C)
    return (vectors * xp.maximum(values, 0.0)[..., None, :]) @ xp.swapaxes(vectors, -1, -2)


def leading_vector(X: jax.Array, T: jax.Array, guess: jax.Array, steps: int = LANCZOS_STEPS) -> jax.Array:
    r"""The unit eigenvector of X^T diag(T) X with the largest eigenvalue, by Lanczos from ``guess``.

    The basis is kept orthogonal by projecting twice; it stops growing once it spans an invariant space.
    """
    d = X.shape[1]
    steps = min(steps, d)
    T = T.astype(X.dtype)

    def times(u):
        return (((X @ u.astype(X.dtype)) * T) @ X).astype(float)

    def body(carry, k):
        basis, u, alive = carry
        basis = basis.at[k].set(u)
        Mu = times(u)
        rest = Mu - basis.T @ (basis @ Mu)
        rest = rest - basis.T @ (basis @ rest)
        size = jnp.linalg.norm(rest)
        alive = alive & (size > 1e-6 * jnp.linalg.norm(Mu))
        return (basis, jnp.where(alive, rest / jnp.where(alive, size, 1.0), 0.0), alive), Mu

    start = (jnp.zeros((steps, d)), guess / jnp.linalg.norm(guess), jnp.asarray(True))
    (basis, _, _), images = jax.lax.scan(body, start, jnp.arange(steps))
    small = basis @ images.T
    # Rows that were never filled are zero; they must not win when all real eigenvalues are negative.
    empty = jnp.sum(jnp.square(basis), axis=1) < 0.5
    small = (small + small.T) / 2 - jnp.diag(jnp.where(empty, 1e6 * (1 + jnp.max(jnp.abs(small))), 0.0))
    u = jnp.linalg.eigh(small)[1][:, -1] @ basis
    return u / jnp.linalg.norm(u)
