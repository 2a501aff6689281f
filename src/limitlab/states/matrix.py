r"""What is seen of a student of squares that retrieves a phase: one positive matrix.

.. math:: A = WW^T/m, \quad A^* = w^* w^{*T}, \quad D = A - A^*, \qquad
          \mathrm{risk} = \kappa\, E r^2 = \kappa\, \frac{2\,\mathrm{tr} D^2 + (\mathrm{tr} D)^2}{d^2}, \quad
          \mathrm{error} = \frac{|D|_F^2}{|A^*|_F^2}

A state is a factor V (d, r) with A = V V^T.
"""

from typing import Any, NamedTuple

import numpy as np

from limitlab.states.direction import Direction
from limitlab.states.success import ERROR, first_below
from limitlab.states.view import RUN, AbstractView, Variable

__all__ = [
    "NOTHING",
    "Instance",
    "Retrieved",
    "look",
    "matrix_attrs",
    "matrix_risk",
    "matrix_variables",
    "relative_error",
]


class Instance(NamedTuple):
    """Inputs X (n, d), squared labels b (n,), teacher w* (d,)."""

    X: np.ndarray
    b: np.ndarray
    teacher: np.ndarray


class Retrieved(NamedTuple):
    """How much of the teacher's matrix a state has."""

    risk: float
    train_loss: float
    error: float

    variables = {  # noqa: RUF012 (a field, if it had a type)
        **AbstractView.variables,
        "train_loss": Direction.variables["train_loss"],
        "error": Variable(RUN, "squared distance from the teacher over its squared norm, of w w^T or of the output"),
    }


NOTHING = Retrieved(np.nan, np.nan, np.nan)


def look(instance: Instance, V: np.ndarray, kappa: float) -> Retrieved:
    """What is seen of the state V."""
    X, b, w = instance
    H, D = X @ V, V @ V.T - np.outer(w, w)
    square, trace = float(np.sum(np.square(D))), float(np.trace(D))
    train = float(np.mean(np.square(b - np.einsum("ij,ij->i", H, H))))
    return Retrieved(kappa * (2 * square + trace**2) / len(w) ** 2, kappa * train, square / float(w @ w) ** 2)


def relative_error(Q: np.ndarray, M: np.ndarray, P: np.ndarray) -> np.ndarray:
    r"""The same error from overlaps Q (..., m, m), M (..., m, 1), P (..., 1, 1) of m units with one direction."""
    return _square(Q, M, P) / np.square(P[..., 0, 0])


def matrix_risk(Q: np.ndarray, M: np.ndarray, P: np.ndarray, kappa: float) -> np.ndarray:
    """The same risk from overlaps."""
    trace = np.trace(Q, axis1=-2, axis2=-1) / Q.shape[-1] - P[..., 0, 0]
    return kappa * (2 * _square(Q, M, P) + np.square(trace))


def _square(Q, M, P):
    """tr D^2/d^2."""
    m = Q.shape[-1]
    own, cross = np.sum(np.square(Q), axis=(-1, -2)) / m**2, np.sum(np.square(M), axis=(-1, -2)) / m
    return own - 2 * cross + np.square(P[..., 0, 0])


def matrix_variables(
    times: np.ndarray, seen: list[list[Retrieved]], status: list[str], end: list[float]
) -> dict[str, tuple[Any, Any]]:
    """What `look` saw, by replica and time, in the schema."""
    risk, train, error = np.moveaxis(np.array(seen, float), -1, 0).swapaxes(1, 2)  # (time, replica) each
    run = ("time", "replica")
    return {
        "risk": (run, risk),
        "train_loss": (run, train),
        "error": (run, error),
        **first_below(error, times),
        "status": ("replica", status),
        "end_time": ("replica", np.array(end, float)),
    }


def matrix_attrs(kappa: float) -> dict[str, Any]:
    """What success means, and how the clock s of dA/ds = S A + A S runs."""
    return {**ERROR.attrs, "s_per_time": 4 * kappa}
