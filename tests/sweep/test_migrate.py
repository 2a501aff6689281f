"""limitlab store migrate: stores with a netCDF file for each point keep every point, and strangers' files stay out."""

import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import limitlab as ll
from cases import committee
from limitlab.cli import app
from limitlab.sweep import Store
from limitlab.sweep.storage.files import encoding
from limitlab.sweep.storage.files.folder import Folder
from limitlab.sweep.storage.files.netcdf import MARK, decode, encode
from limitlab.sweep.storage.files.segments import Segments
from limitlab.sweep.storage.migrate import migrate

RATE, RATES = "algorithm.learning_rate", [0.1, 0.2, 0.4, 0.8]
CALLS = []


def noted(problem):
    CALLS.append(problem.algorithm.learning_rate)
    return {"x": problem.algorithm.learning_rate / 3, "word": "yes"}


def swept(folder):
    CALLS.clear()
    return ll.sweep(noted, committee("linear", "linear", p=1, k=1), {RATE: RATES}, store=folder)


@pytest.fixture
def old(tmp_path):
    """A store as it was before, with what its sweep gave."""
    result = swept(tmp_path / "new")
    store = Store(tmp_path / "new")
    folder = tmp_path / "old"
    shutil.copytree(store.path, folder)
    shutil.rmtree(folder / "points")
    shutil.rmtree(folder / "index")
    for key in store.keys():
        path = folder / "points" / key[:2] / f"{key}.nc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(store.read(key)))
    (folder / "limitlab-store.json").write_text(json.dumps({"limitlab_store": 1, "id": "of old"}))
    return folder, result


def files(folder):
    return sorted(path for path in (folder / "points").rglob("*") if path.is_file())


def test_every_point_is_brought_over_to_the_last_bit(old):
    folder, result = old
    with pytest.raises(ll.errors.ResultFileError, match="limitlab store migrate"):
        swept(folder)
    done = CliRunner().invoke(app, ["store", "migrate", str(folder)])
    assert done.exit_code == 0 and "4 points were brought over" in done.output
    assert swept(folder).equals(result) and CALLS == []
    assert {path.suffix for path in files(folder)} == {".seg"}
    assert Store(folder).id == "of old" and Store(folder).verify() == (4, [])
    assert migrate(folder) == (0, [])


@pytest.mark.parametrize("step", ["append", "remove", "mark"])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_migration_that_is_stopped_goes_on(old, monkeypatch, step, number):
    folder, result = old
    where = {"append": (Segments, "append"), "remove": (Folder, "remove"), "mark": (Store, "mark")}[step]
    true, calls = getattr(*where), []

    def stop(*words, **others):
        calls.append(words)
        if len(calls) > number:
            raise KeyboardInterrupt
        return true(*words, **others)

    monkeypatch.setattr(*where, stop)
    if step == "mark" and number:
        return  # it is written once
    with pytest.raises(KeyboardInterrupt):
        migrate(folder)
    monkeypatch.undo()
    points, bad = migrate(folder)
    assert bad == [] and points <= 4
    assert swept(folder).equals(result) and CALLS == []
    assert {path.suffix for path in files(folder)} == {".seg"}


def test_a_migration_that_is_killed_goes_on(old):
    folder, result = old
    code = "import sys, limitlab.sweep.storage.migrate as m; print('go', flush=True); m.migrate(sys.argv[1])"
    for pause in (0.0, 0.002, 0.005, 0.01, 0.02):
        with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
    assert migrate(folder)[1] == []
    assert swept(folder).equals(result) and CALLS == []
    assert Store(folder).verify() == (4, [])


def test_two_migrations_at_once_do_not_harm_each_other(old):
    folder, result = old
    outer = migrate(folder, lambda done, *_: migrate(folder) if done == 1 else None)
    assert outer == (1, []) and swept(folder).equals(result) and CALLS == []
    assert Store(folder).verify() == (4, []) and {path.suffix for path in files(folder)} == {".seg"}


def test_a_point_that_no_store_takes_does_not_stop_the_others(old, monkeypatch):
    """Its attributes are longer than those of a point may be; before, the migration ended there, each time."""
    folder, result = old
    point = decode(files(folder)[1].read_bytes(), "it")
    words = np.random.default_rng(0).bytes(20_000).hex()
    files(folder)[1].write_bytes(encode(dataclasses.replace(point, attrs={**point.attrs, "words": words})))
    monkeypatch.setattr(encoding, "LONGEST", 10_000)
    points, (fault,) = migrate(folder)
    assert points == 3 and "cannot be brought over: A point takes" in fault.reason and fault.moved_to.exists()
    assert swept(folder).equals(result) and len(CALLS) == 1
    assert Store(folder).verify() == (4, [])


# --- files of a stranger -------------------------------------------------------------------------------------------


def signed(path):
    """The checksum is right: anybody can make one."""
    image = path.read_bytes()
    path.write_bytes(image + MARK + hashlib.sha256(image).hexdigest().encode() + b"\n")


def hdf5(path, change):
    data = path.read_bytes()
    path.write_bytes(data[: -len(MARK) - 65])
    with h5py.File(path, "a") as file:
        change(file)
    signed(path)


def bomb(file):
    """A few kilobytes that would be gigabytes."""
    del file["x"]
    made = file.create_dataset("x", (10**10,), "u1", chunks=(10**7,), compression="gzip")
    made[: 10**7] = 0


def external(file, secret):
    del file["x"]
    file["x"] = h5py.ExternalLink(str(secret), "/x")


def storage(file, secret):
    del file["x"]
    file.create_dataset("x", (8,), float, external=[(str(secret), 0, h5py.h5f.UNLIMITED)])


def heap(path):
    """A collection of texts that HDF5 would walk for ever."""
    hdf5(path, lambda file: file.attrs.__setitem__("long", "z" * 50_000))
    data = bytearray(path.read_bytes()[: -len(MARK) - 65])
    at = data.find(b"GCOL\x01") + 16
    data[at : at + 16] = bytes(16)  # an entry of no length that says that the rest is free
    path.write_bytes(data)
    signed(path)


def repeated(path, copies=3000, letters=200_000):
    """One long text that is there once, and as often as one likes when it is read: 3 MB became 7.7 GB."""

    def change(file):
        texts = np.asarray(["z" * letters, *(f"{number:08}" for number in range(copies))], dtype=object)
        file.attrs.create("texts", texts, dtype=h5py.string_dtype())

    hdf5(path, change)
    data = bytearray(path.read_bytes()[: -len(MARK) - 65])
    first = data.find(letters.to_bytes(4, "little"))
    while data[first + 16 : first + 20] != (8).to_bytes(4, "little"):
        first = data.find(letters.to_bytes(4, "little"), first + 1)
    data[first : first + 16 * (copies + 1)] = data[first : first + 16] * (copies + 1)
    path.write_bytes(data)
    signed(path)


ATTACKS = {
    "external link": lambda path, secret: hdf5(path, lambda file: external(file, secret)),
    "external storage": lambda path, secret: hdf5(path, lambda file: storage(file, secret)),
    "soft link": lambda path, secret: hdf5(path, lambda file: file.__setitem__("y", h5py.SoftLink("/x"))),
    "bomb": lambda path, secret: hdf5(path, bomb),
    "one text many times": lambda path, secret: repeated(path),
    "damaged heap": lambda path, secret: heap(path),
    "link": lambda path, secret: (path.unlink(), path.symlink_to(secret)),
    "pipe": lambda path, secret: (path.unlink(), os.mkfifo(path)),
    "folder": lambda path, secret: (path.unlink(), path.mkdir()),
    "truncated": lambda path, secret: path.write_bytes(path.read_bytes()[:-100]),
    "flipped": lambda path, secret: path.write_bytes(path.read_bytes()[:2000] + b"\xff" + path.read_bytes()[2001:]),
    "empty": lambda path, secret: path.write_bytes(b""),
    "a terabyte": lambda path, secret: os.truncate(path, 10**12),
    "another point": lambda path, secret: path.write_bytes(
        next(p for p in files(path.parents[2]) if p != path).read_bytes()
    ),
    "another name": lambda path, secret: path.rename(path.with_name("\x1b[31m.nc")),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_files_of_a_stranger_are_put_aside_unread(old, tmp_path, attack):
    folder, result = old
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["x"] = 42.0
    os.utime(secret, ns=(10**18, 2 * 10**18))
    before = (os.stat(secret).st_atime_ns, os.stat(secret).st_mtime_ns)
    ATTACKS[attack](files(folder)[1], secret)
    began = time.process_time()
    done = CliRunner().invoke(app, ["store", "migrate", str(folder)])
    assert done.exit_code == 3, done.output
    assert "3 points were brought over" in done.output and "\x1b" not in done.output
    assert time.process_time() - began < 5
    assert (os.stat(secret).st_atime_ns, os.stat(secret).st_mtime_ns) == before
    assert len(Store(folder).faults()) == 1
    again = swept(folder)
    assert len(CALLS) == 1
    np.testing.assert_array_equal(again["x"], result["x"])


def test_folders_that_are_links_are_left_alone(old, tmp_path):
    folder, result = old
    other = tmp_path / "elsewhere"
    (folder / "points" / files(folder)[0].parent.name).rename(other)
    kept = sorted(path.name for path in other.iterdir())
    (folder / "points" / kept[0][:2]).symlink_to(other)
    points, _ = migrate(folder)
    assert points == 4 - len(kept)
    assert sorted(path.name for path in other.iterdir()) == kept
    assert swept(folder).equals(result) and len(CALLS) == len(kept)
