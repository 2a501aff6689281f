"""The report: what outcomes say of a claim, the page, a wrong constant, and a run that was killed."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import limitlab as ll
from limitlab.cli import app
from limitlab.gallery import ENTRIES
from limitlab.gallery.entry import Check, Entry
from limitlab.report import page, points, report
from limitlab.report import run as running
from limitlab.report.claims import Asked, Claim, read_claims
from limitlab.report.formulas import FORMULAS, Formula, Measured
from limitlab.report.judge import FAILS, NOT_RUN, PARTLY, UNTESTABLE, judged
from limitlab.report.points import Outcome, named
from limitlab.sweep.engine.cost import cost as engine_cost

CHEAP = ["sparse/fourier", "sparse/parseval", "sparse/msp-examples"]


@pytest.fixture(autouse=True)
def without_browser(monkeypatch):
    monkeypatch.setattr(running, "print_pdf", lambda page, pdf: None)


def outcome(*checks: Check, **more) -> Outcome:
    return Outcome("staircase", "A staircase", checks, **more)


CLAIM = Claim("0.01", 0, "a slide", "figure", "It climbs.", (Asked("staircase", "climbed"),), "holds")
GOOD, BAD = Check("it is climbed", True, "t = 1"), Check("it is climbed twice", False, "t = 2")


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ({"staircase": outcome(GOOD)}, "holds"),
        ({"staircase": outcome(GOOD, BAD)}, FAILS),
        ({"staircase": outcome(GOOD, left_out=("it is climbed at full size",))}, PARTLY),
        ({"staircase": outcome(left_out=("it is climbed at full size",))}, NOT_RUN),
        ({"staircase": outcome(Check("another", True, ""))}, FAILS),
        ({"staircase": outcome(reason="broke")}, FAILS),
        ({}, FAILS),
    ],
)
def test_a_verdict_stands_only_on_checks_that_ran_and_hold(outcomes, state):
    assert judged(CLAIM, outcomes).state == state


def test_what_cannot_be_tested_has_no_verdict():
    assert judged(dataclasses.replace(CLAIM, checks=(), verdict="", untestable="no"), {}).state == UNTESTABLE


@pytest.fixture
def few(monkeypatch):
    """The report of three formulas and of the claims that rest on them alone."""
    monkeypatch.setattr(running, "FORMULAS", {name: FORMULAS[name] for name in CHEAP})
    monkeypatch.setattr(running, "ENTRIES", {})
    seeds, claims = read_claims()
    kept = [one for one in claims if one.untestable or all(asked.name in CHEAP for asked in one.checks)]
    monkeypatch.setattr(running, "read_claims", lambda: (seeds, tuple(kept)))
    return kept


def planted(monkeypatch, name: str) -> None:
    """The formula with a wrong constant in it."""
    real = FORMULAS[name]

    def wrong() -> Measured:
        return real.measure()._replace(expected=17.0)

    monkeypatch.setitem(FORMULAS, name, Formula(name, real.statement, wrong))


def test_the_page_has_a_row_for_every_claim_and_asks_no_host(tmp_path, few):
    made = report(tmp_path)
    text = made.page.read_text()
    assert made.ok and len(made.rows) == len(few)
    assert re.findall(r'<article id="claim-([\d.]+)"', text) == [claim.key for claim in few]
    assert re.findall(r'<a href="#claim-([\d.]+)"', text) == [claim.key for claim in few]
    assert "http" not in text and "src=" not in text
    assert "CHECK FAILS" not in text and 'class="failed"' not in text
    assert ll.__version__ in text
    assert "a part of the report" not in text
    assert "a part of the report" in report(tmp_path, names=CHEAP).page.read_text()


def test_the_page_has_the_versions_that_points_were_made_with():
    made = [outcome(made_with={"jax_version": version, "host": "secret"}) for version in ("0.5", "0.9", "0.9")]
    text = page._machine(made)
    assert "<td>jax</td><td>0.5, 0.9</td>" in text and "secret" not in text


def test_a_wrong_constant_turns_its_claim_red_and_the_exit_code_to_one(tmp_path, few, monkeypatch):
    planted(monkeypatch, "sparse/parseval")
    done = CliRunner().invoke(
        app, ["run", "all", "--quick", "--report", str(tmp_path), "--no-progress", "--workers", "0"]
    )
    assert done.exit_code == 1, done.output
    text = (tmp_path / "report.html").read_text()
    failed = re.findall(r'<article id="claim-([\d.]+)" class="failed"', text)
    asked = [claim.key for claim in few if any(check.name == "sparse/parseval" for check in claim.checks)]
    assert failed == asked and len(asked) == 1
    assert "expected 17" in text
    assert f"claim {asked[0]} fails" in done.stderr
    assert "1 claims fail" in text
    assert f'Claims whose checks fail: <a href="#claim-{asked[0]}">' in text
    assert f'<th>all</th><th class="number">{len(few)}</th>' in text


def test_all_well_is_exit_code_zero(tmp_path, few):
    done = CliRunner().invoke(app, ["run", "all", "--report", str(tmp_path), "--no-progress", "--workers", "0"])
    assert done.exit_code == 0, done.output
    assert f"{len(few)} claims" in done.stdout


def test_a_formula_that_raises_is_told_and_tried_again(tmp_path, few, monkeypatch):
    real = FORMULAS["sparse/parseval"]
    broken = Formula(real.name, real.statement, lambda: 1 / 0)  # type: ignore[arg-type]
    monkeypatch.setitem(FORMULAS, real.name, broken)
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        made = report(tmp_path)
    assert not made.ok and "ZeroDivisionError" in made.outcomes[real.name].reason
    assert "did not run" in made.page.read_text()
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        report(tmp_path)


def test_other_code_and_other_sizes_are_other_points(monkeypatch):
    assert named("staircase", False) != named("staircase", True)
    assert named("landscape", False) == named("landscape", True)  # it has no quick size
    before = named("staircase", False)
    monkeypatch.setattr(points, "_package", lambda: "other code somewhere in the package")
    assert named("staircase", False) != before


def test_the_digest_of_the_package_sees_every_file(tmp_path):
    for name, text in (("one.py", "x = 1"), ("folder/two.py", "y = 2"), ("notes.txt", "no code")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = points.digest_of(tmp_path)
    (tmp_path / "notes.txt").write_text("other")
    assert points.digest_of(tmp_path) == before
    (tmp_path / "folder/two.py").write_text("y = 2.1")
    assert points.digest_of(tmp_path) != before


def a_prediction(progress=None):
    return {"risk": ll.predict(ll.library.escaping_mediocrity(), ll.OverlapODE(d=100), [0.0, 0.1])}


TINY = Entry(
    "tiny",
    "An entry",
    "It is there.",
    a_prediction,
    lambda data: [Check("it is there", "risk" in data["risk"], "1 of 1")],
    lambda data: ll.plot(data["risk"]),
    seconds=1,
)


def test_files_of_an_entry_are_those_of_its_run_and_an_old_verdict_goes(tmp_path, monkeypatch):
    for module in (points, running):
        monkeypatch.setattr(module, "ENTRIES", {"tiny": TINY})
    made = report(tmp_path / "report", names=["tiny"])
    own = ll.run(TINY, tmp_path / "own")
    there = tmp_path / "report" / "entries" / "tiny"
    assert sorted(path.name for path in there.iterdir()) == ["figure.png", "risk.nc", "verdict.txt"]
    assert made.outcomes["tiny"].figure == (there / "figure.png").read_bytes() != b""
    assert ll.load(there / "risk.nc").drop_attrs().identical(own.data["risk"].drop_attrs())
    assert (there / "verdict.txt").read_text().splitlines()[:8] == own.text.splitlines()[:8]
    running._write_files(there, Outcome("tiny", "", reason="broke"))
    assert not (there / "verdict.txt").exists()


@pytest.mark.parametrize("content", [b"", b"a", b"12345678", b"123456789", b"ends in zeros\0\0\0"])
def test_bytes_come_back_from_words(content):
    assert points._parted(points._words(content).tobytes(), {"a": len(content)}) == {"a": content}


def test_files_of_a_strangers_store_have_plain_names():
    assert points._parted(b"abc", {"a.nc": 1, "b.png": 2}) == {"a.nc": b"a", "b.png": b"bc"}
    for name in ("../a.nc", "/etc/a.nc", "x/a.nc", ".a", "..", ""):
        with pytest.raises(ll.errors.ResultFileError, match="plain name"):
            points._parted(b"a", {name: 1})


@pytest.mark.parametrize("own", [None, "--xla_cpu_enable_fast_min_max=false"])
def test_workers_of_a_quick_report_compile_fast_and_nothing_stays_set(tmp_path, monkeypatch, own):
    seen = []
    monkeypatch.setattr(running, "outcome_of", lambda name, ds: Outcome(name, name))
    monkeypatch.setattr(running, "sweep", lambda *a, **k: seen.append((os.environ.get("XLA_FLAGS"), "workers" in k)))
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    if own is not None:
        monkeypatch.setenv("XLA_FLAGS", own)
    for quick in (True, False):
        running._computed(["landscape"], tmp_path, quick, 2)
    assert [flags for flags, computes in seen if computes] == [own or running.FAST, own]  # one's own are left alone
    assert os.environ.get("XLA_FLAGS") == own


def test_long_entries_begin_first():
    def cost(name, quick):
        return engine_cost(points.measured, ll.library.escaping_mediocrity(), {"point": named(name, quick)})

    assert cost("plateau", False) == ENTRIES["plateau"].seconds > cost("plateau", True) > cost("sparse/parseval", True)


def test_options_of_the_report_are_refused_for_one_entry():
    for words in (
        ["run", "staircase", "--report", "x"],
        ["run", "staircase", "--workers", "2"],
        ["run", "all", "--html"],
    ):
        assert CliRunner().invoke(app, words).exit_code == 2


def test_the_browser_prints_if_it_is_there(tmp_path, monkeypatch):
    from limitlab.report import browser

    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    assert browser.print_pdf(tmp_path / "x.html", tmp_path / "x.pdf") is None
    monkeypatch.setattr(browser.shutil, "which", lambda name: "/nowhere/chromium")
    assert browser.print_pdf(tmp_path / "x.html", tmp_path / "x.pdf") is None


PROGRAM = """
import os, sys
from pathlib import Path
from limitlab.report import report
from limitlab.report import run as running
from limitlab.report.formulas import FORMULAS, Formula

folder, here = Path(sys.argv[1]), Path(__file__).parent
running.print_pdf = lambda page, pdf: None
names = ["sparse/fourier", "sparse/parseval", "sparse/msp-examples"]


def counted(name, deadly):
    real = FORMULAS[name]

    def measure():
        with open(here / "counts.txt", "a") as file:
            file.write(name + "\\n")
        if deadly and not (here / "died").exists():
            (here / "died").touch()
            os.kill(os.getpid(), 9)
        return real.measure()

    return Formula(name, real.statement, measure)


for number, name in enumerate(names):
    FORMULAS[name] = counted(name, number == 1)
print(report(folder, names=names).ok)
"""


def test_a_report_that_was_killed_goes_on_where_it_was(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "report")]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == -9
    assert not (tmp_path / "report" / page.PAGE).exists()
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.stdout.strip() == "True", second.stderr
    third = subprocess.run(command, capture_output=True, text=True)
    assert third.stdout.strip() == "True"
    counts = (tmp_path / "counts.txt").read_text().split()
    assert counts == [CHEAP[0], CHEAP[1], CHEAP[1], CHEAP[2]]  # only what was under way is computed again
    assert Path(tmp_path / "report" / page.PAGE).exists()
