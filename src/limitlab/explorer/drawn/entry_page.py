"""The page of a gallery entry that no question's page can show: claim, problem, and a run that draws and checks it."""

import html
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nicegui import ui

from limitlab.errors import LimitlabError
from limitlab.explorer.cards import Card
from limitlab.explorer.description import CAP, Cost
from limitlab.explorer.frame import frame
from limitlab.gallery import ENTRIES
from limitlab.gallery.entry import sizes_of
from limitlab.jobs.requests import Request
from limitlab.problems.problem import Problem
from limitlab.spec.write import dumps

if TYPE_CHECKING:
    from limitlab.jobs.service import Job, Service

__all__ = ["EntryRoom", "problem_files"]

SHOWN = 3  # problem files on the page


def problem_files(name: str) -> dict[str, str]:
    """The problems of an entry as TOML, as far as its module names them: those of ``problems()``, or ``problem()``."""
    module = sys.modules[ENTRIES[name].compute.__module__]
    made: dict[str, Any] = {}
    if hasattr(module, "problems"):
        made = {title: one if isinstance(one, Problem) else one[0] for title, one in module.problems().items()}
    elif hasattr(module, "problem"):
        asked = inspect.signature(module.problem).parameters.values()
        made = {} if any(one.default is one.empty for one in asked) else {name: module.problem()}
    files = {}
    for title, problem in list(made.items())[:SHOWN]:
        try:
            files[title] = dumps(problem).strip()
        except LimitlabError:  # one with a function of its own
            continue
    return files


class EntryRoom:
    """One visitor's view of an entry."""

    def __init__(self, card: Card, service: "Service", visitor: str):
        self.card, self.service, self.visitor = card, service, visitor
        self.client, self.job, self.allowed = ui.context.client, None, False
        self.request = Request("entry", None, {"name": card.name})
        entry = ENTRIES[card.name]
        seconds = entry.seconds if entry.quick is None else entry.quick.seconds
        self.cost = Cost.of("The entry at its quick sizes", seconds)
        frame("entry", service)
        with ui.element("main").classes("reading").props('id="main"'):
            ui.html(html.escape(card.title), sanitize=False, tag="h1")
            ui.html(html.escape(card.claim), sanitize=False, tag="p")
            self.figure = ui.html(_nothing(card.name), sanitize=False).classes("entry-figure")
            self.state = ui.html("", sanitize=False).classes("state").props('role="status" aria-live="polite"')
            with ui.element("div").classes("chips"):
                self.start = _button("run it", self.run, "first")
                self.stop = _button("cancel", self.cancel)
                self.longer = _button("allow long runs", self.allow)
            sizes = "" if entry.quick is None else f" Sizes: {sizes_of(entry)}."
            self.price = ui.html(html.escape(f"{self.cost.words}.{sizes}"), sanitize=False).classes("price")
            self.checks = ui.html("", sanitize=False)
            ui.html(_more(card), sanitize=False)
        self.client.on_delete(lambda: service.leave(visitor))
        self._show()
        if service.known(self.request):
            self._submit()

    @property
    def long(self) -> bool:
        return self.cost.seconds > CAP and not self.allowed

    @property
    def running(self) -> bool:
        return self.job is not None and not self.job.ended

    def allow(self) -> None:
        self.allowed = True
        self._show()

    def run(self) -> None:
        if not self.running and not self.long:
            self._submit()

    def cancel(self) -> None:
        if self.job is not None:
            self.service.cancel(self.job)

    def _submit(self) -> None:
        try:
            self.job = self.service.submit(self.request, self.visitor, self._heard, "entry")
        except LimitlabError as error:
            self.state.content = f'<p class="warn">{html.escape(str(error))}</p>'
        else:
            self._heard(self.job)

    def _heard(self, job: "Job") -> None:
        if self.client.is_deleted or (self.job is not None and job is not self.job):
            return
        self.job = job
        with self.client:
            if job.status == "done" and job.answer is not None:
                self._done(job.answer)
            self._show()

    def _done(self, answer: dict[str, Any]) -> None:
        alt = html.escape(f"{self.card.title}. {self.card.claim}", quote=True)
        self.figure.content = f'<img alt="{alt}" src="data:image/png;base64,{answer["picture"]}">'
        self.checks.content = _table(answer)

    def _show(self) -> None:
        words, kind, job = "", "", self.job
        if job is not None and job.status == "queued":
            words = "Waiting for a worker."
        elif job is not None and job.status == "running":
            words = f"Running: {100 * job.share:.0f} %."
        elif job is not None and job.status == "cancelled":
            words, kind = "Cancelled.", "warn"
        elif job is not None and job.status in ("failed", "died"):
            words, kind = job.words, "bad"
        elif job is not None and job.answer is not None:
            good = sum(check["ok"] for check in job.answer["checks"])
            word = "holds" if job.answer["ok"] else "fails"
            words = f"The claim {word}: {good} of {len(job.answer['checks'])} checks."
            kind = "good" if job.answer["ok"] else "bad"
        elif self.long:
            words = f"That is above the cap of {CAP:g} s: allow it, or run it in a terminal."
        elif job is None:
            words = "Above is its first panel, small. Run it to check the claim and draw the whole figure."
        bar = ""
        if job is not None and not job.ended:
            bar = f'<progress aria-label="progress" max="1" value="{job.share:.3f}"></progress>'
        self.state.content = f'<p class="{kind}">{html.escape(words)}</p>{bar}'
        for button, able in ((self.start, not self.running and not self.long), (self.stop, self.running)):
            button.props(remove="disabled") if able else button.props("disabled")
        self.longer.set_visibility(self.long)


def _button(words: str, do: Callable[[], None], kind: str = "") -> Any:
    return ui.html(words, sanitize=False, tag="button").props('type="button"').classes(kind).on("click", lambda _: do())


def _nothing(name: str) -> str:
    words = "The first panel of the figure, without its words"
    return f'<img alt="{words}" src="/explorer-static/cards/{name}.png" class="waiting">'


def _table(answer: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><td class="{"holds" if check["ok"] else "fails"}">{"holds" if check["ok"] else "FAILS"}</td>'
        f"<td>{html.escape(check['statement'])}</td><td>{html.escape(check['detail'])}</td></tr>"
        for check in answer["checks"]
    )
    left = "".join(f"<li>{html.escape(words)}</li>" for words in answer["left_out"])
    more = f"<p>These need the full sizes:</p><ul>{left}</ul>" if left else ""
    head = "<thead><tr><th>check</th><th>statement</th><th>measured</th></tr></thead>"
    return f"<h2>Checks</h2><table>{head}<tbody>{rows}</tbody></table>{more}"


def _more(card: Card) -> str:
    near = ""
    if card.near is not None:
        question = html.escape(card.near.question)
        near = f'<p>A problem of this kind can be moved by hand: <a href="/{card.near.name}">{question}</a></p>'
    files = "".join(
        f"<details><summary>{html.escape(title)}</summary><pre><code>{html.escape(text)}</code></pre></details>"
        for title, text in problem_files(card.name).items()
    )
    return (
        f"{near}<h2>At full size</h2><p>In a terminal, or in Python:</p><pre><code>limitlab run {card.name} --html"
        f"</code></pre><pre><code>import limitlab as ll\n\nverdict = ll.run({card.name!r})\n"
        f'verdict.figure.savefig("{card.name}.png")</code></pre>'
        + (f"<h2>Problem file{'s' * (files.count('<details>') > 1)}</h2>{files}" if files else "")
    )
