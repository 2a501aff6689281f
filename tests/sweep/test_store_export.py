"""limitlab store: what a folder of sweeps is read out to, checked for, and cleared of."""

import csv
import json
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from typer.testing import CliRunner

import limitlab as ll
from cases import committee
from limitlab.cli import app
from limitlab.results.files import load
from limitlab.sweep import Store
from limitlab.sweep.storage.care import gc
from limitlab.sweep.storage.export import dataset_of, export

RATE = "algorithm.learning_rate"
GRID = {RATE: [-1.0, 0.25, 0.5], "d": [20, 30]}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def problem():
    return committee(p=2, k=1)


def fill(folder, grid=None):
    """A small sweep, of which two points are refused."""
    return ll.sweep(ll.simulate, problem(), grid or GRID, replicas=2, times=[0.0, 0.5], store=folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "runs"
    return folder, fill(folder)


@pytest.fixture
def own(made, tmp_path):
    """A copy that a test may damage."""
    import shutil

    return Store(shutil.copytree(made[0], tmp_path / "runs"))


def spoil(store, key):
    """Change a bit in the middle of a point."""
    store.close()
    name, place = store.segments.place_of(bytes.fromhex(key))
    path = store.path / "points" / name
    data = bytearray(path.read_bytes())
    data[place + store.length(key) // 2] ^= 1
    path.write_bytes(data)


def picture(folder):
    """Every file with its time and size."""
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(folder.rglob("*")) if p.is_file()}


# --- export ------------------------------------------------------------------------------------------------


def check_rows(rows, ds, number):
    """Rows of a table against the Dataset: refused points have one, others one for each time and replica."""
    assert len(rows) == 2 + 4 * 2 * 2
    place = iter(rows)
    for rate in GRID[RATE]:
        for d in GRID["d"]:
            here = ds.sel({RATE: rate, "d": d})
            for time_ in [None] if rate < 0 else here["time"].values:
                for replica in [None] if rate < 0 else here["replica"].values:
                    row = next(place)
                    assert (number(row[RATE]), number(row["d"])) == (rate, d)
                    assert row["reason"] == str(here["reason"].item())
                    if rate < 0:
                        assert row["status"] == "failed" and "learning_rate" in row["reason"]
                        assert row["risk"] in ("", None) and row["time"] in ("", None)
                        continue
                    at = here.sel(time=time_, replica=replica)
                    assert row["status"] == "ok" and row["reason"] == ""
                    assert (number(row["time"]), number(row["replica"])) == (time_, replica)
                    assert number(row["risk"]) == at["risk"].item()  # to the last bit
                    assert number(row["end_time"]) == at["end_time"].item()


def test_a_sweep_is_exported_to_csv_and_read_back(made, tmp_path):
    folder, ds = made
    result = run("store", "export", folder, "--out", tmp_path / "a.csv")
    assert result.exit_code == 0, result.output
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [RATE, "d", "status", "reason", "time", "replica", "risk", "end_time"]
    check_rows(rows, ds, float)


def test_a_sweep_is_exported_to_parquet_and_read_back(made, tmp_path, monkeypatch):
    folder, ds = made
    for module in ("tidy", "export"):  # several row groups, and points in pieces
        monkeypatch.setattr(sys.modules[f"limitlab.sweep.storage.{module}"], "BLOCK", 3)
    export(Store(folder), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert [str(kind) for kind in table.schema.types] == [
        "double", "int64", "string", "string", "double", "int64", "double", "double",
    ]  # fmt: skip
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups > 2
    assert json.loads(table.schema.metadata[b"limitlab_sweep"])["name"] == "simulate"
    check_rows(table.to_pylist(), ds, lambda value: value)


def test_a_sweep_is_exported_to_one_netcdf_file_as_sweep_returned_it(made, tmp_path):
    folder, ds = made
    assert run("store", "export", folder, "--out", tmp_path / "a.nc").exit_code == 0
    back = load(tmp_path / "a.nc")
    xr.testing.assert_equal(back, ds)
    stamped = {name: value for name, value in ds.attrs.items() if name != "created"}
    assert {name: back.attrs[name] for name in stamped} == stamped
    only = run("store", "export", folder, "--out", tmp_path / "b.nc", "--variable", "risk")
    assert only.exit_code == 0
    assert set(load(tmp_path / "b.nc").data_vars) == {"risk", "status", "reason"}


def test_variables_of_units_get_columns_for_their_units(made, tmp_path):
    folder, ds = made
    words = ["store", "export", folder, "--out", tmp_path / "M.csv", "--variable", "M", "--variable", "risk"]
    assert run(*words).exit_code == 0
    with open(tmp_path / "M.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[4:] == ["time", "replica", "student", "teacher", "M", "risk"]
    assert len(rows) == 2 + 4 * 2 * 2 * 2
    row = rows[-2]
    at = ds.sel({RATE: float(row[RATE]), "d": int(row["d"]), "time": float(row["time"])})
    at = at.sel(replica=int(row["replica"]), student=int(row["student"]), teacher=int(row["teacher"]))
    assert (float(row["M"]), float(row["risk"])) == (at["M"].item(), at["risk"].item())
    for more, message in ((["--variable", "Q"], "one at a time"), (["--variable", "MM"], "it has risk, M, Q")):
        refused = run(*words, *more, "--force")
        assert refused.exit_code == 2 and message in refused.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["M.csv"]
    export(Store(folder), tmp_path / "P.csv", variables=["P"])  # has no replicas: status is one word
    assert (tmp_path / "P.csv").read_text().split("\n")[0].endswith("status,reason,teacher,teacher_2,P")


def test_points_that_are_not_there_yet_are_exported_as_such(own, tmp_path):
    (name,) = own.sweeps()
    own.remove(own.keys_of(name)[-1])
    ds = dataset_of(own, name)
    assert ds["reason"].values[-1, -1] == "not computed yet"
    assert ds["status"].values[-1, -1].tolist() == ["failed", "failed"]
    export(own, tmp_path / "a.csv")
    last = (tmp_path / "a.csv").read_text().strip().split("\n")[-1]
    assert last.startswith("0.5,30,failed,not computed yet,,,")


@pytest.mark.parametrize("suffix", ["csv", "nc"])
def test_damaged_points_are_exported_as_such_said_and_left_where_they_are(own, tmp_path, suffix):
    (name,) = own.sweeps()
    spoil(own, own.keys_of(name)[0])
    before = picture(own.path)
    result = run("store", "export", own.path, "--out", tmp_path / f"a.{suffix}")
    assert result.exit_code == 3
    assert "1 files are not what they should be" in result.output and "not computed yet" not in result.output
    assert picture(own.path) == before
    if suffix == "csv":
        assert "damaged: run limitlab store verify" in (tmp_path / "a.csv").read_text()
    assert run("store", "verify", own.path).exit_code == 3


def mixed(problem, d=1):
    """A verb whose results differ from point to point in names and kinds."""
    return {"size": d} if d < 20 else {"size": d / 3, "word": "large"}


def test_points_with_different_variables_share_one_table(tmp_path):
    store = Store(tmp_path / "runs")
    ll.sweep(mixed, problem(), {"d": [10, 11, 20]}, store=store)
    export(store, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines() == [
        "d,status,reason,size,word",
        "10,ok,,10.0,",
        "11,ok,,11.0,",
        f"20,ok,,{20 / 3!r},large",
    ]
    export(store, tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").column("size").to_pylist() == [10.0, 11.0, 20 / 3]


def test_an_export_that_is_stopped_or_fails_leaves_nothing(made, tmp_path, monkeypatch):
    folder, _ = made
    (tmp_path / "a.csv").write_text("mine")

    def stop(done, *_):
        if done == 4:
            raise KeyboardInterrupt

    for end in (".csv", ".parquet", ".nc"):
        with pytest.raises(KeyboardInterrupt):
            export(Store(folder), tmp_path / f"a{end}", progress=stop)
    refused = run("store", "export", folder, "--out", tmp_path / "a.csv")
    assert refused.exit_code == 2 and "--force" in refused.output
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.csv", "mine")]
    for words, message in (
        (["--out", tmp_path / "a.xls"], ".csv, .parquet, .nc"),
        (["--out", tmp_path / "no" / "a.csv"], "there is no folder"),
        (["--out", tmp_path / "b.csv", "--sweep", "zz"], "is none of them"),
    ):
        refused = run("store", "export", folder, *words)
        assert refused.exit_code == 2 and message in refused.output, refused.output
    with pytest.raises(ll.errors.ResultFileError, match="could not be written"):
        export(Store(folder), tmp_path / "no" / "a.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused = run("store", "export", folder, "--out", tmp_path / "a.parquet")
    assert refused.exit_code == 2 and "pip install pyarrow" in refused.output


def test_the_latest_of_several_sweeps_is_exported_unless_one_is_named(own, tmp_path):
    (first,) = own.sweeps()
    time.sleep(0.02)
    fill(own, {"d": [20]})
    said = run("store", "export", own.path, "--out", tmp_path / "a.csv")
    assert said.exit_code == 0 and "the latest of 2" in said.output
    assert (tmp_path / "a.csv").read_text().startswith("d,status")
    assert run("store", "export", own.path, "--out", tmp_path / "b.csv", "--sweep", first[:6]).exit_code == 0
    assert (tmp_path / "b.csv").read_text().startswith(RATE)


def test_a_damaged_record_of_a_sweep_is_said_so(own, tmp_path):
    (name,) = own.sweeps()
    record = own.path / "sweeps" / f"{name}.json"
    whole = json.loads(record.read_text())
    for broken in ({**whole, "axes": {"d": [1]}}, {**whole, "axes": 3}, {}):
        record.write_text(json.dumps(broken))
        refused = run("store", "export", own.path, "--out", tmp_path / "a.csv")
        assert refused.exit_code == 2 and "is damaged" in refused.output
        assert run("store", "ls", own.path).exit_code == 0
    record.write_text("no JSON")
    assert "There is no sweep" in run("store", "export", own.path, "--out", tmp_path / "a.csv").output


# --- ls, verify, gc ----------------------------------------------------------------------------------------


def test_ls_and_status_tell_what_is_there_and_change_nothing(own):
    (name,) = own.sweeps()
    own.remove(own.keys_of(name)[-1])
    before = picture(own.path)
    listed = run("store", "ls", own.path)
    assert listed.exit_code == 0
    for word in (name, "simulate", f"{RATE} (3)", "d (2)", "5 of 6"):
        assert word in listed.output
    assert listed.output.split("5 of 6")[1].split()[0] == "2"  # failed
    lines = run("store", "ls", own.path, "--points").output.strip().split("\n")[1:]
    assert len(lines) == 5
    assert sorted(line.split()[2] for line in lines) == ["failed"] * 2 + ["ok"] * 3
    assert any(f"{RATE}=0.25, d=30" in line for line in lines)
    assert "5 points" in run("status", own.path).output
    assert picture(own.path) == before
    next((own.path / "runs").iterdir()).unlink()  # without a record of the run, points are counted
    assert run("store", "ls", own.path).output.split("5 of 6")[1].split()[0] == "2"


def test_verify_finds_a_flipped_bit_and_exits_with_3(own):
    assert run("store", "verify", own.path).exit_code == 0
    key = own.keys_of(next(iter(own.sweeps())))[3]
    spoil(own, key)
    assert "damaged" in run("store", "ls", own.path, "--points").output
    result = run("store", "verify", own.path)
    assert result.exit_code == 3
    assert "5 points are good" in result.output and key in result.output and "checksum" in result.output
    own.refresh()
    assert not own.has(key) and "1 things in quarantine" in run("status", own.path).output
    assert run("store", "verify", own.path).exit_code == 0
    assert "files in quarantine" not in run("store", "gc", own.path).output
    (own.path / "quarantine" / "folder.nc.1234").mkdir()  # there was one where a point should be
    (own.path / "quarantine" / "folder.nc.1234" / "file").write_text("x")
    assert "files in quarantine" in run("store", "gc", own.path, "--quarantine").output
    assert not own.faults()


def dead_process():
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def litter(store):
    """One of everything that gc removes."""
    (name,) = store.sweeps()
    about, keys = store.sweeps()[name], store.keys_of(name)
    point = store.read(keys[2])
    orphan, old = "0" * 32, "1" * 32
    for key in (orphan, old):
        store.write(key, point)
    store.close()
    store.keep_sweep("old", {**about, "numerics_version": -1}, [old])
    half = store.path / "parts" / f"{os.uname().nodename}@{dead_process()}.abc"
    half.write_bytes(b"half")
    mine = store.path / "parts" / f"{os.uname().nodename}@{os.getpid()}.abc"
    mine.write_bytes(b"being written")
    return keys, {orphan, old}, half, mine


def test_gc_removes_what_nobody_needs_and_nothing_else(own):
    keys, unneeded, half, mine = litter(own)
    before = picture(own.path)
    planned = run("store", "gc", own.path, "--dry-run")
    assert planned.exit_code == 0 and "would be freed" in planned.output
    assert picture(own.path) == before
    done = run("store", "gc", own.path)
    assert done.exit_code == 0, done.output
    assert planned.output.split("would be removed")[1].split("would be")[0] in done.output.replace("were", "would be")
    assert set(own.keys()) == set(keys) and not unneeded & set(own.keys())
    assert not half.exists() and mine.exists()
    assert not own.runs() and "old" not in own.sweeps() and len(own.sweeps()) == 1
    assert gc(own) == ([], "")


@pytest.mark.parametrize("reason", ["running", "elsewhere", "damaged keys", "no list of keys", "damaged record"])
def test_gc_leaves_points_alone_when_somebody_may_need_them(own, reason):
    keys, unneeded, half, _ = litter(own)
    (run_,) = own.runs()
    record = {**own.runs()[run_], "state": "running", "updated": time.time() - 3600}
    (name,) = (n for n in own.sweeps() if n != "old")
    if reason == "running":
        own.keep_run(run_, {**record, "process": os.getpid()})
    elif reason == "elsewhere":
        own.keep_run(run_, {**record, "host": "elsewhere"})
    elif reason == "damaged keys":
        (own.path / "sweeps" / f"{name}.keys").write_text("0123")
    elif reason == "no list of keys":
        (own.path / "sweeps" / f"{name}.keys").unlink()
    else:
        (own.path / "sweeps" / f"{name}.json").write_text("{")
    result = run("store", "gc", own.path)
    assert result.exit_code == 0
    assert set(keys) <= set(own.keys())
    assert not half.exists()
    if reason == "damaged record":  # its list of points is there
        assert not unneeded & set(own.keys())
    else:
        assert "left alone" in result.output
        assert unneeded <= set(own.keys())


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    for words in (["ls"], ["verify"], ["gc"], ["pack"], ["migrate"], ["export", "--out", tmp_path / "a.csv"]):
        refused = run("store", words[0], tmp_path, *words[1:])
        assert refused.exit_code == 2 and "no store of sweeps" in refused.output
    assert not list(tmp_path.iterdir())


def test_help_tells_all_commands():
    assert all(word in run("store", "--help").output for word in ("ls", "verify", "gc", "pack", "migrate", "export"))
    for words in (["sweep"], ["status"], ["store", "ls"], ["store", "verify"], ["store", "gc"], ["store", "export"]):
        result = run(*words, "--help")
        assert result.exit_code == 0 and f"limitlab {' '.join(words)}" in result.output


def test_rows_keep_numbers_to_the_last_bit(tmp_path):
    store = Store(tmp_path / "runs")
    values = [0.1, 1 / 3, 1e-300, 5e-324, 1.7976931348623157e308]
    ll.sweep(value, problem(), {"x": values}, store=store)
    export(store, tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["x"]) for row in rows] == values
    np.testing.assert_array_equal([float(row["value"]) for row in rows], values)


def value(problem, x=0.0):
    return x
