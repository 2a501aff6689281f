"""Jobs without a browser: answers, progress, cancelling, fair turns, workers that die, hostile requests."""

import asyncio
import os
import signal
import threading
import time

import numpy as np
import pytest

import limitlab as ll
from limitlab.errors import InputError
from limitlab.jobs.answers import from_bytes, to_bytes
from limitlab.jobs.requests import Request
from limitlab.jobs.service import BusyError, Service
from limitlab.jobs.tables import check_table
from limitlab.numerics.machine import resident
from limitlab.spec.write import to_dict

TIMES = [0.0, 0.5, 1.0]
PROBLEM = ll.Problem(
    teacher=ll.Committee(width=1, activation="erf"),
    channel=ll.GaussianNoise(variance=0.1),
    student=ll.Committee(width=1, activation="erf"),
    loss=ll.SquareLoss(),
    start=ll.InformedStart(overlap=0.2),
    algorithm=ll.OnlineSGD(learning_rate=0.5),
)
TABLE = to_dict(PROBLEM)


def theory(overlap=0.2):
    start = {**TABLE["start"], "overlap": overlap}
    return Request("predict", {**TABLE, "start": start}, {"limit": {"kind": "OverlapODE"}, "times": TIMES})


def runs(d=50, replicas=8, times=TIMES, seed=0):
    return Request("simulate", TABLE, {"d": d, "times": times, "replicas": replicas, "seed": seed})


LONG = runs(d=20000, replicas=4, times=[0.0, 1e3])


class Laboratory:
    """A service on a loop in a thread of its own, as a server has it."""

    def __init__(self, **options):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.service = Service(**options)
        self.do(self.service.__aenter__())

    def do(self, what):
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(120)

    def submit(self, request, *args, **options):
        async def inside():
            return self.service.submit(request, *args, **options)

        return self.do(inside())

    def cancel(self, job):
        async def inside():
            self.service.cancel(job)

        self.do(inside())

    def wait(self, job):
        return self.do(job.wait())

    def until(self, held, seconds=60):
        end = time.monotonic() + seconds
        while not held():
            assert time.monotonic() < end, "it took too long"
            time.sleep(0.02)

    def close(self):
        self.do(self.service.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


@pytest.fixture(scope="module")
def lab():
    made = Laboratory(workers=2, queue=8)
    yield made
    pids = made.service.pids
    made.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_answer_is_that_of_the_verb(lab):
    job = lab.wait(lab.submit(theory()))
    assert job.status == "done", job.words
    here = ll.predict(PROBLEM, ll.OverlapODE(), TIMES)
    np.testing.assert_array_equal(job.result["risk"], here["risk"])
    assert job.result.attrs["spec_hash"] == here.attrs["spec_hash"]
    assert job.result["risk"].attrs == here["risk"].attrs


def test_the_same_question_is_not_computed_twice(lab):
    first = lab.wait(lab.submit(theory(0.31)))
    again = lab.submit(theory(0.31), "somebody else")
    assert not first.cached and again.cached and again.status == "done"
    np.testing.assert_array_equal(first.result["risk"], again.result["risk"])
    assert not lab.submit(theory(0.32)).cached


def test_runs_come_in_before_they_are_all_done(lab):
    seen = []
    job = lab.submit(runs(replicas=32), watch=lambda job: seen.append((job.status, job.partial, job._data)))
    lab.wait(job)
    partial = [from_bytes(data) for status, part, data in seen if part]
    whole = job.result
    assert list(dict.fromkeys(p.sizes["replica"] for p in partial)) == list(range(4, 32, 4)) and not job.partial
    for part in partial:
        np.testing.assert_array_equal(part["risk"], whole["risk"].isel(replica=slice(part.sizes["replica"])))
    here = ll.simulate(PROBLEM, 50, TIMES, 32, 0)
    assert whole.drop_attrs(deep=False).identical(here.drop_attrs(deep=False))


def test_a_run_is_cancelled_and_its_worker_lives(lab):
    shares = []
    job = lab.submit(LONG, watch=lambda job: shares.append(job.share))
    lab.until(lambda: job.share > 0)
    pids = lab.service.pids
    lab.cancel(job)
    assert job.status == "cancelled"
    assert lab.wait(lab.submit(runs(seed=3))).status == "done"
    assert lab.service.pids == pids  # it heeded the cancel at its next word
    assert shares == sorted(shares)


def test_a_cancel_that_is_not_heeded_kills_and_is_no_crash(lab, monkeypatch):
    """In the middle of compiled code nothing is heard: stood for by a process that is stopped."""
    job = lab.submit(LONG)
    lab.until(lambda: job.share > 0)
    pid = lab.service._tasks[LONG.key].worker.process.pid
    os.kill(pid, signal.SIGSTOP)
    lab.cancel(job)
    assert job.status == "cancelled"
    lab.until(lambda: pid not in lab.service.pids)
    lab.until(lambda: lab.service.warm)
    assert lab.wait(lab.submit(runs(seed=4))).status == "done"
    assert job.status == "cancelled" and not job.words


def test_a_worker_that_is_killed_is_replaced_and_its_job_says_so(lab):
    job = lab.submit(LONG)
    lab.until(lambda: job.status == "running")
    pid = lab.service._tasks[LONG.key].worker.process.pid
    os.kill(pid, signal.SIGKILL)
    lab.wait(job)
    assert job.status == "died" and "another one takes its place" in job.words
    lab.until(lambda: lab.service.warm and len(lab.service.pids) == 2)
    assert pid not in lab.service.pids
    assert lab.wait(lab.submit(theory(0.41))).status == "done"


def test_theory_is_not_kept_waiting_by_long_runs(lab):
    long = [lab.submit(runs(d=20000, replicas=2, times=[0.0, 1e3], seed=s), f"heavy {s}") for s in (1, 2)]
    lab.until(lambda: any(job.status == "running" for job in long))
    assert lab.wait(lab.submit(theory(0.42), "light")).status == "done"
    assert sorted(job.status for job in long) == ["queued", "running"]
    for job in long:
        lab.cancel(job)


def test_a_long_run_starts_among_many_moves_and_its_death_is_told(lab):
    """Six visitors, each with a new question as soon as the last one is answered, and one with a run."""
    left, moves = iter(range(4000)), []
    stopped = threading.Event()

    def go_on(visitor):
        def heard(job):
            if job.ended and not stopped.is_set():
                moves.append(job.status)
                lab.service.submit(theory(0.1 + 1e-4 * next(left)), visitor, heard)

        return heard

    for k in range(6):
        lab.submit(theory(0.1 + 1e-4 * next(left)), f"light {k}", go_on(f"light {k}"))
    try:
        job = lab.submit(LONG, "heavy")
        lab.until(lambda: job.share > 0)
        before = len(moves)
        lab.until(lambda: len(moves) > before + 20)  # nor does it keep the others waiting
        os.kill(lab.service._tasks[LONG.key].worker.process.pid, signal.SIGKILL)
        lab.wait(job)
        assert job.status == "died" and "another one takes its place" in job.words
        again = lab.submit(runs(seed=31), "heavy")
        assert lab.wait(again).status == "done"
        assert set(moves) == {"done"}
    finally:
        stopped.set()
        lab.until(lambda: not lab.service._tasks)


def test_turns_are_fair_and_the_queue_is_bounded(lab):
    first = lab.submit(LONG, "greedy")
    lab.until(lambda: first.status == "running")
    order = []

    def note(job):
        if job.status == "running" and job not in order:
            order.append(job)

    two = [lab.submit(runs(seed=s), "greedy", note) for s in (11, 12)]
    with pytest.raises(BusyError, match="Too many requests"):
        lab.submit(runs(seed=13), "greedy")
    other = lab.submit(runs(seed=14), "modest", note)
    lab.cancel(first)
    for job in (*two, other):
        assert lab.wait(job).status == "done"
    assert order == [two[0], other, two[1]]  # not first come, first served


def test_twenty_visitors_with_a_page_of_questions_each_find_room_in_the_queue():
    """And one with a run beside them: no worker is there yet, so that all of it waits."""
    service = Service(workers=2)
    for visitor in range(20):
        for question in range(6):
            service.submit(theory(0.1 + 1e-3 * visitor + 1e-4 * question), f"visitor {visitor}")
    assert service.submit(LONG, "heavy").status == "queued"
    for question in range(64):
        service.submit(theory(0.2 + 1e-6 * question), "greedy")
    with pytest.raises(BusyError):
        service.submit(theory(0.3), "greedy")
    assert service.submit(runs(seed=99), "another").status == "queued", "one who asks for too much keeps nobody out"


def test_the_newest_move_of_a_slider_wins(lab):
    hold = lab.submit(LONG, "x")
    lab.until(lambda: hold.status == "running")
    moves = [lab.submit(runs(seed=s), "slider", slot="curve") for s in (21, 22, 23)]
    assert [job.status for job in moves] == ["cancelled", "cancelled", "queued"]
    lab.cancel(hold)
    assert lab.wait(moves[-1]).status == "done"


def test_two_visitors_share_one_computation(lab):
    one, two = lab.submit(LONG, "one"), lab.submit(LONG, "two")
    lab.until(lambda: one.share > 0)
    lab.cancel(one)
    assert (one.status, two.status) == ("cancelled", "running")  # what others wait for goes on
    lab.cancel(two)
    assert two.status == "cancelled"


def test_errors_are_those_of_the_verb(lab):
    bad = Request("predict", {**TABLE, "channel": {"kind": "GaussianNoise", "variance": -1.0}}, {"times": TIMES})
    job = lab.wait(lab.submit(bad))
    assert job.status == "failed" and "variance" in job.words and "in [0, inf)" in job.words
    job = lab.wait(lab.submit(Request("predict", TABLE, {"limit": {"kind": "os.system"}, "times": TIMES})))
    assert job.status == "failed" and "name of a limit" in job.words
    job = lab.wait(lab.submit(Request("predict", TABLE, {"limit": {"kind": "OverlapODE", "magic": 1}, "times": TIMES})))
    assert job.status == "failed" and "magic" in job.words


def test_other_verbs(lab):
    job = lab.wait(lab.submit(Request("limits", TABLE)))
    assert job.answer["OverlapODE"] == "applies"
    job = lab.wait(lab.submit(Request("staircase", None, {"target": "z1 + z1*z2"})))
    assert job.status == "done", job.words
    asked = {"prior": {"kind": "GaussianPrior"}, "channel": {"kind": "Modulus"}}
    job = lab.wait(lab.submit(Request("thresholds", None, asked)))
    here = ll.thresholds(ll.GaussianPrior(), ll.Modulus())
    assert job.answer["weak_recovery"] == here.weak_recovery
    rows = "a,b,y\n" + "\n".join(f"{i % 7},{i % 5},{i % 3}" for i in range(60))
    table = {"target": "y", "standardise": True}
    asked = {"name": "t.csv", "table": table, "penalty": 0.1, "samples": [20, 40], "fits": 5}
    job = lab.wait(lab.submit(Request("learning_curve", None, asked, data=rows.encode())))
    assert job.status == "done" and job.result.sizes["samples"] == 2, job.words
    assert job.result.attrs["rows"] == 60 and job.result.attrs["left_out"] == 0
    asked["table"] = {**table, "drop_rows": True}
    job = lab.wait(lab.submit(Request("learning_curve", None, asked, data=f"{rows}\n1,2\n\n3,,1\n".encode())))
    assert job.result.attrs["rows"] == 60 and job.result.attrs["left_out"] == 2, "short lines are rows that lack values"


def test_results_are_compared_where_they_are_known(lab):
    sim, ode = (lab.wait(lab.submit(request)) for request in (runs(d=500, replicas=8), theory()))
    job = lab.wait(lab.submit(Request("compare", sides=(sim.request.key, ode.request.key))))
    here = ll.compare(sim.result, ode.result)
    assert job.answer["word"] == here.word and job.answer["verdict"] == here.verdict
    with pytest.raises(InputError, match="not known any more"):
        lab.submit(Request("compare", sides=("0" * 64, ode.request.key)))


def test_only_plain_values_and_known_verbs_are_taken():
    with pytest.raises(InputError, match="verb must be one of"):
        Request("eval")
    with pytest.raises(InputError, match="plain numbers"):
        Request("predict", TABLE, {"limit": ll.OverlapODE()})
    with pytest.raises(InputError, match="plain numbers"):
        Request("predict", TABLE, {"times": [float("nan")]})


def test_a_dataset_survives_the_pipe_bit_for_bit():
    ds = ll.simulate(PROBLEM, 50, TIMES, 2, 0)
    assert from_bytes(to_bytes(ds)).identical(ds.assign_attrs(from_bytes(to_bytes(ds)).attrs))


def test_a_worker_that_grew_too_large_is_replaced(monkeypatch):
    monkeypatch.setattr("limitlab.jobs.service.AT_WORK", np.inf)  # once it is idle, not before
    made = Laboratory(workers=1, memory=1)
    try:
        pids = made.service.pids
        assert made.wait(made.submit(theory())).status == "done"
        made.until(lambda: made.service.pids and made.service.pids != pids and made.service.warm)
        assert made.wait(made.submit(theory(0.5))).status == "done"
    finally:
        made.close()


def test_a_worker_that_takes_too_much_while_it_computes_is_ended_and_its_job_says_why(monkeypatch):
    made = Laboratory(workers=1)
    try:
        job = made.submit(LONG)
        made.until(lambda: job.status == "running")
        monkeypatch.setattr(made.service, "_memory", 1 << 20)
        made.wait(job)
        assert job.status == "died" and "of memory" in job.words
    finally:
        made.close()


def test_a_table_must_be_text_and_its_errors_name_no_folder(lab):
    with pytest.raises(InputError, match="UTF-8"):
        check_table("t.csv", "größe,y\n1,2\n".encode("latin-1"))
    asked = {"name": "t.csv", "table": {"target": "y"}, "penalty": 0.1, "samples": [20], "fits": 0}
    job = lab.wait(lab.submit(Request("learning_curve", None, asked, data=b'a,y\n"1,2\n3,4,5,6\n')))
    assert job.status == "failed" and "/" not in job.words.replace("n/d", ""), job.words


def test_memory_is_asked_for_anew():
    """A number that was kept would let a worker grow without an end."""
    before = resident()
    hoard = np.ones(30_000_000)
    assert resident() - before > 0.8 * hoard.nbytes
