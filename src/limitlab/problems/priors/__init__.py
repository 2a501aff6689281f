"""Laws of a single teacher weight, one file each."""

from limitlab.problems.priors.base import AbstractPrior, BayesWeights, Posterior
from limitlab.problems.priors.gauss_bernoulli import GaussBernoulliPrior
from limitlab.problems.priors.gaussian import GaussianPrior
from limitlab.problems.priors.laplace import LaplacePrior
from limitlab.problems.priors.rademacher import RademacherPrior

__all__ = [
    "AbstractPrior",
    "BayesWeights",
    "GaussBernoulliPrior",
    "GaussianPrior",
    "LaplacePrior",
    "Posterior",
    "RademacherPrior",
]
