"""My data: a table of the visitor's own, how the error falls with its rows, and which penalty is best."""

import csv
import functools
import html
import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from limitlab.errors import InputError
from limitlab.explorer.controls import Choice, FieldError, Number, Switch, Text, seed_of
from limitlab.explorer.description import Answers, Ask, Cost, Page, Remedy, Table, Values, Words
from limitlab.figures import Drawing, average, legend_below, new_figure, palette, style_axes
from limitlab.jobs.requests import Request
from limitlab.jobs.tables import check_table
from limitlab.text import did_you_mean, printable

__all__ = ["PAGE", "columns_of"]

LARGEST = 16 << 20  # bytes of a table
HEAD = 1 << 16  # bytes within which the names of the columns must stand
MANY = 2000  # columns at most
LAST = "last"
EXAMPLE = "breast-cancer.csv"
KINDS = {
    "ridge": "SquareLoss",
    "logistic": "LogisticLoss",
    "squared-hinge": "SquaredHingeLoss",
    "pseudo-huber": "PseudoHuberLoss",
}
PYTHON = {"yes": True, "no": False}
POINTS, FEW = 12, 5
HARD = 5  # rows that are named
CLASSES = 6  # curves of several classes that are drawn
YES_NO = (("yes", "yes"), ("no", "no"))

CONTROLS = (
    Text(
        "target",
        "column to predict",
        "y",
        "Its name in the first line of the table; last is the last column. An npz file has arrays X and y instead.",
        LAST,
        "nature",
        more="your-data#from-a-table",
    ),
    Choice(
        "standardise",
        "columns on one scale",
        "",
        "Divides every column by its standard deviation and by the root of their number.",
        "yes",
        "nature",
        options=YES_NO,
        more="your-data#from-a-table",
    ),
    Choice(
        "text",
        "columns of words",
        "",
        "They become columns of 0 and 1, one for each word, or are refused by name.",
        "yes",
        "nature",
        options=(("yes", "as 0 and 1"), ("no", "refuse them")),
        more="your-data#from-a-table",
    ),
    Choice(
        "missing",
        "rows with missing values",
        "",
        "They are left out, or the table is refused.",
        "yes",
        "nature",
        options=(("yes", "leave them out"), ("no", "refuse them")),
        more="your-data#from-a-table",
    ),
    Choice(
        "model",
        "model",
        "ℓ",
        "Logistic and squared hinge tell two classes apart; ridge and pseudo-Huber fit numbers.",
        "logistic",
        "learner",
        options=(
            ("logistic", "logistic regression"),
            ("ridge", "ridge regression"),
            ("squared-hinge", "squared hinge (support vectors)"),
            ("pseudo-huber", "pseudo-Huber regression"),
        ),
        more="your-data#two-theories",
    ),
    Number(
        "penalty",
        "penalty",
        "λ",
        "Of the sum of losses + λ|w|²/2: larger ones shrink the weights more.",
        0.1,
        "learner",
        1e-4,
        100,
        log=True,
        more="glossary#erm",
    ),
    Number(
        "fits",
        "real fits",
        "R",
        "Random subsets of every size on which the model is really fitted, beside the theory.",
        20,
        "look",
        5,
        100,
        5,
        whole=True,
        more="your-data#how-far-to-trust-it",
    ),
    seed_of("subsets"),
    Switch("log", "logarithmic axes", "log n", "A power law is a straight line on them.", True, "look"),
)


@functools.cache
def _example() -> bytes:
    """Breast cancer, which comes with scikit-learn: 569 rows, 30 measurements, two classes."""
    from sklearn.datasets import load_breast_cancer

    held: Any = load_breast_cancer()
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*map(str, held.feature_names), "benign"])
    writer.writerows([*map(float, row), int(label)] for row, label in zip(held.data, held.target, strict=True))
    return text.getvalue().encode()


def _file(values: Values) -> tuple[str, bytes]:
    return values["file"] if values.get("file") else (EXAMPLE, _example())


def columns_of(data: bytes) -> list[str]:
    """Names of the columns in the first line of a CSV table; raises `InputError`."""
    head = data[:HEAD].decode("utf-8-sig", errors="replace")
    lines = (line for line in csv.reader(io.StringIO(head, newline=None)) if line)
    try:
        names, more = next(lines, []), next(lines, None)
    except csv.Error as error:
        raise InputError(f"The first line of the table cannot be read: {printable(str(error), 80)}.") from None
    if len(data) >= HEAD and more is None:
        raise InputError("The first line of the table is too long: it must hold the names of the columns.")
    if not 2 <= len(names) <= MANY:
        raise InputError(f"The first line must name 2 to {MANY} columns with commas between them; it has {len(names)}.")
    return names


def _target(values: Values) -> str | None:
    name, data = _file(values)
    if name.endswith(".npz"):
        return None
    try:
        names = columns_of(data)
    except InputError as error:
        raise FieldError("target", str(error)) from None
    wanted = values["target"]
    if wanted in names:
        return wanted
    if wanted == LAST:
        return names[-1]
    shown = ", ".join(printable(one, 30) for one in names[:12])
    shown += f" and {len(names) - 12} more" if len(names) > 12 else ""
    raise FieldError("target", f"There is no such column; there are {shown}.{did_you_mean(wanted, names)}")


def _request(values: Values, points: int, **more: Any) -> Request:
    name, data = _file(values)
    table: dict[str, Any] = {
        "standardise": values["standardise"] == "yes",
        "one_hot": values["text"] == "yes",
        "drop_rows": values["missing"] == "yes",
    }
    target = _target(values)
    table = {"standardise": table["standardise"]} if target is None else {"target": target, **table}
    asked = {"name": f"table{Path(name).suffix}", "table": table, "points": points, "penalty": values["penalty"]}
    asked |= {"loss": {"kind": KINDS[values["model"]]}, "theory": "pool" if values["model"] == "ridge" else "rows"}
    return Request("learning_curve", None, {**asked, "fits": 0, **more}, data)


def asks(values: Values, table: Table) -> tuple[Ask, ...]:
    quick = None if values["model"] == "ridge" else _request(values, FEW)
    return (Ask("curve", _request(values, POINTS), quick),)


def runs(values: Values, table: Table) -> Request:
    rows = {"theory": "rows"}  # which rows are hard is known to this theory only
    return _request(values, POINTS, fits=values["fits"], seed=values["seed"], best=True, **rows)


def cost(values: Values) -> Cost:
    seconds = 5 + 1e-8 * len(_file(values)[1]) * POINTS * values["fits"]
    return Cost.of(f"{values['fits']} fits at each of {POINTS} sizes, and the best penalty", seconds)


# --- what is seen ---------------------------------------------------------------------------------------------------


def _known(answers: Answers) -> Any:
    """Theory: of the finished run, which has more to say, or the curve that follows the hand."""
    return answers.get("curve") if answers.get("curve") is not None else answers.runs


def _error(ds: Any) -> str:
    return "generalisation_error" if "generalisation_error" in ds else "risk"


def _per_class(array: Any) -> "list[tuple[str, Any]]":
    if "label" not in array.dims:
        return [("", array)]
    return [(f", {label}", array.sel(label=label)) for label in array.label.values[:CLASSES]]


def figure(values: Values, answers: Answers) -> Drawing:
    fig, (left, right) = new_figure(2, width=5.4, height=4.2)
    theory, sims = _known(answers), answers.runs
    name = "risk" if theory is None else _error(theory)
    if theory is not None:
        for k, (label, array) in enumerate(_per_class(theory[name])):
            _line(left, theory, array, palette[k], f"theory{label}")
        for part, colour, words in (("risk", palette[0], "new rows"), ("train_loss", palette[2], "rows seen")):
            if part in theory:
                _line(right, theory, _per_class(theory[part])[0][1], colour, f"theory, {words}")
    if sims is not None:
        if f"fits_{name}" in sims:
            for k, (label, array) in enumerate(_per_class(sims[f"fits_{name}"])):
                _points(left, array, palette[(k + 1) % len(palette)], f"{values['fits']} fits{label}")
        for part, colour, words in (("risk", palette[1], "new rows"), ("train_loss", palette[3], "rows seen")):
            if f"fits_{part}" in sims:
                _points(right, _per_class(sims[f"fits_{part}"])[0][1], colour, f"fits, {words}")
    for panel in (left, right):
        if values["log"] and theory is not None:
            panel.set_xscale("log")
            panel.set_yscale("log")
        legend_below(panel, 2)
    what = "share of wrong answers" if _wrong(theory) else "error of a new row (mean square)"
    style_axes(left, x="rows trained on, n", y=what, title="How the error falls")
    style_axes(right, x="rows trained on, n", y="loss", title="Loss on new rows, and on rows seen")
    return fig


def _wrong(theory: Any) -> bool:
    """Whether the error is a share of wrong signs."""
    if theory is None or "generalisation_error" not in theory:
        return False
    return "sign" in str(theory.generalisation_error.attrs.get("long_name", ""))


def _line(panel: Any, ds: Any, array: Any, colour: str, label: str) -> None:
    n, values = array.samples.values, array.values
    panel.plot(n, values, color=colour, lw=2.0, label=label)
    band = ds.get(f"{array.name}_band")
    if band is not None and band.dims == ("samples",):
        panel.fill_between(n, values - band.values, values + band.values, color=colour, alpha=0.2, linewidth=0)


def _points(panel: Any, array: Any, colour: str, label: str) -> None:
    mean, error = average(array.transpose("subset", "fitted_samples").values)
    panel.errorbar(array.fitted_samples.values, mean, error, fmt="o", color=colour, ms=4, elinewidth=1, label=label)


def words(values: Values, answers: Answers) -> Words:
    theory, name = _known(answers), _file(values)[0]
    if theory is None:
        return Words(f"{printable(name, 60)} is being read." if not answers.reasons else printable(name, 60))
    array = _per_class(theory[_error(theory)])[0][1]
    good = np.isfinite(array.values)
    n, e = array.samples.values[good], array.values[good]
    facts: list[tuple[str, str]] = [
        ("table", f"{printable(name, 60)}: {theory.attrs.get('rows')} rows, {theory.attrs.get('columns')} columns"),
        *([("left out", f"{left} rows with missing values")] if (left := theory.attrs.get("left_out", 0)) else []),
        ("model", f"{values['model']}, penalty {values['penalty']:g}"),
    ]
    if len(n) < 2:
        return Words("No error is known for this table: see what is going on.", _notes(theory), tuple(facts))
    shown = (lambda x: f"{100 * x:.3g} %") if _wrong(theory) else (lambda x: f"{x:.3g}")
    title = f"From {n[0]} to {n[-1]} rows the error falls from {shown(e[0])} to {shown(e[-1])}."
    if e[-1] > e[0]:
        title = f"From {n[0]} to {n[-1]} rows the error goes from {shown(e[0])} to {shown(e[-1])}: it does not fall."
    facts += [(f"error after {count} rows", shown(value)) for count, value in zip(n[::4], e[::4], strict=True)]
    lines = list(_notes(theory))
    if answers.runs is not None:
        told = str(answers.runs.attrs.get("verdict", "")).splitlines()
        lines = [line for line in told[2:] if line] or lines
        if "best_penalty" in answers.runs.attrs:
            facts.append(("best penalty", _penalty(float(answers.runs.attrs["best_penalty"]))))
        if (hard := _hard(answers.runs)) != "":
            facts.append(("hardest rows", hard))
    if answers.runs is None:
        lines = [
            "The curve is found from the rows and labels as they are, before any fit: no teacher, no noise level, no "
            "Gaussian assumption.",
            "Press run it to fit the model on random subsets, to find the best penalty and the hardest rows.",
            *lines,
        ]
    lines.append("The band is how far the theory is trusted: 3 %, or the gap between two theories where that is more.")
    lines.append("The table stays on this machine: it is held in memory, and forgotten when you leave.")
    return Words(
        title,
        tuple(lines),
        tuple(facts),
        r"\min_w \sum_{\mu=1}^n \ell(y_\mu, w\cdot x_\mu + b) + \frac{\lambda}{2}|w|^2",
    )


def _penalty(best: float) -> str:
    return f"{best:.3g}" if math.isfinite(best) else "as large as can be: the columns do not help"


def _notes(theory: Any) -> tuple[str, ...]:
    return tuple(f"{note[0].upper()}{note[1:]}." for note in theory.attrs.get("notes", []) if note)


def _hard(ds: Any) -> str:
    """Numbers of the rows that a model without them gets wrong most surely, counted from 1 below the head."""
    if "row_error" not in ds or "label" in ds.row_error.dims:
        return ""
    error = ds.row_error.isel(row_samples=-1).values
    order = np.argsort(-np.nan_to_num(error, nan=-np.inf))[:HARD]
    return ", ".join(f"{int(ds.row.values[i]) + 1}" for i in order if np.isfinite(error[i]))


REMEDIES = (  # what an error says, and what helps
    ("labels of classes", Remedy("numbers: use ridge regression", {"model": "ridge"})),
    ("are constant", Remedy("keep the columns as they are", {"standardise": "no"})),
    ("text. Use", Remedy("words as 0 and 1", {"text": "yes"})),
    ("Values are missing", Remedy("leave out rows with missing values", {"missing": "yes"})),
)


def remedies(values: Values, reason: str) -> tuple[Remedy, ...]:
    return tuple(remedy for words, remedy in REMEDIES if words in reason)


def snippet(values: Values) -> str:
    name, _ = _file(values)
    target = _target(values)
    loss = f"ll.{KINDS[values['model']]}()"
    scale = PYTHON[values["standardise"]]
    if target is None:
        read = (
            f'held = np.load({name!r}, allow_pickle=False)\npool = ll.Pool(held["X"], held["y"], standardise={scale})'
        )
    else:
        lines = [f"table = pd.read_csv({name!r})"]
        if values["missing"] == "yes":
            lines.append("table = table.dropna()")
        lines.append(f"X, y = table.drop(columns=[{target!r}]), table[{target!r}].to_numpy()")
        if values["text"] == "yes":
            lines.append("X = pd.get_dummies(X, dtype=float)")
        read = "import pandas as pd\n" + "\n".join([*lines, f"pool = ll.Pool(X, y, standardise={scale})"])
    return f"""
{read}
first, last = max(3, min(20, len(pool) // 4)), max(3, int(0.9 * len(pool)))
samples = np.unique(np.geomspace(first, last, {POINTS}).round().astype(int))
curve = ll.learning_curve(
    pool, loss={loss}, penalty={values["penalty"]!r}, samples=samples, fits={values["fits"]}, seed={values["seed"]}
)
print(curve, ll.compare(curve))
print(ll.optimal_penalty(pool, loss={loss}, samples=int(samples[-1])))
ll.plot(curve).savefig("curve.png")
"""


def place(sitting: Any) -> None:
    """Where a file is dropped."""
    from nicegui import ui

    told = f"Without a table of your own: {EXAMPLE}, which comes with scikit-learn."
    with ui.element("div").classes("drop"):
        ui.html("A table of your own: CSV or npz", sanitize=False, tag="h2")
        words = ui.html(html.escape(told), sanitize=False, tag="p").props('role="status"')

        async def arrived(event: Any) -> None:
            name, data = Path(event.file.name).name, await event.file.read()
            try:
                if Path(name).suffix.lower() not in (".csv", ".npz"):
                    raise InputError(f"A table must end in .csv or .npz; got {printable(name, 60)}.")
                if len(data) > LARGEST:
                    raise InputError(f"At most {LARGEST >> 20} MB; got {len(data) / (1 << 20):.0f}.")
                check_table(name, data)
                about = "arrays X and y" if name.lower().endswith(".npz") else _about(columns_of(data))
            except InputError as error:
                words.content = f'<span class="fault">{html.escape(str(error))}</span>'
                return
            finally:
                event.sender.reset()  # what was dropped is told above
            words.content = html.escape(f"{printable(name, 60)}: {about}. It stays on this machine.")
            sitting.set_extra("file", (name[:-4] + name[-4:].lower(), data))

        def refused(event: Any) -> None:
            limit = f"A table must end in .csv or .npz and have at most {LARGEST >> 20} MB."
            words.content = f'<span class="fault">{limit}</span>'
            event.sender.reset()

        taken = ui.upload(
            max_file_size=LARGEST,
            on_rejected=refused,
            auto_upload=True,
            on_upload=arrived,
            label="or drop it here",
        ).props('accept=".csv,.npz" flat bordered')
        button = ui.html("choose a file", sanitize=False, tag="button").props('type="button"')
        button.on("click", lambda _: taken.run_method("pickFiles"))
        button.move(target_index=2)  # before the place where files are dropped


def _about(names: list[str]) -> str:
    shown = ", ".join(printable(one, 30) for one in names[:8])
    return f"{len(names)} columns: {shown}" + (", ..." if len(names) > 8 else "")


PAGE = Page(
    name="my_data",
    question="My data: how many rows, which penalty?",
    short="My data",
    controls=CONTROLS,
    problem=None,
    asks=asks,
    runs=runs,
    cost=cost,
    data={"curve": "curve"},
    figure=figure,
    words=words,
    snippet=snippet,
    remedies=remedies,
    plainly={
        "LogisticLoss": "Logistic regression",
        "SquaredHingeLoss": "The squared hinge",
        "SquareLoss()": "ridge regression",
        "PseudoHuberLoss()": "pseudo-Huber regression",
        "Pool.y": "the column to predict",
        "Pool.X must": "The columns must",
        "Pool.standardise divides by the s.d. of every column;": "Columns on one scale are divided by their s.d.;",
        "Use --one-hot for columns of 0 and 1, or leave out: --drop": "Make columns of 0 and 1 of words, or leave out",
        "--target": "The column to predict",
    },
    references=("malzahn2002statistical", "obuchi2019semi"),
    trust=(
        "The theory is that of the mean over random subsets of your rows, tested on the rows left out. On nine public "
        "tables ridge errors are within 3 % of real fits in the median, and shares of wrong answers within 0.01 from "
        "60 rows on (entry real-data-report of the gallery).",
        "It is less sure below 20 rows, with fewer than 10 of a class, and where many rows repeat others: the page "
        "then says so. Real fits beside it are the judge.",
    ),
    docs="your-data",
    about="Drop a table: how the error falls with its rows, which penalty is best, which rows are hard.",
    opens={"my-data": {}},
    near=("double-descent", "heavy-tails", "real-data-report"),
    above=place,
)
