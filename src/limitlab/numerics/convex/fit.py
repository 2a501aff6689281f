"""What a solver returns: weights with a measured violation of the optimality conditions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

__all__ = ["TOLERANCE", "Fit", "calm", "in_span", "undefined", "verdict"]

TOLERANCE = 1e-8  # of the optimality conditions, relative to their largest term
SMALL = 2500


class Fit(NamedTuple):
    """Weights, status ("ok", "not_converged", "undefined"), the optimality error, and words if not ok."""

    w: np.ndarray
    status: str
    error: float
    words: str = ""


def undefined(d: int, words: str) -> Fit:
    """There is no minimiser, or no single one."""
    return Fit(np.full(d, np.nan), "undefined", np.nan, words)


def verdict(w: np.ndarray, error: Any, what: str) -> Fit:
    """What was found, judged by its optimality error."""
    if np.isfinite(error) and error < TOLERANCE:
        return Fit(w, "ok", float(error))
    return Fit(w, "not_converged", float(error), f"{what} stopped with an optimality error of {error:.1e}.")


@contextmanager
def calm(X: np.ndarray) -> Iterator[None]:
    """Threads of the linear algebra gain nothing on small matrices and wait for each other on a busy machine."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1 if min(X.shape) < SMALL else None):
        yield


def in_span(solve: Callable[[np.ndarray], Fit], X: np.ndarray) -> Fit:
    """The fit of n >= d rows; of fewer rows it lies in their span: w = Q c, X w = R^T c."""
    n, d = X.shape
    with calm(X):
        if n >= d:
            return solve(X)
        Q, R = np.linalg.qr(X.T)
        small = solve(np.ascontiguousarray(R.T))
        return small._replace(w=Q @ small.w)
