r"""Two Gaussians of nearly equal spread are best told apart by units of one norm; those further apart are not.

.. math:: \Psi(r; \delta_{r_*}) \ge \Psi(r_*; \delta_{r_*}) \quad \text{for all } 0 \le r \le \infty

is necessary and sufficient for the sphere of norm r* to be a global minimum of the risk over all laws of units. It
holds up to a critical delta, which grows with d to the one at which two equations :math:`q((1 \pm \delta) r) = \pm 1`
have a solution. In low dimension it fails at very small delta as well.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import palette, paper, style_axes
from limitlab.gallery.fits import power

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ENTRY", "best_sphere", "problem"]

DIMENSIONS = (10, 15, 20, 30, 40, 80, 160, 320, math.inf)
DELTAS = np.round(np.arange(0.02, 0.60, 0.03), 2)
SIDE = 0.01  # how far below and above the critical delta optimality is looked at
SHOWN_D, SHOWN = 40, (0.35, 0.55)  # where Psi is drawn: below and above
OPTIMAL = 1e-9  # a gap below this is rounding
OPTIMAL_COLOUR = "#cfe6f5"
RADII = np.append(np.geomspace(0.05, 50, 120), np.inf)


def problem(delta: float = 0.4) -> ll.Problem:
    return ll.library.isotropic_mixture(delta)


class Sphere(NamedTuple):
    """The best single sphere: its norm, its risk, and by how much another law may be better at most."""

    radius: float
    risk: float
    gap: float


def _sphere_risk(p: ll.analysis.Potentials, r) -> np.ndarray:
    return 0.5 + p.V(r) + np.diag(p.U(r, r)) / 2


def best_sphere(delta: float, d: float) -> Sphere:
    from scipy.optimize import minimize_scalar

    one = problem(delta)
    p, grid = ll.analysis.potentials(one, d), np.geomspace(0.5, 20, 128)
    i = int(np.clip(np.argmin(_sphere_risk(p, grid)), 1, len(grid) - 2))
    fit: Any = minimize_scalar(
        lambda r: float(_sphere_risk(p, r)[0]), bounds=(grid[i - 1], grid[i + 1]), options={"xatol": 1e-12}
    )
    gap = ll.analysis.optimality_gap(one, float(fit.x), d)
    return Sphere(float(fit.x), gap.risk, gap.gap)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    critical = [_critical(d) for d in DIMENSIONS]
    gaps = np.zeros((len(DIMENSIONS), len(DELTAS)))
    for i, d in enumerate(DIMENSIONS):
        if progress is not None:
            progress(i, len(DIMENSIONS), f"d = {d:g}")
        gaps[i] = [best_sphere(float(delta), d).gap for delta in DELTAS]
    return {
        "phases": ll.analysis.dataset(
            problem(),
            {"gap": (("d", "delta"), gaps)},
            {"d": list(DIMENSIONS), "delta": DELTAS},
            method="optimality_gap",
        ),
        "critical": ll.analysis.dataset(
            problem(),
            {"critical": (("d",), critical), "status": (("d",), np.where(np.isnan(critical), "not_reached", "ok"))},
            {"d": list(DIMENSIONS)},
            method="critical_delta",
        ),
        "sides": _sides(critical),
        "potential": _psi(),
    }


def _critical(d: float) -> float:
    try:
        return ll.analysis.critical_delta(problem(), d).delta
    except ll.errors.ConvergenceError:
        return math.nan  # optimal at no delta


def _sides(critical: list[float]) -> "xr.Dataset":
    """A little below and a little above: the best sphere, the best law, and its mass at infinity."""

    def at(delta: float, d: float) -> tuple[float, ...]:
        sphere, best = best_sphere(delta, d), ll.analysis.global_minimum(problem(delta), d)
        return sphere.gap, sphere.risk, best.risk, best.at_infinity

    found = {d: delta for d, delta in zip(DIMENSIONS, critical, strict=True) if not math.isnan(delta)}
    sides = (-SIDE, SIDE)
    table = np.array([[at(delta + side, d) for side in sides] for d, delta in found.items()])
    names = ("gap", "sphere_risk", "least_risk", "at_infinity")
    variables = {name: (("d", "side"), table[..., i]) for i, name in enumerate(names)}
    return ll.analysis.dataset(problem(), variables, {"d": list(found), "side": list(sides)}, method="global_minimum")


def _psi() -> "xr.Dataset":
    """Psi in the field of the best sphere, from its value there; and the gap of a sphere that is not the best."""
    rows, radius, wrong = [], [], []
    for delta in SHOWN:
        p, best = ll.analysis.potentials(problem(delta), SHOWN_D), best_sphere(delta, SHOWN_D)
        rows.append(p.psi(RADII, best.radius) - p.psi(best.radius, best.radius))
        radius.append(best.radius)
        wrong.append(ll.analysis.optimality_gap(problem(delta), 1.05 * best.radius, SHOWN_D).gap)
    return ll.analysis.dataset(
        problem(),
        {"psi": (("delta", "norm"), rows), "best": (("delta",), radius), "wrong_gap": (("delta",), wrong)},
        {"delta": list(SHOWN), "norm": RADII},
        method="potentials",
        attrs={"d": SHOWN_D},
    )


def _two_equations() -> float:
    """The delta at which q((1 + delta) r) = 1 and q((1 - delta) r) = -1, with q(s) = E sigma(s G) written out."""
    from scipy.optimize import fsolve
    from scipy.stats import norm

    def q(s):
        return -2.5 + 10 * sum(sign * (s * norm.pdf(t / s) - t * norm.sf(t / s)) for sign, t in ((1, 0.5), (-1, 1.5)))

    root: Any = fsolve(lambda x: (q((1 + x[0]) * x[1]) - 1, q((1 - x[0]) * x[1]) + 1), (0.45, 1.7), xtol=1e-13)
    return float(root[0])


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    critical, sides, phases = data["critical"].critical, data["sides"], data["phases"].gap
    last, exact = float(critical.sel(d=math.inf)), _two_equations()
    known = critical.dropna("d")
    finite = known.where(np.isfinite(known.d), drop=True)
    far = finite.where(finite.d >= 40, drop=True)
    slope = power(far.d, last - far)[0]
    below, above = sides.sel(side=-SIDE), sides.sel(side=SIDE)
    lost = above.sphere_risk - above.least_risk
    wings = above.at_infinity.where(np.isfinite(above.d), drop=True)
    low = {d: bool(phases.sel(d=d, delta=DELTAS[0]) > OPTIMAL) for d in (20, 30, 320, math.inf)}
    wrong = data["potential"].wrong_gap
    return [
        Check(
            "in infinite dimension the critical delta solves q((1 + delta) r) = 1, q((1 - delta) r) = -1 (0.4742)",
            abs(last - exact) < 1e-8 and abs(last - 0.4742) < 5e-5,
            f"{last:.8f}, the two equations {exact:.8f}",
        ),
        Check(
            "it grows with d",
            bool(np.all(np.diff(known.values) > 0)),
            ", ".join(f"{float(x):.4f} at d = {float(d):g}" for d, x in zip(known.d, known, strict=True)),
        ),
        Check(
            "and from d = 40 on misses its limit by a multiple of 1/d",
            abs(slope + 1) < 0.05,
            f"exponent {slope:.3f}",
        ),
        Check(
            f"{SIDE} below it no law is better than one sphere",
            float(below.gap.max()) < OPTIMAL and float(abs(below.sphere_risk - below.least_risk).max()) < OPTIMAL,
            f"gap at most {float(below.gap.max()):.0e}, risk as the convex program's to "
            f"{float(abs(below.sphere_risk - below.least_risk).max()):.0e}",
        ),
        Check(
            f"{SIDE} above it one is",
            float(above.gap.min()) > 1e-4 and float(lost.min()) > 1e-6,
            f"gap at least {float(above.gap.min()):.1e}, risk better by {float(lost.min()):.1e} to "
            f"{float(lost.max()):.1e}",
        ),
        Check(
            "there the best law has mass at infinite norm at finite d, and no risk in infinite dimension",
            float(wings.min()) > 0 and float(above.least_risk.sel(d=math.inf)) < 1e-12,
            f"masses {', '.join(f'{float(x):.4f}' for x in wings)}; risk {float(above.least_risk[-1]):.0e}",
        ),
        Check(
            f"in low dimension a sphere is not optimal at delta = {DELTAS[0]} either, and at d = 10 at none",
            low[20] and low[30] and not low[320] and not low[math.inf] and bool(np.all(phases.sel(d=10) > OPTIMAL)),
            f"gaps at d = 20, 30, 320: {', '.join(f'{float(phases.sel(d=d)[0]):.0e}' for d in (20, 30, 320))}; "
            f"least at d = 10: {float(phases.sel(d=10).min()):.1e}",
        ),
        Check(
            "control: a sphere 5 % too large is not optimal",
            float(wrong.min()) > 1e-3,
            f"gaps {', '.join(f'{float(x):.3f}' for x in wrong)} at delta = {SHOWN[0]} and {SHOWN[1]}, d = {SHOWN_D}",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> "Figure":
    fig, (left, middle, right) = paper(3, width=4.6, height=4.2)
    _draw_phases(left, data)
    critical = data["critical"].critical.dropna("d")
    finite = critical.where(np.isfinite(critical.d), drop=True)
    missing = float(critical.sel(d=math.inf)) - finite
    middle.plot(finite.d, missing, "o-", color=palette[0], label="limit − critical δ at d")
    middle.plot(finite.d, missing[-1].item() * 320 / finite.d, ":", color="0.3", label="1/d")
    middle.set(xscale="log", yscale="log")
    middle.set_xticks(finite.d.values, [f"{d:g}" for d in finite.d.values])
    middle.minorticks_off()
    middle.legend(fontsize="small", frameon=False)
    style_axes(middle, x="input dimension d", y="δ(∞) − δ(d)")
    middle.set_title(f"The limit is δ = {float(critical.sel(d=math.inf)):.4f}", fontsize="medium", loc="left")

    psi = data["potential"]
    for colour, delta, word in zip((palette[2], palette[1]), SHOWN, ("below", "above"), strict=True):
        at = psi.sel(delta=delta)
        right.plot(at.norm[:-1], at.psi[:-1], color=colour, label=f"δ = {delta}, {word}")
        right.plot([50, 90], [float(at.psi[-1])] * 2, color=colour, lw=3, solid_capstyle="butt")
        right.plot(float(at.best), 0, "o", color=colour, ms=7)
    right.plot([], [], "o", color="0.3", ms=7, label="the best single sphere r*")
    right.plot([], [], color="0.3", lw=3, label="value at r = ∞")
    right.axhline(0, color="0.7", lw=0.8, zorder=0)
    right.set(xscale="log", xlim=(0.05, 100))
    right.legend(fontsize="small", frameon=False)
    style_axes(right, x="norm r = |w|/√d", y="Ψ(r) − Ψ(r*)")
    right.set_title(f"Above, Ψ is lower away from r*: d = {SHOWN_D}", fontsize="medium", loc="left")
    fig.suptitle("One sphere of units is the global minimum up to a critical δ: class spreads 1 ± δ")
    return fig


def _draw_phases(axes: "Axes", data: "dict[str, xr.Dataset]") -> None:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    gap, critical = data["phases"].gap, data["critical"].critical
    rows, step = np.arange(gap.sizes["d"]), DELTAS[1] - DELTAS[0]
    scale = colormaps["Oranges"].with_extremes(bad=OPTIMAL_COLOUR)
    shown = np.where(gap > OPTIMAL, gap, np.nan)
    colours = axes.pcolormesh(DELTAS, rows, shown, norm=LogNorm(1e-3, 1), cmap=scale, shading="nearest")
    axes.figure.colorbar(colours, ax=axes, label="gap of the best single sphere", extend="both")
    axes.plot(critical, rows, "o-", color=palette[0], ms=4, label="critical δ")
    axes.plot([], [], "s", color=OPTIMAL_COLOUR, ms=10, label="one sphere is optimal")
    axes.set_yticks(rows, [f"{d:g}" if math.isfinite(d) else "∞" for d in gap.d.values])
    axes.set_xlim(DELTAS[0] - step / 2, DELTAS[-1] + step / 2)
    style_axes(axes, x="δ", y="input dimension d")
    axes.grid(False)
    axes.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    axes.set_title("Where one sphere is optimal (blue)", fontsize="medium", loc="left")


ENTRY = Entry(
    name="critical-delta",
    title="Up to which delta a single sphere of units is optimal",
    claim="For two Gaussians of spreads 1 +- delta a single sphere of units is the global minimum up to a critical "
    "delta that grows with d to 0.4742, missing it by O(1/d); above, laws with mass at infinity are better. In low "
    "dimension it is not optimal at very small delta either, and at d = 10 at no delta.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=75,
    quick=Quick({"DIMENSIONS": (10, 20, 30, 40, 80, 320, math.inf), "DELTAS": DELTAS[::6]}, seconds=30),
)
