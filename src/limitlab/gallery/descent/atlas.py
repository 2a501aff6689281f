r"""How many samples per weight phase retrieval takes, by method, on one picture, and how the numbers of descent move.

What is possible (Bayes) and what message passing does are thresholds in the limit of large d. Descent has no sharp
threshold that is known: of gradient descent with one unit, with infinitely many, and of persistent SGD the figure shows
the ratio at which half of the runs succeed up to a stated time, side by side at d = 64, and as d grows. Two forms,
a + b/d (a limit that is near) and a + b log d (none), carry the numbers on to d = 10^4, with their errors. A run takes
about 2 s of a core at d = 512, hence fewest of them there.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import Step, fit_step, part_of, success_curve, trend
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, Panel, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "curve", "heading", "problem"]

D, T_MAX, S_MAX = 64, 50.0, 1e6  # D: the dimension at which methods stand side by side
ETA = 0.04  # half of it gives the same shares
FAR, SLIDE = 1e4, 7.0  # where the two forms are compared; what the talk has for gradient descent
COMMON = 3.5  # a ratio at which persistent SGD and gradient descent are compared
OPEN = 1.25  # between the ends of what is possible at d = 10^4: more than that is not knowing where it heads
SURE, POOR = 3.0, 1e-3  # standard errors of a slope that is there; the probability of a fit that is refused


class Size(NamedTuple):
    """The sample ratios at which a method is run at one dimension, and how often at each."""

    ratios: tuple[float, ...]
    runs: int


class Method(NamedTuple):
    """What the picture calls a method, and where it is run, by dimension."""

    label: str
    colour: str
    sizes: dict[int, Size]


METHODS = {
    "wide": Method(
        "gradient descent,\nwide network (m = ∞)\ns ≤ 10⁶",
        palette[2],
        {16: Size((1.5, 2.0, 2.5, 3.0), 16), 32: Size((1.75, 2.25, 2.75), 12), D: Size((2.0, 2.25, 2.5, 2.75), 6)},
    ),
    "psgd": Method(
        f"persistent SGD\n(b = ½, τ = 2)\nt ≤ {T_MAX:g}",
        palette[3],
        {
            D: Size((2.0, 2.5, COMMON, 4.5), 60),
            128: Size((2.5, 3.5, 4.5), 40),
            256: Size((2.75, 3.75, 4.75), 24),
            512: Size((3.0, 4.0, 5.0), 16),
        },
    ),
    "gd": Method(
        f"gradient descent,\none unit\nt ≤ {T_MAX:g}",
        palette[1],
        {
            D: Size((2.0, COMMON, 5.0, 6.5), 60),
            128: Size((3.0, 4.5, 6.0), 48),
            256: Size((3.5, 5.0, 6.5), 32),
            512: Size((3.5, 5.0, 6.5), 16),
        },
    ),
}


def near(d: np.ndarray) -> np.ndarray:
    return 1 / d


def endless(d: np.ndarray) -> np.ndarray:
    return np.log2(d)


FORMS = (("a + b/d", near, "-"), ("a + b log d", endless, "--"))


def problem(method: str = "gd", alpha: float = COMMON, d: int = D) -> ll.Problem:
    if method == "wide":
        return ll.library.wide_phase_retrieval(alpha, width=d)
    persistent = ll.PersistentSGD(learning_rate=ETA, batch_fraction=0.5, persistence_time=2.0)
    return ll.library.descent_phase_retrieval(alpha, persistent if method == "psgd" else ll.GradientDescent(ETA))


def curve(method: str, d: int = D, size: Size | None = None, progress: Progress | None = None) -> "xr.Dataset":
    """Success of a method at one dimension. Each ratio has its own data sets: counts are independent."""
    ratios, runs = METHODS[method].sizes[d] if size is None else size
    if method == "wide":
        return _wide_curve(d, ratios, runs, progress)
    parts = []
    for i, alpha in enumerate(ratios):
        one = problem(method, alpha)
        parts.append(ll.success_rate(one, d=d, t_max=T_MAX, runs=runs, seed=1000 * d + i))
        if (told := part_of(progress, i, len(ratios))) is not None:
            told(1, 1, f"{method}, d = {d}, alpha = {alpha:g}")
    names = [name for name in parts[0].data_vars if name != "t_max"]
    columns = {str(name): ("sample_ratio", [float(part[name]) for part in parts]) for name in names}
    attrs = {"d": d, "t_max": T_MAX}
    return ll.analysis.dataset(problem(method), columns, {"sample_ratio": list(ratios)}, method=method, attrs=attrs)


def _wide_curve(d: int, ratios: tuple[float, ...], runs: int, progress: Progress | None) -> "xr.Dataset":
    def run(alpha: float, number: int, told: Progress | None) -> "xr.Dataset":
        flow = ll.MatrixFlow(d=d, width=math.inf, replicas=runs, seed=number, rtol=1e-6)
        seen = ll.predict(problem("wide", alpha, d), flow, [S_MAX])
        if told is not None:
            told(1, 1, f"flow of A, d = {d}, alpha = {alpha:g}")
        return seen

    return success_curve(problem("wide", ratios[0], d), run, ratios, progress, "wide", d=d, s_max=S_MAX)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    t = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    limit = ll.analysis.dataset(
        problem(),
        {"threshold": ("kind", [t.information, t.algorithmic])},
        {"kind": ["bayes", "amp"]},
        method="thresholds",
    )
    cases = [(name, d) for name, method in METHODS.items() for d in method.sizes]
    curves = {
        f"{name}_{d}": curve(name, d, None, part_of(progress, i, len(cases))) for i, (name, d) in enumerate(cases)
    }
    return {"limits": limit, **curves}


def points(data: "dict[str, xr.Dataset]", method: str) -> dict[int, Step]:
    """Half-way points of a method by dimension."""
    return {d: fit_step(data[f"{method}_{d}"]) for d in METHODS[method].sizes}


def heading(each: dict[int, Step]) -> tuple[float, float]:
    """Where the number may be at d = 10^4: the 95 % intervals of forms that fit, together; anywhere, if none."""
    good = [one for one in (trend(each, form, FAR) for _, form, _ in FORMS) if one.fits > POOR]
    ends = [(one.at - 2 * one.error, one.at + 2 * one.error) for one in good] or [(0.0, math.inf)]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _headed(each: dict[int, Step]) -> str:
    words = " or ".join(f"{trend(each, form, FAR)} by {label}" for label, form, _ in FORMS)
    low, high = heading(each)
    return f"{words}: {low:.1f} to {high:.1f}"


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    bayes, amp = (float(data["limits"].threshold.sel(kind=name)) for name in ("bayes", "amp"))
    every = {name: points(data, name) for name in METHODS}
    steps = {name: each[D] for name, each in every.items()}
    gd, others = steps["gd"], [steps["wide"], steps["psgd"]]
    all_steps = [(step, data[f"{name}_{d}"]) for name, each in every.items() for d, step in each.items()]
    least = min(step.low for step, _ in all_steps)
    rate = {name: data[f"{name}_{D}"].sel(sample_ratio=COMMON) for name in ("psgd", "gd")}
    shares = {name: f"{float(one.success_rate):.2f} of {int(one.runs)} runs" for name, one in rate.items()}
    counts = data[f"gd_{D}"].success_rate
    backwards = fit_step(data[f"gd_{D}"].assign(success_rate=(counts.dims, counts.values[::-1])))
    rise = {name: trend(each, endless, FAR) for name, each in every.items()}
    turned = trend(dict(zip(every["wide"], reversed(every["wide"].values()), strict=True)), endless, FAR)
    ends = {name: heading(each) for name, each in every.items()}
    return [
        Check(
            "possible from 1, easy for message passing from 1.128",
            abs(bayes - 1) < 1e-6 and abs(amp - 1.12847) < 1e-5,
            f"{bayes:.6f} and {amp:.6f}",
        ),
        Check(
            "each half-way point is inside the ratios at which its method was run",
            all(_inside(step, ds) for step, ds in all_steps),
            "; ".join(
                f"{name} {', '.join(f'{d}: {step}' for d, step in each.items())}" for name, each in every.items()
            ),
        ),
        Check("all ways of descent need more than message passing", least > amp, f"the least is {least:.2f} (95 %)"),
        Check(
            f"one unit by gradient descent needs more than a wide network, and more than persistent SGD, at d = {D}",
            gd.low > max(step.high for step in others),
            f"{gd.at / others[0].at:.2f} and {gd.at / others[1].at:.2f} times as many",
        ),
        Check(
            f"persistent SGD succeeds more often than gradient descent at alpha = {COMMON:g}, d = {D}, beyond 95 % "
            "intervals",
            float(rate["psgd"].success_rate_low) > float(rate["gd"].success_rate_high),
            f"{shares['psgd']} against {shares['gd']}",
        ),
        Check(
            "the counts of each method rise as a logistic step in log alpha",
            min(step.fits for step, _ in all_steps) > POOR,
            f"smallest probability of such a scatter {min(step.fits for step, _ in all_steps):.3f}",
        ),
        Check(
            "control: with the counts of gradient descent in the opposite order they do not",
            backwards.fits < POOR,
            f"probability {backwards.fits:.0e}",
        ),
        Check(
            "what a wide network needs rises with d; of one unit the slopes are told with their errors",
            rise["wide"].slope / rise["wide"].slope_error > SURE,
            "; ".join(f"{name} {one.slope:+.2f} ± {one.slope_error:.2f} a doubling" for name, one in rise.items()),
        ),
        Check(
            "control: with the dimensions in the opposite order it does not rise",
            turned.slope / turned.slope_error < SURE,
            f"{turned.slope:+.2f} ± {turned.slope_error:.2f} a doubling",
        ),
        Check(
            f"where a number heads cannot be told from these d: at d = 10⁴ a factor of {OPEN:g} or more is left open",
            all(high > OPEN * low for low, high in ends.values()),
            "; ".join(f"{name}: {_headed(each)}" for name, each in every.items()),
        ),
    ]


def _inside(step: Step, curve: "xr.Dataset") -> bool:
    """Whether the whole interval of the half-way point lies among the sample ratios."""
    x = curve.sample_ratio.values
    return bool(x[0] < step.low and step.high < x[-1])


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (bars, moves) = new_figure(2, width=6.6, height=4.8)
    _bars(bars, data)
    _moves(moves, data)
    fig.suptitle("Phase retrieval, y = |w*·x|: how many samples does each method need?")
    return fig


def _bars(axes: Panel, data: "dict[str, xr.Dataset]") -> None:
    bayes, amp = (float(data["limits"].threshold.sel(kind=name)) for name in ("bayes", "amp"))
    rows = [("possible at all (Bayes)\nd → ∞", bayes, "0.35"), ("message passing (AMP)\nd → ∞", amp, palette[0])]
    for y, (_, value, colour) in enumerate(rows):
        axes.barh(y, value, color=colour, height=0.6)
        axes.text(value + 0.06, y, f"{value:.4g}", va="center", fontweight="bold", color=colour)
    for y, (name, method) in enumerate(METHODS.items(), start=len(rows)):
        step = fit_step(data[f"{name}_{D}"])
        axes.barh(y, step.at, color=method.colour, height=0.6, alpha=0.85)
        ends = [[step.at - step.low], [step.high - step.at]]
        axes.errorbar(step.at, y, xerr=ends, fmt="none", color="black", capsize=4, lw=1.5)
        axes.text(step.high + 0.06, y, f"{step.at:.1f}", va="center", fontweight="bold", color=method.colour)
    axes.axvline(bayes, color="0.35", ls="--", lw=1)
    axes.errorbar([], [], xerr=[], fmt="none", color="black", capsize=4, lw=1.5, label="95 % interval")
    axes.plot([], [], "--", color="0.35", lw=1, label="impossible to the left of this line")
    axes.set_yticks(range(len(rows) + len(METHODS)), [row[0] for row in rows] + [m.label for m in METHODS.values()])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * fit_step(data[f"gd_{D}"]).high)
    axes.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.13))
    style_axes(axes, x="samples per weight α = n/d (descent: half of the runs succeed)", y="method")
    axes.set_title(f"Descent at d = {D}, from a random start", fontsize="medium", loc="left")
    axes.grid(visible=False, axis="y")


def _moves(axes: Panel, data: "dict[str, xr.Dataset]") -> None:
    for name, method in METHODS.items():
        each = points(data, name)
        at, low, high = (np.array([getattr(step, end) for step in each.values()]) for end in ("at", "low", "high"))
        label = method.label.replace("\n", " ")
        axes.errorbar(list(each), at, [at - low, high - at], fmt="o", color=method.colour, ms=6, capsize=3, label=label)
        dense = np.geomspace(min(each), FAR, 60)
        for _, form, line in FORMS:
            there = [trend(each, form, d).at for d in dense]
            axes.plot(dense, there, line, color=method.colour, lw=1.2, alpha=0.8)
    axes.axhline(SLIDE, color="0.6", ls=":", lw=1.5, label=f"gradient descent in the talk: about {SLIDE:g}")
    for label, _, line in FORMS:
        axes.plot([], [], line, color="0.3", lw=1.2, label=f"fitted: {label}")
    axes.set_xscale("log")
    axes.set(xlim=(12, 1.3 * FAR), ylim=(1, 8))
    axes.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.13))
    style_axes(axes, x="dimension d", y="α at which half of the runs succeed")
    axes.set_title("The numbers move with d; where they head cannot be told", fontsize="medium", loc="left")


ENTRY = Entry(
    name="atlas",
    title="Samples needed for phase retrieval, by method, and how the numbers of descent move with d",
    claim=f"Possible from alpha = 1, easy for message passing from 1.128; at d = {D} descent takes more, and one unit "
    "by gradient descent takes more than a wide network or persistent SGD (half-way points, 95 % intervals). What "
    "a wide network takes rises with d (16 to 64); where the numbers head cannot be told from these d (up to 512).",
    compute=compute,
    check=check,
    figure=figure,
    seconds=300,
    quick=Quick(
        {
            "METHODS": {
                name: one._replace(
                    sizes={d: size._replace(runs=size.runs // 2) for d, size in one.sizes.items() if d <= D}
                )
                if name == "wide"
                else one._replace(
                    sizes={
                        D: Size((one.sizes[D].ratios[0], COMMON, one.sizes[D].ratios[-1]), one.sizes[D].runs),
                        2 * D: one.sizes[2 * D],
                    }
                )
                for name, one in METHODS.items()
            }
        },
        seconds=40,
        full=("rises with d", "cannot be told", "does not rise"),
        told="a wide network with half of the runs; one unit at d = 64 and 128, full up to 512, and fewer ratios",
    ),
)
