r"""Mean-field theory describes descent on a fixed data set step by step; persistent SGD starts behind and overtakes.

Phase retrieval at alpha = 3 from a start of known overlap, by three rules that see the samples differently: all at
every step (GD), a new half at every step (SGD), or a half whose members stay out for a time tau (persistent SGD). The
theory is exact as d grows, at the step size used: from overlap 0.5 it is put beside simulations at d = 1000 up to
t = 1, from 0.2 beside d = 500 up to t = 20, at a longer step. There persistent SGD looks worst at first, and overtakes
later: simulations at two dimensions go on to t = 60, at the shorter step.
"""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import chance, part_of
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, Panel, average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "late_results", "late_theory", "problem", "results"]

ALPHA, BATCH, TAU = 3.0, 0.5, 1.0
START, ETA, TIMES = 0.5, 0.01, np.linspace(0, 1, 21)
D, RUNS, LIMIT = 1000, 10, ll.DMFT(trajectories=4096, batches=8)
LATE_START, LATE_TIMES = 0.2, np.append(np.arange(21.0), np.arange(22.0, 61.0, 2.0))
LATE_RUNS = {250: 64, 500: 32}  # dimension -> runs to the last time, with step ETA
LATE_SEED = 2018
LATE_ETA = 0.025  # of the theory, and of runs beside it: a longer step, but its rare trajectories do not bear 0.04
LATE_LIMIT, LATE_END, LATE_BESIDE = ll.DMFT(trajectories=1024, batches=6), 20.0, 16
PACE = 1e8  # of trajectories * steps^2 in a second of one core: what `late_theory` takes is said before
SURE, UNLIKELY = 3.0, 0.01  # standard errors of a difference, and the chance of a difference of shares
SEEN = ("m", "train_loss", "C")
LABELS = {"gd": "GD", "sgd": "SGD, half the samples", "psgd": f"persistent SGD, half the samples, τ = {TAU:g}"}
STYLES = {"gd": (palette[0], "o", "-"), "sgd": (palette[4], "s", ":"), "psgd": (palette[1], "^", "-")}
FOLLOWED = ("gd", "psgd")  # in theory up to LATE_END; SGD moves as GD does
EARLIER = 1.0  # the second of the two times t' at which C(t, t') is drawn


def rules(eta: float = ETA) -> dict[str, ll.AbstractAlgorithm]:
    return {
        "gd": ll.GradientDescent(eta),
        "sgd": ll.StochasticGD(learning_rate=eta, batch_fraction=BATCH),
        "psgd": ll.PersistentSGD(learning_rate=eta, batch_fraction=BATCH, persistence_time=TAU),
    }


def problem(rule: str = "psgd", overlap: float = START, eta: float = ETA) -> ll.Problem:
    return ll.library.descent_phase_retrieval(ALPHA, rules(eta)[rule], overlap)


def results(
    d: int, runs: int, limit: ll.DMFT, times: np.ndarray = TIMES, progress: Progress | None = None
) -> "dict[str, xr.Dataset]":
    """Simulation and theory of all rules: gd, gd_dmft, ... The rules see the same data sets."""
    data = {}
    for i, rule in enumerate(LABELS):
        one = problem(rule)
        data[rule] = ll.simulate(one, d, times, runs, 0, progress=part_of(progress, i, len(LABELS)))
        data[f"{rule}_dmft"] = ll.predict(one, limit, times)
    return data


def late_results(
    runs: Mapping[int, int], times: np.ndarray = LATE_TIMES, progress: Progress | None = None
) -> "dict[str, xr.Dataset]":
    """Longer simulations from overlap 0.2: gd_d250, ... The rules see the same data sets."""
    cases = [(rule, d) for d in runs for rule in LABELS]
    data = {}
    for i, (rule, d) in enumerate(cases):
        one, told = problem(rule, LATE_START), part_of(progress, i, len(cases))
        data[f"{rule}_d{d}"] = ll.simulate(one, d, times, runs[d], LATE_SEED + d, progress=told)
    return data


def late_theory(
    limit: ll.DMFT, end: float, d: int, runs: int, progress: Progress | None = None
) -> "dict[str, xr.Dataset]":
    """Theory up to a time and runs beside it, of equal steps: gd_late_dmft, gd_late, ... Memory and time are said."""
    data, times = {}, LATE_TIMES[LATE_TIMES <= end]
    for i, rule in enumerate(FOLLOWED):
        one, steps = problem(rule, LATE_START, LATE_ETA), round(end / LATE_ETA)
        seconds = limit.batches * limit.trajectories * steps**2 / PACE
        room = 41 * limit.trajectories * steps / 2**30
        if progress is not None:
            words = f"DMFT of {rule}, {steps} steps: about {seconds:.0f} s, {room:.1f} GiB at a time"
            progress(i, len(FOLLOWED), words)
        data[f"{rule}_late_dmft"] = ll.predict(one, limit, times)
        data[f"{rule}_late"] = ll.simulate(one, d, times, runs, LATE_SEED)
    return data


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    return (
        results(D, RUNS, LIMIT, progress=part_of(progress, 0, 3))
        | late_results(LATE_RUNS, LATE_TIMES, progress=part_of(progress, 1, 3))
        | late_theory(LATE_LIMIT, LATE_END, max(LATE_RUNS), LATE_BESIDE, progress=part_of(progress, 2, 3))
    )


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


def told_ahead(data: "dict[str, xr.Dataset]", time: float, since: float | None = None) -> Gap:
    """The same beside GD in the theory, by independent batches."""
    means, squares = [], 0.0
    for rule in FOLLOWED:
        m = data[f"{rule}_late_dmft"].m
        each = m.sel(time=time).values - (0.0 if since is None else m.sel(time=since).values)
        means.append(float(each.mean()))
        squares += float(each.var(ddof=1)) / each.size
    return Gap(means[1] - means[0], float(np.sqrt(squares)))


def _overtaking(data: "dict[str, xr.Dataset]") -> list[Check]:
    first, last = 1.0, float(LATE_TIMES[-1])
    checks = []
    for d, rule in itertools.product(LATE_RUNS, ("gd", "sgd")):
        name = rule.upper()
        begin, end = (ahead(data, d, rule, t) for t in (first, last))
        one, other = (data[f"{key}_d{d}"].success.values > 0 for key in ("psgd", rule))
        p = chance(one, other)
        checks += [
            Check(
                f"d = {d}, start {LATE_START:g}: persistent SGD is behind {name} at t = {first:g} and ahead at "
                f"t = {last:g}",
                begin.z < -SURE and end.z > SURE,
                f"overlap on the same data sets {begin}, then {end}",
            ),
            Check(
                f"d = {d}: by t = {last:g} more runs of persistent SGD than of {name} have found the teacher",
                p < UNLIKELY,
                f"{int(one.sum())} against {int(other.sum())} of {one.size}; by chance with probability {p:.1e}",
            ),
        ]
    return checks


def _late_theory(data: "dict[str, xr.Dataset]") -> list[Check]:
    first, large, checks = 1.0, max(LATE_RUNS), []
    for rule in FOLLOWED:
        limit = data[f"{rule}_late_dmft"]
        gap = ll.compare(data[f"{rule}_late"], limit, variables=SEEN)
        worst = ", ".join(f"{entry.variable} {entry.z:+.2f}" for entry in gap.entries)
        checks.append(
            Check(
                f"{LABELS[rule]}, start {LATE_START:g}, step {LATE_ETA:g}, d = {large}, up to t = {LATE_END:g}: "
                "overlap, loss and C(t, t') as the theory says",
                gap.agrees,
                f"z: {worst}; {limit.attrs['bytes_needed'] / 2**30:.1f} GiB for a batch of "
                f"{limit.attrs['trajectories']} trajectories",
            )
        )
    begin, end, gain = told_ahead(data, first), told_ahead(data, LATE_END), told_ahead(data, LATE_END, first)
    checks.append(
        Check(
            f"in the theory too persistent SGD is behind GD at t = {first:g}; who is ahead at t = {LATE_END:g} is not "
            "claimed",
            begin.z < -SURE,
            f"{begin}, then {end}: a gain of {gain}",
        )
    )
    return checks


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = _overtaking(data) + _late_theory(data)
    for rule, label in LABELS.items():
        gap = ll.compare(data[rule], data[f"{rule}_dmft"], variables=SEEN)
        worst = ", ".join(f"{entry.variable} {entry.z:+.2f}" for entry in gap.entries)
        checks.append(
            Check(
                f"{label}, start {START:g}, d = {D}, up to t = {TIMES[-1]:g}: overlap, loss and C(t, t') as the theory "
                "says",
                gap.agrees,
                f"z: {worst}",
            )
        )
    wrong = ll.compare(data["psgd"], data["sgd_dmft"], variables=SEEN, check_problem=False)
    checks.append(
        Check(
            "control: the theory of SGD does not describe persistent SGD",
            not wrong.agrees,
            f"largest |z| {wrong.max_z:.1f}",
        )
    )
    late = data["gd_dmft"].assign_coords(time=data["gd_dmft"].time * 2)
    slow = ll.compare(data["gd"], late, variables="m")
    checks.append(Check("control: a clock that is wrong by 2 is noticed", not slow.agrees, f"|z| {slow.max_z:.1f}"))
    near, far = (_farthest(data[f"{rule}_dmft"].m, data["gd_dmft"].m) for rule in ("sgd", "psgd"))
    checks.append(
        Check(
            f"in the theory SGD moves as GD does, persistent SGD does not (start {START:g})",
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
            _points(late, ds.time.values, ds.m.transpose("replica", "time").values, colour, marker, fill)
            found = np.mean(ds.success_time.values[:, None] <= ds.time.values, axis=0)
            share.step(ds.time, found, ":" if fill == "none" else "-", where="post", color=colour, lw=1.8)
        if rule in FOLLOWED:
            limit, sim = data[f"{rule}_late_dmft"], data[f"{rule}_late"]
            late.plot(limit.time, limit.m.mean("replica"), line, color=colour, lw=2)
            for earlier, dash in ((0.0, "-"), (EARLIER, "--")):
                told, seen = (_since(ds, earlier) for ds in (limit, sim))
                memory.plot(told.time, told.C.mean("replica"), dash, color=colour, lw=1.5)
                C = seen.C.transpose("replica", "time").values
                _points(memory, seen.time.values, C, colour, marker, colour if earlier == 0.0 else "none")
        late.plot([], [], marker + (line if rule in FOLLOWED else ""), color=colour, ms=5, label=LABELS[rule])
    late.set(ylim=(0.15, 1.0))
    share.set(ylim=(-0.03, 1.0))
    late.plot([], [], "-", color="0.3", label=f"lines: theory, d → ∞, step {LATE_ETA:g}; points: step {ETA:g}")
    for d, fill, line in zip(LATE_RUNS, ("none", "0.3"), (":", "-"), strict=True):
        share.plot([], [], "o" + line, color="0.3", mfc=fill, ms=5, label=f"d = {d}, {LATE_RUNS[d]} runs")
    memory.plot([], [], "o-", color="0.3", ms=5, label="t' = 0; lines: theory")
    words = f"t' = {EARLIER:g}; points: d = {max(LATE_RUNS)}; step {LATE_ETA:g} for all"
    memory.plot([], [], "o--", color="0.3", mfc="none", ms=5, label=words)
    style_axes(late, x="time t = η·step", y="overlap m = w·w*/d", title="Persistent SGD: behind at first, then ahead")
    style_axes(share, x="time t = η·step", y="share of runs with |m| > 0.99", title="It finds the teacher more often")
    style_axes(
        memory, x="later time t", y="C(t, t') = w(t)·w(t')/d", title="Memory of earlier weights, as theory has it"
    )
    for axes in (late, share, memory):
        axes.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    fig.suptitle(
        f"Phase retrieval at α = {ALPHA:g} from overlap {LATE_START:g}: persistent SGD starts behind GD and SGD, and "
        "overtakes them"
    )
    return fig


def _since(ds: "xr.Dataset", earlier: float) -> "xr.Dataset":
    at = ds.sel(time_2=earlier, method="nearest")
    return at.isel(time=(at.time.values >= float(at.time_2)) & (at.time.values <= LATE_END))


def _points(axes: Panel, times: np.ndarray, paths: np.ndarray, colour: str, marker: str, fill: str) -> None:
    """Means of paths (replica, time) with their errors, at a few of the times."""
    mean, error = average(paths)
    few = np.isin(times, np.append([1.0, 5.0, 10.0, 15.0], np.arange(20.0, 61.0, 8.0)))
    shape = {"fmt": marker, "ms": 4.5, "mfc": fill, "elinewidth": 1, "capsize": 2}
    axes.errorbar(times[few], mean[few], None if error is None else error[few], color=colour, **shape)


ENTRY = Entry(
    name="persistent-sgd",
    title="Mean-field theory of GD, SGD and persistent SGD for phase retrieval",
    claim=f"At alpha = 3, GD, SGD and persistent SGD follow dynamical mean-field theory in overlap, training loss and "
    f"two-time correlation: from overlap 0.5 up to t = 1 at d = {D}, from 0.2 GD and persistent SGD up to t = 20 at "
    "d = 500. From 0.2 persistent SGD is behind GD and SGD at t = 1; at t = 60 it is ahead and has found the teacher "
    "more often, at d = 250 and at d = 500.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=200,
    quick=Quick(
        {
            "D": 500,
            "RUNS": 8,
            "LIMIT": ll.DMFT(trajectories=1024, batches=8),  # four batches see nothing
            "LATE_RUNS": {64: 4, 128: 2},
            "LATE_LIMIT": ll.DMFT(trajectories=1024, batches=2),
            "LATE_END": 2.0,
            "LATE_BESIDE": 4,
        },
        seconds=45,
        full=("persistent SGD is behind", "more runs of persistent SGD", "up to t = 2", "control: the theory of SGD"),
    ),
)
