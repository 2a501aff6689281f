"""What a page of the explorer is: a form, what it asks the library for, and how the answers are drawn and told."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from limitlab.explorer.controls import Control, FieldError, Switch
from limitlab.figures import Drawing
from limitlab.jobs.requests import Request
from limitlab.spec.write import to_dict

if TYPE_CHECKING:
    import xarray as xr

    from limitlab.explorer.sitting import Sitting
    from limitlab.problems.problem import Problem

__all__ = [
    "CAP",
    "Answers",
    "Ask",
    "Cost",
    "Page",
    "Remedy",
    "Table",
    "Values",
    "Words",
    "plain_times",
    "written_times",
]

Values = Mapping[str, Any]
Table = dict[str, Any]
CAP = 120.0  # seconds that a run may take unless longer ones are allowed


@dataclass(frozen=True)
class Ask:
    """A question to the library that follows the controls.

    Attributes
    ----------
    name
        Under which its answer is found in `Answers`.
    request
        What is asked. It is quick, unless there is also a ``coarse`` one.
    coarse
        A quick question whose answer stands until that of ``request`` is there; it is asked once the hand rests.
    optional
        Whether the figure can do without it: if there is no answer, its reason is no matter of the page.
    unseen
        Whether it is not in the figure, and serves to compare runs with: it is asked once the hand rests.
    """

    name: str
    request: Request
    coarse: Request | None = None
    optional: bool = False
    unseen: bool = False


@dataclass(frozen=True)
class Answers:
    """What is known at this moment.

    Attributes
    ----------
    known
        Answers by the names of their `Ask`: Datasets, or tables.
    coarse
        Names of those that are still coarse.
    runs
        The runs so far, or None; ``finished`` says whether they are all of them.
    reasons
        Why there is no answer, by name.
    """

    known: Mapping[str, Any] = field(default_factory=dict)
    coarse: frozenset[str] = frozenset()
    runs: "xr.Dataset | None" = None
    finished: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        """The answer, or None."""
        return self.known.get(name)


@dataclass(frozen=True)
class Cost:
    """What a run will cost: in words, and about how many seconds on one core."""

    words: str
    seconds: float

    @classmethod
    def of(cls, what: str, seconds: float) -> "Cost":
        """What is run, and its price in words."""
        about = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
        return cls(f"{what}, about {about}", seconds)


@dataclass(frozen=True)
class Remedy:
    """A change of controls that gives a theory: words for a button, and the values that it sets."""

    words: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Words:
    """What a page says.

    Attributes
    ----------
    title
        A sentence that says what is seen in the figure.
    going_on
        About three sentences that change with the regime.
    facts
        Pairs of a name and a value, shown as a small table.
    formula
        LaTeX, shown as a formula; "" for none.
    """

    title: str
    going_on: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    formula: str = ""


@dataclass(frozen=True)
class Page:
    """A question, its form, and what becomes of it. See ``limitlab/explorer/pages/__init__.py``.

    Attributes
    ----------
    name, question
        Its place in the address, and the question that is its title.
    short
        The question in a word or three, for the tab.
    controls
        The form, in order.
    problem
        The problem that the values describe; raises `FieldError`, or any error of limitlab. None: there is none.
    asks
        What follows the controls: ``asks(values, table)`` with the problem as plain tables gives `Ask` objects.
    runs
        The request of the run that a click starts, from the same; None if there is none.
    cost
        What that run will cost.
    figure, words
        The drawing and the words of values and answers. The drawing needs no title: that is ``words.title``.
    against, compared
        The name of the answer with which runs are compared ("" if they are not), and arguments of ``compare``.
    data
        Answers that can be taken home as numbers, by name, with what they are called.
    spoken
        What variables of results are called in the verdict; their own names if it is not said.
    plainly
        Names of the library in its errors, and what the form calls them.
    remedies
        Changes that lead to a theory where there is none, by the values and the reason why; those that would change
        nothing are not offered.
    references, trust
        Keys of references.bib, and what was checked and how far finite sizes are from the limit.
    snippet
        Python lines after ``problem = ...`` that make what is on screen.
    docs
        The page of the documentation, such as "sparse-targets" (one of `limitlab.explorer.drawn.reading.READ`).
    about
        A sentence for the front page.
    opens
        Entries of the gallery that this page shows, with the values that their cards set.
    near
        Entries of the gallery whose problem is of this page's kind, but not one that its form can set: their own page
        leads here.
    screen
        ``screen(values, answers, dark, narrow)`` gives a figure of Plotly in place of the drawing: films. The
        drawing is then what is downloaded.
    above
        ``above(sitting)`` adds elements of NiceGUI above the form: a place to drop a file. What it finds goes to
        ``sitting.set_extra(key, value)`` and is among the values, but never in the address.
    below
        ``below(sitting)`` adds elements under the figure: what plays a film.
    """

    name: str
    question: str
    short: str
    controls: tuple[Control, ...]
    problem: "Callable[[Values], Problem] | None"
    asks: Callable[[Values, Table], tuple[Ask, ...]]
    figure: Callable[[Values, Answers], Drawing]
    words: Callable[[Values, Answers], Words]
    snippet: Callable[[Values], str]
    runs: Callable[[Values, Table], Request | None] | None = None
    cost: Callable[[Values], Cost] | None = None
    against: str = ""
    compared: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    spoken: Mapping[str, str] = field(default_factory=dict)
    plainly: Mapping[str, str] = field(default_factory=dict)
    remedies: Callable[[Values, str], tuple[Remedy, ...]] = lambda values, reason: ()
    references: tuple[str, ...] = ()
    trust: tuple[str, ...] = ()
    docs: str = ""
    about: str = ""
    opens: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    near: tuple[str, ...] = ()
    screen: Callable[[Values, Answers, bool, bool], dict[str, Any]] | None = None
    above: "Callable[[Sitting], None] | None" = None
    below: "Callable[[Sitting], None] | None" = None

    @property
    def defaults(self) -> dict[str, Any]:
        return {control.key: control.default for control in self.controls}

    def control(self, key: str) -> Control:
        """The control of that name; KeyError if there is none."""
        return {control.key: control for control in self.controls}[key]

    def table(self, values: Values) -> Table:
        """The problem as plain tables; {} of a page without one."""
        return {} if self.problem is None else to_dict(self.problem(values))

    def address(self, values: Values) -> str:
        """The values as the end of an address: those that are not the defaults."""
        said = [
            (control.key, control.write(values[control.key]))
            for control in self.controls
            if values[control.key] != control.default
        ]
        return f"/{self.name}" + (f"?{urlencode(said)}" if said else "")

    def read(self, query: str) -> tuple[dict[str, Any], dict[str, str]]:
        """The values in the end of an address, and what was wrong with it by control. Unknown names are ignored."""
        values, faults = self.defaults, {}
        try:
            said = dict(parse_qsl(query.lstrip("?")[:8000], keep_blank_values=True, max_num_fields=200))
        except ValueError:  # more of them than any page has: no address of ours
            said = {}
        for control in self.controls:
            if control.key in said:
                try:
                    values[control.key] = control.read(said[control.key])
                except FieldError as error:
                    faults[control.key] = str(error)
        return values, faults

    def cures(self, values: Values, reason: str) -> tuple[Remedy, ...]:
        """The remedies that change something."""
        offered = self.remedies(values, reason)
        return tuple(one for one in offered if any(values.get(key) != value for key, value in one.changes.items()))

    def told(self, words: str) -> str:
        """Words of an error as the form would say them."""
        for name, plain in self.plainly.items():
            words = words.replace(name, plain)
        return re.sub(r" \(--[^)]*\)", "", words)  # what a command line would say

    def called(self, name: str) -> str:
        """What a part of a result, such as "fourier[z1*z2]", is called in words."""
        variable, _, part = name.partition("[")
        words = self.spoken.get(variable, variable.replace("_", " "))
        return f"{words} {part.rstrip(']')}" if part and variable in self.spoken else name if part else words

    @property
    def looks(self) -> tuple[str, ...]:
        """Switches change what is shown, never what is asked for."""
        return tuple(control.key for control in self.controls if isinstance(control, Switch))


def plain_times(times: Any) -> list[float]:
    """Times as a request holds them: numbers of six digits, so that equal ones are equal."""
    return [float(f"{float(t):.6g}") for t in times]


def written_times(expression: str) -> str:
    """The line of Python that makes the same times."""
    return f'times = np.array([float(f"{{t:.6g}}") for t in {expression}])'
