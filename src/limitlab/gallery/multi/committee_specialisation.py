r"""When do the units of a committee become different? Two signs with a tie of their own, or by a coin; three; many.

Labels are sign(sign z1 + sign z2), a tie being a third label. Below alpha = 2.0524 the best estimator knows the sum of
the two directions only; above, it tells them apart, continuously. If ties are tossed by a coin, that takes 7.155. With
the sum of three signs the change is of first order: alike units are stable up to 5.018, and well below it there is
another state, far away, that is the better one. The sum of K signs needs about 0.571 K^2 samples per weight, their
majority 3.27 K^2.
"""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, Panel, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY"]

RATIOS = np.array([1.0, 1.4, 1.8, 2.0, 2.05, 2.1, 2.2, 2.4, 2.7, 3.0, 3.4])
RUNS = (1.5, 2.7, 3.4)
D, REPLICAS, ITERATIONS = 1000, 16, 100
START = ll.InformedStart(0.3)  # from small random columns some runs of this size end elsewhere
WIDTHS = np.array([3, 5, 7, 9, 11, 15, 21])
THREE = np.array([4.7, 4.8, 4.9])  # sample ratios of the sum of three signs
POWERS = (1.5, 2.0, 2.5)  # of K
APART = 0.05  # of the overlap along differences: units that are not alike


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
    data["three"] = _three(progress)
    for i, alpha in enumerate(RUNS):
        data[f"gamp_{i}"] = ll.simulate(problem(alpha), D, replicas=REPLICAS, seed=i, progress=progress)
        data[f"evolution_{i}"] = ll.predict(problem(alpha), ll.StateEvolution())
    return data


def _three(progress: Progress | None) -> "xr.Dataset":
    """Both states of the sum of three signs: overlap along differences, free entropy; the one there is, if but one."""
    one = ll.Problem(teacher=ll.MultiIndex(3, "sign_sum"), sample_ratio=float(THREE[0]))
    apart, entropy = (np.zeros((2, len(THREE))) for _ in range(2))
    for i, alpha in enumerate(THREE):
        best = ll.predict(dataclasses.replace(one, sample_ratio=float(alpha)), ll.BayesOptimal())
        M = best.M_branch.values
        away = np.trace(M, axis1=1, axis2=2) / 3 - (M.sum(axis=(1, 2)) - np.trace(M, axis1=1, axis2=2)) / 6
        last = int(np.argmax(away)) if np.max(away) > APART else 0
        for k, j in enumerate((0, last)):
            apart[k, i], entropy[k, i] = away[j], best.free_entropy_branch[j]
        if progress is not None:
            progress(i + 1, len(THREE), f"three units, alpha = {alpha:g}")
    axes = ("kind", "sample_ratio")
    return ll.analysis.dataset(
        one,
        {"apart": (axes, apart), "free_entropy": (axes, entropy)},
        {"kind": ["alike", "specialised"], "sample_ratio": THREE},
        method="BayesOptimal",
        reference=ll.BayesOptimal.matrix_reference,
    )


def growth(widths: np.ndarray, needed: np.ndarray, power: float) -> tuple[float, float]:
    """The limit of needed/K^power by a parabola in 1/K, and the largest relative distance from it."""
    seen = needed / widths**power
    fit = np.polyfit(1 / widths, seen, 2)
    return float(fit[-1]), float(np.max(np.abs(np.polyval(fit, 1 / widths) / seen - 1)))


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    both = [ll.thresholds(ll.MultiIndex(2, "majority", ties=ties)).specialisation for ties in ("zero", "coin")]
    zero, coin = (float(one or 0.0) for one in both)
    apart = data["zero"].different.values
    below, above = apart[zero > RATIOS], apart[zero < RATIOS]
    wide, K = data["wide"], WIDTHS.astype(float)
    limits = {name: growth(K[2:], wide[name].values[2:], 2.0)[0] for name in ("sum", "majority")}
    misfits = {name: [growth(K, wide[name].values, power)[1] for power in POWERS] for name in limits}
    three, last = data["three"], float(wide["sum"][0])
    jump, lead = three.apart.sel(kind="specialised").values, np.diff(three.free_entropy.values, axis=0)[0]
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
            "both grow like K^2: other powers fit at least five times worse",
            all(5 * two < min(less, more) for less, two, more in misfits.values()),
            "; ".join(
                f"{name} {', '.join(f'K^{p:g}: {x:.0e}' for p, x in zip(POWERS, each, strict=True))}"
                for name, each in misfits.items()
            ),
        ),
        Check(
            "three units, sum of signs: first order; far from alike units, which are stable, there is a better state",
            bool(
                np.all(THREE < last)
                and np.all(three.apart.sel(kind="alike").values < 1e-3)
                and jump[0] < APART
                and np.all(jump[1:] > 0.3)
                and np.all(lead[1:] > 0)
            ),
            f"alike units are stable up to {last:.4f}; "
            + ", ".join(
                f"alpha = {a:g}: {f'{m:.3f}, free entropy {f:+.4f}' if m > APART else 'none'}"
                for a, m, f in zip(THREE, jump, lead, strict=True)
            ),
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
    fig, (left, middle, right) = new_figure(3, width=4.9, height=4.2)
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
    _draw_three(middle, data)
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


def _draw_three(axes: Panel, data: "dict[str, xr.Dataset]") -> None:
    three, last = data["three"], float(data["wide"]["sum"][0])
    axes.plot([THREE[0] - 0.1, last], [0, 0], color=palette[0], lw=2, label="units alike: stable")
    axes.plot([last, last + 0.2], [0, 0], ":", color=palette[0], lw=2, label=f"unstable from {last:.3f} on")
    jump = three.apart.sel(kind="specialised").values
    there = jump > APART
    axes.plot(THREE[there], jump[there], "o-", color=palette[1], label="units different")
    for alpha, m, f in zip(THREE, jump, np.diff(three.free_entropy.values, axis=0)[0], strict=True):
        if m > APART:
            axes.text(alpha + 0.01, m - 0.07, f"better by {f:.4f}", fontsize="small", color=palette[1])
    axes.axvline(last, color="0.6", lw=1)
    axes.set(xlim=(THREE[0] - 0.1, last + 0.2), ylim=(-0.05, 1.0))
    axes.legend(fontsize="small", frameon=False, loc="upper left")
    style_axes(axes, x="samples per weight α = n/d", y="overlap along differences, M₁₁ − M₁₂")
    axes.set_title("Three units, sum of signs: at once", fontsize="medium", loc="left")


ENTRY = Entry(
    name="committee-specialisation",
    title="Committees: when their units become different",
    claim="Two units with a third label for ties are told apart continuously from 2.0524 samples per weight on, with a "
    "coin from 7.155, three units at once; sums of K signs need 0.571 K^2 and majorities 3.27 K^2; message passing "
    "agrees.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=115,
    quick=Quick(
        {
            "D": 250,
            "REPLICAS": 4,
            "RUNS": (1.5, 2.7),
            "RATIOS": np.array([1.4, 2.05, 2.1, 2.4, 3.4]),
            "THREE": np.array([4.7, 4.9]),
        },
        seconds=50,
        full=("message passing from an overlap", "it stays specialised"),
    ),
)
