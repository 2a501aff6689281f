"""Where the inputs come from. All are scaled so that |x|^2 is about 1."""

from limitlab.problems.base import AbstractInputs
from limitlab.problems.inputs.custom import CustomInputs
from limitlab.problems.inputs.gaussian import Gaussian
from limitlab.problems.inputs.hypercube import Hypercube
from limitlab.problems.inputs.labelled import AbstractLabelledInputs
from limitlab.problems.inputs.mixtures import AnisotropicMixture, IsotropicMixture
from limitlab.problems.inputs.modes import Modes
from limitlab.problems.inputs.spectra import AbstractSpectrum, MarchenkoPastur, PowerLaw, Spectrum

__all__ = [
    "AbstractInputs",
    "AbstractLabelledInputs",
    "AbstractSpectrum",
    "AnisotropicMixture",
    "CustomInputs",
    "Gaussian",
    "Hypercube",
    "IsotropicMixture",
    "MarchenkoPastur",
    "Modes",
    "PowerLaw",
    "Spectrum",
]
