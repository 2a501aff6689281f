"""Sweeps in other processes: the same numbers, budgets that hold, failures that are said, stores that are shared."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import cloudpickle
import jax
import numpy as np
import pytest

import limitlab as ll
from cases import committee
from limitlab.errors import EngineError
from limitlab.sweep import identity
from limitlab.sweep.engine.chunks import chunks_of, widths_of
from limitlab.sweep.engine.cost import cost
from limitlab.sweep.engine.engines import _finished
from limitlab.sweep.engine.families import Family
from limitlab.sweep.engine.work import Budget, Chunk, makers, packed, perform, perform_all
from limitlab.sweep.job import Job, Task
from limitlab.sweep.storage.store import Store

RATE = "algorithm.learning_rate"

HERE = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # for child processes


def problem(rate=0.5):
    return committee("linear", "linear", p=1, k=1, learning_rate=rate)


def moody(problem):
    """Sleeps, hoards memory, raises or works, as its learning rate says."""
    mood = problem.algorithm.learning_rate
    if mood == 1.0:
        time.sleep(1000)
    if mood == 2.0:
        hoard = [np.ones(10_000_000) for _ in range(60)]
        time.sleep(1000 if hoard else 0)
    if mood == 3.0:
        raise RuntimeError("in a bad mood")
    if mood == 4.0:
        os.kill(os.getpid(), 9)
    return mood


def new_pages(problem):
    """How many pages of memory forty arrays of 512 pages take, each made when the last one is gone."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(40):
        np.ones(2**18)
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def test_a_worker_keeps_memory_for_its_next_array():
    """dask has its workers give back every piece at once: twice the processor time where arrays are made anew."""
    taken = ll.sweep(new_pages, problem(), {RATE: [0.5]}, workers=1)
    assert float(taken["new_pages"].values[0]) < 40 * 512 / 4


def test_processes_give_the_same_bits_as_this_one():
    grid = {"d": [20, 30], RATE: [0.2, 0.4, 50.0]}  # the last one diverges
    keywords = {"times": [0.0, 200.0, 400.0], "replicas": 3, "seed": 7}
    here = ll.sweep(ll.simulate, problem(), grid, **keywords)
    there = ll.sweep(ll.simulate, problem(), grid, workers=2, **keywords)
    assert here.drop_attrs().identical(there.drop_attrs())
    assert (here["status"].sel({RATE: 50.0}) == "diverged").all()
    reason = str(here["reason"].sel({RATE: 50.0, "d": 20}).values)
    assert reason.startswith("3 of 3 diverged, the first at time")
    assert str(here["reason"].sel({RATE: 0.2, "d": 20}).values) == ""


def times_of(store):
    return {key: store.read(key).attrs["provenance"]["stored_at"] for key in store.keys()}


def test_points_over_their_budget_or_raising_are_recorded_and_the_sweep_goes_on(tmp_path):
    began = time.monotonic()
    with pytest.warns(RuntimeWarning, match="in a bad mood"):
        ds = ll.sweep(
            moody,
            problem(),
            {RATE: [0.5, 1.0, 3.0, 0.7]},
            store=tmp_path / "s",
            time_limit=8.0,
        )
    assert ds["status"].values.tolist() == ["ok", "out_of_time", "failed", "ok"]
    hoarder = ll.sweep(moody, problem(), {RATE: [2.0, 0.9]}, store=tmp_path / "s", memory_limit="2 GB")
    assert hoarder["status"].values.tolist() == ["out_of_memory", "ok"]
    assert time.monotonic() - began < 900  # it did not wait for those that sleep
    assert "more than the 8 seconds" in str(ds["reason"][1].values)
    assert "its budget is 2e+09" in str(hoarder["reason"][0].values)
    assert "RuntimeError: in a bad mood" in str(ds["reason"][2].values)
    np.testing.assert_array_equal(ds["moody"], [0.5, np.nan, np.nan, 0.7])
    store = Store(tmp_path / "s")
    assert store.verify() == (6, [])
    before = times_of(store)
    again = ll.sweep(moody, problem(), {RATE: [0.5, 1.0, 3.0, 0.7]}, store=tmp_path / "s")
    assert again["status"].values.tolist() == ds["status"].values.tolist()  # recorded is not missing
    assert before == times_of(store)
    with pytest.warns(RuntimeWarning, match="in a bad mood"):
        retried = ll.sweep(moody, problem(), {RATE: [0.5, 3.0]}, store=tmp_path / "s", retry_failed=True)
    assert retried["status"].values.tolist() == ["ok", "failed"]
    after = times_of(store)
    assert sum(before[key] != after[key] for key in before) == 1


@pytest.mark.slow
def test_a_point_that_kills_every_process_is_given_up_and_not_stored(tmp_path):
    grid = {RATE: [0.5, 4.0, 0.6, 0.7]}
    ds = ll.sweep(moody, problem(), grid, store=tmp_path / "s", workers=2)
    assert ds["status"].values.tolist() == ["ok", "killed", "ok", "ok"]
    assert "every process that tried this point died" in str(ds["reason"][1].values)
    assert len(list(Store(tmp_path / "s").keys())) == 3


TWO = """
import sys
sys.path[:0] = {here!r}
from test_sweep_engines import *
def slow(problem):
    time.sleep(0.03)
    return problem.algorithm.learning_rate
ds = ll.sweep(slow, problem(), {{RATE: np.linspace(0.1, 1, 60).tolist()}}, store={folder!r})
assert (ds["status"] == "ok").all() and np.array_equal(ds["slow"], ds[RATE])
"""


def test_two_sweeps_into_one_store_do_not_harm_each_other(tmp_path):
    code = TWO.format(here=HERE, folder=str(tmp_path / "s"))
    both = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        _, error = process.communicate(timeout=400)
        assert process.returncode == 0, error
    store = Store(tmp_path / "s")
    assert store.verify() == (60, [])
    assert list((store.path / "parts").iterdir()) == []
    assert len(store.sweeps()) == 1 and {run["state"] for run in store.runs().values()} == {"finished"}


NO_DASK = """
import sys
sys.path[:0] = {here!r}
sys.modules |= dict.fromkeys(["dask", "distributed"])  # as if they were not installed
from test_sweep_engines import *
ll.sweep(moody, problem(), {{RATE: [0.5]}}, store={folder!r})
try:
    ll.sweep(moody, problem(), {{RATE: [0.6]}}, workers=1)
except EngineError as error:
    print(error)
"""


def test_a_sweep_in_this_process_needs_no_dask(tmp_path):
    code = NO_DASK.format(here=HERE, folder=str(tmp_path / "s"))
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=400, capture_output=True, text=True)
    assert "need dask. Install it: pip install distributed" in done.stdout


def test_a_scheduler_that_is_not_there_is_said():
    with pytest.raises(EngineError, match=r"No dask scheduler answers at tcp://127.0.0.1:9"):
        ll.sweep(moody, problem(), {RATE: [0.5]}, scheduler="tcp://127.0.0.1:9")
    with pytest.raises(ll.errors.InputError, match="not both"):
        ll.sweep(moody, problem(), {RATE: [0.5]}, scheduler="tcp://127.0.0.1:9", workers=2)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 1.5}, "workers"),
        ({"time_limit": -1}, "time_limit"),
        ({"time_limit": np.nan}, "time_limit"),
        ({"memory_limit": "2 apples"}, "bytes or a text such as '2 GB'"),
        ({"memory_limit": 0}, "memory_limit"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_refused(keywords, message):
    with pytest.raises(ll.errors.InputError, match=message):
        ll.sweep(ll.simulate, problem(), {RATE: [0.5]}, d=10, times=[1.0], **keywords)


# --- what goes together -------------------------------------------------------------------------------------------


def tasks(costs, family=None):
    return [Task(i, {}, f"{i}", None, float(c), family) for i, c in enumerate(costs)]


def test_costly_points_start_first_and_cheap_ones_share_a_task():
    chunks = chunks_of(tasks([1, 100, 1, 50]), {}, processes=2)
    assert [[t.cost for t in chunk.tasks] for chunk in chunks] == [[100], [50], [1], [1]]
    many = chunks_of(tasks(np.ones(10_000)), {}, processes=2)
    assert max(len(chunk.tasks) for chunk in many) == 64
    assert sorted(t.index for chunk in many for t in chunk.tasks) == list(range(10_000))
    assert [len(c.tasks) for c in chunks_of(tasks([1, 2, 3]), {}, processes=0)] == [1, 1, 1]


def test_a_family_has_one_width_whatever_is_left_of_it():
    own = Family(8, "f", None)
    members = tasks(np.ones(100), own)
    widths = widths_of(members)
    assert widths == {own: 64}
    assert [(len(c.tasks), c.width) for c in chunks_of(members[:70], widths, 2)] == [(64, 64), (6, 64)]
    assert widths_of(members[:9]) == {own: 16}
    assert widths_of(members[:7]) == {}  # not worth a call of its own
    assert widths_of(tasks(np.ones(100), Family(128, "f", None))) == {}


def test_costs_grow_with_the_work():
    def of(d, **keywords):
        return cost(ll.simulate, problem(), {"d": d, "times": [0.0, 1.0], **keywords})

    assert of(200) == pytest.approx(4 * of(100))
    assert of(100, replicas=5) == pytest.approx(5 * of(100))
    assert cost(ll.simulate, problem(), {"d": "no number"}) == 1.0
    glm = ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Sign(),
        sample_ratio=2.0,
        algorithm=ll.GAMP(iterations=20),
    )
    assert cost(ll.simulate, glm, {"d": 200}) == pytest.approx(4 * cost(ll.simulate, glm, {"d": 100}))
    assert cost(ll.predict, problem(), {"limit": ll.DMFT(trajectories=4096)}) > 4000

    def mine(problem, size):
        return size

    assert cost(mine, problem(), {"size": 7}) == 7
    mine.cost = lambda problem, size: size**3  # type: ignore[attr-defined]
    assert cost(mine, problem(), {"size": 7}) == 343
    assert cost(mine, problem(), {"other": 7}) == 1.0


def test_a_family_of_predictions_is_the_same_as_its_points(tmp_path):
    rates = np.linspace(0.1, 1.0, 20).tolist()
    keywords = {"limit": ll.OverlapODE(), "times": [0.0, 0.5, 1.0]}
    whole = ll.sweep(ll.predict, problem(), {RATE: rates}, **keywords)
    for i in (0, 7, 19):
        single = ll.predict(problem(rates[i]), **keywords)
        np.testing.assert_allclose(whole["risk"][i], single["risk"], rtol=1e-9)
    # In pieces, out of order, over a store: the same bits.
    store = Store(tmp_path / "s")
    first = ll.sweep(ll.predict, problem(), {RATE: rates}, store=store, **keywords)
    for key in sorted(store.keys())[::3]:
        store.remove(key)
    again = ll.sweep(ll.predict, problem(), {RATE: rates}, store=store, **keywords)
    for name in ("risk", "Q", "M"):
        np.testing.assert_array_equal(first[name], whole[name])
        np.testing.assert_array_equal(again[name], whole[name])


def test_one_refused_member_does_not_spoil_a_family():
    rates = [0.1, 0.2, 0.3, -1.0, 0.4, 0.5, 0.6, 0.7, 0.8]
    ds = ll.sweep(ll.predict, problem(), {RATE: rates}, limit=ll.OverlapODE(), times=[0.0, 1.0])
    assert ds["status"].values.tolist() == ["ok" if rate > 0 else "failed" for rate in rates]


def test_d_of_a_prediction_is_that_of_its_limit():
    random = ll.Problem(**{**vars(problem()), "start": ll.RandomStart()})
    ds = ll.sweep(ll.predict, random, {"d": [50, 100]}, limit=ll.OverlapODE(d=10, replicas=2), times=[0.0])
    assert ds["Q"].sizes["d"] == 2 and not np.array_equal(ds["M"][0], ds["M"][1])
    job = Job(ll.predict, random, {"limit": ll.OverlapODE(d=10)})
    assert job.ask({"d": 50})[1]["limit"].d == 50


def test_a_worker_compiles_once_for_all_points_of_a_job():
    """Every chunk brings the job along as bytes; functions in it must not be new ones each time."""
    own = committee(student=lambda x: x - x**3 / 30, p=1, k=1)  # named activations are equal wherever they come from
    job = Job(ll.simulate, own, {"d": 13, "times": [0.0, 0.1], "replicas": 2}, seeded="argument")
    tasks = [job.task(i, {RATE: rate}) for i, rate in enumerate([0.3, 0.4, 0.5])]
    traced = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: traced.append("backend_compile" in name)
    )
    perform_all(packed(job), Chunk(tasks[:1]), None, Budget())
    assert any(traced)
    traced.clear()
    (one,) = perform_all(packed(job), Chunk(tasks[1:2]), None, Budget())
    assert not any(traced)
    assert one.point is not None and not one.point.failed
    # The control: a job that is unpacked anew has new functions, and is compiled anew.
    list(perform(cloudpickle.loads(packed(job)), Chunk(tasks[2:]), None))
    assert any(traced)


def test_threads_of_a_worker_take_turns():
    """On a cluster of one's own a worker may have several threads; XLA's pool could lock up if they all factorised."""
    code = """
import threading, time
import distributed, numpy as np, limitlab as ll
from cases import committee
def alone(problem):
    assert not BUSY, "another point is computed in this process"
    BUSY.append(1); time.sleep(0.01); BUSY.clear()
    return problem.algorithm.learning_rate
BUSY = []
with distributed.Client(n_workers=1, threads_per_worker=4, processes=False, dashboard_address=None) as client:
    ds = ll.sweep(alone, committee(p=1, k=1), {"algorithm.learning_rate": np.linspace(0.1, 1, 40)}, scheduler=client)
    assert (ds.status == "ok").all(), set(ds.reason.values.tolist())
    assert sum(client.nthreads().values()) == 4
print("good")
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(HERE)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip().endswith("good"), done.stderr[-2000:]


def test_a_result_that_died_with_its_worker_is_waited_for():
    """It is computed again; only a scheduler that is gone ends a sweep."""
    import distributed

    with distributed.Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        future = client.submit(int)
        distributed.wait([future])
        assert _finished(client, [future]) == [future]
        future._state.lose()
        assert _finished(client, [future]) == []
        future.cancel()
        with pytest.raises(EngineError, match="is gone"):
            _finished(client, [future])


# --- workers of another limitlab ----------------------------------------------------------------------------


def test_a_worker_with_other_numerics_computes_nothing(tmp_path, monkeypatch):
    store = Store(tmp_path / "s")
    job = Job(moody, problem(), {})
    words = (packed(job), Chunk((job.task(0, {RATE: 0.5}),)), (str(store.path), store.id), Budget())
    asking = makers()
    monkeypatch.setattr(identity, "NUMERICS_VERSION", asking["numerics"] + 1)
    here, there = asking["numerics"] + 1, asking["numerics"]
    with pytest.raises(EngineError, match=rf"numerics version {here} .* this sweep {there} .*Nothing of that worker"):
        perform_all(*words, asking)
    assert list(store.keys()) == []
    monkeypatch.undo()
    (outcome,) = perform_all(*words, {**asking, "jax": "0.0.1"})
    assert [text for _, text in outcome.warned if "instead of 0.0.1: last digits may differ" in text]
    assert len(list(store.keys())) == 1


OLD = """
import limitlab.sweep.engine.work as work
def perform_all(data, chunk, place, budget):
    raise AssertionError("it must not come so far")
work.perform_all = perform_all
"""


def test_workers_of_another_limitlab_are_refused_in_words(tmp_path):
    import distributed

    with distributed.Client(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as client:
        client.run(exec, "import limitlab.sweep.identity as i; i.NUMERICS_VERSION += 1")
        with pytest.raises(EngineError, match="has numerics version"):
            ll.sweep(moody, problem(), {RATE: [0.5, 0.6]}, store=tmp_path / "s", scheduler=client)
        client.run(exec, OLD)
        with pytest.raises(EngineError, match="A worker has another limitlab than this program"):
            ll.sweep(moody, problem(), {RATE: [0.5, 0.6]}, store=tmp_path / "s", scheduler=client)
    store = Store(tmp_path / "s")
    assert list(store.keys()) == []
    assert {record["state"] for record in store.runs().values()} == {"stopped"}


def keeps_the_lock(problem):
    """A point that never lets another thread of Python run, as a regular expression or an extension may."""
    rate = problem.algorithm.learning_rate
    return rate if rate < 1 else float(sum(range(10**14)))


@pytest.mark.more
def test_a_time_limit_ends_a_point_that_holds_the_lock_of_python(tmp_path):
    began = time.monotonic()
    ds = ll.sweep(keeps_the_lock, problem(), {RATE: [0.5, 1.0, 0.7]}, store=tmp_path / "s", time_limit=4.0)
    assert time.monotonic() - began < 200
    assert ds["status"].values.tolist() == ["ok", "out_of_time", "ok"]
    assert "more than the 4 seconds of its budget without letting Python look" in str(ds["reason"][1].values)
    assert "(in keeps_the_lock, line" in str(ds["reason"][1].values)
    assert Store(tmp_path / "s").verify() == (3, []) and not list((tmp_path / "s" / "parts").iterdir())
    again = ll.sweep(keeps_the_lock, problem(), {RATE: [0.5, 1.0, 0.7]}, store=tmp_path / "s")
    assert again["status"].values.tolist() == ds["status"].values.tolist()  # recorded: not tried again


WATCHED = """
from limitlab.sweep.engine.work import Budget, _Watch
with _Watch(None, None, None, None, Budget(0.2)):
    sum(range(10**14))
"""


def test_a_worker_that_does_not_see_the_store_is_ended_with_such_a_point_too():
    """It can record nothing, but it goes: others are not kept waiting for ever."""
    done = subprocess.run([sys.executable, "-c", WATCHED], timeout=100, capture_output=True)
    assert done.returncode == 1


MANY = """
import sys
sys.path[:0] = {here!r}
from test_sweep_engines import *
def slow(problem):
    with open({diary!r}, "a") as file:
        file.write(f"{{problem.algorithm.learning_rate!r}}\\n")
    time.sleep(0.02)
    return problem.algorithm.learning_rate
print("ready", flush=True)
sys.stdin.readline()
ds = ll.sweep(slow, problem(), {{RATE: np.linspace(0.1, 1, 200).tolist()}}, store={folder!r}{workers})
assert (ds["status"] == "ok").all() and np.array_equal(ds["slow"], ds[RATE])
"""


@pytest.mark.parametrize(
    ("sweeps", "workers"),
    [(2, ""), pytest.param(3, "", marks=pytest.mark.more), pytest.param(2, ", workers=1", marks=pytest.mark.more)],
    ids=["two", "three", "workers"],
)
def test_sweeps_at_once_share_the_work(tmp_path, sweeps, workers):
    """Started at the same moment over the same grid: at most two of a hundred points are computed twice."""
    diary = tmp_path / "diary"
    code = MANY.format(here=HERE, diary=str(diary), folder=str(tmp_path / "s"), workers=workers)
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", code]
    all_ = [subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(sweeps)]
    for process in all_:
        assert process.stdout.readline() == "ready\n"
    for process in all_:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in all_:
        _, error = process.communicate(timeout=400)
        assert process.returncode == 0, error
    computed = diary.read_text().split()
    assert len(set(computed)) == 200
    assert len(computed) <= 204, len(computed)
    assert Store(tmp_path / "s").verify() == (200, [])
