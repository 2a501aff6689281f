"""A start made of the data."""

from typing import ClassVar

from limitlab.numerics.checks import check_number
from limitlab.problems.starts.base import AbstractStart

__all__ = ["SpectralStart"]


class SpectralStart(AbstractStart):
    r"""The leading eigenvector u of a matrix made of the data, for channels that do not see the sign of z.

    .. math:: X^T \mathrm{diag}(T(y)) X, \quad T(y) = 1 - \frac{\rho}{E[z^2|y]}, \qquad
              a = \sqrt{\mathrm{overlap}\, \rho\, d}\; u, \quad v = (1 - \mathrm{overlap})\,\rho

    with T kept above -20 (``E[z^2|y]`` may be 0). It needs data: it has no law of overlaps apart from them.

    Parameters
    ----------
    overlap
        The overlap m/rho that the eigenvector is taken to have; between weak and perfect, 0.3 is a fair guess.
    """

    reference: ClassVar[tuple[str, ...]] = ("mondelli2019fundamental",)

    overlap: float = 0.3

    def __check_init__(self):
        check_number(
            "SpectralStart", "overlap", self.overlap, low=0, high=1, open_low=True, open_high=True, remedy="Use 0.3."
        )

    @property
    def random(self) -> bool:
        return True
