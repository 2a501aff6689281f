r"""The same inputs, the same signal, the same noise: what a teacher costs depends on where it lies in the spectrum.

Half of the directions have the eigenvalue 1.75, half 0.25. Three teachers have the same linear signal 1: one lies
mostly on the large eigenvalues, one is spread evenly, one lies mostly on the small ones. Ridge regression, noise
0.3.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem"]

EIGENVALUES, NOISE = (0.25, 1.75), 0.3
TEACHERS = {"aligned": (0.1, 1.975 / 1.75), "spread evenly": None, "misaligned": (7.0, 1 / 7)}
RATIO = 1.0
PENALTIES = np.geomspace(3e-3, 10, 41)
RATIOS = np.geomspace(0.1, 10, 25)
FITTED = PENALTIES[[4, 16, 28, 36]]
D, REPLICAS = 200, 48


def problem(teacher: str, alpha: float = RATIO, penalty: float = NOISE) -> ll.Problem:
    return ll.Problem(
        inputs=ll.Gaussian(spectrum=ll.Spectrum(EIGENVALUES, teacher=TEACHERS[teacher])),
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.GaussianNoise(NOISE),
        sample_ratio=alpha,
        loss=ll.SquareLoss(),
        algorithm=ll.ERM(penalty),
    )


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {}
    for i, teacher in enumerate(TEACHERS):
        key = teacher.replace(" ", "_")
        data[f"{key}_penalties"] = ll.ERMAsymptotics().curve(problem(teacher), [RATIO], PENALTIES)
        best = [ll.optimal_penalty(problem(teacher, alpha)) for alpha in RATIOS]
        data[f"{key}_best"] = ll.analysis.dataset(
            problem(teacher),
            {
                "generalisation_error": (("sample_ratio",), [b.generalisation_error for b in best]),
                "best_penalty": (("sample_ratio",), [b.penalty for b in best]),
            },
            {"sample_ratio": RATIOS},
            method="ERMAsymptotics",
            reference=ll.ERMAsymptotics.reference,
        )
        for k, penalty in enumerate(FITTED):
            fit = problem(teacher, penalty=float(penalty))
            data[f"{key}_fit_{k}"] = ll.simulate(fit, D, replicas=REPLICAS, seed=10 * i + k)
            data[f"{key}_limit_{k}"] = ll.predict(fit)
        if progress is not None:
            progress(i + 1, len(TEACHERS), teacher)
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    keys = [teacher.replace(" ", "_") for teacher in TEACHERS]
    errors = [data[f"{key}_best"].generalisation_error.values for key in keys]
    penalties = [data[f"{key}_best"].best_penalty.values for key in keys]
    at = int(np.argmin(np.abs(RATIOS - RATIO)))
    checks = [
        Check(
            "with its best penalty the aligned teacher is learned best, the misaligned one worst, at every n/d",
            bool(np.all(errors[0] < errors[1]) and np.all(errors[1] < errors[2])),
            ", ".join(f"{key} {e[at]:.4f}" for key, e in zip(keys, errors, strict=True))
            + f" at alpha = {RATIOS[at]:g}",
        ),
        Check(
            f"the best penalty of a teacher that is spread evenly is noise/variance = {NOISE:g} at every sample ratio",
            bool(np.allclose(penalties[1], NOISE, rtol=1e-6)),
            f"from {penalties[1].min():.6f} to {penalties[1].max():.6f}",
        ),
        Check(
            "that of the others is not, and moves with the sample ratio",
            all(p.max() / p.min() > 1.2 for p in (penalties[0], penalties[2])),
            ", ".join(f"{keys[i]} {penalties[i].min():.3f} to {penalties[i].max():.3f}" for i in (0, 2)),
        ),
    ]
    gaps = [ll.compare(data[f"{key}_fit_{k}"], data[f"{key}_limit_{k}"]) for key in keys for k in range(len(FITTED))]
    checks.append(
        Check(
            f"{len(gaps)} sets of fits at d = {D} agree with the limit",
            all(gap.agrees for gap in gaps),
            f"|z| up to {max(gap.max_z for gap in gaps):.2f}",
        )
    )
    right, wrong = (
        ll.compare(data["aligned_fit_2"], data[f"{key}_limit_2"], check_problem=False)
        for key in ("aligned", "misaligned")
    )
    checks.append(
        Check(
            "fits of one teacher disagree with the limit of another",
            right.agrees and not wrong.agrees,
            f"|z| {wrong.max_z:.0f}",
        )
    )
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    for teacher, colour in zip(TEACHERS, palette, strict=False):
        key = teacher.replace(" ", "_")
        curve, best = data[f"{key}_penalties"], data[f"{key}_best"]
        left.plot(PENALTIES, curve.generalisation_error.values[0], color=colour, label=teacher)
        for k, penalty in enumerate(FITTED):
            e = data[f"{key}_fit_{k}"].generalisation_error
            error = float(e.std(ddof=1)) / np.sqrt(e.size)
            left.errorbar(penalty, float(e.mean()), error, fmt="o", ms=4, color=colour, capsize=2)
        low = int(np.argmin(curve.generalisation_error.values[0]))
        left.plot(PENALTIES[low], curve.generalisation_error.values[0][low], "v", color=colour, ms=8)
        right.plot(best.sample_ratio, best.best_penalty, color=colour)
    left.plot([], [], "o", color="0.4", label=f"fits, d = {D}, {REPLICAS} each")
    left.plot([], [], "v", color="0.4", label="best penalty")
    for axes in (left, right):
        axes.set_xscale("log")
    right.set_yscale("log")
    left.legend(fontsize="small", frameon=False)
    style_axes(left, x="penalty λ", y="mean squared error on a new label")
    style_axes(right, x="samples per weight α = n/d", y="best penalty")
    left.set_title(f"α = {RATIO:g}", fontsize="medium", loc="left")
    right.set_title("Only an evenly spread teacher has one best penalty", fontsize="medium", loc="left")
    fig.suptitle("Same signal, same noise: a teacher on the large eigenvalues is cheap")
    return fig


ENTRY = Entry(
    name="structured-teacher",
    title="Ridge regression of teachers that lie in different places of the spectrum",
    claim="At equal signal and noise a teacher on the large eigenvalues is learned best; the best penalty is noise "
    "over the variance of the teacher's weights for every sample ratio only if they are spread evenly; fits agree.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=20,
    quick=Quick({"RATIOS": RATIOS[::4], "REPLICAS": 24}, seconds=10),
)
