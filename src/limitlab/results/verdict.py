"""What a comparison saw of each variable: gaps, errors, the worst profile, where it is, and that in words."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limitlab.results.comparison import AGREES, WITHIN, Entry
from limitlab.results.profiles import Worst, normal_score, worst_profiles
from limitlab.results.sides import counted, rest_of

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Seen", "closeness", "judge", "look", "place", "table_of", "with_margin"]


DUST = 1e-6  # share of its variable up to which a component is rounding, times that of `profiles`: 1e-15 together


class Seen(NamedTuple):
    """One variable over (time, component): gaps, their errors, the size by which they are measured, worst profiles."""

    name: str
    label: str
    rest: list[Any]
    shape: tuple[int, ...]
    places: list[np.ndarray]
    gap: np.ndarray
    error: np.ndarray
    size: float
    largest: float
    worst: Worst | None

    @property
    def unique(self) -> np.ndarray:
        return counted(self.rest, self.shape).ravel()

    @property
    def alive(self) -> np.ndarray:
        """The components that count and are not constant and equal."""
        return self.unique if self.worst is None else self.unique & ~np.isnan(self.worst.log_count)

    def share(self, gap: Any) -> float:
        """A gap in units of the variable's size."""
        return float(gap) / self.size if self.size > 0 else math.copysign(math.inf, gap) if gap else 0.0

    def component(self, number: int) -> str:
        """Its labels in words; none of a scalar."""
        index = np.unravel_index(number, self.shape)
        labels = [str(labels[i]) for labels, i in zip(self.places, index, strict=True)]
        return f"{self.label}[{', '.join(labels)}]" if labels else "" if self.label == self.name else self.label


def look(like: "xr.DataArray", x: np.ndarray, y: np.ndarray, paired: bool, unsigned: bool) -> Seen:
    rest, shape = rest_of(like), x.shape[2:]
    x, y = x.reshape(*x.shape[:2], -1), y.reshape(*y.shape[:2], -1)
    scale = np.maximum(np.max(np.abs(x), axis=(0, 1)), np.max(np.abs(y), axis=(0, 1)))
    power = math.frexp(np.max(scale, initial=0.0))[1]
    unit = 2.0 ** min(power, 1023)  # squares of numbers about 1 neither overflow nor vanish
    x, y, scale = x / unit, y / unit, np.maximum(scale / unit, DUST)
    theory = x if len(x) == 1 < len(y) else y
    size = float(np.sqrt(np.mean(np.square(np.mean(theory, axis=0))[:, counted(rest, shape).ravel()])))
    if paired:
        x, y = x - y, np.zeros_like(y[:1])
    replicated = len(x) > 1 or len(y) > 1
    gap = np.mean(x, axis=0) - np.mean(y, axis=0)
    error = np.sqrt(_squared_error(x) + _squared_error(y)) if replicated else np.full_like(gap, np.nan)
    worst = worst_profiles(x, y, scale) if replicated else None
    if worst is not None:
        worst = worst._replace(gap=worst.gap * unit, error=worst.error * unit)
    label, places = f"|{like.name}|" if unsigned else str(like.name), [like[dim].values for dim in rest]
    largest = float(np.max(scale)) * unit
    return Seen(str(like.name), label, rest, shape, places, gap * unit, error * unit, size * unit, largest, worst)


def _squared_error(x: np.ndarray) -> np.ndarray:
    return np.var(x, axis=0, ddof=1) / len(x) if len(x) > 1 else np.zeros(x.shape[1:])


def judge(
    seen: list[Seen], times: np.ndarray, axis: str, threshold: float
) -> tuple[list[np.ndarray], tuple[Entry, ...]]:
    """z per component, corrected for the components of all variables, and the entry of each variable."""
    components = max(sum(int(np.sum(one.alive)) for one in seen), 1)
    scores = [
        np.full(one.gap.shape[1], np.nan)
        if one.worst is None
        else np.sign(one.worst.gap) * normal_score(one.worst.log_count + math.log(components))
        for one in seen
    ]
    return scores, tuple(_entry(one, z, times, axis, threshold) for one, z in zip(seen, scores, strict=True))


def _entry(one: Seen, z: np.ndarray, times: np.ndarray, axis: str, threshold: float) -> Entry:
    """The component of a variable that agrees least, and how far those that differ reach."""
    compared, constant = int(np.sum(one.alive)), int(np.sum(one.unique & ~one.alive))
    if compared == 0:
        return Entry(one.name, 0, constant, "", "", 0.0, 0.0, 0.0, math.nan, 0.0, "", 0.0)
    if one.worst is None:
        c = int(np.argmax(np.where(one.alive, np.max(np.abs(one.gap), axis=0), -np.inf)))
        first = last = int(np.argmax(np.abs(one.gap[:, c])))
        kind, gap, error, differs = "time", one.gap[first, c], math.nan, one.alive
    else:
        c = int(np.argmax(np.where(one.alive, -one.worst.log_count, -np.inf)))
        kind, first, last = str(one.worst.kind[c]), int(one.worst.first[c]), int(one.worst.last[c])
        gap, error, differs = one.worst.gap[c], one.worst.error[c], one.alive & (np.abs(z) >= threshold)
    bound = np.abs(one.gap) + 2 * np.nan_to_num(one.error)
    reach = np.where(differs, bound, 0.0)
    t, far = np.unravel_index(int(np.argmax(reach)), reach.shape)
    return Entry(
        variable=one.name,
        compared=compared,
        constant=constant,
        worst=one.component(c),
        where=place(kind, first, last, times, axis),
        gap=float(gap),
        stderr=float(error),
        relative=one.share(gap),
        z=float(z[c]) + 0.0,  # not -0
        reach=one.share(reach[t, far]),
        farthest=", ".join(filter(None, (one.component(int(far)) or one.label, place("time", t, t, times, axis)))),
        resolution=one.share(np.max(np.where(one.alive, bound, 0.0))),
    )


def place(kind: str, first: Any, last: Any, times: np.ndarray, axis: str) -> str:
    """Where a profile lies, such as "t = 0.5" or "mean over t"."""
    if axis == "":
        return ""
    at = {"time": "t = ", "iteration": "iteration "}[axis]
    if first == last:
        return f"{at}{times[first]:.4g}"
    if kind == "window":
        return f"mean over {times[first]:.4g} <= {'t' if axis == 'time' else axis} <= {times[last]:.4g}"
    name = {"cosine 2": "second cosine", "cosine 3": "third cosine"}.get(kind, kind)
    return f"{name} over {'t' if axis == 'time' else 'iterations'}"


def closeness(
    seen: list[Seen], entries: tuple[Entry, ...], replicated: bool, threshold: float, rtol: float
) -> tuple[float, bool, str]:
    """The largest |z|, whether the two are as close as asked, and that in words."""
    if not replicated:
        close = all(float(np.max(np.abs(one.gap), initial=0.0)) <= rtol * one.largest for one in seen)
        words = f"{'every gap is below' if close else 'gaps exceed'} {rtol:g} of the size of the variable"
        return math.nan, close, words
    worst = max((entry for entry in entries if entry.compared), key=lambda entry: abs(entry.z), default=None)
    if worst is None:
        return 0.0, True, f"every |z| < {threshold:g} (nothing fluctuates)"
    close = abs(worst.z) < threshold
    where = ", ".join(word for word in (worst.worst or worst.variable, worst.where) if word)
    words = f"{'every |z| <' if close else '|z| reaches'} {threshold:g} (largest {abs(worst.z):.2f}, {where})"
    return abs(worst.z), close, words


def with_margin(word: str, said: str, entries: tuple[Entry, ...], margin: float) -> tuple[str, str]:
    """The verdict once differences within the margin do not matter."""
    allowed = f"the margin is {_percent(margin)}"
    if word == AGREES:
        least = max(entry.resolution for entry in entries)
        known = f"any difference is below {_percent(least)}"
        doubt = f"but differences up to {_percent(least)} are not excluded"
        return word, f"{said}; {known if least < margin else doubt}, {allowed}"
    far = max(entries, key=lambda entry: entry.reach)
    if far.reach < margin:
        return WITHIN, f"differs by at most {_percent(far.reach)} ({far.farthest}), {allowed}; {said}"
    return word, f"{said}; up to {_percent(far.reach)} ({far.farthest}), beyond the margin of {_percent(margin)}"


def _percent(share: float) -> str:
    if math.isinf(share):
        return "any size (the prediction is zero)"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"


_MEANING = {
    "gap": "first minus second",
    "stderr": "standard error of the gap",
    "z": "z-score of the worst profile in time, corrected for the number of profiles and components",
}


def table_of(sim: "xr.Dataset", seen: list[Seen], scores: list[np.ndarray], axis: str) -> "xr.Dataset":
    import xarray as xr

    coords = {name: c for name, c in sim.coords.items() if "replica" not in c.dims and name != "replica"}
    columns: dict[str, Any] = {}
    for one, z in zip(seen, scores, strict=True):
        shape = (len(one.gap), *one.shape)
        columns[f"{one.name}_gap"] = (("time", *one.rest), one.gap.reshape(shape))
        columns[f"{one.name}_stderr"] = (("time", *one.rest), one.error.reshape(shape))
        columns[f"{one.name}_z"] = (tuple(one.rest), z.reshape(one.shape))
    data = xr.Dataset(columns, coords)
    for one in seen:
        for what, meaning in _MEANING.items():
            data[f"{one.name}_{what}"].attrs["long_name"] = f"{one.label}: {meaning}"
    if axis == "":
        return data.isel(time=0, drop=True)
    return data if axis == "time" else data.rename(time=axis)
