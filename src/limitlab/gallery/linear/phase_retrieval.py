r"""Phase retrieval, y = |z|: weak recovery at 1/2, perfect recovery possible at 1, easy at 1.128."""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problems"]

RATIOS = np.linspace(0.1, 2.0, 77)
SPECTRAL = (0.8, 1.0, 1.4, 1.8)  # GAMP from the data alone
D, REPLICAS = 1000, 16
PATH_RATIO, PATH_START, PATH_D = 1.5, 0.1, 2000  # GAMP step by step against state evolution


def problem(alpha: float, start: ll.AbstractStart | None, iterations: int = 100) -> ll.Problem:
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=alpha,
        start=start,
        algorithm=ll.GAMP(iterations=iterations),
    )


def problems() -> dict[str, ll.Problem]:
    return {"phase retrieval": problem(PATH_RATIO, ll.InformedStart(PATH_START), 25)}


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    nothing = problem(1.0, None)
    data = {
        "bayes": ll.sweep(ll.predict, nothing, {"sample_ratio": RATIOS}, limit=ll.BayesOptimal()),
        "amp": ll.sweep(
            ll.predict, nothing, {"sample_ratio": RATIOS}, limit=ll.StateEvolution(start="weak", iterations=1)
        ),
        "path": ll.predict(problems()["phase retrieval"], ll.StateEvolution()),
        "path_gamp": ll.simulate(problems()["phase retrieval"], PATH_D, replicas=REPLICAS, seed=7, progress=progress),
    }
    for i, alpha in enumerate(SPECTRAL):
        data[f"gamp_{i}"] = ll.simulate(
            problem(alpha, ll.SpectralStart(), 200), D, replicas=REPLICAS, seed=i, progress=progress
        )
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    t = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    assert t.information is not None and t.algorithmic is not None
    gap = ll.compare(data["path_gamp"], data["path"])
    amp = data["amp"]
    checks = [
        Check("weak recovery at 1/2", abs(t.weak_recovery - 0.5) < 1e-6, f"{t.weak_recovery:.8f}"),
        Check("perfect recovery possible at 1", abs(t.information - 1) < 1e-6, f"{t.information:.8f}"),
        Check("easy at 1.12847", abs(t.algorithmic - 1.12847) < 1e-5, f"{t.algorithmic:.8f}"),
        Check(
            "message passing learns nothing below 1/2 and all above 1.128",
            bool(np.all(amp.m_fixed[RATIOS < 0.5] == 0) and np.all(amp.m_fixed[RATIOS > 1.13] > 0.999)),
            "read off the fixed points",
        ),
        Check(
            f"GAMP at d = {PATH_D}, alpha = {PATH_RATIO:g} follows state evolution at every iteration",
            gap.agrees,
            f"largest |z| {gap.max_z:.2f}",
        ),
    ]
    for i, alpha in enumerate(SPECTRAL):
        mse = data[f"gamp_{i}"].mse.isel(iteration=-1).values
        limit = float(np.interp(alpha, RATIOS, amp.mse_fixed))
        middle = float(np.median(mse))
        ok = abs(middle - limit) < 0.1 if alpha < t.algorithmic else middle < 1e-6
        checks.append(
            Check(
                f"GAMP from the spectral start, alpha = {alpha:g}",
                bool(ok),
                f"median error {middle:.3g} of {REPLICAS} runs at d = {D}; limit {limit:.3g}",
            )
        )
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    t = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    assert t.information is not None and t.algorithmic is not None
    fig, (left, right) = new_figure(2, width=5.2, height=4.0)
    bayes, amp = data["bayes"], data["amp"]
    left.axvspan(t.information, t.algorithmic, color=palette[4], alpha=0.25, lw=0, label="hard: possible, not found")
    left.plot(bayes.sample_ratio, bayes.mse, color=palette[0], label="best possible (MMSE)")
    left.plot(amp.sample_ratio, amp.mse_fixed, "--", color=palette[1], label="message passing, limit")
    for i, alpha in enumerate(SPECTRAL):
        mse = data[f"gamp_{i}"].mse.isel(iteration=-1).values
        label = f"GAMP, spectral start, d = {D}, median of {REPLICAS}" if i == 0 else None
        low, middle, high = np.quantile(mse, [0.25, 0.5, 0.75])
        bars = [[middle - low], [high - middle]]
        left.errorbar(alpha, middle, bars, fmt="o", color=palette[1], capsize=2, label=label)
    for x, word in ((t.weak_recovery, "weak recovery"), (t.algorithmic, "easy")):
        left.axvline(x, color="0.5", lw=0.8)
        left.text(x, 0.03, f" {word}\n {x:.4g}", fontsize="small", color="0.35")
    left.set_ylim(-0.05, 1.5)
    left.legend(fontsize="small", frameon=False, loc="upper right")
    path, runs = data["path"], data["path_gamp"]
    right.plot(path.iteration, path.mse, color=palette[0], label="state evolution")
    mean = runs.mse.mean("replica")
    error = runs.mse.std("replica", ddof=1) / np.sqrt(runs.sizes["replica"])
    shown = mean > 1e-9
    label = f"GAMP, d = {PATH_D}, {REPLICAS} runs"
    right.errorbar(
        runs.iteration[shown], mean[shown], error[shown], fmt="o", ms=4, color=palette[1], capsize=2, label=label
    )
    right.set_yscale("log")
    right.legend(fontsize="small", frameon=False)
    style_axes(left, x="samples per weight α = n/d", y="mean squared error per weight (up to sign)")
    style_axes(right, x="iteration", y="mean squared error per weight")
    right.set_title(f"α = {PATH_RATIO:g}, from overlap {PATH_START:g}", fontsize="medium", loc="left")
    fig.suptitle("Phase retrieval, y = |z|: possible from α = 1, easy from α = 1.128")
    return fig


ENTRY = Entry(
    name="phase-retrieval",
    title="Phase retrieval: weak recovery, the hard phase, and GAMP",
    claim="Message passing leaves zero at alpha = 1/2 and recovers the signal from 1.128 on; recovery is possible from "
    "alpha = 1 on. GAMP at finite size follows state evolution step by step.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=30,
    quick=Quick(
        {"REPLICAS": 8, "D": 500, "PATH_D": 1000, "RATIOS": np.linspace(0.1, 2.0, 39)},
        seconds=12,
        full=("spectral start, alpha = 0.8",),
    ),
)
