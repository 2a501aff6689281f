r"""One theory at two widths: from a few units to infinitely many.

At fixed width one-pass SGD follows the overlap ODE. As p grows with gamma/p -> 0 the pairwise overlaps of the
students' parts orthogonal to the teacher need not be followed any more: they may be averaged over random directions
in d - k dimensions (mean field at finite d), and set to zero when d is large as well (high-dimensional mean field).
The theorem bounds the errors by 1/sqrt(p) and 1/sqrt(d); measured from equal starts they fall like 1/p and 1/d.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problems"]

WIDTHS = [2, 6]
TIMES = np.linspace(0, 5, 26)
D, REPLICAS = 2000, 64
# Nesting: squares, because for odd activations the two mean fields nearly coincide; a rate so small that only the
# closure differs; the largest gap of the risk over these times.
SHORT = np.linspace(0, 1, 6)
MANY, SMALL_D = [8, 32, 128], 10
DIMENSIONS, WIDE = [10, 20, 40, 80], 128
DRAWS = 4  # starts over which the gaps are averaged


def problem(width: int) -> ll.Problem:
    return ll.Problem(
        teacher=ll.Committee(width=2, activation="erf"),
        student=ll.Committee(width=width, activation="erf"),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.3),
        algorithm=ll.OnlineSGD(learning_rate=4.0),
    )


def problems() -> dict[str, tuple[ll.Problem, np.ndarray]]:
    return {f"unify, width {p}": (problem(p), TIMES) for p in WIDTHS}


def closure_gaps(base: ll.Problem, width: int, d: int) -> dict[str, float]:
    """Largest gap in risk between the overlap ODE and the two mean fields, all from one random start; mean of some."""
    limits = {"mean_field": ll.HighDimMeanField(d=d), "high_dim": ll.HighDimMeanField()}
    gaps = {name: 0.0 for name in limits}
    for replica in range(DRAWS):
        rate = 1e-6 * width
        drawn = ll.OverlapODE(d=d).start(ll.library.dimensionless(width, 1, "square", rate), replica)
        one = ll.library.dimensionless(width, 1, "square", rate, start=ll.OverlapStart(Q=drawn.Q, M=drawn.M, P=drawn.P))
        truth = ll.predict(one, ll.OverlapODE(rtol=1e-8), SHORT)["risk"]
        for name, limit in limits.items():
            gaps[name] += float(abs(ll.predict(one, limit, SHORT)["risk"] - truth).max()) / DRAWS
    return gaps


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {}
    for p in WIDTHS:
        data[f"ode_{p}"] = ll.predict(problem(p), ll.OverlapODE(), TIMES)
        data[f"sgd_{p}"] = ll.simulate(problem(p), D, TIMES, REPLICAS, 0, "overlaps", progress)
    base = problem(2)
    # p goes to infinity first: two crowds of units, one for each teacher unit.
    data["infinite"] = ll.predict(base, ll.HighDimMeanField(particles=2), TIMES)
    data["by_width"] = ll.sweep(closure_gaps, base, {"width": MANY}, d=SMALL_D, progress=progress)
    data["by_dimension"] = ll.sweep(closure_gaps, base, {"d": DIMENSIONS}, width=WIDE, progress=progress)
    return data


def _slope(x: list, y: np.ndarray) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    for p in WIDTHS:
        gap = ll.compare(data[f"sgd_{p}"], data[f"ode_{p}"])
        checks.append(
            Check(f"SGD at d = {D} follows the overlap ODE, p = {p}", gap.agrees, f"largest |z| {gap.max_z:.2f}")
        )
    gaps = [float(np.abs(data[f"ode_{p}"].risk.values - data["infinite"].risk.values).max()) for p in WIDTHS]
    checks.append(
        Check(
            "the overlap ODE approaches the infinitely wide limit",
            gaps[1] < 0.5 * gaps[0],
            ", ".join(f"p = {p}: {g:.4f}" for p, g in zip(WIDTHS, gaps, strict=True)),
        )
    )
    in_p, in_d = (
        _slope(MANY, data["by_width"].mean_field.values),
        _slope(DIMENSIONS, data["by_dimension"].high_dim.values),
    )
    checks.append(
        Check(
            "mean field at finite d: error falls at least like 1/sqrt(p)",
            in_p < -0.5,
            f"slope in p {in_p:.2f} at d = {SMALL_D}",
        )
    )
    flat = data["by_width"].high_dim.values
    checks.append(
        Check(
            "setting the orthogonal overlaps to zero leaves an error that width does not cure",
            flat[-1] > 5 * data["by_width"].mean_field.values[-1],
            f"p = {MANY[-1]}, d = {SMALL_D}: {flat[-1]:.4f} against {data['by_width'].mean_field.values[-1]:.4f}",
        )
    )
    checks.append(Check("and that falls at least like 1/sqrt(d)", in_d < -0.5, f"slope in d {in_d:.2f} at p = {WIDE}"))
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, middle, right) = new_figure(3, width=4.3, height=3.8)
    for p, colour in zip(WIDTHS, palette, strict=False):
        ode, sgd = data[f"ode_{p}"], data[f"sgd_{p}"].risk.isel(time=slice(0, None, 2))
        left.plot(ode.time, ode.risk, color=colour, label=f"overlap ODE, p = {p}")
        error = sgd.std("replica", ddof=1) / np.sqrt(sgd.sizes["replica"])
        left.errorbar(
            sgd.time, sgd.mean("replica"), error, fmt="o", color=colour, ms=4, capsize=2, label=f"SGD, d = {D}"
        )
    wide = data["infinite"]
    left.plot(wide.time, wide.risk, "k--", label="mean field, p → ∞")
    left.set_yscale("log")
    left.legend(fontsize="small", frameon=False)
    style_axes(left, x="time t = γ·step/(p·d)", y="risk R")
    left.set_title("Wider students approach mean field (erf, γ = 4)", fontsize="medium", loc="left")
    for axes, x, key, label, guide in (
        (middle, MANY, "by_width", "p", "mean_field"),
        (right, DIMENSIONS, "by_dimension", "d", "high_dim"),
    ):
        for name, colour, marker, words in (
            ("high_dim", palette[1], "s", "high-dimensional mean field"),
            ("mean_field", palette[2], "o", "mean field at finite d"),
        ):
            axes.plot(x, data[key][name], marker + "-", color=colour, label=words)
        reach = np.array([x[0], x[-1]])
        first = 1.6 * float(data[key][guide][0])
        axes.plot(reach, first * x[0] / reach, ":", color="0.3", label=f"1/{label}, as measured")
        axes.plot(reach, first * np.sqrt(x[0] / reach), "-.", color="0.6", lw=1, label=f"1/√{label}, the bound")
        axes.set(xscale="log", yscale="log", ylim=(2e-3, 0.4))
        axes.set_xticks(x, [str(v) for v in x])
        axes.minorticks_off()
        axes.legend(fontsize="small", frameon=False)
    style_axes(middle, x=f"student width p (d = {SMALL_D})", y="largest error of the risk")
    style_axes(right, x=f"input dimension d (p = {WIDE})", y="largest error of the risk")
    middle.set_title("Width cures one error (squares, k = 1) ...", fontsize="medium", loc="left")
    right.set_title("... dimension the other", fontsize="medium", loc="left")
    fig.suptitle("SGD follows the overlap ODE; wide students follow mean field, with errors of order 1/p and 1/d")
    return fig


ENTRY = Entry(
    name="unify",
    title="From fixed width to infinite width",
    claim="SGD follows the overlap ODE at every width; as the width grows the finite-d mean field takes over "
    "with an error "
    "of about 1/p, and the high-dimensional one with a further error of about 1/d.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=25,
    quick=Quick({"REPLICAS": 16, "DRAWS": 2}, seconds=15),
)
