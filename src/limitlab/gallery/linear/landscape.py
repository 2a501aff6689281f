r"""The free-entropy landscape of phase retrieval below, inside and above its hard phase.

.. math:: f(m) = \inf_A \Phi_w(A) + \alpha \Phi_{out}(m) - \tfrac12 m A, \qquad y = |z|,\ w \sim N(0, 1)

Message passing climbs from m = 0 to the first maximum; the best estimator sits at the highest. In the hard phase these
are two different maxima.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

RATIOS = {"impossible": 0.9, "hard": 1.07, "easy": 1.2}
OVERLAPS = np.concatenate([np.linspace(0, 0.99, 100), 1 - np.geomspace(9e-3, 1e-6, 40)])


def problem(phase: str) -> ll.Problem:
    return ll.Problem(teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Modulus(), sample_ratio=RATIOS[phase])


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {}
    for i, phase in enumerate(RATIOS):
        data[phase] = ll.free_entropy(problem(phase), OVERLAPS)
        data[f"{phase}_iterations"] = ll.predict(problem(phase), ll.StateEvolution(start=0.02, iterations=300))
        if progress is not None:
            progress(i + 1, len(RATIOS), "landscapes")
    return data


def _maxima(ds: "xr.Dataset") -> list[float]:
    f = ds.free_entropy.values
    inner = np.nonzero((f[1:-1] > f[:-2]) & (f[1:-1] > f[2:]))[0] + 1
    ends = [len(f) - 1] if f[-1] > f[-2] else []
    return [float(ds.overlap[i]) for i in [*inner, *ends]]


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    t = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    assert t.information is not None and t.algorithmic is not None
    checks = [
        Check(
            "the three sample ratios lie in the three phases",
            RATIOS["impossible"] < t.information < RATIOS["hard"] < t.algorithmic < RATIOS["easy"],
            f"information {t.information:.5f}, algorithmic {t.algorithmic:.5f}",
        )
    ]
    for phase, shape in (("impossible", (1, False)), ("hard", (2, True)), ("easy", (1, True))):
        found = _maxima(data[phase])
        right = (len(found), bool(found and found[-1] > 0.999)) == shape
        text = ", ".join(f"{m:.4f}" for m in found)
        checks.append(Check(f"{phase}: {shape[0]} maxima, perfect recovery {shape[1]}", right, f"maxima at m = {text}"))
        end = float(data[f"{phase}_iterations"].m[-1])
        checks.append(
            Check(
                f"{phase}: message passing climbs to the first maximum",
                abs(end - found[0]) < 0.02 if found else False,
                f"it ends at m = {end:.4f}",
            )
        )
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, panels = new_figure(3, width=4.0, height=3.8)
    words = {
        "impossible": "one maximum: nobody does better",
        "hard": "message passing stops, the truth is higher",
        "easy": "uphill all the way to the truth",
    }
    for axes, (phase, alpha) in zip(panels, RATIOS.items(), strict=True):
        ds, path = data[phase], data[f"{phase}_iterations"].m.values
        f = ds.free_entropy.values
        axes.plot(ds.overlap, f, color=palette[0], label="free entropy f(m)")
        low, high = f[0], np.max(f[ds.overlap.values < 0.97])
        room = 0.35 * max(high - low, 0.01)
        axes.set_ylim(min(low, np.min(f[ds.overlap.values < 0.9])) - room / 2, high + room)
        steps = np.interp(path, ds.overlap.values, f)
        axes.plot(path[::2], steps[::2], "o", ms=3.5, color=palette[1], label="message passing, step by step")
        style_axes(axes, x="overlap m with the truth", y="free entropy per dimension")
        axes.set_title(f"α = {alpha:g}: {phase}\n{words[phase]}", fontsize="medium", loc="left")
    panels[0].legend(fontsize="small", frameon=False, loc="lower left")
    fig.suptitle("Phase retrieval, y = |z|: the landscape that decides what can be learned")
    return fig


ENTRY = Entry(
    name="landscape",
    title="The free-entropy landscape of phase retrieval",
    claim="Between alpha = 1 and 1.128 the landscape has two maxima: message passing stops at the lower one although "
    "perfect recovery has the larger free entropy; below there is only the first, above only the second.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=10,
)
