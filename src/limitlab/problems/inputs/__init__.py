"""Where the inputs come from. All are scaled so that |x|^2 is about 1."""

from limitlab.problems.base import AbstractInputs
from limitlab.problems.inputs.custom import CustomInputs
from limitlab.problems.inputs.gaussian import Gaussian
from limitlab.problems.inputs.hypercube import Hypercube
from limitlab.problems.inputs.labelled import AbstractLabelledInputs
from limitlab.problems.inputs.mixtures import AnisotropicMixture, IsotropicMixture

__all__ = [
    "AbstractInputs",
    "AbstractLabelledInputs",
    "AnisotropicMixture",
    "CustomInputs",
    "Gaussian",
    "Hypercube",
    "IsotropicMixture",
]
