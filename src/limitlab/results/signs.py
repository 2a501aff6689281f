"""Results whose overlaps are known up to their sign only, seen without it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["without_signs"]


def without_signs(results: "Sequence[xr.Dataset]") -> "tuple[list[xr.Dataset], tuple[str, ...]]":
    """The results with absolute values where a sign is drawn by chance, and the names of these variables.

    A variable is one of these if a result says so (attribute ``unsigned``). A prediction without replicas that is zero
    throughout has no side to be on: then the variable stays as it is in all results.
    """
    told = dict.fromkeys(str(name) for ds in results for name in np.atleast_1d(ds.attrs.get("unsigned", [])))
    names = tuple(
        name for name in told if any(name in ds for ds in results) and not any(_zero(ds, name) for ds in results)
    )
    seen = []
    for ds in results:
        changed = {name: abs(ds[name]).assign_attrs(ds[name].attrs) for name in names if name in ds}
        seen.append(ds.assign(changed) if changed else ds)
    return seen, names


def _zero(ds: "xr.Dataset", name: str) -> bool:
    return name in ds and "replica" not in ds[name].dims and not np.any(np.nan_to_num(ds[name].values))
