r"""How many samples per weight phase retrieval takes, by method, on one picture.

What is possible (Bayes) and what message passing does are thresholds in the limit of large d. Descent has no sharp
threshold that is known: of gradient descent with one unit, with infinitely many, and of persistent SGD the figure shows
the ratio at which half of the runs succeed, all three at the same d and up to a stated time.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import limitlab as ll
from limitlab.gallery.descent.success_curves import Step, fit_step, found_of, part_of, success_curve
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "curve", "problem"]

D, T_MAX, S_MAX = 64, 200.0, 1e6
COMMON = 3.0  # a ratio at which persistent SGD and gradient descent are compared


class Method(NamedTuple):
    """What the picture calls a method, the sample ratios at which it is run, and how often."""

    label: str
    ratios: tuple[float, ...]
    runs: int
    colour: str


METHODS = {
    "wide": Method(f"gradient descent,\nwide network (m = ∞)\nd = {D}, s ≤ 10⁶", (2.0, 2.25, 2.5, 2.75), 8, palette[2]),
    "psgd": Method(f"persistent SGD (b = ½, τ = 2)\nd = {D}, t ≤ {T_MAX:g}", (2.0, 2.5, COMMON, 3.5), 24, palette[3]),
    "gd": Method(f"gradient descent,\none unit\nd = {D}, t ≤ {T_MAX:g}", (2.0, COMMON, 4.0, 5.0, 6.0), 48, palette[1]),
}


def problem(method: str = "gd", alpha: float = COMMON) -> ll.Problem:
    if method == "wide":
        return ll.library.wide_phase_retrieval(alpha, width=D)
    persistent = ll.PersistentSGD(learning_rate=0.01, batch_fraction=0.5, persistence_time=2.0)
    return ll.library.descent_phase_retrieval(alpha, persistent if method == "psgd" else ll.GradientDescent(0.02))


def curve(method: str, d: int = D, runs: int = 0, progress: Progress | None = None) -> "xr.Dataset":
    """Which runs of a method succeed at its sample ratios."""
    ratios, runs = METHODS[method].ratios, runs or METHODS[method].runs

    def run(alpha: float, number: int, told: Progress | None) -> "xr.Dataset":
        one = problem(method, alpha)
        if method != "wide":
            return ll.simulate(one, d, [T_MAX], runs, number, progress=told)
        seen = ll.predict(one, ll.MatrixFlow(d=d, width=math.inf, replicas=runs, seed=number, rtol=1e-6), [S_MAX])
        if told is not None:
            told(1, 1, f"flow of A, alpha = {alpha:g}")
        return seen

    return success_curve(problem(method, ratios[0]), run, ratios, progress, method, d=d, t_max=T_MAX, s_max=S_MAX)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    t = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    limit = ll.analysis.dataset(
        problem(),
        {"threshold": ("kind", [t.information, t.algorithmic])},
        {"kind": ["bayes", "amp"]},
        method="thresholds",
    )
    curves = {name: curve(name, progress=part_of(progress, i, len(METHODS))) for i, name in enumerate(METHODS)}
    return {"limits": limit, **curves}


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    bayes, amp = (float(data["limits"].threshold.sel(kind=name)) for name in ("bayes", "amp"))
    steps = {name: fit_step(data[name]) for name in METHODS}
    gd, others = steps["gd"], [steps["wide"], steps["psgd"]]
    told = ", ".join(f"{name} {step}" for name, step in steps.items())
    counts = data["gd"].success
    backwards = data["gd"].assign(success=(counts.dims, counts.values[::-1]))
    rate = {name: ll.success_rate(data[name]).sel(sample_ratio=COMMON) for name in ("psgd", "gd")}
    return [
        Check(
            "possible from 1, easy for message passing from 1.128",
            abs(bayes - 1) < 1e-6 and abs(amp - 1.12847) < 1e-5,
            f"{bayes:.6f} and {amp:.6f}",
        ),
        Check(
            "each half-way point is inside the ratios at which its method was run",
            all(_inside(step, data[name]) for name, step in steps.items()),
            told,
        ),
        Check(
            "all ways of descent need more than message passing",
            min(step.low for step in steps.values()) > amp,
            f"the least is {min(step.low for step in steps.values()):.2f} (95 %)",
        ),
        Check(
            "one unit by gradient descent needs more than a wide network, and more than persistent SGD",
            gd.low > max(step.high for step in others),
            f"{gd.at / others[0].at:.2f} and {gd.at / others[1].at:.2f} times as many",
        ),
        Check(
            f"at alpha = {COMMON:g} persistent SGD succeeds more often than gradient descent, beyond 95 % intervals",
            float(rate["psgd"].success_rate_low) > float(rate["gd"].success_rate_high),
            f"{found_of(data['psgd'], COMMON)} against {found_of(data['gd'], COMMON)}",
        ),
        Check(
            "the counts of each method rise as a logistic step in log alpha",
            min(step.fits for step in steps.values()) > 1e-3,
            f"probability of such a scatter {', '.join(f'{step.fits:.2f}' for step in steps.values())}",
        ),
        Check(
            "control: with the counts of gradient descent in the opposite order they do not",
            fit_step(backwards).fits < 1e-3,
            f"probability {fit_step(backwards).fits:.0e}",
        ),
    ]


def _inside(step: Step, curve: "xr.Dataset") -> bool:
    """Whether the whole interval of the half-way point lies among the sample ratios."""
    x = curve.sample_ratio.values
    return bool(x[0] < step.low and step.high < x[-1])


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (axes,) = new_figure(1, width=9.0, height=4.6)
    bayes, amp = (float(data["limits"].threshold.sel(kind=name)) for name in ("bayes", "amp"))
    rows = [("possible at all (Bayes)\nd → ∞", bayes, "0.35"), ("message passing (AMP)\nd → ∞", amp, palette[0])]
    for y, (_, value, colour) in enumerate(rows):
        axes.barh(y, value, color=colour, height=0.6)
        axes.text(value + 0.06, y, f"{value:.4g}", va="center", fontweight="bold", color=colour)
    for y, (name, method) in enumerate(METHODS.items(), start=len(rows)):
        step = fit_step(data[name])
        axes.barh(y, step.at, color=method.colour, height=0.6, alpha=0.85)
        bars = [[step.at - step.low], [step.high - step.at]]
        axes.errorbar(step.at, y, xerr=bars, fmt="none", color="black", capsize=4, lw=1.5)
        axes.text(step.high + 0.06, y, f"{step.at:.1f}", va="center", fontweight="bold", color=method.colour)
    axes.axvline(bayes, color="0.35", ls="--", lw=1)
    axes.errorbar([], [], xerr=[], fmt="none", color="black", capsize=4, lw=1.5, label="95 % interval")
    axes.plot([], [], "--", color="0.35", lw=1, label="impossible to the left of this line")
    axes.set_yticks(range(len(rows) + len(METHODS)), [row[0] for row in rows] + [m.label for m in METHODS.values()])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * fit_step(data["gd"]).high)
    axes.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.13))
    style_axes(
        axes, x="samples per weight α = n/d needed (descent: half of the runs from a random start succeed)", y="method"
    )
    axes.grid(visible=False, axis="y")
    fig.suptitle("Phase retrieval, y = |w*·x|: how many samples does each method need?")
    return fig


ENTRY = Entry(
    name="atlas",
    title="Samples needed for phase retrieval, by method",
    claim=f"Possible from alpha = 1, easy for message passing from 1.128; at d = {D} descent takes more, and one unit "
    "by gradient descent takes more than a wide network or persistent SGD (half-way points, 95 % intervals).",
    compute=compute,
    check=check,
    figure=figure,
    seconds=70,
    quick=Quick({"METHODS": {name: one._replace(runs=one.runs // 2) for name, one in METHODS.items()}}, seconds=35),
)
