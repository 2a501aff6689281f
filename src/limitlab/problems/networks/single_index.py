"""One direction."""

from typing import ClassVar

from limitlab.errors import InputError
from limitlab.problems.base import AbstractTeacher
from limitlab.problems.priors import AbstractPrior

__all__ = ["SingleIndex"]


class SingleIndex(AbstractTeacher):
    r"""One direction with independent weights: :math:`z = w \cdot x`, :math:`w_i \sim` ``prior``.

    Weights of a `GaussianPrior` are drawn on the sphere :math:`|w|^2 = \mathrm{variance}\, d`, so that runs at finite d
    do not scatter with the norm of the teacher; those of other priors are left as drawn.
    """

    by_fields: ClassVar[bool] = True

    prior: AbstractPrior

    def __check_init__(self):
        if not isinstance(self.prior, AbstractPrior):
            raise InputError(f"SingleIndex.prior must be a prior such as GaussianPrior(); got {self.prior!r}.")

    @property
    def units(self):
        return 1

    @property
    def moment(self):
        return self.prior.second_moment

    @property
    def parity(self):
        return -1

    def draw(self, key, d):
        return self.prior.vector(key, d)

    def draw_on(self, inputs, key, d):
        modes = inputs.modes
        if modes is None:
            return self.draw(key, d)
        return self.prior.blocks(key, modes.places(d), modes.squares(self.prior.second_moment))

    def off_spectrum(self, modes):
        if modes.t2 is None or (self.prior.gaussian and float(self.prior.second_moment) == 1):
            return None
        return (
            "teacher=SingleIndex(GaussianPrior(1)) beside a spectrum that says what the teacher is (PowerLaw, or "
            "Spectrum with `teacher`)",
            self,
            "Use that prior: its size is in the spectrum. Or leave `teacher` out of the spectrum.",
        )

    def output(self, weights, x):
        return x @ weights.astype(x.dtype)

    def link(self, fields):
        return fields[:, 0]

    def directions(self, weights):
        return weights[None, :]
