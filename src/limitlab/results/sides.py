"""The two sides of a comparison as arrays: which variables they share, which replicas and times are whole."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limitlab.errors import InputError
from limitlab.results.schema import pairs_of
from limitlab.results.times import same_labels
from limitlab.text import show

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "Finite",
    "Side",
    "check_replicas",
    "counted",
    "finite_part",
    "paired_replicas",
    "rest_of",
    "shared_variables",
]


NUMBERS = "fiu"  # kinds of arrays that are compared, whole numbers as well
SHARE = 0.5  # by how much the shares of replicas that ended early may differ


class Side(NamedTuple):
    """One result as arrays (replica, time, ...); ``replicas`` is 0 if it has no such dimension."""

    values: dict[str, np.ndarray]
    replicas: int

    @staticmethod
    def of(ds: "xr.Dataset", names: list[str]) -> "Side":
        arrays = {}
        for name in names:
            array = ds[name]
            if "replica" not in array.dims:  # the same in all replicas, or a result without replicas
                array = array.drop_vars("replica", errors="ignore").expand_dims(replica=ds.sizes.get("replica", 1))
            arrays[name] = array.transpose("replica", "time", *rest_of(array)).values.astype(float)
        return Side(arrays, ds.sizes.get("replica", 0))

    def lost(self) -> np.ndarray:
        """(replica, time): some variable is not finite."""
        return np.any([np.any(~np.isfinite(v.reshape(*v.shape[:2], -1)), axis=2) for v in self.values.values()], axis=0)

    def take(self, replicas: np.ndarray, times: np.ndarray) -> "Side":
        values = {name: v[replicas][:, times] for name, v in self.values.items()}
        return Side(values, int(np.sum(replicas)) if self.replicas else 0)


def rest_of(array: "xr.DataArray") -> list[Any]:
    """The dimensions of a variable's components."""
    return sorted((dim for dim in array.dims if dim not in ("replica", "time")), key=str)


def counted(rest: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Which components count: of a symmetric matrix, the upper triangle."""
    count = np.ones(shape, bool)
    for pair in pairs_of(rest):
        i, j = (np.indices(shape)[rest.index(dim)] for dim in pair)
        count &= i <= j
    return count


def shared_variables(sim: "xr.Dataset", pred: "xr.Dataset", wanted: Any, notes: list[str]) -> list[str]:
    """The variables to compare: those over time that both have, or the wanted ones among these."""
    names, unlike = [], []
    for name, array in sim.data_vars.items():
        other = pred.data_vars.get(name)
        if other is None or array.dtype.kind not in NUMBERS or other.dtype.kind not in NUMBERS:
            continue
        if "time" not in array.dims or "time" not in other.dims or name == "end_time":
            continue
        same = rest_of(array) == rest_of(other)
        fits = same and all(same_labels(array[dim].values, other[dim].values) for dim in rest_of(array))
        (names if fits else unlike).append(str(name))
    if wanted is not None:
        if not isinstance(wanted, Iterable):
            raise InputError(f"variables must be a name or a list of names; got {show(wanted)}.")
        asked = [wanted] if isinstance(wanted, str) else list(dict.fromkeys(wanted))
        for name in asked or ["nothing"]:
            if name in unlike:
                raise InputError(
                    f"{name} has other dimensions or labels on the two sides, {_axes(sim[name])} and "
                    f"{_axes(pred[name])}, and cannot be compared. Ask both for the same."
                )
            if name not in names:
                known = ", ".join(names) or "none"
                raise InputError(f"variables must be among those that both results have, {known}; got {name!r}.")
        return asked
    notes += [f"{name} has other dimensions or labels on the two sides and was not compared" for name in unlike]
    if not names and unlike:
        both = f"{_axes(sim[unlike[0]])} and {_axes(pred[unlike[0]])}"
        raise InputError(
            f"{', '.join(unlike)}: other dimensions or labels on the two sides, {both}, so that there is nothing to "
            "compare. Ask both for the same, in the same order."
        )
    if not names:
        raise InputError(
            f"The results share no variable over time: the first has {', '.join(map(str, sim.data_vars))}, "
            f"the second {', '.join(map(str, pred.data_vars))}. Compare results of one macrostate."
        )
    return names


def _axes(array: "xr.DataArray") -> str:
    return "(" + ", ".join(f"{dim}: {size}" for dim, size in array.sizes.items() if dim != "replica") + ")"


def check_replicas(first: Side, second: Side, notes: list[str]) -> None:
    """Raise `InputError` where an error bar is wanted and there is one replica to make it of."""
    if first.replicas == 1 or (first.replicas == 0 and second.replicas == 1):
        raise InputError(
            "compare needs at least 2 replicas for an error bar; got 1. Simulate with replicas=16 or more, "
            "or drop the dimension on both sides with .isel(replica=0) to see the bare gaps."
        )
    if second.replicas == 1:
        notes.append("the second result has a single replica, whose own scatter is not counted")


def paired_replicas(sim: "xr.Dataset", pred: "xr.Dataset") -> "tuple[xr.Dataset, xr.Dataset]":
    """Both results with the replicas that they share."""
    if "replica" not in sim.dims or "replica" not in pred.dims:
        raise InputError("paired=True needs replicas on both sides. Leave it out to compare with a single prediction.")
    for name in ("seed", "d"):
        here, there = sim.attrs.get(name), pred.attrs.get(name)
        if here != there:
            raise InputError(
                f"paired=True needs results with the same {name}, so that replicas start alike; got {here} "
                f"and {there}. Make both with one {name}, or leave paired out."
            )
    shared = np.intersect1d(sim["replica"].values, pred["replica"].values)
    if len(shared) < 2:
        raise InputError(f"paired=True needs at least 2 replicas with the same number; got {len(shared)}.")
    return sim.sel(replica=shared), pred.sel(replica=shared)


class Finite(NamedTuple):
    """Which replicas of either side and which times can be compared, and whether the two sides ended alike."""

    first: np.ndarray
    second: np.ndarray
    times: np.ndarray
    alike: bool


def finite_part(first: Side, second: Side, times: np.ndarray, paired: bool, notes: list[str], axis: str) -> Finite:
    """Leave out what is not finite, and say so."""
    lost_a, lost_b = first.lost(), second.lost()
    bad_a, bad_b = np.asarray(lost_a.any(axis=1)), np.asarray(lost_b.any(axis=1))
    keep_a, keep_b, keep_t = np.ones(len(bad_a), bool), np.ones(len(bad_b), bool), np.ones(len(times), bool)
    if not (np.any(bad_a) or np.any(bad_b)):
        return Finite(keep_a, keep_b, keep_t, True)
    alike = bool(np.any(bad_a) and np.any(bad_b)) and abs(np.mean(bad_a) - np.mean(bad_b)) <= SHARE
    # If it happened on one side only, leave those replicas out, as long as enough others remain; if on both,
    # keep all and compare up to the first such time.
    sound = [~(bad_a | bad_b)] * 2 if paired else [~bad_a, ~bad_b]
    if not (np.any(bad_a) and np.any(bad_b)) and all(np.count_nonzero(s) >= min(2, len(s)) for s in sound):
        keep_a, keep_b = sound
    keep_t = ~(np.any(lost_a[keep_a], axis=0) | np.any(lost_b[keep_b], axis=0))
    for side, bad in (("first", bad_a), ("second", bad_b)):
        if np.any(bad):
            what = f"{np.count_nonzero(bad)} of {len(bad)} replicas" if len(bad) > 1 else "all"
            notes.append(f"WARNING: {what} of the {side} result ended early (not finite at some shared time)")
    if not np.all(keep_a) or not np.all(keep_b):
        notes.append("they were left out, which may bias what remains")
    if not np.all(keep_t):
        at = "iteration " if axis == "iteration" else "t = "
        reach = f"up to {at}{times[keep_t][-1]:g}" if np.any(keep_t) else f"at no {axis or 'time'}"
        notes.append(f"both are finite only {reach}")
    if not alike:
        one_side = not (np.any(bad_a) and np.any(bad_b))
        notes.append("the other result did not end early" if one_side else "most replicas of the other went on")
    return Finite(keep_a, keep_b, keep_t, bool(alike))
