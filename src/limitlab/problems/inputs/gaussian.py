"""Normal inputs."""

import jax.numpy as jnp

from limitlab._setup import double
from limitlab.errors import InputError
from limitlab.numerics.random import normal
from limitlab.problems.base import AbstractInputs
from limitlab.problems.inputs.spectra import AbstractSpectrum

__all__ = ["Gaussian"]


class Gaussian(AbstractInputs):
    r""":math:`x \sim N(0, I_d/d)`, or :math:`N(0, C/d)` with the eigenvalues of a ``spectrum``.

    With a spectrum the overlaps of a result are those of fields: m = w C w*/d, q = w C w/d.
    """

    spectrum: AbstractSpectrum | None = None

    @double
    def __check_init__(self):
        if self.spectrum is None:
            return
        if not isinstance(self.spectrum, AbstractSpectrum):
            raise InputError(
                f"Gaussian.spectrum must be a spectrum such as Spectrum([0.5, 1.5]); got {self.spectrum!r}. Leave it "
                "out for x ~ N(0, I/d)."
            )
        self.spectrum.check_finite()

    @property
    def normal(self):
        return self.spectrum is None

    @property
    def modes(self):
        return None if self.spectrum is None else self.spectrum.atoms

    def draw(self, key, count, d, dtype=float):
        x = normal(key, (count, d), dtype) / jnp.sqrt(jnp.asarray(d, dtype))
        return x if self.spectrum is None else x * jnp.asarray(self.spectrum.atoms.deviations(d), dtype)

    def check(self, d):
        modes = self.modes
        if modes is not None and not modes.smooth and d < modes.count:
            raise InputError(
                f"d must be at least {modes.count}, the number of eigenvalues of {type(self.spectrum).__name__}: each "
                f"stands for a share of the d coordinates; got d={d}. Use a larger d, or a spectrum with fewer."
            )
