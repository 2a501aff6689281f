"""limitlab curve: a table in, figure, data and verdict out; bad tables in words."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from limitlab.analysis import LearningCurve
from limitlab.cli import app

RUN = CliRunner()


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["price"] = X @ [1.0, -2.0, 0.5] + rng.standard_normal(120)
    return frame


def curve(*words):
    return RUN.invoke(app, ["curve", *map(str, words)])


def test_a_table_becomes_a_folder(table, tmp_path):
    path, out = tmp_path / "data.csv", tmp_path / "out"
    table.to_csv(path, index=False)
    done = curve(path, "--target", "price", "--model", "ridge", "--penalty", 0.1, "--samples", "20:100:5", "--out", out)
    assert done.exit_code == 0, done.output
    assert {p.name for p in out.iterdir()} == {"curve.nc", "figure.png", "verdict.txt"}
    words = (out / "verdict.txt").read_text()
    for said in ("More data", "Best penalty", "How sure: 20 real fits agree"):
        assert said in words
    assert list(LearningCurve.load(out / "curve.nc").prediction["samples"].values) == [20, 40, 60, 80, 100]


def test_parquet_and_npz_give_the_same(table, tmp_path):
    pytest.importorskip("pyarrow")
    table.to_parquet(tmp_path / "data.parquet")
    np.savez(tmp_path / "data.npz", X=table[["a", "b", "c"]].values, y=table["price"].values)
    few = ("--samples", "30,60", "--fits", 2)
    assert curve(tmp_path / "data.parquet", "--target", "price", *few, "--out", tmp_path / "p").exit_code == 0
    assert curve(tmp_path / "data.npz", *few, "--out", tmp_path / "n").exit_code == 0
    a, b = (LearningCurve.load(tmp_path / name / "curve.nc").prediction["risk"].values for name in "pn")
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_bad_tables_are_refused_by_name(table, tmp_path):
    path = tmp_path / "bad.csv"
    table.assign(city=["x", "y"] * 60, hole=[np.nan] + [1.0] * 119).to_csv(path, index=False)
    few = ("--samples", "30,60", "--fits", 2, "--out", tmp_path / "o")

    def refused(*words):
        done = curve(*words, *few)
        assert done.exit_code == 2, done.output
        return " ".join(done.output.split())

    assert "Did you mean 'price'" in refused(path, "--target", "prise")
    assert "missing in hole" in refused(path, "--target", "price")
    assert "city is text. Use --one-hot" in refused(path, "--target", "price", "--drop", "hole")
    assert "are constant" in refused(path, "--target", "price", "--drop-rows", "--one-hot", "--standardise")
    assert "--model must be one of" in refused(path, "--target", "price", "--model", "forest")
    (tmp_path / "x.pkl").write_bytes(b"")
    assert "Pickles are never read" in refused(tmp_path / "x.pkl")
    np.savez(tmp_path / "o.npz", X=np.array([{}], dtype=object), y=np.ones(1))
    assert "cannot be read" in refused(tmp_path / "o.npz")
    assert "no" in refused(tmp_path / "none.csv")
    done = curve(path, "--target", "price", "--drop", "hole", "--one-hot", *few)
    assert done.exit_code == 0, done.output


def test_what_lies_beyond_the_rows_is_told_from_within(table, tmp_path):
    """n above the rows alone: the command adds n below them itself, where a power law needs fits."""
    path, out = tmp_path / "data.csv", tmp_path / "out"
    table.assign(high=np.where(table["price"] > 0, "yes", "no")).drop(columns="price").to_csv(path, index=False)
    more = ("--model", "logistic", "--samples", "60,400", "--fits", 4, "--out", out)
    done = curve(path, "--target", "high", *more)
    assert done.exit_code == 0, done.output
    ns = LearningCurve.load(out / "curve.nc").prediction["samples"].values
    assert len(ns) >= 6 and {60, 400} <= set(ns) and "not a theory" in " ".join(done.output.split())


def test_a_head_without_rows_is_refused(tmp_path):
    path = tmp_path / "head.csv"
    path.write_text("a,price\n")
    assert "has a head but no rows" in " ".join(curve(path, "--target", "price").output.split())
    path.write_text("price\n1\n2\n")
    assert "no column besides the target" in " ".join(curve(path, "--target", "price").output.split())


def test_the_whole_table_leaves_nothing_to_test_on(table, tmp_path):
    path = tmp_path / "data.csv"
    table.to_csv(path, index=False)
    done = curve(path, "--target", "price", "--samples", "120", "--fits", 2, "--out", tmp_path / "o")
    assert done.exit_code == 2 and "samples must be whole numbers" in " ".join(done.output.split())
