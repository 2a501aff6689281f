"""A stored sweep as one file for other programs: netCDF, or a tidy table (CSV, Parquet) written point by point."""

import csv
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from limitlab.errors import InputError, SpecError
from limitlab.files import own_file, whole
from limitlab.numerics.machine import Growth
from limitlab.results.files import save
from limitlab.spec import from_dict
from limitlab.sweep.storage.store import FOLDERS, Store
from limitlab.sweep.storage.tidy import BLOCK, Columns, Rows, Unlike, about_of, no_variable, read_points
from limitlab.sweep.table import TOGETHER, combine
from limitlab.text import one_line, writable
from limitlab.verbs import Progress

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["FORMATS", "choose", "dataset_of", "export"]

FORMATS = (".csv", ".parquet", ".nc")


def choose(store: Store, name: str | None) -> str:
    """The sweep of that name, or of a name that begins so; the latest if None."""
    names = list(store.sweeps())
    if not names:
        raise InputError(f"There is no sweep in {store.path}. Run one with limitlab sweep ... --out {store.path}.")
    if name is None:
        return names[-1]
    fits = [known for known in names if known.startswith(name)] if name else []
    if len(fits) != 1:
        found = f"fits {len(fits)} of them" if fits else "is none of them"
        raise InputError(f"A sweep must be one of {', '.join(names)}; {name!r} {found}.")
    return fits[0]


def export(
    store: Store,
    path: str | os.PathLike,
    name: str | None = None,
    variables: list[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a sweep to a file of the kind that its suffix says; it appears whole or not at all.

    Parameters
    ----------
    store
        Where the points are.
    path
        Ends with .csv, .parquet or .nc.
    name
        Of the sweep; the latest if None.
    variables
        Only these. A table has all that have no other dimensions than time, iteration and replica if left out.
    progress
        Called as progress(done, total, label).
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InputError(f"A sweep is exported to a file that ends with {', '.join(FORMATS)}; got {path.name!r}.")
    if {(store.path / folder).resolve() for folder in FOLDERS} & {*path.resolve().parents}:
        raise InputError(f"{path} is among the files of the store itself. Choose a place outside of {store.path}.")
    name = choose(store, name)
    if path.suffix == ".nc":
        return save(_only(dataset_of(store, name, progress), variables), path)
    writer = _Csv if path.suffix == ".csv" else _parquet()
    rows = Rows(store, name, tuple(variables or ()), progress)
    columns = rows.guess()
    with whole(path) as part:
        try:
            _write(rows, writer, part, columns, scanned=False)
        except Unlike:  # points have different variables: look at all of them first
            _write(rows, writer, part, rows.scan(), scanned=True)
    return path


def dataset_of(store: Store, name: str, progress: Progress | None = None) -> "xr.Dataset":
    """The points of a recorded sweep as the Dataset that `sweep` returned; points that are not there yet as failed."""
    about = about_of(store, name)
    try:
        problem = from_dict(about["problem"]["problem"])
    except (SpecError, KeyError, TypeError) as error:
        raise InputError(
            f"The problem of sweep {name} has Python functions in it, which a file cannot hold ({error}). Run the "
            "sweep again in Python, which finds its points in the store, and save what it returns; or export to .csv."
        ) from error
    axes = {axis: np.asarray(values) for axis, values in about["axes"].items()}
    attrs = {} if about.get("seed") is None else {"seed": about["seed"]}
    points, growth = [], Growth(f"sweep of {one_line(about['name'])}", TOGETHER.format(len(store.keys_of(name))))
    for point in read_points(store, name, progress):
        points.append(point)
        growth.check()
    return combine(problem, about["name"], axes, points, attrs)


def _only(ds: "xr.Dataset", variables: list[str] | None) -> "xr.Dataset":
    if not variables:
        return ds
    unknown = [name for name in variables if name not in ds.data_vars]
    if unknown:
        raise no_variable(unknown, list(map(str, ds.data_vars)))
    return ds[list(dict.fromkeys([*variables, *(name for name in ("status", "reason") if name in ds)]))]


class _Writer(Protocol):
    """Something that a table is written to, block by block."""

    def __init__(self, path: Path, columns: dict[str, str], about: dict[str, Any]): ...

    def write(self, block: list[list]) -> None: ...

    def close(self) -> None: ...


def _write(rows: Rows, writer: type[_Writer], path: Path, columns: Columns, scanned: bool) -> None:
    out = writer(path, columns.all, rows.about)
    try:
        for block in rows.blocks(columns, scanned):
            out.write(block)
    finally:
        out.close()


def _made(path: Path) -> int:
    """A new file, open; never one that is there already."""
    path.unlink(missing_ok=True)
    return own_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


class _Csv:
    def __init__(self, path: Path, columns: dict[str, str], about: dict[str, Any]):
        self._file = open(_made(path), "w", newline="", encoding="utf-8", errors="backslashreplace")
        self._rows = csv.writer(self._file)
        self._rows.writerow(list(columns))

    def write(self, block: list[list]) -> None:
        self._rows.writerows(zip(*block, strict=True))

    def close(self) -> None:
        self._file.close()


def _parquet() -> type[_Writer]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError("Parquet needs pyarrow. Install it with pip install pyarrow, or export to .csv.") from error

    class Parquet:
        def __init__(self, path: Path, columns: dict[str, str], about: dict[str, Any]):
            kinds = {"b": pa.bool_(), "i": pa.int64(), "f": pa.float64(), "U": pa.string()}
            told = {name: about.get(name) for name in ("name", "problem", "arguments", "seed", "numerics_version")}
            fields = [pa.field(writable(name), kinds[kind]) for name, kind in columns.items()]
            self._schema = pa.schema(fields, metadata={"limitlab_sweep": json.dumps(told)})
            self._under = open(_made(path), "wb")
            self._file = pq.ParquetWriter(self._under, self._schema)
            self._kept: list[list] = [[] for _ in fields]

        def write(self, block: list[list]) -> None:
            for kept, more in zip(self._kept, block, strict=True):
                kept += more
            if len(self._kept[0]) >= BLOCK:
                self._flush()

        def _flush(self) -> None:
            kept = [[writable(x) if isinstance(x, str) else x for x in column] for column in self._kept]
            arrays = [pa.array(column, field.type) for column, field in zip(kept, self._schema, strict=True)]
            self._file.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
            self._kept = [[] for _ in self._kept]

        def close(self) -> None:
            if self._kept[0]:
                self._flush()
            self._file.close()
            self._under.close()

    return Parquet
