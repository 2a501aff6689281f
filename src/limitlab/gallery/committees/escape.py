r"""Leaving a random start: how long phase retrieval by one-pass SGD stays on its plateau (p = 1).

.. math:: \frac{dm}{dt} = 4(1 - 6\gamma)\,m\,(1 - m^2), \qquad R = 2(1 - m^2), \qquad m(0) \sim d^{-1/2}

The exit time is the first at which a share T of the risk is lost. All formulas for it grow like log(d)/growth,
growth = 8(1 - 6 gamma); what they differ by is a constant, and there the noise of SGD counts: while m is small it
adds as much to m as the start does (factor F = 2 in m^2 at the optimal rate), so SGD leaves earlier than the ODE
by log(F)/growth, at any d.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problems"]

PROBLEM = ll.library.escaping_mediocrity(width=1, learning_rate=1 / 12)
THRESHOLD = 0.2
REPLICAS, PATHS = 256, 512
SIMULATED = [100, 300, 1000]
DIFFUSED = [100, 300, 1000, 10**4, 10**5, 10**6]
SHOWN = 1000  # the dimension whose trajectories are drawn
# The mean exit time is log(d)/4 - 0.2, its upper tail falls like exp(-2 t): at these ends a few runs in a thousand
# are still on the plateau.
SGD_TIMES, SDE_TIMES = np.linspace(0, 4.2, 85), np.linspace(0, 6.25, 126)
FORMULAS = ["annealed", "quenched", "full", "noise_corrected"]
ASYMPTOTIC = 1000  # from here on the noise-corrected formula is good to 0.5 %; at d = 300 it is 2 % early


def problems() -> dict[str, tuple[ll.Problem, np.ndarray]]:
    """For the test of the square. From a random start noise moves the escape at O(1), whatever d is, so that only
    the SDE can agree with SGD; the ODE is tested from a start away from the saddle."""
    return {
        "escape, random start": (PROBLEM, np.linspace(0, 2.5, 11)),
        "escape, informed": (replace(PROBLEM, start=ll.InformedStart(0.4)), np.linspace(0, 1.5, 16)),
    }


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    # Each dimension has its own seed: with one seed for all they would share their luck, and could not be averaged.
    def sgd(problem: ll.Problem, d: int) -> "xr.Dataset":
        return ll.simulate(problem, d, SGD_TIMES, REPLICAS, SIMULATED.index(d), "overlaps", progress)

    def sde(problem: ll.Problem, d: int) -> "xr.Dataset":
        limit = ll.OverlapSDE(d=d, replicas=PATHS, seed=len(SIMULATED) + DIFFUSED.index(d))
        return ll.predict(problem, limit, SDE_TIMES)

    def formula(problem: ll.Problem, d: float, average: str) -> dict[str, float]:
        return {"exit_time": float(ll.exit_time(problem, d, THRESHOLD, average))}

    dimensions = sorted({*DIFFUSED, *np.geomspace(DIFFUSED[0], DIFFUSED[-1], 9).round().tolist()})
    return {
        "formulas": ll.sweep(formula, PROBLEM, {"average": FORMULAS, "d": dimensions}),
        "sde": ll.sweep(sde, PROBLEM, {"d": DIFFUSED}, progress=progress),
        "ode": ll.predict(PROBLEM, ll.OverlapODE(d=SHOWN, replicas=REPLICAS, seed=SIMULATED.index(SHOWN)), SGD_TIMES),
        "sgd": ll.sweep(sgd, PROBLEM, {"d": SIMULATED}),
    }


def exits(data: "dict[str, xr.Dataset]", name: str) -> "dict[float, tuple[float, float, float]]":
    """Mean exit time, standard error and share of runs that left, by dimension."""
    found = {}
    for d in data[name]["d"].values.tolist():
        exit = ll.analysis.measured_exit_time(data[name].sel(d=d), THRESHOLD)
        found[d] = exit.time, exit.stderr, exit.fraction_reached
    return found


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    plateau = ll.analysis.plateau(PROBLEM)
    growth, advance = plateau.growth, np.log(plateau.noise_factor) / plateau.growth
    sgd, sde = exits(data, "sgd"), exits(data, "sde")
    theory = data["formulas"]["exit_time"]
    checks = []
    for name, found in (("SGD", sgd), ("OverlapSDE", sde)):
        z = {d: (t - _at(theory, d, "noise_corrected")) / e for d, (t, e, _) in found.items() if d >= ASYMPTOTIC}
        checks.append(
            Check(
                f"{name} leaves when the noise-corrected formula says (d >= {ASYMPTOTIC})",
                all(abs(x) < 4 for x in z.values()) and min(share for *_, share in found.values()) > 0.95,
                "; ".join(
                    f"d = {d:g}: t = {found[d][0]:.3f} +- {found[d][1]:.3f}, formula "
                    f"{_at(theory, d, 'noise_corrected'):.3f}, z = {x:+.2f}"
                    for d, x in z.items()
                ),
            )
        )
    z = {d: (sgd[d][0] - sde[d][0]) / np.hypot(sgd[d][1], sde[d][1]) for d in sgd if d in sde}
    both = ll.compare(data["sgd"].sel(d=SHOWN), data["sde"].sel(d=SHOWN))
    checks.append(
        Check(
            "SGD and OverlapSDE agree, in exit times and in whole trajectories",
            all(abs(x) < 4 for x in z.values()) and both.agrees,
            ", ".join(f"d = {d:g}: z = {x:+.2f}" for d, x in z.items())
            + f"; trajectories at d = {SHOWN}: largest |z| {both.max_z:.2f}",
        )
    )
    slope, error = _slope({d: x for d, x in sde.items() if d >= ASYMPTOTIC})
    checks.append(
        Check(
            "the exit time grows like log(d)/growth, noise or not",
            abs(slope - 1 / growth) < 4 * error,
            f"slope of OverlapSDE {slope:.4f} +- {error:.4f}, 1/growth = {1 / growth:.4f}",
        )
    )
    for name, found, at_least in (("SGD", sgd, 2.0), ("OverlapSDE", sde, 4.0)):
        late = [(_at(theory, d, "full") - t, e) for d, (t, e, _) in found.items()]
        weight = np.array([e**-2 for _, e in late])
        mean, error = float(np.average([x for x, _ in late], weights=weight)), float(weight.sum() ** -0.5)
        checks.append(
            Check(
                f"the ODE without noise is late against {name}, by log(F)/growth at every d",
                mean > at_least * error and abs(mean - advance) < 4 * error,
                f"late by {mean:.3f} +- {error:.3f} on average; log(F)/growth = {advance:.3f}",
            )
        )
    return checks


def _at(theory: "xr.DataArray", d: float, formula: str) -> float:
    return float(theory.sel(average=formula, d=d))


def _slope(found: dict[float, tuple[float, float, float]]) -> tuple[float, float]:
    """Weighted least squares of the exit time on log d, with the error of the slope."""
    x, t, w = np.log(list(found)), *(np.array([v[i] for v in found.values()]) for i in (0, 1))
    w = w**-2
    x = x - np.average(x, weights=w)
    return float((w * x) @ t / ((w * x) @ x)), float(((w * x) @ x) ** -0.5)


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    blue, red, green, _, orange, *_ = palette
    theory = data["formulas"]["exit_time"]
    for formula, label, colour, line in (
        ("full", "ODE, random start", red, "-"),
        ("quenched", "quenched formula", "0.45", "--"),
        ("annealed", "annealed formula", "0.45", ":"),
        ("noise_corrected", "noise-corrected ODE", blue, "-"),
    ):
        left.plot(theory["d"], theory.sel(average=formula), line, color=colour, label=label)
    for name, label, marker, colour, fill in (
        ("sgd", "SGD", "o", "black", "black"),
        ("sde", "OverlapSDE", "D", green, "white"),
    ):
        found = exits(data, name)
        t, e = (np.array([x[i] for x in found.values()]) for i in (0, 1))
        style = {"fmt": marker, "color": colour, "markerfacecolor": fill, "ms": 6, "capsize": 3, "zorder": 4}
        left.errorbar(list(found), t, 2 * e, label=f"{label} (bars: 2 s.e.)", **style)
    left.set_xscale("log")
    ends = [_at(theory, 1e5, formula) for formula in ("full", "noise_corrected")]
    left.annotate("", (1.6e5, ends[1] + 0.05), (1.6e5, ends[0] + 0.05), arrowprops={"arrowstyle": "->", "color": blue})
    left.text(2e5, ends[1] - 0.1, "SGD noise:\n$-\\log\\,2\\,/$growth", color=blue, va="top", fontsize="small")
    left.legend(fontsize="small", frameon=False)
    style_axes(left, x="input dimension d", y=f"exit time t (share T = {THRESHOLD:g} lost)")
    left.set_title("Same slope 1/growth; noise takes off a constant", fontsize="medium", loc="left")

    sgd, sde = data["sgd"]["risk"].sel(d=SHOWN), data["sde"]["risk"].sel(d=SHOWN)
    right.plot(sgd["time"], sgd.isel(replica=slice(0, 24)), color="0.8", lw=0.6, zorder=0)
    right.plot([], [], color="0.8", lw=0.6, label="single runs of SGD")
    right.plot(sgd["time"], data["ode"]["risk"].mean("replica"), color=red, label="ODE, mean over the same starts")
    right.plot(sde["time"], sde.mean("replica"), color=green, label="OverlapSDE, mean")
    some = sgd.isel(time=slice(0, None, 4))
    error = some.std("replica", ddof=1) / np.sqrt(some.sizes["replica"])
    right.errorbar(some["time"], some.mean("replica"), error, fmt="o", color="black", ms=4, label="SGD, mean")
    right.axhline(2 * (1 - THRESHOLD), color=orange, lw=1, ls="--")
    right.text(4.15, 2 * (1 - THRESHOLD) + 0.02, "exit", color=orange, ha="right", va="bottom")
    right.set_xlim(0, SGD_TIMES[-1])
    right.legend(fontsize="small", frameon=False, loc="lower left")
    style_axes(right, x="time t = γ·step/d", y="risk R")
    right.set_title(f"The plateau and the way out, d = {SHOWN}", fontsize="medium", loc="left")
    fig.suptitle("SGD escapes its random start earlier than its ODE, at every dimension (γ = 1/12)")
    return fig


ENTRY = Entry(
    name="escape",
    title="Escaping the random start: exit time of phase retrieval against dimension",
    claim="The exit time grows like log(d)/(8 - 48 gamma) for SGD, SDE and ODE alike, but the noise of SGD makes it "
    "leave earlier than the ODE by log(F)/(8 - 48 gamma), F = 1/(1 - 6 gamma), at every d.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=30,
    quick=Quick({"REPLICAS": 128, "PATHS": 256}, seconds=15),
)
