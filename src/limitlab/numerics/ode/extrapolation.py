r"""Stiff autonomous flows dy/ds = f(y) by extrapolation of the linearly implicit Euler step.

.. math:: (1 - h_j J)\,(y_{i+1} - y_i) = h_j f(y_i), \quad i < j, \quad h_j = H/j, \quad J = f'(y_0)

A step H is made of j small ones, for j = 1, ..., COLUMNS; the results T_j have an expansion in H/j, and the polynomial
through them is read at 1/j = 0. Every column damps fast decay completely (the growth factor goes to 0 as H J goes to
minus infinity), so that steps grow as the flow slows down.
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
    """Solve dy/ds = f(y) from s = ``begin`` through increasing ``times``, each of which a step ends on.

    ``rtol`` bounds the error of a step relative to the norm of y. Ends with "ok", "max_steps", or "not_converged" if
    steps shrink to nothing.
    """
    states: list[np.ndarray | None] = [None] * len(times)
    y, now, step, taken = start, begin, FIRST_STEP, 0
    for index, time in enumerate(times):
        while now < time:
            if taken >= max_steps:
                return Followed(states, "max_steps", now, taken, y)
            H = min(step, time - now)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                new, error = extrapolated(freeze(y), y, H, columns)
            taken += 1
            error /= rtol * float(np.linalg.norm(y))
            error = error if np.isfinite(error) else np.inf
            best = H * float(np.clip(SAFETY * max(error, 1e-30) ** (-1 / columns), SHRINK, GROW))
            if error > 1:
                step = best
                if step <= SMALLEST * (1 + now):
                    return Followed(states, "not_converged", now, taken, y)
                continue
            # A step cut short by an asked time says little about the next one unless it asks for less.
            step = max(step, best) if H < step else best
            y, now = new, (float(time) if H == time - now else now + H)
            tick((index + now / time) / len(times))
        states[index] = y
    return Followed(states, "ok", float(times[-1]), taken, y)
