r"""Dynamical mean-field theory describes descent on a fixed data set, step by step.

Phase retrieval at alpha = 3 from a start of known overlap, by three rules that see the samples differently: all at
every step (GD), a new half at every step (SGD), or a half whose members stay out for a time tau (persistent SGD). The
theory is exact as d grows, at the step size used; points are simulations at d = 1000.

Until t = 3 persistent SGD looks the worst of the three. It is not: from overlap 0.2 it overtakes the others at about
t = 15, and by t = 60 it has found the teacher where they have not. Simulations at two dimensions show this, the theory
goes to t = 20, both at a step of 0.02; `cost` says what the theory takes before it runs.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import part_of
from limitlab.gallery.entry import Check, Entry, Progress
from limitlab.gallery.figures import Drawing, Panel, average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem", "results"]

ALPHA, ETA, BATCH, TAU = 3.0, 0.01, 0.5, 1.0
STARTS = {"5": 0.5, "2": 0.2}  # end of a result's name -> overlap with the teacher at time 0
TIMES = np.linspace(0, 3, 31)
DRAWN = "5"  # the start of the figure; the other is checked alike
SHOWN = slice(None, None, 3)  # of the times, those at which simulations are drawn
D, RUNS = 1000, 8
LIMIT = ll.DMFT(trajectories=4096, batches=6)
LATE, LATE_ETA, LATE_RUNS = np.linspace(0, 60, 31), 0.02, {125: 24, 250: 16}  # dimension -> runs
LATE_LIMIT, LATE_END = ll.DMFT(trajectories=2048, batches=4), 20.0
BYTES = 41  # of the theory per trajectory and step
SEEN = ("m", "train_loss", "C")
LABELS = {"gd": "GD", "sgd": "SGD, half the samples", "psgd": f"persistent SGD, half the samples, τ = {TAU:g}"}
STYLES = {"gd": (palette[0], "o", "-"), "sgd": (palette[4], "s", ":"), "psgd": (palette[1], "^", "-")}
EARLIER = 1.0  # the second of the two times t' at which C(t, t') is drawn


def rules(eta: float = ETA) -> dict[str, ll.AbstractAlgorithm]:
    return {
        "gd": ll.GradientDescent(eta),
        "sgd": ll.StochasticGD(learning_rate=eta, batch_fraction=BATCH),
        "psgd": ll.PersistentSGD(learning_rate=eta, batch_fraction=BATCH, persistence_time=TAU),
    }


def problem(rule: str = "psgd", overlap: float = 0.5, eta: float = ETA) -> ll.Problem:
    return ll.library.descent_phase_retrieval(ALPHA, rules(eta)[rule], overlap)


def cost(limit: ll.DMFT = LATE_LIMIT, end: float = LATE_END, eta: float = LATE_ETA) -> str:
    """What the theory takes up to a late time, in words."""
    steps = round(end / eta)
    held, work = BYTES * limit.trajectories * steps / 2**20, 8 * limit.trajectories * steps**2 * limit.batches
    return (
        f"DMFT to t = {end:g}: {limit.batches} x {limit.trajectories} trajectories of {steps} steps, {held:.0f} MiB of "
        f"paths, {work / 1e9:.0f} billion operations a rule (about half a minute)"
    )


def late_results(runs: "dict[int, int]", limit: ll.DMFT, progress: Progress | None = None) -> "dict[str, xr.Dataset]":
    """All rules from overlap 0.2 for a long time: gd_late_125, ..., and the theory of GD and persistent SGD."""
    data, times = {}, LATE[LATE_END >= LATE]
    for i, (d, count) in enumerate(runs.items()):
        for j, rule in enumerate(LABELS):
            told = part_of(progress, i * len(LABELS) + j, len(runs) * len(LABELS) + 1)
            one = problem(rule, STARTS["2"], LATE_ETA)
            data[f"{rule}_late_{d}"] = ll.simulate(one, d, LATE, count, 7 + i, progress=told)
    if progress is not None:
        part_of(progress, len(runs) * len(LABELS), len(runs) * len(LABELS) + 1)(0, 1, cost(limit))
    for rule in ("gd", "psgd"):
        data[f"{rule}_late_dmft"] = ll.predict(problem(rule, STARTS["2"], LATE_ETA), limit, times)
    return data


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
    short = results(D, RUNS, LIMIT, progress=part_of(progress, 0, 2))
    return short | late_results(LATE_RUNS, LATE_LIMIT, part_of(progress, 1, 2))


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
    return checks + _late_checks(data)


def _late_checks(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks, large = [], max(LATE_RUNS)
    for rule in ("gd", "psgd"):
        theory = data[f"{rule}_late_dmft"]
        sim = data[f"{rule}_late_{large}"].sel(time=theory.time)
        gap = ll.compare(sim, theory, variables=("m", "train_loss"))
        told = ", ".join(f"{entry.variable} {entry.z:+.2f}" for entry in gap.entries)
        statement = f"{LABELS[rule]}: as the theory says up to t = {LATE_END:g} (d = {large})"
        checks.append(Check(statement, gap.agrees, f"z: {told}"))
    for d in LATE_RUNS:
        behind, ahead = (_lead(data, d, "gd", time) for time in (TIMES[-1] + 1, LATE[-1]))
        sgd = _lead(data, d, "sgd", LATE[-1])
        checks.append(
            Check(
                f"persistent SGD is behind GD at t = 4, and ahead of GD and SGD at t = 60 (d = {d})",
                behind < -2 and min(ahead, sgd) > 2,
                f"z of paired runs {behind:+.1f}, {ahead:+.1f}, {sgd:+.1f}; crossing at t = {_crossing(data, d):g}",
            )
        )
        found = [float(data[f"{rule}_late_{d}"].success.mean()) for rule in LABELS]
        checks.append(
            Check(
                f"by t = 60 it finds the teacher more often than GD and SGD (d = {d})",
                found[2] > max(found[:2]),
                f"GD {found[0]:.2f}, SGD {found[1]:.2f}, persistent {found[2]:.2f} of {LATE_RUNS[d]} runs",
            )
        )
    return checks


def _lead(data: "dict[str, xr.Dataset]", d: int, rule: str, time: float) -> float:
    """By how many standard errors persistent SGD is ahead of a rule on the same data sets."""
    one, other = (abs(data[f"{name}_late_{d}"].m.sel(time=time, method="nearest")) for name in ("psgd", rule))
    gap = (one - other).values
    return float(gap.mean() / max(float(gap.std(ddof=1)) / np.sqrt(len(gap)), 1e-12))


def _crossing(data: "dict[str, xr.Dataset]", d: int) -> float:
    """The first time from which on persistent SGD is ahead of GD on average; infinite if it is not at the end."""
    one, other = (abs(data[f"{name}_late_{d}"].m).mean("replica").values for name in ("psgd", "gd"))
    behind = np.flatnonzero(one <= other)
    last = int(behind[-1]) if len(behind) else 0
    return float(LATE[last + 1]) if last + 1 < len(LATE) else np.inf


def _farthest(one: "xr.DataArray", other: "xr.DataArray") -> float:
    return float(abs(one.mean("replica") - other.mean("replica")).max())


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (overlap, loss, memory, late) = new_figure(4, width=6.0, height=4.4)
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
    _draw_late(late, data)
    fig.suptitle(
        f"Phase retrieval at α = {ALPHA:g} from overlap {STARTS[DRAWN]:g}: mean-field theory (lines) and simulations "
        f"at d = {one.attrs['d']} (points)"
    )
    return fig


def _draw_late(axes: Panel, data: "dict[str, xr.Dataset]") -> None:
    for (d, runs), line in zip(LATE_RUNS.items(), (":", "-"), strict=True):
        for rule, (colour, marker, _) in STYLES.items():
            ds = data[f"{rule}_late_{d}"]
            mean, error = average(abs(ds.m).transpose("replica", "time").values)
            axes.errorbar(ds.time, mean, error, fmt=marker + line, color=colour, ms=3, lw=1, elinewidth=0.8, capsize=1)
        axes.plot([], [], line, color="0.3", lw=1, label=f"simulation, d = {d}, {runs} runs")
    for rule in ("gd", "psgd"):
        ds = data[f"{rule}_late_dmft"]
        axes.plot(ds.time, ds.m.mean("replica"), color=STYLES[rule][0], lw=3, alpha=0.45)
    axes.plot([], [], color="0.3", lw=3, alpha=0.45, label=f"DMFT to t = {LATE_END:g}")
    crossing = _crossing(data, max(LATE_RUNS))
    if np.isfinite(crossing):
        axes.axvline(crossing, color="0.6", ls="--", lw=1, label=f"persistent SGD ahead from t = {crossing:g}")
    style_axes(axes, x="time t", y="overlap |m| with the teacher", title=f"Later, from overlap {STARTS['2']:g}")
    axes.legend(fontsize="small", frameon=False)


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
    "theory in overlap, training loss and two-time correlation; the theory of one does not describe the other. "
    "Persistent SGD is behind at t = 4 and ahead of both at t = 60, where only it finds the teacher in many runs.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=170,
)
