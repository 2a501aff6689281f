"""Whole points under their right names whose arrays are of any kind, shape and name: shown, exported or refused."""

import numpy as np
import pytest
from typer.testing import CliRunner

import limitlab as ll
from cases import committee
from limitlab.cli import app
from limitlab.results.points import Point, as_texts
from limitlab.sweep.storage.store import Store

RATE, RATES = "algorithm.learning_rate", [0.1, 0.2]
FLOATS, NUMBERS = "<f8 >f8 <f4 <f2 <f16 <c16 <c8 <c32", "|b1 <i8 <u8 >i2 |u1"
DATES = "<M8[D] <M8[ns] <m8[s] <M8[7Y] <m8[999999999Y] <M8[as] <M8 <m8"
KINDS = f"{FLOATS} {NUMBERS} {DATES} |S3 <U2 >U3".split()
NAMES = ["x", "y", "status", "reason", "time", "iteration", "replica", "end_time", "risk", "", "a/b", RATE, "..", "\0"]
NAMES += ["\ud800", "seed", "declared", "verb", "student"]
WORDS = ["declared", "method", "reference", "swept", "verb", "left_out", "seed", "schema_version", "problem", "d"]
JUNK = [None, 0, 10**30, -1.5, float("nan"), "", "x" * 300, "\x1b[31m\ud800", [], [[]], {}, {"a": {"b": []}}, True]


def verb(problem):
    return {"x": problem.algorithm.learning_rate, "word": "yes"}


def swept(folder):
    return ll.sweep(verb, committee("linear", "linear", p=1, k=1), {RATE: RATES}, store=folder)


def an_array(rng):
    kind, shape = np.dtype(str(rng.choice(KINDS))), tuple(rng.integers(0, 4, rng.integers(0, 3)).tolist())
    count = int(np.prod(shape)) * kind.itemsize
    data = [np.zeros(count, np.uint8), np.full(count, 255, np.uint8), rng.integers(0, 256, count, np.uint8)][
        rng.integers(3)
    ]
    if kind.kind == "b":
        data = data & 1
    if kind.kind == "U":
        data = (data.view(np.uint32) % 0x110000).astype(f"{kind.str[0]}u4")
    return np.frombuffer(data.tobytes(), kind).reshape(shape)


def tables(rng, sizes):
    out = {}
    for _ in range(rng.integers(0, 5)):
        values, dims = an_array(rng), []
        for size in values.shape:
            dim = str(rng.choice(NAMES))
            while dim in dims or sizes.get(dim, size) != size:
                dim += "q"
            sizes[dim] = size
            dims.append(dim)
        out[str(rng.choice(NAMES))] = tuple(dims), values
    return out


def changed(point, rng):
    sizes = {}
    variables = {**(point.variables if rng.random() < 0.8 else {}), **tables(rng, sizes)}
    coords = {name: table for name, table in tables(rng, sizes).items() if name not in variables}
    attrs = {**point.attrs, **{str(rng.choice(WORDS)): JUNK[rng.integers(len(JUNK))] for _ in range(rng.integers(3))}}
    return Point(variables, coords, attrs, (), "" if rng.random() < 0.8 else "why", str(rng.choice(["failed", "\x1b"])))


def looked_at(folder, out):
    """Exit codes of all that can be done with points; words that steer nothing, and no traceback."""
    words = [["store", "ls", "{}", "--points"]]
    words += [["store", "export", "{}", "--force", "--out", f"{out}.{kind}"] for kind in ("csv", "parquet", "nc")]
    ends = []
    for command in words:
        done = CliRunner().invoke(app, [word.format(folder) for word in command])
        assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
        assert all(c.isprintable() or c == "\n" for c in done.output), ascii(done.output)
        ends.append(done.exit_code)
    try:
        swept(folder)
        return [*ends, 0]
    except ll.errors.LimitlabError:
        return [*ends, 2]


def put(folder, changes):
    """Other points under the names of those of a sweep."""
    store = Store(folder)
    (name,) = store.sweeps()
    for key, change in zip(store.keys_of(name), changes, strict=True):
        point = store.read(key)
        store.remove(key)
        store.write(key, change(point))
    store.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rounds", [12, pytest.param(600, marks=pytest.mark.slow)])
def test_points_of_any_kinds_are_shown_exported_or_refused(tmp_path, rounds):
    rng, ends = np.random.default_rng(rounds), set()
    for number in range(rounds):
        swept(tmp_path / f"{number}")
        put(tmp_path / f"{number}", [lambda point: changed(point, rng)] * 2)
        ends |= set(looked_at(tmp_path / f"{number}", tmp_path / "out"))
    assert ends <= {0, 2, 3} and 0 in ends


def scalar(value, kind=None):
    return (), np.asarray(value, kind)


CASES = {  # what changes at the first and at the second point, and whether .csv, .parquet, .nc and the sweep go well
    "bytes that are no text": ({"x": scalar(b"\xff")}, {"x": scalar(b"a")}, [0, 2, 0]),
    "bytes and a text": ({"x": scalar(b"\xff")}, {"x": scalar("a")}, [0, 0, 0]),
    "a text and a duration": ({"x": scalar("a")}, {"x": scalar(1, "m8[s]")}, [0, 0, 0]),
    "a status that is a number": ({"status": scalar(1.0)}, {}, [0, 2, 2]),
    "a status that is a duration": ({"status": scalar(1, "m8[s]")}, {}, [0, 2, 2]),
    "a status of bytes": ({"status": scalar(b"\xff")}, {}, [0, 2, 2]),
    "a dimension called as a parameter": ({"y": ((RATE,), np.zeros(2))}, {}, [0, 2, 2]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_points_whose_kinds_do_not_go_together_end_in_words(tmp_path, case):
    first, second, wanted = CASES[case]
    swept(tmp_path / "s")
    changes = [lambda p, more=more: Point({**p.variables, **more}, attrs=p.attrs) for more in (first, second)]
    put(tmp_path / "s", changes)
    points, csv, parquet, nc, again = looked_at(tmp_path / "s", tmp_path / "out")
    assert (points, csv == parquet, [csv, nc, again]) == (0, True, wanted)


def test_labels_along_other_dimensions_are_no_labels_of_a_table(tmp_path):
    swept(tmp_path / "s")
    more, odd = {"y": (("time",), np.arange(3.0))}, {"time": (("replica",), np.arange(2.0))}
    put(tmp_path / "s", [lambda p: Point({**p.variables, **more}, odd, p.attrs)] * 2)
    assert looked_at(tmp_path / "s", tmp_path / "out")[:3] == [0, 0, 0]
    assert "0.1,ok,,0,0.1,yes,0.0" in (tmp_path / "out.csv").read_text()


def test_anything_can_be_a_text():
    assert as_texts(np.asarray([b"a", b"\xff"])).tolist() == ["a", "\\xff"]
    assert as_texts(np.asarray([1.5])).tolist() == ["1.5"]
    assert as_texts(np.asarray(["b"])).tolist() == ["b"]
