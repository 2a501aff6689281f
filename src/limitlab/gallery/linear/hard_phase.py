r"""Impossible, hard and easy: phase diagrams over the sample ratio, and sparsity or noise."""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

DENSITIES = np.linspace(0.05, 0.95, 19)
NOISES = np.linspace(0.0, 0.02, 21)
SPARSE_RATIOS, BINARY_RATIOS = np.linspace(0.02, 1.1, 55), np.linspace(0.8, 2.2, 57)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    sparse = ll.Problem(
        teacher=ll.SingleIndex(ll.GaussBernoulliPrior(0.5)), channel=ll.GaussianNoise(), sample_ratio=1.0
    )
    binary = ll.Problem(teacher=ll.SingleIndex(ll.RademacherPrior()), channel=ll.Sign(), sample_ratio=1.0)
    return {
        "sparse": ll.analysis.phase_diagram(sparse, "teacher.prior.density", DENSITIES, SPARSE_RATIOS, progress),
        "binary": ll.analysis.phase_diagram(binary, "channel.variance", NOISES, BINARY_RATIOS, progress),
    }


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    sparse, binary = data["sparse"], data["binary"]
    at = int(np.argmin(np.abs(DENSITIES - 0.4)))
    width = (binary.algorithmic - binary.information).values
    there = np.isfinite(width)
    return [
        Check(
            "recovery of sparse weights is possible as soon as there are as many samples as non-zero weights",
            bool(np.allclose(sparse.information, DENSITIES)),
            f"largest difference {float(np.max(np.abs(sparse.information - DENSITIES))):.1e}",
        ),
        Check(
            "at density 0.4 it is easy from 0.58925 on",
            abs(float(sparse.algorithmic[at]) - 0.58925) < 1e-5,
            f"{float(sparse.algorithmic[at]):.6f}",
        ),
        Check(
            "every density has a hard phase",
            bool(np.all(sparse.algorithmic > sparse.information)),
            f"narrowest {float(np.min(sparse.algorithmic - sparse.information)):.4f}",
        ),
        Check(
            "noise narrows the hard phase of the binary perceptron until it ends",
            bool(np.all(np.diff(width[there]) < 0) and not np.all(there)),
            f"from {width[0]:.4f} without noise; none from variance {float(NOISES[int(np.argmin(there))]):.2f} on",
        ),
        Check(
            "message passing is never better than the optimum, and equal to it where learning is easy",
            all(
                bool(np.all(ds.mse_bayes <= ds.mse_amp + 1e-9))
                and bool(np.allclose(ds.mse_bayes.where(ds.phase == 2, 0), ds.mse_amp.where(ds.phase == 2, 0)))
                for ds in (sparse, binary)
            ),
            "at every point of both diagrams",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, panels = new_figure(2, width=5.2, height=4.2)
    colours = {"impossible": "0.85", "hard": palette[4], "easy": palette[2]}
    for axes, ds, name, word in zip(
        panels,
        (data["sparse"], data["binary"]),
        ("teacher.prior.density", "channel.variance"),
        ("share of non-zero weights", "noise variance before the sign"),
        strict=True,
    ):
        x, low, high = ds[name].values, ds.information.values, ds.algorithmic.values
        first, last = float(ds.sample_ratio[0]), float(ds.sample_ratio[-1])
        ok = np.isfinite(low)
        axes.fill_between(x[ok], first, low[ok], color=colours["impossible"], lw=0, label="impossible")
        axes.fill_between(x[ok], low[ok], high[ok], color=colours["hard"], lw=0, label="hard")
        axes.fill_between(x[ok], high[ok], last, color=colours["easy"], alpha=0.5, lw=0, label="easy")
        axes.plot(x[ok], low[ok], color=palette[0], label="information threshold")
        axes.plot(x[ok], high[ok], "--", color=palette[1], label="message passing")
        if not np.all(ok):
            axes.text(
                (x[~ok][0] + x[-1]) / 2,
                (first + last) / 2,
                "no jump:\nlearned\ngradually",
                ha="center",
                fontsize="small",
            )
        axes.set_ylim(first, last)
        axes.set_xlim(x[0], x[-1])
        style_axes(axes, x=word, y="samples per weight α = n/d")
    panels[0].set_title("Sparse weights, y = z", fontsize="medium", loc="left")
    panels[1].set_title("Binary weights, y = sign(z + noise)", fontsize="medium", loc="left")
    panels[0].legend(fontsize="small", loc="lower right")
    fig.suptitle("Where the best estimator learns and message passing does not")
    return fig


ENTRY = Entry(
    name="hard-phase",
    title="Impossible, hard and easy over sparsity and over noise",
    claim="Between the information threshold and the spinodal of message passing lies a hard phase; for sparse weights "
    "at every density, for binary weights until the noise ends it.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=15,
    quick=Quick({"DENSITIES": np.linspace(0.1, 0.9, 9), "NOISES": np.linspace(0.0, 0.02, 11)}, seconds=8),
)
