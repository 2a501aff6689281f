r"""Gradient descent from a random start finds the signal of phase retrieval only with many more samples than needed.

Recovery is possible from alpha = n/d = 1 on and easy for message passing from 1.128 on. Descent on the sphere,

.. math:: w \leftarrow \sqrt d\,\frac{w - \eta G}{|w - \eta G|}, \qquad G = \sum_\mu (h_\mu^2 - y_\mu^2)\, h_\mu x_\mu,

is trapped by bad minima: half of the runs succeed at a ratio between 4 and 5 that grows with d, nine in ten at 6 to 7.
"""

from typing import TYPE_CHECKING

import limitlab as ll
from limitlab.gallery.descent.success_curves import draw_rates, fit_step, found_of, part_of, success_curve
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "curve", "problem"]

RATIOS = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
RUNS = {64: 100, 128: 60, 256: 28}  # by dimension
T_MAX = 50.0
INFORMED, INFORMED_RATIO, INFORMED_D = 0.5, 3.0, 128  # the control: a start that knows something


def problem(alpha: float = INFORMED_RATIO, overlap: float | None = None) -> ll.Problem:
    return ll.library.descent_phase_retrieval(alpha, overlap=overlap)


def curve(d: int, runs: int, ratios=RATIOS, progress: Progress | None = None) -> "xr.Dataset":
    """Success of gradient descent at dimension d."""

    def run(alpha: float, number: int, told: Progress | None) -> "xr.Dataset":
        return ll.simulate(problem(alpha), d, [T_MAX], runs, 1000 * d + number, progress=told)

    return success_curve(problem(ratios[0]), run, ratios, progress, "simulate (GradientDescent)", d=d, t_max=T_MAX)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {
        f"gd_{d}": curve(d, runs, progress=part_of(progress, i, len(RUNS) + 1))
        for i, (d, runs) in enumerate(RUNS.items())
    }
    one = problem(INFORMED_RATIO, INFORMED)
    told = part_of(progress, len(RUNS), len(RUNS) + 1)
    data["informed"] = ll.simulate(one, INFORMED_D, [T_MAX], RUNS[INFORMED_D], 1, progress=told)
    return data


def _curves(data: "dict[str, xr.Dataset]") -> "dict[int, xr.Dataset]":
    return {d: data[f"gd_{d}"] for d in RUNS}


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    t = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    assert t.information is not None and t.algorithmic is not None
    curves = _curves(data)
    steps = {d: fit_step(ds) for d, ds in curves.items()}
    small, large = min(RUNS), max(RUNS)
    first, last = RATIOS[0], RATIOS[-1]
    rates = {d: ll.success_rate(ds) for d, ds in curves.items()}
    most = max(float(rate.success_rate_high.sel(sample_ratio=first)) for rate in rates.values())
    least = min(float(rate.success_rate_low.sel(sample_ratio=last)) for rate in rates.values())
    informed = ll.success_rate(data["informed"])
    random = rates[INFORMED_D].sel(sample_ratio=INFORMED_RATIO)
    told = ", ".join(f"{step} at d = {d}" for d, step in steps.items())
    return [
        Check(
            "possible from alpha = 1, easy for message passing from 1.128",
            abs(t.information - 1) < 1e-6 and abs(t.algorithmic - 1.12847) < 1e-5,
            f"{t.information:.6f} and {t.algorithmic:.6f}",
        ),
        Check(
            f"at alpha = {first:g}, where message passing is perfect, gradient descent fails",
            t.algorithmic < first and most < 0.15,
            f"{', '.join(f'{found_of(ds, first)} at d = {d}' for d, ds in curves.items())}; at most {most:.2f} (95 %)",
        ),
        Check(
            "half of its runs succeed only with more than 3 times the samples that message passing needs",
            min(step.low for step in steps.values()) > 3 * t.algorithmic,
            f"half-way points {told}, by t = {T_MAX:g}",
        ),
        Check(
            "the shares rise as a logistic step in log alpha",
            min(step.fits for step in steps.values()) > 1e-3,
            f"probability of such a scatter {', '.join(f'{step.fits:.2f}' for step in steps.values())}",
        ),
        Check(
            f"at alpha = {last:g} most of its runs succeed",
            least > 0.7,
            f"{', '.join(f'{found_of(ds, last)} at d = {d}' for d, ds in curves.items())}; at least {least:.2f} (95 %)",
        ),
        Check(
            f"the half-way point is higher at d = {large} than at d = {small}, outside their intervals",
            steps[large].low > steps[small].high,
            told,
        ),
        Check(
            f"control: from an overlap of {INFORMED:g} it succeeds at alpha = {INFORMED_RATIO:g}, d = {INFORMED_D}",
            float(informed.success_rate_low) > 0.5 + float(random.success_rate_high) / 2,
            f"{int(data['informed'].success.sum())} of {int(informed.runs)}, against "
            f"{found_of(curves[INFORMED_D], INFORMED_RATIO)} from a random start: it is the way that is hard",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    t = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    assert t.information is not None and t.algorithmic is not None
    fig, (left, right) = new_figure(2, width=5.6, height=4.4)
    left.axvline(t.information, color="0.4", ls="--", lw=1.5, label=f"possible: α = {t.information:.4g}")
    left.axvline(t.algorithmic, color=palette[4], lw=1.8, label=f"message passing: α = {t.algorithmic:.4g}")
    left.axhline(0.5, color="0.7", lw=0.8, zorder=0)
    looks = zip((palette[5], palette[0], palette[1]), "os^", (-0.06, 0, 0.06), strict=True)
    style = [(item, *look) for item, look in zip(_curves(data).items(), looks, strict=False)]  # a quick run has two
    for (d, ds), colour, marker, shift in style:
        draw_rates(left, ds, colour, marker, f"GD, d = {d}, {ds.sizes['replica']} runs each", shift)
    left.set(xlim=(0, 7.3), ylim=(-0.03, 1.03))
    left.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    style_axes(left, x="samples per weight α = n/d", y=f"share of runs with |overlap| > 0.99 by t = {T_MAX:g}")
    left.set_title("Points: shares, 95 % intervals. Lines: fitted steps", fontsize="medium", loc="left")

    for (d, ds), colour, marker, _ in style:
        step = fit_step(ds)
        bars = [[step.at - step.low], [step.high - step.at]]
        right.errorbar(d, step.at, bars, fmt=marker, color=colour, ms=7, capsize=3, label=f"GD half-way, d = {d}")
    right.axhline(t.algorithmic, color=palette[4], lw=1.8, label="message passing")
    right.axhline(t.information, color="0.4", ls="--", lw=1.5, label="possible")
    right.set_xscale("log", base=2)
    right.set_xticks(list(RUNS), [str(d) for d in RUNS], minor=False)
    right.set(xlim=(48, 340), ylim=(0, 6))
    right.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    style_axes(right, x="dimension d", y="α at which half of the runs succeed")
    right.set_title("The half-way point moves right as d grows", fontsize="medium", loc="left")
    fig.suptitle(
        "Phase retrieval by gradient descent takes about 4 times the samples of message passing, more as d grows"
    )
    return fig


ENTRY = Entry(
    name="gd-phase-retrieval",
    title="Success of gradient descent for phase retrieval against the sample ratio",
    claim="From a random start, half of the runs of gradient descent (eta = 0.02, t up to 50) need more than 3 times "
    "the samples of message passing, and the more the larger d is (64 to 256); at alpha = 7 most succeed.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=95,
    quick=Quick({"RUNS": {64: 80, 128: 24}}, seconds=35, full=("the half-way point is higher",)),
)
