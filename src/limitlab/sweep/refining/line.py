"""Where the next points of a refinement go, and what the points so far say about a boundary. Nothing is computed here.

Points are read as values: a word, an exact number, or a number with an error. Every rule is deterministic.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limitlab.analysis.success import wilson
from limitlab.errors import InputError
from limitlab.results.points import Point

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Crossing", "Line", "Scale", "Value", "read"]

DROP = 5.99  # of twice the log-likelihood at the ends of an interval: 2 log 20, since points were chosen by looking
DOUBT = 0.05  # chance that any of the points of a refinement is taken to be on the wrong side of the level
UNSEEN = 1.0  # curvature taken for granted everywhere (ranges of the curve and the parameter being 1): none is ignored


class Scale(NamedTuple):
    """The refined parameter: its range, whether it is a whole number, and whether it is halved in the logarithm."""

    low: float
    high: float
    whole: bool = False
    log: bool = False

    def flat(self, x: float) -> float:
        return math.log(x) if self.log else float(x)

    def back(self, u: float) -> float:
        return math.exp(u) if self.log else u

    def start(self, count: int) -> list:
        """So many points at equal distances, both ends among them."""
        inner = [self.back(u) for u in np.linspace(self.flat(self.low), self.flat(self.high), count)[1:-1].tolist()]
        points = [self.low, *(round(x) if self.whole else x for x in inner), self.high]
        return sorted(set(points))

    def middle(self, a: float, b: float) -> float | None:
        """Halfway; None if there is no other number in between."""
        x = self.back((self.flat(a) + self.flat(b)) / 2)
        x = round(x) if self.whole else x
        return x if a < x < b else None


class Value(NamedTuple):
    """What a point gave: a word, or a number with its standard error (0: exact) from so many runs (0: not known).

    ``share`` says that the number is a share of runs.
    """

    value: Any
    error: float = 0.0
    runs: int = 0
    share: bool = False

    def widened(self, doubt: float) -> float:
        """The error, wider if it was estimated from few runs (Student)."""
        if self.share or self.runs < 2 or self.error == 0:
            return self.error
        from scipy.special import ndtri, stdtrit

        return self.error * float(stdtrit(self.runs - 1, doubt / 2) / ndtri(doubt / 2))

    def sure(self, level: float | None, doubt: float) -> bool:
        """Whether the side of the level is certain but for a chance ``doubt``."""
        if level is None or (self.error == 0 and not self.share):
            return True
        if self.share:
            low, high = wilson(np.asarray(self.value), self.runs, 1 - doubt)
            return not low <= level <= high
        from scipy.special import ndtri

        return abs(self.value - level) > float(-ndtri(doubt / 2)) * self.widened(doubt)


class Crossing(NamedTuple):
    """A boundary, its interval, what lies on either side, and the gaps between points that may hold it."""

    at: float
    low: float
    high: float
    before: str
    after: str
    gaps: tuple[tuple[float, float, float], ...]  # ends, and likelihood relative to the best


class Line:
    """The points along the refined parameter at one place of the grid, by their value of it."""

    def __init__(self, scale: Scale, level: float | None, budget: int):
        self.scale, self.level, self.doubt = scale, level, DOUBT / budget
        self.values: dict[float, Value | None] = {}

    @property
    def known(self) -> list[float]:
        """Where there is a value, in order."""
        return sorted(x for x, value in self.values.items() if value is not None)

    @property
    def exact(self) -> bool:
        return all(v is None or (v.error == 0 and not v.share) for v in self.values.values())

    def crossings(self) -> list[Crossing]:
        """Between neighbours that are surely on different sides; if there are none, the outermost count as sure."""
        known = self.known
        seen: list[Value] = [value for x in known if (value := self.values[x]) is not None]
        if self.level is None:
            sides = [value.value for value in seen]
        else:
            sides = ["above" if value.value >= self.level else "below" for value in seen]
        sure = [i for i, value in enumerate(seen) if value.sure(self.level, self.doubt)]
        pairs = [(i, j) for i, j in pairwise(sure) if sides[i] != sides[j]]
        if not pairs and seen:
            pairs = [(i, j) for i, j in pairwise(sorted({0, *sure, len(seen) - 1})) if sides[i] != sides[j]]
        return [self._crossing(known[i : j + 1], seen[i + 1 : j], sides[i], sides[j]) for i, j in pairs]

    def _crossing(self, xs: list[float], unsure: list[Value], before: str, after: str) -> Crossing:
        if unsure and self.level is not None:  # without a level every side is certain
            lack = _lack(unsure, self.level, after == "above", self.doubt)
        else:
            lack = np.zeros(1)
        gaps = [(a, b, math.exp(-k / 2)) for (a, b), k in zip(pairwise(xs), lack, strict=True) if k < DROP]
        flat = self.scale.flat
        mass = [(flat(b) - flat(a)) * likely for a, b, likely in gaps]
        middle = sum(m * (flat(a) + flat(b)) / 2 for m, (a, b, _) in zip(mass, gaps, strict=True)) / sum(mass)
        return Crossing(self.scale.back(middle), gaps[0][0], gaps[-1][1], before, after, tuple(gaps))

    def width(self, crossing: Crossing) -> float:
        return self.scale.flat(crossing.high) - self.scale.flat(crossing.low)

    def halve(self, crossing: Crossing, count: int, tolerance: float) -> list[float]:
        """Points inside a crossing: each halves the part that most probably holds the boundary."""
        if crossing.high - crossing.low <= tolerance:
            return []
        parts = [(a, b, p) for low, high, p in crossing.gaps for a, b in self._parts(low, high, tolerance)]
        chosen = []
        while parts and len(chosen) < count:
            a, b, p = max(parts, key=lambda part: (self.scale.flat(part[1]) - self.scale.flat(part[0])) * part[2])
            parts.remove((a, b, p))
            if (x := self.scale.middle(a, b)) is not None:
                chosen.append(x)
                parts += [(a, x, p), (x, b, p)]
        return chosen

    def _parts(self, low: float, high: float, tolerance: float) -> list[tuple[float, float]]:
        """What points without a value leave of a gap: parts next to one that has a value, unless they are narrow."""
        inside = [x for x in sorted(self.values) if low <= x <= high]
        if len(inside) == 2:
            return [(low, high)]
        return [(a, b) for a, b in pairwise(inside) if {a, b} & {low, high} and b - a > tolerance]

    def bends(self, height: float, tolerance: float) -> list[tuple[float, float]]:
        """(area, point): how much a straight line may miss between two neighbours, and the point that would tell.

        The curvature at a point is that of the parabola through it and its neighbours, less twice its error; a gap has
        the larger of those at its ends. The area is that between the parabola and its chord, c h^3/12.
        """
        there = [(x, value) for x in self.known if (value := self.values[x]) is not None and math.isfinite(value.value)]
        xs, seen, scale = [x for x, _ in there], [value for _, value in there], self.scale
        span = scale.flat(scale.high) - scale.flat(scale.low)
        u = np.array([scale.flat(x) / span for x in xs])
        y, error = np.array([(v.value / height, v.widened(DOUBT) / height) for v in seen]).reshape(-1, 2).T
        h = np.diff(u)
        slope = np.diff(y) / h
        noise = 2 * np.hypot(np.hypot(error[2:] / h[1:], error[:-2] / h[:-1]), error[1:-1] * (1 / h[1:] + 1 / h[:-1]))
        curved = np.maximum(np.abs(np.diff(slope)) - noise, 0) * 2 / (h[1:] + h[:-1])
        curved = np.concatenate([[0.0], curved, [0.0]])
        out = []
        for i, (low, high) in enumerate(pairwise(xs)):
            for a, b in self._parts(low, high, tolerance):
                x, part = scale.middle(a, b), (scale.flat(b) - scale.flat(a)) / span
                if x is not None and b - a > tolerance:
                    out.append(((max(curved[i], curved[i + 1]) + UNSEEN) * part**3 / 12, x))
        return out


def _lack(values: list[Value], level: float, rising: bool, doubt: float) -> np.ndarray:
    """Twice the log-likelihood that a boundary in each gap lacks to the best; the first gap is before all values.

    The likelihood of a gap is that of the best monotone curve which crosses the level in it: the monotone fit of the
    points on either side, cut off at the level. No other shape is assumed.
    """
    from scipy.special import xlogy

    values = values if rising else values[::-1]
    y = np.array([v.value for v in values])
    weight = np.array([v.runs if v.share else v.widened(doubt) ** -2 for v in values], float)

    def likely(part: slice, cut: Callable) -> float:
        if len(y[part]) == 0:
            return 0.0
        f = cut(_monotone(y[part], weight[part]), level)
        each = xlogy(y[part], f) + xlogy(1 - y[part], 1 - f) if values[0].share else -((y[part] - f) ** 2) / 2
        return float(np.sum(weight[part] * each))

    best = [likely(slice(j), np.minimum) + likely(slice(j, None), np.maximum) for j in range(len(y) + 1)]
    lack = 2 * (max(best) - np.array(best))
    return lack if rising else lack[::-1]


def _monotone(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The nearest rising sequence: neighbours that fall are replaced by their mean until none does."""
    blocks: list[tuple[float, float, int]] = []
    for value, w in zip(y.tolist(), weight.tolist(), strict=True):
        count = 1
        while blocks and blocks[-1][0] > value:
            other, v, more = blocks.pop()
            value, w, count = (other * v + value * w) / (v + w), v + w, count + more
        blocks.append((value, w, count))
    return np.repeat([value for value, _, _ in blocks], [count for _, _, count in blocks])


def read(point: Point, of: Any) -> Value | None:
    """The value of a point; None if it has none."""
    import xarray as xr

    if of == "status":
        bad = [word for word in np.ravel(point.status[1]).tolist() if word != "ok"]
        return Value(bad[0] if bad else "ok")
    if point.failed:
        return None
    data = xr.Dataset(point.variables, point.coords, point.attrs)
    if callable(of):
        given = of(data)
        number, error = given if isinstance(given, tuple) and len(given) == 2 else (given, 0.0)
        return _value(number, float(error))
    if of in ("success", "success_rate"):
        return _share(data)
    if of not in data:
        raise InputError(f"refine.of must be a variable of the result ({', '.join(map(str, data))}); got {of!r}.")
    last = data[of].isel({dim: -1 for dim in ("time", "iteration") if dim in data[of].dims})
    runs = last.sizes.get("replica", 0)
    if last.size != max(runs, 1):
        raise InputError(
            f"refine.of={of!r} has the axes {', '.join(map(str, last.dims))}: no single number. Give a function of the "
            f"result instead, such as lambda ds: float(ds[{of!r}].mean())."
        )
    if runs < 2 or last.dtype.kind not in "fiu":
        return _value(last.values.ravel()[0].item())
    with np.errstate(invalid="ignore"):  # infinite values have no spread
        error = float(last.values.std(ddof=1)) / math.sqrt(runs)
    return _value(float(last.values.mean()), error if math.isfinite(error) else 0.0, runs)


def _value(given: Any, error: float = 0.0, runs: int = 0) -> Value | None:
    """A number, or a word (a truth value is one); NaN is no value."""
    given = given.item() if hasattr(given, "item") and np.ndim(given) == 0 else given
    if isinstance(given, (bool, str)):
        return Value(str(given))
    if not isinstance(given, (int, float)) or not (math.isfinite(error) and error >= 0):
        raise InputError(
            f"refine.of must give a number, a text, or a pair of a number and its error; got {given!r:.100}."
        )
    return None if math.isnan(given) else Value(float(given), error, runs)


def _share(data: "xr.Dataset") -> Value:
    if "success" in data and "replica" in data["success"].dims:
        runs, share = data.sizes["replica"], float((data["success"] > 0).mean())
    elif "success_rate" in data and "runs" in data:
        runs, share = int(data["runs"]), float(data["success_rate"])
    else:
        raise InputError(
            "refine.of='success_rate' needs a result with success over replicas, or with success_rate and runs; this "
            f"one has {', '.join(map(str, data))}. Use simulate with GradientDescent, say."
        )
    near = (share * runs + 1) / (runs + 2)  # has an error at 0 and 1 too
    return Value(share, math.sqrt(near * (1 - near) / runs), runs, True)
