"""Overlaps mode by mode, of inputs whose covariance has a spectrum.

With a spectrum ``m, q, M, Q, P`` are overlaps of fields, sum_k h_k c_k times those of mode k, and the squared norm of
the weights is a number of its own.
"""

from typing import Any, ClassVar

import numpy as np

from limitlab.problems.inputs import Modes
from limitlab.states.view import RUN, Variable

__all__ = ["ByMode", "mode_coordinates"]


class ByMode:
    """What is seen of the directions that share an eigenvalue."""

    variables: ClassVar[dict[str, Variable]] = {
        "squared_norm": Variable((*RUN, "student"), "squared norm |w|^2/d of the weights, whatever the inputs"),
        "m_mode": Variable((*RUN, "mode"), "w . w* per direction of a mode"),
        "q_mode": Variable((*RUN, "mode"), "|w|^2 per direction of a mode"),
        "M_mode": Variable((*RUN, "student", "teacher", "mode"), "w_i . w*_r per direction of a mode"),
        "Q_mode": Variable((*RUN, "student", "student_2", "mode"), "w_i . w_j per direction of a mode"),
    }


def mode_coordinates(modes: Modes) -> dict[str, Any]:
    """Eigenvalue and share of every mode."""
    return {
        "mode": np.arange(modes.count),
        "eigenvalue": ("mode", np.asarray(modes.c, float)),
        "share": ("mode", np.asarray(modes.h, float)),
    }
