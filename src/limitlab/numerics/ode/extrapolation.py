r"""Stiff autonomous flows dy/ds = f(y) by extrapolation of the linearly implicit Euler step.

.. math:: (1 - h_j J)\,(y_{i+1} - y_i) = h_j f(y_i), \quad i < j, \quad h_j = H/j, \quad J = f'(y_0)

A step H is made of j small ones, for j = 1, ..., COLUMNS; the results T_j have an expansion in H/j, and the polynomial
through them is read at 1/j = 0. Every column damps fast decay completely (the growth factor goes to 0 as H J goes to
minus infinity), so that steps grow as the flow slows down.

Many asked times make no shorter steps: a step ends on the last one in its reach, and the states before it are those of
the polynomial through start, middle and end of the step that has their slopes.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from limitlab.verbs import tick

__all__ = ["Followed", "Frozen", "extrapolated", "follow"]

COLUMNS = 8  # order of a step; between 6 and 9 the cost at a tolerance of 1e-8 differs by less than a factor of 2
SAFETY, SHRINK, GROW = 0.8, 0.1, 8.0  # of the next step
FIRST_STEP = 1e-3
SMALLEST = 1e-13  # a step of this size, relative to the time reached, gets nowhere


class Frozen(Protocol):
    """A flow linearised at a point, in coordinates that may depend on the point."""

    def enter(self, y: np.ndarray) -> np.ndarray:
        """The coordinates of y."""
        ...

    def leave(self, u: np.ndarray) -> np.ndarray:
        """y back from its coordinates."""
        ...

    def motion(self, u: np.ndarray) -> np.ndarray:
        """f, in these coordinates."""
        ...

    def euler(self, h: float) -> Callable[[np.ndarray], np.ndarray]:
        """The map u -> u + (1 - h J)^-1 h f(u); J is factorised once."""
        ...


class Followed(NamedTuple):
    """States at the asked times (None after a failure), how it ended, when, the steps that it took, the last state."""

    states: list[np.ndarray | None]
    status: str
    end: float
    steps: int
    last: np.ndarray


def extrapolated(frozen: Frozen, y: np.ndarray, H: float, columns: int = COLUMNS) -> tuple[np.ndarray, float]:
    """The state after a step H, and the norm of its distance from the extrapolation with one column less."""
    start = frozen.enter(y)
    row: list[np.ndarray] = []
    below = start
    for j in range(1, columns + 1):
        substep = frozen.euler(H / j)
        u = start
        for _ in range(j):
            u = substep(u)
        new = [u]  # Aitken-Neville: new[m] is the polynomial through T_{j-m}, ..., T_j at 0
        for m, old in enumerate(row, start=1):
            new.append(new[-1] + (new[-1] - old) * (j - m) / m)
        row, below = new, new[-2] if j > 1 else start
    return frozen.leave(row[-1]), float(np.linalg.norm(row[-1] - below))


Place = tuple[float, np.ndarray]  # a time and the state then


class End(NamedTuple):
    """Where a step begins or ends: when, the state, and how it moves."""

    time: float
    y: np.ndarray
    motion: np.ndarray


def hermite(ends: list[End]) -> Callable[[float], tuple[np.ndarray, float]]:
    """The polynomial through all ends but the last, with their motions, and its distance from that through the last."""
    start, unit = ends[0].time, abs(ends[1].time - ends[0].time)
    places = np.repeat([(end.time - start) / unit for end in ends], 2)
    column = [end.y for end in ends for _ in range(2)]
    terms = [column[0]]  # Newton's divided differences; those of a place with itself are motions
    for level in range(1, len(places)):
        apart = places[level:] - places[:-level]
        column = [
            (column[i + 1] - column[i]) / gap if gap else unit * ends[i // 2].motion for i, gap in enumerate(apart)
        ]
        terms.append(column[0])

    def read(time: float) -> tuple[np.ndarray, float]:
        factors = np.append(1.0, np.cumprod((time - start) / unit - places[:-1]))
        parts = [factor * term for factor, term in zip(factors, terms, strict=True)]
        return np.sum(parts[:-2], axis=0), float(np.linalg.norm(parts[-2] + parts[-1]))

    return read


def follow(
    freeze: Callable[[np.ndarray], Frozen],
    start: np.ndarray,
    times: np.ndarray,
    *,
    rtol: float = 1e-8,
    begin: float = 0.0,
    max_steps: int = 20_000,
    columns: int = COLUMNS,
) -> Followed:
    """Solve dy/ds = f(y) from s = ``begin`` through increasing ``times``; a step ends on the last one in its reach.

    ``rtol`` bounds the error of a step relative to the norm of y, and that of states at times inside steps. Ends with
    "ok", "max_steps", or "not_converged" if steps shrink to nothing.
    """
    index = int(np.searchsorted(times, begin, "right"))
    states: list[np.ndarray | None] = [start] * index + [None] * (len(times) - index)
    y, now, step, taken = start, begin, FIRST_STEP, 0
    before: Place | None = None
    while index < len(times):
        if taken >= max_steps:
            return Followed(states, "max_steps", now, taken, y)
        last = max(index, int(np.searchsorted(times, now + step, "right")) - 1)
        goal = float(times[last])
        H = min(step, goal - now)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            frozen = freeze(y)
            new, error = extrapolated(frozen, y, H, columns)
        taken += 1
        allowed = rtol * float(np.linalg.norm(y))
        error = error / allowed if np.isfinite(error) else np.inf
        best = H * float(np.clip(SAFETY * max(error, 1e-30) ** (-1 / columns), SHRINK, GROW))
        if error > 1:
            step = best
            if step <= SMALLEST * (1 + now):
                return Followed(states, "not_converged", now, taken, y)
            continue
        end = goal if H == goal - now else now + H
        asked = times[index : int(np.searchsorted(times, end, "left"))]
        for state in _inside(frozen, before, ((now, y), (end, new)), asked, columns, allowed):
            states[index], index = state, index + 1
        # A step cut short by an asked time says little about the next one unless it asks for less.
        step = max(step, best) if H < step else best
        before, y, now = (now, y), new, end
        while index < len(times) and times[index] <= now:
            states[index], index = y, index + 1
        tick((last + now / goal) / len(times))
    return Followed(states, "ok", float(times[-1]), taken, y)


def _inside(
    frozen: Frozen, before: Place | None, ends: tuple[Place, Place], asked: np.ndarray, columns: int, allowed: float
) -> list[np.ndarray]:
    """States inside a step: of a polynomial, where the place before finds it accurate enough, or by shorter steps."""
    (now, y), last = ends

    def shorter(time: float) -> np.ndarray:
        return extrapolated(frozen, y, time - now, columns)[0]

    if len(asked) < 2 or before is None:
        return [shorter(time) for time in asked]
    middle = (now + last[0]) / 2
    places = [(now, y), last, (middle, shorter(middle)), before]
    read = hermite([End(time, z, frozen.leave(frozen.motion(frozen.enter(z)))) for time, z in places])
    found = ((time, *read(time)) for time in asked)
    return [state if error <= allowed else shorter(time) for time, state, error in found]
