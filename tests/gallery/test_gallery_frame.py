"""The frame of the gallery, with an entry made up for the purpose."""

import dataclasses
import sys
import types

import matplotlib.pyplot as plt
import numpy as np
import pytest

import limitlab as ll
from limitlab import gallery
from limitlab.gallery import Check, Entry, Verdict, run_entry
from limitlab.plot import plot
from limitlab.results.files import load
from limitlab.results.schema import dataset

PROBLEM = ll.library.escaping_mediocrity()


def compute(progress):
    if progress is not None:
        progress(1, 2, "half")
        progress(2, 2, "whole")
    times = np.linspace(0, 1, 5)
    data = {"risk": (("time",), np.exp(-times)), "status": ((), "ok")}
    return {"ode": dataset(PROBLEM, data, {"time": times}, method="OverlapODE")}


def check(data):
    last = float(data["ode"]["risk"][-1])
    return [Check("the risk falls below one half", last < 0.5, f"risk {last:.3f}")]


FAKE = Entry("fake", "A decay", "The risk decays.", compute, check, lambda data: plot(data["ode"]), seconds=1.0)


def test_an_entry_leaves_figure_data_and_verdict_in_a_fresh_folder(tmp_path):
    folder = tmp_path / "deep" / "fake"
    verdict = run_entry(FAKE, folder)
    assert verdict == Verdict(True, (folder / "verdict.txt").read_text(), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["figure.png", "ode.nc", "verdict.txt"]
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    np.testing.assert_allclose(load(folder / "ode.nc")["risk"], np.exp(-np.linspace(0, 1, 5)))


def test_the_verdict_states_title_claim_every_check_versions_and_seconds(tmp_path):
    text = run_entry(FAKE, tmp_path).text
    for part in (
        "A decay",
        "Claim: The risk decays.",
        "[ok] the risk falls below one half",
        "risk 0.368",
        "1 of 1",
    ):
        assert part in text
    assert f"limitlab {ll.__version__}" in text
    assert " s, " in text
    assert "FAIL" not in text


def test_a_claim_that_fails_is_said_loudly_and_its_figure_and_data_are_kept(tmp_path):
    def strict(data):
        return [*check(data), Check("the risk vanishes", False, "it does not")]

    verdict = run_entry(dataclasses.replace(FAKE, check=strict), tmp_path)
    assert not verdict.ok
    assert "[FAILED] the risk vanishes\n    it does not" in verdict.text
    assert "THE CLAIM FAILS: 1 of 2" in verdict.text
    assert (tmp_path / "figure.png").exists()


def test_an_entry_that_checks_nothing_is_refused(tmp_path):
    with pytest.raises(ll.errors.InputError, match="checked nothing"):
        run_entry(dataclasses.replace(FAKE, check=lambda data: []), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_progress_reaches_the_computation(tmp_path):
    told = []
    run_entry(FAKE, tmp_path, lambda *words: told.append(words))
    assert told == [(1, 2, "half"), (2, 2, "whole")]


@pytest.mark.parametrize("part", ["compute", "check", "figure"])
def test_nothing_is_written_or_replaced_if_a_part_is_interrupted(tmp_path, part):
    def stop(_):
        raise KeyboardInterrupt

    run_entry(FAKE, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        run_entry(dataclasses.replace(FAKE, **{part: stop}), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_second_run_replaces_the_files_and_keeps_foreign_ones(tmp_path):
    (tmp_path / "verdict.txt").write_text("old")
    (tmp_path / "notes.md").write_text("mine")
    run_entry(FAKE, tmp_path)
    assert "A decay" in (tmp_path / "verdict.txt").read_text()
    assert (tmp_path / "notes.md").read_text() == "mine"
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_a_file_in_place_of_the_folder_is_refused_before_the_computation(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(ll.errors.ResultFileError, match="is a file"):
        run_entry(dataclasses.replace(FAKE, compute=lambda progress: 1 / 0), path)
    assert path.read_text() == "mine"


def test_a_result_may_not_be_named_like_a_path(tmp_path):
    entry = dataclasses.replace(FAKE, compute=lambda progress: {"../x": compute(None)["ode"]})
    with pytest.raises(ll.errors.InputError, match=r"\.\./x"):
        run_entry(entry, tmp_path / "y")


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ll.errors.InputError, match=r"'escap'.*escape-wide.*Did you mean 'escape'"):
        run_entry("escap", "nowhere")


def test_entries_are_imported_only_when_asked_for(monkeypatch, tmp_path):
    module = types.ModuleType("fake_entry")
    module.ENTRY = FAKE  # type: ignore[attr-defined]
    monkeypatch.setattr(gallery, "MODULES", {"fake": "fake_entry", "broken": "no_such_module_anywhere"})
    assert list(gallery.ENTRIES) == ["fake", "broken"]
    assert "broken" in gallery.ENTRIES
    assert len(gallery.ENTRIES) == 2
    monkeypatch.setitem(sys.modules, "fake_entry", module)
    assert gallery.ENTRIES["fake"] is FAKE
    assert run_entry("fake", tmp_path).ok


def test_the_default_entry_exists():
    assert gallery.DEFAULT in gallery.ENTRIES


def test_run_from_python_gives_figure_data_claim_and_checks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verdict = ll.run(FAKE)
    assert verdict.ok
    assert verdict.folder is None
    assert verdict.claim == "The risk decays."
    assert [check.statement for check in verdict.checks] == ["the risk falls below one half"]
    np.testing.assert_allclose(verdict.data["ode"]["risk"][0], 1.0)
    assert verdict.figure.axes
    assert repr(verdict) == str(verdict) == verdict.text.rstrip()
    assert list(tmp_path.iterdir()) == []  # nothing is written unless asked


def test_a_verdict_is_a_figure_and_a_table_in_notebooks():
    entry = dataclasses.replace(FAKE, title="<b>", check=lambda data: [Check("a < b", False, "b & a")])
    page = ll.run(entry)._repr_html_()
    assert page.startswith('<img src="data:image/png;base64,iVBOR')
    assert "FAILED" in page and "a &lt; b\nb &amp; a" in page and "&lt;b&gt;" in page
    assert "<b>" not in page


def test_run_takes_names_and_a_folder_as_the_command_does(tmp_path, monkeypatch):
    module = types.ModuleType("fake_entry")
    module.ENTRY = FAKE  # type: ignore[attr-defined]
    monkeypatch.setattr(gallery, "MODULES", {"fake": "fake_entry"})
    monkeypatch.setitem(sys.modules, "fake_entry", module)
    verdict = ll.run("fake", tmp_path / "here")
    assert verdict.folder == tmp_path / "here"
    assert (tmp_path / "here" / "figure.png").exists()
    with pytest.raises(ll.errors.InputError, match="Did you mean 'fake'"):
        ll.run("fak")


def test_figures_of_the_gallery_do_not_pile_up():
    before = plt.get_fignums()
    ll.run(FAKE)
    assert plt.get_fignums() == before
