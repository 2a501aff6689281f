"""A stored sweep, point by point: its points in their order, and as the rows of a tidy table.

A tidy table has a row for each time and replica of each point. Its columns are the swept parameters, ``status``,
``reason``, what numbers the rows of a point (``time``, ``iteration``, ``replica``, units if asked for), and variables.
"""

import dataclasses
import math
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from limitlab.errors import DamagedFileWarning, InputError, ResultFileError
from limitlab.results.points import Point, Table, as_texts
from limitlab.sweep.storage.store import Store
from limitlab.sweep.table import why
from limitlab.verbs import Progress

__all__ = ["BLOCK", "Columns", "Rows", "Unlike", "about_of", "no_variable", "read_points"]

RUN = ("time", "iteration", "replica")  # what numbers the rows of a point unless more is asked for
BLOCK = 65536  # rows in memory at a time
MANY = 10**6  # rows of a point, beyond which they must not be many more than its numbers
AGAIN = 100  # times that a sweep may have a point
MISSING = Point(reason="not computed yet", failure="failed")
DAMAGED = Point(reason="damaged: run limitlab store verify, then the sweep again")
KINDS = {"b": np.dtype(bool), "i": np.dtype(np.int64), "f": np.dtype(float)}


def read_points(store: Store, name: str, progress: Progress | None = None) -> Iterator[Point]:
    """The points of a sweep in the order of its grid. Damaged ones are warned about, and stay where they are."""
    keys = store.keys_of(name)
    for number, key in enumerate(keys):
        found = store.peek(key)
        if isinstance(found, str):
            warnings.warn(found, DamagedFileWarning, stacklevel=2)
        yield MISSING if found is None else DAMAGED if isinstance(found, str) else found
        if progress is not None:
            progress(number + 1, len(keys), "reading points")


def about_of(store: Store, name: str) -> dict[str, Any]:
    """The record of a sweep, if it is one."""
    about = store.sweeps().get(name, {})
    axes = about.get("axes")
    whole = isinstance(axes, dict) and all(map(_is_axis, axes.values()))
    if not whole or not isinstance(about.get("name"), str) or not _fits(axes, store.keys_of(name)):
        raise ResultFileError(
            f"The record of sweep {name} in {store.path} is damaged. Run the sweep again: stored points are not "
            "computed twice."
        )
    return about


def _is_axis(values: Any) -> bool:
    """Whether this is a list of numbers and texts, as swept values are written down."""
    plain = isinstance(values, list) and all(isinstance(value, (str, int, float)) for value in values)
    return plain and bool(values) and not any(isinstance(v, int) and abs(v) >= 2**63 for v in values)


def _fits(axes: Any, keys: list[str]) -> bool:
    """Whether there are as many points as places; a few that name the same one again and again are no sweep."""
    return math.prod(len(values) for values in axes.values()) == len(keys) <= AGAIN * len(set(keys))


def no_variable(unknown: list[str], known: list[str]) -> InputError:
    return InputError(f"The sweep has no variable {', '.join(map(repr, unknown))}; it has {', '.join(known)}.")


class Unlike(Exception):
    """A point does not fit the columns that the points before it have."""


@dataclasses.dataclass
class Columns:
    """The columns of a table, each with the kind of its values: b, i, f, or U for texts."""

    swept: dict[str, str]
    index: dict[str, str]
    variables: dict[str, str]

    @property
    def all(self) -> dict[str, str]:
        return {**self.swept, "status": "U", "reason": "U", **self.index, **self.variables}

    def hold(self, index: dict[str, str], variables: dict[str, str]) -> bool:
        """Whether values of these kinds fit in."""
        return all(
            name in mine and _joined(mine[name], kind) == mine[name]
            for mine, theirs in ((self.index, index), (self.variables, variables))
            for name, kind in theirs.items()
        )

    def join(self, index: dict[str, str], variables: dict[str, str]) -> None:
        for mine, theirs in ((self.index, index), (self.variables, variables)):
            for name, kind in theirs.items():
                mine[name] = _joined(mine.get(name, kind), kind)
        run = [dim for dim in RUN if dim in self.index]
        self.index = {dim: self.index[dim] for dim in [*run, *(dim for dim in self.index if dim not in RUN)]}


def _kind(values: np.ndarray) -> str:
    return {"u": "i"}.get(values.dtype.kind, values.dtype.kind if values.dtype.kind in "bif" else "U")


def _joined(a: str, b: str) -> str:
    return max(a, b, key="bifU".index)


class Rows:
    """The points of a sweep as rows of a table."""

    def __init__(self, store: Store, name: str, wanted: tuple[str, ...], progress: Progress | None):
        self._store, self._name, self._wanted, self._progress = store, name, wanted, progress
        self.about = about_of(store, name)
        self._axes = {axis: np.asarray(values) for axis, values in self.about["axes"].items()}

    def _points(self) -> Iterator[Point]:
        return read_points(self._store, self._name, self._progress)

    def _empty(self) -> Columns:
        return Columns({axis: _kind(values) for axis, values in self._axes.items()}, {}, {})

    def guess(self) -> Columns:
        """The columns of the first good point: all others usually have the same."""
        columns = self._empty()
        for point in read_points(self._store, self._name):
            if not point.failed:
                columns.join(*self._kinds(point))
                return columns if set(self._wanted) <= set(columns.variables) else self.scan()
        return columns

    def scan(self) -> Columns:
        """The columns that all points need."""
        columns, names = self._empty(), {}
        for point in self._points():
            if not point.failed:
                columns.join(*self._kinds(point))
                names.update(dict.fromkeys(point.variables))
        unknown = [name for name in self._wanted if name not in columns.variables]
        if unknown and names:
            raise no_variable(unknown, list(names))
        return columns

    def _chosen(self, point: Point) -> Table:
        if point.failed:
            return {}
        if self._wanted:
            there = {**point.coords, **point.variables}
            chosen = {name: there[name] for name in self._wanted if name in there}
        else:
            chosen = {n: table for n, table in point.variables.items() if n != "status" and set(table[0]) <= {*RUN}}
        clash = sorted(set(chosen) & {*self._axes, "status", "reason"})
        if clash:
            raise InputError(f"The column {clash[0]} would be there twice. Choose others with --variable.")
        return chosen

    def _kinds(self, point: Point) -> tuple[dict[str, str], dict[str, str]]:
        """The index and the variables of a point, with their kinds."""
        chosen = self._chosen(point)
        units = {name: set(dims) - {*RUN} for name, (dims, _) in chosen.items()}
        widest = max(units.values(), key=len, default=set())
        for name, own in units.items():
            if not own <= widest:
                other = next(n for n, dims in units.items() if dims == widest)
                raise InputError(
                    f"{name} (by {', '.join(sorted(own))}) and {other} (by {', '.join(sorted(widest))}) do not fit "
                    "into one table. Export them one at a time, or to .nc."
                )
        dims = list(dict.fromkeys(dim for dims, _ in chosen.values() for dim in dims))
        taken = sorted(set(dims) & {*self._axes, "status", "reason"})
        if taken:
            raise InputError(f"The column {taken[0]} would be there twice. Choose others with --variable.")
        index = {dim: _kind(_labels(point, dim, 0)) for dim in dims}
        return index, {name: _kind(values) for name, (_, values) in chosen.items() if name not in index}

    def blocks(self, columns: Columns, scanned: bool) -> Iterator[list[list]]:
        """Rows of all points, in blocks, column by column; `Unlike` if a point does not fit.

        After a scan all of them fit, unless one has come since: that counts as not computed yet.
        """
        for here, point in zip(product(*(v.tolist() for v in self._axes.values())), self._points(), strict=True):
            if not columns.hold(*self._kinds(point)):
                if not scanned:
                    raise Unlike
                point = MISSING
            yield from self._rows(columns, here, point)

    def _rows(self, columns: Columns, here: tuple, point: Point) -> Iterator[list[list]]:
        chosen = self._chosen(point)
        sizes = {dim: n for dims, v in chosen.values() for dim, n in zip(dims, v.shape, strict=True)}
        if 0 in sizes.values():
            chosen, sizes = {}, {}
        dims = [dim for dim in columns.index if dim in sizes]
        shape = tuple(sizes[dim] for dim in dims)
        _check_rows(math.prod(shape), chosen)
        tables: dict[str, Any] = dict(zip(columns.swept, here, strict=True))
        tables["status"], tables["reason"] = _along(dims, shape, *_status(point, dims)), why(point)
        for dim in dims:
            tables[dim] = _along(dims, shape, (dim,), _cast(_labels(point, dim, sizes[dim]), columns.index[dim]))
        for name, (own, values) in chosen.items():
            if name not in tables:
                tables[name] = _along(dims, shape, own, _cast(values, columns.variables[name]))
        for first in range(0, math.prod(shape), BLOCK):
            rows = min(BLOCK, math.prod(shape) - first)
            yield [_part(tables.get(name), first, rows) for name in columns.all]


def _check_rows(rows: int, chosen: Table) -> None:
    """Refuse a point whose variables have so little in common that its rows are many more than its numbers."""
    numbers = sum(values.size for _, values in chosen.values())
    if rows > MANY and rows > 100 * numbers:
        raise InputError(
            f"A point would take {rows} rows for {numbers} numbers: its variables lie along different dimensions. "
            "Choose some with --variable, or export to .nc."
        )


def _status(point: Point, dims: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The status by row, or one word for all if the rows are not told apart as it is: what first went wrong."""
    own, words = point.status
    if set(own) <= set(dims):
        return own, words
    bad = [word for word in np.ravel(words).tolist() if word != "ok"]
    return (), np.asarray(bad[0] if bad else "ok")


def _along(dims: list[str], shape: tuple[int, ...], own: tuple[str, ...], values: np.ndarray) -> np.ndarray:
    """An array seen along all dimensions of the rows."""
    order = sorted(range(len(own)), key=lambda axis: dims.index(own[axis]))
    sizes = [shape[i] if dim in own else 1 for i, dim in enumerate(dims)]
    return np.broadcast_to(np.transpose(values, order).reshape(sizes), shape)


def _labels(point: Point, dim: str, size: int) -> np.ndarray:
    """What the places along a dimension are called: by its coordinate, else by their numbers."""
    own, values = point.coords.get(dim, ((), None))
    return np.arange(size) if values is None or own != (dim,) else values


def _cast(values: np.ndarray, kind: str) -> np.ndarray:
    return values.astype(KINDS[kind]) if kind in KINDS else as_texts(values)


def _part(table: Any, first: int, rows: int) -> list:
    return table.flat[first : first + rows].tolist() if isinstance(table, np.ndarray) else [table] * rows
