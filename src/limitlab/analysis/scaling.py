r"""Scaling laws of one-pass SGD on power-law spectra.

.. math:: s_i = i^{-a}, \quad s_i D_i(0) = i^{-b}, \qquad
          E(y - w \cdot x)^2 \sim \mathrm{steps}^{-\min((b-1)/a,\; 2 - 1/a)}

the first from signal that is not learned yet, the second from the noise of SGD. With d modes kept, compute = d steps:
where the first holds the least error falls as compute^{-(b-1)/(1+a)}, at d about compute^{1/(1+a)}.
"""

from typing import Any

import numpy as np

from limitlab.errors import InputError
from limitlab.modules import Module, field
from limitlab.numerics.checks import check_array, check_integer, check_number
from limitlab.numerics.machine import relieve
from limitlab.numerics.spectra.least_squares_sgd import LeastSquaresSGD
from limitlab.numerics.spectra.power_law import power_modes
from limitlab.problems.asked import Asked
from limitlab.problems.inputs import PowerLaw
from limitlab.problems.inputs.ridge_curve import fitted_slope
from limitlab.text import Record, show
from limitlab.verbs import Watch, verb

__all__ = ["ScalingLaw", "scaling_law"]


class ScalingLaw(Record, Module):
    """Errors of one-pass SGD against samples and compute; mean squares, without a half.

    Attributes
    ----------
    steps, samples
        Numbers of steps, and the samples seen by then.
    modes
        How many modes were kept in each row; infinite for all of them.
    mse
        E (y - w.x)^2 by (modes, steps), noise included; infinite where SGD has diverged.
    compute
        modes times samples, by (modes, steps); infinite for all modes.
    noise
        Its variance.
    fitted_exponent, predicted_exponent
        Of mse - noise against steps, with the most modes; predicted for all modes, without noise.
    frontier
        The least mse - noise that any row reaches with so much compute: (compute, excess, modes) by point, if several
        finite numbers of modes were asked for.
    compute_exponent, predicted_compute_exponent
        Of the frontier against compute.
    width_exponent, predicted_width_exponent
        Of the modes on the frontier against compute.
    status
        "ok", or "diverged" if the learning rate is too large for some row.
    note
        What a reader must know, in words.
    """

    steps: np.ndarray
    samples: np.ndarray
    modes: np.ndarray
    mse: np.ndarray
    compute: np.ndarray
    noise: float
    fitted_exponent: float | None
    predicted_exponent: float | None
    frontier: np.ndarray
    compute_exponent: float | None
    predicted_compute_exponent: float | None
    width_exponent: float | None
    predicted_width_exponent: float | None
    status: str = field(static=True, default="ok")
    note: str = field(static=True, default="")

    @property
    def excess(self) -> np.ndarray:
        return self.mse - self.noise

    def __str__(self) -> str:
        words = [f"status {self.status}"]
        for what, fitted, predicted in (
            ("steps", self.fitted_exponent, self.predicted_exponent),
            ("compute", self.compute_exponent, self.predicted_compute_exponent),
            ("modes on the frontier", self.width_exponent, self.predicted_width_exponent),
        ):
            if fitted is not None:
                told = "no prediction" if predicted is None else f"predicted {predicted:.4f}"
                words.append(f"exponent in {what} {fitted:.4f} ({told})")
        return f"{', '.join(words)}. {self.note}".rstrip()


@verb
def scaling_law(
    spectrum: PowerLaw,
    learning_rate: float,
    steps: Any,
    modes: Any = None,
    *,
    batch_size: int = 1,
    noise: float = 0.0,
    progress: Watch = None,
) -> ScalingLaw:
    """The error of one-pass SGD of least squares from w = 0, exact at every step, against samples and compute.

    Parameters
    ----------
    spectrum
        A `PowerLaw`; its raw units are used, and infinitely many modes unless it has a number of them.
    learning_rate
        eta of w <- w + eta <x (y - w.x)>, the same at all steps.
    steps
        Numbers of steps, increasing. They cost nothing: ten millions are as quick as ten.
    modes
        How many modes the learner keeps: a number, or a list, one row each. What it does not keep of the target is
        noise to it. None: all of them.
    batch_size, noise
        Samples in a step; variance of the label noise.
    """
    relieve()
    law = Asked("scaling_law", InputError).part(
        spectrum, PowerLaw, "a power law such as PowerLaw(decay=1.5, target_decay=1.8)", "Give one."
    )
    eta = check_number("scaling_law", "learning_rate", learning_rate, low=0, open_low=True, remedy="Use 0.5, say.")
    noise = check_number("scaling_law", "noise", noise, low=0, remedy="It is a variance.")
    batch = check_integer("scaling_law", "batch_size", batch_size, low=1, remedy="Each step needs a sample.")
    k = np.atleast_1d(check_array("scaling_law.steps", steps))
    if k.ndim != 1 or not k.size or not np.all(np.isfinite(k) & (k >= 0)) or np.any(np.diff(k) <= 0):
        raise InputError(f"scaling_law.steps must be whole numbers that increase; got {show(steps)}.")
    kept = [None] if modes is None else np.atleast_1d(np.asarray(modes)).tolist()
    for width in kept:
        if width is not None:
            most = law.modes or 2**53
            check_integer("scaling_law", "modes", width, low=1, high=most, remedy="Keep at least one mode.")
    a, b = float(law.decay), float(law.target_decay)
    whole = law.raw()
    total = float(whole.signal @ whole.counts) + whole.signal_beyond
    rows, stable = [], True
    for width in kept:
        part = whole if width is None else power_modes(a, b, int(width))
        left = whole.signal_beyond if width is None else max(0.0, total - float(part.signal @ part.counts))
        sgd = LeastSquaresSGD.of(part.s, part.counts, noise + left, eta, batch)
        stable &= sgd.stable
        rows.append(sgd.mse(sgd.squares(part.signal / part.s, k)))
    mse = np.stack(rows)
    widths = np.array([np.inf if width is None else float(width) for width in kept])
    compute = widths[:, None] * k * batch
    infinite = law.modes is None
    signal, hot = (b - 1) / a, 2 - 1 / a
    most = int(np.argmax(widths))
    front = _frontier(widths, compute, mse - noise)
    clear = infinite and noise == 0
    balanced = clear and signal < hot and len(front) > 1
    several = len(front) > 1
    note = ""
    if np.isfinite(widths[most]) and clear:
        note = "A finite number of modes bends the curve: predicted is the exponent of infinitely many."
    if not stable:
        note = f"The learning rate {eta:g} is too large: mean squares grow. Use a smaller one. {note}".rstrip()
    return ScalingLaw(
        k,
        k * batch,
        widths,
        mse,
        compute,
        noise,
        fitted_slope(k[k > 0], (mse[most] - noise)[k > 0]),
        -min(signal, hot) if clear else None,
        front,
        fitted_slope(front[:, 0], front[:, 1]) if several else None,
        -(b - 1) / (1 + a) if balanced else None,
        fitted_slope(front[:, 0], front[:, 2]) if several else None,
        1 / (1 + a) if balanced else None,
        "ok" if stable else "diverged",
        note,
    )


def _frontier(widths: np.ndarray, compute: np.ndarray, excess: np.ndarray) -> np.ndarray:
    """(compute, least excess, modes) on a grid of compute that all rows reach, where an inner row is best."""
    finite = np.isfinite(widths)
    if finite.sum() < 3:
        return np.zeros((0, 3))
    W, C, E = widths[finite], compute[finite], excess[finite]
    order = np.argsort(W)
    W, C, E = W[order], C[order], E[order]
    grid = np.geomspace(max(C[C > 0].min(), 1.0), C[:, -1].min(), 200)
    logs = []
    for c, e in zip(C, E, strict=True):
        good = (c > 0) & np.isfinite(e) & (e > 0)
        outside = grid < c[good][0] if good.any() else np.ones(len(grid), bool)
        line = np.interp(np.log(grid), np.log(c[good]), np.log(e[good])) if good.sum() > 1 else np.full(200, np.inf)
        logs.append(np.where(outside, np.inf, line))
    table = np.stack(logs)
    at = np.argmin(table, axis=0)
    inner = (at > 0) & (at < len(W) - 1)  # at the ends another width might be better
    points = np.stack([grid, np.exp(np.min(table, axis=0)), W[at]], axis=1)
    return points[inner]
