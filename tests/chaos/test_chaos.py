"""kill -9 of workers, schedulers and main processes: what is stored stays, the rest is computed once, all is equal."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import chaos_verbs
import numpy as np
import psutil
import pytest

from limitlab.sweep.storage.store import Store

HERE = Path(__file__).parent
PATHS = [str(HERE), str(HERE.parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "PYTHONUNBUFFERED": "1"}
KEY = "algorithm.learning_rate"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The same sweep in this process, without a store, without waiting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHAOS_DIARY", str(tmp_path_factory.mktemp("calm") / "diary"))
        return chaos_verbs.run(None)


def start(folder, engine, pause="0.02"):
    environment = {**ENVIRONMENT, "CHAOS_DIARY": str(folder / "diary"), "CHAOS_PAUSE": pause}
    words = [sys.executable, str(HERE / "chaos_verbs.py"), str(folder), engine]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def stored(folder):
    if not (folder / "store" / "limitlab-store.json").exists():
        return 0
    return Store(folder / "store", create=False).size()[0]


def wait_for(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def descendants(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process.pid).children(recursive=True)
    return []


def alive(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def is_worker(process):
    with contextlib.suppress(psutil.Error):
        return "spawn_main" in " ".join(process.cmdline())
    return False


def check(folder, undisturbed):
    """All points there, none computed again once stored, all equal to the undisturbed run, bit for bit."""
    store = Store(folder / "store", create=False)
    assert stored(folder) == chaos_verbs.POINTS
    good, bad = store.verify()
    assert (good, bad) == (chaos_verbs.POINTS, [])
    began = {}
    for line in (folder / "diary").read_text().splitlines():
        name, when, _ = line.split()
        began.setdefault(name, []).append(float(when))
    assert len(began) == chaos_verbs.POINTS
    for key in store.keys():
        point = store.read(key)
        here = point.attrs["provenance"]["point"]["table"]
        name = f"{float(here[KEY]):.17g},{here['d']}"
        written = point.attrs["provenance"]["stored_at"] + 0.001
        assert max(began[name]) <= written, f"{name} was computed again after it was stored"
        expected = undisturbed["noisy"].sel({KEY: here[KEY], "d": here["d"]})
        assert point.variables["noisy"][1] == expected.values
    # A last run finds everything and computes nothing.
    before = (folder / "diary").read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHAOS_DIARY", str(folder / "diary"))
        again = chaos_verbs.run(str(folder / "store"))
    assert (folder / "diary").read_bytes() == before
    np.testing.assert_array_equal(again["noisy"], undisturbed["noisy"])


def finish(folder, engine="2"):
    process = start(folder, engine)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out


def rounds(kind, default=2):
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(default, 10)]
    return pytest.mark.parametrize("seed", [*range(default), *slow], ids=lambda s: f"{kind}{s}")


@rounds("main", 1)
def test_the_main_process_is_killed(tmp_path, undisturbed, seed):
    moment = np.random.default_rng(seed).integers(1, 180)
    process = start(tmp_path, "2")
    wait_for(lambda: stored(tmp_path) >= moment or process.poll() is not None)
    family = descendants(process)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(alive, family)), 120)
    kept = stored(tmp_path)
    assert kept >= moment
    finish(tmp_path)
    check(tmp_path, undisturbed)


@pytest.mark.more
@rounds("worker", 1)
def test_a_worker_is_killed_and_the_sweep_goes_on_by_itself(tmp_path, undisturbed, seed):
    rng = np.random.default_rng(100 + seed)
    process = start(tmp_path, "2")
    for moment in sorted(rng.integers(1, 180, size=2)):
        wait_for(lambda m=moment: stored(tmp_path) >= m or process.poll() is not None)
        workers = [p for p in descendants(process) if is_worker(p)]
        if workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                workers[rng.integers(len(workers))].kill()
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    check(tmp_path, undisturbed)


@pytest.mark.more
def test_the_program_that_keeps_the_workers_is_killed(tmp_path, undisturbed):
    process = start(tmp_path, "2")
    wait_for(lambda: stored(tmp_path) >= 20)
    keeper = next(p for p in descendants(process) if "dask_worker" in " ".join(p.cmdline()))
    keeper.kill()
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    check(tmp_path, undisturbed)


@contextlib.contextmanager
def scheduler_and_workers(folder, pause="0.02"):
    """A dask scheduler and two workers, as on a cluster: programs of their own on the loopback."""
    log = open(folder / f"scheduler{time.time()}.log", "w+")
    environment = {**ENVIRONMENT, "CHAOS_DIARY": str(folder / "diary"), "CHAOS_PAUSE": pause}
    words = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--dashboard-address",
        "127.0.0.1:0",
    ]
    scheduler = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
    address = []

    def says():
        found = re.search(r"Scheduler at:\s+(tcp://\S+)", Path(log.name).read_text())
        address[:] = [found[1]] if found else []
        return bool(found)

    workers = []
    try:
        wait_for(says)
        words = [sys.executable, "-m", "distributed.cli.dask_worker", address[0], "--nworkers", "2", "--nthreads", "1"]
        words += ["--no-dashboard", "--death-timeout", "120", "--local-directory", str(folder)]
        workers.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))
        yield address[0], scheduler
    finally:
        family = [p for w in workers for p in descendants(w)]
        for process in [scheduler, *workers, *family]:
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        for process in [scheduler, *workers]:
            process.wait()
        log.close()


@pytest.mark.more_of("scheduler0", "scheduler1")
@rounds("scheduler")
def test_the_scheduler_is_killed(tmp_path, undisturbed, seed):
    # In odd rounds the points are so slow that the kill finds the main process waiting for them, in even ones at work.
    waiting = seed % 2 == 1
    moment = np.random.default_rng(200 + seed).integers(1, 9 if waiting else 180)
    pause = "2" if waiting else "0.02"
    with scheduler_and_workers(tmp_path, pause) as (address, scheduler):
        process = start(tmp_path, address)
        wait_for(lambda: stored(tmp_path) >= moment or process.poll() is not None)
        time.sleep(0.7 if waiting else 0.0)
        scheduler.kill()
        out, _ = process.communicate(timeout=600)
    assert process.returncode == 5 or stored(tmp_path) == chaos_verbs.POINTS, out
    if process.returncode == 5:
        assert "is gone" in out and "Everything stored is kept" in out
    with scheduler_and_workers(tmp_path) as (address, _):
        finish(tmp_path, address)
    check(tmp_path, undisturbed)
