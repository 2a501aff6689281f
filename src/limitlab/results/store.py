"""Results on disk: netCDF, written beside its place and then renamed, read whole and checked."""

import errno
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError, ResultFileError
from limitlab.results.schema import SCHEMA_VERSION, validate

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["load", "save"]

# netCDF attributes are texts and numbers. Others (booleans, lists, tables, None) are kept as JSON after this.
JSON_MARK = "json:"


def save(ds: "xr.Dataset", path: str | os.PathLike) -> Path:
    """Write a result to a netCDF file and return its path.

    The file appears whole or not at all: it is written under a temporary name in the same folder, flushed to
    disk and renamed. A failed save keeps the old file.
    """
    import xarray as xr

    path = Path(path)
    if not isinstance(ds, xr.Dataset):
        raise InputError(f"save needs a result of simulate or predict (an xarray.Dataset); got {ds!r}.")
    try:
        validate(ds)
    except InputError as error:
        raise InputError(f"The Dataset cannot be saved to {path}: {error}") from error
    if path.is_dir():
        raise ResultFileError(f"{path} is a folder. Give the name of a file in it, such as {path / 'result.nc'}.")
    name = str(path.with_name(f".{path.name}.{secrets.token_hex(6)}.part"))
    try:
        encoded = _encode(ds)
        fill = {str(v): {"_FillValue": None} for v in encoded.variables if encoded[v].dtype.kind == "f"}
        encoded.to_netcdf(name, engine="h5netcdf", encoding=fill)
        _flush(name)
        os.replace(name, path)
        _flush(path.parent)
    except (OSError, RuntimeError) as error:  # HDF5 reports a full disk as either
        raise _unwritable(path, error) from error
    finally:
        if os.path.exists(name):
            os.remove(name)
    return path


def load(path: str | os.PathLike) -> "xr.Dataset":
    """Read a result into memory; raise `ResultFileError` unless it is a whole limitlab result."""
    import xarray as xr

    path = Path(path)
    if not path.exists():
        raise ResultFileError(
            f"There is no result file {path}. Check the name, or make it with limitlab.save(ds, path)."
        )
    if not path.is_file():
        raise ResultFileError(f"{path} is not a file. Give the name of a .nc file.")
    if path.stat().st_size == 0:
        raise ResultFileError(f"{path} is empty (0 bytes). Delete it and make it again.")
    with path.open("rb") as file:
        head = file.read(8)
    if head != b"\x89HDF\r\n\x1a\n":
        raise ResultFileError(
            f"{path} is not a limitlab result: it does not begin as a netCDF-4 (HDF5) file does. "
            "Give a file written by limitlab.save."
        )
    try:
        with xr.open_dataset(
            path, engine="h5netcdf", decode_times=False, decode_timedelta=False, phony_dims="sort"
        ) as opened:
            raw = opened.load()
    except (
        OSError,
        RuntimeError,
        ValueError,
        KeyError,
        EOFError,
    ) as error:  # whatever a damaged file makes HDF5 say
        raise ResultFileError(
            f"{path} cannot be read: it is truncated or damaged ({type(error).__name__}: {str(error)[:160]})"
            ". Delete it and make it again."
        ) from error
    version = raw.attrs.get("schema_version")
    if version is None:
        raise ResultFileError(
            f"{path} is a netCDF file but not a limitlab result. Give a file written by limitlab.save."
        )
    if version != SCHEMA_VERSION:
        raise ResultFileError(
            f"{path} has schema version {version}; this limitlab reads version {SCHEMA_VERSION}. "
            f"Make it again, or read it with limitlab {raw.attrs.get('limitlab_version', 'of its time')}."
        )
    try:
        ds = _decode(raw)
        validate(ds)
    except (InputError, ValueError) as error:
        raise ResultFileError(f"{path} does not obey the schema of limitlab results: {error}") from error
    return ds


def _encode(ds: "xr.Dataset") -> "xr.Dataset":
    out = ds.copy().drop_encoding()
    out.attrs = {name: _encode_attribute(value) for name, value in ds.attrs.items()}
    for name in out.variables:
        out[name].attrs = {key: _encode_attribute(value) for key, value in ds[name].attrs.items()}
    return out


def _decode(ds: "xr.Dataset") -> "xr.Dataset":
    ds = ds.drop_encoding()
    for name in list(ds.variables):
        if ds[name].dtype.kind in "OT":  # texts of variable length come back as objects
            ds[name] = (ds[name].dims, ds[name].values.astype(str), ds[name].attrs)
    for name in ds.variables:
        ds[name].attrs = {key: _decode_attribute(value) for key, value in ds[name].attrs.items()}
    ds.attrs = {name: _decode_attribute(value) for name, value in ds.attrs.items()}
    return ds


def _encode_attribute(value: Any) -> Any:
    if isinstance(value, str) and value and not value.startswith(JSON_MARK):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and abs(value) < 2**63:
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.bool_):
        value = bool(value)
    return JSON_MARK + json.dumps(value)


def _decode_attribute(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(JSON_MARK):
        return json.loads(value[len(JSON_MARK) :])
    return value.item() if isinstance(value, np.generic) else value


def _flush(path: str | Path) -> None:
    """Ask the system to put a file, or a folder's new entry, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # some file systems cannot flush a folder
            raise
    finally:
        os.close(handle)


def _unwritable(path: Path, error: Exception) -> ResultFileError:
    return ResultFileError(
        f"The result could not be written to {path}: {getattr(error, 'strerror', None) or error}. "
        "Choose a folder that exists, may be written to and has space."
    )
