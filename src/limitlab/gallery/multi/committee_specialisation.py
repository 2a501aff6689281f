r"""When do the units of a committee become different? Two signs with a tie of their own, or by a coin; many signs.

Labels are sign(sign z1 + sign z2), a tie being a third label. Below alpha = 2.0524 the best estimator knows the sum of
the two directions only; above, it tells them apart, continuously. If ties are tossed by a coin, that takes 7.155. The
sum of K signs needs about 0.571 K^2 samples per weight, their majority 3.27 K^2.
"""

from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

RATIOS = np.array([1.0, 1.4, 1.8, 2.0, 2.05, 2.1, 2.2, 2.4, 2.7, 3.0, 3.4])
RUNS = (1.5, 2.7, 3.4)
D, REPLICAS, ITERATIONS = 1000, 8, 100
START = ll.InformedStart(0.3)  # from small random columns some runs of this size end elsewhere
WIDTHS = np.array([3, 5, 7, 9, 11, 15, 21])


def problem(alpha: float, ties: str = "zero") -> ll.Problem:
    teacher = ll.MultiIndex(2, "majority", ties=ties)
    return ll.Problem(teacher=teacher, sample_ratio=alpha, start=START, algorithm=ll.GAMP(iterations=ITERATIONS))


def problems() -> dict[str, ll.Problem]:
    return {f"committee of two, alpha = {alpha:g}": problem(alpha) for alpha in RUNS}


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {}
    for ties in ("zero", "coin"):
        best = [ll.predict(problem(alpha, ties), ll.BayesOptimal()) for alpha in RATIOS]
        data[ties] = ll.analysis.dataset(
            problem(1.0, ties),
            {
                "alike": ("sample_ratio", [float(ds.M_eigenvalues[0]) for ds in best]),
                "different": ("sample_ratio", [float(ds.M_eigenvalues[1]) for ds in best]),
            },
            {"sample_ratio": RATIOS},
            method="BayesOptimal",
            reference=ll.BayesOptimal.matrix_reference,
        )
        if progress is not None:
            progress(len(data), 2, f"ties: {ties}")
    wide = {"sum": [ll.MultiIndex(int(K), "sign_sum") for K in WIDTHS]}
    wide["majority"] = [ll.MultiIndex(int(K), "majority") for K in WIDTHS]
    data["wide"] = ll.analysis.dataset(
        problem(1.0),
        {name: ("width", [ll.thresholds(one).specialisation for one in many]) for name, many in wide.items()},
        {"width": WIDTHS},
        method="thresholds",
        reference=ll.BayesOptimal.matrix_reference,
    )
    for i, alpha in enumerate(RUNS):
        data[f"gamp_{i}"] = ll.simulate(problem(alpha), D, replicas=REPLICAS, seed=i, progress=progress)
        data[f"evolution_{i}"] = ll.predict(problem(alpha), ll.StateEvolution())
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    both = [ll.thresholds(ll.MultiIndex(2, "majority", ties=ties)).specialisation for ties in ("zero", "coin")]
    zero, coin = (float(one or 0.0) for one in both)
    apart = data["zero"].different.values
    below, above = apart[zero > RATIOS], apart[zero < RATIOS]
    wide, K = data["wide"], WIDTHS.astype(float)
    limits = {}
    for name, many in (("sum", wide["sum"].values), ("majority", wide["majority"].values)):
        limits[name] = float(np.polyfit(1 / K[2:], many[2:] / K[2:] ** 2, 2)[-1])
    early, late = ([_score(data, i, at) for i in range(len(RUNS))] for at in (5, -1))
    told = [float(_apart(data[f"evolution_{i}"].M.values[-1])) for i in range(len(RUNS))]
    return [
        Check("with a label for ties two units specialise at 2.05238", abs(zero - 2.05238) < 1e-5, f"{zero:.6f}"),
        Check("with a coin for ties at 7.15501", abs(coin - 7.15501) < 2e-5, f"{coin:.6f}"),
        Check(
            "the transition is continuous: nothing below, little just above",
            bool(np.all(below < 1e-6) and 0 < above[0] < 0.12 and np.all(np.diff(above) > 0)),
            f"{below.max():.1e} below, then {above[0]:.3f} to {above[-1]:.3f}",
        ),
        Check(
            "with a coin nothing is told apart in this range",
            bool(np.all(data["coin"].different.values < 1e-6)),
            f"at most {data['coin'].different.values.max():.1e}",
        ),
        Check(
            "sums of K signs need 0.571 K^2, majorities 3.27 K^2",
            abs(limits["sum"] - (np.pi / 2 - 1)) < 0.01 and abs(limits["majority"] - 3.26999) < 0.05,
            f"{limits['sum']:.4f} and {limits['majority']:.4f} for many",
        ),
        Check(
            "message passing from an overlap of 0.3 follows state evolution",
            max(early) < 4,
            f"|z| {', '.join(f'{z:.2f}' for z in early)} after 5 iterations",
        ),
        Check(
            "it stays specialised above the threshold only",
            told[0] < 1e-3 and min(told[1:]) > 0.2 and max(late) < 4,
            f"{', '.join(f'{m:.3f}' for m in told)}; |z| {', '.join(f'{z:.2f}' for z in late)} at the end",
        ),
    ]


def _apart(M: np.ndarray) -> np.ndarray:
    """The overlap along the difference of both directions, (z1 - z2)/sqrt(2): linear in M."""
    return (M[..., 0, 0] + M[..., 1, 1] - M[..., 0, 1] - M[..., 1, 0]) / 2


def _score(data: "dict[str, xr.Dataset]", i: int, at: int) -> float:
    """The largest |z| of the overlaps along sum and difference at an iteration."""
    runs, theory = data[f"gamp_{i}"].M.values[at], data[f"evolution_{i}"].M.values[at]
    both = [(_apart(M), M[..., 0, 0] + M[..., 1, 1] - _apart(M)) for M in (runs, theory)]
    return max(abs(a.mean() - b) / (a.std(ddof=1) / np.sqrt(REPLICAS)) for a, b in zip(*both, strict=True))


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.2, height=4.2)
    zero = data["zero"]
    left.plot(RATIOS, zero.alike.values, color=palette[0], label="sum of the two, tie = third label")
    left.plot(RATIOS, zero.different.values, color=palette[1], label="difference, tie = third label")
    left.plot(RATIOS, data["coin"].alike.values, "--", color=palette[0], label="sum, tie by a coin")
    left.plot(RATIOS, data["coin"].different.values, "--", color=palette[1], label="difference, tie by a coin")
    for i, alpha in enumerate(RUNS):
        M = data[f"gamp_{i}"].M.values[-1]
        for k, values in enumerate((np.trace(M, axis1=1, axis2=2) - _apart(M), _apart(M))):
            error = values.std(ddof=1) / np.sqrt(REPLICAS)
            left.errorbar([alpha], [values.mean()], [error], fmt="o", ms=5, color=palette[k], capsize=2)
    left.plot([], [], "o", color="0.4", label=f"message passing from 0.3, d = {D}, {REPLICAS} runs")
    left.legend(fontsize="small", frameon=False, loc="upper left")
    left.set_ylim(-0.05, 1.45)
    style_axes(left, x="samples per weight α = n/d", y="overlap with the teacher")
    left.set_title("Two units: told apart from 2.0524 on", fontsize="medium", loc="left")
    wide = data["wide"]
    for k, (name, limit) in enumerate((("sum", np.pi / 2 - 1), ("majority", 3.26999))):
        right.plot(WIDTHS, wide[name].values, "o-", color=palette[2 + k], label=f"{name} of K signs")
        right.plot(WIDTHS, limit * WIDTHS**2, ":", color=palette[2 + k], label=f"{limit:.3g} K²")
    right.set_xscale("log")
    right.set_yscale("log")
    right.legend(fontsize="small", frameon=False)
    style_axes(right, x="width K", y="α where units specialise")
    right.set_title("Many units: like K²", fontsize="medium", loc="left")
    fig.suptitle("When the units of a committee become different")
    return fig


ENTRY = Entry(
    name="committee-specialisation",
    title="Committees: when their units become different",
    claim="Two units with a third label for ties are told apart continuously from 2.0524 samples per weight on, with a "
    "coin from 7.155; sums of K signs need 0.571 K^2 and majorities 3.27 K^2; message passing agrees.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=60,
    quick=Quick({"D": 500, "REPLICAS": 4, "RUNS": (1.5, 2.7)}, seconds=40),
)
