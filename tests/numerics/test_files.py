"""Files appear whole or not at all, and a misspelt name is answered with the nearest one."""

import os
import stat

import pytest

from limitlab.errors import InputError, ResultFileError
from limitlab.files import whole
from limitlab.text import did_you_mean, nearest


@pytest.mark.parametrize("accident", [KeyboardInterrupt, MemoryError, InputError])
def test_a_crash_in_the_middle_leaves_the_old_file_and_no_temporary(tmp_path, accident):
    path = tmp_path / "result"
    path.write_text("old")

    def crash():
        with whole(path) as part:
            part.write_text("half of the n")
            raise accident

    with pytest.raises(accident):
        crash()
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["result"]


def test_the_new_file_is_nowhere_to_be_seen_before_it_is_whole(tmp_path):
    path = tmp_path / "result"
    with whole(path) as part:
        part.write_text("new")
        assert not path.exists() and part.parent == tmp_path and part.name.startswith(".")
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["result"]


def test_a_rename_that_fails_leaves_the_old_file_and_says_why(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    path = tmp_path / "result"
    path.write_text("old")
    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(ResultFileError, match=r"could not be written: No space left on device\. Ask for more\."):
        with whole(path, remedy="Ask for more.") as part:
            part.write_text("new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["result"]


def test_errors_of_ours_pass_as_they_are(tmp_path):
    """A file error of ours is an OSError too; it is not said to be one of writing."""
    with pytest.raises(ResultFileError, match=r"^mine\ndocs: "), whole(tmp_path / "result"):
        raise ResultFileError("mine")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("flush", [True, False])
def test_flushing_is_a_choice(tmp_path, monkeypatch, flush):
    flushed = []
    monkeypatch.setattr("os.fsync", flushed.append)
    with whole(tmp_path / "result", flush=flush) as part:
        part.write_text("new")
    assert len(flushed) == (2 if flush else 0)  # the file and the folder's entry


def test_the_first_to_come_stays_if_asked_to(tmp_path):
    path = tmp_path / "result"
    for text in ("first", "second"):
        with whole(path, part=tmp_path / "part", replace=False) as part:
            part.write_text(text)
    assert path.read_text() == "first" and os.listdir(tmp_path) == ["result"]
    with whole(path, part=tmp_path / "part") as part:
        part.write_text("third")
    assert path.read_text() == "third" and os.listdir(tmp_path) == ["result"]


@pytest.mark.parametrize("replace", [True, False])
def test_without_second_names_a_file_still_gets_its_place(tmp_path, monkeypatch, replace):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    with whole(tmp_path / "result", replace=replace) as part:
        part.write_text("new")
    assert os.listdir(tmp_path) == ["result"]


def test_a_file_has_the_permissions_of_an_ordinary_one(tmp_path):
    (tmp_path / "plain").touch()
    with whole(tmp_path / "result") as part:
        part.touch()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "result")]
    assert modes[0] == modes[1]


def test_folders_and_places_that_are_not_there_are_refused_in_words(tmp_path):
    with pytest.raises(ResultFileError, match="is a folder; a file was needed"), whole(tmp_path):
        pass
    with pytest.raises(ResultFileError, match=r"could not be written: No such file .*Choose a folder that exists"):
        with whole(tmp_path / "nowhere" / "result") as part:
            part.write_text("new")


def test_the_nearest_name():
    known = ["learning_rate", "spherical"]
    assert nearest("learning_rte", known) == "learning_rate" and nearest("x", known) is None
    assert did_you_mean("learning_rte", known) == " Did you mean 'learning_rate'?" and did_you_mean("x", known) == ""
    assert nearest("spheres", known) == "spherical" and nearest("spheres", known, 0.8) is None
    assert nearest("overlapode", ["OverlapSDE", "OverlapODE"]) == "OverlapODE"
    assert nearest("a" * 10**6, known) is None  # a stranger's name is cut before it is compared
