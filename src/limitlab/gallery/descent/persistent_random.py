r"""From a random start, a batch whose members stay out for a while finds signals that gradient descent misses.

Phase retrieval at alpha = 2.5 and d = 128: the same data sets and starts for gradient descent (GD), SGD with a new half
of the samples at every step, and persistent SGD with a half that changes over a time tau = 2. The advantage is slow and
shrinks as d grows at a fixed time, so the time is part of the claim.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.descent.success_curves import chance, part_of
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem", "results"]

ALPHA, D, RUNS = 2.5, 128, 40
ETA, BATCH, TAU = 0.01, 0.5, 2.0
TIMES = np.linspace(0, 200, 41)
LABELS = {"gd": "GD", "sgd": "SGD, b = ½", "psgd": f"persistent SGD, b = ½, τ = {TAU:g}"}
COLOURS = dict(zip(LABELS, (palette[0], palette[4], palette[1]), strict=True))
UNLIKELY = 0.01  # the level at which two shares differ


def rules() -> dict[str, ll.AbstractAlgorithm]:
    return {
        "gd": ll.GradientDescent(ETA),
        "sgd": ll.StochasticGD(learning_rate=ETA, batch_fraction=BATCH),
        "psgd": ll.PersistentSGD(learning_rate=ETA, batch_fraction=BATCH, persistence_time=TAU),
    }


def problem(rule: str = "psgd") -> ll.Problem:
    return ll.library.descent_phase_retrieval(ALPHA, rules()[rule])


def results(d: int, runs: int, times: np.ndarray = TIMES, progress: Progress | None = None) -> "dict[str, xr.Dataset]":
    """All rules on the same data sets, from the same starts."""
    return {
        rule: ll.simulate(problem(rule), d, times, runs, 0, progress=part_of(progress, i, len(LABELS)))
        for i, rule in enumerate(LABELS)
    }


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    return results(D, RUNS, progress=progress)


def _found(ds: "xr.Dataset") -> np.ndarray:
    return ds.success.values > 0


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    found = {rule: _found(ds) for rule, ds in data.items()}
    end = float(data["psgd"].time[-1])
    count = {rule: f"{int(hits.sum())} of {hits.size}" for rule, hits in found.items()}
    against = {rule: chance(found["psgd"], found[rule]) for rule in ("gd", "sgd")}
    plain = chance(found["sgd"], found["gd"]), chance(found["gd"], found["sgd"])
    when = data["psgd"].success_time.values
    late = float(np.mean(when > end / 4)) - float(np.mean(~found["psgd"]))
    mean = {rule: float(abs(ds.m.isel(time=-1)).mean()) for rule, ds in data.items()}
    rate = ll.success_rate(data["psgd"])
    return [
        *(
            Check(
                f"persistent SGD finds the teacher more often than {LABELS[rule]} by t = {end:g}",
                p < UNLIKELY,
                f"{count['psgd']} against {count[rule]} on the same data sets; by chance with probability {p:.1e}",
            )
            for rule, p in against.items()
        ),
        Check(
            "control: without persistence the noise of batches does not help: SGD is as good as GD",
            min(plain) > UNLIKELY,
            f"{count['sgd']} against {count['gd']}; by chance with probability {min(plain):.2f}",
        ),
        Check(
            "persistent SGD does not always succeed by then",
            float(rate.success_rate_high) < 0.95,
            f"share {float(rate.success_rate):.2f}, 95 % from {float(rate.success_rate_low):.2f} to "
            f"{float(rate.success_rate_high):.2f}",
        ),
        Check(
            f"it is slow: some succeed only after t = {end / 4:g}",
            late > 0,
            f"{late:.0%} of all runs; the last at t = {np.max(when[found['psgd']], initial=0):.0f}",
        ),
        Check(
            "it ends with the highest mean |overlap|",
            mean["psgd"] > max(mean["gd"], mean["sgd"]),
            ", ".join(f"{rule} {value:.2f}" for rule, value in mean.items()),
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.6, height=4.4)
    top = 0.0
    for i, (rule, label) in enumerate(LABELS.items()):
        ds, colour, marker = data[rule], COLOURS[rule], "os^"[i]
        times, runs = ds.time.values, ds.sizes["replica"]
        share = np.mean(ds.success_time.values[:, None] <= times, axis=0)
        low, high = ll.analysis.wilson(share, runs)
        top = max(top, float(high.max()))
        some = slice(8 + i, None, 8)
        left.step(times, share, where="post", color=colour, lw=1.5)
        bars = [(share - low)[some], (high - share)[some]]
        left.errorbar(times[some], share[some], bars, fmt=marker, color=colour, ms=5, capsize=3, label=label)
        final = np.sort(abs(ds.m.isel(time=-1).values))
        right.plot(np.linspace(0, 1, runs), final, marker, color=colour, ms=4, alpha=0.8, label=label)
    right.axhline(0.99, color="0.4", ls="--", lw=1, label="counts as found: 0.99")
    left.set(ylim=(-0.02, 1.1 * top), xlim=(0, float(data["gd"].time[-1]) * 1.03))
    style_axes(left, x="time t = η·step", y="share of runs that have found the teacher")
    style_axes(right, x="share of runs that end lower", y=f"|overlap| at t = {float(data['gd'].time[-1]):g}")
    left.set_title("Found by time t (bars: 95 % intervals)", fontsize="medium", loc="left")
    right.set_title("Every run, sorted", fontsize="medium", loc="left")
    for axes in (left, right):
        axes.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    runs, d = data["gd"].sizes["replica"], data["gd"].attrs["d"]
    fig.suptitle(f"Persistent batches escape: phase retrieval, α = {ALPHA:g}, d = {d}, random start, {runs} runs each")
    return fig


ENTRY = Entry(
    name="persistent-random",
    title="Who escapes from a random start: GD, SGD or persistent SGD",
    claim=f"At alpha = {ALPHA:g}, d = {D}, persistent SGD (b = 1/2, tau = {TAU:g}) has found the teacher by t = 200 "
    "more often than GD and SGD on the same data sets; SGD without persistence is no better than GD.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=50,
    quick=Quick({"D": 64, "RUNS": 64}, seconds=30, full=("does not always succeed",)),
)
