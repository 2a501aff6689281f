r"""How the error of ridge regression falls with the number of samples, for power-law spectra in raw units.

.. math:: s_k = k^{-a}, \quad v_k^2 = k^{-b}, \qquad e = \min(b - 1, 2a), \qquad
    \mathrm{mse} - \mathrm{noise} \sim n^{-e}\ (\lambda = 0), \quad n^{-e/(1+e)}\ (\mathrm{best}\ \lambda,\
    \mathrm{noise} > 0), \quad n^{-\min(e/a,\, 1 - 1/a)}\ (\lambda\ \mathrm{fixed})
"""

import warnings
from typing import Any

import numpy as np

from limitlab.errors import AccuracyWarning, InputError
from limitlab.modules import Module, field
from limitlab.numerics.checks import check_array, check_number
from limitlab.numerics.spectra.power_law import PowerModes
from limitlab.numerics.spectral_ridge import spectral_ridge
from limitlab.text import Record, show

__all__ = ["RidgeCurve", "fitted_slope", "not_reached", "ridge_curve", "stays_below"]

LANES = 65  # penalties tried at once for every number of samples
DEEP = 1e-14  # times the trace, the smallest penalty that is tried


class RidgeCurve(Record, Module):
    """Errors of ridge regression at each number of samples; mean squares, without a half.

    Attributes
    ----------
    samples, penalty
        n, and the penalty at each (0 where the best one is none at all).
    mse, train_mse
        On a new sample (the noise included), and on the data.
    noise
        Its variance; the excess is ``mse - noise``.
    fitted_exponent, predicted_exponent
        The slope of log excess against log n, by least squares over the last half of the samples, and that of theory;
        None where theory has none.
    note
        What a reader must know, in words.
    """

    samples: np.ndarray
    penalty: np.ndarray
    mse: np.ndarray
    train_mse: np.ndarray
    noise: float
    fitted_exponent: float | None
    predicted_exponent: float | None
    note: str = field(static=True, default="")

    @property
    def excess(self) -> np.ndarray:
        return self.mse - self.noise

    @property
    def prediction(self) -> Any:
        """The same as a Dataset over ``samples``."""
        import xarray as xr

        over = ("samples",)
        return xr.Dataset(
            {
                "generalisation_error": (over, self.mse),
                "risk": (over, self.mse / 2),
                "train_loss": (over, self.train_mse / 2),
                "penalty": (over, self.penalty),
            },
            {"samples": self.samples},
            {"noise": self.noise, "note": self.note},
        )

    def samples_for(self, error: float) -> float:
        """The n from which on the mean squared error stays at or below ``error``: at most the first n of the curve if
        it is there from the start, and NaN with a warning if the curve ends above it."""
        error = check_number("samples_for", "error", error, low=0, open_low=True, remedy="Give the error to reach.")
        found = stays_below(self.samples, self.mse, error)
        if np.isnan(found):
            warnings.warn(not_reached(error, self.samples[-1]), AccuracyWarning, stacklevel=2)
        return found

    def __str__(self) -> str:
        told = " and ".join(
            f"{word} {value:.4f}"
            for word, value in (("fitted", self.fitted_exponent), ("predicted", self.predicted_exponent))
            if value is not None
        )
        ends = {float(n): float(e) for n, e in zip(self.samples[[0, -1]], self.mse[[0, -1]], strict=True)}
        head = ", ".join(f"{'' if k else 'mse '}{e:.4g} at n = {n:g}" for k, (n, e) in enumerate(ends.items()))
        return f"{head}{f'; exponent of the excess {told}' if told else ''}. {self.note}".rstrip()


def stays_below(n: np.ndarray, values: np.ndarray, level: float) -> float:
    """The n of the last crossing from above, straight in logarithms; NaN if the last value is above the level."""
    good = np.isfinite(values)
    n, values = n[good], values[good]
    if not len(n) or values[-1] > level:
        return float("nan")
    above = np.nonzero(values > level)[0]
    if not len(above):
        return float(n[0])
    k = int(above[-1])
    share = np.log(values[k] / level) / np.log(values[k] / values[k + 1])
    return float(np.exp(np.log(n[k]) + share * np.log(n[k + 1] / n[k])))


def not_reached(error: float, last: float) -> str:
    """Why there is no number of samples."""
    return (
        f"samples_for: {error:g} is not reached within the curve, which ends at n = {last:g}. Ask for a curve with "
        "more samples, or for a larger error."
    )


def fitted_slope(x: np.ndarray, y: np.ndarray) -> float | None:
    """The slope of log y against log x over the last half of the points; None if there are fewer than two."""
    half = slice(len(x) // 2 if len(x) > 3 else 0, None)
    x, y = x[half], y[half]
    good = np.isfinite(y) & (y > 0)
    if good.sum() < 2:
        return None
    return float(np.polyfit(np.log(x[good]), np.log(y[good]), 1)[0])


def ridge_curve(a: float, b: float, modes: PowerModes, samples: Any, penalty: Any, noise: float) -> RidgeCurve:
    """The curve; ``penalty`` is a number, "best" or None, which means "best"."""
    n = np.atleast_1d(check_array("learning_curve.samples", samples))
    if n.ndim != 1 or not n.size or not np.all(np.isfinite(n) & (n > 0)) or np.any(np.diff(n) <= 0):
        raise InputError(f"learning_curve.samples must be positive numbers that increase; got {show(samples)}.")
    noise = check_number("learning_curve", "noise", noise, low=0, remedy="It is a variance.")
    best = penalty is None or (isinstance(penalty, str) and penalty == "best")
    given = 0.0
    if not best:
        given = check_number("learning_curve", "penalty", penalty, low=0, remedy='Use 0 for none, or "best".')
    # Modes beyond the nodes are never learned: their eigenvalues act as a penalty, their signal as noise.
    unseen = noise + modes.signal_beyond

    def solved(samples: np.ndarray, lam: np.ndarray):
        signal = modes.signal * modes.counts
        return spectral_ridge(modes.s, signal, unseen, samples, lam + modes.beyond, counts=modes.counts)

    note = ""
    if best:
        lam, none = _best(solved, n, float(modes.s @ modes.counts))
        note = "No penalty at all is best at some numbers of samples." if none else ""
    else:
        lam = np.full(len(n), given)
    found = solved(n, lam)
    with np.errstate(divide="ignore", invalid="ignore"):  # of training, 1 - df1/n with the modes beyond in df1
        left = np.where(lam > 0, lam / (n * found.kappa), np.where(found.kappa > 0, 0.0, 1 - found.df1 / n))
    fitted = fitted_slope(n, found.test - noise)
    told = _predicted(a, b, noise, "best" if best else given, modes.beyond > 0)
    return RidgeCurve(n, lam, found.test, found.test * left**2, noise, fitted, told, note)


def _predicted(a: float, b: float, noise: float, penalty: Any, infinite: bool) -> float | None:
    e = min(b - 1, 2 * a)
    if not infinite:
        return None  # the last mode bends the curve
    if penalty == 0 or (penalty == "best" and noise == 0):
        return -e if noise == 0 else 0.0
    if penalty == "best":
        return -e / (1 + e)
    return -e / a if noise == 0 else -min(e / a, 1 - 1 / a)


def _best(solved: Any, n: np.ndarray, trace: float) -> tuple[np.ndarray, bool]:
    """The penalty of least error for each n, by grids that close in; and whether it is none for some."""
    low, high = np.full(len(n), np.log(DEEP * trace)), np.log(1e3 * trace * n)
    for _ in range(12):
        grid = np.linspace(low, high, LANES)  # (lane, n)
        error = solved(np.broadcast_to(n, grid.shape), np.exp(grid)).test
        at = np.argmin(error, axis=0)
        low, high = (np.take_along_axis(grid, np.clip(at + shift, 0, LANES - 1)[None], 0)[0] for shift in (-1, 1))
    lam = np.exp((low + high) / 2)
    with_it, without = solved(n, lam).test, solved(n, np.zeros(len(n))).test
    none = without <= with_it
    return np.where(none, 0.0, lam), bool(none.any())
