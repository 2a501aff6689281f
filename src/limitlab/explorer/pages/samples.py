"""How few samples? A generalised linear model: the best estimator, message passing, empirical risk, and thresholds."""

import math
from typing import Any

import numpy as np

from limitlab.algorithms.gamp.gamp import GAMP
from limitlab.explorer.controls import Choice, FieldError, Number, Switch, runs_of, seed_of
from limitlab.explorer.description import Answers, Ask, Cost, Page, Remedy, Table, Values, Words
from limitlab.figures import Drawing, legend_below, new_figure, palette, style_axes
from limitlab.jobs.requests import Request
from limitlab.problems.channels import GaussianNoise, Modulus, Sign
from limitlab.problems.networks import SingleIndex
from limitlab.problems.priors import GaussBernoulliPrior, GaussianPrior, RademacherPrior
from limitlab.problems.problem import Problem
from limitlab.problems.starts import InformedStart

__all__ = ["PAGE"]

POINTS, FIT_POINTS = 60, 16
ROUGH = 13  # overlaps of the landscape while the hand moves, where one takes long
SHARES = np.concatenate([np.linspace(0.0, 0.97, 49), 1 - np.geomspace(0.02, 1e-4, 12)])  # overlaps of the landscape
ITERATIONS = 30
START = 0.1  # overlap from which message passing starts where the sign is lost
THRESHOLDS = (  # name, what it is called, on which side of its line, and how high
    ("weak_recovery", "weak\n recovery\n from", "left", 0.02),
    ("information", "possible from", "right", 0.3),
    ("algorithmic", "easy from", "left", 0.3),
)
WORK = 6e-9  # seconds per entry of the data and iteration

CONTROLS = (
    Choice(
        "prior",
        "what the weights are",
        "P(w)",
        "The law from which every true weight is drawn; the best estimator knows it.",
        "gaussian",
        "nature",
        options=(("gaussian", "any number (Gaussian)"), ("binary", "+1 or -1"), ("sparse", "mostly zero (sparse)")),
        more="glossary#prior",
    ),
    Number(
        "density",
        "share of weights that are not zero",
        "ρ",
        "Used for sparse weights only.",
        0.4,
        "nature",
        0.05,
        0.95,
        0.05,
        more="linear-models#parts",
    ),
    Choice(
        "channel",
        "what is seen of w·x",
        "y",
        "The label: the number itself, its sign, or its size without the sign.",
        "modulus",
        "nature",
        options=(("linear", "the number"), ("sign", "its sign"), ("modulus", "its size |w·x|")),
        more="glossary#channel",
    ),
    Number(
        "variance",
        "noise",
        "Δ",
        "Variance of what is added to w·x before the label is made.",
        0.0,
        "nature",
        0,
        0.5,
        0.01,
        more="glossary#channel",
    ),
    Number(
        "alpha",
        "samples per weight",
        "α = n/d",
        "Where the landscape is drawn, and where GAMP is run.",
        1.07,
        "learner",
        0.05,
        3,
        0.01,
        more="glossary#sample-ratio",
    ),
    Choice(
        "fit",
        "a fit beside it",
        "ŵ",
        "Empirical risk minimisation with a penalty, as in practice: ridge for numbers, logistic for signs.",
        "none",
        "learner",
        options=(("none", "none"), ("erm", "ridge or logistic")),
        more="linear-models#convex-fits",
    ),
    Number(
        "penalty",
        "penalty of the fit",
        "λ",
        "Weight of |w|²/2 in what the fit minimises.",
        0.1,
        "learner",
        0.001,
        10,
        log=True,
        more="linear-models#convex-fits",
    ),
    Number(
        "d",
        "dimension of runs",
        "d",
        "Weights of the problem that GAMP solves.",
        1000,
        "look",
        200,
        4000,
        100,
        whole=True,
        more="glossary#finite-size-rate",
    ),
    runs_of(16, 4, 64, 4, "Independent data sets; their median is shown, with quartiles as bars."),
    seed_of("data"),
    Switch("log", "logarithmic error", "log mse", "Shows small errors as well.", False, "look"),
)

PRIORS = {
    "gaussian": lambda v: GaussianPrior(),
    "binary": lambda v: RademacherPrior(),
    "sparse": lambda v: GaussBernoulliPrior(v["density"]),
}
CHANNELS = {"linear": GaussianNoise, "sign": Sign, "modulus": Modulus}
PARAMETER = {"gaussian": "teacher.prior.variance", "binary": "channel.variance", "sparse": "teacher.prior.density"}


FITS = {"linear": "SquareLoss", "sign": "LogisticLoss"}  # no convex fit is made of sizes without a sign


def _parameter(values: Values) -> float:
    """The value of the problem's `PARAMETER`: a diagram needs one, here with a single value."""
    return {"gaussian": 1.0, "binary": values["variance"], "sparse": values["density"]}[values["prior"]]


def _size(values: Values) -> float:
    """E w², the largest overlap."""
    return values["density"] if values["prior"] == "sparse" else 1.0


def _fitted(values: Values) -> bool:
    return values["fit"] == "erm" and values["channel"] in FITS


def problem(values: Values) -> Problem:
    if values["prior"] == "binary" and values["channel"] == "modulus":
        raise FieldError(
            "channel", "Weights of ±1 cannot be told from their negatives by sizes alone. Take the sign or the number."
        )
    return Problem(
        teacher=SingleIndex(PRIORS[values["prior"]](values)),
        channel=CHANNELS[values["channel"]](variance=values["variance"]),
        sample_ratio=values["alpha"],
        start=InformedStart(START) if values["channel"] == "modulus" else None,
        algorithm=GAMP(iterations=ITERATIONS),
    )


def ratios(values: Values) -> np.ndarray:
    """The sample ratios of the curves: they reach beyond the one that is chosen."""
    last = 1.2 if values["prior"] == "sparse" and values["channel"] == "linear" else 2.2
    return np.round(np.linspace(0.04, max(last, 3.0 if values["alpha"] > last else 0.0), POINTS), 4)


def _some(at: np.ndarray, count: int) -> list[float]:
    """A few of them, from the first to the last."""
    return at[np.linspace(0, len(at) - 1, count).round().astype(int)].tolist()


def asks(values: Values, table: Table) -> tuple[Ask, ...]:
    bare = {**{k: v for k, v in table.items() if k not in ("start", "algorithm")}, "sample_ratio": 1.0}
    here = {**bare, "sample_ratio": values["alpha"]}
    grid = {"parameter": PARAMETER[values["prior"]], "values": [_parameter(values)]}
    grid["sample_ratios"] = ratios(values).tolist()
    overlaps = np.round(_size(values) * SHARES, 8)
    few = rough = None
    if values["channel"] == "modulus" and values["variance"] > 0:  # its integrals are over two variables
        few = Request("phase_diagram", bare, {**grid, "rough": True})
        rough = Request("free_entropy", here, {"m": _some(overlaps, ROUGH), "rough": True})
    asked = [
        Ask("landscape", Request("free_entropy", here, {"m": overlaps.tolist()}), rough),
        Ask("curves", Request("phase_diagram", bare, grid), few),
        Ask("path", Request("predict", table, {"limit": {"kind": "StateEvolution"}}), unseen=True),
    ]
    if _fitted(values):
        rule = {"kind": "ERM", "penalty": values["penalty"]}
        fitted = {**bare, "loss": {"kind": FITS[values["channel"]]}, "algorithm": rule}
        grid = {"sample_ratio": np.round(np.linspace(0.1, ratios(values)[-1], FIT_POINTS), 4).tolist()}
        asked.append(Ask("fit", Request("sweep", fitted, {"grid": grid, "limit": {"kind": "ERMAsymptotics"}})))
    return tuple(asked)


def runs(values: Values, table: Table) -> Request:
    return Request("simulate", table, {"d": values["d"], "replicas": values["replicas"], "seed": values["seed"]})


def cost(values: Values) -> Cost:
    n = values["alpha"] * values["d"]
    seconds = 3 + WORK * n * values["d"] * ITERATIONS * values["replicas"]
    return Cost.of(f"{values['replicas']} data sets of {n:.0f} samples, d = {values['d']}", seconds)


# --- what is seen ---------------------------------------------------------------------------------------------------


def _lines(answers: Answers) -> dict[str, float]:
    """The thresholds that there are."""
    ds = answers.get("curves")
    if ds is None:
        return {}
    found = {name: float(ds[name].values[0]) for name in ("weak_recovery", "information", "algorithmic")}
    return {name: at for name, at in found.items() if math.isfinite(at)}


def figure(values: Values, answers: Answers) -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    curves, lines, last = answers.get("curves"), _lines(answers), float(ratios(values)[-1])
    top = _size(values)
    if "information" in lines and "algorithmic" in lines:
        low, high = lines["information"], lines["algorithmic"]
        left.axvspan(low, high, color=palette[4], alpha=0.25, lw=0)
        for at, word in ((low / 2, "impossible"), ((low + high) / 2, "hard"), ((high + last) / 2, "easy")):
            left.text(at, 1.06 * top, word, ha="center", color="0.35")
    if curves is not None:
        x = curves.sample_ratio.values
        left.plot(x, curves.mse_bayes.values[0], color=palette[0], lw=2.0, label="best possible (Bayes)")
        left.plot(x, curves.mse_amp.values[0], "--", color=palette[1], lw=2.0, label="message passing (AMP)")
    fit = answers.get("fit")
    if fit is not None:
        label = f"{'ridge' if values['channel'] == 'linear' else 'logistic'} fit, λ = {values['penalty']:g}"
        left.plot(fit.sample_ratio.values, fit.mse.values, ":", color=palette[2], lw=2.0, label=label)
    for name, word, side, height in THRESHOLDS:
        if 0.02 < lines.get(name, 0.0) < last:
            left.axvline(lines[name], color="0.5", lw=0.8)
            left.text(lines[name], height * top, f" {word} {lines[name]:.3g} ", color="0.35", ha=side)
    if answers.runs is not None:
        error = answers.runs.mse.isel(iteration=-1).values
        low, middle, high = np.nanquantile(error, [0.25, 0.5, 0.75])
        label = f"GAMP, d = {values['d']}: median of {len(error)} runs"
        bars = [[middle - low], [high - middle]]
        left.errorbar([values["alpha"]], [middle], bars, fmt="o", color=palette[6], ms=7, label=label)
    left.axvline(values["alpha"], color=palette[3], lw=1.5, ls="-.", label=f"α = {values['alpha']:g}")
    left.set_xlim(0, last)
    if values["log"]:
        left.set_yscale("log")
        left.set_ylim(1e-4, 2)
    else:
        left.set_ylim(-0.03 * top, 1.15 * top)
    _landscape(right, values, answers)
    style_axes(left, x="samples per weight α = n/d", y="mean squared error per weight", title="What can be known")
    style_axes(right, x="overlap m with the truth", y="free entropy", title=f"The landscape at α = {values['alpha']:g}")
    for panel in (left, right):
        legend_below(panel)
    return fig


def _landscape(panel: Any, values: Values, answers: Answers) -> None:
    ds = answers.get("landscape")
    if ds is None:
        return
    m, f = ds.overlap.values, ds.free_entropy.values
    ok = np.isfinite(f)
    panel.plot(m[ok], f[ok], color=palette[0], lw=2.0, label="free entropy: the higher, the likelier")
    body = f[ok][m[ok] < 0.97 * m[-1]]
    low, high = float(body.min()), float(body.max())
    room = 0.3 * max(high - low, 0.01)
    marks = (
        ("message_passing", "s", palette[1], "message passing stops here"),
        ("bayes_optimal", "*", palette[2], "the best estimator is here"),
    )
    for name, mark, colour, label in marks:
        at = min(float(ds.attrs[name]), float(m[ok][-1]))
        panel.plot(
            [at],
            [min(np.interp(at, m[ok], f[ok]), high + 0.8 * room)],
            mark,
            color=colour,
            ms=11 if mark == "*" else 8,
            label=label,
        )
    panel.set_ylim(low - room, high + room)


def words(values: Values, answers: Answers) -> Words:
    lines, ds, alpha = _lines(answers), answers.get("landscape"), values["alpha"]
    formula = r"f(m) = \inf_A \, \Phi_w(A) + \alpha\, \Phi_{out}(m) - \tfrac12 m A"
    if answers.get("curves") is None or ds is None:
        return Words("The curves are on their way.", formula=formula)
    stops, best = float(ds.attrs["message_passing"]), float(ds.attrs["bayes_optimal"])
    jump = "information" in lines and "algorithmic" in lines
    if jump and alpha < lines["information"]:
        title = f"At α = {alpha:g} nobody can recover the weights; the best overlap is {best:.2g}."
        state = (
            "Impossible: the highest point of the landscape is far from the truth, so that even the best estimator "
            "knows little."
        )
    elif jump and alpha < lines["algorithmic"]:
        title = f"At α = {alpha:g} the weights could be recovered, but message passing stops at overlap {stops:.2g}."
        state = (
            "Hard: the truth is the highest point, but a lower hill stands before it, and message passing stops there. "
            "No fast method is known that goes on."
        )
    elif jump:
        title = f"At α = {alpha:g} recovery is easy: message passing reaches overlap {best:.3g}."
        state = "Easy: the landscape goes uphill all the way to the highest point."
    elif lines.get("weak_recovery", 0.0) > alpha:
        title = f"At α = {alpha:g} nothing can be learned yet."
        state = "Below weak recovery even the best estimator knows nothing."
    else:
        title = f"At α = {alpha:g} the best overlap is {best:.2g}, and message passing reaches it."
        state = "There is no jump: the error falls gradually, and message passing is as good as the best estimator."
    going_on = (
        state,
        "Move α and watch the hills: where the second one becomes the higher, recovery is possible; where the first "
        "one vanishes, it is easy.",
        "Press run it to solve data sets of finite size by message passing (GAMP) at this α.",
    )
    facts = [
        (name, f"α = {lines[key]:.4g}")
        for key, name in (
            ("weak_recovery", "weak recovery"),
            ("information", "possible from"),
            ("algorithmic", "easy from"),
        )
        if key in lines
    ]
    return Words(
        title,
        going_on,
        (*facts, ("overlap of the best", f"{best:.4g}"), ("overlap of message passing", f"{stops:.4g}")),
        formula,
    )


def remedies(values: Values, reason: str) -> tuple[Remedy, ...]:
    return (Remedy("take signs instead", {"channel": "sign"}),)


def snippet(values: Values) -> str:
    last = float(ratios(values)[-1])
    fit = ""
    if _fitted(values):
        loss = f"ll.{FITS[values['channel']]}()"
        fit = f"""
rule = ll.ERM(penalty={values["penalty"]!r})
fitted = ll.Problem(teacher=problem.teacher, channel=problem.channel, sample_ratio=1.0, loss={loss}, algorithm=rule)
grid = {{"sample_ratio": np.round(np.linspace(0.1, {last!r}, {FIT_POINTS}), 4)}}
fit = ll.sweep(ll.predict, fitted, grid, limit=ll.ERMAsymptotics())"""
    return f"""
print(ll.thresholds(problem.teacher.prior, problem.channel))
ratios = np.round(np.linspace(0.04, {last!r}, {POINTS}), 4)
curves = ll.analysis.phase_diagram(problem, {PARAMETER[values["prior"]]!r}, [{_parameter(values)!r}], ratios)
shares = np.concatenate([np.linspace(0.0, 0.97, 49), 1 - np.geomspace(0.02, 1e-4, 12)])
landscape = ll.free_entropy(problem, np.round({_size(values)!r} * shares, 8)){fit}
theory = ll.predict(problem, ll.StateEvolution())
runs = ll.simulate(problem, d={values["d"]}, replicas={values["replicas"]}, seed={values["seed"]})
print(ll.compare(runs, theory, variables=["mse"]))
ll.plot(runs, theory).savefig("samples.png")
"""


PAGE = Page(
    name="samples",
    question="How few samples?",
    short="How few samples?",
    about="Impossible, hard or easy: what the best estimator and message passing find from n samples.",
    controls=CONTROLS,
    problem=problem,
    asks=asks,
    runs=runs,
    cost=cost,
    against="path",
    compared={"variables": ["mse"]},
    spoken={"mse": "the mean squared error"},
    data={"curves": "curves", "landscape": "landscape", "path": "path of message passing", "fit": "fit"},
    figure=figure,
    words=words,
    snippet=snippet,
    remedies=remedies,
    references=("barbier2019optimal", "rangan2011generalized", "aubin2020generalization"),
    trust=(
        "Curves and thresholds are read off one curve of all fixed points, nothing is iterated. Entries of the gallery "
        "find the published thresholds: 1.128 for sizes, 1.245 and 1.493 for signs of weights ±1.",
        "GAMP at finite d follows state evolution step by step. Near a threshold runs scatter widely, so the median is "
        "shown with its quartiles.",
        "Where labels lose the sign, GAMP starts at overlap 0.1 with the truth, as the theory does.",
    ),
    docs="linear-models",
    opens={
        "perceptron": {"channel": "sign", "alpha": 2.0, "fit": "erm"},
        "phase-retrieval": {"alpha": 1.5},
        "landscape": {},
        "hard-phase": {"prior": "sparse", "channel": "linear", "alpha": 0.5},
        "binary-perceptron": {"prior": "binary", "channel": "sign", "alpha": 1.4},
    },
    near=("committee-specialisation", "grand-staircase", "structured-teacher", "random-features"),
)
