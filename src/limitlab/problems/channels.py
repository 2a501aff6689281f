"""How a label y comes from the teacher's output z."""

import equinox as eqx

from limitlab.numerics.checks import check_number

__all__ = [
    "AbstractChannel",
    "Door",
    "GaussianNoise",
    "Logistic",
    "Modulus",
    "Rectified",
    "Sign",
    "SquaredModulus",
]


def _variance(channel: "AbstractChannel") -> None:
    check_number(
        type(channel).__name__,
        "variance",
        channel.variance,  # type: ignore[attr-defined]
        low=0,
        remedy="It is the variance of the label noise: use 0 for none.",
    )


class AbstractChannel(eqx.Module):
    """A law of labels given the teacher's output."""


class GaussianNoise(AbstractChannel):
    r""":math:`y = z + \sqrt{\mathrm{variance}}\,\xi`."""

    variance: float = 0.0

    def __check_init__(self):
        _variance(self)


class Sign(AbstractChannel):
    r""":math:`y = \mathrm{sign}(z + \sqrt{\mathrm{variance}}\,\xi)`, then flipped with probability ``flip``."""

    variance: float = 0.0
    flip: float = 0.0

    def __check_init__(self):
        _variance(self)
        check_number("Sign", "flip", self.flip, low=0, high=0.5, open_high=True, remedy="Use 0 <= flip < 0.5.")


class Modulus(AbstractChannel):
    r""":math:`y = |z| + \sqrt{\mathrm{variance}}\,\xi`."""

    variance: float = 0.0

    def __check_init__(self):
        _variance(self)


class SquaredModulus(AbstractChannel):
    r""":math:`y = z^2 + \sqrt{\mathrm{variance}}\,\xi`."""

    variance: float = 0.0

    def __check_init__(self):
        _variance(self)


class Rectified(AbstractChannel):
    r""":math:`y = \max(z, 0) + \sqrt{\mathrm{variance}}\,\xi`."""

    variance: float = 0.0

    def __check_init__(self):
        _variance(self)


class Logistic(AbstractChannel):
    r""":math:`P(y = \pm 1) = 1/(1 + e^{-yz})`."""


class Door(AbstractChannel):
    r""":math:`y = \mathrm{sign}(|z| - \mathrm{width})`."""

    width: float

    def __check_init__(self):
        check_number("Door", "width", self.width, low=0, open_low=True, remedy="Use a positive width.")
