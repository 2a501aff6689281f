"""The units of a network at time 0, one by one."""

from typing import NamedTuple

import numpy as np

__all__ = ["Neurons"]


class Neurons(NamedTuple):
    r"""The law of one unit where all are alike, independent, and know no direction.

    :math:`w_{ij} \sim N(0, \mathrm{scale}^2)`, or w on the sphere of radius ``scale`` sqrt(d) with ``sphere``; the
    second layer a is one of the ``given`` weights, each as likely as the others, or else ``layer_scale`` times a draw
    of the ``layer`` "ones", "rademacher", "uniform" on [-1, 1] or "gaussian"; biases are N(0, bias_scale^2).
    """

    scale: float
    sphere: bool = False
    layer: str = "ones"
    given: np.ndarray | None = None
    bias_scale: float = 0.0
    layer_scale: float = 1.0
