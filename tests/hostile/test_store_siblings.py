"""Siblings of the attacks on a store: folders swapped meanwhile, indices that lie, records that are long or many."""

import dataclasses
import errno
import hashlib
import json
import os
import struct
import time
import tracemalloc
import zlib

import numpy as np
import pytest
from typer.testing import CliRunner

import limitlab as ll
from cases import committee
from limitlab.cli import app
from limitlab.errors import DamagedFileWarning, InputError
from limitlab.numerics import machine
from limitlab.results import files as saving
from limitlab.results.points import Point
from limitlab.sweep.engine import compute as computing
from limitlab.sweep.engine import tally
from limitlab.sweep.storage import store as storing
from limitlab.sweep.storage import verify as verifying
from limitlab.sweep.storage.care import gc
from limitlab.sweep.storage.files import folder as folders
from limitlab.sweep.storage.files import life
from limitlab.sweep.storage.files import segments as segmenting
from limitlab.sweep.storage.files.encoding import encode
from limitlab.sweep.storage.files.index import MAGIC as INDEX
from limitlab.sweep.storage.files.index import rows_in
from limitlab.sweep.storage.files.places import COPIES, Places
from limitlab.sweep.storage.files.records import CHECK, CLAIM, HEAD, MAGIC, MARK, POINT, SHORTEST, VOID, VOIDED, frame
from limitlab.sweep.storage.pack import pack
from limitlab.sweep.storage.store import Store
from limitlab.sweep.storage.tidy import MANY, Rows
from limitlab.sweep.table import combine

NAME = "stranger-" + "0" * 16 + ".seg"


def key(number):
    return hashlib.sha256(str(number).encode()).hexdigest()[:32]


def a_point(number, values=None):
    values = np.full(3, float(number)) if values is None else values
    return Point({"x": (("i",), values)}, attrs={"provenance": {"key": key(number)}})


def filled(path, count=5):
    store = Store(path)
    for number in range(count):
        store.write(key(number), a_point(number))
    return store


def picture(path):
    return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size) for p in sorted(path.rglob("*"))}


# --- the folder itself -------------------------------------------------------------------------------------------


def test_a_store_that_is_swapped_for_a_link_meanwhile_leads_nowhere(tmp_path):
    """Whoever owns the folder that a store is in can put a link to another store under its name, at any moment."""
    theirs = filled(tmp_path / "shared")
    mine = filled(tmp_path / "mine")
    mine.close()
    (tmp_path / "mine" / "parts" / "old").write_text("x")
    (tmp_path / "shared" / "quarantine" / "old").write_text("x")
    (tmp_path / "mine" / "quarantine" / "old").write_text("x")
    before = picture(tmp_path / "mine")
    (tmp_path / "shared").rename(tmp_path / "aside")
    (tmp_path / "shared").symlink_to(tmp_path / "mine")
    theirs.write(key(99), a_point(99))
    theirs.remove(key(0))
    theirs.keep_sweep("s", {}, [key(1)])
    gc(theirs, quarantine=True)
    pack(theirs)
    theirs.verify()
    assert picture(tmp_path / "mine") == before
    assert theirs.gone() and not Store(tmp_path / "aside").gone()
    assert list(Store(tmp_path / "aside").keys()) == [key(1)]


def test_a_store_that_is_reached_through_a_link_works(tmp_path):
    filled(tmp_path / "s").close()
    (tmp_path / "link").symlink_to(tmp_path / "s")
    store = Store(tmp_path / "link")
    assert store.verify() == (5, []) and not store.gone()


def test_stores_are_made_where_files_have_no_second_names(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(folders.os, "link", refused)
    store = filled(tmp_path / "s")
    assert Store(tmp_path / "s").id == store.id and store.verify() == (5, [])
    store.mark(replace=False)  # another process that makes it at the same moment
    assert Store(tmp_path / "s").id == store.id


def test_a_file_that_is_swapped_for_a_link_while_it_is_written_leads_nowhere(tmp_path, monkeypatch):
    """Whoever owns the folder can do so: the link would become a second name of what it points to."""
    store, secret, put = filled(tmp_path / "s"), tmp_path / "secret", folders.put
    secret.write_text("secret")

    def swapping(file, data):
        put(file, data)
        for part in (tmp_path / "s" / "parts").iterdir():
            part.unlink()
            part.symlink_to(secret)

    monkeypatch.setattr(folders, "put", swapping)
    for replace in (False, True):
        store.folder("runs").write(f"{replace}.json", b"{}", replace=replace)
        assert secret.stat().st_nlink == 1 and secret.read_text() == "secret"
    assert store.runs() == {}


@pytest.mark.parametrize("kind", ["nc", "csv", "parquet"])
def test_a_result_that_is_swapped_for_a_link_while_it_is_written_leads_nowhere(tmp_path, monkeypatch, kind):
    """The checksum of a result is written last, and a table is begun again where points differ: not elsewhere."""
    store, secret = filled(tmp_path / "s"), tmp_path / "secret"
    secret.write_text("secret")
    store.write(key(8), Point({"other": ((), np.asarray("x"))}, attrs={"provenance": {"key": key(8)}}))
    problem = {"problem": ll.spec.to_dict(committee("linear", "linear", p=1, k=1))}
    store.keep_sweep("s", {"name": "verb", "axes": {"c": [1, 2]}, "problem": problem}, [key(0), key(8)])

    def swapping(true):
        def swap(*words):
            for part in (tmp_path / "out").iterdir():
                part.unlink()
                part.symlink_to(secret)
            return true(*words)

        return swap

    monkeypatch.setattr(saving, "check_file", swapping(lambda *_: None))
    monkeypatch.setattr(Rows, "scan", swapping(Rows.scan))
    (tmp_path / "out").mkdir()
    words = ["store", "export", str(tmp_path / "s"), "--out", str(tmp_path / "out" / f"a.{kind}")]
    done = CliRunner().invoke(app, words)
    assert secret.read_text() == "secret" and done.exit_code == (2 if kind == "nc" else 0), done.output


def test_folders_of_any_depth_are_thrown_away(tmp_path):
    filled(tmp_path / "s").close()
    here = os.open(tmp_path / "s" / "quarantine", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.symlink(tmp_path, "link", dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    gc(Store(tmp_path / "s"), quarantine=True)
    assert os.listdir(tmp_path / "s" / "quarantine") == []
    assert (tmp_path / "s" / "points").is_dir()


@pytest.mark.parametrize("name", ["\u4e2d" * 85, "\U0001f642" * 63, "x" * 255, "\x1b[31m\nx", "..x", "%2e%2e"])
def test_names_of_any_length_are_put_aside(tmp_path, name):
    filled(tmp_path / "s").close()
    (tmp_path / "s" / "points" / name).write_text("hello")
    good, bad = Store(tmp_path / "s").verify()
    assert good == 5 and len(bad) == 1 and bad[0].moved_to.read_text() == "hello"
    assert Store(tmp_path / "s").verify() == (5, [])


FORGED = "\n\nAll 99 points are good.\n\x1b[31m\u202e\r"


def told(*words):
    """What a command says, line by line; nothing in it may steer a terminal, or look like a message of its own."""
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert all(c.isprintable() or c == "\n" for c in done.output), ascii(done.output)
    assert not any(line.strip().startswith("All 99") for line in done.output.splitlines()), done.output
    return done.output


def test_names_of_files_cannot_forge_messages(tmp_path):
    store = filled(tmp_path / "s")
    store.keep_sweep("s", {"name": FORGED, "axes": {FORGED: [1]}}, [key(0)])
    store.keep_sweep(f"s{FORGED}", {"name": "verb", "axes": {"d": [1]}}, [key(0)])
    record = dict.fromkeys(["verb", "note", "sweep", "host", "failed", "running"], FORGED)
    store.keep_run(f"r{FORGED}", {**record, "state": "running", "updated": time.time()})
    for number, folder in enumerate(("points", "quarantine", "sweeps", "runs", "parts")):
        (tmp_path / "s" / folder / f"{number}{FORGED}.seg").write_text("hello")
    (tmp_path / "s" / "quarantine" / f"1{FORGED}.seg.txt").write_text(f"{FORGED}\n{FORGED}")
    heard = told("store", "verify", tmp_path / "s")
    assert "\\n\\nAll 99 points are good.\\n\\x1b[31m" in heard  # said, but as a name
    for words in (["status"], ["store", "ls"], ["store", "ls", "--points"], ["store", "gc"], ["store", "pack"]):
        told(*words, tmp_path / "s")
    told("store", "export", tmp_path / "s", "--out", tmp_path / f"{FORGED}.nc")
    told("store", "migrate", tmp_path / "s")


TEXTS = [
    lambda p: dataclasses.replace(p, variables={}, coords={}, reason=FORGED),
    lambda p: dataclasses.replace(p, variables={**p.variables, FORGED: ((), np.asarray(1.0))}),
    lambda p: dataclasses.replace(p, skipped=(FORGED,)),
    lambda p: dataclasses.replace(p, attrs={**p.attrs, "verb": FORGED, FORGED: FORGED}),
    lambda p: dataclasses.replace(p, variables={}, coords={}, reason="x", failure=FORGED),
]


def test_texts_of_points_under_their_right_names_cannot_forge_messages(tmp_path):
    """Whole points with the right checksums and names, taken for those of the sweep, that say something else."""
    ll.save_spec(committee("linear", "linear", p=1, k=1), tmp_path / "a.toml")
    words = ["sweep", tmp_path / "a.toml", "--over", "seed=1:5:1", "--times", "0", "--replicas", "1", "--d", "9"]
    words += ["--out", tmp_path / "s"]
    told(*words)
    (name,) = Store(tmp_path / "s").sweeps()
    for number in (range(4), range(4, 5)):  # the last one has a status that does not exist, which is an error
        store = Store(tmp_path / "s")
        for one, change in [(store.keys_of(name)[i], TEXTS[i]) for i in number]:
            point = store.read(one)
            store.remove(one)
            store.write(one, change(point))
        store.close()
        assert "\\nAll 99 points" in told(*words)
        told("store", "ls", tmp_path / "s", "--points")
        told("store", "export", tmp_path / "s", "--out", tmp_path / "a.nc", "--force")


# --- records -------------------------------------------------------------------------------------------------------


def headed(kind, length):
    head = HEAD.pack(MARK, kind, length, bytes(16))
    return head + CHECK.pack(zlib.crc32(head))


@pytest.mark.parametrize("kind", [VOID, CLAIM])
@pytest.mark.parametrize("length", [1 << 30, 1 << 28])
def test_a_sparse_record_that_is_not_a_point_is_never_read_into_memory(tmp_path, kind, length):
    """Kilobytes on the disk that say that they are a gigabyte."""
    filled(tmp_path / "s").close()
    path = tmp_path / "s" / "points" / NAME
    path.write_bytes(MAGIC + headed(kind, length))
    os.truncate(path, len(MAGIC) + SHORTEST + length)
    tracemalloc.start()
    try:
        store = Store(tmp_path / "s")
        assert len(list(store.keys())) == 5
        assert store.verify()[0] == 5
        assert tracemalloc.get_traced_memory()[1] < 5e7
    finally:
        tracemalloc.stop()


def test_claims_and_voids_as_they_are_written_are_within_the_bounds(tmp_path):
    one, two = filled(tmp_path / "s"), Store(tmp_path / "s")
    one.claim([key(number) for number in range(5000)])
    two.refresh()
    assert two.claimed(key(4000)) and not two.claimed(key(4999))  # a hint, no promise
    one.remove(key(3))
    two.refresh()
    assert not two.has(key(3))
    one.close()
    assert two.verify() == (4, [])


def test_claims_of_the_dead_are_not_kept(tmp_path):
    """Hard links, or files that pack well: each would take five times its size in memory for nothing."""
    store = filled(tmp_path / "s")
    keys = b"".join(bytes.fromhex(key(number)) for number in range(4096))
    (tmp_path / "s" / "points" / NAME).write_bytes(MAGIC + frame(CLAIM, bytes(16), keys))
    for number in range(1, 30):
        os.link(tmp_path / "s" / "points" / NAME, tmp_path / "s" / "points" / f"stranger-{number:016x}.seg")
    assert peak_of(lambda: Store(tmp_path / "s")) < 2e6
    assert not Store(tmp_path / "s").claimed(key(7))
    store.claim([key(7)])
    assert Store(tmp_path / "s").claimed(key(7))  # of a writer that lives


def test_damaged_holes_are_not_copied_to_quarantine(tmp_path):
    """A few kilobytes on the disk would become gigabytes there."""
    filled(tmp_path / "s").close()
    length, points = 1 << 24, tmp_path / "s" / "points"
    (points / NAME).write_bytes(MAGIC + headed(POINT, length))
    os.truncate(points / NAME, len(MAGIC) + SHORTEST + length)
    other = points / f"stranger-{1:016x}.seg"
    other.write_bytes(MAGIC + frame(POINT, bytes.fromhex(key(0)), b"") + b"junk" * 2000)
    os.truncate(other, length)
    good, bad = Store(tmp_path / "s").verify()
    assert good == 5 and len(bad) == 3
    assert sum(fault.moved_to.stat().st_size for fault in bad) < 1e5
    assert other.stat().st_size < 200  # what stood after its last record was cut off
    assert Store(tmp_path / "s").verify() == (5, [])


def test_more_segments_are_packed_than_files_can_be_open(tmp_path):
    """A thousand workers leave a thousand; a process may have 1024 files open, often."""
    import resource

    Store(tmp_path / "s").close()
    for number in range(150):
        data = frame(POINT, bytes.fromhex(key(number)), encode(a_point(number)))
        (tmp_path / "s" / "points" / f"host-{number:016x}.seg").write_bytes(MAGIC + data)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 60, before[1]))
    try:
        assert pack(Store(tmp_path / "s"))[:2] == (150, 1)
        assert Store(tmp_path / "s").verify() == (150, [])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_segment_that_is_carried_on_while_others_are_packed_stays(tmp_path):
    """Also if it is as long as before: its unfinished end is cut off, and something else takes its place."""
    store = filled(tmp_path / "s")
    store.close()
    (path,) = (tmp_path / "s" / "points").iterdir()
    more = frame(POINT, bytes.fromhex(key(77)), encode(a_point(77)))
    os.truncate(path, path.stat().st_size + len(more))  # zeros, as a power cut leaves them
    os.utime(path, (1e9, 1e9))

    def meanwhile(*_):
        with open(path, "r+b") as file:
            file.seek(-len(more), 2)
            file.write(more)

    pack(Store(tmp_path / "s"), progress=meanwhile)
    assert all(Store(tmp_path / "s").has(key(number)) for number in [*range(5), 77])
    pack(Store(tmp_path / "s"))
    assert Store(tmp_path / "s").verify() == (6, []) and len(os.listdir(tmp_path / "s" / "points")) == 1


@pytest.mark.parametrize("place", [2**64 - 1, 2**63, 2**63 - 1, 2**33 + 24, 2**62])
def test_voids_of_places_that_no_file_has_count_for_nothing(tmp_path, place):
    """Some of them no system call takes; in the segment itself, which is known by then."""
    filled(tmp_path / "s").close()
    name = next((tmp_path / "s" / "points").iterdir()).name
    own = [frame(VOID, bytes(16), VOIDED.pack(place, 1) + one.encode()) for one in (NAME, name)]
    (tmp_path / "s" / "points" / NAME).write_bytes(MAGIC + b"".join(own))
    assert Store(tmp_path / "s").verify() == (5, [])
    pack(Store(tmp_path / "s"))
    assert Store(tmp_path / "s").verify() == (5, [])


def test_beginnings_of_records_between_records_are_given_up_too(tmp_path):
    store = filled(tmp_path / "s")
    good, false = frame(CLAIM, bytes(16), b""), MARK * 6000
    (tmp_path / "s" / "points" / NAME).write_bytes(MAGIC + (good + false) * 2 + good)
    (fault,) = Store(tmp_path / "s").segments.faults()
    assert "full of beginnings" in fault
    store.close()
    count, faults = Store(tmp_path / "s").verify()
    assert count == 5 and faults[-1].moved_to.exists()
    assert Store(tmp_path / "s").verify() == (5, [])


def test_beginnings_of_empty_records_are_given_up_too(tmp_path):
    """Each is a record with the wrong checksum, of one and the same point, and ends within the next one."""
    filled(tmp_path / "s").close()
    (tmp_path / "s" / "points" / NAME).write_bytes(MAGIC + headed(POINT, 0) * 60_000)
    began, store = time.process_time(), Store(tmp_path / "s")
    assert isinstance(store.peek(bytes(16).hex()), str)
    with pytest.warns(DamagedFileWarning):
        store.read(bytes(16).hex())
    good, faults = store.verify()
    assert good == 5 and "full of beginnings" in faults[-1].reason
    assert time.process_time() - began < 10 and store.segments.total() < 4e6
    store.close()
    assert Store(tmp_path / "s").verify() == (5, [])


def peak_of(call):
    """The largest memory that a call takes, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_names_of_one_large_record_do_not_fill_the_memory(tmp_path):
    """Hard links: kilobytes in an archive. Each record takes twenty times its length when it is read."""
    store = filled(tmp_path / "s")
    store.keep_sweep("a", {"name": "verb", "axes": {"d": [1]}, "numerics_version": 0}, [key(0)])
    store.keep_run("a", {"state": "finished", "note": "x"})
    for folder, count in {"sweeps": 10_000, "runs": 10_000}.items():
        first = tmp_path / "s" / folder / "b0.json"
        first.write_bytes(b'{"name": "x", "state": "finished", "z": [' + b"[]," * count + b"[]]}")
        for number in range(1, 12):
            os.link(first, first.with_name(f"b{number}.json"))
    for folder, look in {
        "sweeps": lambda: [None for _ in store.sweeps().items()],
        "names": lambda: list(store.sweeps()),
        "runs": store.runs,
        "gc": lambda: gc(store, dry_run=True),
    }.items():
        assert peak_of(look) < 4e6, folder  # one takes nearly one
    assert len(store.sweeps()) == 13 and "a" in store.sweeps() and "z" not in store.sweeps()
    assert len(store.runs()) == 13 and store.runs()["b7"] == {"state": "finished"}
    assert store.sweeps()["b7"]["name"] == "x"


def test_many_names_of_one_record_with_long_texts_do_not_fill_the_memory(tmp_path, monkeypatch):
    """Of a run only what runs write down is kept, texts where they have texts; of many the last ones are looked at."""
    store, path = filled(tmp_path / "s"), tmp_path / "s"
    texts = dict.fromkeys(["note", "state", "total", "done", "began", "process", "host"], "\U0001f642" + "x" * 8000)
    (path / "runs" / "b0.json").write_text(json.dumps(texts, ensure_ascii=False))
    (path / "quarantine" / "b0").write_text("x")
    (path / "quarantine" / "b0.txt").write_text("x\n" + "y" * 60_000)
    for number in range(1, 30):
        os.link(path / "runs" / "b0.json", path / "runs" / f"b{number}.json")
        for end in ("", ".txt"):
            os.link(path / "quarantine" / f"b0{end}", path / "quarantine" / f"b{number}{end}")
    assert peak_of(store.runs) < 1e6 and set(store.runs()["b7"]) == {"note", "state", "host"}
    assert peak_of(store.faults) < 1e6 and len(store.faults()) == 30
    monkeypatch.setattr(storing, "MAX_RUNS", 5)
    store.keep_run("now", {"state": "running"})
    assert len(store.runs()) == 5 and "now" in store.runs()


def test_an_index_of_a_hole_is_not_read(tmp_path):
    """A file of a gigabyte that takes nothing on the disk, and an index that says that it is full of points."""
    filled(tmp_path / "s").close()
    size = 1 << 28
    (tmp_path / "s" / "points" / NAME).write_bytes(MAGIC)
    os.truncate(tmp_path / "s" / "points" / NAME, size)
    rows = [(struct.pack("<QQ", number, 0), 24 + SHORTEST * number, POINT) for number in range(10**5)]
    (tmp_path / "s" / "index" / f"{NAME}.idx").write_bytes(an_index(size, rows))
    assert peak_of(lambda: Store(tmp_path / "s")) < 4e6
    assert len(list(Store(tmp_path / "s").keys())) == 5


def test_an_index_of_a_file_that_is_no_segment_is_not_read(tmp_path):
    """It is larger than any segment, and its places would be those of other segments."""
    filled(tmp_path / "s").close()
    (tmp_path / "s" / "points" / NAME).write_bytes(MAGIC)
    os.truncate(tmp_path / "s" / "points" / NAME, 10**12)
    rows = [(bytes.fromhex(key(100 + number)), (number << 33) + 24, POINT) for number in range(9)]
    (tmp_path / "s" / "index" / f"{NAME}.idx").write_bytes(an_index(10**12, rows))
    store = Store(tmp_path / "s")
    assert [store.peek(key(100 + number)) for number in range(9)] == [None] * 9
    assert len(list(store.keys())) == 5 and len(store.segments.faults()) == 1


def test_few_of_many_copies_of_a_point_are_remembered():
    places, one = Places(), b"k" * 16
    segments = [places.segment(str(number)) for number in range(1000)]
    for segment in segments:
        places.put(segment, one, 24)
    dropped = 0
    while (at := places.of(one)) is not None:
        places.drop(at[0], one, at[1])
        dropped += 1
    assert dropped == 1 + COPIES


def test_many_damaged_places_do_not_become_many_files(tmp_path, monkeypatch):
    filled(tmp_path / "s").close()
    monkeypatch.setattr(verifying, "MAX_FAULTS", 5)
    bad = [bytearray(frame(POINT, bytes.fromhex(key(100 + number)), b"x" * 20)) for number in range(50)]
    for one in bad:
        one[-1] ^= 1
    good = frame(POINT, bytes.fromhex(key(0)), b"")
    (tmp_path / "s" / "points" / NAME).write_bytes(MAGIC + b"".join(map(bytes, bad)) + good)
    count, faults = Store(tmp_path / "s").verify()
    assert count == 5 and len(faults) == 6
    assert "45 more places" in faults[-1].reason or "46 more places" in faults[-1].reason
    assert len(os.listdir(tmp_path / "s" / "quarantine")) == 10
    assert Store(tmp_path / "s").verify() == (5, [])
    pack(Store(tmp_path / "s"))
    assert Store(tmp_path / "s").verify() == (5, []) and len(os.listdir(tmp_path / "s" / "points")) == 1


# --- the index -----------------------------------------------------------------------------------------------------


def an_index(end, rows):
    body = INDEX + struct.pack("<Q", end) + b"".join(k + struct.pack("<QQ", p, kind) for k, p, kind in rows)
    return body + hashlib.sha256(body).digest()


def test_an_index_that_no_segment_can_have_is_not_taken():
    one, other = bytes(16), b"y" * 16
    good = [(one, 24, POINT), (other, 24 + SHORTEST, VOID)]
    assert rows_in(an_index(1000, good), 1000) == (1000, good)
    assert rows_in(an_index(1000, good)[:-1], 1000) is None
    assert rows_in(an_index(1001, good), 1000) is None
    for bad in [(one, 24, 0)], [(one, 24, POINT)] * 2, [(one, 2000, POINT)], [(one, 2**63, POINT)], good[::-1]:
        assert rows_in(an_index(1000, bad), 1000) is None
    assert rows_in(b"", 1000) is None and rows_in(bytes(10**6), 10**7) is None


def lying(path, change):
    """A store of 5 points with an index that has the right checksum and says something else."""
    store = filled(path)
    store.close()
    segment = next((path / "points").iterdir())
    found = list(store.segments.pieces(segment.name))
    rows = change([(one.key, one.place, one.kind) for one in found if one.kind == POINT])
    (path / "index").mkdir(exist_ok=True)
    (path / "index" / f"{segment.name}.idx").write_bytes(an_index(segment.stat().st_size, rows))


def swapped(rows):
    return [(rows[(number + 1) % len(rows)][0], place, kind) for number, (_, place, kind) in enumerate(rows)]


@pytest.mark.parametrize("readonly", [False, True])
def test_an_index_that_lies_is_found_out(tmp_path, monkeypatch, readonly):
    """In a store that may only be read it cannot be taken away; it is not believed a second time."""
    lying(tmp_path / "s", swapped)
    if readonly:

        def refused(*_):
            raise PermissionError(errno.EROFS, "read-only")

        monkeypatch.setattr(folders.Folder, "remove", refused)
    store = Store(tmp_path / "s")
    for number in range(5):
        assert store.read(key(number)).variables["x"][1][0] == number


@pytest.mark.parametrize("byte", [0, 4, 9, 20, 33])
def test_a_damaged_head_is_missed_where_an_index_knows_its_point(tmp_path, monkeypatch, byte):
    """A flipped bit in what names a record: nobody can say whose it was but the index, which is then in doubt."""
    monkeypatch.setattr(segmenting, "WORTH", 2)
    filled(tmp_path / "s").close()
    store = Store(tmp_path / "s")
    name, place = store.segments.place_of(bytes.fromhex(key(3)))
    assert (tmp_path / "s" / "index" / f"{name}.idx").exists()
    path = tmp_path / "s" / "points" / name
    data = bytearray(path.read_bytes())
    data[place + byte] ^= 1
    path.write_bytes(data)
    other = Store(tmp_path / "s")
    for one in (store, other):
        assert one.read(key(3)) is None and not one.has(key(3))
        assert all(one.read(key(number)) is not None for number in (0, 1, 2, 4))
    other.close()
    store.write(key(3), a_point(3))
    assert store.read(key(3)).variables["x"][1][0] == 3
    store.close()
    good, (fault,) = Store(tmp_path / "s").verify()
    assert good == 5 and "damaged at byte" in fault.reason
    assert Store(tmp_path / "s").verify() == (5, []) and len(Store(tmp_path / "s").faults()) == 1


def test_an_index_that_lies_of_the_segment_that_is_carried_on_is_found_out(tmp_path):
    lying(tmp_path / "s", swapped)
    store = Store(tmp_path / "s")
    store.write(key(7), a_point(7))
    assert len(os.listdir(tmp_path / "s" / "points")) == 1  # the same one
    for number in (*range(5), 7):
        assert store.read(key(number)).variables["x"][1][0] == number
    store.write(key(8), a_point(8))
    store.close()
    assert Store(tmp_path / "s").verify() == (7, [])


def test_verify_finds_points_that_an_index_hides(tmp_path):
    lying(tmp_path / "s", lambda rows: rows[:2])
    store = Store(tmp_path / "s")
    assert not store.has(key(4)) or not store.has(key(3))  # as it says; they would be computed again
    assert store.verify() == (5, [])
    assert all(store.has(key(number)) for number in range(5))


# --- writers that nobody can see, and clocks ------------------------------------------------------------------------


def test_pack_leaves_a_segment_that_grows_where_there_are_no_locks(tmp_path, monkeypatch):
    """As if the clock had jumped: everybody takes a segment for left behind while its writer goes on."""
    monkeypatch.setattr(life, "fcntl", None)
    monkeypatch.setattr(life, "LONG_AGO", -1e9)
    writer, packer = filled(tmp_path / "s"), Store(tmp_path / "s")
    pack(packer, progress=lambda done, *_: writer.write(key(50 + done), a_point(50 + done)))
    there = Store(tmp_path / "s")
    assert all(there.has(key(number)) for number in [*range(5), 51, 52, 53, 54, 55])
    assert there.verify()[1] == []


def test_a_run_tells_how_far_it_is_after_the_clock_was_set_back(tmp_path, monkeypatch):
    monkeypatch.setattr(tally, "EVERY", 0.0)
    store = Store(tmp_path / "s")
    one = tally.Tally("verb", "s", 3, store, None)
    one.count(False)
    monkeypatch.setattr(tally.time, "time", lambda: 1.0)
    one.count(False)
    (record,) = store.runs().values()
    assert record["done"] == 2 and one.rate > 0


ODD = [10**400, -(10**400), 1e308, float("nan"), float("inf"), -5, True, [], {}, "x", None]


@pytest.mark.parametrize("value", ODD, ids=lambda value: str(value)[:8])
def test_records_of_runs_with_any_numbers_are_shown(tmp_path, value):
    store = filled(tmp_path / "s")
    store.keep_sweep("s", {"name": value, "axes": {"a": value}}, [key(0)])
    about = dict.fromkeys(["began", "updated", "total", "found", "done", "failed", "running", "process"], value)
    for state in ("running", "finished", value):
        store.keep_run(f"r{state!s:.8}", {**about, "state": state, "host": "elsewhere", "sweep": "s"})
    for words in (["status", "{}"], ["store", "ls", "{}"], ["store", "gc", "{}"]):
        done = CliRunner().invoke(app, [word.format(tmp_path / "s") for word in words])
        assert done.exit_code == 0, (done.output, done.exception)


@pytest.mark.parametrize("cut", [24, 500])
def test_a_sweep_whose_segment_is_cut_by_somebody_else_goes_on(tmp_path, cut):
    """Its own claims, read again from what is left of its own file, must not be those of a living process."""
    calls = []

    def cutting(problem):
        calls.append(problem.algorithm.learning_rate)
        if len(calls) == 6:
            (path,) = (tmp_path / "s" / "points").iterdir()
            os.truncate(path, cut)
        return problem.algorithm.learning_rate

    rates = [0.1 * number for number in range(1, 10)]
    with pytest.warns(DamagedFileWarning, match="changed by somebody else"):
        ds = ll.sweep(
            cutting,
            committee("linear", "linear", p=1, k=1),
            {"algorithm.learning_rate": rates},
            store=tmp_path / "s",
            name="cutting",
        )
    np.testing.assert_array_equal(ds["cutting"], rates)
    good, bad = Store(tmp_path / "s").verify()
    assert bad == [] and good >= 3


def test_a_sweep_that_waits_for_another_one_says_so_and_does_not_wait_for_ever(tmp_path, monkeypatch):
    """As if the process that claims a point were stopped."""

    def halved(problem):
        return problem.algorithm.learning_rate / 2

    def swept(rates):
        grid = {"algorithm.learning_rate": rates}
        return ll.sweep(halved, committee("linear", "linear", p=1, k=1), grid, store=tmp_path / "s")

    swept([0.1, 0.2])
    store = Store(tmp_path / "s")
    (name,) = store.sweeps()
    claimed = store.keys_of(name)[1]
    store.remove(claimed)
    store.claim([claimed])  # held by this object, which is not the sweep's
    store.keep_run("r", {"state": "running", "host": "elsewhere", "process": 7, "updated": time.time()})
    monkeypatch.setattr(computing, "SOON", 0.1)
    monkeypatch.setattr(computing, "LONG", 0.6)
    with pytest.warns(UserWarning, match="waits for 1 points that process 7 on elsewhere computes"):
        ds = swept([0.1, 0.2])
    np.testing.assert_array_equal(ds["halved"], [0.05, 0.1])


# --- what is put together -------------------------------------------------------------------------------------------


def test_a_segment_that_cannot_be_read_is_warned_of(tmp_path):
    def doubled(problem):
        return 2 * problem.algorithm.learning_rate

    filled(tmp_path / "s").close()
    (tmp_path / "s" / "points" / NAME).write_bytes(b"not a segment")
    grid = {"algorithm.learning_rate": [0.1]}
    with pytest.warns(DamagedFileWarning, match="count as missing. Run limitlab store verify"):
        ll.sweep(doubled, committee("linear", "linear", p=1, k=1), grid, store=tmp_path / "s")


def test_points_that_are_small_and_large_when_put_together_are_refused():
    """A text of a gigabyte at one point would take as much at every other one."""
    problem = committee("linear", "linear", p=1, k=1)
    long = Point({"x": ((), np.broadcast_to(np.asarray("", "U1"), ()))})
    huge = Point({"x": (("a",), np.broadcast_to(0.0, (10**12,)))}, {"a": (("a",), np.broadcast_to(0, (10**12,)))})
    with pytest.raises(InputError, match=r"needs about .* of memory"):
        combine(problem, "verb", {"d": np.arange(3)}, [huge, Point(reason="no"), Point(reason="no")])
    combine(problem, "verb", {"d": np.arange(1)}, [long])


def test_points_are_not_read_until_there_is_no_memory_left(tmp_path, monkeypatch):
    """What is read to be put together is watched: attributes take memory as well, and one point may be named often."""

    def halved(problem):
        return problem.algorithm.learning_rate / 2

    def swept():
        grid = {"algorithm.learning_rate": [0.1, 0.2, 0.3]}
        return ll.sweep(halved, committee("linear", "linear", p=1, k=1), grid, store=tmp_path / "s")

    swept()
    words = ["store", "export", str(tmp_path / "s"), "--force", "--out"]
    monkeypatch.setattr(machine, "SOON", 0.0)
    assert CliRunner().invoke(app, [*words, str(tmp_path / "a.nc")]).exit_code == 0
    held = iter(range(10**9, 10**15, 10**9))
    monkeypatch.setattr(machine, "resident", lambda: next(held))
    monkeypatch.setattr(machine, "memory_here", lambda: 2e9)
    with pytest.raises(InputError, match="Its 3 points together take that much"):
        swept()
    done = CliRunner().invoke(app, [*words, str(tmp_path / "a.nc")])
    assert done.exit_code == 2 and "Export a table" in done.output
    assert CliRunner().invoke(app, [*words, str(tmp_path / "a.csv")]).exit_code == 0  # one point at a time


def test_a_list_that_names_one_point_again_and_again_is_no_sweep(tmp_path):
    store = filled(tmp_path / "s")
    words = ["store", "export", str(tmp_path / "s"), "--force", "--out", str(tmp_path / "a.csv")]
    for count, code in ((50, 0), (500, 2)):
        store.keep_sweep("s", {"name": "verb", "axes": {"d": list(range(count))}}, [key(0)] * count)
        assert CliRunner().invoke(app, words).exit_code == code


def test_a_table_of_many_more_rows_than_numbers_is_refused(tmp_path):
    side = 2 * int(MANY**0.5)
    tables = {"x": (("time",), np.zeros(side)), "y": (("replica",), np.zeros(side)), "status": ((), np.asarray("ok"))}
    store = Store(tmp_path / "s")
    store.write(key(0), Point(tables, attrs={"provenance": {"key": key(0)}}))
    store.keep_sweep("s", {"name": "verb", "axes": {"d": [1]}}, [key(0)])
    words = ["store", "export", str(tmp_path / "s"), "--out", str(tmp_path / "a.csv")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and "rows for" in done.output and not (tmp_path / "a.csv").exists()
    done = CliRunner().invoke(app, [*words, "--variable", "x"])
    assert done.exit_code == 0 and len((tmp_path / "a.csv").read_text().splitlines()) == side + 1


def test_an_export_does_not_go_among_the_files_of_the_store(tmp_path):
    filled(tmp_path / "s").keep_sweep("s", {"name": "verb", "axes": {"d": [1]}}, [key(0)])
    (tmp_path / "s" / "points" / "ab").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "s" / "points")
    inside = ["s/points/a.csv", "s/sweeps/a.csv", "s/points/ab/a.csv", "link/a.csv", "link/ab/a.csv"]
    for place, code in [*((name, 2) for name in inside), ("s/a.csv", 0)]:
        done = CliRunner().invoke(app, ["store", "export", str(tmp_path / "s"), "--out", str(tmp_path / place)])
        assert done.exit_code == code, done.output


JUNK = [
    None,
    0,
    10**30,
    -1.5,
    float("nan"),
    "",
    "x" * 300,
    [],
    [[]],
    [[1], [2, 3]],
    {},
    {"a": {"b": []}},
    [None],
    [{}],
    True,
]


def test_records_of_sweeps_with_anything_in_them_are_read_or_refused(tmp_path):
    """100 records with something else in one place: words, no tracebacks."""
    store, rng = filled(tmp_path / "s"), np.random.default_rng(0)
    good = {"name": "verb", "axes": {"d": [1, 2, 3, 4, 5]}, "points": 5, "seed": 0, "problem": {"problem": {}}}
    ends = set()
    for number in range(100):
        about = json.loads(json.dumps(good))
        inner = about if number % 2 else about["axes"]
        inner[str(rng.choice(list(inner)))] = JUNK[number % len(JUNK)]
        if number % 3 == 0:
            about["axes"] = {"d": [JUNK[int(rng.integers(len(JUNK)))] for _ in range(5)]}
        store.keep_sweep("s", about, [key(number) for number in range(5)])
        out = tmp_path / ("a.csv" if number % 4 else "a.nc")
        done = CliRunner().invoke(app, ["store", "export", str(tmp_path / "s"), "--out", str(out), "--force"])
        assert done.exception is None or isinstance(done.exception, SystemExit), (about, done.exception)
        ends.add(done.exit_code)
    assert ends == {0, 2}
