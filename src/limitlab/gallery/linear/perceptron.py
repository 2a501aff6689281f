r"""Learning a perceptron: the best possible error, message passing, and convex fits with their best penalties.

Labels are y = sign(w*.x), inputs and teacher Gaussian. For many samples, alpha times the error tends to 0.4417 (best
possible), 0.442 (logistic with its best penalty), 0.488 (hinge with its best penalty), 0.500 (max margin), while ridge
falls only like 0.24/sqrt(alpha).
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import CubicSpline

import limitlab as ll
from limitlab.gallery.entry import Check, Entry, Progress, Quick
from limitlab.gallery.figures import Drawing, new_figure, palette, style_axes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENTRY", "problems"]

RATIOS = np.geomspace(0.2, 100, 61)
KNOTS = RATIOS[::10]  # best penalties are found here; in between they are smooth, and the error is flat in them
BETWEEN = RATIOS[35]
LOSSES: dict[str, Any] = {"ridge": ll.SquareLoss(), "hinge": ll.HingeLoss(), "logistic": ll.LogisticLoss()}
CONSTANTS = {"bayes": 0.44170, "logistic": 0.44198, "hinge": 0.4877, "margin": 0.50049}
RUNS = (0.5, 2.0, 6.0)
D, REPLICAS = 300, 64
GAMP_D = 1000


def problem(alpha: float, loss: Any = None, penalty: float = 1.0) -> ll.Problem:
    rule = ll.GAMP(iterations=25) if loss is None else ll.ERM(penalty)
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=alpha, loss=loss, algorithm=rule
    )


def problems() -> dict[str, ll.Problem]:
    return {f"perceptron, alpha = {alpha:g}": problem(alpha) for alpha in RUNS}


def compute(progress: Progress | None) -> "dict[str, xr.Dataset]":
    data = {
        "bayes": ll.sweep(ll.predict, problem(1.0), {"sample_ratio": RATIOS}, limit=ll.BayesOptimal()),
        "margin": ll.sweep(
            ll.predict, problem(1.0, ll.MaxMargin(), 0.0), {"sample_ratio": RATIOS}, limit=ll.ERMAsymptotics()
        ),
    }
    for name, loss in LOSSES.items():
        found = []
        for i, alpha in enumerate(KNOTS):
            found.append(ll.optimal_penalty(problem(alpha, loss)).penalty)
            if progress is not None:
                progress(i + 1, len(KNOTS), f"best penalties of {name}")
        best = np.exp(CubicSpline(np.log(KNOTS), np.log(found))(np.log(RATIOS)))
        errors = [
            float(ll.predict(problem(alpha, loss, penalty), ll.ERMAsymptotics()).generalisation_error)
            for alpha, penalty in zip(RATIOS, best, strict=True)
        ]
        data[name] = ll.analysis.dataset(
            problem(1.0, loss),
            {
                "generalisation_error": (("sample_ratio",), errors),
                "best_penalty": (("sample_ratio",), best),
            },
            {"sample_ratio": RATIOS},
            method="ERMAsymptotics",
            reference=ll.ERMAsymptotics.reference,
        )
    for i, alpha in enumerate(RUNS):
        data[f"gamp_{i}"] = ll.simulate(problem(alpha), GAMP_D, replicas=REPLICAS, seed=i, progress=progress)
        data[f"evolution_{i}"] = ll.predict(problem(alpha), ll.StateEvolution())
        for name, loss in LOSSES.items():
            fit = problem(alpha, loss, ll.optimal_penalty(problem(alpha, loss)).penalty)
            data[f"{name}_fit_{i}"] = ll.simulate(fit, D, replicas=REPLICAS, seed=10 + i, progress=progress)
            data[f"{name}_limit_{i}"] = ll.predict(fit, ll.ERMAsymptotics())
    return data


def check(data: "dict[str, xr.Dataset]") -> list[Check]:
    checks = []
    last = float(RATIOS[-1])
    for name, constant in CONSTANTS.items():
        scaled = last * float(data[name].generalisation_error[-1])
        checks.append(
            Check(
                f"{name}: alpha times the error tends to {constant:g}",
                abs(scaled / constant - 1) < 2e-3,
                f"{scaled:.5f} at alpha = {last:g}",
            )
        )
    ridge = np.sqrt(last) * float(data["ridge"].generalisation_error[-1])
    checks.append(Check("ridge falls like 0.2405/sqrt(alpha)", abs(ridge / 0.24049 - 1) < 1e-2, f"{ridge:.5f}"))
    bayes = data["bayes"].generalisation_error.values
    gaps = {name: data[name].generalisation_error.values - bayes for name in (*LOSSES, "margin")}
    checks.append(
        Check(
            "nothing beats the best possible error",
            all(bool(np.all(gap > -1e-9)) for gap in gaps.values()),
            ", ".join(f"{name} +{gap.min():.1e}" for name, gap in gaps.items()),
        )
    )
    worst = float(np.max(gaps["logistic"] / bayes))
    checks.append(
        Check(
            "logistic with its best penalty is within 0.1 % of it, but above", 0 < worst < 1e-3, f"at most {worst:.2%}"
        )
    )
    loss = "logistic"
    least = ll.optimal_penalty(problem(float(BETWEEN), LOSSES[loss])).generalisation_error
    drawn = float(data[loss].generalisation_error.sel(sample_ratio=BETWEEN))
    checks.append(
        Check(
            "between the ratios at which the best penalty was looked for, the curve is as low as it can be",
            abs(drawn / least - 1) < 1e-6,
            f"{loss} at alpha = {BETWEEN:.3g}: {drawn / least - 1:.0e} above",
        )
    )
    for i, alpha in enumerate(RUNS):
        pairs = [("GAMP", f"gamp_{i}", f"evolution_{i}")]
        pairs += [(name, f"{name}_fit_{i}", f"{name}_limit_{i}") for name in LOSSES]
        for name, sim, limit in pairs:
            gap = ll.compare(data[sim], data[limit])
            checks.append(
                Check(f"{name} at alpha = {alpha:g} agrees with its limit", gap.agrees, f"|z| {gap.max_z:.2f}")
            )
    return checks


def figure(data: "dict[str, xr.Dataset]") -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    styles = {
        "bayes": (palette[0], "best possible = message passing"),
        "ridge": (palette[2], "ridge, best penalty"),
        "margin": (palette[3], "max margin"),
        "hinge": (palette[4], "hinge, best penalty"),
        "logistic": (palette[1], "logistic, best penalty"),
    }
    bayes = data["bayes"].generalisation_error
    for name, (colour, label) in styles.items():
        ds = data[name]
        left.plot(ds.sample_ratio, ds.generalisation_error, color=colour, lw=3 if name == "bayes" else 1.5, label=label)
        if name != "bayes":
            right.plot(ds.sample_ratio, 100 * (ds.generalisation_error.values / bayes - 1), color=colour)
    for i, alpha in enumerate(RUNS):
        for name in ("bayes", *LOSSES):
            ds = data[f"gamp_{i}"].isel(iteration=-1) if name == "bayes" else data[f"{name}_fit_{i}"]
            e = ds.generalisation_error
            error = float(e.std(ddof=1)) / np.sqrt(e.size)
            left.errorbar(alpha, float(e.mean()), error, fmt="o", ms=4, color=styles[name][0], capsize=2)
    left.plot([], [], "o", color="0.4", label=f"runs, d = {D} and {GAMP_D}, {REPLICAS} each")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
    left.legend(fontsize="small", frameon=False)
    style_axes(left, x="samples per weight α = n/d", y="probability of a wrong label")
    style_axes(right, x="samples per weight α = n/d", y="more errors than the best possible, in per cent")
    right.set_title("What each fit loses", fontsize="medium", loc="left")
    fig.suptitle("Learning a perceptron: a good penalty makes logistic regression almost optimal")
    return fig


ENTRY = Entry(
    name="perceptron",
    title="The perceptron: best possible error, message passing, and convex fits",
    claim="Logistic regression with the best penalty is within 0.1 % of the best possible error, hinge has the same "
    "rate 1/alpha with a worse constant, ridge the worse rate 1/sqrt(alpha); runs agree with their limits.",
    compute=compute,
    check=check,
    figure=figure,
    seconds=120,
    quick=Quick({"RATIOS": RATIOS[::4], "BETWEEN": RATIOS[36], "RUNS": (2.0,), "REPLICAS": 16}, seconds=40),
)
