"""The old format: a point as the bytes of a small netCDF-4 file. `migrate` reads it; benchmarks compare with it.

The bytes end with their own SHA-256, which no netCDF reader minds and `decode` insists on. A checksum is no signature:
what a stranger wrote is looked through as `load` looks through results, before HDF5 reads any of it.
"""

import functools
import hashlib
import itertools
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import h5py
import numpy as np
from h5py import h5a, h5d, h5ds, h5f, h5p, h5s, h5t  # type: ignore[attr-defined]

from limitlab.errors import ResultFileError
from limitlab.results.attributes import DATE_KIND, DATES, decode_attribute, encode_attribute
from limitlab.results.points import Point, Table
from limitlab.results.scan import check_image
from limitlab.text import writable

__all__ = ["decode", "encode"]

MARK = b"limitlab-sha256:"
TRAILER = len(MARK) + 64 + 1
MAGIC = b"\x89HDF\r\n\x1a\n"
ORDERED = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED  # netCDF keeps names in the order of their making
TEXT = h5py.string_dtype()
OWN = ("layout", "coordinates", "skipped", "reason", "failure")  # attributes that the file needs for itself
_NUMBERS = itertools.count()
SHORT = 10_000  # characters of a text that fits into an attribute itself, whose limit is 64 KB


def encode(point: Point) -> bytes:
    """The bytes of a netCDF-4 file with the point's variables, coordinates and attributes."""
    access, creation = h5p.create(h5p.FILE_ACCESS), h5p.create(h5p.FILE_CREATE)
    access.set_fapl_core(block_size=1 << 16, backing_store=False)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    creation.set_link_creation_order(ORDERED)
    creation.set_attr_creation_order(ORDERED)
    file = h5f.create(_unused_name(), h5f.ACC_TRUNC, fcpl=creation, fapl=access)
    try:
        tables = {name: (dims, np.asarray(v)) for name, (dims, v) in {**_labelled(point), **point.variables}.items()}
        names, kinds = _names(tables), {name: _kind(values) for name, (_, values) in tables.items()}
        sets = {name: _put(file, names[name], values, kinds[name]) for name, (_, values) in tables.items()}
        for dim in dict.fromkeys(dim for dims, _ in tables.values() for dim in dims):
            h5ds.set_scale(sets[dim], names[dim].encode())
        for name, (dims, _) in tables.items():
            for axis, dim in enumerate(dims):
                if name != dim:
                    h5ds.attach_scale(sets[name], sets[dim], axis)
        called = _names(point.attrs, OWN)
        structure = _structure(point, kinds, names, called)
        for name, value in {**{called[name]: value for name, value in point.attrs.items()}, **structure}.items():
            _attribute(file, name, encode_attribute(value))
        h5f.flush(file)
        image = file.get_file_image()
    finally:
        file.close()
    return image + MARK + hashlib.sha256(image).hexdigest().encode() + b"\n"


def decode(data: bytes, where: str, guarded: bool = True) -> Point:
    """The point in the bytes of a file; `ResultFileError`, naming ``where``, unless every bit is as it was written.

    Without a guard it is read as stores once did, which benchmarks compare with: never a stranger's.
    """
    fault = _fault(data)
    if fault is not None:
        raise ResultFileError(f"{where} {fault}. It has to be computed again.")
    try:
        return _read(data[:-TRAILER], guarded)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, MemoryError) as error:
        raise ResultFileError(
            f"{where} is not a point of a sweep ({type(error).__name__}: {str(error)[:160]})."
        ) from error


def _fault(data: bytes) -> str | None:
    if not data:
        return "is empty"
    if not data.startswith(MAGIC):
        return "is not a netCDF-4 (HDF5) file"
    trailer = data[-TRAILER:]
    if not trailer.startswith(MARK):
        return "does not end with a checksum: it is truncated, or not of this store"
    if hashlib.sha256(memoryview(data)[:-TRAILER]).hexdigest().encode() != trailer[len(MARK) : -1]:
        return "does not have the checksum that it was written with: it is damaged"
    return None


def _labelled(point: Point) -> Table:
    """The coordinates, with numbers from 0 for dimensions that have none."""
    coords = dict(point.coords)
    for dims, values in list(point.variables.values()) + list(point.coords.values()):
        for dim, size in zip(dims, np.shape(values), strict=True):
            coords.setdefault(dim, ((dim,), np.arange(size)))
    return coords


def _structure(point: Point, kinds: dict[str, str], names: dict[str, str], called: dict[str, str]) -> dict[str, Any]:
    """What a reader would otherwise have to ask of every array: which are coordinates, and their dimensions.

    Also what HDF5 cannot say: the names of arrays and attributes that it cannot hold, and kinds that it does not know.
    """
    axes = {name: list(dims) for name, (dims, _) in {**point.coords, **point.variables}.items()}
    other = [names[name] for name, (dims, _) in point.coords.items() if dims != (name,)]
    layout: dict[str, Any] = {"axes": axes, "labels": list(point.coords)}
    if unknown := {name: kind for name, kind in kinds.items() if kind}:
        layout["kinds"] = unknown
    for what, table in (("names", names), ("attributes", called)):
        odd = {name: stored for name, stored in table.items() if stored != name}
        layout |= {what: odd} if odd else {}
    out: dict[str, Any] = {"layout": layout}
    if other:
        out["coordinates"] = " ".join(other)  # so that xarray takes these for coordinates too
    if point.skipped:
        out["skipped"] = list(point.skipped)
    return {**out, "reason": point.reason, "failure": point.failure} if point.failed else out


def _names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """What arrays or attributes are called in the file: by their names, unless these are taken or cannot be there."""
    odd = [name for name in names if name in (*taken, "", ".") or "/" in name or writable(name) != name]
    used = {*taken, *(name for name in names if name not in odd)}
    out = {name: name for name in names}
    for name in odd:
        stored = quote(name, safe=" ", errors="backslashreplace") or "_"
        while stored in used or stored in (".", "_"):
            stored += "_"
        used.add(stored)
        out[name] = stored
    return out


def _kind(values: np.ndarray) -> str:
    """The kind of an array that HDF5 does not know: dates and durations, bytes, texts that UTF-8 lacks."""
    if values.dtype.kind in "mM":
        return str(values.dtype)
    if values.dtype.kind == "S":
        return "bytes"
    text = "".join(_texts(values)) if values.dtype.kind in "UTO" else ""
    return "escaped" if writable(text) != text else ""


def _texts(values: np.ndarray) -> list[str]:
    return np.ravel(values.astype(str)).tolist()


def _put(file: h5f.FileID, name: str, values: np.ndarray, kind: str) -> h5d.DatasetID:
    settings = h5p.create(h5p.DATASET_CREATE)
    settings.set_attr_creation_order(ORDERED)
    text, truth = values.dtype.kind in "UTO", values.dtype.kind == "b"
    if kind == "escaped":  # as JSON writes it, which is ASCII
        values = np.asarray([json.dumps(one) for one in _texts(values)]).reshape(values.shape)
    elif values.dtype.kind in "mM":
        values = values.astype("int64")
    elif kind == "bytes" and values.dtype.itemsize == 0:
        values = values.astype("S1")
    if text:  # all of one length, so that no array can be larger than its file
        values = np.char.encode(values.astype(str), "utf-8")
        values = values.astype(f"S{max(values.dtype.itemsize, 2)}")  # xarray would join texts of one byte
    values = values.astype(np.int8) if truth else values
    held = _text_type(values.dtype.itemsize) if text else h5t.py_create(values.dtype)
    space = h5s.create_simple(values.shape) if values.ndim else _scalar()
    made = h5d.create(file, name.encode(), held, space, dcpl=settings)
    if values.size:
        made.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values) if values.ndim else values, mtype=held)
    if text:
        _attribute(made, "_Encoding", "utf-8")  # so that xarray reads texts, not bytes
    if kind.startswith(DATES):
        _attribute(made, DATE_KIND, kind)  # so that `limitlab.load` reads dates, not numbers
    if truth:
        _attribute(made, "dtype", "bool")  # as xarray writes and reads it
    return made


def _attribute(owner: Any, name: str, value: str | int | float) -> None:
    scalar = _scalar()
    if isinstance(value, str) and len(value) > SHORT:  # kept in a heap, which takes any length
        kind = h5t.py_create(TEXT, logical=True)
        h5a.create(owner, name.encode(), kind, scalar).write(np.asarray(value, dtype=TEXT))
        return
    if isinstance(value, str):
        text = value.encode()
        kind = _text_type(max(len(text), 1))
        array = np.asarray(text, dtype=f"S{max(len(text), 1)}")
    else:
        array = np.asarray(value)
        kind = h5t.py_create(array.dtype)
    h5a.create(owner, name.encode(), kind, scalar).write(array, mtype=kind)


@functools.cache
def _scalar() -> h5s.SpaceID:
    return h5s.create(h5s.SCALAR)


def _unused_name() -> bytes:
    """HDF5 knows files in memory by their names too, and threads may have several open."""
    return f"point {next(_NUMBERS)}".encode()


@functools.lru_cache(maxsize=256)
def _text_type(size: int) -> h5t.TypeID:
    kind = h5t.C_S1.copy()
    kind.set_size(size)
    kind.set_cset(h5t.CSET_UTF8)
    kind.set_strpad(h5t.STR_NULLPAD)
    return kind


def _read(image: bytes, guarded: bool) -> Point:
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(backing_store=False)
    access.set_file_image(image)

    def opened(_: bytes) -> h5py.File:
        return h5py.File(h5f.open(_unused_name(), flags=h5f.ACC_RDONLY, fapl=access))

    with check_image(image, opened) if guarded else opened(image) as file:
        attrs = {name: decode_attribute(_text(value)) for name, value in file.attrs.items()}
        layout, _ = attrs.pop("layout"), attrs.pop("coordinates", "")
        names, kinds = layout.get("names", {}), layout.get("kinds", {})
        tables = {
            name: (tuple(dims), _array(file, names.get(name, name), len(image), kinds.get(name, "")))
            for name, dims in layout["axes"].items()
        }
    if any(len(dims) != values.ndim for dims, values in tables.values()):
        raise ValueError("arrays do not have the axes that the layout says")
    coords = {name: tables.pop(name) for name in layout["labels"]}
    skipped, reason, failure = attrs.pop("skipped", []), attrs.pop("reason", ""), attrs.pop("failure", "failed")
    called = {stored: name for name, stored in layout.get("attributes", {}).items()}
    attrs = {called.get(name, name): value for name, value in attrs.items()}
    return Point(tables, coords, attrs, tuple(skipped), reason, failure)


def _array(file: h5py.File, name: str, bound: int, kind: str) -> np.ndarray:
    made = file[name]
    if not isinstance(made, h5py.Dataset) or made.external or made.is_virtual or made.chunks:
        raise ValueError(f"{name} is not a plain array")
    if made.nbytes > bound:
        raise ValueError(f"{name} declares {made.nbytes} bytes in a file of {bound}")
    values = np.asarray(made[()])
    if values.dtype.kind == "S" and kind != "bytes":
        texts = np.char.decode(values, "utf-8")
        if kind == "escaped":
            texts = np.asarray([json.loads(one) for one in _texts(texts)]).reshape(texts.shape)
        return texts
    if values.dtype.kind not in "fiucS":
        raise ValueError(f"{name} must hold numbers or texts")
    if values.dtype == np.int8 and _text(made.attrs.get("dtype")) == "bool":  # as xarray, too, writes truth values
        return values.astype(bool)
    dates = values.dtype == np.int64 and kind.startswith(DATES)
    return values.astype(kind) if dates else values


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
