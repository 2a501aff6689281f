r"""What width gains: samples to leave the plateau against the learning rate, for p = 1, 2, 4, 8.

.. math::
    \frac nd = \frac{\log(\ldots)}{8\,\Gamma\,(1 - \Gamma c_p)}, \qquad
    c_p = 1 + \frac1p + \frac4{p^2}, \quad \Gamma = \gamma/p

in the linearised (quenched) formula, least at Gamma = 1/(2 c_p). For p >= 2 that rate is above 1/6, where the
student leaves the plateau but cannot align with the teacher: the formula promises a gain of up to 6 over p = 1, of
which 10/3 can be had at a rate that learns.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problems"]

D, THRESHOLD, REPLICAS, STARTS = 1000, 0.2, 64, 48
WIDTHS = (1, 2, 4, 8)
SIMULATED = {1: [0.05, 1 / 12, 0.12], 2: [0.05, 0.1, 0.15], 4: [0.05, 0.1, 0.15]}  # gamma/p of SGD, by width
CURVE = np.geomspace(0.02, 0.9, 15).tolist()  # gamma/p of the formulas
BOUND = 1 / 6  # of gamma/p: above it nothing is learned
WIDE, LEARNS = 4, 0.15  # the width whose trajectories are shown, and its rate that learns
RESIDUAL = 0.03  # of the noise-corrected formula at d = 1000, which is asymptotic in d
SPAN = 16  # samples over d of the trajectories
RATE = "algorithm.learning_rate"


def problems() -> dict[str, tuple[ll.Problem, np.ndarray]]:
    """For the test of the square; from a random start only the SDE can agree with SGD, see `escape`."""
    wide = ll.library.escaping_mediocrity(width=WIDE, learning_rate=LEARNS * WIDE)
    return {
        "escape-wide, random start": (wide, np.linspace(0, 1.2, 9)),
        "escape-wide, informed": (replace(wide, start=ll.InformedStart(0.4)), np.linspace(0, 1.2, 13)),
    }


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    def sgd(problem: ll.Problem) -> ll.analysis.ExitTime:
        plateau = ll.analysis.plateau(problem)
        # The upper tail of the exit time falls like exp(-p growth t/2).
        end = float(ll.exit_time(problem, D, THRESHOLD)) + 9 / (plateau.growth * math.sqrt(plateau.width))
        times = np.linspace(0, end, 61)
        return ll.analysis.measured_exit_time(
            ll.simulate(problem, D, times, REPLICAS, 0, "overlaps", progress), THRESHOLD
        )

    data, table = {}, {"d": D, "threshold": THRESHOLD}
    for p in WIDTHS:
        problem = ll.library.escaping_mediocrity(width=p)
        top = 0.98 / ll.analysis.plateau(problem).c
        asked = sorted({*CURVE, *SIMULATED.get(p, ())})
        rates = {RATE: [Gamma * p for Gamma in asked if Gamma < top]}
        data[f"linear_p{p}"] = ll.sweep(ll.exit_time, problem, rates, average="quenched", **table)
        data[f"theory_p{p}"] = ll.sweep(ll.exit_time, problem, rates, average="noise_corrected", starts=STARTS, **table)
        if p in SIMULATED:
            data[f"sgd_p{p}"] = ll.sweep(sgd, problem, {RATE: [Gamma * p for Gamma in SIMULATED[p]]})
        best = _optimum(p) * p
        full = {"threshold": THRESHOLD, "average": "full", "starts": STARTS}
        data[f"optimum_p{p}"] = ll.sweep(ll.exit_time, problem, {RATE: [best]}, d=D, **full)
        grid = {RATE: [min(best, 0.99 * BOUND * p)], "d": [1e3, 1e6]}
        data[f"gain_p{p}"] = ll.sweep(ll.exit_time, problem, grid, **full)
    for name, Gamma in (("learns", LEARNS), ("optimal", _optimum(WIDE))):
        problem, times = (
            ll.library.escaping_mediocrity(width=WIDE, learning_rate=Gamma * WIDE),
            np.linspace(0, SPAN * Gamma, 61),
        )
        data[f"ode_{name}"] = ll.predict(problem, ll.OverlapODE(d=D, replicas=8), times)
        data[f"sgd_{name}"] = ll.simulate(problem, D, times, REPLICAS, 0, "overlaps", progress)
    return data


def _optimum(p: int) -> float:
    """gamma_opt/p."""
    return float(ll.optimal_learning_rate(ll.library.escaping_mediocrity(width=p))) / p


def _gain(data: "dict[str, xr.Dataset]", p: int) -> float:
    """Ratio of the slopes of n/d in log d, so that the constants beside log d drop out."""
    slopes = {w: np.diff(data[f"gain_p{w}"]["samples"].values[0] / [1e3, 1e6])[0] for w in (1, p)}
    return float(slopes[1] / slopes[p])


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    off, told = [], []
    for p, Gammas in SIMULATED.items():
        for Gamma in Gammas:
            t, e = (float(data[f"sgd_p{p}"][name].sel({RATE: Gamma * p})) for name in ("sgd", "stderr"))
            theory = float(data[f"theory_p{p}"]["exit_time"].sel({RATE: Gamma * p}))
            off.append(max(abs(t - theory) - RESIDUAL * theory, 0) / e)
            told.append(f"p = {p}, gamma/p = {Gamma:.3f}: {t:.3f} +- {e:.3f} ({theory:.3f})")
    one = data["sgd_p1"]["samples"].values / D
    low = {
        name: float((data[f"ode_{name}"]["risk"] / data[f"ode_{name}"]["risk"][0]).min())
        for name in ("optimal", "learns")
    }
    never = {p: str(data[f"optimum_p{p}"]["status"].values[0]) for p in (4, 8)}
    left, learnt = (data[f"sgd_{name}"]["risk"].mean("replica") for name in ("optimal", "learns"))
    end = float(learnt[-1] / learnt[0])
    gains = {p: (_gain(data, p), ll.analysis.overparametrisation_gain(p)) for p in WIDTHS[1:]}
    top = ll.analysis.overparametrisation_gain(math.inf)
    return [
        Check(
            "SGD leaves when the noise-corrected formula says, for every width and rate",
            max(off) < 4,
            f"exit times (formula in brackets): {'; '.join(told)}; "
            f"largest excess over {RESIDUAL:.0%}: {max(off):.1f} s.e.",
        ),
        Check(
            "p = 1 needs fewest samples at gamma_opt = 1/12",
            bool(one[1] < min(one[0], one[2])),
            ", ".join(f"gamma = {g:.3f}: n/d = {n:.1f}" for g, n in zip(SIMULATED[1], one, strict=True)),
        ),
        Check(
            f"at its gamma_opt a student of width 4 or 8 never loses a share T = {THRESHOLD:g} of its risk",
            all(status == "not_reached" for status in never.values()) and low["optimal"] > 1 - THRESHOLD,
            f"full equations: p = 4 {never[4]}, p = 8 {never[8]}; lowest R/R(0) of OverlapODE at p = {WIDE}: "
            f"{low['optimal']:.3f}; SGD, mean of {REPLICAS} runs: {float(left.min() / left[0]):.3f}",
        ),
        Check(
            f"below gamma = p/6 it learns (p = {WIDE}, gamma/p = {LEARNS:g})",
            max(low["learns"], end) < 0.5 * low["optimal"],
            f"at n/d = {SPAN} R/R(0) = {low['learns']:.3f} (best start of OverlapODE), {end:.3f} (mean of SGD)",
        ),
        Check(
            "the gain over p = 1 in samples per log d is the attainable one, below 10/3 and below the formula's 6",
            all(abs(g / gain.attainable - 1) < 0.02 and g < 10 / 3 for g, gain in gains.values())
            and abs(top.attainable - 10 / 3) < 1e-12
            and abs(top.at_optimum - 6) < 1e-12,
            "; ".join(
                f"p = {p}: measured {g:.2f}, attainable {gain.attainable:.2f}, at gamma_opt {gain.at_optimum:.2f}"
                for p, (g, gain) in gains.items()
            ),
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, middle, right) = new_figure(3, width=4.8, height=4.2)
    colours = dict(zip(WIDTHS, (palette[6], *palette[:3]), strict=True))
    for p, colour in colours.items():
        linear, theory = data[f"linear_p{p}"], data[f"theory_p{p}"]
        left.plot(linear[RATE] / p, linear["samples"] / D, "--", color=colour, lw=1)
        left.plot(
            theory[RATE] / p,
            np.where(theory["status"] == "ok", theory["samples"] / D, np.nan),
            color=colour,
            label=f"p = {p}",
        )
        best = ll.exit_time(ll.library.escaping_mediocrity(p, _optimum(p) * p), D, THRESHOLD).samples / D
        left.plot(_optimum(p), best, "*", ms=12, color=colour, mec="white")
        if p in SIMULATED:
            n = data[f"sgd_p{p}"]["samples"].values / D
            error = 2 * n * data[f"sgd_p{p}"]["stderr"].values / data[f"sgd_p{p}"]["sgd"].values
            left.errorbar(SIMULATED[p], n, error, fmt="o", color=colour, capsize=3)
    _note_bound(left)
    for style, label in (("--", "linearised"), ("*", "its optimum"), ("-", "full, with noise"), ("o", "SGD (2 s.e.)")):
        left.plot([], [], style, color="0.4", label=label)
    left.set(xscale="log", yscale="log", ylim=(2, 130))
    left.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
    left.set_yticks([3, 5, 10, 20, 50], ["3", "5", "10", "20", "50"])
    left.minorticks_off()
    left.legend(fontsize="small", frameon=False, ncols=2, loc="upper right")
    style_axes(left, x="γ/p", y=f"samples to exit n/d (d = {D}, T = {THRESHOLD:g})")
    left.set_title("The formula's best rates (★) lie beyond p/6", fontsize="medium", loc="left")

    for name, colour, Gamma in (("optimal", palette[1], _optimum(WIDE)), ("learns", palette[0], LEARNS)):
        ode, sgd = (data[f"{kind}_{name}"]["risk"] for kind in ("ode", "sgd"))
        middle.plot(ode["time"] / Gamma, ode / ode[0], color=colour, lw=0.8, alpha=0.7)
        share = (sgd / sgd[0]).isel(time=slice(0, None, 4))
        error = share.std("replica", ddof=1) / np.sqrt(REPLICAS)
        label = f"γ/p = {Gamma:.2f}" + (" (optimum)" if name == "optimal" else " (below 1/6)")
        middle.errorbar(share["time"] / Gamma, share.mean("replica"), error, fmt="o", color=colour, ms=4, label=label)
    middle.axhline(1 - THRESHOLD, color="0.4", lw=1, ls="--")
    middle.text(SPAN, 1 - THRESHOLD - 0.015, "exit", ha="right", va="top", color="0.4")
    middle.plot([], [], color="0.4", lw=0.8, label="ODE, 8 starts")
    middle.legend(fontsize="small", frameon=False, loc="lower left")
    style_axes(middle, x="samples n/d", y="risk R/R(0)")
    middle.set_title(f"p = {WIDE}: at its γ_opt SGD gets stuck", fontsize="medium", loc="left")

    widths = np.geomspace(1, 64, 25)
    gains = [ll.analysis.overparametrisation_gain(p) for p in np.unique(np.rint(widths)).astype(int).tolist()]
    right.plot(
        [g.width for g in gains],
        [g.at_optimum for g in gains],
        "--",
        color=palette[1],
        label="at γ_opt (does not learn)",
    )
    right.plot([g.width for g in gains], [g.attainable for g in gains], color=palette[0], label="at a rate that learns")
    right.plot(WIDTHS, [_gain(data, p) for p in WIDTHS], "s", color="black", label="full ODE, from d = 10³ to 10⁶")
    for level, name, colour in ((6, "6", palette[1]), (10 / 3, "10/3", palette[0])):
        right.axhline(level, color=colour, lw=0.7, ls=":")
        right.text(1.05, level + 0.06, name, color=colour, va="bottom")
    right.set(xscale="log", ylim=(0.8, 6.8))
    right.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
    right.minorticks_off()
    right.legend(fontsize="small", frameon=False, loc="lower right")
    style_axes(right, x="student width p", y="gain over p = 1 in samples per log d")
    right.set_title("The attainable gain is at most 10/3", fontsize="medium", loc="left")
    fig.suptitle("Width helps to escape, but less than the linearised formula promises")
    return fig


def _note_bound(axes) -> None:
    axes.axvspan(BOUND, 0.95, color="0.93", zorder=0)
    axes.text(BOUND * 1.05, 2.1, "γ > p/6: does not learn", color="0.4", fontsize="small", va="bottom")


ENTRY = Entry(
    name="escape-wide",
    title="Over-parametrised phase retrieval: samples to escape against learning rate and width",
    claim="A wider student leaves the plateau with fewer samples, but at the rate that the linearised formula calls "
    "optimal it does not learn (p >= 2: gamma_opt > p/6); at rates that learn the gain over p = 1 is below 10/3.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=45,
    quick=Quick({"REPLICAS": 32, "STARTS": 16, "CURVE": [0.02, 0.05, 0.1, 0.2, 0.4, 0.8]}, seconds=20),
)
