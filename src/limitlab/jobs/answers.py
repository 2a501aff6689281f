"""Results as bytes: Datasets by the encoding of stores, other answers as plain tables. No pickle."""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.results.points import Point
from limitlab.sweep.storage.files.encoding import decode, encode

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["from_bytes", "plain", "to_bytes"]


def to_bytes(ds: "xr.Dataset") -> bytes:
    """A Dataset as plain bytes; what its variables say of themselves is kept."""
    own = {str(name): array.attrs for name, array in ds.variables.items() if array.attrs}
    variables = {str(name): (tuple(map(str, v.dims)), v.values) for name, v in ds.data_vars.items()}
    coords = {str(name): (tuple(map(str, v.dims)), v.values) for name, v in ds.coords.items()}
    return encode(Point(variables, coords, {"of_result": plain(ds.attrs), "of_variables": plain(own)}))


def from_bytes(data: bytes) -> "xr.Dataset":
    """The Dataset again."""
    import xarray as xr

    point = decode(data, "the result of a job")
    ds = xr.Dataset(point.variables, point.coords, point.attrs["of_result"])
    for name, own in point.attrs["of_variables"].items():
        ds[name].attrs.update(own)
    return ds


def plain(value: Any) -> Any:
    """An answer as JSON has it: records become tables, numbers that are none texts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.repr}
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
