r"""A dip in the activation makes a trap at w = 0: a small start falls into it, a larger one learns.

With sigma through (0, -2.5), (0.5, -4), (1.5, 7.5) a unit of small norm is pulled to zero at a finite speed,

.. math:: \dot r = -c + \frac{A s}{2r}, \qquad c = 3\varphi(0)\,E[\tau(y - \sigma(0))], \qquad
          A = \tfrac{9}{2}\,E[\tau^2 (y - \sigma(0))^2], \qquad s = d\eta/b

(tau = 1 + y delta; the last term is the noise of steps, zero in the limit), and arrives: all units are then at w = 0,
where the risk is 3.625 and no gradient is left. Noise holds SGD at r = A s/(2c); steps so large that this is beyond
the start escape the trap.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, Key, average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "floor", "problem"]

D, DELTA, WIDTH, REPLICAS = 320, 0.5, 100, 6
ACTIVATION = "piecewise((0.0, -2.5), (0.5, -4.0), (1.5, 7.5))"
SMALL, LARGE = 0.1, 0.4  # norms of the start
FINE, COARSE = 6e-4, 0.0128  # d eta/b: the paper's eps = 1e-6, and 20 times that
SHORT = np.array([0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06, 0.08, 0.1])
LONG = np.array([0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3])
ESCAPE = np.array([0.0, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.3])
END = 0.3  # of the figure
WHOLE = np.unique(np.concatenate([LONG, np.round(np.linspace(0, 0.3, 31), 2), np.linspace(0.3, 3, 28)]))
TRAPPED = 3.625  # [(1 - sigma(0))^2 + (1 + sigma(0))^2]/4


def problem(scale: float, noise: float = FINE, batch: int = 1) -> ll.Problem:
    return ll.library.isotropic_mixture(DELTA, WIDTH, noise * batch, batch, scale, ACTIVATION)


def pull() -> tuple[float, float]:
    """c and A of the module docstring."""
    y = np.array([1.0, -1.0])
    tau, error = 1 + DELTA * y, y + 2.5
    return 3 / math.sqrt(2 * math.pi) * float(np.mean(tau * error)), 4.5 * float(np.mean((tau * error) ** 2))


def floor(noise: float) -> float:
    """The norm at which the noise of steps holds a trapped unit."""
    c, A = pull()
    return A * noise / (2 * c)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    limit = ll.RadialFlow(d=D, nodes=48, rtol=1e-8)
    near, far = problem(SMALL, batch=8), problem(LARGE, batch=40)
    least, stuck = ll.analysis.global_minimum(near, D), ll.analysis.optimality_gap(near, 0.0, D)
    return {
        "small": ll.predict(near, limit, np.append(SHORT, END)),
        "large": ll.predict(far, limit, WHOLE),
        "sgd_small": ll.simulate(near, D, SHORT[::2], REPLICAS, 0, "weights", progress),
        "sgd_large": ll.simulate(far, D, LONG, REPLICAS, 1, "weights", progress),
        "sgd_coarse": ll.simulate(problem(SMALL, COARSE), D, ESCAPE, REPLICAS, 2, "weights", progress),
        "trap": ll.analysis.dataset(
            near,
            {
                "trap_risk": (("norm",), [stuck.risk]),
                "gap": (("norm",), [stuck.gap]),
                "least": (("norm",), [least.risk]),
            },
            {"norm": [0.0]},
            method="optimality_gap",
        ),
    }


def mean_norm(ds: "xr.Dataset") -> "xr.Dataset":
    """The mean norm of the units, under the name q that `compare` knows."""
    unit = "student" if "student" in ds.dims else "particle"
    mean = ds.r.mean("student") if unit == "student" else (ds.r * ds.weight).sum("particle")
    kept = ds.drop_vars([name for name in ds.data_vars if name not in ("status", "end_time")])
    return kept.assign(q=mean).drop_vars(unit, errors="ignore")


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    small, large, trap = data["small"], data["large"], data["trap"]
    arrived = small.time.values[np.nonzero(small.r.max("particle").values == 0)[0][:1]]
    last = {name: data[f"sgd_{name}"].isel(time=-1) for name in ("small", "large", "coarse")}
    held, expected = float(last["small"].r.mean()), floor(FINE)
    predicted = mean_norm(large.sel(time=LONG))
    follows = ll.compare(mean_norm(data["sgd_large"]), predicted)
    late = ll.compare(mean_norm(data["sgd_large"]), predicted.assign_coords(time=2 * predicted.time))
    shift = float((data["sgd_large"].risk.mean("replica") - large.risk).isel(time=-1))
    escaped = last["coarse"].risk.values
    return [
        Check(
            f"started at norm {SMALL} the flow brings every unit to w = 0, where the risk is {TRAPPED}",
            len(arrived) == 1 and abs(float(small.risk[-1]) - TRAPPED) < 1e-12,
            f"risk {float(small.risk[-1]):.6f}, all units there at t = {arrived[0] if len(arrived) else math.nan:g}",
        ),
        Check(
            "which is not a minimum over laws of units, only a trap",
            float(trap.gap[0]) > 1 and float(trap.least[0]) < 0.01,
            f"Psi is lower elsewhere by {float(trap.gap[0]):.2f}; least risk of all laws {float(trap.least[0]):.4f}",
        ),
        Check(
            f"started at norm {LARGE} it learns",
            float(large.risk[-1]) < 0.02 and float(np.max(np.diff(large.risk.values))) < 0,
            f"risk {float(large.risk[-1]):.4f} at t = {WHOLE[-1]:g}, falling all the time",
        ),
        Check(
            f"SGD with small steps from {SMALL} is trapped, held at A s/(2c) by the noise of its steps (to 5 %)",
            abs(held / expected - 1) < 0.05 and abs(float(last["small"].risk.mean()) - TRAPPED) < 0.05,
            f"norm {held:.5f}, computed {expected:.5f}; risk {float(last['small'].risk.mean()):.3f}",
        ),
        Check(
            f"from {LARGE} the mean norm of its units follows the flow",
            follows.agrees,
            f"largest |z| {follows.max_z:.2f} over {REPLICAS} runs of N = {WIDTH}; risk at t = {LONG[-1]} above by "
            f"{shift:.3f} = {shift * WIDTH:.1f}/N",
        ),
        Check("control: a clock that is wrong by 2 is noticed", not late.agrees, f"largest |z| {late.max_z:.1f}"),
        Check(
            f"control: steps 20 times larger, with A s/(2c) > {SMALL}, escape from the trap by their noise",
            floor(COARSE) > SMALL and bool(np.all(escaped < TRAPPED / 2)),
            f"A s/(2c) = {floor(COARSE):.3f}; risks {', '.join(f'{x:.2f}' for x in escaped)} at t = {ESCAPE[-1]}",
        ),
    ]


RUNS = (
    ("small", palette[1], f"flow from r = {SMALL}", f"SGD from r = {SMALL}, dη/b = {FINE}"),
    ("large", palette[0], f"flow from r = {LARGE}", f"SGD from r = {LARGE}, dη/b = {FINE}"),
    ("coarse", palette[4], "", f"SGD from r = {SMALL}, dη/b = {COARSE}"),
)


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (shape, left, right) = new_figure(3, width=4.6, height=4.4)
    x = np.linspace(-0.8, 2.2, 301)
    shape.plot(x, np.interp(x, [0, 0.5, 1.5], [-2.5, -4, 7.5]), color="0.2", label="activation σ")
    shape.axvspan(0, 0.5, color=palette[1], alpha=0.15, label="the dip: units near 0 shrink")
    style_axes(shape, x="field w·x", y="σ")
    shape.set_title("An activation with a dip", fontsize="medium", loc="left")
    shape.legend(fontsize="small", frameon=False)
    for name, colour, flow, sgd in RUNS:
        runs = data[f"sgd_{name}"]
        if flow:
            path = data[name].sel(time=slice(0, END))
            left.plot(path.time, path.risk, color=colour, label=flow)
            right.plot(path.time, mean_norm(path).q, color=colour)
        for axes, values, label in ((left, runs.risk, sgd), (right, mean_norm(runs).q, None)):
            mean, error = average(values.transpose("replica", "time").values)
            axes.errorbar(runs.time, mean, error, fmt="o", color=colour, ms=4.5, elinewidth=1, label=label)
    for axes in (left, right):
        axes.set(xlim=(-0.006, 1.02 * END), ylim=(0, None))
    flows = [Key(flow, colour) for _, colour, flow, _ in RUNS if flow]
    fig.legend([*flows, *(Key(sgd, colour, "", "o") for _, colour, _, sgd in RUNS)], "outside lower center", columns=5)
    left.axhline(TRAPPED, color="0.6", lw=0.8, ls="--", zorder=0)
    style_axes(left, x="time t = γ·step/(p·d)", y="risk")
    left.set_title(f"Trapped at risk {TRAPPED}, or learning", fontsize="medium", loc="left")
    style_axes(right, x="time t", y="mean norm r = |w|/√d")
    right.set_title("Norms go to 0, or grow", fontsize="medium", loc="left")
    fig.suptitle(
        f"One start collapses to w = 0, another succeeds, and noise can help: d = {D}, δ = {DELTA}, N = {WIDTH}"
    )
    return fig


ENTRY = Entry(
    name="bad-activation",
    title="A dip in the activation: one start collapses, another succeeds",
    claim="With an activation that dips next to 0, units started at norm 0.1 all collapse to w = 0 (risk 3.625), which "
    "is no minimum, and those started at 0.4 learn; SGD does the same if its steps are small, and escapes by their "
    "noise if A s/(2c) is beyond the start.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=80,
    quick=Quick({"REPLICAS": 3, "WIDTH": 50}, seconds=25),
)
