r"""The overlap that a signal of matrix A leaves of weights with a prior.

.. math:: B = A w_0 + A^{1/2} \xi, \qquad M = E[w_0 f_a(A, B)^T], \qquad \Phi_w = E \log Z_w(A, B)
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np

from limitlab.macro.multi.information import root

__all__ = ["MatrixWeights", "gaussian_weights", "sign_weights", "weights_of"]

AXIS = {1: 61, 2: 41, 3: 21}
REACH = 7.0


class MatrixWeights(NamedTuple):
    """The overlap M, and Phi_w."""

    M: np.ndarray
    phi: float


def weights_of(gaussian: bool):
    """How M follows from A: `gaussian_weights`, or `sign_weights` for +-1."""
    return gaussian_weights if gaussian else sign_weights


def gaussian_weights(A: np.ndarray) -> MatrixWeights:
    r"""M = A (I + A)^{-1}, Phi_w = [tr A - log det(I + A)]/2."""
    M = np.linalg.solve(np.eye(len(A)) + A, A)
    return MatrixWeights((M + M.T) / 2, float(np.trace(A) - np.linalg.slogdet(np.eye(len(A)) + A)[1]) / 2)


def sign_weights(A: np.ndarray) -> MatrixWeights:
    r"""Weights +-1: sums over the 2^K of them, and a trapezoidal rule for the noise."""
    K = len(A)
    states, xi, p = _noise(K)
    half = root(A)
    M, phi = np.zeros((K, K)), 0.0
    size = np.einsum("si,ij,sj->s", states, A, states) / 2
    truths = states[: len(states) // 2]  # the others are their mirror images
    for w0 in truths:
        h = (A @ w0 + xi @ half) @ states.T - size
        top = h.max(axis=1, keepdims=True)
        weight = np.exp(h - top)
        total = weight.sum(axis=1, keepdims=True)
        M += np.outer(w0, p @ (weight / total @ states)) / len(truths)
        phi += float(p @ (np.log(total[:, 0] / len(states)) + top[:, 0])) / len(truths)
    return MatrixWeights((M + M.T) / 2, phi)


@functools.cache
def _noise(K: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    states = np.array(list(itertools.product([1.0, -1.0], repeat=K)))
    axis = np.linspace(-REACH, REACH, AXIS[K])
    xi = np.array(list(itertools.product(axis, repeat=K)))
    p = np.exp(-np.sum(xi**2, axis=1) / 2)
    keep = p > 1e-11
    return states, xi[keep], p[keep] / p[keep].sum()
