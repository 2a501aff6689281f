"""limitlab doctor is not fooled: a wrong number, an old dependency and a changed file are bad findings."""

import importlib.metadata

import pytest
from typer.testing import CliRunner

from limitlab.cli import app
from limitlab.report import doctor
from limitlab.report.formulas import FORMULAS

QUICK = ("sparse/parseval", "linear/least-error")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(doctor, "KNOWN", QUICK)


def test_all_known_values_are_formulas_that_can_fail():
    for name in doctor.KNOWN:
        assert name in FORMULAS


def test_a_good_installation_is_well():
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0, done.output
    for words in ("limitlab", "jax", "devices", "threads", "compiled programs", "all 5 findings are well"):
        assert words in done.stdout


def test_a_wrong_number_is_a_bad_finding(monkeypatch):
    import limitlab as ll

    real = ll.Sign.label_mse
    monkeypatch.setattr(ll.Sign, "label_mse", lambda self, m, V: real(self, m, V) * (1 + 1e-4))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert "1 of 5 findings are bad: linear/least-error" in done.stderr


def test_a_check_that_raises_is_a_bad_finding(monkeypatch):
    def broken():
        raise RuntimeError("no solver")

    one = FORMULAS["sparse/parseval"]
    monkeypatch.setitem(FORMULAS, one.name, type(one)(one.name, one.statement, broken))
    assert doctor._known(one.name) == ("sparse/parseval", False, "RuntimeError: no solver")


def test_an_old_dependency_is_a_bad_finding(monkeypatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.4.38" if name == "jax" else real(name))
    found = doctor._dependencies()
    assert not found.ok
    assert found.found == "jax 0.4.38, needed 0.5"


def test_a_file_that_changes_is_a_bad_finding(monkeypatch):
    import limitlab as ll

    real = ll.load
    monkeypatch.setattr(ll, "load", lambda path: (ds := real(path)).assign(risk=ds.risk + 1e-9))
    assert not doctor._files().ok
