"""What the learner pays for an output f when the label is y."""

import equinox as eqx

from limitlab.numerics.checks import check_number

__all__ = ["AbstractLoss", "HingeLoss", "LogisticLoss", "MaxMargin", "PhaseRetrievalLoss", "SquareLoss"]


class AbstractLoss(eqx.Module):
    """A loss per sample."""


class SquareLoss(AbstractLoss):
    r""":math:`\tfrac12 (y - f)^2`."""


class LogisticLoss(AbstractLoss):
    r""":math:`\log(1 + e^{-yf})`."""


class HingeLoss(AbstractLoss):
    r""":math:`\max(0, 1 - yf)`."""


class MaxMargin(AbstractLoss):
    r"""0 if :math:`yf \ge 1`, else infinite: the least :math:`|w|` that puts every sample outside the margin."""


class PhaseRetrievalLoss(AbstractLoss):
    r""":math:`\mathrm{prefactor}\,(y^2 - f^2)^2`."""

    prefactor: float = 0.25

    def __check_init__(self):
        check_number(
            "PhaseRetrievalLoss", "prefactor", self.prefactor, low=0, open_low=True, remedy="Use a positive one."
        )
