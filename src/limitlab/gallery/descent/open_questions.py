r"""Open questions of descent as measurements: loss, start, step, rule and width in phase retrieval from a random start.

One cell is one change of a base case, at two dimensions: one unit (a square) at alpha = 3 or two at alpha = 2.5 by
gradient descent, free norm, weights N(0, 1), loss (y^2 - f)^2/4, step 0.02 on the clock, up to t = 100. Success is a
relative error of w w^T below 0.01, for the amplitude loss (one direction) a cosine above 0.99. What this answers holds
at these sizes, times and numbers of runs; it says nothing about the limit of large d.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import part_of
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "CELLS", "problem", "results"]

EPS, T_MAX, EVERY = 0.02, 100.0, 50
RUNS = {64: 120, 128: 60}  # dimension -> runs
RATIOS = {1: 3.0, 2: 2.5}
SEED = 5
COLUMNS = (
    "success_rate",
    "success_rate_low",
    "success_rate_high",
    "median_time",
    "stuck",
    "wrong",
    "unfinished",
    "runs",
)


class Cell(NamedTuple):
    """A question, what is changed of the base case of its width, and in words."""

    question: str
    words: str
    width: int
    changes: Mapping[str, Any] = {}


def _rule(kind: str, width: int, eps: float = EPS) -> ll.AbstractAlgorithm:
    if kind == "sgd":
        return ll.StochasticGD(width * eps, batch_fraction=0.5, spherical=False)
    if kind == "psgd":
        return ll.PersistentSGD(width * eps, batch_fraction=0.5, persistence_time=2.0, spherical=False)
    return ll.GradientDescent(width * eps, spherical=kind == "sphere")


CELLS = {
    "base": Cell("base", "one unit, GD", 1),
    "amplitude": Cell("loss", "(y - |h|)²/2", 1, {"student": None, "loss": ll.AmplitudeLoss()}),
    "start_01": Cell("start", "scale 0.1", 1, {"start": ll.RandomStart(0.1)}),
    "start_03": Cell("start", "scale 0.3", 1, {"start": ll.RandomStart(0.3)}),
    "step_1": Cell("step", "ε = 0.01", 1, {"algorithm": _rule("gd", 1, 0.01)}),
    "step_4": Cell("step", "ε = 0.04", 1, {"algorithm": _rule("gd", 1, 0.04)}),
    "sphere": Cell("norm", "on the sphere", 1, {"algorithm": _rule("sphere", 1)}),
    "sgd": Cell("rule", "SGD, b = ½", 1, {"algorithm": _rule("sgd", 1)}),
    "psgd": Cell("rule", "p-SGD, τ = 2", 1, {"algorithm": _rule("psgd", 1)}),
    "two": Cell("base", "two units, GD", 2),
    "two_start": Cell("start", "scale 0.1", 2, {"start": ll.RandomStart(0.1)}),
    "two_sgd": Cell("rule", "SGD, b = ½", 2, {"algorithm": _rule("sgd", 2)}),
    "two_psgd": Cell("rule", "p-SGD, τ = 2", 2, {"algorithm": _rule("psgd", 2)}),
}


def problem(cell: str = "base") -> ll.Problem:
    width = CELLS[cell].width
    parts = {
        "teacher": ll.SingleIndex(ll.GaussianPrior()),
        "channel": ll.Modulus(),
        "sample_ratio": RATIOS[width],
        "student": ll.Committee(width, "square"),
        "loss": ll.PhaseRetrievalLoss(),
        "start": ll.RandomStart(),
        "algorithm": _rule("gd", width),
    }
    return ll.Problem(**(parts | dict(CELLS[cell].changes)))


def results(runs: Mapping[int, int] = RUNS, progress: Progress | None = None) -> "dict[str, xr.Dataset]":
    """All cells at each dimension: d_64, d_128. Cells have the same data sets where they can."""
    data = {}
    for i, (d, count) in enumerate(runs.items()):
        rows = []
        for j, name in enumerate(CELLS):
            told = part_of(progress, i * len(CELLS) + j, len(runs) * len(CELLS))
            rows.append(ll.success_rate(problem(name), d=d, t_max=T_MAX, runs=count, seed=SEED, every=EVERY))
            if told is not None:
                told(1, 1, f"{CELLS[name].words}, d = {d}")
        columns = {name: ("kind", np.array([float(row[name]) for row in rows])) for name in COLUMNS}
        data[f"d_{d}"] = ll.analysis.dataset(
            problem(), columns, {"kind": list(CELLS)}, method="success_rate", attrs={"d": d, "t_max": T_MAX}
        )
    return data


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    return results(RUNS, progress)


def _z(ds: "xr.Dataset", one: str, other: str) -> float:
    """By how many standard errors the share of one cell is above that of another (pooled; 0 if both are 0 or 1)."""
    p, q = (float(ds.success_rate.sel(kind=name)) for name in (one, other))
    n = float(ds.runs[0])
    mean = (p + q) / 2
    return 0.0 if mean in (0.0, 1.0) else (p - q) / np.sqrt(2 * mean * (1 - mean) / n)


def _shares(data: "dict[str, xr.Dataset]", *names: str) -> str:
    words = []
    for ds in data.values():
        told = ", ".join(f"{float(ds.success_rate.sel(kind=name)):.2f}" for name in names)
        words.append(f"d = {ds.attrs['d']}: {told}")
    return "; ".join(words)


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    small, large = data.values()

    def told(*names: str) -> str:
        return _shares(data, *names)

    loss = _z(small, "amplitude", "base")
    step = max(abs(_z(ds, name, "base")) for ds in data.values() for name in ("step_1", "step_4"))
    noise = max(abs(_z(ds, name, base)) for ds in data.values() for name, base in (("sgd", "base"), ("two_sgd", "two")))
    start = [_z(ds, "start_01", "base") for ds in data.values()]
    start += [_z(ds, "two_start", "two") for ds in data.values()]
    one, two = _z(small, "psgd", "base"), _z(small, "two_psgd", "two")
    fall = float(large.success_rate.sel(kind="base")) - float(small.success_rate.sel(kind="base"))
    kept = [float(ds.success_rate.sel(kind="two")) - float(ds.success_rate.sel(kind="base")) for ds in data.values()]
    return [
        Check("loss: the amplitude loss is worse than the quartic one (d = 64)", loss < -2, told("amplitude", "base")),
        Check(
            "start: a small start does not harm, and helps over all four comparisons together",
            min(start) > -2 and sum(start) / np.sqrt(len(start)) > 2,
            f"z {', '.join(f'{z:+.1f}' for z in start)}; {told('start_01', 'base', 'two_start', 'two')}",
        ),
        Check("step: no effect of half or twice the step is seen", step < 3, told("step_1", "base", "step_4")),
        Check(
            "rule: SGD is not told from GD, with one unit or two",
            noise < 3,
            f"largest |z| {noise:.1f}; {told('sgd', 'base', 'two_sgd', 'two')}",
        ),
        Check(
            "rule: what p-SGD brings to one unit (d = 64) it does not bring to two",
            one > two,
            f"z {one:+.1f} and {two:+.1f}; {told('psgd', 'base', 'two_psgd', 'two')}",
        ),
        Check(
            "width: two units at alpha = 2.5 are at least as good as one at 3, at both dimensions",
            min(kept) > -0.1,
            told("two", "base"),
        ),
        Check(
            "control: one unit succeeds less often at the larger d; no share here is a limit",
            fall < 0,
            told("base"),
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, panels = new_figure(2, width=6.0, height=4.6)
    for axes, width in zip(panels, (1, 2), strict=True):
        names = [name for name, cell in CELLS.items() if cell.width == width]
        for i, ds in enumerate(data.values()):
            rows = ds.sel(kind=names)
            p = rows.success_rate.values
            bars = [p - rows.success_rate_low.values, rows.success_rate_high.values - p]
            y = np.arange(len(names)) + 0.16 * (2 * i - 1)
            label = f"d = {ds.attrs['d']}, {int(ds.runs[0])} runs"
            axes.errorbar(p, y, xerr=bars, fmt="os"[i], color=palette[i], ms=6, elinewidth=1.2, capsize=3, label=label)
            axes.axvline(float(ds.success_rate.sel(kind=names[0])), color=palette[i], ls=":", lw=1)
        cells = [CELLS[name] for name in names]
        words = [cell.words if cell.question == "base" else f"{cell.question}: {cell.words}" for cell in cells]
        axes.set_yticks(range(len(names)), words)
        axes.invert_yaxis()
        axes.set_xlim(-0.03, 1.03)
        title = f"{'one unit' if width == 1 else 'two units'}, α = {RATIOS[width]:g}, t ≤ {T_MAX:g}"
        style_axes(axes, x="share of runs that succeed (95 % interval)", y="what is changed", title=title)
        axes.grid(visible=False, axis="y")
    panels[0].legend(fontsize="small", frameon=False, loc="lower right")
    fig.suptitle(
        "Open questions of descent, as measurements: what changes the success of phase retrieval (dotted: base case)"
    )
    return fig


ENTRY = Entry(
    name="open-questions",
    title="Loss, start, step, SGD and persistent SGD with one unit and two, on one page",
    claim="At d = 64 and 128 and t up to 100 the amplitude loss is worse than the quartic one, a small start helps, "
    "the step and SGD make no difference that is seen, and persistent SGD helps one unit more than two. None of it "
    "says what happens as d grows: one unit succeeds less often at the larger d.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=80,
    quick=Quick({"RUNS": {64: 24, 128: 8}}, seconds=35, full=("width: two units",)),
)
