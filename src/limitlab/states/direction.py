"""One direction w beside the teacher's: the order parameters that descent, fits and message passing report.

Finite sizes and limits report the same, so their words stand here, below both.
"""

from typing import ClassVar

import numpy as np

from limitlab.states.request import second_times
from limitlab.states.view import RUN, AbstractView, Variable

__all__ = ["Belief", "Direction", "MatrixBelief", "TwoTimes", "correlations", "keeps_two_times", "two_times_held"]


PAIRS = ("student", "student_2")  # of units; one direction has none
MODEST = 2**21  # numbers of a correlation of two times that are kept unasked (16 MiB)


class Direction:
    """An estimate w of the teacher's w*, and what it pays on old and new samples."""

    variables: ClassVar[dict[str, Variable]] = {
        **AbstractView.variables,
        "m": Variable(
            (*RUN, "particle", "latent"),
            "overlap of the estimate with the teacher (m = w C w*/d)",
        ),
        "q": Variable((*RUN, "particle"), "squared norm of the estimate over d (q = w C w/d)"),
        "mse": Variable(RUN, "mean squared error on the teacher's weights"),
        "train_loss": Variable(RUN, "loss averaged over the data set"),
        "generalisation_error": Variable(RUN, "probability or cost of a wrong label on a new sample"),
        "label_mse": Variable(RUN, "mean squared error of the predicted label of a new sample"),
    }


class Belief(Direction):
    """An estimate that knows its own variance: conjugates, free entropy, and where the iteration ends."""

    variables: ClassVar[dict[str, Variable]] = {
        **Direction.variables,
        "V": Variable(RUN, "posterior variance per weight"),
        "m_hat": Variable((*RUN, "overlap"), "conjugate of m"),
        "q_hat": Variable(RUN, "conjugate of q"),
        "V_hat": Variable(RUN, "conjugate of V"),
        "free_entropy": Variable((*RUN, "overlap"), "free entropy per dimension"),
        "m_fixed": Variable((), "overlap at the fixed point"),
        "q_fixed": Variable((), "squared norm over d at the fixed point"),
        "V_fixed": Variable((), "posterior variance at the fixed point"),
        "mse_fixed": Variable((), "mean squared error on the weights at the fixed point"),
        "generalisation_error_fixed": Variable((), "error on a new label at the fixed point"),
    }


class MatrixBelief:
    """Estimates of several directions: what is told beside the overlap M (teacher, teacher_2)."""

    variables: ClassVar[dict[str, Variable]] = {
        "M_eigenvalues": Variable((*RUN, "teacher"), "eigenvalues of M in the limit, the largest first"),
        "M_singular_values": Variable((*RUN, "teacher"), "singular values of M at finite size, the largest first"),
        "M_branch": Variable(("branch", "teacher", "teacher_2"), "M at every fixed point that was found"),
        "free_entropy_branch": Variable(("branch",), "free entropy at every fixed point that was found"),
        "M_fixed": Variable(("teacher", "teacher_2"), "M at the fixed point"),
    }


class TwoTimes(Direction):
    """A direction that moves: how it correlates with and answers to what it was before."""

    variables: ClassVar[dict[str, Variable]] = {
        **Direction.variables,
        "C": Variable((*RUN, "time_2", *PAIRS), "two-time correlation"),
        "R": Variable((*RUN, "time_2", *PAIRS), "two-time response"),
        "M_C": Variable((*RUN, "time_2", *PAIRS), "memory kernel: covariance of the effective noise"),
        "M_R": Variable((*RUN, "time_2", *PAIRS), "memory kernel: response of the forces"),
        "nu": Variable((*RUN, "student"), "multiplier that keeps the norm, or the ridge"),
        "delta_nu": Variable((*RUN, *PAIRS), "alpha times the mean curvature of the loss"),
        "residual": Variable(RUN, "how far an exact identity is violated"),
    }


def keeps_two_times(times: np.ndarray, replicas: int, units: int, d: int) -> bool:
    """Whether weights at all times fit, and their correlations of two times: few enough numbers to be kept unasked."""
    pairs = len(times) * len(second_times(times)) * units**2
    return max(replicas * pairs, len(times) * units * d) <= MODEST


def two_times_held(times: np.ndarray, replicas: int, units: int, d: int) -> int:
    """How many numbers that is, weights and correlations; 0 if they are not kept."""
    if not keeps_two_times(times, replicas, units, d):
        return 0
    return 2 * len(times) * (units * d + replicas * len(second_times(times)) * units**2)


def correlations(W: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """w_i(t).w_j(t')/d (time, time_2, p, p) of weights W (time, p, d), t' being the times of the grid."""
    times, p, d = W.shape
    flat = W.reshape(-1, d)
    C = flat @ W[grid].reshape(-1, d).T / d
    return C.reshape(times, p, len(grid), p).swapaxes(1, 2)
