r"""The plateau of soft committee machines: students first become equal, then specialise.

Starting close to the symmetric subspace (all student-teacher overlaps equal), the overlaps of an erf committee stay
there for a time that grows like the logarithm of the initial asymmetry, and then each unit chooses a teacher unit
(Saad and Solla 1995). The asymmetry is given by the start here, large enough that the noise of SGD at the shown
dimension does not decide when the plateau ends.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problems"]

WIDTHS, RATE, TILT = (2, 3), {2: 1.5, 3: 1.0}, 0.05
TIMES = {p: np.concatenate([np.arange(0, 3, 0.25), np.linspace(3, end, 30)]) for p, end in ((2, 64), (3, 52))}
D, REPLICAS = 8000, 32  # fluctuations of order d^-1/2 must be small beside the tilt
TILTS = [1e-2, 1e-3, 1e-4, 1e-5]
LONG = np.linspace(0, 300, 301)


def problems() -> dict[str, tuple[ll.Problem, np.ndarray]]:
    return {f"plateau, width {p}": (ll.library.soft_committee(p, RATE[p], TILT), TIMES[p]) for p in WIDTHS}


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
        one = ll.library.soft_committee(p, RATE[p], TILT)
        data[f"ode_{p}"] = ll.predict(one, ll.OverlapODE(), TIMES[p])
        data[f"sgd_{p}"] = ll.simulate(one, D, TIMES[p], REPLICAS, 0, "overlaps", progress)

    def flow(problem: ll.Problem, tilt: float) -> "xr.Dataset":
        return ll.predict(ll.library.soft_committee(2, RATE[2], tilt), ll.OverlapODE(), LONG)

    data["tilts"] = ll.sweep(flow, ll.library.soft_committee(2, RATE[2], TILT), {"tilt": TILTS}, progress=progress)
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    for p in WIDTHS:
        gap = ll.compare(data[f"sgd_{p}"], data[f"ode_{p}"])
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


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (two, three, apart, lasts) = new_figure(4, width=5.0, height=3.5)
    for panel, p in ((two, 2), (three, 3)):
        ode, sgd = data[f"ode_{p}"], data[f"sgd_{p}"]
        for r, colour, label in ((0, palette[0], "its own"), (1, palette[1], "another")):
            panel.plot(ode["time"], ode["M"][:, 0, r], color=colour, label=f"M with {label} teacher unit")
            some = sgd["M"][::2, :, 0, r]
            error = some.std("replica", ddof=1) / np.sqrt(some.sizes["replica"])
            panel.errorbar(some["time"], some.mean("replica"), error, fmt="o", color=colour, ms=4, capsize=2)
        panel.plot(ode["time"], ode["risk"], color="0.4", ls="--", label="risk")
        panel.axvspan(3, 16, color="0.93", zorder=0)
        panel.text(9.5, 0.95, "plateau", fontsize="small", color="0.4", ha="center", va="top")
        panel.errorbar([], [], [], fmt="o", color="black", ms=4, label=f"SGD, d = {D} (lines: ODE)")
        style_axes(panel, x="time t = γ·step/(p·d)", y="overlap M, risk")
        panel.set_title(f"p = k = {p}: M grows together, then apart", fontsize="medium", loc="left")
    two.legend(fontsize="small", frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.55))

    times, colours = data["tilts"]["time"], [palette[6], palette[1], palette[0], palette[2]]
    for tilt, colour in zip(TILTS, colours, strict=True):
        one = data["tilts"].sel(tilt=tilt)
        apart.plot(times, specialised(one), color=colour, label=f"$10^{{{round(np.log10(tilt))}}}$")
        lasts.plot(tilt, length(one), "o", color=colour, ms=7)
    apart.axhline(0.5, color="0.6", lw=1, ls=":")
    apart.set_xlim(0, 2 * length(data["tilts"].sel(tilt=TILTS[-1])) - length(data["tilts"].sel(tilt=TILTS[0])))
    apart.legend(title="asymmetry", fontsize="small", title_fontsize="small", frameon=False)
    style_axes(apart, x="time t = γ·step/(p·d)", y="specialisation M$_{00}$ − M$_{01}$")
    apart.set_title("Ten times closer to symmetry: later by the same time", fontsize="medium", loc="left")
    slope, constant = np.polyfit(np.log(TILTS), [length(data["tilts"].sel(tilt=t)) for t in TILTS], 1)
    lasts.plot(
        TILTS, constant + slope * np.log(TILTS), color="0.6", lw=1, zorder=0, label=f"slope {-slope:.1f} per e-fold"
    )
    lasts.set_xscale("log")
    lasts.legend(fontsize="small", frameon=False)
    style_axes(lasts, x="asymmetry of the start", y="time of M$_{00}$ − M$_{01}$ = 1/2")
    lasts.set_title("The plateau lasts log(1/asymmetry)", fontsize="medium", loc="left")
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
    seconds=80,
    quick=Quick({"REPLICAS": 8}, seconds=30),
)
