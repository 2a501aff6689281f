"""How long to escape? Phase retrieval by one-pass SGD from a random start: overlaps, risk, exit times, best rate."""

import math
from typing import Any

import numpy as np

from limitlab.explorer.controls import Choice, Number, Switch, runs_of, seed_of, time_shown
from limitlab.explorer.description import Answers, Ask, Cost, Page, Table, Values, Words, plain_times, written_times
from limitlab.figures import Drawing, Panel, average, legend_below, mark_end, new_figure, palette, style_axes
from limitlab.jobs.requests import Request
from limitlab.library import escaping_mediocrity
from limitlab.problems.problem import Problem

__all__ = ["PAGE"]

POINTS = 51
STARTS, FEW, PATHS = 8, 16, 64  # of the ODE, and of the diffusion: as the hand moves, and once it rests
WORK = 1.5e-6  # seconds per run and step of one unit, on one core
SINGLE = 12  # runs that are drawn one by one

CONTROLS = (
    Number(
        "variance",
        "noise on the labels",
        "Δ",
        "Variance of what is added to every label.",
        0.0,
        "nature",
        0,
        2,
        0.05,
        more="glossary#channel",
    ),
    Number(
        "d",
        "input dimension",
        "d",
        "The random start has an overlap of about 1/√d.",
        1000,
        "nature",
        100,
        100000,
        log=True,
        whole=True,
        more="glossary#finite-size-rate",
    ),
    Choice(
        "width",
        "units of the student",
        "p",
        "How many squares are added up. More of them leave earlier, at their own best rate.",
        "1",
        "learner",
        options=(("1", "1"), ("2", "2"), ("4", "4")),
    ),
    Number(
        "rate",
        "learning rate per unit",
        "γ/p",
        "Larger steps see fewer samples per unit of time, but their noise slows the escape: there is a best one.",
        0.0833,
        "learner",
        0.01,
        0.3,
        0.001,
        more="notation#clocks",
    ),
    Number(
        "threshold",
        "share of the risk that counts as escaped",
        "T",
        "A run has escaped when it has lost this share of its excess risk.",
        0.2,
        "look",
        0.05,
        0.9,
        0.05,
    ),
    time_shown(4.0, 1, 15, "One unit of time is d·p/γ samples.", step=0.5),
    runs_of(32, 4, 256, 4),
    seed_of(),
    Switch("log", "logarithmic risk", "log R", "Shows how fast the last of the risk goes.", False, "look"),
)


def problem(values: Values) -> Problem:
    width = int(values["width"])
    return escaping_mediocrity(width, float(f"{values['rate'] * width:.6g}"), values["variance"])


def times(values: Values) -> list[float]:
    return plain_times(np.linspace(0, values["horizon"], POINTS))


def asks(values: Values, table: Table) -> tuple[Ask, ...]:
    def predict(kind: str, replicas: int, seed: int) -> Request:
        limit = {"kind": kind, "d": values["d"], "replicas": replicas, "seed": seed}
        return Request("predict", table, {"limit": limit, "times": times(values)})

    def exit_time(average: str) -> Request:
        asked = {"d": values["d"], "threshold": values["threshold"], "average": average, "starts": 128}
        return Request("exit_time", table, asked)

    return (
        Ask("rates", Request("learning_rates", table)),
        Ask("exit", exit_time("noise_corrected")),
        Ask("ode_exit", exit_time("full"), optional=True),
        Ask("ode", predict("OverlapODE", STARTS, 0)),
        Ask("sde", predict("OverlapSDE", PATHS, 1), predict("OverlapSDE", FEW, 1)),
    )


def runs(values: Values, table: Table) -> Request:
    asked = {"d": values["d"], "times": times(values), "replicas": values["replicas"], "seed": 2 + values["seed"]}
    return Request("simulate", table, {**asked, "representation": "overlaps"})


def cost(values: Values) -> Cost:
    width = int(values["width"])
    steps = values["horizon"] * values["d"] / values["rate"]
    seconds = 2 + WORK * steps * values["replicas"] * (1 + width) / 2 * 1.25
    return Cost.of(f"{values['replicas']} runs, d = {values['d']}, {steps:,.0f} samples each", seconds)


# --- what is seen ---------------------------------------------------------------------------------------------------


def _overlap(ds: Any) -> np.ndarray:
    """The largest overlap of a unit with the teacher, without its sign, by run and time."""
    return np.abs(ds.M.transpose("replica", "time", "student", "teacher").values).max(axis=(2, 3))


def _risk(ds: Any) -> np.ndarray:
    return ds.risk.transpose("replica", "time").values


def figure(values: Values, answers: Answers) -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    for panel, seen in ((left, _overlap), (right, _risk)):
        _curves(panel, values, answers, seen)
    style_axes(left, x="time t = γ·step/(p·d)", y="overlap |m| with the teacher", title="Finding the direction")
    style_axes(right, x="time t", y="risk", title="The plateau and the way out")
    for name, colour, line in (("exit", palette[0], "-"), ("ode_exit", palette[1], "--")):
        at = _exit(answers, name)
        if math.isfinite(at) and at < values["horizon"]:
            for panel in (left, right):
                panel.axvline(at, color=colour, lw=1.2, ls=line)
            right.text(
                at,
                _top(answers) * (1.02 if line == "-" else 0.93),
                "exit " if line == "-" else " exit without noise",
                color="0.35",
                ha="right" if line == "-" else "left",
            )
    left.set_ylim(-0.03, 1.05)
    if values["log"]:
        right.set_yscale("log")
    right.set_xlim(0, values["horizon"])
    left.set_xlim(0, values["horizon"])
    for panel in (left, right):
        mark_end(panel, answers.runs)
        legend_below(panel)
    return fig


def _top(answers: Answers) -> float:
    there = [ds for ds in (answers.get("sde"), answers.get("ode"), answers.runs) if ds is not None]
    return float(max((np.nanmax(_risk(ds).mean(axis=0)) for ds in there), default=1.0))


def _curves(panel: Panel, values: Values, answers: Answers, seen: Any) -> None:
    sims = answers.runs
    if sims is not None:
        single = seen(sims)[:SINGLE]
        for k, path in enumerate(single):
            label = "single runs of SGD" if k == 0 else None
            panel.plot(sims.time.values, path, color="0.75", lw=0.7, label=label)
    for name, colour, line, label in (
        ("ode", palette[1], "--", f"theory without noise (ODE, {STARTS} starts)"),
        ("sde", palette[0], "-", f"theory with noise (SDE, {FEW if 'sde' in answers.coarse else PATHS} paths)"),
    ):
        ds = answers.get(name)
        if ds is not None:
            panel.plot(ds.time.values, average(seen(ds))[0], line, color=colour, lw=2.0, label=label)
    if sims is not None:
        mean, error = average(seen(sims))
        some = slice(0, None, 2)
        points = {"fmt": "o", "color": palette[6], "ms": 4, "elinewidth": 1}
        label = f"SGD, d = {values['d']}, mean of {sims.sizes['replica']} runs"
        panel.errorbar(
            sims.time.values[some], mean[some], None if error is None else error[some], label=label, **points
        )


def _exit(answers: Answers, name: str) -> float:
    found = answers.get(name)
    return math.inf if found is None else float(found["time"])


def words(values: Values, answers: Answers) -> Words:
    rates, at = answers.get("rates"), _exit(answers, "exit")
    width, formula = int(values["width"]), r"R(t_{ext}) - \Delta/2 = (1 - T)\,(R(0) - \Delta/2)"
    if rates is None or answers.get("exit") is None:
        return Words("The exit time is on its way.", formula=formula)
    best, escape, learning = (
        float(x) / width
        for x in (rates["optimal"]["value"], rates["critical"]["escape"], rates["critical"]["learning"])
    )
    samples = float(answers.get("exit")["samples"])
    if math.isfinite(at):
        title = f"SGD leaves its random start at t = {at:.3g}, after {samples:,.0f} samples."
    elif values["rate"] >= escape:
        title = f"SGD never leaves: steps of γ/p = {values['rate']:g} are too large."
    else:
        title = f"SGD never loses {100 * values['threshold']:g} % of its excess risk at these settings."
    lines = [
        "At the start nothing points to the teacher: the overlap is about 1/√d, and SGD stays near a saddle. It then "
        "grows exponentially, so the exit time grows like log d: ten times d costs only little more time.",
    ]
    if values["rate"] >= escape:
        lines.append(
            f"Above γ/p = {escape:.3g} the noise of the steps keeps the saddle attractive: no number of samples helps."
        )
    elif values["rate"] > learning:
        lines.append(
            f"Between {learning:.3g} and {escape:.3g} it leaves the saddle but does not arrive at the teacher."
        )
    else:
        lines.append(
            "The noise of SGD helps while the overlap is small: it adds as much as the start does, and runs leave "
            "before the theory without noise says."
        )
    lines.append(f"Fewest samples are needed at γ/p = {best:.3g}.")
    facts = (
        ("best rate γ/p", f"{best:.4g}" + ("" if rates["optimal"]["learns"] else " (leaves, but does not learn)")),
        ("leaves below γ/p", f"{escape:.4g}"),
        ("learns below γ/p", f"{learning:.4g}" + ("" if rates["critical"]["sharp"] else " (not sharp)")),
        ("exit with noise", _time(at)),
        ("exit without noise", _time(_exit(answers, "ode_exit"))),
    )
    return Words(title, tuple(lines), facts, formula)


def _time(at: float) -> str:
    return f"t = {at:.3g}" if math.isfinite(at) else "never"


def snippet(values: Values) -> str:
    return f"""
{written_times(f"np.linspace(0, {values['horizon']!r}, {POINTS})")}
print(ll.exit_time(problem, {values["d"]}, {values["threshold"]!r}, "noise_corrected", starts=128))
print(ll.optimal_learning_rate(problem))
ode = ll.predict(problem, ll.OverlapODE(d={values["d"]}, replicas={STARTS}, seed=0), times)
sde = ll.predict(problem, ll.OverlapSDE(d={values["d"]}, replicas={PATHS}, seed=1), times)
runs = ll.simulate(problem, {values["d"]}, times, {values["replicas"]}, {2 + values["seed"]}, "overlaps")
print(ll.compare(runs, sde, variables=["risk"]))
ll.plot(runs, sde).savefig("escape.png")
"""


PAGE = Page(
    name="escape",
    question="How long to escape?",
    short="How long to escape?",
    about="A random start knows nothing: see the plateau, the way out, and the best learning rate.",
    controls=CONTROLS,
    problem=problem,
    asks=asks,
    runs=runs,
    cost=cost,
    against="sde",
    compared={"variables": ["risk"]},
    spoken={"risk": "the risk"},
    data={"sde": "theory with noise", "ode": "theory without noise"},
    figure=figure,
    words=words,
    snippet=snippet,
    references=("arnaboldi2023escaping", "saad1995online"),
    trust=(
        "The theory with noise is the diffusion of the overlaps at this d; runs of SGD agree with it within their "
        "error bars from d = 100 on. It is a mean over 64 paths, so it has an error of its own.",
        "The exit time with noise is asymptotic in d: runs leave when it says from d = 1000 on, and later below.",
        "Runs follow the overlaps themselves, which is exact in law and costs the same at every d.",
    ),
    docs="escape",
    opens={"escape": {}, "escape-wide": {"width": "4", "rate": 0.15}},
    near=("second-layer", "unify", "plateau"),
)
