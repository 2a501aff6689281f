r"""The perceptron with binary weights: a first-order transition to perfect learning.

The labels are signs, the weights +-1. Perfect recovery has the free entropy -log 2 at every sample ratio (all other
sign patterns are ruled out, the right one had probability 2^-d), and it wins where the other branch falls below,

.. math:: f_{low}(\alpha_{IT}) = -\log 2, \qquad \alpha_{IT} = 1.2447

A value of 1.249 is often quoted for it; the condition above gives 1.2447, as Gyorgyi's first computation (1.245) did.
Message passing finds the truth only above the spinodal, 1.4926.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problems"]

RATIOS = np.linspace(0.2, 2.0, 181)
RUNS = (0.5, 1.0, 1.3, 1.8)
D, REPLICAS, ITERATIONS = 2000, 16, 40


def problem(alpha: float) -> ll.Problem:
    return ll.Problem(
        teacher=ll.SingleIndex(ll.RademacherPrior()),
        channel=ll.Sign(),
        sample_ratio=alpha,
        algorithm=ll.GAMP(iterations=ITERATIONS),
    )


def problems() -> dict[str, ll.Problem]:
    return {f"binary perceptron, alpha = {alpha:g}": problem(alpha) for alpha in RUNS}


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    line = ll.analysis.fixed_points(ll.RademacherPrior(), ll.Sign())
    keep = (line.A > 1e-3) & (line.A < 60)
    data = {
        "bayes": ll.sweep(ll.predict, problem(1.0), {"sample_ratio": RATIOS}, limit=ll.BayesOptimal()),
        "amp": ll.sweep(ll.predict, problem(1.0), {"sample_ratio": RATIOS}, limit=ll.StateEvolution(iterations=1)),
        "fixed_points": ll.analysis.dataset(
            problem(1.0),
            {
                "m": (("signal",), line.m[keep]),
                "free_entropy": (("signal",), line.free_entropy[keep]),
                "ratio": (("signal",), line.alpha[keep]),
            },
            {"signal": line.A[keep]},
            method="fixed points",
            reference="gyorgyi1990first",
        ),
    }
    for i, alpha in enumerate(RUNS):
        data[f"gamp_{i}"] = ll.simulate(problem(alpha), D, replicas=REPLICAS, seed=i, progress=progress)
        data[f"evolution_{i}"] = ll.predict(problem(alpha), ll.StateEvolution())
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    t = ll.thresholds(ll.RademacherPrior(), ll.Sign())
    assert t.information is not None and t.algorithmic is not None
    bayes, amp = data["bayes"], data["amp"]
    jump = float(bayes.sample_ratio[int(np.argmax(bayes.m.values > 0.999))])
    step = float(np.diff(RATIOS)[0])
    checks = [
        Check(
            "the information threshold is 1.2447, not 1.249",
            abs(t.information - 1.2447) < 1e-4,
            f"alpha_IT = {t.information:.6f} +- {t.accuracy['information']:.0e}",
        ),
        Check("message passing needs 1.4926", abs(t.algorithmic - 1.4926) < 1e-4, f"alpha_AMP = {t.algorithmic:.6f}"),
        Check(
            "the optimal overlap jumps to 1 at the information threshold",
            0 <= jump - t.information <= step,
            f"first perfect point of the curve at alpha = {jump:.3f}",
        ),
        Check(
            "in between, message passing is far from optimal",
            bool(np.all(amp.m_fixed.values[(RATIOS > t.information) & (RATIOS < t.algorithmic)] < 0.9)),
            f"largest overlap of message passing there {_largest(amp, t):.4f}",
        ),
    ]
    for i, alpha in enumerate(RUNS):
        gap = ll.compare(data[f"gamp_{i}"], data[f"evolution_{i}"])
        checks.append(
            Check(
                f"GAMP at d = {D}, alpha = {alpha:g} follows state evolution at every iteration",
                gap.agrees,
                f"largest |z| {gap.max_z:.2f}",
            )
        )
    return checks


def _largest(amp: "xr.Dataset", t) -> float:
    return float(np.max(amp.m_fixed.values[(t.information < RATIOS) & (t.algorithmic > RATIOS)]))


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    t = ll.thresholds(ll.RademacherPrior(), ll.Sign())
    assert t.information is not None and t.algorithmic is not None
    fig, (left, right) = new_figure(2, width=5.2, height=4.0)
    bayes, amp, line = data["bayes"], data["amp"], data["fixed_points"]
    left.plot(line["ratio"], line.m, ":", color="0.6", label="all fixed points")
    left.plot(bayes.sample_ratio, bayes.m, color=palette[0], label="best possible")
    left.plot(amp.sample_ratio, amp.m_fixed, "--", color=palette[1], label="message passing, limit")
    for i, alpha in enumerate(RUNS):
        m = data[f"gamp_{i}"].m.isel(iteration=-1)
        label = f"GAMP, d = {D}, {REPLICAS} runs" if i == 0 else None
        left.errorbar(
            alpha, m.mean(), m.std(ddof=1) / np.sqrt(m.size), fmt="o", color=palette[1], capsize=2, label=label
        )
    right.plot(line["ratio"], line.free_entropy, color=palette[0], label="fixed points with m < 1")
    right.axhline(-np.log(2), color=palette[2], label="perfect recovery, f = −log 2")
    right.set_xlim(0.8, 1.6)
    right.set_ylim(-0.80, -0.55)
    for axes in (left, right):
        for x, word in ((t.information, "possible"), (t.algorithmic, "easy")):
            axes.axvline(x, color="0.5", lw=0.8)
            height, side = (0.3, "right" if word == "possible" else "left") if axes is left else (-0.56, "left")
            axes.text(x, height, f" {word} \n {x:.4f} ", fontsize="small", color="0.35", va="top", ha=side)
        axes.legend(fontsize="small", frameon=False, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    style_axes(left, x="samples per weight α = n/d", y="overlap m with the truth")
    style_axes(right, x="samples per weight α = n/d", y="free entropy per weight")
    fig.suptitle("Binary perceptron: perfect learning is possible before it is easy")
    return fig


ENTRY = Entry(
    name="binary-perceptron",
    title="The first-order transition of the binary perceptron",
    claim="Perfect learning is possible from alpha = 1.2447 on, where the free entropy of the other branch falls below "
    "-log 2, but message passing finds it only from 1.4926 on.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=25,
    quick=Quick({"RATIOS": np.linspace(0.2, 2.0, 91), "D": 1000, "REPLICAS": 8}, seconds=12),
)
