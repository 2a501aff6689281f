"""Overlap matrices of starts."""

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.checks import check_array, check_psd

__all__ = ["check_matrix", "check_teacher_gram", "matrix", "optional_matrix", "root", "teacher_gram"]

MAX_OVERLAP = 1e100  # entries of overlap matrices: products of larger ones may overflow


def matrix(value) -> np.ndarray:
    return np.atleast_2d(check_array("The entries of a matrix of overlaps", value))


def optional_matrix(value) -> np.ndarray | None:
    return None if value is None else matrix(value)


def check_matrix(owner: str, name: str, matrix: np.ndarray) -> None:
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(f"{owner}.{name} must be a matrix of numbers, row by row; got shape {matrix.shape}.")
    largest = float(np.max(np.abs(matrix)))
    if not largest <= MAX_OVERLAP:
        raise InputError(
            f"{owner}.{name} must have finite entries of size at most {MAX_OVERLAP:g}; the largest is {largest:g}. "
            "Overlaps are of order 1."
        )


def check_teacher_gram(owner: str, P: np.ndarray) -> None:
    check_matrix(owner, "P", P)
    if P.shape[0] != P.shape[1]:
        raise InputError(f"{owner}.P must be a square matrix (teacher, teacher); got shape {P.shape}.")
    check_psd(owner, "P", P)


def teacher_gram(P, k: int) -> jax.Array:
    if P is None:
        return jnp.eye(k)
    if P.shape != (k, k):
        raise InputError(f"RandomStart.P must have shape {(k, k)}, one row per teacher unit; got {P.shape}.")
    return jnp.asarray(P)


def root(P: jax.Array) -> jax.Array:
    values, vectors = jnp.linalg.eigh(P)
    return (vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
