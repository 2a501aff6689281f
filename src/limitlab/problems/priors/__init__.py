"""Laws of a single teacher weight, one file each."""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace

if TYPE_CHECKING:  # a kind is loaded when it is first asked for
    from limitlab.problems.priors.base import AbstractPrior as AbstractPrior
    from limitlab.problems.priors.base import BayesWeights as BayesWeights
    from limitlab.problems.priors.base import Posterior as Posterior
    from limitlab.problems.priors.gauss_bernoulli import GaussBernoulliPrior as GaussBernoulliPrior
    from limitlab.problems.priors.gaussian import GaussianPrior as GaussianPrior
    from limitlab.problems.priors.laplace import LaplacePrior as LaplacePrior
    from limitlab.problems.priors.rademacher import RademacherPrior as RademacherPrior
else:
    __getattr__, __dir__, __all__ = namespace(__name__)
