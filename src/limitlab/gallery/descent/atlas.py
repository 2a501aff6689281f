r"""How many samples per weight phase retrieval takes, by method, on one picture, and how that moves with d.

What is possible (Bayes) and what message passing does are thresholds in the limit of large d. Descent has no sharp
threshold that is known: of gradient descent with one unit, with infinitely many, and of persistent SGD the figure shows
the ratio at which half of the runs succeed, at several d and up to a stated time. Two laws, a + b log d and
a + b/sqrt(d), are put through these points: while both fit, no limit can be told.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import Step, fit_step, found_of, part_of, success_curve
from limitlab.gallery.entry import Check, Entry, Progress
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "Trend", "curve", "problem", "trend"]

D, S_MAX, ETA, EVERY = 64, 1e6, 0.02, 25
COMMON = 3.0  # a ratio at which persistent SGD and gradient descent are compared


class Method(NamedTuple):
    """What the picture calls a method, its sample ratios, the runs at each dimension, the longest time, a colour."""

    label: str
    ratios: tuple[float, ...]
    runs: dict[int, int]
    t_max: float
    colour: str


METHODS = {
    "wide": Method(
        "gradient descent,\nwide network (m = ∞)\ns ≤ 10⁶",
        (1.75, 2.0, 2.25, 2.5, 2.75),
        {16: 16, 32: 12, D: 6},
        S_MAX,
        palette[2],
    ),
    "psgd": Method(
        "persistent SGD (b = ½, τ = 2)\nt ≤ 100", (2.0, 2.5, COMMON, 4.0), {D: 32, 128: 16, 256: 6}, 100.0, palette[3]
    ),
    "gd": Method(
        "gradient descent,\none unit\nt ≤ 50",
        (COMMON, 4.0, 5.0, 6.0, 7.0),
        {D: 48, 128: 24, 256: 12, 512: 5},
        50.0,
        palette[1],
    ),
}


def problem(method: str = "gd", alpha: float = COMMON) -> ll.Problem:
    if method == "wide":
        return ll.library.wide_phase_retrieval(alpha, width=D)
    persistent = ll.PersistentSGD(learning_rate=ETA, batch_fraction=0.5, persistence_time=2.0)
    return ll.library.descent_phase_retrieval(alpha, persistent if method == "psgd" else ll.GradientDescent(ETA))


def name_of(method: str, d: int) -> str:
    return f"{method}_{d}"


def curve(method: str, d: int = D, runs: int = 0, progress: Progress | None = None) -> "xr.Dataset":
    """How many runs of a method succeed at its sample ratios."""
    ratios, runs, t_max = METHODS[method].ratios, runs or METHODS[method].runs[d], METHODS[method].t_max
    if method != "wide":
        seen = ll.success_rate(problem(method), d=d, sample_ratios=ratios, t_max=t_max, runs=runs, seed=d, every=EVERY)
        if progress is not None:
            progress(1, 1, f"{method}, d = {d}")
        return seen

    def run(alpha: float, number: int, told: Progress | None) -> "xr.Dataset":
        one = problem(method, alpha)
        seen = ll.predict(one, ll.MatrixFlow(d=d, width=math.inf, replicas=runs, seed=number, rtol=1e-6), [S_MAX])
        if told is not None:
            told(1, 1, f"flow of A, alpha = {alpha:g}, d = {d}")
        return seen

    return success_curve(problem(method, ratios[0]), run, ratios, progress, method, d=d, s_max=S_MAX)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    t = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    limit = ll.analysis.dataset(
        problem(),
        {"threshold": ("kind", [t.information, t.algorithmic])},
        {"kind": ["bayes", "amp"]},
        method="thresholds",
    )
    cases = [(method, d) for method in METHODS for d in METHODS[method].runs]
    curves = {
        name_of(method, d): curve(method, d, progress=part_of(progress, i, len(cases)))
        for i, (method, d) in enumerate(cases)
    }
    return {"limits": limit, **curves}


class Trend(NamedTuple):
    """Half-way points at several d, and what two laws make of them.

    ``slope`` and its error: of a + b log2(d). ``limit`` and its error: a of a + b/sqrt(d). ``misfit``: the chi^2 of the
    two. Of two points alone both laws fit.
    """

    sizes: np.ndarray
    steps: list[Step]
    slope: float
    slope_error: float
    limit: float
    limit_error: float
    misfit: tuple[float, float]

    @property
    def told(self) -> bool:
        """Whether the points tell the two laws apart."""
        return abs(self.misfit[0] - self.misfit[1]) > 4


def trend(data: "dict[str, xr.Dataset]", method: str) -> Trend:
    sizes = np.array(list(METHODS[method].runs), float)
    steps = [fit_step(data[name_of(method, int(d))]) for d in sizes]
    at = np.array([step.at for step in steps])
    error = np.array([max(step.high - step.low, 1e-6) / (2 * 1.96) for step in steps])

    def fitted(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        design = np.stack([np.ones_like(x), x], axis=1) / error[:, None]
        cover = np.linalg.inv(design.T @ design)
        best = cover @ design.T @ (at / error)
        return best, np.sqrt(np.diag(cover)), float(np.sum((at / error - design @ best) ** 2))

    rising, bars, first = fitted(np.log2(sizes))
    flat, ends, second = fitted(1 / np.sqrt(sizes))
    return Trend(sizes, steps, rising[1], bars[1], flat[0], ends[0], (first, second))


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    bayes, amp = (float(data["limits"].threshold.sel(kind=name)) for name in ("bayes", "amp"))
    steps = {name: fit_step(data[name_of(name, D)]) for name in METHODS}
    trends = {name: trend(data, name) for name in METHODS}
    gd, others = steps["gd"], [steps["wide"], steps["psgd"]]
    told = ", ".join(f"{name} {step}" for name, step in steps.items())
    every = [step for one in trends.values() for step in one.steps]
    counts = data["gd_64"].success_rate
    backwards = data["gd_64"].assign(success_rate=(counts.dims, counts.values[::-1]))
    rate = {name: data[name_of(name, D)].sel(sample_ratio=COMMON) for name in ("psgd", "gd")}
    moves = trends["gd"]
    return [
        Check(
            "possible from 1, easy for message passing from 1.128",
            abs(bayes - 1) < 1e-6 and abs(amp - 1.12847) < 1e-5,
            f"{bayes:.6f} and {amp:.6f}",
        ),
        Check(
            f"each half-way point at d = {D} is inside the ratios at which its method was run",
            all(_inside(step, data[name_of(name, D)]) for name, step in steps.items()),
            told,
        ),
        Check(
            "all ways of descent need more than message passing, at every d",
            min(step.low for step in every) > amp,
            f"the least is {min(step.low for step in every):.2f} (95 %)",
        ),
        Check(
            "one unit by gradient descent needs more than a wide network, and more than persistent SGD",
            gd.low > max(step.high for step in others),
            f"{gd.at / others[0].at:.2f} and {gd.at / others[1].at:.2f} times as many",
        ),
        Check(
            f"at alpha = {COMMON:g} persistent SGD succeeds more often than gradient descent, beyond 95 % intervals",
            float(rate["psgd"].success_rate_low) > float(rate["gd"].success_rate_high),
            f"{found_of(data[name_of('psgd', D)], COMMON)} against {found_of(data[name_of('gd', D)], COMMON)}",
        ),
        Check(
            "the number of gradient descent moves up with d, beyond its error",
            moves.slope > 2 * moves.slope_error,
            f"{moves.slope:+.2f} +- {moves.slope_error:.2f} for each doubling of d; {_points(moves)}",
        ),
        Check(
            "where it heads cannot be told: a law that grows for ever and one with a limit fit alike",
            not moves.told,
            f"chi^2 {moves.misfit[0]:.1f} (log d) and {moves.misfit[1]:.1f} (1/sqrt d, limit {moves.limit:.1f} +- "
            f"{moves.limit_error:.1f}); persistent SGD: {_points(trends['psgd'])}; wide: {_points(trends['wide'])}",
        ),
        Check(
            f"the counts of each method at d = {D} rise as a logistic step in log alpha",
            min(step.fits for step in steps.values()) > 1e-3,
            f"probability of such a scatter {', '.join(f'{step.fits:.2f}' for step in steps.values())}",
        ),
        Check(
            "control: with the counts of gradient descent in the opposite order they do not",
            fit_step(backwards).fits < 1e-3,
            f"probability {fit_step(backwards).fits:.0e}",
        ),
    ]


def _points(one: Trend) -> str:
    return ", ".join(f"d = {d:g}: {step}" for d, step in zip(one.sizes, one.steps, strict=True))


def _inside(step: Step, curve: "xr.Dataset") -> bool:
    """Whether the whole interval of the half-way point lies among the sample ratios."""
    x = curve.sample_ratio.values
    return bool(x[0] < step.low and step.high < x[-1])


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (axes, moving) = new_figure(2, width=7.4, height=4.8)
    bayes, amp = (float(data["limits"].threshold.sel(kind=name)) for name in ("bayes", "amp"))
    rows = [("possible at all (Bayes)\nd → ∞", bayes, "0.35"), ("message passing (AMP)\nd → ∞", amp, palette[0])]
    for y, (_, value, colour) in enumerate(rows):
        axes.barh(y, value, color=colour, height=0.6)
        axes.text(value + 0.06, y, f"{value:.4g}", va="center", fontweight="bold", color=colour)
    for y, (name, method) in enumerate(METHODS.items(), start=len(rows)):
        step = fit_step(data[name_of(name, D)])
        axes.barh(y, step.at, color=method.colour, height=0.6, alpha=0.85)
        bars = [[step.at - step.low], [step.high - step.at]]
        axes.errorbar(step.at, y, xerr=bars, fmt="none", color="black", capsize=4, lw=1.5)
        axes.text(step.high + 0.06, y, f"{step.at:.1f}", va="center", fontweight="bold", color=method.colour)
    axes.axvline(bayes, color="0.35", ls="--", lw=1)
    axes.errorbar([], [], xerr=[], fmt="none", color="black", capsize=4, lw=1.5, label="95 % interval")
    axes.plot([], [], "--", color="0.35", lw=1, label="impossible to the left of this line")
    axes.set_yticks(range(len(rows) + len(METHODS)), [row[0] for row in rows] + [m.label for m in METHODS.values()])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.2 * fit_step(data[name_of("gd", D)]).high)
    axes.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.13))
    style_axes(axes, x=f"samples per weight α needed (descent: half of the runs, d = {D})", y="method")
    axes.grid(visible=False, axis="y")
    for name, method in METHODS.items():
        one = trend(data, name)
        at = np.array([step.at for step in one.steps])
        bars = [at - [step.low for step in one.steps], np.array([step.high for step in one.steps]) - at]
        label = method.label.replace("\n", " ")
        moving.errorbar(one.sizes, at, bars, fmt="o-", color=method.colour, ms=5, lw=1.2, capsize=3, label=label)
    moving.axhline(amp, color=palette[0], lw=1.2, label="message passing, d → ∞")
    moving.axhline(bayes, color="0.35", ls="--", lw=1)
    sizes = sorted({d for method in METHODS.values() for d in method.runs})
    moving.set_xscale("log", base=2)
    moving.set_xticks(sizes, [str(d) for d in sizes])
    moving.set_ylim(0, 1.2 * max(min(step.high, 9.0) for step in trend(data, "gd").steps))
    style_axes(moving, x="dimension d", y="α at which half of the runs succeed", title="descent moves with d")
    moving.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.13))
    fig.suptitle("Phase retrieval, y = |w*·x|: how many samples does each method need?")
    return fig


ENTRY = Entry(
    name="atlas",
    title="Samples needed for phase retrieval, by method, and how they move with d",
    claim=f"Possible from alpha = 1, easy for message passing from 1.128; at d = {D} descent takes more, and one unit "
    "by gradient descent takes more than a wide network or persistent SGD (half-way points, 95 % intervals). From "
    "d = 64 to 512 the number of gradient descent moves up, and these sizes do not tell where it heads.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=170,
)
