"""limitlab sweep and limitlab status: grids from words, exit codes, and what is left when a sweep is stopped."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

import limitlab as ll
from cases import committee
from limitlab.cli import app
from limitlab.cli.arguments import grid_of
from limitlab.cli.screen import Bar
from limitlab.results.files import load
from limitlab.spec import dumps
from limitlab.sweep import Store

RATE = "algorithm.learning_rate"
TINY = ["--times", "0,0.1,0.2", "--replicas", "2"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def problem():
    return committee("linear", "linear", p=1, k=1, variance=0.01)


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("specs") / "my.toml"
    path.write_text(dumps(problem()))
    return path


def result_of(folder):
    """The one result of a store, and its name."""
    (path,) = folder.glob("*.nc")
    return load(path)


def times_of_points(folder):
    """When each point was stored."""
    if not (folder / "limitlab-store.json").exists():
        return {}
    store = Store(folder, create=False)
    return {key: store.read(key).attrs["provenance"]["stored_at"] for key in store.keys()}


# --- words to values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.5:3:0.05", [round(0.5 + 0.05 * k, 2) for k in range(51)]),  # as they would be written
        ("0:1:0.3", [0.0, 0.3, 0.6, 0.9]),
        ("0:1:0.3333333333333333", [0.0, 0.333333333333, 0.666666666667, 1.0]),
        ("-1:1:0.5", [-1.0, -0.5, 0.0, 0.5, 1.0]),
        ("100:400:100", [100, 200, 300, 400]),
        ("2:2:1", [2]),
        ("1000000:1000000.0000002:1e-7", [1000000.0, 1000000.0000001, 1000000.0000002]),
        ("1:1000:4:log", [1, 10, 100, 1000]),
        ("0.01:1:3:log", [0.01, 0.1, 1.0]),
        ("100,200,400", [100, 200, 400]),
        ("1e2,1e3", [100, 1000]),
        ("0.5, 1,2", [0.5, 1.0, 2.0]),
        ("9007199254740993,5", [9007199254740993, 5]),
        ("-1e308:1e308:1e308", [-1e308, 0.0, 1e308]),
        ("erf,relu", ["erf", "relu"]),
        ("shifted(erf, 0.5),relu", ["shifted(erf, 0.5)", "relu"]),
        ("true,False", [True, False]),
    ],
)
def test_values_of_a_grid_are_read_as_written(text, values):
    (read,) = grid_of([f"name={text}"]).values()
    assert read == values
    assert [type(value) for value in read] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x"], "name=values"),
        (["=1,2"], "name=values"),
        (["x="], "empty value"),
        (["x=1,,2"], "empty value"),
        (["x=1:2"], "start:stop:step"),
        (["x=1:2:3:lin"], "start:stop:count:log"),
        (["x=1:2:3:log:5"], "start:stop:count:log"),
        (["x=::"], "must be a number; got ''"),
        (["x=1:b:2"], "the stop must be a number; got 'b'"),
        (["x=0:1:0"], "the step must be positive; got 0"),
        (["x=0:1:-0.1"], "the step must be positive"),
        (["x=0:1:1e-400"], "the step must be positive"),
        (["x=1:0:0.1"], "has no values"),
        (["x=0:1:1e-9"], "more than 1000000 values"),
        (["x=0:1e308:1e-300"], "more than 1000000 values"),
        (["x=0:inf:1"], "finite"),
        (["x=0:1e999:1"], "finite"),
        (["x=nan,1"], "finite"),
        (["x=1,-inf"], "finite"),
        (["x=0.1,O.2"], "mixes numbers and words: 'O.2'"),
        (["x=0:1:5:log"], "0 < start < stop"),
        (["x=2:1:5:log"], "0 < start < stop"),
        (["x=1:2:0:log"], "count"),
        (["x=1:2:2.5:log"], "count"),
        (["x=1:2:1e9:log"], "count"),
        (["x=1,2", "x=3"], "given twice"),
        (["x=0:1000:1", "y=0:1000:1"], "at most 1000000 points; got 1001 x 1001"),
        (["x=" + "1," * 5000], "empty value"),
    ],
)
def test_a_hostile_grid_is_refused_with_what_to_do(words, message):
    with pytest.raises(ll.errors.InputError) as error:
        grid_of(words)
    assert message in str(error.value)
    assert len(str(error.value)) < 400


def test_a_bad_request_is_refused_before_a_folder_is_made(spec, tmp_path):
    out = tmp_path / "runs"
    for words, message in (
        (["--over", "colour=1,2"], "neither a part of the problem"),
        (["--over", "d=1,1"], "must not repeat"),
        (["--over", "time=1,2"], "cannot be told from 'time'"),
        (["--over", f"{RATE}=0:1:0"], "step must be positive"),
        (["--over", "d=20,30", "--verb", "simulat"], "--verb must be one of simulate, predict, thresholds"),
        (["--over", f"{RATE}=1,2", "--verb", "predict", "--d", "20"], "--set d=1000"),
        (["--over", f"{RATE}=1,2", "--verb", "thresholds", "--times", "1,2"], "--times is not for thresholds"),
        (["--over", f"{RATE}=1,2", "--limit", "OverlapOD"], "Did you mean 'OverlapODE'"),
        (["--over", "d=20,30", "--d", "20"], "also an argument"),
        (["--over", "d=20,30", "--workers", "0"], "workers"),
        (["--over", "d=20,30", "--workers", "2", "--scheduler", "tcp://x:1"], "not both"),
        (["--over", "d=20,30", "--memory-limit", "much"], "'2 GB'"),
    ):
        result = run("sweep", spec, *words, "--out", out)
        assert result.exit_code == 2, (words, result.output)
        assert message in result.output
        assert result.output.count("error:") == 1 and "Traceback" not in result.output
        assert not out.exists(), words
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    result = run("sweep", spec, "--over", "d=20,30", "--out", tmp_path / "mine")
    assert result.exit_code == 2 and "other things" in result.output
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


# --- what a sweep leaves -----------------------------------------------------------------------------------


def test_a_sweep_is_the_dataset_of_the_library_and_a_second_one_computes_nothing(spec, tmp_path):
    out = tmp_path / "runs"
    words = ["sweep", spec, "--over", f"{RATE}=0.1:0.3:0.1", "--over", "d=20,30", *TINY, "--seed", "3", "--out", out]
    first = run(*words)
    assert first.exit_code == 0, first.output
    ds = result_of(out)
    grid = {RATE: [0.1, 0.2, 0.3], "d": [20, 30]}
    direct = ll.sweep(ll.simulate, problem(), grid, replicas=2, seed=3, times=[0, 0.1, 0.2])
    assert list(ds["risk"].dims) == [RATE, "d", "time", "replica"]
    assert ds["d"].dtype.kind == "i"
    np.testing.assert_array_equal(ds["risk"], direct["risk"])
    assert f"saved to {out}" in first.output and "ok" in first.output
    before = times_of_points(out)
    assert len(before) == 6
    assert run(*words).exit_code == 0
    assert times_of_points(out) == before
    more = run(*words[:4], "--over", "d=20,30,40", *words[6:])
    assert more.exit_code == 0
    after = times_of_points(out)
    assert len(after) == 9 and {name: after[name] for name in before} == before
    assert len(list(out.glob("*.nc"))) == 2  # two sweeps, one store


def test_points_that_diverge_or_are_refused_are_recorded_and_the_exit_code_is_3(spec, tmp_path):
    out = tmp_path / "runs"
    words = ["sweep", spec, "--over", f"{RATE}=-1,0.5,50", "--d", "20", "--times", "0,50,100", "--out", out]
    result = run(*words, "--replicas", "2")
    assert result.exit_code == 3, result.output
    assert "2 of 3 points did not end well" in result.output
    assert f"{RATE}=-1.0: failed: InputError" in result.output
    assert f"{RATE}=50.0: diverged: 2 of 2 diverged" in result.output
    ds = result_of(out)
    assert ds["status"].values.tolist() == [["failed"] * 2, ["ok"] * 2, ["diverged"] * 2]
    assert "learning_rate" in str(ds["reason"].values[0])
    before = times_of_points(out)
    assert run(*words, "--replicas", "2").exit_code == 3
    assert times_of_points(out) == before
    assert run(*words, "--replicas", "2", "--retry-failed").exit_code == 3
    assert sum(before[name] != now for name, now in times_of_points(out).items()) == 1  # diverged is an answer


@pytest.mark.more
def test_predictions_and_thresholds_are_swept_too(spec, tmp_path):
    words = ["--over", f"{RATE}=0.1,0.2", "--times", "0,1", "--limit", "OverlapODE"]
    assert run("sweep", spec, *words, "--out", tmp_path / "a").exit_code == 0
    ds = result_of(tmp_path / "a")
    assert ds.attrs["verb"] == "predict" and ds["risk"].shape == (2, 2)
    words = ["--over", "d=20,40", "--verb", "predict", "--times", "0,1", "--replicas", "2"]
    result = run("sweep", spec, *words, "--out", tmp_path / "b")
    assert result.exit_code == 0, result.output
    assert "limit: OverlapODE" in result.output
    assert result_of(tmp_path / "b")["risk"].shape == (2, 2, 2)
    words = ["--over", "limit=OverlapODE", "--set", "d=50", "--times", "0,1"]
    named = run("sweep", spec, *words, "--out", tmp_path / "c")
    assert named.exit_code == 0, named.output
    assert result_of(tmp_path / "c")["limit"].values.tolist() == ["OverlapODE"]
    linear = ll.Problem(teacher=ll.SingleIndex(ll.RademacherPrior()), channel=ll.GaussianNoise(variance=0.1))
    (tmp_path / "linear.toml").write_text(dumps(linear))
    words = ["--verb", "thresholds", "--over", "channel.variance=0.05,0.1"]
    result = run("sweep", tmp_path / "linear.toml", *words, "--out", tmp_path / "d")
    assert result.exit_code == 0, result.output
    direct = ll.thresholds(ll.RademacherPrior(), ll.GaussianNoise(variance=0.05))
    assert float(result_of(tmp_path / "d")["weak_recovery"][0]) == direct.weak_recovery


@pytest.mark.more
def test_thresholds_take_a_problem():
    sign = ll.Problem(teacher=ll.SingleIndex(ll.RademacherPrior()), channel=ll.Sign())
    assert ll.thresholds(sign) == ll.thresholds(ll.RademacherPrior(), ll.Sign())
    ds = ll.sweep(ll.thresholds, sign, {"channel.flip": [0.0, 0.1]})
    assert float(ds["algorithmic"][0]) == ll.thresholds(sign).algorithmic
    with pytest.raises(ll.errors.InputError, match="single direction with a prior; got Committee"):
        ll.thresholds(problem())
    with pytest.raises(ll.errors.InputError, match="a Problem alone"):
        ll.thresholds(sign, ll.Sign())
    with pytest.raises(ll.errors.InputError, match="needs a channel"):
        ll.thresholds(ll.GaussianPrior())


# --- progress ----------------------------------------------------------------------------------------------


def test_the_time_left_is_that_of_points_that_have_to_be_computed():
    bar = Bar("sweep", wanted=False)
    for done in range(901):
        bar.skip(done)
        bar(done, 1000, "sweep of f")
    assert bar.left() == np.inf
    began = time.monotonic()
    time.sleep(0.2)
    bar(910, 1000, "sweep of f: 1 running, 50/s")
    assert 0.2 * 9 <= bar.left() <= (time.monotonic() - began) * 9 + 0.1


def test_progress_in_lines_counts_points(spec, tmp_path, monkeypatch):
    monkeypatch.setattr("limitlab.bar.PATIENCE", 0.0)
    result = run("sweep", spec, "--over", "d=20,30", *TINY, "--out", tmp_path / "runs", "--progress")
    assert result.exit_code == 0
    assert "sweep of simulate: 1 running" in result.output
    assert "2 of 2, 0 s left" in result.output


# --- status ------------------------------------------------------------------------------------------------


def test_status_tells_runs_that_are_gone(spec, tmp_path):
    out = tmp_path / "runs"
    assert run("sweep", spec, "--over", "d=20,30", *TINY, "--out", out).exit_code == 0
    (record,) = (out / "runs").glob("*.json")
    about = json.loads(record.read_text())
    assert "finished" in run("status", out).output and "2 of 2" in run("status", out).output
    with subprocess.Popen(["true"]) as dead:
        dead.wait()
    cases = {
        "running": {"process": os.getpid()},
        "gone": {"process": dead.pid},
        "gone ": {"host": "elsewhere", "updated": time.time() - 3600},
        "running ": {"host": "elsewhere", "updated": time.time() - 5},
        "stopped": {"state": "stopped", "note": "The dask scheduler at tcp://x:1 is gone."},
    }
    for state, changes in cases.items():
        record.write_text(json.dumps({**about, "state": "running", **changes}))
        result = run("status", out)
        assert result.exit_code == 0
        assert result.output.split("\n")[2].split()[0] == state.strip(), result.output
        assert changes.get("note", "") in result.output
    record.write_text("{")  # half a record is no run
    assert "no runs" in run("status", out).output
    record.write_text("{}")
    assert "gone" in run("status", out, "--watch").output
    assert run("status", tmp_path / "nowhere").exit_code == 2


# --- processes ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(*words):
    """limitlab in a process and a process group of its own."""
    command = [sys.executable, "-m", "limitlab.cli", *map(str, words)]
    # a shell that runs the tests in the background makes them ignore interrupts, and so would this process
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def wait_for_points(folder, count, process):
    """Until so many points are stored."""
    deadline = time.monotonic() + 400
    while len(times_of_points(folder)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("workers", "number", "group"),
    [
        pytest.param(2, signal.SIGINT, True, marks=pytest.mark.more),
        pytest.param(2, signal.SIGINT, False, marks=pytest.mark.more),
        (None, signal.SIGTERM, False),
    ],
)
def test_a_sweep_that_is_stopped_keeps_its_points_and_goes_on(spec, tmp_path, workers, number, group):
    out = tmp_path / "runs"
    words = ["sweep", spec, "--over", f"{RATE}=0.01:0.4:0.01", "--d", "40", "--times", "0,20", "--replicas", "4"]
    words += ["--out", out]
    engine = [] if workers is None else ["--workers", workers]
    with started(*words, *engine) as process:
        wait_for_points(out, 3, process)
        seen = run("status", out)
        assert seen.exit_code == 0
        assert "running" in seen.output and "of 40" in seen.output
        helpers = psutil.Process(process.pid).children(recursive=True)
        assert (len(helpers) >= 3) == (workers is not None)
        (os.killpg if group else os.kill)(process.pid, number)
        stdout, stderr = process.communicate(timeout=300)
        assert process.returncode == 130, stderr
    assert not psutil.wait_procs(helpers, timeout=90)[1]  # no process is left behind
    kept = times_of_points(out)
    assert 3 <= len(kept) < 40
    assert f"interrupted; {len(kept)} of 40 points are stored in {out}; run the same command again" in stderr
    assert "Traceback" not in stderr and "saved to" not in stdout
    assert "interrupted" in run("status", out).output
    assert not list((out / "parts").iterdir())
    again = run(*words)
    assert again.exit_code == 0, again.output
    after = times_of_points(out)
    assert len(after) == 40 and {name: after[name] for name in kept} == kept
    assert Store(out).verify() == (40, [])
    assert result_of(out)["status"].values.ravel().tolist() == ["ok"] * 160


def test_a_scheduler_that_does_not_answer_is_said_with_exit_code_2(spec, tmp_path, monkeypatch):
    def refuse(*_, **__):  # as distributed does, after 20 seconds
        raise OSError("Timed out trying to connect to tcp://127.0.0.1:1 after 20 s")

    monkeypatch.setattr("distributed.Client", refuse)
    words = ["--over", "d=20,30", *TINY, "--out", tmp_path / "runs", "--scheduler", "tcp://127.0.0.1:1"]
    result = run("sweep", spec, *words)
    assert result.exit_code == 2, result.output
    assert "No dask scheduler answers at tcp://127.0.0.1:1" in result.output
    assert "stopped" in run("status", tmp_path / "runs").output


@pytest.mark.slow
def test_a_budget_of_time_is_kept(spec, tmp_path):
    """A point over its budget is recorded, the others are computed, and the exit code says so."""
    out = tmp_path / "runs"
    words = ["--over", "d=20,1000000", "--times", "0,20", "--replicas", "2", "--time-limit", "20", "--out", out]
    with started("sweep", spec, *words) as process:
        _, stderr = process.communicate(timeout=600)
    assert process.returncode == 3, stderr
    assert result_of(out)["status"].values.tolist() == [["ok"] * 2, ["out_of_time"] * 2]
    assert "out_of_time: OverBudget: took more than the 20 seconds" in stderr
