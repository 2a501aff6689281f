r"""The grand staircase: what is learned makes something else learnable.

y = z1^2 + sign(z1 z2 z3). The first direction is found above 0.5752 samples per weight; the product of three signs is
hard by itself, at any number of samples proportional to d, but once z1 is known it is a product of two, found above
pi^2/4. Noise moves both stages.

Runs of finite size are not shown. Message passing needs noise on these labels, and state evolution of three directions
with noisy real labels takes minutes, so that nothing cheap says where a run should be, iteration by iteration; from a
small random start three of six runs found z1 at alpha = 2 in the iterations they had, which tests the start (growth
from 1/sqrt(d)), not the stages. `committee-specialisation` has runs beside the theory.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

TEACHER = ll.MultiIndex(3, "z1^2 + sign(z1*z2*z3)")
NOISES = np.array([0.05, 0.1, 0.2, 0.4])
LINKS = {
    "z1 + z1 z2": ll.MultiIndex(2, "z1 + z1*z2"),
    "z1 z2": ll.MultiIndex(2, "product"),
    "sign(z1 z2)": ll.MultiIndex(2, "parity"),
    "sign(z1) + sign(z1 z2 z3)": ll.MultiIndex(3, "sign(z1) + sign(z1*z2*z3)"),
    "z1² + sign(z1 z2 z3)": TEACHER,
    "sign(z1 z2 z3)": ll.MultiIndex(3, "parity"),
}


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    problem, first, last = ll.Problem(teacher=TEACHER), [], []
    for i, teacher in enumerate(LINKS.values()):
        stages = ll.thresholds(teacher).stages
        first.append(stages[0].alpha if stages[0].kind != "hard" else np.inf)
        last.append(stages[-1].alpha)
        if progress is not None:
            progress(i + 1, len(LINKS) + len(NOISES), "links")
    moved = []
    for i, noise in enumerate(NOISES):
        moved.append([stage.alpha for stage in ll.thresholds(TEACHER, ll.GaussianNoise(float(noise))).stages])
        if progress is not None:
            progress(len(LINKS) + i + 1, len(LINKS) + len(NOISES), "noise")
    method, reference = "thresholds", "troiani2024fundamental"
    return {
        "links": ll.analysis.dataset(
            problem,
            {"first": ("link", first), "last": ("link", last)},
            {"link": list(LINKS)},
            method=method,
            reference=reference,
        ),
        "noise": ll.analysis.dataset(
            problem,
            {"first": ("variance", [m[0] for m in moved]), "last": ("variance", [m[-1] for m in moved])},
            {"variance": NOISES},
            method=method,
            reference=reference,
        ),
    }


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    links, noise = data["links"], data["noise"]

    def at(name, stage):
        return float(links[stage].sel(link=name))

    stairs = "z1² + sign(z1 z2 z3)"
    return [
        Check("z1 is found above 0.57517", abs(at(stairs, "first") - 0.575166) < 5e-5, f"{at(stairs, 'first'):.6f}"),
        Check(
            "then z2 and z3 above pi^2/4", abs(at(stairs, "last") - np.pi**2 / 4) < 5e-5, f"{at(stairs, 'last'):.6f}"
        ),
        Check("alone, three signs are hard", at("sign(z1 z2 z3)", "first") == np.inf, "never with O(d) samples"),
        Check(
            "two signs are found above pi^2/4, the product of two fields above 0.593751",
            abs(at("sign(z1 z2)", "last") - np.pi**2 / 4) < 1e-9 and abs(at("z1 z2", "last") - 0.593751) < 1e-6,
            f"{at('sign(z1 z2)', 'last'):.6f}, {at('z1 z2', 'last'):.6f}",
        ),
        Check("z1 + z1 z2 has both at once: E[z|y] counts, not E[y z]", at("z1 + z1 z2", "last") == 0, "trivial"),
        Check(
            "noise makes both stages later",
            bool(np.all(np.diff(noise["first"]) > 0) and np.all(np.diff(noise["last"]) > 0)),
            f"{float(noise['first'][0]):.3f} to {float(noise['first'][-1]):.3f}, {float(noise['last'][0]):.3f} to "
            f"{float(noise['last'][-1]):.3f}",
        ),
    ]


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    top = 4.0
    for k, name in enumerate(LINKS):
        first, last = (float(data["links"][stage].sel(link=name)) for stage in ("first", "last"))
        reached = [alpha for alpha in (first, last) if np.isfinite(alpha)]
        steps = [0.0] + [alpha for alpha in reached for _ in range(2)] + [top]
        heights = [0.0, 0.0] + ([0.35, 0.35, 0.7, 0.7] if len(reached) == 2 else [])
        left.plot(steps, [k + h for h in heights[: len(steps)]], color=palette[k % len(palette)], label=name)
    left.legend(fontsize="small", frameon=False, loc="upper right")
    left.set_xlim(-0.08, top)
    left.set_ylim(-0.3, len(LINKS) + 2.6)
    left.set_yticks([])
    style_axes(left, x="samples per weight α = n/d", y="what is found: a line rises by a stage")
    left.set_title("Stages of six links", fontsize="medium", loc="left")
    x = data["noise"].variance.values
    right.plot(x, data["noise"]["last"].values, "o-", color=palette[1], label="z2 and z3, given z1")
    right.plot(x, data["noise"]["first"].values, "o-", color=palette[0], label="z1")
    right.legend(fontsize="small", frameon=False)
    style_axes(right, x="variance of the noise", y="α where it is found")
    right.set_title("z1² + sign(z1 z2 z3) with noise", fontsize="medium", loc="left")
    fig.suptitle("The grand staircase: what is learned makes something else learnable")
    return fig


ENTRY = Entry(
    name="grand-staircase",
    title="The grand staircase of z1^2 + sign(z1 z2 z3)",
    claim="z1 is found above 0.5752 samples per weight, then z2 and z3 above pi^2/4, although the sign of the product "
    "of three fields is hard by itself; noise makes both stages later.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=80,
    quick=Quick({"NOISES": np.array([0.1, 0.4])}, seconds=50),
)
