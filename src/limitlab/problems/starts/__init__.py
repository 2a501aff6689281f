"""Where learning starts."""

from limitlab.problems.starts.base import AbstractStart
from limitlab.problems.starts.informed import InformedStart
from limitlab.problems.starts.overlap import OverlapStart
from limitlab.problems.starts.random import RandomStart
from limitlab.problems.starts.spectral import SpectralStart

__all__ = ["AbstractStart", "InformedStart", "OverlapStart", "RandomStart", "SpectralStart"]
