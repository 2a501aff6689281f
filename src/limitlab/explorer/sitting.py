"""One visitor at one page: values, what was asked, what came back. It knows no web, and computes nothing.

Theory follows the controls. A question is asked when the one before it has come back, and then with the newest values:
so every answer is seen, and none is late by more than one. A full answer that takes longer than the coarse one before
it is asked for when the hand rests, from the workers that do long work.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

from limitlab.errors import LimitlabError
from limitlab.explorer.controls import Choice, FieldError, Text
from limitlab.explorer.description import CAP, Answers, Ask, Cost, Page
from limitlab.jobs.requests import Request
from limitlab.jobs.service import BusyError, Job, Service

__all__ = ["Sitting"]

REST = 0.35  # seconds after which a hand rests
LATE = 0.8  # seconds after which it is said that the curve on the screen is that of the settings before
UNDEFINED = "LimitUndefinedError"


class Sitting:
    """The state of a page; ``show()`` is called whenever something that is seen has changed.

    Attributes
    ----------
    values
        What is set now, valid or the last that was.
    faults
        What is wrong, by control: what it says is no value, or does not go with the others. ``fault`` is what no
        control is to blame for.
    asked
        Whether there is a problem for the values: if not, what is on the screen stays.
    run_job
        The job of the run that was started, or None.
    verdict
        What `compare` said of finished runs: a table, or None.
    allow_long
        Whether runs above the cap may start.
    """

    def __init__(self, page: Page, service: Service, visitor: str, show: Callable[[], None]):
        self.page, self.service, self.visitor, self.show = page, service, visitor, show
        self.values: dict[str, Any] = page.defaults
        self._unread: dict[str, str] = {}  # what is no value, by control
        self._unfit: dict[str, str] = {}  # what does not go with the other values
        self.fault, self.busy = "", ""
        self.asked = False
        self.allow_long = False
        self.run_job: Job | None = None
        self.verdict: dict[str, Any] | None = None
        self.version = 0  # of what is drawn
        self._opened = False  # before, there is no problem that could be run
        self._epoch = 0  # grows when answers to come do not fit the values any more
        self._extra: dict[str, Any] = {}
        self._asks: dict[str, Ask] = {}
        self._table: dict[str, Any] = {}
        self._jobs: dict[str, Job] = {}
        self._since: dict[str, float] = {}  # when the jobs were submitted
        self._next: dict[str, Ask] = {}
        self._known: dict[str, tuple[str, Any]] = {}  # name -> key of its request, answer
        self._reasons: dict[str, tuple[str, str]] = {}  # name -> kind of error, words
        self._died: set[str] = set()
        self._resting: asyncio.TimerHandle | None = None
        self._runs: tuple[int, Any] | None = None
        self._compared = ""

    # --- what the visitor does ------------------------------------------------------------------------------------

    def open(self, query: str) -> None:
        """Take the values of an address."""
        values, self._unread = self.page.read(query)
        self._opened = True
        self._change({**values, **self._extra})

    def set(self, key: str, text: str) -> bool:
        """One control was moved; False if what it says is no value."""
        try:
            value = self.page.control(key).read(text)
        except KeyError:
            return False
        except FieldError as error:
            self._unread = {**self._unread, key: str(error)}
            self.show()
            return False
        self._unread = {name: words for name, words in self._unread.items() if name != key}
        self._change({**self.values, key: value})
        return self.asked

    def set_many(self, changes: dict[str, Any]) -> None:
        """Several at once, as a remedy does."""
        self._unread = {}
        self._change({**self.values, **changes})

    def set_extra(self, key: str, value: Any) -> None:
        """Something that is no control, such as a file: what was asked of the one before is not wanted any more."""
        for job in [job for job in self._jobs.values() if not job.ended]:
            self.service.cancel(job)
        self._extra[key] = value
        self._change({**self.values, **self._extra})

    def run(self) -> None:
        """Start the run that the values describe."""
        request, cost = self.run_request, self.cost
        if request is None or self.running or self.faults or (cost is not None and self.too_long(cost)):
            return
        self._ask_full()  # what runs are compared with comes first
        self._submit_runs(request)

    def cancel(self) -> None:
        if self.run_job is not None:
            self.service.cancel(self.run_job)

    def again(self) -> None:
        """Ask anew for what failed because a worker died."""
        if self.run_job is not None and self.run_job.status == "died":
            self.run_job = None
            self.run()
        self._follow()

    def leave(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        self.service.leave(self.visitor)

    # --- what is seen ---------------------------------------------------------------------------------------------

    @property
    def faults(self) -> dict[str, str]:
        return {**self._unfit, **self._unread}

    @property
    def answers(self) -> Answers:
        """What is known for the figure and the words."""
        known = {name: answer for name, (_, answer) in self._known.items()}
        coarse = {name for name, (key, _) in self._known.items() if name in self._asks and self._is_coarse(name, key)}
        reasons = {name: words for name, (_, words) in self._reasons.items()}
        finished = self.run_job is not None and self.run_job.status == "done"
        return Answers(known, frozenset(coarse), None if self._runs is None else self._runs[1], finished, reasons)

    @property
    def run_request(self) -> Request | None:
        """What a click on *run it* would ask for."""
        if self.page.runs is None or not self._opened or self.faults or self.fault:
            return None
        try:
            return self.page.runs(self.values, self._table)
        except LimitlabError:
            return None

    @property
    def cost(self) -> Cost | None:
        return None if self.page.cost is None else self.page.cost(self.values)

    def too_long(self, cost: Cost) -> bool:
        return cost.seconds > CAP and not self.allow_long

    @property
    def running(self) -> bool:
        return self.run_job is not None and not self.run_job.ended

    @property
    def no_theory(self) -> str:
        """Why there is no theory for these values; "" if there is one or it is not known yet."""
        for name, (kind, words) in self._reasons.items():
            if kind == UNDEFINED and name in self._asks and not self._asks[name].optional:
                return words
        return ""

    @property
    def failed(self) -> str:
        """What went wrong otherwise, in words."""
        for name, (kind, words) in self._reasons.items():
            if kind != UNDEFINED and name in self._asks and not self._asks[name].optional:
                return words
        return ""

    @property
    def died(self) -> bool:
        return bool(self._died) or (self.run_job is not None and self.run_job.status == "died")

    @property
    def waiting(self) -> bool:
        """Whether the figure is about to change without a run."""
        return any(not job.ended for job in self._jobs.values())

    @property
    def compiling(self) -> bool:
        """Whether nothing is known yet of something that is being computed and will be seen."""
        seen = {name for name, ask in self._asks.items() if not ask.unseen} - self._known.keys()
        return any(not job.ended and name.partition(":")[0] in seen for name, job in self._jobs.items())

    @property
    def late(self) -> bool:
        """Whether a curve that is seen has been waited for: the one on the screen is of other settings."""
        now, seen = asyncio.get_running_loop().time(), {name for name, ask in self._asks.items() if not ask.unseen}
        return any(not self._jobs[name].ended and now - self._since[name] >= LATE for name in seen & self._since.keys())

    @property
    def ending(self) -> str:
        """How runs ended, if not well."""
        runs = None if self._runs is None else self._runs[1]
        if runs is None or "status" not in runs:
            return ""
        status = np.atleast_1d(runs["status"].values)
        bad = status != "ok"
        if not bad.any():
            return ""
        first = f" from t = {np.min(np.atleast_1d(runs['end_time'].values)[bad]):.3g}" if "end_time" in runs else ""
        return f"{bad.sum()} of {status.size} runs {' / '.join(sorted(set(status[bad].tolist())))}{first}"

    # --- how theory follows ---------------------------------------------------------------------------------------

    def _change(self, values: dict[str, Any]) -> None:
        before, self.values = self.values, values
        shape = [c.key for c in self.page.controls if isinstance(c, (Choice, Text))] + list(self._extra)
        if any(before.get(key) != values.get(key) for key in shape):
            self._known.clear()
            self._epoch += 1
        self._follow()

    def _follow(self) -> None:
        self.fault = self.busy = ""
        self._unfit, self.asked = {}, False
        try:
            self._table = self.page.table(self.values)
            asks = {ask.name: ask for ask in self.page.asks(self.values, self._table)}
        except FieldError as error:
            self._unfit = {error.key: str(error)}
            return self.show()
        except LimitlabError as error:
            self.fault = str(error)
            return self.show()
        self._asks, self.asked = asks, True
        self._known = {name: known for name, known in self._known.items() if name in asks}
        self._reasons = {}
        self._died.clear()  # what died is asked anew here
        self._forget_full()
        for ask in asks.values():
            self._ask(ask)
        self._follow_runs()
        self.version += 1
        self.show()
        return None

    def _ask(self, ask: Ask) -> None:
        known = self._known.get(ask.name)
        if known is not None and known[0] == ask.request.key:
            self._next.pop(ask.name, None)
            return
        if self.service.known(ask.request):
            self._submit(ask, ask.request)
            return
        if ask.unseen:
            self._rest()
            return
        first = ask.request if ask.coarse is None else ask.coarse
        job = self._jobs.get(ask.name)
        if job is not None and not job.ended:
            if job.request != first:
                self._next[ask.name] = ask
            return
        if ask.coarse is not None and known is not None and known[0] == first.key:
            self._rest()
            return
        self._submit(ask, first)

    def _submit(self, ask: Ask, request: Request, slot: str = "", slow: bool = False) -> None:
        self._next.pop(ask.name, None)
        epoch = self._epoch

        def watch(job: Job) -> None:
            self._came(ask, job, epoch == self._epoch)

        try:
            job = self.service.submit(request, self.visitor, watch, slot, slow=slow)
        except BusyError as error:
            self.busy = str(error)
            return
        except LimitlabError as error:
            self._reasons[ask.name] = ("", str(error))
            return
        name = f"{ask.name}:full" if slow else ask.name
        self._jobs[name] = job
        if not job.ended:
            loop = asyncio.get_running_loop()
            self._since[name] = loop.time()
            loop.call_later(LATE, self.show)

    def _came(self, ask: Ask, job: Job, fits: bool) -> None:
        if not job.ended:
            return
        name, now = ask.name, self._asks.get(ask.name)
        if not fits:
            pass
        elif job.status == "done":
            if now is not None and (job.request == now.request or not self._is_full(name)):
                self._known[name] = (job.request.key, job.answer if job.answer is not None else job.result)
                self.version += 1
            self._reasons.pop(name, None)
        elif job.status == "died":
            self._died.add(name)
            self._reasons[name] = ("died", job.words)
        elif job.status == "failed":
            self._reasons[name] = (job.kind, job.words)
            if now is not None and job.request in (now.request, now.coarse):
                self._known.pop(name, None)
                self.version += 1
        if (waiting := self._next.pop(name, None)) is not None and now is not None:
            asyncio.get_running_loop().call_soon(self._ask, waiting)
        elif job.status == "done" and now is not None and now.coarse is not None and job.request == now.coarse:
            self._rest()
        self._compare()
        self.show()

    def _is_full(self, name: str) -> bool:
        return name in self._asks and name in self._known and self._known[name][0] == self._asks[name].request.key

    def _is_coarse(self, name: str, key: str) -> bool:
        coarse = self._asks[name].coarse  # an answer of other settings is neither coarse nor full: it is late
        return coarse is not None and key == coarse.key

    def _rest(self) -> None:
        """Ask for the full answers once nothing has moved for a while."""
        if self._resting is not None:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(REST, self._rested)

    def _forget_full(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        for name, job in self._jobs.items():
            if name.endswith(":full") and not job.ended and job.request not in [a.request for a in self._asks.values()]:
                self.service.cancel(job)

    def _rested(self) -> None:
        """Not before every first answer of these settings is there: one worker may be all there is."""
        if self._next or any(not job.ended for name, job in self._jobs.items() if not name.endswith(":full")):
            self._rest()
        else:
            self._ask_full()

    def _ask_full(self) -> None:
        for ask in self._asks.values():
            job = self._jobs.get(f"{ask.name}:full")
            asked = job is not None and not job.ended and job.request == ask.request
            if (ask.coarse is not None or ask.unseen) and not self._is_full(ask.name) and not asked:
                self._submit(ask, ask.request, f"{ask.name}:full", slow=True)

    # --- runs -----------------------------------------------------------------------------------------------------

    def _follow_runs(self) -> None:
        """Runs of other values are not shown; those that are known already are."""
        request = self.run_request
        if self.run_job is not None and (request is None or self.run_job.request != request):
            self.service.cancel(self.run_job)
            self.run_job, self._runs, self.verdict, self._compared = None, None, None, ""
        if self.run_job is None and request is not None and self.service.known(request):
            self._submit_runs(request)

    def _submit_runs(self, request: Request) -> None:
        self._runs, self.verdict, self._compared = None, None, ""
        try:
            self.run_job = self.service.submit(request, self.visitor, self._ran, "runs")
        except LimitlabError as error:
            self.busy = str(error)
        else:
            self._ran(self.run_job)
        self.show()

    def _ran(self, job: Job) -> None:
        if self.run_job is not None and job is not self.run_job:
            return
        self.run_job = job
        if job.arrived and (self._runs is None or self._runs[0] != job.arrived):
            self._runs = (job.arrived, job.answer if job.answer is not None else job.result)
            self.version += 1
        if job.ended:
            self.version += 1
            self._compare()
        self.show()

    def _compare(self) -> None:
        against, job = self.page.against, self.run_job
        if not against or job is None or job.status != "done" or not self._is_full(against):
            return
        sides = (job.request.key, self._known[against][0])
        request = Request("compare", None, dict(self.page.compared), sides=sides)
        if self._compared == request.key:
            return
        self._compared = request.key

        def heard(told: Job) -> None:
            if told.ended and self._compared == request.key:
                self.verdict = told.answer if told.status == "done" else {"word": "", "verdict": told.words}
                self.show()

        try:
            self.service.submit(request, self.visitor, heard, "compare")
        except LimitlabError as error:
            self.verdict = {"word": "", "verdict": str(error)}
