"""Tables that visitors bring: small files that would become large ones, odd lines, too many words."""

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest

from limitlab.data.tables import usual_samples
from limitlab.errors import InputError
from limitlab.jobs.tables import check_table
from limitlab.jobs.worker import _pool


@pytest.mark.parametrize("name", ["t.npz", "t.NPZ"])
def test_a_small_file_that_would_become_a_large_one_is_refused_before_it_is_unpacked(name):
    def packed(**arrays):
        made = io.BytesIO()
        np.savez_compressed(made, **arrays)
        return made.getvalue()

    y = np.zeros(4000)
    bomb = packed(X=np.zeros((4000, 4000), "u1"), y=y)
    assert len(bomb) < 100_000
    with pytest.raises(InputError, match="At most 8,388,608 numbers; got 16,004,000"):
        check_table(name, bomb)
    check_table(name, packed(X=np.zeros((4000, 20)), y=y))  # the control
    for bad in (packed(X=y), packed(X=np.array([object()]), y=y), b"PK\x03\x04", b""):
        with pytest.raises(InputError, match="npz"):
            check_table(name, bad)


def _array(header, length):
    """An array of the second version of npy whose head says this length of itself."""
    return b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little") + header


def test_what_the_head_of_an_array_says_of_its_own_length_is_not_believed():
    """A head of a gigabyte, packed into a megabyte, would be unpacked by the server itself."""
    y = io.BytesIO()
    np.save(y, np.zeros(40))
    good = b"{'descr': '<f8', 'fortran_order': False, 'shape': (40, 3), }"
    for head, length, fine in ((b" " * (32 << 20), 32 << 20, False), (good, 1 << 31, False), (good, len(good), True)):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as held:
            held.writestr("X.npy", _array(head, length))
            held.writestr("y.npy", y.getvalue())
        tracemalloc.start()
        try:
            if fine:
                check_table("t.npz", file.getvalue())  # the control
            else:
                with pytest.raises(InputError, match="npz"):
                    check_table("t.npz", file.getvalue())
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()


def test_a_part_that_a_reader_would_take_for_an_array_is_refused():
    """numpy reads "X" before "X.npy"; only the second one's size was looked at."""
    file = io.BytesIO()
    np.savez(file, X=np.zeros((40, 3)), y=np.zeros(40))
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as held:
        held.writestr("X", bytes(1 << 20))
    with pytest.raises(InputError, match="npz"):
        check_table("t.npz", file.getvalue())


def test_lines_that_end_as_on_old_machines_are_counted():
    data = b"a,b,y\r" + b"".join(b"%d,%d,%d\r" % (i, i * i % 7, i % 2) for i in range(30)) + b",1,0\r"
    pool, rows = _pool(data, "t.csv", json.dumps({"target": "y", "drop_rows": True}))
    assert len(pool) == 30 and rows == 31
    long = b"a,b,w,y\n" + b"".join(b'%d,%d,"%s",%d\n' % (i, i * i % 7, b"x" * 200_000, i % 2) for i in range(3))
    assert _pool(long, "t.csv", json.dumps({"target": "y", "one_hot": True}))[1] == 3


def test_words_that_would_become_too_many_columns_are_refused_before_they_do():
    data = b"id,a,y\n" + b"".join(b"n%d,%d,%d\n" % (i, i % 7, i % 2) for i in range(3000))
    with pytest.raises(InputError, match=r"id has 3,000 different words.*9,003,000 numbers.*Leave it out"):
        _pool(data, "t.csv", json.dumps({"target": "y", "one_hot": True}))
    few = b"\n".join(data.splitlines()[:201])
    assert _pool(few, "t.csv", json.dumps({"target": "y", "one_hot": True}))[0].columns == 201  # the control


def test_the_usual_samples_of_a_small_table_can_be_asked_for():
    """They began at 2, which no curve with an intercept has: tables of 4 to 11 rows were refused in strange words."""
    for rows in range(4, 40):
        n = usual_samples(rows)
        assert 3 <= n[0] and n[-1] < rows
    with pytest.raises(InputError, match="at least 4 rows"):
        usual_samples(3)
