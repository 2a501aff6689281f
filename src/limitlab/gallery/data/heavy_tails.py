"""Heavy tails: rows of unequal norm, where the spectrum is not enough."""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes
from limitlab.gallery.pools import heavy

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

NS, FITS, PENALTY = [40, 70, 100, 150, 250, 400, 650], 100, 0.01


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    X, y = heavy()
    data = {}
    rng = np.random.default_rng(1)
    light = X / np.linalg.norm(X, axis=1, keepdims=True) * np.sqrt(np.mean(np.sum(X**2, axis=1)))
    for name, rows in (("heavy", X), ("light", light)):
        target = (
            y if name == "heavy" else rows @ np.linalg.lstsq(X, y, rcond=None)[0] + 0.3 * rng.standard_normal(len(y))
        )
        pool = ll.Pool(rows, target, intercept=False)
        curve = ll.learning_curve(pool, ll.SquareLoss(), PENALTY, samples=NS, fits=FITS, progress=progress)
        data |= {f"{name}_theory": curve.prediction, f"{name}_fits": curve.fits}
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    for name in ("heavy", "light"):
        theory, runs = data[f"{name}_theory"], data[f"{name}_fits"]["risk"]
        mean = runs.mean("replica").values
        error = runs.std("replica", ddof=1).values / np.sqrt(FITS)
        off = np.median(np.abs(theory["risk"].values / mean - 1))
        z = (mean - theory["risk"].values) / error
        checks.append(
            Check(
                f"{name} tails: rows agree with the fits (|z| < 4 at every n)",
                bool(np.abs(z).max() < 4),
                f"largest |z| {np.abs(z).max():.1f}, median gap {off:.1%}",
            )
        )
        off = np.abs(theory["pool_risk"].values / mean - 1)
        if name == "heavy":
            checks.append(
                Check("heavy tails: the pool formula fails by over 30 %", off.max() > 0.3, f"{off.max():.0%}")
            )
        else:
            checks.append(Check("light tails: the pool formula holds to 10 %", off.max() < 0.1, f"{off.max():.1%}"))
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, panels = new_figure(2, width=5.2, height=4.0)
    titles = {"heavy": "Student rows, 3 degrees of freedom", "light": "the same rows at equal norms"}
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        theory, runs = data[f"{name}_theory"], 2 * data[f"{name}_fits"]["risk"]
        axes.plot(NS, 2 * theory["risk"], color=palette[0], lw=2, label="row theory")
        axes.plot(NS, 2 * theory["pool_risk"], "--", color=palette[2], label="pool formula")
        error = runs.std("replica", ddof=1) / np.sqrt(FITS)
        axes.errorbar(
            NS, runs.mean("replica"), error, fmt="o", ms=4, color="black", capsize=2, label=f"{FITS} real fits"
        )
        axes.set_xscale("log")
        axes.set_xticks(NS, [str(n) for n in NS])
        axes.minorticks_off()
        axes.set_yscale("log")
        axes.legend(fontsize="small", frameon=False)
        style_axes(axes, x="samples n", y="mean-square error of rows left out", title=title)
    fig.suptitle("Heavy tails: the spectrum is not enough, the rows are")
    return fig


ENTRY = Entry(
    name="heavy-tails",
    title="Heavy tails: where the pool formula fails and the row theory holds",
    claim="For rows of very unequal norm the pool formula, which knows the spectrum only, is wrong by over 30 %; the "
    "row theory agrees with real fits. At equal norms both hold.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=10,
)
