"""Result files: whole or absent, exact, and refused in words when damaged."""

import os

import h5py
import numpy as np
import pytest
import xarray as xr

import limitlab as ll
from limitlab.errors import InputError, ResultFileError
from limitlab.results.files import load, save, seal
from limitlab.results.schema import dataset

PROBLEM = ll.Problem(teacher=ll.Committee(width=2), student=ll.Committee(width=2))
ATTRS = {
    "flag": True,
    "off": False,
    "empty": "",
    "listed": [1, 2.5, "three"],
    "table": {"a": None, "b": [True]},
    "large": 2**70,
    "seed": 2**62,
    "error": float("inf"),
    "rtol": 0.1 + 0.2,
    "text": "é \N{GREEK SMALL LETTER GAMMA}\nline",
    "looks": "json:[1]",
}


def result(seed=0):
    rng = np.random.default_rng(seed)
    risk = rng.normal(size=(4, 3)) * 10.0 ** rng.integers(-300, 300, size=(4, 3))
    risk[2:, 1] = np.nan
    return dataset(
        PROBLEM,
        {
            "risk": (("time", "replica"), risk),
            "fourier": (("replica", "term"), rng.normal(size=(3, 2))),
            "free_entropy": ((), -np.inf),
            "status": ("replica", ["ok", "diverged", "max_steps"]),
            "end_time": ("replica", [3.0, 1.5, 2.0]),
        },
        {"time": [0.0, 0.1, 0.2, 3.0], "step": ("time", [0, 1, 2, 30]), "term": ["1", "z1*z2"]},
        method="test",
        attrs=ATTRS,
    )


def test_the_round_trip_is_exact(tmp_path):
    ds = result()
    path = save(ds, tmp_path / "a.nc")
    back = load(path)
    xr.testing.assert_identical(ds, back)
    for name in ds.variables:
        assert back[name].dtype == ds[name].dtype, name
        assert back[name].values.tobytes() == ds[name].values.tobytes(), name
        assert set(back.coords) == set(ds.coords)
    for name, value in ds.attrs.items():
        assert type(back.attrs[name]) is type(value), name
    assert list(back["risk"].dims) == ["time", "replica"]
    assert os.listdir(tmp_path) == ["a.nc"]


def test_a_loaded_result_can_be_saved_again_and_the_file_is_not_held_open(tmp_path):
    path = save(result(), tmp_path / "a.nc")
    save(load(path), path)
    xr.testing.assert_identical(load(path), result().assign_attrs(created=load(path).attrs["created"]))


def test_scalars_and_long_problems_survive(tmp_path):
    n = 40
    rows = np.random.default_rng(0).normal(size=(2 * n, 2 * n)) / np.sqrt(2 * n)
    omega = rows @ rows.T
    start = ll.OverlapStart(Q=omega[:n, :n], M=omega[:n, n:], P=omega[n:, n:])
    problem = ll.Problem(teacher=ll.Committee(width=n), student=ll.Committee(width=n), start=start)
    ds = dataset(problem, {"risk": ((), 0.5), "status": ((), "ok")}, method="test")
    assert len(ds.attrs["problem"]) > 64 * 1024  # beyond what HDF5 keeps in a header
    xr.testing.assert_identical(load(save(ds, tmp_path / "a.nc")), ds)


def test_saving_does_not_change_the_dataset(tmp_path):
    ds, same = result(), result()
    same.attrs["created"] = ds.attrs["created"]
    save(ds, tmp_path / "a.nc")
    xr.testing.assert_identical(ds, same)
    assert ds.attrs["flag"] is True


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path, share):
    path = save(result(), tmp_path / "a.nc")
    data = path.read_bytes()
    load(path)
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ResultFileError, match=r"a\.nc .*(truncated or damaged|does not begin as).*"):
        load(path)


def test_wrong_files_are_refused_by_name_and_with_a_remedy(tmp_path):
    cases = {
        "empty.nc": (b"", "is empty .*make it again"),
        "text.nc": (b"hello, world", "is not a limitlab result"),
    }
    for name, (data, pattern) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ResultFileError, match=f"{name} {pattern}"):
            load(tmp_path / name)
    with pytest.raises(ResultFileError, match=r"no result file .*none\.nc"):
        load(tmp_path / "none.nc")
    with pytest.raises(ResultFileError, match="is not a file"):
        load(tmp_path)
    with h5py.File(tmp_path / "h5.nc", "w") as file:
        file["x"] = np.arange(3.0)
    with pytest.raises(ResultFileError, match=r"h5\.nc .*not a limitlab result|h5\.nc cannot be read"):
        load(tmp_path / "h5.nc")
    xr.Dataset({"x": ("y", [1.0])}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    with pytest.raises(ResultFileError, match=r"foreign\.nc is a netCDF file but not a limitlab result"):
        load(tmp_path / "foreign.nc")


def test_another_schema_and_a_broken_one_are_refused(tmp_path):
    path = save(result(), tmp_path / "a.nc")
    with h5py.File(path, "a") as file:
        file.attrs["schema_version"] = 99
    with pytest.raises(ResultFileError, match="lost the checksum"):
        load(path)
    seal(path)
    with pytest.raises(ResultFileError, match=r"a\.nc has schema version 99; this limitlab reads version"):
        load(path)
    path = save(result(), tmp_path / "b.nc")
    with h5py.File(path, "a") as file:
        file["status"][1] = "ok"  # now NaN stands without a reason
    seal(path)
    with pytest.raises(ResultFileError, match=r'b\.nc does not obey the schema.*NaN where status is "ok"'):
        load(path)


def test_a_failed_save_keeps_the_old_file_and_leaves_no_half(tmp_path, monkeypatch):
    path = save(result(0), tmp_path / "a.nc")
    before = path.read_bytes()

    def fail(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(ResultFileError, match=r"a\.nc could not be written: No space left on device.*has space"):
            save(result(1), path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            save(result(1), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.nc"]


def test_bad_places_and_bad_datasets_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ResultFileError, match=r"could not be written: .*folder that exists"):
        save(result(), tmp_path / "no" / "a.nc")
    with pytest.raises(ResultFileError, match="is a folder"):
        save(result(), tmp_path)
    with pytest.raises(InputError, match=r"cannot be saved .*lacks the attributes"):
        save(xr.Dataset({"risk": ("time", [1.0])}), tmp_path / "a.nc")
    assert not os.listdir(tmp_path)


def test_only_results_are_saved(tmp_path):
    with pytest.raises(InputError, match="save needs a result"):
        save(3, tmp_path / "x.nc")
    assert not list(tmp_path.iterdir())


def test_every_flipped_bit_and_every_cut_of_a_saved_result_is_seen(tmp_path):
    """300 bits and 100 cuts: refused, or the very same numbers."""
    ds = result()
    path = save(ds, tmp_path / "a.nc")
    data, rng = path.read_bytes(), np.random.default_rng(0)
    with h5py.File(path) as plain:  # no checksum in the way of other readers
        np.testing.assert_array_equal(plain["risk"][()], ds["risk"])
    for place in rng.integers(0, len(data), 300):
        bad = bytearray(data)
        bad[place] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        with pytest.raises(ResultFileError):
            load(path)
    for length in rng.integers(0, len(data), 100):
        path.write_bytes(data[:length])
        with pytest.raises(ResultFileError):
            load(path)
    path.write_bytes(data)
    assert load(path).identical(ds)
