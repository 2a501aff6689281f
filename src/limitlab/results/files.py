"""Results on disk: netCDF, written beside its place and then renamed, read whole and checked."""

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError, ResultFileError
from limitlab.files import open_plain, own_file, unwritable, whole
from limitlab.results.attributes import DATE_KIND, DATES, decode_attribute, encode_attribute
from limitlab.results.scan import available_memory, check_file
from limitlab.results.schema import SCHEMA_VERSION, validate
from limitlab.text import one_line, printable, show

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["load", "save", "seal"]

SEAL = b"limitlab-sha256:"  # before the checksum, the last bytes of a file
TRAILER = len(SEAL) + 64 + 1
SEALED = "limitlab_checksum"  # the attribute that says that there is one
PIECE = 1 << 20  # bytes read at a time


def save(ds: "xr.Dataset | Any", path: str | os.PathLike) -> Path:
    """Write a result to a netCDF file and return its path.

    The file appears whole or not at all: it is written under a temporary name in the same folder, flushed to
    disk and renamed. A failed save keeps the old file. It ends with the SHA-256 of all its other bytes, which `load`
    checks and other readers of netCDF pass over.
    """
    import xarray as xr

    path = Path(path)
    ds = ds.as_dataset() if hasattr(ds, "as_dataset") else ds  # a learning curve is several
    if not isinstance(ds, xr.Dataset):
        raise InputError(f"save needs a result of simulate or predict (an xarray.Dataset); got {ds!r}.")
    try:
        validate(ds)
    except InputError as error:
        raise InputError(f"The Dataset cannot be saved to {path}: {error}") from error
    encoded = _encode(ds).assign_attrs({SEALED: "sha256"})
    fill = {str(v): {"_FillValue": None} for v in encoded.variables if encoded[v].dtype.kind == "f"}
    with whole(path) as part:
        try:
            encoded.to_netcdf(part, engine="h5netcdf", encoding=fill)
            check_file(part)  # whatever could not be read back never takes its place
            seal(part)
        except ResultFileError as error:
            raise InputError(f"The Dataset cannot be saved to {path}: {error}. Leave this out.") from error
        except (TypeError, ValueError) as error:  # names and texts that netCDF cannot hold
            raise InputError(
                f"The Dataset cannot be saved to {path}: {error}. Rename this, or leave it out."
            ) from error
        except RuntimeError as error:  # HDF5 reports a full disk as this or as OSError
            raise unwritable(path, error) from error
    return path


def seal(path: Path) -> None:
    """Put the checksum of a file at its end."""
    with open(own_file(path, os.O_RDWR), "r+b") as file:
        total = hashlib.sha256()
        while piece := file.read(PIECE):
            total.update(piece)
        file.write(SEAL + total.hexdigest().encode() + b"\n")


def _whole(path: Path) -> bool:
    """Whether a file ends with a checksum; `ResultFileError` if that is not its own."""
    with open_plain(path, "result", "Give the name of a .nc file.") as file:
        size = os.fstat(file.fileno()).st_size - TRAILER
        total, left = hashlib.sha256(), size
        while left > 0 and (piece := file.read(min(PIECE, left))):
            total.update(piece)
            left -= len(piece)
        last = file.read(TRAILER)
    if size < 0 or not last.startswith(SEAL):
        return False
    if last != SEAL + total.hexdigest().encode() + b"\n":
        raise ResultFileError("it does not have the checksum that it was written with")
    return True


def load(path: str | os.PathLike) -> "xr.Dataset":
    """Read a result into memory; raise `ResultFileError` unless it is a whole limitlab result.

    Nothing in the file is run, followed to another place or taken on trust: see `limitlab.results.scan`.
    """
    path = Path(path)
    shown = one_line(str(path))
    _check_head(path, shown)
    try:
        sealed = _whole(path)
    except (OSError, ValueError) as error:
        raise _refused(f"{shown} cannot be read: {error}. It is damaged: delete it and make it again.") from None
    try:
        check_file(path, available_memory())
        raw = _read(path)
    except ResultFileError as error:
        raise _refused(
            f"{shown} is a netCDF file but not a limitlab result: {error}. Give a file written by limitlab.save."
        ) from None
    except MemoryError as error:
        raise _refused(f"{shown} cannot be read: {error or 'out of memory'}. Use a machine with more.") from None
    except Exception as error:  # whatever a damaged file makes HDF5 and its readers say
        raise _refused(
            f"{shown} cannot be read: it is truncated or damaged ({type(error).__name__}: {str(error)[:160]})"
            ". Delete it and make it again."
        ) from None
    if raw.attrs.pop(SEALED, None) is not None and not sealed:
        raise _refused(
            f"{shown} has lost the checksum at its end: it is truncated or damaged, or another program wrote to it. "
            "Make it again."
        )
    version = raw.attrs["schema_version"]
    if version != SCHEMA_VERSION:
        made_by = raw.attrs.get("limitlab_version", "of its time")
        raise _refused(
            f"{shown} has schema version {str(version)[:40]}; this limitlab reads version {SCHEMA_VERSION}. "
            f"Make it again, or read it with limitlab {str(made_by)[:40]}."
        )
    try:
        ds = _decode(raw)
        validate(ds)
    except (ArithmeticError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise _refused(f"{shown} does not obey the schema of limitlab results: {error}") from None
    return ds


def _refused(text: str) -> ResultFileError:
    return ResultFileError(printable(text))  # a stranger's names are not shown as they came


def _check_head(path: Path, shown: str) -> None:
    """Raise unless the path is that of a plain file which begins as HDF5 does."""
    try:
        with open_plain(path, "result", "Give the name of a .nc file written by limitlab.save.") as file:
            head = file.read(8)
    except OSError as error:
        raise ResultFileError(f"{shown} cannot be read: {error.strerror}. Check its permissions.") from error
    except ValueError as error:  # open_plain says what is wrong with the path
        raise ResultFileError(f"{error} Check the name, or make it with limitlab.save(ds, path).") from None
    if not head:
        raise ResultFileError(f"{shown} is empty (0 bytes). Delete it and make it again.")
    if head != b"\x89HDF\r\n\x1a\n":
        raise ResultFileError(
            f"{shown} is not a limitlab result: it does not begin as a netCDF-4 (HDF5) file does. "
            "Give a file written by limitlab.save."
        )


def _read(path: Path) -> "xr.Dataset":
    import xarray as xr

    plain: dict[str, Any] = {"mask_and_scale": False, "decode_times": False, "decode_timedelta": False}
    with xr.open_dataset(path, engine="h5netcdf", **plain) as opened:
        raw = opened.load()
    for name, variable in raw.variables.items():
        if variable.shape != tuple(raw.sizes[dim] for dim in variable.dims):  # xarray takes the scales' word for it
            raise ResultFileError(f"{show(name)} has shape {variable.shape}, which is not that of its dimensions")
    return raw


def _encode(ds: "xr.Dataset") -> "xr.Dataset":
    out = ds.copy().drop_encoding()
    out.attrs = {name: encode_attribute(value) for name, value in ds.attrs.items()}
    for name in [name for name, variable in ds.variables.items() if variable.dtype.kind in "mM"]:
        about = {**ds[name].attrs, DATE_KIND: str(ds[name].dtype)}
        out[name] = (ds[name].dims, ds[name].values.astype("int64"), about)
    for name in out.variables:
        out[name].attrs = {key: encode_attribute(value) for key, value in out[name].attrs.items()}
    return out


def _decode(ds: "xr.Dataset") -> "xr.Dataset":
    ds = ds.drop_encoding()
    for name in list(ds.variables):
        if ds[name].dtype.kind in "OT":  # texts come back as objects
            ds[name] = (ds[name].dims, ds[name].values.astype(str), ds[name].attrs)
        kind = ds[name].attrs.get(DATE_KIND)
        if isinstance(kind, str) and kind.startswith(DATES) and ds[name].dtype == np.int64:
            others = {key: value for key, value in ds[name].attrs.items() if key != DATE_KIND}
            ds[name] = (ds[name].dims, ds[name].values.astype(kind), others)
    for name in ds.variables:
        ds[name].attrs = {key: decode_attribute(value) for key, value in ds[name].attrs.items()}
    ds.attrs = {name: decode_attribute(value) for name, value in ds.attrs.items()}
    return ds
