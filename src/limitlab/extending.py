"""What parts of your own are made of, beside the abstract classes: records that their methods give and take.

The abstract classes themselves are public names (``limitlab.AbstractLoss`` and so on), and `limitlab.testing` checks
what you wrote.
"""

from limitlab.algorithms.descent.rule import AbstractDescentRule
from limitlab.algorithms.one_pass.base import AbstractOnePass
from limitlab.algorithms.one_pass.setting import Sample
from limitlab.numerics.machine import Memory
from limitlab.problems.asked import Asked
from limitlab.problems.base import Pace, Points, Response
from limitlab.problems.channels.base import Law, Output
from limitlab.problems.inputs import AbstractLabelledInputs
from limitlab.problems.losses.base import AbstractConvexLoss, Proximal
from limitlab.problems.networks import Network
from limitlab.problems.priors.base import Posterior
from limitlab.results.schema import dataset
from limitlab.states.request import Request, Seen
from limitlab.states.run import Learner
from limitlab.states.view import Variable
from limitlab.verbs import tell

__all__ = [
    "AbstractConvexLoss",
    "AbstractDescentRule",
    "AbstractLabelledInputs",
    "AbstractOnePass",
    "Asked",
    "Law",
    "Learner",
    "Memory",
    "Network",
    "Output",
    "Pace",
    "Points",
    "Posterior",
    "Proximal",
    "Request",
    "Response",
    "Sample",
    "Seen",
    "Variable",
    "dataset",
    "tell",
]
