r"""Symmetry can stop the climb: three targets that look alike and end differently.

.. math::
    z_1 + z_2 + z_3 + z_1 z_2 z_3, \qquad z_1 + z_2 + z_3 - z_1 z_2 z_3, \qquad z_1 + z_2 + z_1 z_3 + z_2 z_4

All are merged staircases. Permutations of variables that leave h unchanged force equal weights on them forever. For
the last target the functions that are left cannot represent h: a floor. For the first they can, and yet training both
layers together gets stuck, while its sign-flipped twin and layer-wise training reach zero.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, average, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problem"]

TARGETS = {
    "plus": "z1 + z2 + z3 + z1*z2*z3",
    "minus": "z1 + z2 + z3 - z1*z2*z3",
    "floor": "z1 + z2 + z1*z3 + z2*z4",
}
TIMES = np.concatenate([[0.0], np.geomspace(0.1, 400, 41)])
SHORT = np.linspace(0, 20, 11)
D, REPLICAS = 100, 4
EARLY, NEAR = 4.0, 0.05
PENALTIES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
SWITCH = 2.0


def problem(name: str) -> ll.Problem:
    student = ll.Committee(width=100, activation=ll.shifted("tanh", 0.5), second_layer="trained")
    return replace(ll.library.merged_staircase(TARGETS[name]), student=student)


def layerwise(name: str, penalty: float) -> ll.Problem:
    rule = ll.LayerwiseSGD(learning_rate=2.0, switch_time=SWITCH, penalty=penalty)
    return replace(problem(name), algorithm=rule)


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data: dict[str, Any] = {}
    for name in TARGETS:
        data[name] = ll.predict(problem(name), ll.DimensionFree(nodes=96), TIMES)
        data[f"{name}_short"] = ll.predict(problem(name), ll.DimensionFree(nodes=96), SHORT)
        data[f"{name}_sgd"] = ll.simulate(problem(name), D, SHORT, REPLICAS, 0, "weights", progress)
        for penalty in PENALTIES:
            done = ll.predict(layerwise(name, penalty), ll.DimensionFree(nodes=48), [2 * SWITCH])
            data[f"{name}_ridge{-round(np.log10(penalty))}"] = done
    return data


def _ridge(data: "dict[str, xr.Dataset]", name: str) -> np.ndarray:
    return np.array([float(data[f"{name}_ridge{-round(np.log10(p))}"].risk[-1]) for p in PENALTIES])


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    shapes = {name: ll.staircase(text) for name, text in TARGETS.items()}
    end = {name: float(data[name].risk[-1]) for name in TARGETS}
    u = {name: data[name].u.values for name in TARGETS}
    floor = shapes["floor"].floor
    ridge = {name: _ridge(data, name) for name in TARGETS}
    top = data["plus"].fourier.sel(term="z1*z2*z3").values
    gaps = {
        name: abs(data[f"{name}_sgd"].latent_risk.mean("replica").values - data[f"{name}_short"].risk.values)
        for name in TARGETS
    }
    early = max(float(np.max(gap[SHORT <= EARLY])) for gap in gaps.values())
    left = float(data["plus_sgd"].latent_risk.mean("replica")[-1])
    tied = max(float(np.max(np.abs(u[n][..., 0] - u[n][..., 1]))) for n in TARGETS)
    return [
        Check(
            "all three are merged staircases with symmetries",
            all(s.merged_staircase and s.degenerate for s in shapes.values()),
            ", ".join(f"{TARGETS[n]}: leap {s.leap}, floor {s.floor:.3g}" for n, s in shapes.items()),
        ),
        Check("tied variables have equal weights at every time", tied == 0, f"largest difference {tied:.0e}"),
        Check(
            "the floor holds at every time and is nearly reached",
            bool(np.all(data["floor"].risk.values >= floor - 1e-12)) and end["floor"] < 1.2 * floor,
            f"risk {end['floor']:.4f} at t = {TIMES[-1]:g}, floor {floor:.4f}",
        ),
        Check(
            "no penalty of layer-wise training goes below the floor",
            bool(np.all(ridge["floor"] >= floor - 1e-9)),
            f"least risk {ridge['floor'].min():.4f}",
        ),
        Check(
            "z1 + z2 + z3 + z1z2z3 has floor 0, and training both layers is stuck near risk 1/2",
            shapes["plus"].floor < 1e-12 and end["plus"] > 0.45,
            f"risk {end['plus']:.4f}; the coefficient of z1z2z3 goes to {top.min():.3f} and ends at {top[-1]:.3f}",
        ),
        Check(
            "the same target with the sign of z1z2z3 flipped is learned",
            end["minus"] < 1e-3,
            f"risk {end['minus']:.1e} at t = {TIMES[-1]:g}",
        ),
        Check(
            "layer-wise training learns it with either sign, the better the smaller its penalty",
            all(bool(np.all(np.diff(ridge[n]) < 0)) and ridge[n][-1] < 1e-6 for n in ("plus", "minus")),
            "; ".join(f"{TARGETS[n]}: {ridge[n][0]:.1e} down to {ridge[n][-1]:.1e}" for n in ("plus", "minus")),
        ),
        Check(
            f"SGD at d = {D} follows the limit up to t = {EARLY:g}, and to the end where nothing is degenerate",
            early < NEAR and float(np.max(gaps["minus"])) < NEAR,
            f"largest difference of risk {early:.3f}, {float(np.max(gaps['minus'])):.3f}",
        ),
        Check(
            "later it leaves the saddle: at finite d its start is not symmetric",
            left < 0.1 * float(data["plus_short"].risk[-1]),
            f"risk {left:.4f} of SGD at t = {SHORT[-1]:g}, {float(data['plus_short'].risk[-1]):.3f} in the limit",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    for (name, text), colour in zip(TARGETS.items(), palette, strict=False):
        label = "$" + text.replace("*", " ").replace("z", "z_") + "$"
        left.plot(TIMES[1:], data[name].risk[1:], color=colour, lw=1.8, label=label)
        sgd = data[f"{name}_sgd"]
        mean, error = average(sgd.latent_risk.transpose("replica", "time").values)
        left.errorbar(SHORT[1:], mean[1:], None if error is None else error[1:], fmt="o", color=colour, ms=4)
        right.plot(PENALTIES, _ridge(data, name), "o-", color=colour, lw=1.2, ms=4)
    floor = ll.staircase(TARGETS["floor"]).floor
    for axes in (left, right):
        axes.axhline(floor, color=palette[2], ls=":", lw=1.2)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(1e-9 if axes is right else 1e-5, 4)
    left.errorbar([], [], [], fmt="o", color="0.3", ms=4, label=f"SGD, d = p = {D}, {REPLICAS} runs (latent part)")
    left.plot([], [], color=palette[2], ls=":", lw=1.2, label="floor of the third target, d → ∞")
    left.text(
        0.12, 1e-4, "at d = 100 no start\nis symmetric, and SGD\nleaves trap and floor", fontsize="small", color="0.35"
    )
    left.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    style_axes(left, x="time t = γ·step/(p·d)", y="risk (half the mean square error)", title="Both layers together")
    style_axes(
        right, x="ridge penalty of the second layer", y="risk", title=f"First layer to t = {SWITCH:g}, then ridge"
    )
    fig.suptitle("Symmetric staircases: a floor, a trap, and a twin without it (dimension-free flow, tanh(x + 1/2))")
    return fig


ENTRY = Entry(
    name="degenerate",
    title="Symmetries that stop the climb, and one that does not",
    claim="z1 + z2 + z1z3 + z2z4 has a floor; z1 + z2 + z3 + z1z2z3 has none but traps joint training; with the sign "
    "flipped, or layer by layer, it is learned. SGD at d = 100 leaves the trap after a while.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=45,
    quick=Quick({"REPLICAS": 2, "PENALTIES": (1e-2, 1e-6, 1e-10)}, seconds=20),
)
