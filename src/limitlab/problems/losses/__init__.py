"""What the learner pays for an output f when the label is y, one family a file."""

from limitlab.problems.losses.base import AbstractConvexLoss, AbstractLoss, Misfit, Proximal
from limitlab.problems.losses.custom import CustomLoss
from limitlab.problems.losses.margin import HingeLoss, LogisticLoss, MaxMargin, SquaredHingeLoss
from limitlab.problems.losses.phase_retrieval import AmplitudeLoss, PhaseRetrievalLoss
from limitlab.problems.losses.residual import HuberLoss, PseudoHuberLoss, SquareLoss

__all__ = [
    "AbstractConvexLoss",
    "AbstractLoss",
    "AmplitudeLoss",
    "CustomLoss",
    "HingeLoss",
    "HuberLoss",
    "LogisticLoss",
    "MaxMargin",
    "Misfit",
    "PhaseRetrievalLoss",
    "Proximal",
    "PseudoHuberLoss",
    "SquareLoss",
    "SquaredHingeLoss",
]
