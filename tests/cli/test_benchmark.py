"""The command that says how fast limitlab is: its table, its record, and what it calls slower."""

import ast
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from limitlab.benchmarks import BENCHMARKS, measure, read, slower
from limitlab.benchmarks.table import Seconds, Table, run
from limitlab.cli import app
from limitlab.errors import InputError, ResultFileError


def record(number, better="less", noise=0.0, what="a / b"):
    row = {"what": what, "value": f"{number}", "number": number, "noise": noise, "better": better}
    return {"rows": [row]}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_a_program_that_fills_the_table(name):
    found = find_spec(f"limitlab.benchmarks.{BENCHMARKS[name].module}")
    assert found is not None and found.origin is not None
    calls = [node for node in ast.walk(ast.parse(Path(found.origin).read_text())) if isinstance(node, ast.Call)]
    assert any(getattr(call.func, "id", "") == "run" for call in calls)
    assert BENCHMARKS[name].minutes > 0


def test_a_table_knows_numbers_directions_and_whether_they_held(capsys):
    table = Table()
    table.ratio("loop / sweep", 30.0, 1.0, ">= 20", digits=1)
    table.ratio("ours / bare", Seconds.of([3.0, 3.3, 3.6]), Seconds.of([2.0]), "<= 1.3")
    table.add("   seconds", "0.5, 0.2")
    table.growth("step with d", [100, 200, 400], [1.0, 2.0, 4.0], ideal=1)
    table.growth("step with p", [100, 200, 400], [1.0, 4.0, 16.0], ideal=1)
    faster, slow, remark, linear, square = table.rows
    assert (faster.number, faster.better, faster.held, faster.value) == (30.0, "more", True, "30.0")
    assert (slow.number, slow.better, slow.held) == (1.5, "less", False) and slow.noise == pytest.approx(0.1)
    assert (remark.number, remark.better, remark.held) == (None, None, None)
    assert linear.held and linear.number == pytest.approx(1.0) and not square.held
    assert "| ours / bare | 1.50 | <= 1.3 | no |" in table.markdown() and "NO" in capsys.readouterr().out


def test_what_is_slower_beyond_noise():
    assert slower(record(2.0), record(1.0)) == ["a / b: 1.0 before, 2.0 now (noise 10 %)"]
    assert not slower(record(1.0), record(2.0)) and slower(record(1.0, "more"), record(2.0, "more"))
    assert not slower(record(1.05), record(1.0))
    assert not slower(record(1.5, noise=0.1), record(1.0, noise=0.1)) and slower(record(1.7, noise=0.1), record(1.0))
    assert not slower(record(2.0, what="new"), record(1.0)) and not slower(record(2.0, better=None), record(1.0))


def test_a_run_keeps_its_numbers_and_the_limits_of_the_machine(tmp_path, monkeypatch, capsys):
    path, seen = tmp_path / "one.json", []
    parts = {name: lambda table, name=name: seen.append(name) or table.add(name, "1.5", "<= 2", True) for name in "ab"}
    monkeypatch.setattr(sys, "argv", ["program", "b", "--json", str(path)])
    run(parts)
    kept = read(path)
    assert seen == ["b"] and [row["what"] for row in kept["rows"]] == ["b"]
    assert len(kept["machine"]) == 3 and all(value > 0 for value in kept["machine"].values())
    assert "this machine: normals" in capsys.readouterr().out


def test_words_of_the_command(tmp_path, monkeypatch):
    runner = CliRunner()
    listed = runner.invoke(app, ["benchmark"])
    assert listed.exit_code == 0 and all(name in listed.output for name in BENCHMARKS)
    wrong = runner.invoke(app, ["benchmark", "gump"])
    assert wrong.exit_code == 2 and not (tmp_path / "limitlab-runs").exists()
    with pytest.raises(InputError, match=r"must be one of one-pass.*got 'gump'.*gamp"):
        measure("gump", [], tmp_path / "x.json")
    for text in ("{", '{"rows": [1]}', "[]"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ResultFileError, match="is not the record of a benchmark"):
            read(tmp_path / "bad.json")
    old = tmp_path / "old.json"
    old.write_text(json.dumps(record(1.0)))
    monkeypatch.setattr("limitlab.benchmarks.measure", lambda name, parts, path: record(3.0))
    worse = runner.invoke(app, ["benchmark", "gamp", "--against", str(old)])
    assert worse.exit_code == 1 and "slower: a / b: 1.0 before, 3.0 now" in worse.output
    monkeypatch.setattr("limitlab.benchmarks.measure", lambda name, parts, path: record(1.0))
    assert runner.invoke(app, ["benchmark", "gamp", "--against", str(old)]).exit_code == 0
