"""What a stored sweep returns: on the second call what it returned on the first, whatever its verb gave."""

import datetime

import numpy as np
import pytest
import xarray as xr

import limitlab as ll
from cases import committee
from limitlab.errors import InputError
from limitlab.results.points import Point
from limitlab.sweep.storage.files.encoding import decode, encode
from limitlab.sweep.storage.store import Store

RATE = "algorithm.learning_rate"
PROBLEM = committee("linear", "linear", p=1, k=1, learning_rate=0.5)


def thrice(verb, folder, grid=None):
    """A sweep in memory, one into a store and one from it, which must be the same."""
    grid = {RATE: [0.1, 0.2]} if grid is None else grid
    swept = [ll.sweep(verb, PROBLEM, grid, store=store) for store in (None, folder, folder)]
    last = list(Store(folder).runs().values())[-1]
    assert (last["found"], last["done"]) == (2, 0)
    first = swept[0].drop_attrs(deep=False)
    for other in swept[1:]:
        assert first.identical(other.drop_attrs(deep=False))
        for name, values in first.variables.items():
            assert values.dtype.kind == other[name].dtype.kind
            assert values.dtype == other[name].dtype or values.dtype.kind == "U"
        about = [{k: v for k, v in ds.attrs.items() if k != "created"} for ds in (swept[0], other)]
        assert about[0] == about[1]
    return swept[-1]


KINDS = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128", "U3", "S3"),
    *("datetime64[ns]", "datetime64[s]", "timedelta64[ms]"),
]


def test_arrays_of_every_kind_come_back_as_they_were(tmp_path):
    def verb(problem):
        return xr.Dataset({kind: ("u", np.array([0, 1, 1]).astype(kind)) for kind in KINDS})

    ds = thrice(verb, tmp_path / "s")
    for kind in KINDS:
        assert ds[kind].dtype.kind == np.dtype(kind).kind
        np.testing.assert_array_equal(ds[kind][0], np.array([0, 1, 1]).astype(kind))
    dates = ds[["datetime64[ns]", "timedelta64[ms]", "int8", "bool"]].rename(
        {"datetime64[ns]": "when", "timedelta64[ms]": "long"}
    )
    assert ll.load(ll.save(dates, tmp_path / "dates.nc")).identical(dates)


def test_whole_numbers_of_eight_bits_are_no_truth_values():
    point = Point({"x": (("u",), np.array([0, 1, -7], np.int8)), "y": (("u",), np.array([True, False, True]))})
    back = decode(encode(point), "it")
    assert back.variables["x"][1].dtype == np.int8 and back.variables["x"][1].tolist() == [0, 1, -7]
    assert back.variables["y"][1].dtype == bool


def test_texts_that_no_file_can_hold_come_back_all_the_same(tmp_path):
    def verb(problem):
        if problem.algorithm.learning_rate > 0.15:
            raise RuntimeError("from a file called \udcff\0" + "z" * 20_000)
        return xr.Dataset({"x": ("u", np.array(["a\udc80", "b", "c\0d"]))}, attrs={"word": "x\udc80y", "zero": "a\0b"})

    with pytest.warns(RuntimeWarning, match="the sweep goes on"):
        ds = thrice(verb, tmp_path / "s")
    assert ds.x[0].values.tolist() == ["a\udc80", "b", "c\0d"]
    assert (ds.attrs["word"], ds.attrs["zero"]) == ("x\udc80y", "a\0b")
    reason = str(ds.reason[1].values)
    assert reason.startswith("RuntimeError: from a file called \\udcff\\x00zzz")
    reason.encode()
    assert ll.load(ll.save(ds.drop_vars("x"), tmp_path / "all.nc")).reason.values[1] == reason
    with pytest.raises(InputError, match="cannot be saved"):
        ll.save(ds, tmp_path / "not.nc")


def test_an_error_that_cannot_say_what_it_is_is_a_reason_too(tmp_path):
    class Dumb(Exception):
        def __str__(self):
            raise ValueError

    def verb(problem):
        raise Dumb

    with pytest.warns(), pytest.warns(UserWarning, match="All 2 points failed"):
        ds = thrice(verb, tmp_path / "s")
    assert "Dumb: (it cannot say what)" in str(ds.reason[0].values)


def test_names_that_no_file_can_hold_come_back_all_the_same(tmp_path):
    names = ["a/b", "a%2Fb", ".", "", "n\udc80", "two words"]

    def verb(problem):
        attrs = {"r/s": 1, "": 2, "q\udc80": 3}
        return xr.Dataset({n: (("u/v",), np.array([1.0, k])) for k, n in enumerate(names)}, attrs=attrs)

    ds = thrice(verb, tmp_path / "s")
    assert [ds[n].values[0].tolist() for n in names] == [[1.0, k] for k in range(len(names))]
    assert (ds.attrs["r/s"], ds.attrs[""], ds.attrs["q\udc80"]) == (1, 2, 3)
    with pytest.raises(InputError, match="cannot be saved"):
        ll.save(ds, tmp_path / "not.nc")


def test_a_grid_may_have_any_name_and_any_text(tmp_path):
    def verb(problem, **words):
        return float(len(words["a/b"]))

    ds = thrice(verb, tmp_path / "s", {"a/b": ["x\udc80", "y"]})
    assert ds.verb.values.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    "dates",
    [
        [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2)],
        [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)],
        [np.datetime64("2020-01-01", "ns"), np.datetime64("2020-01-02", "ns")],
        np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
    ],
    ids=["datetime", "date", "ns", "array"],
)
def test_dates_go_through_grids_and_results(tmp_path, dates):
    def verb(problem, when):
        late = datetime.datetime.now(datetime.UTC)
        return {"day": np.datetime64(when, "D"), "same": when, "now": late, "is_date": not isinstance(when, int)}

    ds = thrice(verb, tmp_path / "s", {"when": dates})
    assert ds.is_date.all() and ds.attrs["left_out"] == ["now"]
    np.testing.assert_array_equal(ds.day.values.astype("M8[D]"), np.array(["2020-01-01", "2020-01-02"], "M8[D]"))
    assert [str(label)[:10] for label in ds.when.values] == ["2020-01-01", "2020-01-02"]


def test_a_date_that_is_missing_is_no_date(tmp_path):
    def verb(problem):
        if problem.algorithm.learning_rate > 0.15:
            raise ll.errors.ConvergenceError("no")
        return {"when": np.datetime64("2020-01-01")}

    ds = thrice(verb, tmp_path / "s")
    assert np.isnat(ds.when.values).tolist() == [False, True]
    lost = ll.sweep(lambda problem: {"when": np.datetime64("NaT"), "z": complex(np.nan)}, PROBLEM, {RATE: [0.1]})
    assert lost.status.values.tolist() == ["undefined"]


def test_attributes_are_plain_or_named_as_left_out(tmp_path):
    def verb(problem):
        attrs = {
            "number": np.float32(1.5),
            "truth": np.True_,
            "tuple": (1, (2, np.int64(3))),
            "set": {3, 1, 2},
            "array": np.arange(3),
            "date": datetime.datetime(2020, 1, 1),
            "table": {1: {"a": np.zeros(2)}},
            "large": 2**70,
            "none": None,
            "object": object(),
            "function": len,
            "bytes": b"x",
            "two keys": {1: 2, "1": 3},
        }
        attrs["itself"] = [attrs["set"]]
        attrs["itself"].append(attrs["itself"])
        return xr.Dataset({"x": ((), 1.0)}, attrs=attrs)

    ds = thrice(verb, tmp_path / "s")
    assert ds.attrs["number"] == 1.5 and ds.attrs["truth"] is True and ds.attrs["tuple"] == [1, [2, 3]]
    assert ds.attrs["set"] == [1, 2, 3] and ds.attrs["array"] == [0, 1, 2] and ds.attrs["large"] == 2**70
    assert ds.attrs["table"] == {"1": {"a": [0.0, 0.0]}} and ds.attrs["date"] == "2020-01-01 00:00:00"
    lost = ["object", "function", "bytes", "two keys", "itself"]
    assert ds.attrs["left_out"] == [f"attribute {name}" for name in lost]
    assert ll.load(ll.save(ds, tmp_path / "all.nc")).attrs == ds.attrs


def test_attributes_with_names_that_a_file_needs_for_itself_are_kept(tmp_path):
    names = ["reason", "failure", "layout", "coordinates", "skipped", "clock", "reference", "key", "status"]

    def verb(problem):
        return xr.Dataset({"x": ((), 1.0)}, attrs=dict.fromkeys(names, "mine"))

    ds = thrice(verb, tmp_path / "s")
    assert [ds.attrs[name] for name in names] == ["mine"] * len(names)
    assert ds.status.values.tolist() == ["ok", "ok"] and "reason" not in ds


def test_attributes_that_a_sweep_has_itself_are_named_as_left_out(tmp_path):
    names = ["verb", "provenance", "seed", "swept", "left_out", "method", "problem", "created", "declared"]

    def verb(problem):
        return xr.Dataset({"x": ((), 1.0)}, attrs=dict.fromkeys(names, "mine"))

    ds = thrice(verb, tmp_path / "s")
    assert ds.attrs["left_out"] == [f"attribute {name}" for name in names]


def test_a_reason_of_the_verb_and_one_of_the_sweep_stand_together(tmp_path):
    def verb(problem):
        if problem.algorithm.learning_rate > 0.15:
            raise ll.errors.ConvergenceError("no fixed point")
        return {"x": 1.0, "reason": "a good start"}

    ds = thrice(verb, tmp_path / "s")
    assert ds.reason.values.tolist() == ["a good start", "ConvergenceError: no fixed point"]
    with pytest.raises(InputError, match="called reason"):
        ll.sweep(lambda problem: {"reason": 1.0}, PROBLEM, {RATE: [0.1]}, store=tmp_path / "s")


def test_what_no_sweep_can_hold_is_refused_in_words(tmp_path):
    def table(problem):
        return xr.Dataset({"x": ("u", np.zeros(2, [("a", float)]))})

    with pytest.raises(InputError, match="gave x of the kind"):
        ll.sweep(table, PROBLEM, {RATE: [0.1]}, store=tmp_path / "s")
    with pytest.raises(InputError, match="two variables with one name"):
        ll.sweep(lambda problem: {1: 1.0, "1": 2.0}, PROBLEM, {RATE: [0.1]}, store=tmp_path / "s")


def test_odd_texts_can_be_exported(tmp_path):
    from limitlab.sweep.storage.export import export

    def verb(problem):
        return {"x": "a\udc80", "when": np.datetime64("2020-01-01"), "z": 1j}

    ll.sweep(verb, PROBLEM, {RATE: [0.1, 0.2]}, store=tmp_path / "s")
    for end in ("csv", "parquet"):
        assert export(Store(tmp_path / "s"), tmp_path / f"all.{end}").stat().st_size > 0
    assert "a\\udc80" in (tmp_path / "all.csv").read_text()
