r"""A staircase of monomials is climbed step by step in a number of samples proportional to d.

.. math:: h(z) = z_1 + z_1 z_2 + z_1 z_2 z_3 + z_1 z_2 z_3 z_4

Each monomial brings one new variable, so that each is learned once the one before it is: SGD at d = 100 follows the
dimension-free flow, and the flow with the noise of its steps to within the scatter of runs.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress
from limitlab.gallery.figures import average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = ["ENTRY", "problem"]

D, REPLICAS = 100, 16
TIMES = np.linspace(0, 20, 41)
TERMS = ("z1", "z1*z2", "z1*z2*z3", "z1*z2*z3*z4")
NEAR = 0.03  # how far d = 100 and steps of d eta = 0.02 may be from the limit
SEEN = 0.1  # a coefficient that has reached this is being learned


def problem() -> ll.Problem:
    return ll.library.merged_staircase()


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    one = problem()
    return {
        "sgd": ll.simulate(one, D, TIMES, REPLICAS, 0, "weights", progress),
        "limit": ll.predict(one, ll.DimensionFree(tolerance=1e-6), TIMES),
        "corrected": ll.predict(one, ll.DimensionFree(corrected=True), TIMES),
    }


def _onset(time: np.ndarray, values: np.ndarray) -> float:
    """When a coefficient first reaches `SEEN`."""
    after = int(np.argmax(values >= SEEN))
    if values[after] < SEEN:
        return np.inf
    return float(np.interp(SEEN, values[after - 1 : after + 1], time[after - 1 : after + 1]))


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    sgd, limit, corrected = (data[name] for name in ("sgd", "limit", "corrected"))
    shape = ll.staircase(problem().teacher)  # type: ignore[arg-type]
    gap = ll.compare(sgd, corrected, variables=("fourier", "latent_risk"))
    mean = sgd.fourier.mean("replica")
    near = float(abs(mean - limit.fourier).max())
    nearer = float(abs(mean - corrected.fourier).max())
    onsets = {
        name: [_onset(TIMES, path.sel(term=term).values) for term in TERMS]
        for name, path in (("the limit", limit.fourier), ("SGD", mean))
    }
    late = corrected.assign_coords(time=corrected.time * 2)
    slow = ll.compare(sgd, late, variables="fourier")
    others = [str(term) for term in limit.term.values if "z1" not in str(term).split("*")]
    return [
        Check(
            "the target is a merged staircase",
            shape.merged_staircase and shape.leap == 1,
            f"leap {shape.leap}, in the order {', '.join(shape.order)}",
        ),
        Check(
            f"SGD at d = {D} follows the flow with the noise of its steps",
            gap.agrees,
            f"largest |z| {gap.max_z:.2f} over all 16 coefficients, {REPLICAS} runs",
        ),
        Check(
            f"it is within {NEAR} of the flow without it, and nearer to the flow with it",
            nearer < near < NEAR,
            f"largest difference of a coefficient {near:.3f} without, {nearer:.3f} with the noise",
        ),
        Check("control: a clock that is wrong by 2 is noticed", not slow.agrees, f"largest |z| {slow.max_z:.1f}"),
        Check(
            "the steps of the staircase are climbed in order",
            all(np.all(np.isfinite(t)) and np.all(np.diff(t) > 0) for t in onsets.values()),
            f"coefficients reach {SEEN} at t = "
            + "; ".join(", ".join(f"{x:.2f}" for x in t) + f" in {name}" for name, t in onsets.items()),
        ),
        Check(
            "terms without z1 are never learned",
            float(abs(limit.fourier.sel(term=others)).max()) < 1e-10,
            f"largest {float(abs(limit.fourier.sel(term=others)).max()):.0e} in the limit, "
            f"{float(abs(mean.sel(term=others)).max()):.3f} in the mean of SGD",
        ),
        Check(
            "the risk falls",
            float(sgd.risk.mean("replica")[-1]) < 0.25 * float(sgd.risk.mean("replica")[0]),
            f"from {float(sgd.risk.mean('replica')[0]):.3f} to {float(sgd.risk.mean('replica')[-1]):.3f} after "
            f"{int(sgd.samples[-1])} samples",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> "Figure":
    sgd, limit, corrected = (data[name] for name in ("sgd", "limit", "corrected"))
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    for colour, term in zip(palette, TERMS, strict=False):
        label = "$" + term.replace("*", " ").replace("z", "z_") + "$"
        left.plot(limit.time, limit.fourier.sel(term=term), color=colour, lw=1.8, label=label)
        left.plot(corrected.time, corrected.fourier.sel(term=term), color=colour, lw=1.2, ls=":")
        mean, error = average(sgd.fourier.sel(term=term).transpose("replica", "time").values)
        left.errorbar(sgd.time, mean, error, fmt="o", color=colour, ms=3.5, elinewidth=1)
    left.axhline(1, color="0.7", lw=0.8, zorder=0)
    style_axes(
        left,
        x="time t = γ·step/(p·d) = η·step",
        y="Fourier coefficient of the network",
        title="Learned one after the other",
    )
    left.plot([], [], color="0.3", lw=1.8, label="dimension-free flow")
    left.plot([], [], color="0.3", lw=1.2, ls=":", label="with the noise of its steps")
    left.errorbar([], [], [], fmt="o", color="0.3", ms=3.5, label=f"SGD, d = p = {D}, {REPLICAS} runs")
    left.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    for name, colour, label in (
        ("risk", palette[0], "risk"),
        ("latent_risk", palette[1], "part on z1 ... z4"),
        ("residual_risk", palette[2], "part on the other 96 coordinates"),
    ):
        mean, error = average(sgd[name].transpose("replica", "time").values)
        right.errorbar(sgd.time, mean, error, fmt="o", color=colour, ms=3.5, elinewidth=1, label=label)
    right.plot(limit.time, limit.risk, color=palette[1], lw=1.8)
    right.plot(corrected.time, corrected.risk, color=palette[0], lw=1.2, ls=":")
    right.set_yscale("log")
    style_axes(right, x="time t", y="half the mean square error", title="Where the error is")
    right.legend(fontsize="small", frameon=False, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    fig.suptitle(
        "A merged staircase is climbed in O(d) samples: $z_1 + z_1z_2 + z_1z_2z_3 + z_1z_2z_3z_4$, tanh(x + 1)"
    )
    return fig


ENTRY = Entry(
    name="staircase",
    title="A staircase of monomials is learned step by step",
    claim="SGD at d = p = 100 climbs z1 + z1z2 + z1z2z3 + z1z2z3z4 in order, as the dimension-free flow says.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=60,
)
