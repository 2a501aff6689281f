"""One visitor at a page without web and without computing: what is asked when, and what is shown of what comes back."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from limitlab.explorer.controls import FieldError, Number, Text
from limitlab.explorer.description import Answers, Ask, Cost, Page, Words
from limitlab.explorer.sitting import LATE, REST, Sitting
from limitlab.figures import new_figure
from limitlab.jobs.requests import Request
from limitlab.jobs.service import Job
from limitlab.problems.problem import Problem
from limitlab.problems.sparse.target import SparseTarget


def ask(values, kind):
    return Request("staircase", None, {"target": values["target"], "kind": kind, "x": values["x"]})


PAGE = Page(
    name="test",
    question="Is it so?",
    short="test",
    controls=(Number("x", "x", "x", "A number.", 0.5), Text("target", "target", "h", "A target.", "z1")),
    problem=lambda values: Problem(teacher=SparseTarget(values["target"])),
    asks=lambda values, table: (Ask("theory", ask(values, "full"), ask(values, "coarse")),),
    runs=lambda values, table: Request("simulate", table, {"d": 10, "replicas": 8, "x": values["x"]}),
    cost=lambda values: Cost("8 runs", 1e6 if values["x"] > 0.8 else 1.0),
    against="theory",
    figure=lambda values, answers: new_figure()[0],
    words=lambda values, answers: Words("It is so."),
    snippet=lambda values: "",
)


class Bench:
    """Stands for the service: keeps what was submitted, and answers when it is told to."""

    def __init__(self):
        self.asked, self.slow, self.cancelled, self.cache, self.left = [], [], [], set(), False

    def submit(self, request, visitor="", watch=None, slot="", slow=False):
        job = Job(request, visitor, slot, watch)
        job._tell(status="running")
        self.asked.append(job)
        if slow:
            self.slow.append(job)
        return job

    def known(self, request):
        return request.key in self.cache

    def cancel(self, job):
        self.cancelled.append(job)
        job._tell(status="cancelled")

    def leave(self, visitor):
        self.left = True


def sitting(page=PAGE):
    bench, seen = Bench(), []
    made = Sitting(page, bench, "somebody", lambda: seen.append(1))
    return made, bench


def kinds(jobs):
    return [(job.request.verb, job.request.arguments.get("kind"), job.request.arguments.get("x")) for job in jobs]


def done(job, value=1.0):
    job._tell(status="done", answer={"value": value})


def test_the_newest_values_are_asked_once_the_answer_before_them_is_there():
    async def scene():
        one, bench = sitting()
        one.open("")
        for text in ("0.6", "0.61", "0.62"):
            one.set("x", text)
        assert kinds(bench.asked) == [("staircase", "coarse", 0.5)]
        done(bench.asked[0])
        await asyncio.sleep(0)
        assert kinds(bench.asked)[1:] == [("staircase", "coarse", 0.62)]  # those between were never asked
        assert one.answers.get("theory") == {"value": 1.0}  # the old curve stands meanwhile

    asyncio.run(scene())


def test_the_full_answer_is_asked_when_the_hand_rests_and_kept_from_the_quick_worker():
    async def scene():
        one, bench = sitting()
        one.open("")
        done(bench.asked[0])
        assert one.answers.coarse == {"theory"} and not bench.slow
        await asyncio.sleep(REST + 0.1)
        assert kinds(bench.slow) == [("staircase", "full", 0.5)]
        one.set("x", "0.7")  # the hand moves again
        assert bench.cancelled == bench.slow
        done(bench.asked[-1])
        await asyncio.sleep(REST + 0.1)
        done(bench.slow[-1], 2.0)
        assert one.answers.get("theory") == {"value": 2.0} and not one.answers.coarse

    asyncio.run(scene())


def test_a_curve_that_is_waited_for_is_said_to_be_on_its_way():
    async def scene():
        one, bench = sitting()
        one.open("")
        done(bench.asked[0])
        one.set("x", "0.6")
        assert not one.late  # a moment is no matter
        await asyncio.sleep(LATE + 0.05)
        assert one.late and not one.compiling
        done(bench.asked[-1])
        assert not one.late

    asyncio.run(scene())


def test_full_answers_wait_for_every_first_one_and_one_of_other_settings_is_not_called_coarse():
    async def scene():
        def asks(values, table):
            left = Ask("left", ask(values, "full"), ask(values, "coarse"))
            return left, Ask("right", ask(values, "wide"), ask(values, "few"))

        one, bench = sitting(replace(PAGE, asks=asks))
        one.open("")
        left, right = bench.asked
        done(left)
        await asyncio.sleep(REST + 0.1)
        assert not bench.slow and one.answers.coarse == {"left"}  # one worker may be all there is
        done(right)
        await asyncio.sleep(2 * REST + 0.1)
        assert [kind for _, kind, _ in kinds(bench.slow)] == ["full", "wide"]
        one.set("x", "0.6")
        assert not one.answers.coarse  # both curves are of 0.5
        done(bench.asked[-1])
        assert one.answers.coarse == {"right"}

    asyncio.run(scene())


def test_another_file_ends_what_was_asked_of_the_one_before():
    async def scene():
        one, bench = sitting()
        one.open("")
        one.set_extra("file", ("t.csv", b"a,y"))
        assert bench.cancelled == [bench.asked[0]] and len(bench.asked) == 2

    asyncio.run(scene())


def test_what_is_not_seen_is_asked_when_the_hand_rests_and_holds_nothing_up():
    async def scene():
        page = replace(PAGE, asks=lambda values, table: (Ask("theory", ask(values, "full"), unseen=True),))
        one, bench = sitting(page)
        one.open("")
        for text in ("0.6", "0.7"):
            one.set("x", text)
        assert not bench.asked and not one.compiling
        await asyncio.sleep(REST + 0.1)
        assert kinds(bench.slow) == [("staircase", "full", 0.7)] and not one.compiling
        one.run()  # compared with it once both are there
        runs = next(job for job in bench.asked if job.request.verb == "simulate")
        done(runs)
        done(bench.slow[0])
        assert bench.asked[-1].request.verb == "compare"
        seen, _ = sitting()
        seen.open("")
        assert seen.compiling  # the control

    asyncio.run(scene())


def test_an_answer_of_another_target_is_not_shown():
    async def scene():
        one, bench = sitting()
        one.open("")
        one.set("target", "z1*z2")
        done(bench.asked[0], 7.0)
        await asyncio.sleep(0)
        assert one.answers.get("theory") is None
        done(bench.asked[1], 8.0)
        assert one.answers.get("theory") == {"value": 8.0}

    asyncio.run(scene())


def test_bad_input_is_said_at_its_field_and_nothing_is_asked():
    async def scene():
        one, bench = sitting()
        one.open("")
        done(bench.asked[0])
        assert not one.set("x", "seven") and "number" in one.faults["x"]
        assert len(bench.asked) == 1 and one.answers.get("theory") is not None and one.run_request is None
        one.run()
        assert len(bench.asked) == 1
        assert one.set("x", "0.5") and not one.faults
        assert not one.set("unknown", "1")

    asyncio.run(scene())


def _together(values):
    if values["target"] == "z2" and values["x"] > 0.5:
        raise FieldError("x", "Too large for this target.")
    return PAGE.problem(values)


def test_what_does_not_go_together_is_right_again_when_the_other_field_is_changed():
    async def scene():
        one, _ = sitting(replace(PAGE, problem=_together))
        one.open("?x=0.7")
        assert not one.set("target", "z2") and one.faults == {"x": "Too large for this target."} and not one.asked
        assert one.set("target", "z1") and not one.faults and one.asked and one.run_request is not None
        one.set("target", "z2")
        assert one.set("x", "0.4") and not one.faults

    asyncio.run(scene())


def test_an_address_with_a_bad_value_shows_the_usual_one_and_says_so():
    async def scene():
        one, bench = sitting()
        one.open("?x=seven&target=z2")
        assert list(one.faults) == ["x"] and one.asked and one.values["x"] == 0.5 and one.values["target"] == "z2"
        assert kinds(bench.asked) == [("staircase", "coarse", 0.5)]  # there is something to draw
        assert one.set("target", "z1") and list(one.faults) == ["x"]  # others move on meanwhile

    asyncio.run(scene())


def test_no_theory_is_told_and_it_can_still_be_simulated():
    async def scene():
        one, bench = sitting()
        one.open("")
        bench.asked[0]._tell(status="failed", kind="LimitUndefinedError", words="It needs more.")
        assert one.no_theory == "It needs more." and not one.failed
        one.run()
        assert bench.asked[-1].request.verb == "simulate"
        other, bench = sitting()
        other.open("")
        bench.asked[0]._tell(status="failed", kind="ConvergenceError", words="It did not settle.")
        assert other.failed == "It did not settle." and not other.no_theory

    asyncio.run(scene())


def test_runs_arrive_stay_when_cancelled_and_go_with_other_values():
    async def scene():
        one, bench = sitting()
        one.open("")
        one.run()
        job = bench.asked[-1]
        some = xr.Dataset({"risk": (("replica",), np.ones(2)), "status": (("replica",), ["ok", "diverged"])})
        job._tell(partial=True, answer=None, _data=b"")
        one._runs = (job.arrived, some)
        assert one.running and one.answers.runs is some and not one.answers.finished
        assert one.ending == "1 of 2 runs diverged"
        one.cancel()
        assert not one.running and one.answers.runs is some
        one.set("x", "0.55")
        assert one.answers.runs is None and one.run_job is None

    asyncio.run(scene())


def test_a_heavy_run_is_capped_unless_allowed():
    async def scene():
        one, bench = sitting()
        one.open("?x=0.9")
        one.run()
        assert all(job.request.verb != "simulate" for job in bench.asked)
        one.allow_long = True
        one.run()
        assert bench.asked[-1].request.verb == "simulate"

    asyncio.run(scene())


def test_an_address_never_starts_a_run_but_shows_one_that_is_known():
    async def scene():
        one, bench = sitting()
        one.open("?x=0.3")
        assert all(job.request.verb != "simulate" for job in bench.asked)
        two, bench = sitting()
        bench.cache.add(PAGE.runs({**PAGE.defaults, "x": 0.3}, PAGE.table(PAGE.defaults)).key)
        two.open("?x=0.3")
        assert bench.asked[-1].request.verb == "simulate"

    asyncio.run(scene())


def test_a_worker_that_died_is_told_and_asked_again():
    async def scene():
        one, bench = sitting()
        one.open("")
        bench.asked[0]._tell(status="died", words="The process ended.")
        assert one.died and one.failed == "The process ended."
        one.again()
        assert not one.died and len(bench.asked) == 2
        bench.asked[1]._tell(status="died", words="The process ended.")
        assert one.died
        one.set("x", "0.6")  # asks anew as well: there is nothing left to try again
        assert not one.died and not one.failed and len(bench.asked) == 3
        one.leave()
        assert bench.left

    asyncio.run(scene())


def test_runs_are_compared_with_the_full_answer_only():
    async def scene():
        one, bench = sitting()
        one.open("")
        one.run()  # asks for the full answer too
        runs = next(job for job in bench.asked if job.request.verb == "simulate")
        done(bench.asked[0])
        done(runs)
        assert all(job.request.verb != "compare" for job in bench.asked)
        done(bench.slow[-1])
        compared = bench.asked[-1]
        assert compared.request.verb == "compare" and compared.request.sides[0] == runs.request.key
        compared._tell(status="done", answer={"word": "AGREES", "agrees": True, "verdict": "yes"})
        assert one.verdict["agrees"]

    asyncio.run(scene())


def test_a_page_without_runs_has_none():
    one, _ = sitting(replace(PAGE, runs=None))
    assert one.run_request is None and Answers().get("theory") is None


@pytest.mark.parametrize("theme", [":root", ':root[data-theme="dark"]'])
def test_words_stand_out_from_their_paper_in_both_themes(theme):
    """Contrast of at least 4.5 (WCAG AA); a colour that fails is noticed."""
    import re
    from importlib.resources import files

    text = files("limitlab.explorer").joinpath("static/explorer.css").read_text(encoding="utf-8")
    body = text.partition(theme + " {")[2].partition("}")[0]
    colour = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", body))

    def light(name):
        parts = [int(colour[name][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    def contrast(one, two):
        low, high = sorted((light(one), light(two)))
        return (high + 0.05) / (low + 0.05)

    for paper in ("paper", "panel"):
        for ink in ("ink", "soft", "accent", "good", "bad", "warn"):
            assert contrast(ink, paper) >= 4.5, (ink, paper)
        assert contrast("focus", paper) >= 3
    assert contrast("on-accent", "accent") >= 4.5
    assert contrast("line", "paper") < 4.5  # the control: it is no colour for words
