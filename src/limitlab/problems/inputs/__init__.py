"""Where the inputs come from. All are scaled so that |x|^2 is about 1."""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace

if TYPE_CHECKING:  # a kind is loaded when it is first asked for
    from limitlab.problems.base import AbstractInputs as AbstractInputs
    from limitlab.problems.inputs.custom import CustomInputs as CustomInputs
    from limitlab.problems.inputs.gaussian import Gaussian as Gaussian
    from limitlab.problems.inputs.hypercube import Hypercube as Hypercube
    from limitlab.problems.inputs.labelled import AbstractLabelledInputs as AbstractLabelledInputs
    from limitlab.problems.inputs.mixtures import AnisotropicMixture as AnisotropicMixture
    from limitlab.problems.inputs.mixtures import IsotropicMixture as IsotropicMixture
    from limitlab.problems.inputs.modes import Modes as Modes
    from limitlab.problems.inputs.spectra import AbstractSpectrum as AbstractSpectrum
    from limitlab.problems.inputs.spectra import MarchenkoPastur as MarchenkoPastur
    from limitlab.problems.inputs.spectra import PowerLaw as PowerLaw
    from limitlab.problems.inputs.spectra import Spectrum as Spectrum
else:
    __getattr__, __dir__, __all__ = namespace(__name__)
