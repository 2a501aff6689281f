"""What entries read off their curves: when a level is crossed, and with which power a quantity grows."""

import numpy as np

__all__ = ["crossing", "power"]


def crossing(x, values, level: float) -> float:
    """The x at which the values first reach the level from below, by a straight line; NaN if they never do."""
    x, values = np.asarray(x, float), np.asarray(values, float)
    reached = np.nonzero(values >= level)[0]
    if len(reached) == 0:
        return np.nan
    i = int(reached[0])
    if i == 0:
        return float(x[0])
    share = (level - values[i - 1]) / (values[i] - values[i - 1])
    return float(x[i - 1] + share * (x[i] - x[i - 1]))


def power(x, y, error=None) -> tuple[float, float, float]:
    """Least squares of log y on log x: exponent, its standard error, and the factor of x^exponent.

    ``error`` are standard errors of log y, which then weigh the points; without them the standard error is nan.
    """
    x, y = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    w = np.ones_like(x) if error is None else np.asarray(error, float) ** -2
    centre = np.average(x, weights=w)
    spread = np.sum(w * (x - centre) ** 2)
    slope = float(np.sum(w * (x - centre) * y) / spread)
    factor = float(np.exp(np.average(y, weights=w) - slope * centre))
    return slope, np.nan if error is None else float(spread**-0.5), factor
