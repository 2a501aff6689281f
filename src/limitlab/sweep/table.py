"""The points of a sweep put together: what came back at each, and one Dataset of all."""

import dataclasses
import datetime
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.errors import InputError
from limitlab.numerics.machine import Memory, check_memory
from limitlab.problems.problem import Problem
from limitlab.results.attributes import encode_attribute
from limitlab.results.points import Point, Table
from limitlab.results.schema import (
    ATTRIBUTES,
    DERIVED,
    FAILURES,
    RESERVED_DIMENSIONS,
    STATUSES,
    dataset,
    declared_in,
)

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["TOGETHER", "combine", "table_of", "why"]

RESERVED = (*ATTRIBUTES, "declared", "provenance", "verb", "swept", "left_out", "seed")  # attributes of a sweep
WORDS = ("status", "reason")  # that a sweep has at every point
TOGETHER = "Its {} points together take that much. Export a table (limitlab store export), or sweep in slices."
BROKEN = ("diverged", "not_converged", "max_steps", *FAILURES)


def table_of(result: Any, name: str) -> Point:
    """A Dataset by its variables, a record by its fields, a number under the name of the verb."""
    import xarray as xr

    if isinstance(result, xr.DataArray):
        result = result.to_dataset(name=result.name or name)
    if isinstance(result, xr.Dataset):
        _check_names(name, [*result.variables])
        variables, coords = (
            {str(key): (tuple(map(str, x.dims)), _values(name, str(key), x.values)) for key, x in group.items()}
            for group in (result.data_vars, result.coords)
        )
        ours = "schema_version" in result.attrs
        attrs, left_out = _attributes(result.attrs, () if ours else RESERVED)
        if not ours:
            variables, coords = _foreign(name, variables, coords)
        _check_reason(name, variables)
        return Point(variables, coords, attrs, left_out)
    record = _record(name, result)
    if record is None:
        record = {name: result}
    arrays = {key: _values(name, key, x) for key, value in record.items() if (x := _scalar(value)) is not None}
    if not arrays:
        raise InputError(
            f"sweep needs a verb that returns a Dataset, a number or a record of numbers; {name} returned "
            f"{type(result).__name__}. Wrap it in a function that picks the number you want."
        )
    # An exit time's own time is not a time axis: a field with a reserved name takes the name of the verb.
    variables = {name if key in RESERVED_DIMENSIONS else key: ((), x) for key, x in arrays.items()}
    if "status" not in variables:
        lost = any(map(_lost, arrays.values()))
        short = getattr(result, "reached", True) is False
        variables["status"] = ((), np.asarray("undefined" if lost else "not_reached" if short else "ok"))
    _check_reason(name, variables)
    return Point(variables, skipped=tuple(key for key in record if key not in arrays))


def _check_names(verb: str, names: Sequence[Any]) -> None:
    if len({str(name) for name in names}) < len(names):
        raise InputError(f"{verb} gave two variables with one name, such as 1 and '1'; got {list(names)}. Rename one.")


def _check_reason(verb: str, variables: Table) -> None:
    """The sweep's own word for why a point failed may be that of the verb too, if it is one text."""
    if "reason" in variables and (variables["reason"][0] or variables["reason"][1].dtype.kind != "U"):
        raise InputError(
            f"{verb} gave a variable called reason, which a sweep has for the words of failed points. It may be one "
            f"text; got {variables['reason'][1]!r:.100}. Give it another name."
        )


def _values(verb: str, name: str, values: np.ndarray) -> np.ndarray:
    """An array of a kind that a file can bring back."""
    kind = values.dtype.kind
    if kind in "OT":
        return values.astype(str)
    if kind in "mM" and np.datetime_data(values.dtype)[0] == "generic":  # no date at all
        return values.astype(f"{kind}8[ns]")
    if kind == "V" and values.dtype.names is None and np.can_cast(values.dtype, np.float32):  # as bfloat16
        return values.astype(np.float32)
    if kind not in "biufcmMSU":
        raise InputError(
            f"{verb} gave {name} of the kind {values.dtype}. A sweep holds numbers, truth values, texts and dates: "
            "give its parts as variables of their own."
        )
    return values


def _lost(values: np.ndarray) -> bool:
    """Whether something is missing: NaN, or a date that is none."""
    kind = values.dtype.kind
    return bool(np.any(np.isnat(values) if kind in "mM" else np.isnan(values))) if kind in "fcmM" else False


def _attributes(attrs: Mapping[Any, Any], taken: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Attributes as a file brings them back, and the names of those that none could, or that a sweep has itself."""
    kept, left_out = {}, []
    for key, value in attrs.items():
        try:
            if str(key) in taken or str(key) in kept:
                raise InputError("taken")
            plain = _plain(value)
            encode_attribute(plain)
            kept[str(key)] = plain
        except (InputError, TypeError, ValueError, RecursionError):
            left_out.append(f"attribute {key}")
    return kept, tuple(left_out)


def _plain(value: Any) -> Any:
    """A value as JSON has it; TypeError if it has none."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta, os.PathLike)):
        return str(value)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return _plain(np.asarray(value).tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, Mapping):
        table = {str(key): _plain(item) for key, item in value.items()}
        if len(table) < len(value):
            raise TypeError("two keys have one name")
        return table
    raise TypeError(f"{type(value).__name__} is not JSON")


def _foreign(name: str, variables: Table, coords: Table) -> tuple[Table, Table]:
    """The tables of a Dataset that a user made: numbers for dimensions without labels, a status if it has none.

    What the schema could not hold is refused here, at the first point, rather than after the last.
    """
    for dims, values in list(variables.values()):
        for dim, size in zip(dims, values.shape, strict=True):
            coords.setdefault(dim, ((dim,), np.arange(size)))
    for dim in ("time", "time_2"):
        if dim in coords and not (np.all(np.isfinite(coords[dim][1])) and np.all(np.diff(coords[dim][1]) > 0)):
            raise InputError(f"{name} gave a Dataset whose {dim} does not increase; got {coords[dim][1]!r:.100}.")
    lost = any(_lost(values) for _, values in variables.values())
    words = set(np.ravel(variables["status"][1]).tolist()) if "status" in variables else set()
    if words - set(STATUSES) or (lost and words == {"ok"}):
        told = "has NaN" if lost and words == {"ok"} else "has the status " + ", ".join(map(str, words - set(STATUSES)))
        raise InputError(
            f"{name} gave a Dataset that {told}. A status is one of {', '.join(STATUSES)}; not ok where there is NaN."
        )
    if not words:
        variables["status"] = ((), np.asarray("undefined" if lost else "ok"))
    return variables, coords


def _record(verb: str, result: Any) -> dict[str, Any] | None:
    if isinstance(result, Mapping):
        _check_names(verb, [*result])
        return {str(key): value for key, value in result.items()}
    if hasattr(result, "_asdict"):  # a named tuple
        return result._asdict()
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    return None


def _scalar(value: Any) -> np.ndarray | None:
    """A number, truth value, text or date as an array without axes; None stands for no number."""
    if value is None:
        return np.asarray(np.nan)
    if isinstance(value, str):
        return np.asarray(value)
    if isinstance(value, datetime.date):  # a moment of a certain zone is no plain date
        return np.asarray(np.datetime64(value)) if getattr(value, "tzinfo", None) is None else None
    if np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiubcmM":
        array = np.asarray(value)
        return array.astype(float) if array.dtype.kind == "f" else array
    return None


def combine(
    problem: Problem,
    verb: str,
    axes: dict[str, np.ndarray],
    points: list[Point],
    attrs: dict[str, Any] | None = None,
) -> "xr.Dataset":
    """One Dataset over the axes. Points come in row-major order of the axes."""
    good = [point for point in points if not point.failed]
    shape = tuple(len(values) for values in axes.values())
    names = list(dict.fromkeys(name for point in good for name in point.variables if name not in WORDS))
    dims_there = {dim for point in good for dims, _ in point.variables.values() for dim in dims}
    clash = sorted({*axes} & {*names, *dims_there})
    if clash:
        raise InputError(f"{verb} already has {', '.join(clash)} in its result. Sweep another name.")
    kept = {name: [p.variables[name] for p in good] for name in names if _same(name, good)}
    check_memory(_needed(kept, len(points)), f"sweep of {verb}")
    variables = {name: _stack(list(axes), shape, points, tables) for name, tables in kept.items()}
    variables["status"] = _statuses(list(axes), shape, points)
    reasons = ["; ".join(filter(None, [why(point), _own_reason(point)])) for point in points]
    if any(reasons) or any("reason" in point.variables for point in good):
        variables["reason"] = (tuple(axes), np.asarray(reasons).reshape(shape))
    used = {dim for dims, _ in variables.values() for dim in dims}
    coords: dict[str, Any] = dict(axes)
    for name in dict.fromkeys(name for point in good for name in point.coords if name not in axes):
        dims = next(p.coords[name][0] for p in good if name in p.coords)
        if used.issuperset(dims) and _same_shape([p.coords.get(name) for p in good]):
            tables = [p.coords[name] for p in good]
            if _common([values for _, values in tables]) is None:
                continue
            one = all(_alike(tables[0][1], values) for _, values in tables)
            coords[name] = tables[0] if one else _stack(list(axes), shape, points, tables)
    left_out = [name for name in names if name not in kept]
    left_out += [name for name in dict.fromkeys(name for p in good for name in p.skipped)]
    shared = {name: value for name, value in _shared_attributes(good).items() if name not in ("provenance", "seed")}
    attrs = {**shared, **(attrs or {}), "swept": list(axes), "verb": verb, "left_out": left_out or None}
    if set(axes) & set(vars(problem)):  # whole parts differ: only what all points say is true of all
        attrs = {**dict.fromkeys(DERIVED), **attrs}
    method, reference = attrs.pop("method", f"sweep of {verb}"), attrs.pop("reference", None)
    attrs.pop("declared", None)
    declared = {name: v for point in good for name, v in declared_in(point.attrs).items()}
    return dataset(problem, variables, coords, method=method, reference=reference, attrs=attrs, declared=declared)


def _needed(kept: dict[str, list], count: int) -> Memory:
    """What the variables of all points take: as much at each as where they take most, which for texts may be a lot."""
    each = sum(max(values.nbytes for _, values in tables) for tables in kept.values())
    return Memory(each * count, TOGETHER.format(count))


def why(point: Point) -> str:
    """Why a point did not end well; empty if it did."""
    if point.failed:
        return point.reason
    if np.all(point.status[1] == "ok"):
        return ""
    words = np.atleast_1d(point.status[1]).ravel()
    bad = [f"{np.sum(words == word)} of {words.size} {word}" for word in np.unique(words) if word in BROKEN]
    if not bad:
        return ""
    ends = np.atleast_1d(point.variables["end_time"][1]).ravel() if "end_time" in point.variables else np.array([])
    when = f", the first at time {np.min(ends[np.isin(words, BROKEN)]):.4g}" if ends.shape == words.shape else ""
    return ", ".join(bad) + when


def _own_reason(point: Point) -> str:
    """What the verb itself calls its reason."""
    return str(point.variables["reason"][1]) if "reason" in point.variables else ""


def _same(name: str, good: list[Point]) -> bool:
    """Whether a variable has one shape, kinds that go together, and one set of labels at all points."""
    tables = [point.variables.get(name) for point in good]
    if not _same_shape(tables) or _common([table[1] for table in tables if table is not None]) is None:
        return False
    dims = good[0].variables[name][0]
    for dim in dims:
        labels = [point.coords[dim] for point in good if dim in point.coords]
        if len(labels) < len(good) or not _same_shape(labels):
            return False
        if any(not _alike(labels[0][1], values) for _, values in labels):
            return False
    return True


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return a is b or np.array_equal(a, b)


def _same_shape(tables: list) -> bool:
    return None not in tables and len({(dims, values.shape) for dims, values in tables}) == 1


def _common(arrays: list[np.ndarray]) -> np.dtype | None:
    """The kind that can hold all of these; None if there is none, as of texts and dates, or texts and bytes."""
    kinds = {array.dtype for array in arrays}
    try:
        return None if {"S", "U"} <= {kind.kind for kind in kinds} else np.result_type(*kinds)
    except (TypeError, OverflowError):
        return None


def _stack(axes: list[str], shape: tuple[int, ...], points: list[Point], tables: list) -> tuple:
    """The good points' arrays under the swept dimensions, NaN (or an empty text) where a point failed."""
    dims, first = tables[0]
    kind = _common([values for _, values in tables])
    assert kind is not None  # others were left out
    if len(tables) < len(points) and kind.kind in "iub":
        kind = np.dtype(float)
    empty: Any = {"U": "", "S": b"", "f": np.nan, "c": np.nan, "M": "NaT", "m": "NaT"}.get(kind.kind, 0)
    out = np.full((len(points), *first.shape), empty, dtype=kind)
    out[[i for i, point in enumerate(points) if not point.failed]] = [values for _, values in tables]
    return (*axes, *dims), out.reshape(*shape, *first.shape)


def _statuses(axes: list[str], shape: tuple[int, ...], points: list[Point]) -> tuple:
    """By replica if all points have the same replicas, else a word a point: ok, or what first went wrong."""
    good = [point.status for point in points if not point.failed]
    if good and _same_shape(good):
        dims, size = good[0][0], good[0][1].shape
        words = [np.broadcast_to(point.status[1], size) for point in points]
    else:
        dims, size, words = (), (), []
        for point in points:
            bad = [word for word in np.ravel(point.status[1]).tolist() if word != "ok"]
            words.append(np.asarray(bad[0] if bad else "ok"))
    return (*axes, *dims), np.stack([w.astype(str) for w in words]).reshape(*shape, *size)


def _shared_attributes(good: list[Point]) -> dict[str, Any]:
    """Attributes that are equal at all points; those that the schema stamps itself are left to it."""
    if not good:
        return {}
    stamped = set(ATTRIBUTES) - {"method"}
    return {
        name: value
        for name, value in good[0].attrs.items()
        if name not in stamped and all(_equal(value, point.attrs.get(name)) for point in good)
    }


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(np.all(np.asarray(a == b)))
