r"""Dynamical mean-field theory describes descent on a fixed data set, step by step.

Phase retrieval at alpha = 3 from a start of known overlap, by three rules that see the samples differently: all at
every step (GD), a new half at every step (SGD), or a half whose members stay out for a time tau (persistent SGD). The
theory is exact as d grows, at the step size used; points are simulations at d = 1000.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import part_of
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, Panel, average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem", "results"]

ALPHA, ETA, BATCH, TAU = 3.0, 0.01, 0.5, 1.0
STARTS = {"5": 0.5, "2": 0.2}  # end of a result's name -> overlap with the teacher at time 0
TIMES = np.linspace(0, 3, 31)
DRAWN = "5"  # the start of the figure; the other is checked alike
SHOWN = slice(None, None, 3)  # of the times, those at which simulations are drawn
D, RUNS = 1000, 12
LIMIT = ll.DMFT(trajectories=4096, batches=8)
SEEN = ("m", "train_loss", "C")
LABELS = {"gd": "GD", "sgd": "SGD, half the samples", "psgd": f"persistent SGD, half the samples, τ = {TAU:g}"}
STYLES = {"gd": (palette[0], "o", "-"), "sgd": (palette[4], "s", ":"), "psgd": (palette[1], "^", "-")}
EARLIER = 1.0  # the second of the two times t' at which C(t, t') is drawn


def rules() -> dict[str, ll.AbstractAlgorithm]:
    return {
        "gd": ll.GradientDescent(ETA),
        "sgd": ll.StochasticGD(learning_rate=ETA, batch_fraction=BATCH),
        "psgd": ll.PersistentSGD(learning_rate=ETA, batch_fraction=BATCH, persistence_time=TAU),
    }


def problem(rule: str = "psgd", overlap: float = 0.5) -> ll.Problem:
    return ll.library.descent_phase_retrieval(ALPHA, rules()[rule], overlap)


def results(
    d: int, runs: int, limit: ll.DMFT, times: np.ndarray = TIMES, progress: Progress | None = None
) -> "dict[str, xr.Dataset]":
    """Simulation and theory of all rules and starts: gd_5, gd_5_dmft, ... The rules see the same data sets."""
    data, cases = {}, [(rule, end) for end in STARTS for rule in LABELS]
    for i, (rule, end) in enumerate(cases):
        one = problem(rule, STARTS[end])
        told = part_of(progress, i, len(cases))
        data[f"{rule}_{end}"] = ll.simulate(one, d, times, runs, list(STARTS).index(end), progress=told)
        data[f"{rule}_{end}_dmft"] = ll.predict(one, limit, times)
    return data


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    return results(D, RUNS, LIMIT, progress=progress)


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    for end, start in STARTS.items():
        for rule, label in LABELS.items():
            sim, limit = data[f"{rule}_{end}"], data[f"{rule}_{end}_dmft"]
            gap = ll.compare(sim, limit, variables=SEEN)
            worst = ", ".join(f"{entry.variable} {entry.z:+.2f}" for entry in gap.entries)
            checks.append(
                Check(
                    f"{label}, start {start:g}: overlap, loss and C(t, t') as the theory says",
                    gap.agrees,
                    f"z: {worst}",
                )
            )
    for end, start in STARTS.items():
        wrong = ll.compare(data[f"psgd_{end}"], data[f"sgd_{end}_dmft"], variables=SEEN, check_problem=False)
        checks.append(
            Check(
                f"control: the theory of SGD does not describe persistent SGD, start {start:g}",
                not wrong.agrees,
                f"largest |z| {wrong.max_z:.1f}",
            )
        )
    late = data["gd_5_dmft"].assign_coords(time=data["gd_5_dmft"].time * 2)
    slow = ll.compare(data["gd_5"], late, variables="m")
    checks.append(Check("control: a clock that is wrong by 2 is noticed", not slow.agrees, f"|z| {slow.max_z:.1f}"))
    near, far = (_farthest(data[f"{rule}_5_dmft"].m, data["gd_5_dmft"].m) for rule in ("sgd", "psgd"))
    checks.append(
        Check(
            "in the theory SGD moves as GD does, persistent SGD does not (start 0.5)",
            near < 0.01 < 0.05 < far,
            f"overlaps differ from those of GD by at most {near:.4f} and {far:.3f}",
        )
    )
    return checks


def _farthest(one: "xr.DataArray", other: "xr.DataArray") -> float:
    return float(abs(one.mean("replica") - other.mean("replica")).max())


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (overlap, loss, memory) = new_figure(3, width=4.6, height=3.8)
    for rule, (colour, marker, line) in STYLES.items():
        pair = data[f"{rule}_{DRAWN}"], data[f"{rule}_{DRAWN}_dmft"]
        _draw(overlap, pair, "m", colour, marker, line)
        _draw(loss, pair, "train_loss", colour, marker, line)
        if rule != "sgd":
            for earlier, line in ((0.0, "-"), (EARLIER, "--")):
                _draw(memory, [_since(ds, earlier) for ds in pair], "C", colour, marker, line)
    loss.set_yscale("log")
    style_axes(overlap, x="time t = η·step", y="overlap m = w·w*/d", title="Persistent SGD moves unlike GD")
    style_axes(loss, x="time t = η·step", y="training loss per sample", title="Training loss")
    style_axes(memory, x="later time t", y="C(t, t') = w(t)·w(t')/d", title="Memory of earlier weights")
    one = data[f"gd_{DRAWN}"]
    _legend([overlap, loss, memory], one.sizes["replica"])
    fig.suptitle(
        f"Phase retrieval at α = {ALPHA:g} from overlap {STARTS[DRAWN]:g}: mean-field theory (lines) and simulations "
        f"at d = {one.attrs['d']} (points)"
    )
    return fig


def _since(ds: "xr.Dataset", earlier: float) -> "xr.Dataset":
    at = ds.sel(time_2=earlier, method="nearest")
    return at.isel(time=at.time.values >= float(at.time_2))


def _draw(axes: Panel, pair: "Sequence[xr.Dataset]", name: str, colour: str, marker: str, line: str) -> None:
    sim, limit = pair
    mean, _ = average(limit[name].transpose("replica", "time").values)
    axes.plot(limit.time, mean, line, color=colour, lw=2 if line == ":" else 1.5)
    mean, error = average(sim[name].transpose("replica", "time").values)
    bars = None if error is None else error[SHOWN]
    axes.errorbar(sim.time[SHOWN], mean[SHOWN], bars, color=colour, **_points(marker))


def _points(marker: str, line: str = "") -> dict:
    """Those of SGD are open and larger: they lie on those of GD."""
    shape = {"ms": 7, "mfc": "none"} if marker == "s" else {"ms": 4}
    return {"fmt": marker + line, "elinewidth": 1, "capsize": 2, **shape}


def _legend(lower: list[Panel], runs: int) -> None:
    for rule, (colour, marker, line) in STYLES.items():
        lower[0].errorbar([], [], [], color=colour, label=LABELS[rule], **_points(marker, line))
    told = f"points: mean of {runs} runs ± standard error"
    lower[1].errorbar([], [], [], fmt="o", color="0.3", ms=4, label=told)
    lower[1].plot([], [], color="0.3", label="lines: DMFT")
    lower[2].plot([], [], "-", color="0.3", label="t' = 0")
    lower[2].plot([], [], "--", color="0.3", label=f"t' = {EARLIER:g}")
    for axes in lower:
        axes.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2))


ENTRY = Entry(
    name="persistent-sgd",
    title="Mean-field theory of GD, SGD and persistent SGD for phase retrieval",
    claim=f"At alpha = 3, from overlaps 0.5 and 0.2, GD, SGD and persistent SGD at d = {D} follow dynamical mean-field "
    "theory in overlap, training loss and two-time correlation; the theory of one does not describe the other.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=118,
    quick=Quick(
        {"D": 500, "RUNS": 8, "LIMIT": ll.DMFT(trajectories=2048, batches=4), "STARTS": {"5": 0.5}}, seconds=25
    ),
)
