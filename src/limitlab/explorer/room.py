"""A page on the screen: the form, the figure, the verdict and the words, kept in step with a `Sitting`."""

import asyncio
import contextlib
import html
import itertools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nicegui import ui

from limitlab.errors import LimitlabError
from limitlab.explorer import downloads
from limitlab.explorer.description import CAP, Page, Words
from limitlab.explorer.drawn.screen import formula, to_screen
from limitlab.explorer.form import form_html, plain_values
from limitlab.explorer.frame import frame
from limitlab.explorer.sitting import Sitting

if TYPE_CHECKING:
    from limitlab.jobs.service import Service

__all__ = ["Room", "numbers"]

BETWEEN = 0.05  # seconds between two pictures
EARLY = 100  # moves that are remembered until the page is open
numbers = itertools.count(1)


class Room:
    """One visitor's view of a page."""

    def __init__(self, page: Page, service: "Service", query: str):
        self.page, self.service = page, service
        self.client = ui.context.client
        self.sitting = Sitting(page, service, f"visitor {next(numbers)}", self._changed)
        self.dark, self.narrow, self.ready = False, False, False
        self._early: list[dict[str, Any]] = []  # what was moved before the page was open
        self._drawn: tuple[Any, ...] = ()
        self._said: dict[str, Any] = {}
        self._next: asyncio.TimerHandle | None = None
        values, _ = page.read(query)
        frame(page.name, service)
        with ui.element("main").classes("desk").props('id="main"'):
            ui.html(html.escape(page.question), sanitize=False, tag="h1")
            with ui.element("div").classes("form").props('role="form" aria-label="Settings"'):
                if page.above is not None:
                    page.above(self.sitting)
                ui.html(form_html(page, values), sanitize=False)
            with ui.element("section").classes("stage").props('aria-label="Figure and verdict"'):
                self._stage()
            with ui.element("section").classes("about").props('aria-label="What is going on"'):
                self.going_on = ui.html("", sanitize=False)
                self.trust = ui.html(self._trust(), sanitize=False)
        ui.on("field", self._field)
        ui.on("address", self._address)
        ui.on("screen", self._screen)
        self.client.on_delete(self.sitting.leave)

    def _stage(self) -> None:
        self.title = ui.html("", sanitize=False, tag="h2").props('aria-live="polite"')
        with ui.element("div").classes("plot") as self.place:
            self.skeleton = ui.element("div").classes("skeleton")
            self.plot = ui.plotly({"data": [], "layout": {"xaxis": {"visible": False}, "yaxis": {"visible": False}}})
            self.plot.props('role="img" aria-label="The figure is on its way."')
        if self.page.below is not None:
            self.page.below(self.sitting)
        self.state = ui.html("", sanitize=False).classes("state").props('role="status" aria-live="polite"')
        with ui.element("div").classes("chips"):
            self.start = _button("run it", self.sitting.run, "first") if self.page.runs is not None else None
            self.stop = _button("cancel", self.sitting.cancel) if self.page.runs is not None else None
            self.retry = _button("try again", self.sitting.again)
            self.longer = _button("allow long runs", self._allow)
            self.remedies = ui.element("span").classes("chips")
            _button("copy Python", self._copy_python)
            if self.page.problem is not None:
                _button("problem file", self._problem_file)
            with _menu("figure"):
                _button("SVG", lambda: self._picture("svg"))
                _button("PNG", lambda: self._picture("png"))
            with _menu("data"):
                for name, words in (*self.page.data.items(), *((("", "runs"),) if self.page.runs is not None else ())):
                    _button(f"{words}, netCDF", lambda name=name: self._data(name, "nc"))
                    _button(f"{words}, CSV", lambda name=name: self._data(name, "csv"))
            _button("link", self._copy_link)
        self.price = ui.html("", sanitize=False).classes("price")

    # --- what comes from the browser ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Once the browser is there: its window, its theme, its address. One that left again is let go."""
        try:
            await self.client.connected(timeout=30)
            told = await self.client.run_javascript("return explorer.screen()", timeout=20)
        except TimeoutError:
            self.sitting.leave()
            return
        self.dark, self.narrow = bool(told["dark"]), bool(told["narrow"])
        self.ready = True
        self.sitting.open(str(told["query"]))
        early, self._early = self._early, []
        for each in early:  # a hand that was quicker than the page
            self._move(each)
        self._fill()
        self._changed()

    def _field(self, event: Any) -> None:
        told = event.args
        if isinstance(told, dict) and isinstance(told.get("key"), str) and isinstance(told.get("value"), str):
            if self.ready:
                self._move(told)
            elif len(self._early) < EARLY:
                self._early.append(told)

    def _move(self, told: dict[str, Any]) -> None:
        fine = self.sitting.set(told["key"], told["value"])
        if told.get("last") and fine:
            self._write_address()

    def _address(self, event: Any) -> None:
        self.sitting.open(str(event.args))
        self._fill()

    def _screen(self, event: Any) -> None:
        self.dark, self.narrow = bool(event.args["dark"]), bool(event.args["narrow"])
        self._changed()

    def _fill(self) -> None:
        self._script("explorer.fill", plain_values(self.page, self.sitting.values))

    def _write_address(self) -> None:
        self._script("explorer.address", self.page.address(self.sitting.values))

    def _script(self, function: str, value: Any) -> None:
        self.client.run_javascript(f"{function}({json.dumps(value)})")

    # --- what is shown --------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self.ready and self._next is None:
            self._next = asyncio.get_running_loop().call_later(BETWEEN, self._render)

    def _render(self) -> None:
        self._next = None
        if self.client.is_deleted:
            return
        with self.client:
            self._paint()

    def _paint(self) -> None:
        sitting, page = self.sitting, self.page
        answers = sitting.answers
        try:
            words = page.words(sitting.values, answers)
        except LimitlabError as error:
            words = Words(str(error))
        verdict = self._verdict_words()
        drawn = (sitting.version, self.dark, self.narrow)
        there = answers.runs is not None or any(hasattr(answer, "data_vars") for answer in answers.known.values())
        none = bool(sitting.failed or sitting.no_theory)  # what is on the screen belongs to other settings
        if drawn != self._drawn and (there or none) and sitting.asked:
            self._drawn = drawn
            self._draw(answers)
        if sitting.asked:
            self._say(self.title, html.escape(words.title))
            self.plot.props(f'aria-label="{html.escape(words.title + " " + verdict, quote=True)}"')
            self._say(self.going_on, _about(words))
        elif not self._drawn:  # an address that was opened so
            self._say(self.title, "These settings do not go together: a field says why.")
        self._say(self.state, self._state(verdict))
        self._show_chips()
        self._once("faults", sitting.faults, lambda: self._script("explorer.faults", sitting.faults))

    def _draw(self, answers: Any) -> None:
        if self.page.screen is not None:
            made = self.page.screen(self.sitting.values, answers, self.dark, self.narrow)
            panels = 2
        else:
            drawing = self.page.figure(self.sitting.values, answers)
            made = to_screen(drawing, dark=self.dark, narrow=self.narrow)
            panels = len(drawing.panels)
        self.skeleton.classes("gone")
        self.place.classes(
            add=" ".join(name for name, on in (("two", panels > 1), ("stacked", self.narrow)) if on),
            remove=" ".join(name for name, on in (("two", panels == 1), ("stacked", not self.narrow)) if on),
        )
        height = made["layout"].get("meta", {}).get("height")
        self._once("height", height, lambda: self.place.style(replace=f"height: {height:.0f}px" if height else ""))
        self.plot.figure = made
        self.plot.update()

    def _verdict_words(self) -> str:
        verdict = self.sitting.verdict
        if verdict is None:
            return ""
        entries = [entry for entry in verdict.get("entries", []) if entry["percent"] not in ("-", "")]
        if not entries:
            return str(verdict["verdict"])
        worst = max(entries, key=lambda entry: 0.0 if entry["z"] == "-" else abs(float(entry["z"])))
        head = "Theory and runs agree" if verdict["agrees"] else "Theory and runs differ"
        what = self.page.called(worst["worst"] if worst["worst"] not in ("-", "") else worst["variable"])
        gap = f"{what}{_moment(worst['where'])} by {abs(float(worst['percent'])):g} %"
        return f"{head}: least alike is {gap}; |z| is {float(verdict['max_z']):.1f}, and 4 is the bar."

    def _state(self, verdict: str) -> str:
        """One line, or two: what is being done, or what was found."""
        sitting = self.sitting
        job, lines = sitting.run_job, []
        if sitting.fault:
            lines.append(("bad", sitting.fault))
        if sitting.busy:
            lines.append(("warn", sitting.busy))
        if sitting.no_theory:
            lines.append(("warn", f"No theory here: {self.page.told(sitting.no_theory)} It can still be simulated."))
        elif sitting.failed:
            lines.append(("bad", self.page.told(sitting.failed)))
        elif sitting.compiling:
            words = "Compiling this kind of problem for the first time: some seconds; later answers come at once."
            lines.append(("", f"{words}{_bar(None)}"))
        elif sitting.late:
            lines.append(("", f"The curve of these settings is on its way; the one before is shown.{_bar(None)}"))
        elif sitting.answers.coarse:
            lines.append(("", "Coarse curve; the full one is on its way."))
        if job is not None:
            lines += self._run_lines(job)
        if verdict:
            agrees = sitting.verdict is not None and sitting.verdict.get("agrees")
            lines.append(("good" if agrees else "warn", verdict))
        made = []
        for kind, words in lines[:3]:
            text, _, bar = words.partition("<progress")
            made.append(f'<p class="{kind}">{html.escape(text)}</p>' + (f"<progress{bar}" if bar else ""))
        return "".join(made)

    def _run_lines(self, job: Any) -> list[tuple[str, str]]:
        asked = job.request.arguments.get("replicas", "")
        if job.status == "queued":
            return [("", f"Waiting for a worker.{_bar(None)}")]
        if job.status == "running":
            so_far = f", {self._runs_so_far()} of {asked} runs shown" if self.sitting.answers.runs is not None else ""
            return [("", f"Running: {100 * job.share:.0f} %{so_far}.{_bar(job.share)}")]
        if job.status == "cancelled":
            done = self._runs_so_far()
            return [("warn", f"Cancelled: {done} of {asked} runs stay." if done else "Cancelled: no run was done yet.")]
        if job.status in ("failed", "died"):
            return [("bad", self.page.told(job.words))]
        if self.sitting.ending:
            return [("warn", f"{self.sitting.ending}: the curves end there.")]
        return []

    def _runs_so_far(self) -> int:
        runs = self.sitting.answers.runs
        return int(runs.sizes.get("replica", 1)) if runs is not None and hasattr(runs, "sizes") else 0

    def _show_chips(self) -> None:
        sitting = self.sitting
        if self.start is not None and self.stop is not None:
            cost = sitting.cost
            long = cost is not None and sitting.too_long(cost)
            able = sitting.run_request is not None and not sitting.running and not long
            _able(self.start, able)
            _able(self.stop, sitting.running)
            words = "" if cost is None else cost.words
            if long:
                words += f". That is above the cap of {CAP:g} s: choose fewer runs or a smaller size, or allow it."
            self._say(self.price, html.escape(words))
        self.retry.set_visibility(sitting.died)
        self.longer.set_visibility(sitting.cost is not None and sitting.too_long(sitting.cost))
        stuck = sitting.no_theory or ("" if sitting.died else sitting.failed)
        remedies = self.page.cures(sitting.values, stuck) if stuck else ()
        self._once("remedies", [remedy.words for remedy in remedies], lambda: self._offer(remedies))

    def _allow(self) -> None:
        self.sitting.allow_long = True
        self._changed()

    def _offer(self, remedies: Any) -> None:
        self.remedies.clear()
        with self.remedies:
            for remedy in remedies:
                _button(remedy.words, lambda remedy=remedy: self._cure(remedy))

    def _cure(self, remedy: Any) -> None:
        self.sitting.set_many(dict(remedy.changes))
        self._fill()
        self._write_address()

    def _once(self, name: str, value: Any, do: Callable[[], Any]) -> None:
        if self._said.get(name) != value:
            self._said[name] = value
            do()

    def _say(self, element: ui.html, content: str) -> None:
        if element.content != content:
            element.content = content

    def _trust(self) -> str:
        trust = "".join(f"<p>{html.escape(words)}</p>" for words in self.page.trust)
        cites = "".join(f"<li>{html.escape(downloads.reference_words(key))}</li>" for key in self.page.references)
        where = html.escape(self.page.docs, quote=True)
        docs = f'<p><a href="/docs/{where}" target="_blank">More in the documentation</a></p>' if where else ""
        return f'<h3>Trust</h3>{trust}{docs}<h3>References</h3><ul class="cites">{cites}</ul>'

    # --- what is taken home ---------------------------------------------------------------------------------------

    def _whole(self) -> bool:
        """Whether there is something to take home; if not, it is said."""
        if not self.sitting.asked:
            ui.notify("These settings do not go together: see what is said at the field.")
        return self.sitting.asked

    async def _picture(self, kind: str) -> None:
        if not self._whole():
            return
        values, answers = dict(self.sitting.values), self.sitting.answers
        drawing = self.page.figure(values, answers)
        drawing.suptitle(self.page.words(values, answers).title)
        data = await asyncio.to_thread(downloads.as_picture, drawing, kind)
        self._hand_over(data, f"limitlab-{self.page.name}.{kind}")

    async def _data(self, name: str, kind: str) -> None:
        """The numbers of an answer, or of the runs ("")."""
        answers = self.sitting.answers
        chosen = answers.get(name) if name else answers.runs
        if chosen is None:
            ui.notify("There is no such curve at these settings." if name else "There are no runs yet: run it first.")
            return
        data = await asyncio.to_thread(downloads.as_netcdf if kind == "nc" else downloads.as_csv, chosen)
        self._hand_over(data, f"limitlab-{self.page.name}-{name or 'runs'}.{kind}")

    def _hand_over(self, data: bytes, name: str) -> None:
        """Give the visitor a file, unless they have left while it was made."""
        if not self.client.is_deleted:
            with self.client:
                ui.download.content(data, name)

    def _problem_file(self) -> None:
        if self._whole():
            self._hand_over(downloads.problem_file(self.page, self.sitting.values), f"limitlab-{self.page.name}.toml")

    async def _copy_python(self) -> None:
        if not self._whole():
            return
        text = downloads.python(self.page, self.sitting.values)
        with contextlib.suppress(TimeoutError):
            await self._copy(text, "The Python lines are on the clipboard.", "py")

    async def _copy_link(self) -> None:
        address = self.page.address(self.sitting.values)
        with contextlib.suppress(TimeoutError):  # the visitor has left
            here, moment = await self.client.run_javascript("return [location.origin, location.hash]", timeout=5)
            await self._copy(f"{here}{address}{moment}", "The link is on the clipboard.", "txt")

    async def _copy(self, text: str, words: str, kind: str) -> None:
        done = await self.client.run_javascript(f"return await explorer.copy({json.dumps(text)})", timeout=5)
        if done:
            ui.notify(words)
        else:  # no clipboard without https on another machine
            self._hand_over(text.encode(), f"limitlab-{self.page.name}.{kind}")


def _button(words: str, do: Callable[..., Any], more: str = "") -> ui.html:
    made = ui.html(html.escape(words), sanitize=False, tag="button").props('type="button"')
    made.on("click", lambda _: do())
    return made.classes(more)


def _able(button: ui.html, able: bool) -> None:
    if able == ("disabled" in button.props):
        button.props(remove="disabled") if able else button.props("disabled")


def _menu(words: str) -> Any:
    with ui.element("details").classes("menu"):
        ui.html(f"{html.escape(words)} ▾", sanitize=False, tag="summary")
        return ui.element("div").classes("menu-body")


def _moment(where: str) -> str:
    """Where in time a gap is, of what `compare` says; nothing if it is a wave over all times."""
    if where.startswith("mean over "):
        return f" in the {where}".replace("<=", "≤")
    return f" at {where}" if where.startswith(("t = ", "iteration ")) else ""


def _bar(share: float | None) -> str:
    return (
        '<progress aria-label="progress"></progress>'
        if share is None
        else (f'<progress aria-label="progress" max="1" value="{share:.3f}"></progress>')
    )


def _about(words: Words) -> str:
    lines = "".join(f"<p>{html.escape(one)}</p>" for one in words.going_on)
    facts = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in words.facts)
    made = f'<div class="formula">{formula(words.formula)}</div>' if words.formula else ""
    table = f'<dl class="facts">{facts}</dl>' if facts else ""
    return f"<h3>What is going on</h3>{lines}{made}{table}"
