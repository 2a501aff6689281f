r"""A staircase of monomials is climbed step by step in a number of samples proportional to d.

.. math:: h(z) = z_1 + z_1 z_2 + z_1 z_2 z_3 + z_1 z_2 z_3 z_4

Each monomial brings one new variable, so that each is learned once the one before it is: all four coefficients go from
0 to 1, one after the other. SGD at d = p = 100 follows the flow of infinitely many neurons in 100 dimensions
(`MeanField`), whose first weights already point a little somewhere; in infinite dimension (`DimensionFree`) they do
not, and the later steps begin a little later.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem"]

D, REPLICAS = 100, 8
TIMES = np.concatenate([[0.0], np.geomspace(0.004, 8, 45)])
TERMS = ("z1", "z1*z2", "z1*z2*z3", "z1*z2*z3*z4")
NEAR = 0.06  # how far runs of 100 units may be from infinitely many
HALF, LEARNED = 0.5, 0.93


def problem() -> ll.Problem:
    return ll.library.merged_staircase(step_noise=0.002, second_layer_scale=20.0)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    one = problem()
    return {
        "sgd": ll.simulate(one, D, TIMES, REPLICAS, 0, "weights", progress),
        "limit": ll.predict(one, ll.DimensionFree(nodes=192), TIMES),
        "flow": ll.predict(one, ll.MeanField(d=D, particles=2048, tolerance=0.05, rtol=1e-5), TIMES),
    }


def _reached(values: np.ndarray) -> float:
    """When a coefficient first reaches `HALF`."""
    after = int(np.argmax(values >= HALF))
    if values[after] < HALF:
        return np.inf
    return float(np.interp(HALF, values[after - 1 : after + 1], TIMES[after - 1 : after + 1]))


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    sgd, limit, flow = (data[name] for name in ("sgd", "limit", "flow"))
    shape = ll.staircase(problem().teacher)  # type: ignore[arg-type]
    mean = sgd.fourier.mean("replica")
    with_z1 = [str(term) for term in limit.term.values if "z1" in str(term).split("*")]
    near, far = (float(abs(mean - theory.fourier).sel(term=with_z1).max()) for theory in (flow, limit))
    late = flow.assign_coords(time=flow.time * 2)
    late_gap = float(abs(mean - late.fourier.interp(time=TIMES)).sel(term=with_z1).max())
    named = (("SGD", mean), (f"the flow in {D} dimensions", flow.fourier), ("infinite dimension", limit.fourier))
    reached = {name: [_reached(path.sel(term=term).values) for term in TERMS] for name, path in named}
    end = {name: [float(path.sel(term=term)[-1]) for term in TERMS] for name, path in named}
    others = [str(term) for term in limit.term.values if str(term) not in with_z1]
    return [
        Check(
            "the target is a merged staircase",
            shape.merged_staircase and shape.leap == 1,
            f"leap {shape.leap}, in the order {', '.join(shape.order)}",
        ),
        Check(
            "the steps are climbed in order",
            all(np.all(np.isfinite(t)) and np.all(np.diff(t) > 0) for t in reached.values()),
            f"coefficients reach {HALF} at t = "
            + "; ".join(", ".join(f"{x:.2f}" for x in t) + f" in {name}" for name, t in reached.items()),
        ),
        Check(
            f"every coefficient arrives: above {LEARNED} and below {2 - LEARNED:.2f} at t = {TIMES[-1]:g}",
            all(LEARNED < x < 2 - LEARNED for values in end.values() for x in values),
            "; ".join(", ".join(f"{x:.3f}" for x in values) + f" in {name}" for name, values in end.items()),
        ),
        Check(
            f"SGD at d = p = {D} is within {NEAR} of the flow in {D} dimensions, farther from that in infinitely many",
            near < min(NEAR, far),
            f"largest difference of a coefficient with z1 {near:.3f}, and {far:.3f}, {REPLICAS} runs",
        ),
        Check(
            "control: a clock that is wrong by 2 would be noticed", late_gap > 3 * NEAR, f"difference {late_gap:.2f}"
        ),
        Check(
            "terms without z1 are never learned",
            float(abs(limit.fourier.sel(term=others)).max()) < 1e-10,
            f"largest {float(abs(limit.fourier.sel(term=others)).max()):.0e} in the limit, "
            f"{float(abs(mean.sel(term=others)).max()):.3f} in the mean of SGD",
        ),
        Check(
            "the risk falls to less than a hundredth",
            float(sgd.risk.mean("replica")[-1]) < 0.01 * float(sgd.risk.mean("replica")[0]),
            f"from {float(sgd.risk.mean('replica')[0]):.3f} to {float(sgd.risk.mean('replica')[-1]):.4f} after "
            f"{int(sgd.samples[-1])} samples",
        ),
    ]


def _averaged(values: "xr.DataArray") -> tuple[np.ndarray, np.ndarray]:
    """The mean over runs and its standard error, at all times."""
    mean, error = average(values.transpose("replica", "time").values)
    return mean, np.zeros_like(mean) if error is None else error


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    sgd, limit, flow = (data[name] for name in ("sgd", "limit", "flow"))
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    seen = slice(1, None)  # time 0 has no place on a logarithmic axis
    for colour, term in zip(palette, TERMS, strict=False):
        label = "$" + term.replace("*", " ").replace("z", "z_") + "$"
        left.plot(TIMES[seen], flow.fourier.sel(term=term)[seen], color=colour, lw=1.8, label=label)
        left.plot(TIMES[seen], limit.fourier.sel(term=term)[seen], color=colour, lw=1.0, ls=":")
        mean, error = _averaged(sgd.fourier.sel(term=term))
        left.errorbar(TIMES[seen], mean[seen], error[seen], fmt="o", color=colour, ms=3.5, elinewidth=1)
    left.axhline(1, color="0.7", lw=0.8, zorder=0)
    style_axes(left, x="time t = γ·step/(p·d)", y="Fourier coefficient of the network", title="One after the other")
    left.plot([], [], color="0.3", lw=1.8, label=f"theory, d = {D}, p → ∞")
    left.plot([], [], color="0.3", lw=1.0, ls=":", label="theory, d → ∞, p → ∞")
    left.errorbar([], [], [], fmt="o", color="0.3", ms=3.5, label=f"SGD, d = p = {D}, {REPLICAS} runs")
    left.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    for done in range(4):
        right.axhline((4 - done) / 2, color="0.85", lw=0.8, zorder=0)
        words = "nothing learned" if done == 0 else f"{done} of 4 learned"
        right.text(TIMES[-1], (4 - done) / 2, words, color="0.5", fontsize="small", va="bottom", ha="right")
    mean, error = _averaged(sgd.latent_risk)
    right.errorbar(
        TIMES[seen],
        mean[seen],
        error[seen],
        fmt="o",
        color=palette[0],
        ms=3.5,
        elinewidth=1,
        label="SGD, on z1…z4",
    )
    right.plot(TIMES[seen], flow.risk[seen], color=palette[0], lw=1.8, label=f"theory, d = {D}")
    right.plot(TIMES[seen], limit.risk[seen], color=palette[0], lw=1.0, ls=":", label="theory, d → ∞")
    mean, _ = _averaged(sgd.residual_risk)
    right.plot(TIMES[seen], mean[seen], color=palette[1], lw=1.2, label=f"SGD, on the other {D - 4} coordinates")
    for axes in (left, right):
        axes.set_xscale("log")
    right.set_ylim(-0.05, 2.25)
    style_axes(right, x="time t", y="risk (half the mean square error)", title="The risk goes down the stairs")
    right.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    fig.suptitle(
        "A merged staircase is climbed in O(d) samples: $z_1 + z_1z_2 + z_1z_2z_3 + z_1z_2z_3z_4$, tanh(x + 1)"
    )
    return fig


ENTRY = Entry(
    name="staircase",
    title="A staircase of monomials is learned step by step",
    claim="SGD at d = p = 100 climbs z1 + z1z2 + z1z2z3 + z1z2z3z4 in order: each coefficient goes to 1, as the flow "
    "of infinitely many neurons says.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=50,
    quick=Quick({"REPLICAS": 4}, seconds=30),
)
