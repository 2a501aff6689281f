"""What does gradient descent do? Phase retrieval on a fixed data set: GD, SGD, persistent SGD, noise, several units."""

from typing import Any

import numpy as np

from limitlab.algorithms.base import AbstractAlgorithm
from limitlab.algorithms.descent.gradient_descent import GradientDescent
from limitlab.algorithms.descent.langevin import Langevin
from limitlab.algorithms.descent.persistent_sgd import PersistentSGD
from limitlab.algorithms.descent.stochastic_gd import StochasticGD
from limitlab.explorer.controls import Choice, FieldError, Number, Switch, runs_of, seed_of, time_shown
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
from limitlab.problems.channels import Modulus
from limitlab.problems.losses import PhaseRetrievalLoss
from limitlab.problems.networks import Committee, SingleIndex
from limitlab.problems.priors import GaussianPrior
from limitlab.problems.problem import Problem
from limitlab.problems.starts import InformedStart, RandomStart

__all__ = ["PAGE"]

POINTS = 31
MOST_STEPS = 600  # times units: what the theory's memory is affordable for while the hand moves
WORK = 1.2e-9  # seconds per entry of the data, step and unit on one core
FOUND = 0.99  # overlap from which on the signal counts as found
RULES = {
    "gd": "gradient descent",
    "sgd": "SGD on a new batch at every step",
    "psgd": "persistent SGD",
    "langevin": "gradient descent with noise",
}

CONTROLS = (
    Number(
        "alpha",
        "samples per dimension",
        "α",
        "Rows of the data set divided by the dimension. All of them are there from the beginning.",
        3.0,
        "nature",
        0.5,
        10,
        log=True,
        more="glossary#sample-ratio",
    ),
    Choice(
        "rule",
        "learning rule",
        "∇L",
        "Persistent SGD keeps a row in its batch for a while before it leaves it out for a while.",
        "gd",
        "learner",
        options=tuple(RULES.items()),
        more="fixed-data#rules-and-scalings",
    ),
    Choice(
        "units",
        "hidden units",
        "m",
        "Units with square activation. One is kept on the sphere; several move freely.",
        "1",
        "learner",
        options=(("1", "1"), ("2", "2"), ("3", "3")),
        more="fixed-data#several-units",
    ),
    Number(
        "overlap",
        "overlap at the start",
        "m(0)",
        "Cosine between the first weights and the truth. At 0 the start is random, and the theory stays at 0 for ever.",
        0.3,
        "learner",
        0.0,
        0.9,
        more="glossary#informed-start",
    ),
    Number(
        "step",
        "size of a step",
        "γ/m",
        "What one step adds to the time. Above about 0.05, and with small batches earlier, steps blow up.",
        0.02,
        "learner",
        0.01,
        0.06,
        0.001,
        more="notation#clocks",
    ),
    Number(
        "batch",
        "share of the rows in a batch (SGD)",
        "b",
        "Of the two kinds of SGD.",
        0.5,
        "learner",
        0.1,
        0.9,
        0.05,
        more="fixed-data#rules-and-scalings",
    ),
    Number(
        "persistence",
        "time that a row stays in (persistent)",
        "τ",
        "Of persistent SGD.",
        1.0,
        "learner",
        0.1,
        5,
        log=True,
        more="glossary#persistent-sgd",
    ),
    Number(
        "temperature",
        "temperature (with noise)",
        "T",
        "Of descent with noise.",
        0.05,
        "learner",
        0.0,
        0.5,
        more="glossary#langevin",
    ),
    time_shown(3.0, 0.5, 6, "One unit of time is m/γ steps.", step=0.5),
    Number(
        "d",
        "input dimension of runs",
        "d",
        "The theory has infinitely many.",
        300,
        "look",
        50,
        800,
        10,
        whole=True,
        more="glossary#finite-size-rate",
    ),
    runs_of(12, 2, 48, words="Independent data sets and starts; error bars are standard errors over them."),
    seed_of(),
    Switch("log", "logarithmic loss", "log L", "Shows how fast the last of the loss goes.", False, "look"),
    Switch(
        "memory",
        "memory in place of the loss",
        "C(t, 0)",
        "How much of the start is left in the weights.",
        False,
        "look",
        more="fixed-data#dmft",
    ),
)


def _rule(values: Values, units: int) -> AbstractAlgorithm:
    rate, free = values["step"] * units, {"spherical": units == 1}
    if values["rule"] == "sgd":
        return StochasticGD(rate, batch_fraction=values["batch"], **free)
    if values["rule"] == "psgd":
        return PersistentSGD(
            rate, batch_fraction=values["batch"], persistence_time=max(values["persistence"], values["step"]), **free
        )
    if values["rule"] == "langevin":
        return Langevin(rate, temperature=values["temperature"], **free)
    return GradientDescent(rate, **free)


def problem(values: Values) -> Problem:
    units = int(values["units"])
    steps = values["horizon"] / values["step"]
    if units * steps > MOST_STEPS:
        raise FieldError(
            "horizon",
            f"At most {MOST_STEPS // units} steps here with {units} unit{'s' * (units > 1)}; these are {steps:.0f}. "
            "Show less time, or take larger steps.",
        )
    return Problem(
        teacher=SingleIndex(GaussianPrior()),
        channel=Modulus(),
        sample_ratio=values["alpha"],
        student=None if units == 1 else Committee(width=units, activation="square"),
        loss=PhaseRetrievalLoss(),
        start=InformedStart(values["overlap"]) if values["overlap"] > 0 else RandomStart(),
        algorithm=_rule(values, units),
    )


def times(values: Values) -> list[float]:
    return plain_times(np.linspace(0, values["horizon"], POINTS))


def _limits(units: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The theory in full, and one that is there at once."""
    return (
        {"kind": "DMFT", "trajectories": 2048, "batches": 4},
        {"kind": "DMFT", "trajectories": 256, "batches": 4 if units == 1 else 2},  # some, so that its error is seen
    )


def asks(values: Values, table: Table) -> tuple[Ask, ...]:
    full, quick = (
        Request("predict", table, {"limit": limit, "times": times(values)}) for limit in _limits(int(values["units"]))
    )
    return (Ask("theory", full, quick),)


def runs(values: Values, table: Table) -> Request:
    asked = {"d": values["d"], "times": times(values), "replicas": values["replicas"], "seed": values["seed"]}
    return Request("simulate", table, asked)


def cost(values: Values) -> Cost:
    steps, units = values["horizon"] / values["step"], int(values["units"])
    seconds = 3 + WORK * values["alpha"] * values["d"] ** 2 * steps * values["replicas"] * units * 1.25
    rows = round(values["alpha"] * values["d"])
    return Cost.of(f"{values['replicas']} runs on {rows:,} rows, d = {values['d']}, {steps:.0f} steps", seconds)


# --- what is seen ---------------------------------------------------------------------------------------------------


def _overlaps(ds: Any) -> list[np.ndarray]:
    """The cosine of every unit with the truth, (replica, time) each."""
    if "m" in ds:
        cosine = ds.m / np.sqrt(ds.q)
        return [np.abs(cosine.transpose("replica", "time").values)]
    diagonal = [ds.Q.isel(student=i, student_2=i) for i in range(ds.sizes["student"])]
    cosines = [ds.M.isel(student=i, teacher=0) / np.sqrt(diagonal[i]) for i in range(ds.sizes["student"])]
    return [np.abs(cosine.transpose("replica", "time").values) for cosine in cosines]


def _memory(ds: Any) -> np.ndarray:
    """w(t).w(0)/d of the first unit, (replica, time)."""
    C = ds.C.isel(student=0, student_2=0) if "student" in ds.C.dims else ds.C
    return C.sel(time_2=0.0, method="nearest").transpose("replica", "time").values


def figure(values: Values, answers: Answers) -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    theory, sims = answers.get("theory"), answers.runs
    if theory is not None:
        t = theory.time.values
        for k, path in enumerate(_overlaps(theory)):
            label = "theory, d infinite" + (f", unit {k + 1}" if values["units"] != "1" else "")
            _line(left, t, path, palette[k], label)
        _line(right, t, _right(values, theory), palette[0], f"theory{_of_rows(values)}")
        if not values["memory"]:
            _line(right, t, theory.risk.transpose("replica", "time").values, palette[2], "theory, on new rows", "--")
    if sims is not None:
        t = sims.time.values
        for k, path in enumerate(_overlaps(sims)):
            left.plot(t, path.T, color="0.6", lw=0.5, alpha=0.5)
            unit = f", unit {k + 1}" if values["units"] != "1" else ""
            _points(left, t, path, palette[k + 3], f"d = {values['d']}, {path.shape[0]} runs{unit}")
        label = f"d = {values['d']}, {sims.sizes['replica']} runs{_of_rows(values)}"
        _points(right, t, _right(values, sims), palette[1], label)
    left.axhline(1.0, color="0.75", lw=0.8)
    for panel in (left, right):
        mark_end(panel, theory)
        mark_end(panel, sims)
        legend_below(panel, 2)
    clock = "time t = γ·step" if values["units"] == "1" else "time t = γ·step/m"
    style_axes(left, x=clock, y="overlap with the truth (cosine)", title="How much is found")
    if values["memory"]:
        style_axes(right, x="time t", y="C(t, 0) = w(t)·w(0)/d", title="What is left of the start")
    else:
        style_axes(right, x="time t", y="loss", title="Loss on the rows, and on new ones")
        if values["log"]:
            right.set_yscale("log")
    return fig


def _of_rows(values: Values) -> str:
    return "" if values["memory"] else ", on the rows"


def _right(values: Values, ds: Any) -> np.ndarray:
    return _memory(ds) if values["memory"] else ds.train_loss.transpose("replica", "time").values


def _line(panel: Any, t: np.ndarray, paths: np.ndarray, colour: str, label: str, style: str = "-") -> None:
    mean, error = average(paths)
    panel.plot(t, mean, style, color=colour, lw=2.0, label=label)
    if error is not None:
        panel.fill_between(t, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)


def _points(panel: Any, t: np.ndarray, paths: np.ndarray, colour: str, label: str) -> None:
    mean, error = average(paths)
    panel.errorbar(t, mean, error, fmt="o", color=colour, ms=4, elinewidth=1, label=label)


def words(values: Values, answers: Answers) -> Words:
    theory, name = answers.get("theory"), RULES[values["rule"]]
    name = name[0].upper() + name[1:]
    if theory is None:
        return Words(f"{name}: the curve is on its way." if not answers.reasons else name)
    ends = [path[:, -1] for path in _overlaps(theory)]
    best = max(float(np.nanmean(end)) if np.isfinite(end).any() else np.nan for end in ends)
    told = max((_with_error([end]) for end in ends), key=lambda words: words.partition(" ")[0])
    horizon = f"t = {values['horizon']:g}"
    if np.any(np.atleast_1d(theory.status.values) != "ok") or not np.isfinite(best):
        end = float(np.min(np.atleast_1d(theory.end_time.values)))
        title = f"{name} blows up at t = {end:.3g}: its steps are too large."
    elif best > FOUND:
        title = f"{name} finds the signal by {horizon} (overlap {told})."
    else:
        title = f"{name} goes from overlap {values['overlap']:g} to {told} by {horizon}."
    steps = round(values["horizon"] / values["step"])
    loss = theory.train_loss.transpose("replica", "time").values[:, -1]
    facts = [
        ("overlap at the end", _with_error(ends)),
        ("loss on the rows", _with_error([loss])),
        ("loss on new rows", _with_error([theory.risk.transpose("replica", "time").values[:, -1]])),
        ("steps", f"{steps}"),
        ("method", f"DMFT, {theory.sizes['replica']} × {theory.attrs.get('trajectories')} trajectories"),
    ]
    if answers.runs is not None and "success" in answers.runs:
        done = np.asarray(answers.runs.success.values, bool)
        facts.append(("runs that found it", f"{done.sum()} of {done.size} by {horizon}"))
    return Words(title, _going_on(values, best), tuple(facts), r"w^{s+1} = w^s - \gamma\,\nabla L(w^s)")


def _with_error(parts: list[np.ndarray]) -> str:
    told = []
    for part in parts:
        good = part[np.isfinite(part)]
        if not good.size:
            told.append("none: it blew up")
        elif good.size == 1 or good.std() < 1e-9:
            told.append(f"{good.mean():.3g}")
        else:
            error = good.std(ddof=1) / np.sqrt(good.size)
            digits = int(np.clip(np.ceil(-np.log10(max(error, 1e-9))), 1, 6))  # as many as the error allows
            told.append(f"{good.mean():.{digits}f} ± {error:.{digits}f}")
    return ", ".join(told)


def _going_on(values: Values, best: float) -> tuple[str, ...]:
    lines = [
        "All rows are there from the start, and are used again at every step. The labels are |w*·x|: the sign is lost, "
        "so that the loss has saddles, and at few samples per dimension many bad valleys."
    ]
    if values["overlap"] == 0:
        lines.append(
            "From a random start the overlap is about 1/√d. In infinite dimension it stays 0: the curve shows "
            "the valley that runs wait in. Runs of finite size may leave it."
        )
    elif np.isfinite(best) and best < values["overlap"] + 0.05:
        lines.append(
            "The start is nearly forgotten or hardly improved: the rows are fitted without finding the signal."
        )
    if values["rule"] == "psgd":
        lines.append(
            "Persistent SGD follows for a while the landscape of some of the rows only. Early it is behind gradient "
            "descent; later the moving landscape carries it out of valleys in which gradient descent stays."
        )
    elif values["rule"] == "sgd":
        lines.append("A new batch at every step acts as noise whose strength falls with the loss.")
    if values["units"] != "1":
        lines.append("A second unit opens ways around valleys in which one unit stays: it is the largest gain.")
    lines.append("The curve is exact at this step size, in infinite dimension; its band is the Monte-Carlo error.")
    return tuple(lines)


def remedies(values: Values, reason: str) -> tuple[Remedy, ...]:
    return (Remedy("use one unit on the sphere", {"units": "1"}), Remedy("start at overlap 0.3", {"overlap": 0.3}))


def snippet(values: Values) -> str:
    full, _ = _limits(int(values["units"]))
    more = ", ".join(f"{key}={value!r}" for key, value in full.items() if key != "kind")
    return f"""
{written_times(f"np.linspace(0, {values['horizon']!r}, {POINTS})")}
theory = ll.predict(problem, ll.DMFT({more}), times)
runs = ll.simulate(problem, d={values["d"]}, times=times, replicas={values["replicas"]}, seed={values["seed"]})
print(ll.compare(runs, theory))
ll.plot(runs, theory).savefig("descent.png")
"""


PAGE = Page(
    name="descent",
    question="What does gradient descent do?",
    short="What does descent do?",
    controls=CONTROLS,
    problem=problem,
    asks=asks,
    runs=runs,
    cost=cost,
    against="theory",
    data={"theory": "theory"},
    spoken={
        "m": "the overlap",
        "q": "the norm",
        "C": "the memory",
        "train_loss": "the loss on the rows",
        "risk": "the loss on new rows",
    },
    figure=figure,
    words=words,
    snippet=snippet,
    remedies=remedies,
    references=("mignacco2021stochasticity", "saraomannelli2020optimization"),
    trust=(
        "The curve is dynamical mean-field theory at the finite step that is run, not a flow: nothing is left but the "
        "Monte-Carlo error, which its band shows.",
        "Single runs scatter around it about like 1/√d: at the usual settings their overlap at t = 1 by 0.16 at "
        "d = 100 and by 0.09 at d = 400. Their mean is then within 0.02 of the curve.",
        "Late, and near valleys, single runs part ways: some find the signal and some do not, and their mean says "
        "little of either.",
    ),
    docs="fixed-data",
    about="One data set, used again and again: what GD, SGD, persistent SGD and a second unit find in it.",
    opens={
        "persistent-sgd": {"rule": "psgd", "overlap": 0.2},
        "gd-phase-retrieval": {"overlap": 0.1, "alpha": 4.0},
        "second-unit": {"units": "2", "overlap": 0.2},
        "wide-descent": {"units": "3", "horizon": 2.0},
        "persistent-random": {
            "rule": "psgd",
            "overlap": 0.0,
            "alpha": 2.5,
            "persistence": 2.0,
            "step": 0.01,
            "horizon": 6.0,
            "d": 128,
        },
    },
    near=("over-parametrised", "atlas", "open-questions", "batch-reuse"),
)
