"""Where learning starts."""

from typing import TYPE_CHECKING

from limitlab._lazy import namespace

if TYPE_CHECKING:  # a kind is loaded when it is first asked for
    from limitlab.problems.starts.base import AbstractStart as AbstractStart
    from limitlab.problems.starts.informed import InformedStart as InformedStart
    from limitlab.problems.starts.overlap import OverlapStart as OverlapStart
    from limitlab.problems.starts.random import RandomStart as RandomStart
    from limitlab.problems.starts.spectral import SpectralStart as SpectralStart
else:
    __getattr__, __dir__, __all__ = namespace(__name__)
