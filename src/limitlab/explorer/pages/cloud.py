"""A cloud of neurons: the units of a wide network as particles that flow downhill, as a film."""

import math
from typing import Any

import numpy as np

from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.explorer.controls import Choice, Number, Switch, runs_of, seed_of, time_shown
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
from limitlab.explorer.drawn.film import film, player
from limitlab.figures import Drawing, average, early_end, mark_end, new_figure, palette, style_axes
from limitlab.jobs.requests import Request
from limitlab.problems.inputs import AnisotropicMixture, IsotropicMixture
from limitlab.problems.losses import SquareLoss
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.problems.starts import RandomStart

__all__ = ["PAGE"]

POINTS = 31
BINS = 48  # of the units of runs; the flow has more
RING = 300  # units that are drawn as points
WORK = 1.6e-9  # seconds per weight and step on one core
GOOD = "piecewise((0.5, -2.5), (1.5, 7.5))"
BAD = "piecewise((0.0, -2.5), (0.5, -4.0), (1.5, 7.5))"
EVEN = math.pi * (3 - math.sqrt(5))  # turns that spread points evenly over a circle

CONTROLS = (
    Choice(
        "mixture",
        "where the classes differ",
        "x",
        "Two clouds of inputs around 0 that differ in their width: in all coordinates, or in some of them.",
        "isotropic",
        "nature",
        options=(("isotropic", "in all coordinates"), ("anisotropic", "in some coordinates")),
        more="mean-field#the-problem",
    ),
    Number(
        "delta",
        "how different the two classes are",
        "Δ",
        "Inputs of one class are wider by a factor 1 + Δ, those of the other narrower by 1 − Δ.",
        0.5,
        "nature",
        0.05,
        0.9,
        more="mean-field#the-problem",
    ),
    Number(
        "fraction",
        "share of the coordinates (if some)",
        "s/d",
        "Where the classes differ in some coordinates only.",
        0.1875,
        "nature",
        0.05,
        0.95,
        more="mean-field#the-problem",
    ),
    Choice(
        "activation",
        "activation of the units",
        "σ",
        "Of inputs that differ in all coordinates. The second one dips first: small weights are then drawn to 0.",
        GOOD,
        "learner",
        options=((GOOD, "rises from −2.5 to 7.5"), (BAD, "dips to −4, then rises to 7.5")),
        more="mean-field#questions",
    ),
    Number(
        "scale",
        "size of the weights at the start",
        "κ",
        "Weights are normal with this standard deviation.",
        0.8,
        "learner",
        0.1,
        2.0,
        more="mean-field#the-radial-flow",
    ),
    Number(
        "step",
        "size of a step",
        "γ/p",
        "Smaller steps are closer to the flow, and a run takes longer.",
        0.004,
        "learner",
        0.001,
        0.02,
        log=True,
        more="notation#clocks",
    ),
    Number(
        "width",
        "hidden units",
        "p",
        "Units of the network that is run. The flow has infinitely many.",
        200,
        "learner",
        50,
        800,
        10,
        whole=True,
        more="mean-field#the-radial-flow",
    ),
    Choice(
        "d",
        "input dimension",
        "d",
        "Of the flow and of the runs. With classes that differ in some coordinates the flow has infinitely many.",
        "40",
        "look",
        options=(("20", "20"), ("40", "40"), ("80", "80")),
        more="mean-field#the-radial-flow",
    ),
    time_shown(3.0, 0.5, 20, "One unit of time is d·p/γ samples.", log=True),
    runs_of(4, 2, 16),
    seed_of(),
    Switch("log", "logarithmic risk", "log R", "Shows how fast the last of the risk goes.", False, "look"),
    Switch(
        "ring",
        "units as points",
        "w",
        "Every unit at the distance of its norm, in any direction: all directions are alike.",
        False,
        "look",
        more="mean-field#the-radial-flow",
    ),
)


def _whole(values: Values) -> bool:
    return values["mixture"] == "isotropic"


def problem(values: Values) -> Problem:
    rule = OnlineSGD(learning_rate=values["step"] * values["width"])
    if _whole(values):
        return Problem(
            inputs=IsotropicMixture(values["delta"]),
            student=Committee(width=values["width"], activation=values["activation"]),
            loss=SquareLoss(),
            start=RandomStart(scale=values["scale"]),
            algorithm=rule,
        )
    return Problem(
        inputs=AnisotropicMixture(values["delta"], values["fraction"]),
        student=Committee(width=values["width"], activation="relu", second_layer="trained", bias="trained"),
        loss=SquareLoss(),
        start=RandomStart(scale=values["scale"], second_layer="rademacher"),
        algorithm=rule,
    )


def times(values: Values) -> list[float]:
    return plain_times(np.linspace(0, values["horizon"], POINTS))


def asks(values: Values, table: Table) -> tuple[Ask, ...]:
    def predict(**more: Any) -> Request:
        limit = {"kind": "RadialFlow", **({"d": int(values["d"])} if _whole(values) else {}), **more}
        return Request("predict", table, {"limit": limit, "times": times(values)})

    return (Ask("flow", predict(), predict(nodes=36, rtol=1e-4)),)


def runs(values: Values, table: Table) -> Request:
    asked = {"d": int(values["d"]), "times": times(values), "replicas": values["replicas"], "seed": values["seed"]}
    return Request("simulate", table, asked)


def cost(values: Values) -> Cost:
    d = int(values["d"])
    steps = values["horizon"] * d / values["step"]
    seconds = 4 + WORK * steps * d * values["width"] * values["replicas"] * 1.25
    what = f"{values['replicas']} runs, p = {values['width']}, d = {d}, {steps:,.0f} samples each"
    return Cost.of(what, seconds)


# --- what is seen ---------------------------------------------------------------------------------------------------


def _law(ds: Any, moment: int) -> tuple[np.ndarray, np.ndarray]:
    """Norms of the units and their weights: of the flow, or of all runs together."""
    now = ds.r.isel(time=moment)
    if "weight" in ds:
        return now.values, ds.weight.values
    flat = now.transpose("replica", "student", ...).values
    flat = flat.reshape(-1, *flat.shape[2:])
    flat = flat[np.isfinite(flat).reshape(len(flat), -1).all(axis=1)]
    return flat, np.full(len(flat), 1 / max(len(flat), 1))


def _density(r: np.ndarray, weight: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The share of units per length, between edges. Nodes of a flow stand for what lies around them."""
    from scipy.interpolate import PchipInterpolator

    order = np.argsort(r)
    below = np.cumsum(weight[order]) - weight[order] / 2
    r, first = np.unique(r[order], return_index=True)
    if len(r) < 2:
        return _counts(r, np.ones(len(r)), edges)
    smooth = PchipInterpolator(r, below[first], extrapolate=False)(edges)
    share = np.where(edges <= r[0], 0.0, np.where(edges >= r[-1], 1.0, smooth))
    return np.diff(share) / np.diff(edges)


def _counts(r: np.ndarray, weight: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.histogram(r, edges, weights=weight)[0] / np.diff(edges)


def _quantiles(r: np.ndarray, weight: np.ndarray, count: int) -> np.ndarray:
    order = np.argsort(r)
    below = np.cumsum(weight[order]) - weight[order] / 2
    return np.interp((np.arange(count) + 0.5) / count, below, r[order])


def _reach(answers: Answers) -> float:
    """The largest norm that is shown, the same at all times."""
    seen = [1e-3]
    for ds in (answers.get("flow"), answers.runs):
        if ds is not None:
            r = ds.r.values
            if "weight" in ds:
                r = ds.r.isel(particle=np.flatnonzero(ds.weight.values > 1e-4)).values
            good = r[np.isfinite(r)]
            seen.append(float(np.quantile(good, 0.999)) if good.size else 0.0)
    return 1.05 * max(seen)


def _spread(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points at these distances, in directions that are spread evenly and stay."""
    angle = EVEN * np.arange(len(r))
    return r * np.cos(angle), r * np.sin(angle)


def _left(values: Values, answers: Answers, moment: int) -> list[dict[str, Any]]:
    """The curves of the left panel at one moment: x, y, label, colour, and whether they are points or a line."""
    made = []
    for ds, colour in ((answers.get("flow"), palette[0]), (answers.runs, palette[1])):
        if ds is None:
            continue
        theory = "weight" in ds
        label = "flow, p infinite" if theory else f"units of {ds.sizes['replica']} runs, p = {values['width']}"
        r, weight = _law(ds, min(moment, ds.sizes["time"] - 1))
        curve = {"label": label, "color": colour, "points": True, "size": 4 if theory else 3}
        if not _whole(values):
            x, y = (r[:, 0], r[:, 1]) if len(r) else (np.zeros(0), np.zeros(0))
            curve |= {"x": x, "y": y, "size": 9 if theory else 3}
        elif values["ring"]:
            norms = _quantiles(r, weight, RING) if theory or len(r) > RING else np.sort(r)
            x, y = _spread(norms)
            curve |= {"x": x, "y": y}
        else:
            edges = np.linspace(0, _reach(answers), (3 if theory else 1) * BINS + 1)
            share = _density(r, weight, edges) if theory else _counts(r, weight, edges)
            curve |= {"x": (edges[1:] + edges[:-1]) / 2, "y": share, "points": not theory, "size": 4}
        made.append(curve)
    return made


def _names(values: Values) -> tuple[str, str, str]:
    if not _whole(values):
        return "norm on the coordinates that differ", "norm on the others", "The units"
    if values["ring"]:
        return "", "", "The units: distance is the norm |w|/√d"
    return "norm of a unit, |w|/√d", "share of the units per length", "How long the weights of the units are"


def _moments(answers: Answers) -> np.ndarray:
    known = next((ds for ds in (answers.get("flow"), answers.runs) if ds is not None), None)
    return np.zeros(0) if known is None else known.time.values


def _risks(answers: Answers) -> "tuple[Any, Any]":
    """(t, risk) of the flow, (t, mean, error) of the runs."""
    flow, sims = answers.get("flow"), answers.runs
    one = None if flow is None else (flow.time.values, flow.risk.values)
    two = None if sims is None else (sims.time.values, *average(sims.risk.transpose("replica", "time").values))
    return one, two


def figure(values: Values, answers: Answers) -> Drawing:
    """The last moment on paper, with the first one behind it."""
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    last = max(len(_moments(answers)) - 1, 0)
    if len(_moments(answers)):
        first = _left(values, answers, 0)[0]
        style = "o" if first["points"] else "-"
        left.plot(first["x"], first["y"], style, color="0.7", ms=3, lw=1.5, label="at the start")
        for curve in _left(values, answers, last):
            style = "o" if curve["points"] else "-"
            left.plot(
                curve["x"], curve["y"], style, color=curve["color"], ms=curve["size"] - 1, lw=2.0, label=curve["label"]
            )
        left.legend(fontsize="small", frameon=False)
    one, two = _risks(answers)
    if one is not None:
        right.plot(*one, color=palette[0], lw=2.0, label="flow")
    if two is not None:
        right.errorbar(*two, fmt="o", color=palette[1], ms=4, elinewidth=1, label="SGD")
    mark_end(right, answers.runs)
    if one is not None or two is not None:
        right.legend(fontsize="small", frameon=False)
    x, y, title = _names(values)
    style_axes(left, x=x, y=y, title=f"{title} at t = {values['horizon']:g}")
    style_axes(right, x="time t = γ·step/(p·d)", y="risk", title="The risk")
    if values["log"]:
        right.set_yscale("log")
    return fig


def screen(values: Values, answers: Answers, dark: bool, narrow: bool) -> dict[str, Any]:
    """The same as a film."""
    t = _moments(answers)
    frames = [_left(values, answers, k) for k in range(len(t))]
    x, y, title = _names(values)
    one, two = _risks(answers)
    reach = _reach(answers)
    square = values["ring"] or not _whole(values)
    top = max((float(np.max(c["y"], initial=0.0)) for curves in frames[1:] or frames for c in curves), default=1.0)
    box = (-reach, reach, -reach, reach) if values["ring"] and _whole(values) else (0, reach, 0, reach)
    window = box if square else (0, reach, 0, 1.08 * top)
    told = (x, y, title, "time t = γ·step/(p·d)", "risk")
    made = film(frames, t, one, two, words=told, window=window, dark=dark, narrow=narrow)
    if (end := early_end(answers.runs)) is not None:
        line = {"type": "line", "xref": "x2", "yref": "y2 domain", "x0": end[0], "x1": end[0], "y0": 0, "y1": 1}
        made["layout"]["shapes"] = [{**line, "line": {"dash": "dot", "width": 1.2}, "label": {"text": end[1]}}]
    if values["log"]:
        made["layout"]["yaxis2"] |= {"type": "log", "rangemode": "normal"}
    return made


def words(values: Values, answers: Answers) -> Words:
    flow = answers.get("flow")
    if flow is None:
        return Words("The flow is on its way." if not answers.reasons else "There is no flow for these settings.")
    first, last = float(flow.risk.values[0]), float(flow.risk.values[-1])
    title = f"The risk falls from {first:.3g} to {last:.3g} by t = {values['horizon']:g}"
    facts = [("risk at the end", f"{last:.5g}")]
    if _whole(values):
        r, weight = _law(flow, -1)
        mean = float(np.sum(r * weight) / np.sum(weight))
        scatter = math.sqrt(max(float(np.sum(weight * (r - mean) ** 2) / np.sum(weight)), 0.0))
        lost = float(np.sum(weight[r < 0.02]) / np.sum(weight))
        facts += [("mean norm", f"{mean:.4g}"), ("scatter of the norms", f"{scatter:.2g}")]
        if lost > 0.005:
            facts.append(("units that died", f"{100 * lost:.0f} %"))
            title += f": {100 * lost:.0f} % of the units fell to zero weight"
        elif scatter < 0.05 * mean:
            title += ": the units have gathered on a sphere"
    else:
        r, weight = _law(flow, -1)
        share = float(np.sum(weight * r[:, 0] ** 2) / max(float(np.sum(weight * (r**2).sum(axis=1))), 1e-300))
        facts.append(("share of the weights where classes differ", f"{100 * share:.0f} %"))
        title += f": {100 * share:.0f} % of the weights are where the classes differ"
    return Words(
        title + ".", _going_on(values), tuple(facts), r"\partial_t \rho = \nabla\cdot(\rho\,\nabla\Psi(w; \rho))"
    )


def _going_on(values: Values) -> tuple[str, ...]:
    lines = [
        "A hidden unit is a point: its weights. Units do not see each other, only the error that all of them make "
        "together: so a wide network is a cloud that flows downhill in a landscape of its own making."
    ]
    if _whole(values):
        lines.append(
            "The classes differ in their width only, so no direction is better than another: all that a unit learns is "
            "how long its weights are. Up to Δ of about 0.43 at d = 40 the best network has all units on one sphere; "
            "beyond, one sphere is not the best any more."
        )
        if values["activation"] == BAD:
            lines.append("With this activation small weights are pulled to 0 and stay there: start with larger ones.")
    else:
        lines.append("Units turn towards the coordinates in which the classes differ, and grow there.")
    lines.append("Play it, or move the time by hand. Press run it to put the units of real networks beside the flow.")
    return tuple(lines)


def remedies(values: Values, reason: str) -> tuple[Remedy, ...]:
    return (Remedy("let all coordinates differ", {"mixture": "isotropic"}),)


def snippet(values: Values) -> str:
    inside = f"d={values['d']}" if _whole(values) else ""
    return f"""
{written_times(f"np.linspace(0, {values['horizon']!r}, {POINTS})")}
flow = ll.predict(problem, ll.RadialFlow({inside}), times)
runs = ll.simulate(problem, d={values["d"]}, times=times, replicas={values["replicas"]}, seed={values["seed"]})
print(ll.compare(runs, flow, variables="risk"))
print(flow.r.isel(time=-1).values, flow.weight.values)  # norms of the units and how many there are of each
ll.plot(runs, flow, variables="risk").savefig("cloud.png")
"""


PAGE = Page(
    name="cloud",
    question="A cloud of neurons",
    short="A cloud of neurons",
    controls=CONTROLS,
    problem=problem,
    asks=asks,
    runs=runs,
    cost=cost,
    against="flow",
    compared={"variables": "risk"},
    data={"flow": "flow"},
    spoken={"risk": "the risk"},
    figure=figure,
    words=words,
    snippet=snippet,
    remedies=remedies,
    references=("mei2018mean",),
    trust=(
        "The flow has infinitely many units and vanishing steps. Where classes differ in all coordinates it is at the "
        "dimension of the runs, and exact to about 1e-6; where they differ in some it is at infinite dimension.",
        "Networks of p units have a risk that is higher by about a constant over p (entry width-law of the gallery); "
        "finite steps add a little.",
    ),
    docs="mean-field",
    about="The units of a wide network as points that flow downhill: a film, with real networks beside it.",
    opens={
        "isotropic": {"delta": 0.8},
        "critical-delta": {"delta": 0.43},
        "bad-activation": {"activation": BAD, "scale": 0.1},
        "anisotropic": {"mixture": "anisotropic", "delta": 0.8, "scale": 0.4},
    },
    near=("width-law", "noisy"),
    screen=screen,
    below=player,
)
