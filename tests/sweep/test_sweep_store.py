"""The store of a sweep: every point kept once, whole, under its own name, and nothing else read as data."""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import limitlab as ll
from cases import committee
from limitlab.results.points import Point
from limitlab.sweep.identity import describe, hash_of, point_seed
from limitlab.sweep.storage.files.encoding import decode, encode
from limitlab.sweep.storage.files.records import POINT, frame
from limitlab.sweep.storage.files.segments import Segments
from limitlab.sweep.storage.pack import pack
from limitlab.sweep.storage.store import Store

RATE = "algorithm.learning_rate"
RATES = [0.1, 0.2, 0.4, 0.8]

HERE = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # for child processes


def problem(rate=0.5):
    return committee("linear", "linear", p=1, k=1, learning_rate=rate)


CALLS = []


def doubled(problem):
    CALLS.append(problem.algorithm.learning_rate)
    return 2 * problem.algorithm.learning_rate


@pytest.fixture(autouse=True)
def _no_calls_yet():
    CALLS.clear()


def swept(folder, rates=RATES, **keywords):
    return ll.sweep(doubled, problem(), {RATE: rates}, store=folder, **keywords)


# --- the files ---------------------------------------------------------------------------------------------------


def test_a_second_run_computes_only_what_is_missing(tmp_path):
    first = swept(tmp_path / "s")
    assert CALLS == RATES
    again = swept(tmp_path / "s", [0.1, 0.3, 0.8])
    assert CALLS == [*RATES, 0.3]
    np.testing.assert_array_equal(again["doubled"], [0.2, 0.6, 1.6])
    np.testing.assert_array_equal(first["doubled"], 2 * np.array(RATES))


def test_a_point_is_kept_with_its_provenance(tmp_path):
    ds = ll.sweep(ll.simulate, problem(), {"d": [20]}, times=[0.0, 1.0], replicas=3, seed=5, store=tmp_path / "s")
    store = Store(tmp_path / "s")
    (key,) = store.keys()
    point = store.read(key)
    np.testing.assert_array_equal(point.variables["risk"][1], ds["risk"].squeeze("d"))
    assert point.attrs["spec_hash"] == ll.spec_hash(problem())
    about = point.attrs["provenance"]
    assert about["key"] == key and about["root_seed"] == 5 and about["seed"] == point.attrs["seed"] != 5
    for name in ("verb", "arguments", "numerics_version", "seconds", "limitlab_version", "jax_version", "host"):
        assert about[name] is not None


def test_names_depend_on_everything_that_changes_the_numbers_and_on_nothing_else(tmp_path):
    def keys(number, **changes):
        keywords = {"times": [0.0, 1.0], "replicas": 2, "seed": 1, **changes}
        grid = keywords.pop("grid", {"d": [20]})
        ll.sweep(ll.simulate, keywords.pop("problem", problem()), grid, store=tmp_path / str(number), **keywords)
        return set(Store(tmp_path / str(number)).keys())

    base = keys(0)
    assert keys(1, times=np.array([0, 1]), grid={"d": [20.0]}) == base  # the same numbers in other clothes
    others = [
        keys(2, replicas=3),
        keys(3, seed=2),
        keys(4, times=[0.0, 2.0]),
        keys(5, problem=problem(0.25)),
        keys(6, representation="overlaps"),
        keys(7, grid={"d": [21]}),
    ]
    assert len(set.union(base, *others)) == 7


def test_a_function_is_known_by_its_code_and_closure():
    def make(factor, power=1):
        def verb(problem, shift=power):
            return factor * shift

        return verb

    assert describe(make(2.0)) == describe(make(2.0)) != describe(make(2))  # 1 // 2 is not 1 // 2.0 in type
    assert describe(make(2.0)) != describe(make(3.0))
    assert describe(make(2.0)) != describe(make(2.0, 2))
    assert describe(lambda problem: 1.0) != describe(lambda problem: 2.0)
    assert describe(lambda problem: problem in {1, 2}) == describe(lambda problem: problem in {2, 1})
    assert describe(ll.predict) == {"function": "limitlab:predict"}
    with pytest.raises(ll.errors.InputError, match=r"cannot tell lock objects apart \(read as Thread\._started"):
        describe(threading.Thread())


def test_functions_inside_a_problem_are_told_apart():
    import jax

    def inputs(width):
        def sampler(key, count, d):
            return jax.random.normal(key, (count, d)) * width, jax.numpy.ones(count)

        return ll.CustomInputs(sampler)

    assert describe(inputs(1.0)) != describe(inputs(2.0))
    student = {"student": ll.Committee(width=2, activation="relu"), "loss": ll.SquareLoss(), "start": ll.RandomStart()}
    wholes = [
        ll.Problem(inputs=inputs(w), algorithm=ll.OnlineSGD(learning_rate=0.1), **student) for w in (1.0, 2.0, 1.0)
    ]
    assert describe(wholes[0]) == describe(wholes[2]) != describe(wholes[1])


def the_segment(store):
    """The one file that the points are in."""
    store.close()
    (path,) = (store.path / "points").iterdir()
    return path


@pytest.mark.parametrize("kind", ["flipped", "head", "renamed", "foreign", "zeros"])
def test_damaged_and_foreign_points_are_quarantined_and_computed_again(tmp_path, kind):
    expected = swept(tmp_path / "s")
    store = Store(tmp_path / "s")
    key, other = sorted(store.keys())[:2]
    _, place = store.segments.place_of(bytes.fromhex(key))
    length, path = store.length(key), the_segment(store)
    data = bytearray(path.read_bytes())
    if kind == "flipped":
        data[place + length // 2] ^= 1
    elif kind == "head":
        data[place + 9] ^= 1  # the length
    elif kind == "zeros":
        data[place + 40 : place + length] = bytes(length - 40)
    else:  # whole records with the right checksums, but not of this point
        content = store.segments.read(bytes.fromhex(other)).content if kind == "renamed" else b"Dear diary"
        data[place : place + length] = frame(POINT, bytes.fromhex(key), content)
    path.write_bytes(data)
    CALLS.clear()
    if kind == "head":  # nobody knows whose it was: it is missing
        again = swept(tmp_path / "s")
        assert Store(tmp_path / "s").verify()[0] == len(RATES)
    else:
        with pytest.warns(ll.errors.DamagedFileWarning, match="was put into .*quarantine") as said:
            again = swept(tmp_path / "s")
        assert len(said) == 1
    assert len(CALLS) == 1
    np.testing.assert_array_equal(again["doubled"], expected["doubled"])
    (fault,) = Store(tmp_path / "s").faults()
    assert fault.moved_to.exists() and fault.path == path
    reasons = {"flipped": "checksum", "head": "damaged at byte", "zeros": "checksum", "renamed": "another point"}
    assert reasons.get(kind, "not a point") in fault.reason
    assert Store(tmp_path / "s").verify() == (len(RATES), [])
    assert len(Store(tmp_path / "s").faults()) == 1


def test_every_flipped_bit_and_every_cut_of_a_segment_is_seen(tmp_path):
    """600 changes of a file: a point is as it was, or missed, or refused; never another one, never a crash."""
    expected = swept(tmp_path / "s")["doubled"].values.tolist()
    store = Store(tmp_path / "s")
    (name,) = store.sweeps()
    keys, path = store.keys_of(name), the_segment(store)
    data, rng, seen = path.read_bytes(), np.random.default_rng(0), {"whole": 0, "missing": 0, "refused": 0}

    def look():
        store = Store(tmp_path / "s")
        for key, value in zip(keys, expected, strict=True):
            found = store.peek(key)
            seen["missing" if found is None else "refused" if isinstance(found, str) else "whole"] += 1
            if isinstance(found, Point):
                assert found.variables["doubled"][1] == value
        return store

    for place in rng.integers(0, len(data), 400):
        bad = bytearray(data)
        bad[place] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        before = sum(seen.values()) - seen["whole"]
        look()
        lost = sum(seen.values()) - seen["whole"] - before
        assert lost <= 1 or place < 24  # of the file's own first line, all of them
    for length in rng.integers(0, len(data), 200):
        path.write_bytes(data[:length])
        look()
    assert seen["missing"] > 100 and seen["refused"] > 100 and seen["whole"] > 1000


def test_a_torn_tail_is_cut_and_never_read(tmp_path):
    swept(tmp_path / "s")
    store = Store(tmp_path / "s")
    path = the_segment(store)
    data = path.read_bytes()
    record = frame(POINT, bytes(16), b"x" * 5000)
    for length in (1, 20, 36, 37, 3000, len(record) - 1):
        path.write_bytes(data + record[:length])
        assert sorted(Store(tmp_path / "s").keys()) == sorted(store.keys())
        assert Store(tmp_path / "s").verify() == (len(RATES), [])
        assert path.read_bytes() == data
    # The next writer of this machine cuts it too, and carries the segment on.
    path.write_bytes(data + record[:3000])
    swept(tmp_path / "s", [0.7])
    assert path.read_bytes().startswith(data) and len(path.read_bytes()) > len(data)
    assert Store(tmp_path / "s").verify() == (len(RATES) + 1, [])
    assert len(list((tmp_path / "s" / "points").iterdir())) == 1
    # What is not the beginning of a record is not thrown away.
    store.close()
    path.write_bytes(data + b"Dear diary, " * 10)
    good, (fault,) = Store(tmp_path / "s").verify()
    assert good == len(RATES) and fault.moved_to.read_bytes() == b"Dear diary, " * 10


def test_the_index_is_made_again_and_never_believed(tmp_path, monkeypatch):
    monkeypatch.setattr("limitlab.sweep.storage.files.segments.WORTH", 2)
    expected = swept(tmp_path / "s")
    store = Store(tmp_path / "s")
    keys = sorted(store.keys())
    (index,) = (store.path / "index").iterdir()
    data = bytearray(index.read_bytes())
    looked = []
    monkeypatch.setattr(Segments, "_look", lambda self, segment, size: looked.append(segment.name))
    assert sorted(Store(tmp_path / "s").keys()) == keys  # by the index alone
    monkeypatch.undo()
    monkeypatch.setattr("limitlab.sweep.storage.files.segments.WORTH", 2)
    for kind in ("gone", "garbage", "flipped", "lies"):
        if kind == "gone":
            index.unlink()
        elif kind == "garbage":
            index.write_bytes(b"hello")
        elif kind == "flipped":
            index.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
        else:  # two names change places, and the checksum is right
            rows = bytearray(data[:-32])
            rows[32:48], rows[64:80] = rows[64:80], rows[32:48]
            index.write_bytes(rows + hashlib.sha256(rows).digest())
        CALLS.clear()
        again = swept(tmp_path / "s")
        assert CALLS == [] and again.equals(expected), kind
        assert Store(tmp_path / "s").verify() == (len(RATES), [])
        assert index.exists()


def test_pack_joins_segments_and_frees_what_counts_no_more(tmp_path):
    stores = [Store(tmp_path / "s") for _ in range(3)]
    for number, store in enumerate(stores):  # all at once: none can carry on the segment of another
        ll.sweep(doubled, problem(), {RATE: [0.1 * (number + 1), 0.05]}, store=store)
    first = stores[0]
    keys = sorted(first.keys())
    values = {key: first.read(key).variables["doubled"][1] for key in keys}
    assert len(first.segments.names()) == 3
    first.remove(keys[0])
    assert sorted(Store(tmp_path / "s").keys()) == keys[1:]
    assert pack(Store(tmp_path / "s"))[:2] == (3, 3)  # they are being written
    for store in stores:
        store.close()
    before, after, freed = pack(Store(tmp_path / "s"))
    assert (before, after) == (3, 1) and freed > 0
    packed = Store(tmp_path / "s")
    assert sorted(packed.keys()) == keys[1:] and packed.verify() == (len(keys) - 1, [])
    for key in keys[1:]:
        assert packed.read(key).variables["doubled"][1] == values[key]
        assert first.read(key).variables["doubled"][1] == values[key]  # one that was open sees it too
    assert packed.folder("parts").names() == []


def test_verify_moves_what_does_not_belong(tmp_path):
    swept(tmp_path / "s")
    store = Store(tmp_path / "s")
    (store.path / "points" / "notes.txt").write_text("hello")
    (store.path / "points" / f"other-{'0' * 16}.seg").write_text("hello")
    good, bad = store.verify()
    assert good == 4
    assert {fault.path.name for fault in bad} == {"notes.txt", f"other-{'0' * 16}.seg"}
    assert store.verify() == (4, [])


def test_points_of_every_kind_come_back_as_they_were():
    rng = np.random.default_rng(1)
    tables = {
        "M": (("time", "student"), rng.normal(size=(3, 2))),
        "status": (("replica",), np.asarray(["ok", "é\n"])),
        "success": (("replica",), np.asarray([True, False])),
        "count": ((), np.asarray(7)),
        "small": ((), np.asarray(np.float32(0.1))),
        "empty": (("term",), np.zeros(0)),
        "infinite": ((), np.asarray(np.inf)),
        "nan": (("time",), np.asarray([np.nan, -0.0, 5e-324])),
    }
    coords = {"time": (("time",), np.arange(3.0)), "step": (("time",), np.arange(3)), "d": ((), np.asarray(5))}
    attrs = {"a": None, "b": [1, 2.5, "x"], "c": {"k": True}, "d": "", "e": "json:{", "long": "z" * 200_000, "n": 2**62}
    point = Point(tables, coords, attrs, ("M_R",))
    back = decode(encode(point), "it")
    assert back.attrs == attrs and back.skipped == ("M_R",) and not back.failed
    for name, (dims, values) in tables.items():
        assert back.variables[name][0] == dims and back.variables[name][1].dtype.kind == values.dtype.kind
        np.testing.assert_array_equal(back.variables[name][1], values)
    assert list(back.coords)[:3] == list(coords)
    failed = decode(encode(Point(reason="no", failure="out_of_time")), "it")
    assert failed.failed and failed.status[1] == "out_of_time"


def test_a_folder_with_other_things_is_no_store(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ll.errors.InputError, match="has other things in it"):
        swept(tmp_path)
    with pytest.raises(ll.errors.InputError, match="is a file"):
        swept(tmp_path / "thesis.tex")
    with pytest.raises(ll.errors.InputError, match="no folder"):
        Store(tmp_path / "nowhere", create=False)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "limitlab-store.json").write_text("{")
    with pytest.raises(ll.errors.ResultFileError, match="cannot be read as the mark"):
        swept(tmp_path / "s")
    (tmp_path / "s" / "limitlab-store.json").write_text(json.dumps({"limitlab_store": 99, "id": "x"}))
    with pytest.raises(ll.errors.ResultFileError, match="format 99"):
        swept(tmp_path / "s")


def test_half_written_files_of_dead_processes_are_swept_away(tmp_path):
    import socket

    swept(tmp_path / "s")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    parts = tmp_path / "s" / "parts"
    (parts / f"{socket.gethostname()}@{dead.pid}.abc").write_text("half")
    (parts / f"{socket.gethostname()}@{os.getpid()}.abc").write_text("mine, alive")
    (parts / f"elsewhere@{dead.pid}.abc").write_text("of another machine")
    swept(tmp_path / "s", [0.7])
    assert {p.name.split("@")[0] for p in parts.iterdir()} == {socket.gethostname(), "elsewhere"}
    assert len(list(parts.iterdir())) == 2


# --- disks that are full or closed --------------------------------------------------------------------------------

CHILD = """
import sys, resource, signal
sys.path[:0] = {here!r}
from test_sweep_store import *
{before}
try:
    swept({folder!r}, np.linspace(0.1, 1, 400).tolist(){keywords})
except ll.errors.ResultFileError as error:
    print("ResultFileError:", error)
store = Store({folder!r}, create=False)
parts = list((store.path / "parts").iterdir())
print(len(list(store.keys())), "stored", len(parts), "parts")
print(store.verify()[1])
"""


def child(folder, before="", keywords="", shell=None):
    code = CHILD.format(here=HERE, folder=str(folder), before=before, keywords=keywords)
    words = [sys.executable, "-c", code]
    if shell is not None:
        words = ["unshare", "-rm", "sh", "-c", shell + ' && exec "$@"', "sh", *words]
    return subprocess.run(words, capture_output=True, text=True, timeout=400)


def needs_mounts(tmp_path):
    probe = f"mount -t tmpfs -o size=300k tmpfs {tmp_path}"
    if (
        not shutil.which("unshare")
        or subprocess.run(["unshare", "-rm", "sh", "-c", probe], capture_output=True).returncode
    ):
        pytest.skip("this machine does not let users mount a small disk")


@pytest.mark.parametrize("keywords", ["", ", workers=1"], ids=["here", "worker"])
def test_a_full_disk_gives_a_clear_error_and_no_half_file(tmp_path, keywords):
    needs_mounts(tmp_path)
    done = child(tmp_path / "s", keywords=keywords, shell=f"mount -t tmpfs -o size=200k tmpfs {tmp_path}")
    assert "No space left on device" in done.stdout and "Everything stored so far is kept" in done.stdout, done
    count, _, parts, _ = done.stdout.split("\n")[-3].split()
    assert int(count) > 10 and int(parts) == 0
    assert done.stdout.endswith("[]\n")


def test_a_file_that_may_not_grow_is_as_good_as_a_full_disk(tmp_path):
    before = f"swept({str(tmp_path / 's')!r}, [0.05]); resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))"
    done = child(tmp_path / "s", before=before)
    assert "could not be written: File too large" in done.stdout, done
    assert "1 stored 0 parts" in done.stdout and done.stdout.endswith("[]\n")


def test_a_read_only_store_is_said_before_anything_is_computed(tmp_path):
    needs_mounts(tmp_path)
    disk = f"mount -t tmpfs -o size=4m tmpfs {tmp_path}"
    before = f"""
import subprocess
swept({str(tmp_path / "s")!r}, [0.1])
CALLS.clear()
subprocess.run(["mount", "-o", "remount,ro", {str(tmp_path)!r}], check=True)
import atexit; atexit.register(lambda: print("calls", len(CALLS)))
"""
    done = child(tmp_path / "s", before=before, shell=disk)
    assert "Read-only file system" in done.stdout and "1 stored 0 parts" in done.stdout, done
    assert "calls 0" in done.stdout


# --- seeds --------------------------------------------------------------------------------------------------------


def test_points_have_streams_of_their_own():
    ds = ll.sweep(ll.simulate, problem(), {"start.overlap": [0.3, 0.3000001], "d": [30]}, times=[1.0], replicas=64)
    a, b = ds["risk"].values[:, 0, 0]
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.5
    shared = [ll.simulate(problem(), 30, [1.0], 64, seed=0)["risk"].values[0] for _ in range(2)]
    assert np.corrcoef(*shared)[0, 1] > 0.999  # what one seed for all points would give


@pytest.mark.more
def test_more_replicas_and_times_extend_the_same_runs():
    short = ll.sweep(ll.simulate, problem(), {"d": [30]}, times=[1.0], replicas=2, seed=4)
    longer = ll.sweep(ll.simulate, problem(), {"d": [30, 40]}, times=[0.5, 1.0], replicas=3, seed=4)
    np.testing.assert_array_equal(longer["risk"].sel(d=30, time=1.0)[:2], short["risk"].sel(d=30, time=1.0))


def test_seeds_of_a_million_points_do_not_meet():
    seeds = {point_seed(0, hash_of(i)) for i in range(20_000)}
    assert len(seeds) == 20_000 and max(seeds) < 2**62 and max(seeds) > 2**61
    assert point_seed(0, "a") != point_seed(1, "a")


def test_a_limit_takes_the_seed_of_the_sweep_only_when_one_is_given():
    limit = ll.OverlapODE(d=50, replicas=2, seed=9)
    grid, drawn = {RATE: [0.1, 0.2]}, dataclasses.replace(problem(), start=ll.RandomStart())
    own = ll.sweep(ll.predict, drawn, grid, limit=limit, times=[0.0])
    np.testing.assert_array_equal(own["Q"][0], own["Q"][1])  # one start for all
    given = ll.sweep(ll.predict, drawn, grid, limit=limit, times=[0.0], seed=1)
    assert not np.array_equal(given["Q"][0], given["Q"][1])
    with pytest.raises(ll.errors.InputError, match="draws no random numbers"):
        ll.sweep(doubled, problem(), grid, seed=1)
    with pytest.raises(ll.errors.InputError, match="has no replicas"):
        ll.sweep(doubled, problem(), grid, replicas=1)


def test_seeds_on_the_grid_are_roots():
    ds = ll.sweep(ll.simulate, problem(), {"seed": [1, 2], "d": [30]}, times=[1.0], replicas=2)
    one = ll.sweep(ll.simulate, problem(), {"d": [30]}, times=[1.0], replicas=2, seed=2)
    np.testing.assert_array_equal(ds["risk"].sel(seed=2, d=30), one["risk"].sel(d=30))
    assert not np.array_equal(ds["risk"][0], ds["risk"][1])


# --- stores that are not quite as they were made --------------------------------------------------------------------


def test_a_store_without_its_empty_folders_works(tmp_path):
    swept(tmp_path / "s", [0.1])
    for name in ("parts", "quarantine", "runs", "index"):
        shutil.rmtree(tmp_path / "s" / name)
    Store(tmp_path / "s").verify()
    assert Store(tmp_path / "s").parts() == [] and Store(tmp_path / "s").runs() == {}
    swept(tmp_path / "s", [0.1, 0.2])
    assert CALLS == [0.1, 0.2]


def test_an_empty_mark_is_written_again_or_said(tmp_path):
    """As a power cut leaves it."""
    swept(tmp_path / "s", [0.1])
    (tmp_path / "s" / "limitlab-store.json").write_bytes(b"")
    CALLS.clear()
    swept(tmp_path / "s", [0.1])
    assert CALLS == []
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "limitlab-store.json").write_bytes(b"")
    with pytest.raises(ll.errors.ResultFileError, match="Remove it and run again"):
        Store(tmp_path / "t")
    (tmp_path / "t" / "limitlab-store.json").unlink()
    swept(tmp_path / "t", [0.1])


def test_a_complete_store_that_may_only_be_read_is_read(tmp_path):
    needs_mounts(tmp_path)
    before = f"""
import subprocess
swept({str(tmp_path / "s")!r}, np.linspace(0.1, 1, 400).tolist())
CALLS.clear()
open({str(tmp_path / "s" / "limitlab-store.json")!r}, "w").close()  # by a power cut
subprocess.run(["mount", "-o", "remount,ro", {str(tmp_path)!r}], check=True)
try:
    pack(Store({str(tmp_path / "s")!r}))
except ll.errors.LimitlabError as error:
    print("cannot be packed:", error)
import atexit; atexit.register(lambda: print("calls", len(CALLS)))
"""
    done = child(tmp_path / "s", before=before, shell=f"mount -t tmpfs -o size=4m tmpfs {tmp_path}")
    assert "cannot be packed" in done.stdout and "could not be written: Read-only file system" in done.stdout, done
    assert "ResultFileError" not in done.stdout and "400 stored 0 parts\n[]\ncalls 0" in done.stdout, done
