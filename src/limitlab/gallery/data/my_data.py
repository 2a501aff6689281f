"""Breast cancer by logistic regression: error and loss against samples, and the best penalty, before any fit."""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes
from limitlab.gallery.pools import cancer

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

NS = [20, 30, 45, 60, 90, 130, 200, 300, 450]
PENALTIES = [1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0]
FITS, AT = 60, 60


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    pool, loss = ll.Pool(*cancer()), ll.LogisticLoss()
    curve = ll.learning_curve(pool, loss, 0.1, samples=NS, fits=FITS, progress=progress)
    choice = ll.learning_curve(pool, loss, PENALTIES, samples=[AT], fits=FITS, progress=progress)
    best = ll.optimal_penalty(pool, loss=loss, samples=AT)
    return {
        "theory": curve.prediction,
        "fits": curve.fits,
        "penalties": choice.prediction.assign_attrs(best=best.penalty),
        "penalty_fits": choice.fits,
    }


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    theory, fits = data["theory"], data["fits"][["risk", "generalisation_error"]].mean("replica")
    n = theory["samples"].values
    loss = np.abs((theory["risk"] / fits["risk"] - 1).values)
    error = np.abs((theory["generalisation_error"] - fits["generalisation_error"]).values)
    choice, measured = data["penalties"]["risk"].isel(samples=0), data["penalty_fits"]["risk"].isel(samples=0)
    apart = np.abs((choice / measured.mean("replica") - 1).values)
    least = float(PENALTIES[int(np.argmin(measured.mean("replica").values))])
    best = float(data["penalties"].attrs["best"])
    return [
        Check("the row theory converges at every n", set(theory["status"].values) == {"ok"}, f"{len(n)} values of n"),
        Check("test loss within 3 % in the median", bool(np.median(loss) < 0.03), f"{np.median(loss):.1%}"),
        Check("and within 10 % from 20 samples on", bool(loss.max() < 0.10), f"at most {loss.max():.1%}"),
        Check(
            "class error within 0.01 from 60 samples on",
            bool(error[n >= 60].max() < 0.01),
            f"at most {error[n >= 60].max():.4f}",
        ),
        Check(f"test loss at n = {AT} within 6 % for every penalty", bool(apart.max() < 0.06), f"{apart.max():.1%}"),
        Check(
            "the predicted best penalty is that of the fits, to the grid",
            bool(1 / 3.5 < best / least < 3.5),
            f"predicted {best:.3g}, best of the fits {least:.3g}",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, middle, right) = new_figure(3, width=4.6, height=4.0)
    theory, fits = data["theory"], data["fits"]
    for axes, name, label in ((left, "generalisation_error", "class error"), (middle, "risk", "test loss")):
        n, value, band = theory["samples"].values, theory[name].values, theory[f"{name}_band"].values
        axes.plot(n, value, color=palette[0], lw=2, label="row theory")
        axes.fill_between(n, value - band, value + band, color=palette[0], alpha=0.2, linewidth=0)
        runs = fits[name]
        error = runs.std("replica", ddof=1) / np.sqrt(FITS)
        axes.errorbar(
            n, runs.mean("replica"), error, fmt="o", ms=4, color="black", capsize=2, label=f"{FITS} real fits"
        )
        axes.set_xscale("log")
        axes.set_xticks(NS, [str(n) for n in NS])
        axes.minorticks_off()
        axes.legend(fontsize="small", frameon=False)
        style_axes(axes, x="samples n", y=label)
    choice, runs = data["penalties"]["risk"].isel(samples=0), data["penalty_fits"]["risk"].isel(samples=0)
    right.plot(PENALTIES, choice, color=palette[0], lw=2, label="row theory")
    error = runs.std("replica", ddof=1) / np.sqrt(FITS)
    right.errorbar(PENALTIES, runs.mean("replica"), error, fmt="o", ms=4, color="black", capsize=2, label="real fits")
    right.axvline(data["penalties"].attrs["best"], color=palette[1], ls=":", label="predicted best")
    right.set_xscale("log")
    right.legend(fontsize="small", frameon=False)
    style_axes(right, x=f"penalty, at n = {AT}", y="test loss")
    fig.suptitle("Breast cancer, logistic regression with intercept: predicted before any fit")
    return fig


ENTRY = Entry(
    name="my-data",
    title="Your own data: breast cancer by logistic regression",
    claim="The row theory predicts class error and test loss of logistic regression on breast cancer from 20 to 450 "
    "samples, and the best penalty, with no parameter fitted.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=40,
)
