"""What the learner pays for an output f when the label is y, one family a file."""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace

if TYPE_CHECKING:  # a kind is loaded when it is first asked for
    from limitlab.problems.losses.base import AbstractConvexLoss as AbstractConvexLoss
    from limitlab.problems.losses.base import AbstractLoss as AbstractLoss
    from limitlab.problems.losses.base import Misfit as Misfit
    from limitlab.problems.losses.base import Proximal as Proximal
    from limitlab.problems.losses.custom import CustomLoss as CustomLoss
    from limitlab.problems.losses.margin import HingeLoss as HingeLoss
    from limitlab.problems.losses.margin import LogisticLoss as LogisticLoss
    from limitlab.problems.losses.margin import MaxMargin as MaxMargin
    from limitlab.problems.losses.margin import SquaredHingeLoss as SquaredHingeLoss
    from limitlab.problems.losses.phase_retrieval import AmplitudeLoss as AmplitudeLoss
    from limitlab.problems.losses.phase_retrieval import PhaseRetrievalLoss as PhaseRetrievalLoss
    from limitlab.problems.losses.residual import HuberLoss as HuberLoss
    from limitlab.problems.losses.residual import PseudoHuberLoss as PseudoHuberLoss
    from limitlab.problems.losses.residual import SquareLoss as SquareLoss
else:
    __getattr__, __dir__, __all__ = namespace(__name__)
