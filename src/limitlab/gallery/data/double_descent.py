"""Double descent on real images: the peak of almost unpenalised ridge, predicted row by row.

Without penalty the peak is at n = rank. A penalty of 1e-6 hides the smallest of these modes, and moves it below.
"""

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes
from limitlab.gallery.pools import relu_digits

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

PENALTY, FITS = 1e-6, 16
SAMPLES = (100, 200, 300, 400, 500, 700, 850, 1000, 1300)
AROUND = (-30, 0, 30)  # the rank of the features


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    X, y = relu_digits()
    pool = ll.Pool(X, y, intercept=False)
    rank = len(pool.modes.eigenvalues)
    ns = sorted({*SAMPLES, *(rank + step for step in AROUND)})
    curve = ll.learning_curve(pool, ll.SquareLoss(), PENALTY, samples=ns, fits=FITS, progress=progress)
    v2 = (pool.modes.U.T @ y) ** 2 / len(y)
    plain = [_plug_in(pool.modes.eigenvalues, v2, n) for n in ns]
    theory = curve.prediction.assign(plug_in=("samples", plain))
    return {"theory": theory.assign_attrs(rank=rank), "fits": curve.fits}


def _plug_in(s: np.ndarray, v2: np.ndarray, n: int) -> float:
    """Half the mean square of ridge on new samples, n = sum L + penalty/kappa, as if the pool were the population."""

    def off(log_kappa: float) -> float:
        return float(np.sum(s / (s + np.exp(log_kappa))) + PENALTY * np.exp(-log_kappa) - n)

    kappa = np.exp(float(brentq(off, -60, 20)))  # pyright: ignore[reportArgumentType]
    L = s / (s + kappa)
    return n * (1 - v2.sum() + np.sum(v2 * (1 - L) ** 2)) / (n - np.sum(L**2)) / 2


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    theory, runs = data["theory"], data["fits"]["risk"]
    mean, rank = runs.mean("replica").values, int(theory.attrs["rank"])
    error = runs.std("replica", ddof=1).values / np.sqrt(runs.sizes["replica"])
    gap = np.abs(theory["risk"].values / mean - 1)
    n = theory["samples"].values
    peak = int(np.argmax(mean))
    wrong = mean[peak] / float(theory["plug_in"][peak])
    pool = mean[-1] / float(theory["pool_risk"][-1])
    far = np.abs(theory["risk"].values - mean) / np.maximum(error, 0.05 * mean)
    return [
        Check("the row theory converges at every n", set(theory["status"].values) == {"ok"}, f"{len(n)} values of n"),
        Check(
            "theory and fits peak at the same n, at or within a tenth below the rank of the features",
            int(np.argmax(theory["risk"].values)) == peak and 0.9 * rank <= n[peak] <= rank,
            f"n = {n[peak]}, rank {rank}: theory {2 * float(theory['risk'][peak]):.3f}, fits {2 * mean[peak]:.3f}",
        ),
        Check("rows within 5 % of the fits in the median", bool(np.median(gap) < 0.05), f"{np.median(gap):.1%}"),
        Check(
            "rows within 3 standard errors (or 15 %) of the fits at every n, through the peak",
            bool(np.max(far) < 3),
            f"largest gap {gap.max():.1%}",
        ),
        Check("the usual plug-in is wrong by nearly 2 at the peak", wrong > 1.6, f"factor {wrong:.2f}"),
        Check("the pool formula is too low beyond it", pool > 1.1, f"factor {pool:.2f} at n = {n[-1]}"),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (axes,) = new_figure(1, width=6.5, height=4.4)
    theory, runs = data["theory"], 2 * data["fits"]["risk"]
    n = theory["samples"].values
    axes.plot(n, 2 * theory["risk"], color=palette[0], lw=2.2, label="row theory, no parameter fitted")
    low, high = (2 * (theory["risk"] + sign * theory["risk_band"]).values for sign in (-1, 1))
    axes.fill_between(n, low, high, color=palette[0], alpha=0.2, linewidth=0)
    axes.plot(n, 2 * theory["pool_risk"], "--", color=palette[2], label="pool formula (spectrum only)")
    axes.plot(n, 2 * theory["plug_in"], ":", color=palette[1], label="the usual plug-in")
    error = runs.std("replica", ddof=1) / np.sqrt(runs.sizes["replica"])
    axes.errorbar(n, runs.mean("replica"), error, fmt="o", ms=4, color="black", capsize=2, label=f"{FITS} real fits")
    axes.axvline(theory.attrs["rank"], color="0.7", lw=1, label="n = rank")
    axes.set_yscale("log")
    axes.legend(fontsize="small", frameon=False)
    style_axes(axes, x="samples n", y="mean-square error of rows left out")
    fig.suptitle("Double descent: digits, 600 relu features, ridge 1e-6")
    return fig


ENTRY = Entry(
    name="double-descent",
    title="Double descent on real images, predicted row by row",
    claim="The row theory follows real fits of almost unpenalised ridge on 600 relu features of the digits through the "
    "peak just below n = rank, with no parameter fitted; the usual plug-in of the spectrum is wrong by nearly 2 there.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=60,
    quick=Quick({"FITS": 12, "SAMPLES": (200, 400, 1000)}, seconds=40, full=("in the median",)),
)
