"""Activations: functions of one field, and their averages."""

from limitlab.problems.activations.base import AbstractActivation, Activation, Pieces
from limitlab.problems.activations.piecewise import piecewise
from limitlab.problems.activations.polynomial import hermite
from limitlab.problems.activations.text import ACTIVATIONS, activation, shifted

__all__ = [
    "ACTIVATIONS",
    "AbstractActivation",
    "Activation",
    "Pieces",
    "activation",
    "hermite",
    "piecewise",
    "shifted",
]
