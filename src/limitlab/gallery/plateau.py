r"""The plateau of soft committee machines: students first become equal, then specialise.

Starting close to the symmetric subspace (all student-teacher overlaps equal), the overlaps of an erf committee stay
there for a time that grows like the logarithm of the initial asymmetry, and then each unit chooses a teacher unit
(Saad and Solla 1995). The asymmetry is given by the start here, large enough that the noise of SGD at the shown
dimension does not decide when the plateau ends.
"""

from typing import TYPE_CHECKING

import numpy as np

from limitlab.figures import new_figure, palette, style_axes
from limitlab.gallery.entry import Check, Entry
from limitlab.macro.overlap_ode import OverlapODE
from limitlab.macro.predict import predict
from limitlab.micro.simulate import simulate
from limitlab.numerics.progress import Progress
from limitlab.problems.library import soft_committee
from limitlab.problems.problem import Problem
from limitlab.results.compare import compare
from limitlab.sweep import sweep

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = ["ENTRY", "problems"]

WIDTHS, RATE, TILT = (2, 3), {2: 1.5, 3: 1.0}, 0.2
TIMES = {2: np.linspace(0, 40, 41), 3: np.linspace(0, 30, 41)}
D, REPLICAS = 2000, 64
TILTS = [1e-2, 1e-3, 1e-4, 1e-5]
LONG = np.linspace(0, 300, 301)


def problems() -> dict[str, tuple[Problem, np.ndarray]]:
    return {f"plateau, width {p}": (soft_committee(p, RATE[p], TILT), TIMES[p]) for p in WIDTHS}


def specialised(data: "xr.Dataset") -> np.ndarray:
    """M_00 - M_01: zero on the plateau, one when each unit has chosen."""
    return (data["M"].isel(student=0, teacher=0) - data["M"].isel(student=0, teacher=1)).values


def length(ode: "xr.Dataset") -> float:
    """Time at which the specialisation reaches one half."""
    gap = specialised(ode)
    return float(np.interp(0.5, gap, ode["time"])) if gap.max() > 0.5 else float("nan")


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {}
    for p in WIDTHS:
        one = soft_committee(p, RATE[p], TILT)
        data[f"ode_{p}"] = predict(one, OverlapODE(), TIMES[p])
        data[f"sgd_{p}"] = simulate(one, D, TIMES[p], REPLICAS, 0, "overlaps", progress)

    def flow(problem: Problem, tilt: float) -> "xr.Dataset":
        return predict(soft_committee(2, RATE[2], tilt), OverlapODE(), LONG)

    data["tilts"] = sweep(flow, soft_committee(2, RATE[2], TILT), {"tilt": TILTS}, progress=progress)
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    for p in WIDTHS:
        gap = compare(data[f"sgd_{p}"], data[f"ode_{p}"])
        checks.append(
            Check(
                f"SGD at d = {D} follows the ODE through the plateau, width {p}",
                gap.agrees,
                f"largest |z| {gap.max_z:.2f}",
            )
        )
        final = specialised(data[f"ode_{p}"])[-1]
        checks.append(Check(f"units specialise, width {p}", final > 0.9, f"M_00 - M_01 = {final:.3f} at the end"))
    lengths = np.array([length(data["tilts"].sel(tilt=t)) for t in TILTS])
    steps = np.diff(lengths)
    checks.append(
        Check(
            "each factor of ten in the asymmetry adds the same time to the plateau",
            bool(np.all(np.isfinite(steps)) and np.ptp(steps[1:]) < 0.05 * steps[1:].mean() and steps.mean() > 0),
            f"lengths {', '.join(f'{x:.2f}' for x in lengths)} for tilts {TILTS}",
        )
    )
    return checks


def figure(data: "dict[str, xr.Dataset]") -> "Figure":
    fig, axes = new_figure(3, width=4.2, height=3.8)
    for panel, p in zip(axes, WIDTHS, strict=False):
        ode, sgd = data[f"ode_{p}"], data[f"sgd_{p}"]
        for (i, r), colour, label in (
            ((0, 0), palette[0], "own teacher unit"),
            ((0, 1), palette[1], "other teacher unit"),
        ):
            panel.plot(ode.time, ode.M[:, i, r], color=colour, label=f"ODE, {label}")
            some = sgd.M[::3, :, i, r]
            error = some.std("replica", ddof=1) / np.sqrt(some.sizes["replica"])
            panel.errorbar(some.time, some.mean("replica"), error, fmt="o", color=colour, ms=4, capsize=2)
        panel.plot(ode.time, ode.risk, color="0.4", ls="--", label="risk, ODE")
        panel.errorbar([], [], [], fmt="o", color="black", ms=4, label=f"SGD, d = {D}")
        style_axes(panel, x="time t = γ·step/(p·d)", y="overlap M" if p == WIDTHS[0] else "")
        panel.set_title(f"p = k = {p}, γ = {RATE[p]:g}", fontsize="medium", loc="left")
    closer = data["tilts"].sel(tilt=1e-3)
    for r, colour in ((0, palette[0]), (1, palette[1])):
        words = "ODE, asymmetry 0.001" if r == 0 else None
        axes[0].plot(closer.time, closer.M[:, 0, r], ":", color=colour, label=words)
    axes[0].set_xlim(-1, TIMES[2][-1])
    axes[0].legend(fontsize="small", frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.8))
    lengths = [length(data["tilts"].sel(tilt=t)) for t in TILTS]
    axes[2].plot(TILTS, lengths, "o-", color=palette[2])
    axes[2].set_xscale("log")
    style_axes(axes[2], x="asymmetry of the start", y="time at which M$_{00}$ − M$_{01}$ = 1/2")
    axes[2].set_title("The plateau lasts log(1/asymmetry)", fontsize="medium", loc="left")
    fig.suptitle("Soft committee machines stay on a symmetric plateau, then specialise (erf)")
    return fig


ENTRY = Entry(
    name="plateau",
    title="The symmetric plateau of soft committee machines",
    claim="Erf committees stay on a symmetric plateau for a time proportional to log(1/asymmetry), then "
    "specialise, and "
    "SGD follows the overlap ODE through it.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=60,
)
