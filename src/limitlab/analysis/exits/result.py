"""The result of an exit-time question."""

from limitlab.modules import Module, field
from limitlab.text import Record

__all__ = ["ExitTime"]


class ExitTime(Record, Module):
    """An exit time and what it is worth.

    Attributes
    ----------
    time, samples
        Mean over the starts or runs that reach the threshold; infinite if none does. ``float(exit)`` is the
        time.
    stderr
        Standard error of ``time`` (0 for a deterministic number).
    fraction_reached
        Share of starts or runs that reach it. ``reached`` is True only if all do.
    formula
        How the time was obtained.
    note
        What a reader must know, in words; "" if nothing.
    """

    time: float
    samples: float
    stderr: float
    fraction_reached: float
    threshold: float
    formula: str = field(static=True)
    note: str = field(static=True, default="")

    @property
    def reached(self) -> bool:
        return self.fraction_reached == 1.0

    def __float__(self) -> float:
        return self.time

    def __str__(self) -> str:
        error = f" +- {self.stderr:.2g}" if self.stderr > 0 else ""
        head = f"t = {self.time:.5g}{error}, n = {self.samples:.4g} samples"
        head += f" ({self.formula}, T = {self.threshold:g})"
        if not self.reached:
            head += f"; reached by a share {self.fraction_reached:.3g}"
        return f"{head}. {self.note}".rstrip()
