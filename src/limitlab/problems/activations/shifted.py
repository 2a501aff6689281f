"""Activations moved along their argument."""

from limitlab.modules import field
from limitlab.problems.activations.base import AbstractActivation

__all__ = ["Shifted"]


class Shifted(AbstractActivation):
    r"""The activation ``base`` moved to the left: :math:`\sigma(x + \mathrm{by})`."""

    base: AbstractActivation = field(static=True)
    by: float = field(static=True)

    @property
    def name(self):
        return f"shifted({self.base.name}, {self.by!r})"

    @property
    def named(self):
        return self.base.named

    def __repr__(self):
        return super().__repr__() if self.named else f"shifted({self.base!r}, {self.by!r})"

    def function(self, x):
        return self.base.function(x + self.by)

    def derivative(self, x):
        return self.base.derivative(x + self.by)

    def pieces(self):
        inside = self.base.pieces()
        return None if inside is None else inside.moved(self.by)

    def smoothed(self, by, widest):
        return self.base.smoothed(by + self.by, widest)
