"""Nothing stored is lost: problems, results and points of a sweep, written at 29da550, mean what they did."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limitlab as ll
from golden.stored.make_stored import library, swept, written
from limitlab.cli import app
from limitlab.figures import time_label
from limitlab.results.schema import validate
from limitlab.spec import dumps
from limitlab.sweep import Store, job
from limitlab.sweep.engine import work
from limitlab.sweep.identity import NUMERICS_VERSION

FOLDER = Path(__file__).parents[1] / "golden" / "stored"
HASHES = json.loads((FOLDER / "spec_hashes.json").read_text())
STORED_VERSION = 1  # of the numbers in the store


@pytest.mark.parametrize("name", HASHES)
def test_a_problem_file_is_the_same_problem(name):
    path = FOLDER / "problems" / f"{name}.toml"
    problem = ll.load_spec(path)
    assert ll.spec_hash(problem) == HASHES[name]
    assert dumps(problem) == path.read_text()


def test_the_problems_themselves_have_the_hashes_they_had():
    problems = {**library(), **written()}
    assert {name: ll.spec_hash(problem) for name, problem in problems.items()} == HASHES
    assert {path.stem for path in (FOLDER / "problems").iterdir()} == set(HASHES)


@pytest.mark.parametrize("name", ["simulate", "predict", "sweep"])
def test_a_result_file_is_read_and_can_be_worked_with(name, tmp_path):
    ds = ll.load(FOLDER / "results" / f"{name}.nc")
    validate(ds)
    assert ll.spec_hash(ll.spec.from_json(ds.attrs["problem"])) == ds.attrs["spec_hash"]
    assert time_label([ds]) == "time t"  # it does not say its clock
    assert ll.load(ll.save(ds, tmp_path / "again.nc")).identical(ds)
    assert ll.plot(ds.isel(d=0, drop=True) if name == "sweep" else ds).axes


def test_an_old_result_compares_with_a_new_one():
    old = ll.load(FOLDER / "results" / "predict.nc")
    new = ll.predict(written()["sgd_spherical"], ll.OverlapODE(d=50, replicas=2, seed=3), times=old["time"].values)
    assert ll.compare(old, new, paired=True).agrees
    np.testing.assert_allclose(new["M"].values, old["M"].values, rtol=1e-12, atol=1e-13)


# --- the store ----------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    folder = shutil.copytree(FOLDER / "store", tmp_path / "store")
    with pytest.raises(ll.errors.ResultFileError, match="limitlab store migrate"):
        Store(folder, create=False)
    assert CliRunner().invoke(app, ["store", "migrate", str(folder)]).exit_code == 0
    return Store(folder, create=False)


def counts(store):
    """Points that the last run found, and that it computed."""
    last = list(store.runs().values())[-1]
    return last["found"], last["done"]


def test_an_old_store_stays_readable(store, tmp_path):
    (name,) = store.sweeps()
    assert len(store.keys_of(name)) == 4
    assert store.verify() == (4, [])
    for words in (["store", "ls"], ["store", "ls", "--points"], ["store", "verify"], ["status"]):
        done = CliRunner().invoke(app, [*words, str(store.path)])
        assert done.exit_code == 0, done.output
    out = tmp_path / "points.csv"
    done = CliRunner().invoke(app, ["store", "export", str(store.path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    ds = ll.load(FOLDER / "results" / "sweep.nc")
    assert len(out.read_text().splitlines()) > ds.sizes["time"]


def test_points_of_the_same_numerics_are_found_and_not_computed_again(store, monkeypatch):
    monkeypatch.setattr(job, "NUMERICS_VERSION", STORED_VERSION)
    monkeypatch.setattr(work, "visit", None)
    ds, saved = swept(store), ll.load(FOLDER / "results" / "sweep.nc")
    assert counts(store) == (4, 0)
    for name, variable in saved.variables.items():
        np.testing.assert_array_equal(ds[name].values, variable.values)


def test_points_of_other_numerics_are_computed_again_and_never_mixed(store, monkeypatch):
    before = set(store.keys())
    monkeypatch.setattr(job, "NUMERICS_VERSION", max(STORED_VERSION, NUMERICS_VERSION) + 1)
    swept(store)
    assert counts(store) == (0, 4)
    assert len(set(store.keys()) - before) == 4
    assert store.verify() == (8, [])
    assert len(store.sweeps()) == 2
