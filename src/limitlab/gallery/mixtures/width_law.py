r"""A network of N units misses the best that infinitely many could do by a multiple of 1/N.

.. math:: E\,\mathrm{risk}_N = \mathrm{risk}(\rho) + \frac KN, \qquad
          K = \tfrac12\Big[\int U(\theta, \theta)\,\rho(d\theta) - \iint U\,d\rho\,d\rho\Big]

for N independent units of the law rho, exactly. With the best law of all this bounds inf risk_N - inf risk by K/N.
SGD that starts from such units finds better ones, and is still above the minimum by a constant over N.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes
from limitlab.gallery.fits import power

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "best_law", "problem"]

D, DELTA, REPLICAS, DRAWS = 40, 0.4, 24, 48  # below the critical delta: the best law is one sphere
WIDTHS = (25, 50, 100, 200, 400)
TIMES = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5])
STEP_NOISE, BATCH = 1e-2, 100  # d eta/b = 1e-4: noise of the steps adds less than 2 % to the excess at N = 400


def best_law() -> ll.analysis.GlobalMinimum:
    """The best law of norms, here a single sphere."""
    return ll.analysis.global_minimum(ll.library.isotropic_mixture(DELTA), D)


def problem(width: int, radius: float) -> ll.Problem:
    """N units that start at independent points of the sphere of the given norm."""
    start = ll.RandomStart(scale=float(radius), sphere=True)
    return replace(ll.library.isotropic_mixture(DELTA, width, STEP_NOISE, BATCH), start=start)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    best = best_law()
    data = {
        f"sgd_{n}": ll.simulate(problem(n, best.law.r[0]), D, TIMES, REPLICAS, n, "weights", progress) for n in WIDTHS
    }
    for n in WIDTHS:
        data[f"drawn_{n}"] = ll.simulate(problem(n, best.law.r[0]), D, TIMES[:1], DRAWS, n + 1, "weights", progress)
    one = problem(WIDTHS[0], best.law.r[0])
    table = {
        "least_risk": (("radius_count",), [best.risk]),
        "K": (("radius_count",), [ll.analysis.finite_width(one, best.law, D)]),
        "proof": (("radius_count",), [best.gap]),
    }
    data["limit"] = ll.analysis.dataset(
        one, table, {"radius_count": [len(best.law.r)]}, method="global_minimum", attrs={"d": D}
    )
    return data


def excess(data: "dict[str, xr.Dataset]", time: float, name: str = "sgd") -> tuple[np.ndarray, np.ndarray]:
    """By how much networks of each width are above the least risk of infinitely many units, and its standard error."""
    least = float(data["limit"].least_risk[0])
    runs = [data[f"{name}_{n}"].risk.sel(time=time).values for n in WIDTHS]
    return (
        np.array([risk.mean() - least for risk in runs]),
        np.array([risk.std(ddof=1) / np.sqrt(len(risk)) for risk in runs]),
    )


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    K, N = float(data["limit"].K[0]), np.array(WIDTHS)
    least, proof = float(data["limit"].least_risk[0]), float(data["limit"].proof[0])
    drawn, drawn_error = excess(data, TIMES[0], "drawn")
    trained, error = excess(data, TIMES[-1])
    z = (drawn - K / N) / drawn_error
    untold = drawn / drawn_error
    slope, slope_error, _ = power(N, drawn, drawn_error / drawn)
    late, late_error, factor = power(N, trained, error / trained)
    return [
        Check(
            "the best law is a single sphere, proven so",
            int(data["limit"].radius_count[0]) == 1 and proof < 1e-9,
            f"risk {least:.6f}, none lower by more than {proof:.0e}",
        ),
        Check(
            "N independent units of it are above by K/N",
            bool(np.all(np.abs(z) < 4)),
            f"K = {K:.3f}; z = {', '.join(f'{x:+.2f}' for x in z)} at N = {', '.join(map(str, WIDTHS))}, {DRAWS} draws",
        ),
        Check(
            "so that their excess falls with N^-1",
            abs(slope + 1) < 4 * slope_error and slope_error < 0.1,
            f"exponent {slope:.3f} +- {slope_error:.3f}",
        ),
        Check(
            "control: without the diagonal of U (K = 0) the excess would not be there",
            bool(np.all(untold > 4)),
            f"z = {', '.join(f'{x:.0f}' for x in untold)}",
        ),
        Check(
            "training lowers it at every width, and never below the minimum of infinite width",
            bool(np.all(trained < K / N) and np.all(trained > 4 * error)),
            f"N times the excess after t = {TIMES[-1]}: "
            + ", ".join(f"{n * x:.3f} +- {n * e:.3f}" for n, x, e in zip(N, trained, error, strict=True)),
        ),
        Check(
            "what is left falls with N^-1, exponent to 0.05",
            abs(late + 1) < 0.05 and abs(late + 1) < 4 * late_error,
            f"exponent {late:.4f} +- {late_error:.4f}, {factor:.2f} N^{late:.2f}",
        ),
        Check(
            "control: the exponent -1/2 of the general bound is excluded",
            late + 0.5 < -4 * late_error,
            f"{(late + 0.5) / late_error:.0f} standard errors away",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    K, N = float(data["limit"].K[0]), np.array(WIDTHS)
    fig, (left, right) = new_figure(2, width=5.4, height=4.4)
    grid = np.array([N[0] / 1.3, N[-1] * 1.3])
    drawn, drawn_error = excess(data, TIMES[0], "drawn")
    trained, error = excess(data, TIMES[-1])
    slope, slope_error, factor = power(N, trained, error / trained)
    left.plot(grid, K / grid, color=palette[0], label=f"K/N, K = {K:.2f} (theory)")
    left.errorbar(
        N, drawn, drawn_error, fmt="o", color=palette[0], ms=5, capsize=3, label=f"independent units, {DRAWS} draws"
    )
    fitted = f"fit: {factor:.1f} N$^{{{slope:.3f} ± {slope_error:.3f}}}$"
    left.plot(grid, factor * grid**slope, "--", color=palette[1], label=fitted)
    left.errorbar(N, trained, error, fmt="s", color=palette[1], ms=5, capsize=3, label=f"trained, {REPLICAS} runs")
    left.set(xscale="log", yscale="log")
    left.set_xticks(N, [str(n) for n in N])
    left.minorticks_off()
    style_axes(left, x="width N", y="risk − least risk at N = ∞")
    left.set_title("The price of finite width is 1/N", fontsize="medium", loc="left")
    left.legend(fontsize="small", frameon=False)

    for colour, n, i in zip(palette, WIDTHS, range(len(N)), strict=False):
        rows = [excess(data, t) for t in TIMES]
        right.errorbar(
            TIMES + 0.004 * (i - 2),
            [n * row[0][i] for row in rows],
            [n * row[1][i] for row in rows],
            fmt="o-",
            color=colour,
            ms=4,
            lw=0.8,
            capsize=2,
            label=f"N = {n}",
        )
    right.axhline(K, color="0.4", ls=":", label="K")
    right.set_ylim(0)
    style_axes(right, x="time t = γ·step/(p·d)", y="N × (risk − least risk)")
    right.set_title("N times the excess: one curve for all widths", fontsize="medium", loc="left")
    right.legend(fontsize="small", frameon=False, ncol=2)
    fig.suptitle(f"Networks of N units miss the best risk by a constant over N: d = {D}, δ = {DELTA}")
    return fig


ENTRY = Entry(
    name="width-law",
    title="The price of finite width falls like 1/N",
    claim="N independent units of the optimal law have a risk above the minimum by K/N with the computed K; trained "
    "from there, networks of N units still miss the minimum by a constant over N.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=90,
    quick=Quick({"WIDTHS": (25, 50, 100, 200), "REPLICAS": 12, "DRAWS": 24}, seconds=30),
)
