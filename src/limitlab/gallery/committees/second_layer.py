r"""Training both layers: a student whose second layer is one, of a teacher whose second layer is two.

.. math:: \dot a_i = \kappa\, E[\sigma(\lambda_i)\, \mathcal E] \quad\text{beside the equations of the first layer}

With a fixed second layer the student can only turn its error functions steeper; with a trained one it can become the
teacher. In both cases SGD must follow the overlap ODE.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problems"]

TIMES = np.linspace(0, 16, 33)
D, REPLICAS = 2000, 64
SMALL_D, SMALL_REPLICAS = 500, 8  # a run of real weights, for the eye and for the check


def problem(second_layer: str) -> ll.Problem:
    return ll.Problem(
        teacher=ll.Committee(width=1, activation="erf", output_weights=[2.0]),
        student=ll.Committee(width=2, activation="erf", second_layer=second_layer),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.3),
        algorithm=ll.OnlineSGD(learning_rate=2.0, second_layer_rate=2.0),
    )


def problems() -> dict[str, tuple[ll.Problem, np.ndarray]]:
    return {f"second layer {kind}": (problem(kind), TIMES) for kind in ("fixed", "trained")}


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {}
    for kind in ("fixed", "trained"):
        one = problem(kind)
        data[f"{kind}_ode"] = ll.predict(one, ll.OverlapODE(), TIMES)
        data[f"{kind}_sgd"] = ll.simulate(one, D, TIMES, REPLICAS, 0, "overlaps", progress)
    data["trained_weights"] = ll.simulate(problem("trained"), SMALL_D, TIMES, SMALL_REPLICAS, 1, "weights", progress)
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    for kind in ("fixed", "trained"):
        gap = ll.compare(data[f"{kind}_sgd"], data[f"{kind}_ode"])
        checks.append(
            Check(f"SGD at d = {D} follows the ODE, second layer {kind}", gap.agrees, f"largest |z| {gap.max_z:.2f}")
        )
    gap = ll.compare(data["trained_weights"], data["trained_ode"])
    checks.append(Check(f"so do real weights at d = {SMALL_D}", gap.agrees, f"largest |z| {gap.max_z:.2f}"))
    fixed, trained = (float(data[f"{kind}_ode"].risk[-1]) for kind in ("fixed", "trained"))
    checks.append(
        Check(
            "only the trained second layer learns the teacher",
            trained < 0.1 * fixed,
            f"risk at t = {TIMES[-1]:g}: {fixed:.4f} fixed, {trained:.5f} trained",
        )
    )
    a = float(data["trained_ode"].a[-1].mean())
    checks.append(Check("its second layer goes from 1 towards the teacher's 2", abs(a - 2) < 0.3, f"a = {a:.3f}"))
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.0, height=4.0)
    for kind, colour in (("fixed", palette[1]), ("trained", palette[0])):
        ode, sgd = data[f"{kind}_ode"], data[f"{kind}_sgd"]
        left.plot(ode.time, ode.risk, color=colour, label=f"ODE, second layer {kind}")
        right.plot(ode.time, ode.a.mean("student"), color=colour)
        for axes, runs in ((left, sgd.risk), (right, sgd.a.mean("student"))):
            some = runs.isel(time=slice(0, None, 3))
            error = some.std("replica", ddof=1) / np.sqrt(some.sizes["replica"])
            label = f"SGD, d = {D}, {REPLICAS} runs" if axes is left and kind == "trained" else None
            axes.errorbar(some.time, some.mean("replica"), error, fmt="o", color=colour, ms=4, capsize=2, label=label)
    weights = data["trained_weights"]
    left.plot(weights.time, weights.risk, color="0.75", lw=0.6, zorder=0)
    left.plot([], [], color="0.75", lw=0.6, label=f"single runs of real weights, d = {SMALL_D}")
    left.set_yscale("log")
    left.legend(fontsize="small", frameon=False)
    right.axhline(2, color="0.4", ls="--", lw=1)
    right.text(TIMES[-1], 1.985, "teacher", color="0.4", ha="right", va="top")
    style_axes(left, x="time t = γ·step/(p·d)", y="risk R")
    style_axes(right, x="time t = γ·step/(p·d)", y="mean second-layer weight a")
    left.set_title("Fixed a stalls, trained a learns", fontsize="medium", loc="left")
    right.set_title("The second layer grows towards the teacher's", fontsize="medium", loc="left")
    fig.suptitle("Training both layers learns what one layer cannot (erf, p = 2, k = 1, γ = κ = 2)")
    return fig


ENTRY = Entry(
    name="second-layer",
    title="Training the second layer as well",
    claim="SGD on both layers follows the overlap ODE, and only then does a student with a = 1 learn a teacher with "
    "a = 2.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=15,
    quick=Quick({"REPLICAS": 16, "D": 1000}, seconds=8),
)
