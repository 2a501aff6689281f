r"""Mean-field theory describes descent on a fixed data set step by step; persistent SGD starts behind and overtakes.

Phase retrieval at alpha = 3 from a start of known overlap, by three rules that see the samples differently: all at
every step (GD), a new half at every step (SGD), or a half whose members stay out for a time tau (persistent SGD). The
theory is exact as d grows, at the step size used, and is followed to t = 3, where persistent SGD looks worst. It
overtakes later: from overlap 0.2, simulations at two smaller dimensions go on to t = 60.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import chance, part_of
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
LATE_START, LATE_ETA, LATE_TIMES = 0.2, 0.02, np.arange(61.0)  # simulations alone: twice the step, for longer
LATE_RUNS = {250: 32, 500: 16}  # dimension -> runs
SURE, UNLIKELY = 3.0, 0.01  # standard errors of a difference, and the chance of a difference of shares
LIMIT = ll.DMFT(trajectories=4096, batches=8)
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


def late_results(
    runs: Mapping[int, int], times: np.ndarray = LATE_TIMES, progress: Progress | None = None
) -> "dict[str, xr.Dataset]":
    """Longer simulations from overlap 0.2: gd_d250, ... The rules see the same data sets."""
    cases = [(rule, d) for d in runs for rule in LABELS]
    data = {}
    for i, (rule, d) in enumerate(cases):
        one, told = problem(rule, LATE_START, LATE_ETA), part_of(progress, i, len(cases))
        data[f"{rule}_d{d}"] = ll.simulate(one, d, times, runs[d], d, progress=told)
    return data


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    early = results(D, RUNS, LIMIT, progress=part_of(progress, 0, 2))
    return early | late_results(LATE_RUNS, progress=part_of(progress, 1, 2))


class Gap(NamedTuple):
    """A mean difference and its standard error."""

    mean: float
    error: float

    @property
    def z(self) -> float:
        return self.mean / self.error

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f}"


def ahead(data: "dict[str, xr.Dataset]", d: int, rule: str, time: float, since: float | None = None) -> Gap:
    """By how much the overlap of persistent SGD exceeds a rule's on the same data sets, or what it gained since."""
    path = data[f"psgd_d{d}"].m - data[f"{rule}_d{d}"].m
    gap = path.sel(time=time).values - (0.0 if since is None else path.sel(time=since).values)
    return Gap(float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(gap.size)))


def _overtaking(data: "dict[str, xr.Dataset]") -> list[Check]:
    first, last = 1.0, float(LATE_TIMES[-1])
    small, large = LATE_RUNS
    checks = []
    for rule in ("gd", "sgd"):
        name = rule.upper()
        begin, end = (ahead(data, small, rule, t) for t in (first, last))
        one, other = (data[f"{key}_d{small}"].success.values > 0 for key in ("psgd", rule))
        p = chance(one, other)
        far, final = (ahead(data, large, rule, t) for t in (first, last))
        gain = ahead(data, large, rule, last, first)
        checks += [
            Check(
                f"d = {small}, start {LATE_START:g}: persistent SGD is behind {name} at t = {first:g} and ahead at "
                f"t = {last:g}",
                begin.z < -SURE and end.z > SURE,
                f"overlap on the same data sets {begin}, then {end}",
            ),
            Check(
                f"d = {small}: by t = {last:g} more runs of persistent SGD than of {name} have found the teacher",
                p < UNLIKELY,
                f"{int(one.sum())} against {int(other.sum())} of {one.size}; by chance with probability {p:.1e}",
            ),
            Check(
                f"d = {large}: persistent SGD is behind {name} at t = {first:g} and gains on it until t = {last:g}; "
                "that it is ahead is not claimed",
                far.z < -SURE and gain.z > SURE,
                f"{far}, then {final}: a gain of {gain}",
            ),
        ]
    return checks


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = _overtaking(data)
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
    fig, (late, share, memory) = new_figure(3, width=4.8, height=3.9)
    for rule, (colour, marker, line) in STYLES.items():
        for d, fill in zip(LATE_RUNS, ("none", colour), strict=True):
            ds = data[f"{rule}_d{d}"]
            mean, error = average(ds.m.transpose("replica", "time").values)
            bars = None if error is None else error[::6]
            shape = {"fmt": marker, "ms": 5, "mfc": fill, "elinewidth": 1, "capsize": 2}
            late.errorbar(ds.time[::6], mean[::6], bars, color=colour, **shape)
            found = np.mean(ds.success_time.values[:, None] <= ds.time.values, axis=0)
            share.step(ds.time, found, ":" if fill == "none" else "-", where="post", color=colour, lw=1.8)
        limit = data[f"{rule}_2_dmft"]
        late.plot(limit.time, limit.m.mean("replica"), line, color=colour, lw=2)
        late.plot([], [], marker + line, color=colour, ms=5, label=LABELS[rule])
        if rule != "sgd":
            pair = data[f"{rule}_{DRAWN}"], data[f"{rule}_{DRAWN}_dmft"]
            for earlier, line in ((0.0, "-"), (EARLIER, "--")):
                _draw(memory, [_since(ds, earlier) for ds in pair], "C", colour, marker, line)
    late.set(ylim=(0.15, 1.0))
    share.set(ylim=(-0.03, 1.0))
    for d, fill, line in zip(LATE_RUNS, ("none", "0.3"), (":", "-"), strict=True):
        share.plot([], [], "o" + line, color="0.3", mfc=fill, ms=5, label=f"d = {d}, {LATE_RUNS[d]} runs")
    memory.plot([], [], "-", color="0.3", label=f"t' = 0 (start {STARTS[DRAWN]:g}, d = {D})")
    memory.plot([], [], "--", color="0.3", label=f"t' = {EARLIER:g}; lines: DMFT, to t = 3")
    style_axes(late, x="time t = η·step", y="overlap m = w·w*/d", title="Persistent SGD: behind at first, then gaining")
    style_axes(share, x="time t = η·step", y="share of runs with |m| > 0.99", title="It finds the teacher more often")
    style_axes(
        memory, x="later time t", y="C(t, t') = w(t)·w(t')/d", title="Memory of earlier weights, as theory has it"
    )
    for axes in (late, share, memory):
        axes.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    fig.suptitle(
        f"Phase retrieval at α = {ALPHA:g} from overlap {LATE_START:g}: persistent SGD starts behind GD and SGD, and "
        f"overtakes them at d = {min(LATE_RUNS)}"
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


ENTRY = Entry(
    name="persistent-sgd",
    title="Mean-field theory of GD, SGD and persistent SGD for phase retrieval",
    claim=f"At alpha = 3, from overlaps 0.5 and 0.2, GD, SGD and persistent SGD at d = {D} follow dynamical mean-field "
    "theory in overlap, training loss and two-time correlation up to t = 3. From 0.2 persistent SGD is behind GD and "
    "SGD at t = 1; at d = 250 it is ahead at t = 60 and has found the teacher more often, at d = 500 it gains on them.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=117,
    quick=Quick(
        {"D": 500, "RUNS": 8, "LIMIT": ll.DMFT(trajectories=2048, batches=4), "LATE_RUNS": {64: 8, 128: 4}},
        seconds=50,
        full=("persistent SGD is behind", "more runs of persistent SGD"),
    ),
)
