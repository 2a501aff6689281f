"""What does SGD learn? A sparse target on the hypercube, its staircase, and SGD against the dimension-free curve."""

from typing import Any

import numpy as np

from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.errors import LimitlabError
from limitlab.explorer.controls import Choice, FieldError, Number, Switch, Text, runs_of, seed_of, time_shown
from limitlab.explorer.description import (
    Answers,
    Ask,
    Cost,
    Page,
    Remedy,
    Table,
    Values,
    Words,
    plain_times,
    written_times,
)
from limitlab.figures import Drawing, average, legend_below, mark_end, new_figure, palette, style_axes
from limitlab.jobs.requests import Request
from limitlab.problems.channels import GaussianNoise
from limitlab.problems.inputs import Hypercube
from limitlab.problems.losses import SquareLoss
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.target import SparseTarget
from limitlab.problems.starts import RandomStart

__all__ = ["PAGE"]

POINTS, FIRST = 45, 1e-3  # times on a logarithmic grid, from this share of the last
MOST = 6  # variables of a target that the curve follows as the hand moves
SHOWN = 8  # terms that are drawn
LEARNED = 0.85  # share of a coefficient from which on its term counts as learned
WORK = 1.4e-9  # seconds per weight and step on one core
COARSE = {"kind": "DimensionFree", "nodes": 24, "rtol": 1e-3}
FULL = {"kind": "DimensionFree", "nodes": 96, "rtol": 1e-6}
STAIRCASE = "z1 + z1*z2 + z1*z2*z3 + z1*z2*z3*z4"

CONTROLS = (
    Text(
        "target",
        "what is to be learned",
        "h(z)",
        "A sum of products of signs z1, z2, ..., each +1 or -1: such as z1 + 0.5*z1*z2.",
        STAIRCASE,
        "nature",
        suggestions=(STAIRCASE, "z1 + z1*z2 + z3*z4", "z1*z2", "z1 + z2 + z3", "z1 + z1*z2*z3", "z1*z2 + z1*z3"),
        more="sparse-targets#what-is-easy-to-learn",
    ),
    Number(
        "variance",
        "noise on the labels",
        "Δ",
        "Variance of what is added to every label.",
        0.0,
        "nature",
        0,
        1,
        0.01,
        more="glossary#channel",
    ),
    Choice(
        "activation",
        "activation of the units",
        "σ",
        "What a unit does with its field. tanh is odd: without a shift it learns no even term.",
        "shifted(tanh, 1.0)",
        "learner",
        options=(
            ("shifted(tanh, 1.0)", "tanh(x + 1)"),
            ("tanh", "tanh(x)"),
            ("shifted(sigmoid, 0.5)", "sigmoid(x + 0.5)"),
            ("shifted(relu, 0.5)", "relu(x + 0.5)"),
        ),
        more="sparse-targets#how-it-is-learned",
    ),
    Number(
        "scale",
        "size of the second layer at the start",
        "a(0)",
        "Output weights are drawn uniformly between minus and plus this number. Larger ones let all terms arrive.",
        20.0,
        "learner",
        1,
        20,
        log=True,
        more="sparse-targets#how-it-is-learned",
    ),
    Number(
        "rate",
        "speed of the second layer",
        "r",
        "How fast output weights move, relative to the first layer.",
        1.0,
        "learner",
        0.1,
        10,
        log=True,
        more="sparse-targets#how-it-is-learned",
    ),
    Number(
        "step",
        "size of a step",
        "γ/p",
        "Smaller steps are closer to the curve, and a run takes longer.",
        0.01,
        "learner",
        0.002,
        0.1,
        log=True,
        more="notation#clocks",
    ),
    Number(
        "width",
        "hidden units",
        "p",
        "Units of the network that is run. The curve has infinitely many.",
        100,
        "learner",
        20,
        400,
        10,
        whole=True,
        more="sparse-targets#how-it-is-learned",
    ),
    time_shown(8.0, 1, 40, "One unit of time is d·p/γ samples.", log=True),
    Number(
        "d",
        "input dimension of runs",
        "d",
        "Signs in an input. The curve has infinitely many.",
        100,
        "look",
        30,
        400,
        10,
        whole=True,
        more="glossary#finite-size-rate",
    ),
    runs_of(8, 2, 32),
    seed_of(),
    Switch("log", "logarithmic time axis", "log t", "Shows early times as wide as late ones.", True, "look"),
)


def problem(values: Values) -> Problem:
    try:
        target = SparseTarget(values["target"])
    except LimitlabError as error:
        words = str(error).partition("\n")[0].removeprefix("SparseTarget.text: ")  # without the text and its caret
        raise FieldError("target", words[0].upper() + words[1:]) from None
    if target.latent > MOST:
        raise FieldError(
            "target", f"At most {MOST} variables here; got {target.latent}. limitlab.predict takes more, but slowly."
        )
    if target.latent == 0:
        raise FieldError("target", "It is constant: there is nothing to learn. Write a term such as z1.")
    width = values["width"]
    return Problem(
        inputs=Hypercube(),
        teacher=target,
        channel=GaussianNoise(variance=values["variance"]),
        student=Committee(width=width, activation=values["activation"], second_layer="trained"),
        loss=SquareLoss(),
        start=RandomStart(second_layer="uniform", second_layer_scale=values["scale"]),
        algorithm=OnlineSGD(learning_rate=values["step"] * width, second_layer_rate=values["rate"]),
    )


def times(values: Values) -> list[float]:
    last = values["horizon"]
    return plain_times([0.0, *np.geomspace(FIRST * last, last, POINTS)])


def asks(values: Values, table: Table) -> tuple[Ask, ...]:
    def predict(limit: dict[str, Any]) -> Request:
        return Request("predict", table, {"limit": limit, "times": times(values)})

    return (
        Ask("staircase", Request("staircase", None, {"target": values["target"]})),
        Ask("theory", predict(FULL), predict(COARSE)),
    )


def runs(values: Values, table: Table) -> Request:
    asked = {"d": values["d"], "times": times(values), "replicas": values["replicas"], "seed": values["seed"]}
    return Request("simulate", table, asked)


def cost(values: Values) -> Cost:
    steps = values["horizon"] * values["d"] / values["step"]
    seconds = 2 + WORK * steps * values["d"] * values["width"] * values["replicas"] * 1.25
    return Cost.of(f"{values['replicas']} runs, d = {values['d']}, {steps:,.0f} samples each", seconds)


# --- what is seen ---------------------------------------------------------------------------------------------------


def _terms(answers: Answers) -> list[str]:
    """The terms of the target in the order in which they can be climbed."""
    shape = answers.get("staircase")
    if shape is not None:
        return [*shape["order"]][:SHOWN]
    theory = answers.get("theory")
    return [] if theory is None else [str(t) for t in theory.attrs.get("target_terms", [])][:SHOWN]


def figure(values: Values, answers: Answers) -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    theory, sims = answers.get("theory"), answers.runs
    seen = slice(1 if values["log"] else 0, None)  # time 0 has no place on a logarithmic axis
    for colour, term in zip(palette, _terms(answers), strict=False):
        if theory is not None and term in theory.term.values:
            path = theory.fourier.sel(term=term).values
            label = term.replace("*", " ")
            left.plot(theory.time.values[seen], path[seen], color=colour, lw=2.0, label=label)
            goal = _coefficient(answers, term)
            if goal is not None:
                left.axhline(goal, color="0.75", lw=0.8)
        if sims is not None and "fourier" in sims and term in sims.term.values:
            mean, error = average(sims.fourier.sel(term=term).transpose("replica", "time").values)
            points = {"fmt": "o", "color": colour, "ms": 4, "elinewidth": 1}
            left.errorbar(sims.time.values[seen], mean[seen], None if error is None else error[seen], **points)
    if theory is not None:
        right.plot(
            theory.time.values[seen],
            theory.risk.values[seen],
            color=palette[0],
            lw=2.0,
            label="theory, d and p infinite",
        )
    if sims is not None:
        mean, error = average(sims.latent_risk.transpose("replica", "time").values + values["variance"] / 2)
        label = f"SGD, d = {values['d']}, p = {values['width']}, {sims.sizes['replica']} runs"
        points = {"fmt": "o", "color": palette[1], "ms": 4, "elinewidth": 1, "label": label}
        right.errorbar(sims.time.values[seen], mean[seen], None if error is None else error[seen], **points)
    shape = answers.get("staircase")
    if shape is not None and shape["floor"] > 0:
        floor = shape["floor"] + values["variance"] / 2
        right.axhline(floor, color="0.4", lw=1.0, ls="--", label=f"never below {floor:.3g} in O(d) samples")
    elif values["variance"] > 0:
        right.axhline(values["variance"] / 2, color="0.4", lw=1.0, ls="--", label="noise alone")
    for panel in (left, right):
        if values["log"]:
            panel.set_xscale("log")
        mark_end(panel, sims)
        legend_below(panel, 2)
    style_axes(
        left, x="time t = γ·step/(p·d)", y="coefficient of the term", title="How much of each term the network has"
    )
    style_axes(right, x="time t", y="risk, ½ E (y − f)²", title="What is left to learn")
    return fig


def _coefficient(answers: Answers, term: str) -> float | None:
    shape = answers.get("staircase")
    return None if shape is None else float(shape["fourier"].get(term, 0.0))


def words(values: Values, answers: Answers) -> Words:
    shape, theory = answers.get("staircase"), answers.get("theory")
    if shape is None:
        return Words("The target is being read.")
    learned, never = [], []
    if theory is not None:
        last = {str(t): float(theory.fourier.sel(term=t).values[-1]) for t in theory.term.values}
        for term in _terms(answers):
            goal = _coefficient(answers, term)
            if goal and last.get(term, 0.0) / goal > LEARNED:
                learned.append(term)
            elif goal and abs(last.get(term, 0.0) / goal) < 1 - LEARNED:
                never.append(term)
    count, total = len(learned), len(_terms(answers))
    horizon = f"t = {values['horizon']:g}"
    if theory is None:
        title = f"{values['target']}: the curve is on its way." if not answers.reasons else values["target"]
    elif count == total:
        title = f"All {total} terms are learned by {horizon}." if total > 1 else f"The term is learned by {horizon}."
    elif count == 0:
        title = (
            f"None of the {total} terms is learned by {horizon}." if total > 1 else f"It is not learned by {horizon}."
        )
    else:
        title = f"{count} of {total} terms are learned by {horizon}: {', '.join(learned)}."
    facts = [
        ("leap", f"{shape['leap']}" + (" (a merged staircase)" if shape["merged_staircase"] else "")),
        ("order", ", ".join(f"{t} ({_coefficient(answers, t):g})" for t in shape["order"][:SHOWN])),
        ("counts as learned", f"from {100 * LEARNED:.0f} % of its coefficient on"),
        ("samples for SGD", str(shape["sgd_samples"])),
        ("samples for a linear method", f"at least {shape['linear_samples']}"),
        ("samples on screen", f"{values['horizon'] * values['d'] / values['step']:,.0f} at d = {values['d']}"),
    ]
    return Words(title, _going_on(shape, never), tuple(facts), r"h(z) = \sum_S \hat h(S) \prod_{i \in S} z_i")


def _going_on(shape: dict[str, Any], never: list[str]) -> tuple[str, ...]:
    lines = []
    if shape["merged_staircase"]:
        lines.append(
            "This target is a staircase: its terms can be ordered so that each brings at most one new variable, and "
            "SGD climbs them one after the other in a number of samples proportional to d."
        )
    else:
        lines.append(
            f"This target is not a staircase: some term brings {shape['leap']} new variables at once. SGD waits at a "
            f"saddle, and in a number of samples proportional to d it never reaches {', '.join(shape['stuck'][:4])}."
        )
    if shape["floor"] > 0:
        lines.append(f"The risk of the curve never falls below {shape['floor']:.4g}; noise comes on top.")
    elif shape["degenerate"]:
        lines.append(
            "Symmetries tie some of its variables together, so that theorems for generic targets do not apply."
        )
    if never and shape["merged_staircase"]:
        lines.append(f"Not yet seen: {', '.join(never[:4])}. Later times, or a larger second layer, may show them.")
    lines.append("Press run it to put real networks of finite size beside the curve.")
    return tuple(lines)


def remedies(values: Values, reason: str) -> tuple[Remedy, ...]:
    return (Remedy("use tanh(x + 1)", {"activation": "shifted(tanh, 1.0)"}),)


def snippet(values: Values) -> str:
    last = values["horizon"]
    return f"""
{written_times(f"[0.0, *np.geomspace({FIRST * last!r}, {last!r}, {POINTS})]")}
print(ll.staircase(problem.teacher))
theory = ll.predict(problem, ll.DimensionFree(nodes={FULL["nodes"]}, rtol={FULL["rtol"]:g}), times)
runs = ll.simulate(problem, d={values["d"]}, times=times, replicas={values["replicas"]}, seed={values["seed"]})
print(ll.compare(runs, theory, variables=["fourier"]))
ll.plot(runs, theory).savefig("learn.png")
"""


PAGE = Page(
    name="learn",
    question="What does SGD learn?",
    short="What does SGD learn?",
    about="Type a target and see which of its terms are climbed, in which order, and what is never reached.",
    controls=CONTROLS,
    problem=problem,
    asks=asks,
    runs=runs,
    cost=cost,
    against="theory",
    compared={"variables": ["fourier"]},
    data={"theory": "theory"},
    spoken={"fourier": "the coefficient of"},
    figure=figure,
    words=words,
    snippet=snippet,
    remedies=remedies,
    references=("abbe2022merged",),
    trust=(
        "The curve is the flow of infinitely many units in infinitely many dimensions, with vanishing steps. At the "
        "settings of the gallery twice as many nodes move no coefficient by more than 0.005.",
        "Runs climb later than the curve, and compare may well say that the two differ. The entry rates of the gallery "
        "measures how the distance falls: like 1/d, and with more units and smaller steps.",
        "Points of the risk are what the network misses of the target's own variables. On the others a network of "
        "finite width has some noise besides.",
    ),
    docs="sparse-targets",
    opens={
        "staircase": {},
        "degenerate": {"target": "z1 + z2 + z3 + z1*z2*z3", "scale": 1.0, "horizon": 20.0},
        "saddle": {"target": "z1 + z1*z2*z3", "scale": 3.0, "horizon": 20.0},
        "linear-vs-sgd": {"target": "z1 + z1*z2 + z1*z2*z3", "scale": 5.0},
        "rates": {"target": "z1 + z1*z2", "scale": 1.0},
    },
)
