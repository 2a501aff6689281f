"""Where the inputs come from. All are scaled so that |x|^2 is about 1."""

import equinox as eqx

from limitlab.numerics.checks import check_number

__all__ = ["AbstractInputs", "AnisotropicMixture", "Gaussian", "Hypercube", "IsotropicMixture"]


class AbstractInputs(eqx.Module):
    """A law of inputs x in d dimensions with E|x|^2 about 1."""


class Gaussian(AbstractInputs):
    r""":math:`x \sim N(0, I_d/d)`."""


class Hypercube(AbstractInputs):
    r""":math:`x` uniform on :math:`\{-1, 1\}^d/\sqrt d`."""


class IsotropicMixture(AbstractInputs):
    r""":math:`y = \pm 1` with equal odds, :math:`x = (1 + y\,\mathrm{delta})\,z`, :math:`z \sim N(0, I_d/d)`."""

    delta: float

    def __check_init__(self):
        check_number(
            "IsotropicMixture", "delta", self.delta, low=0, high=1, open_high=True, remedy="Use 0 <= delta < 1."
        )


class AnisotropicMixture(AbstractInputs):
    r"""As `IsotropicMixture` on a ``fraction`` of the coordinates; the others have variance 1/d in both classes."""

    delta: float
    fraction: float

    def __check_init__(self):
        check_number(
            "AnisotropicMixture", "delta", self.delta, low=0, high=1, open_high=True, remedy="Use 0 <= delta < 1."
        )
        check_number(
            "AnisotropicMixture", "fraction", self.fraction, low=0, high=1, remedy="It is a share of coordinates."
        )
