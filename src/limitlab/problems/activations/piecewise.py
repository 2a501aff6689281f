"""Straight lines between knots."""

import jax.numpy as jnp
import numpy as np

from limitlab.errors import InputError
from limitlab.modules import field
from limitlab.problems.activations.base import AbstractActivation, Pieces

__all__ = ["Piecewise", "piecewise"]


class Piecewise(AbstractActivation):
    """Straight lines through the knots (x, y), constant to the left of the first and right of the last."""

    knots: tuple[tuple[float, float], ...] = field(static=True)

    @property
    def name(self):
        return f"piecewise({', '.join(f'({x!r}, {y!r})' for x, y in self.knots)})"

    def _slopes(self) -> np.ndarray:
        x, y = np.asarray(self.knots).T
        return np.concatenate([[0.0], np.diff(y) / np.diff(x), [0.0]])

    def function(self, x):
        at, values = np.asarray(self.knots).T
        return jnp.interp(x, jnp.asarray(at), jnp.asarray(values))

    def derivative(self, x):
        at = jnp.asarray(np.asarray(self.knots)[:, 0])
        return jnp.asarray(self._slopes())[jnp.searchsorted(at, x)]

    @property
    def flat(self):
        return not np.any(self._slopes())

    def pieces(self):
        x, y = np.asarray(self.knots).T
        return Pieces(np.asarray(y[0]), np.asarray(0.0), x, np.diff(self._slopes()))


def piecewise(*knots) -> Piecewise:
    """Straight lines through the knots (x, y), constant to the left of the first and right of the last."""
    if len(knots) == 1 and np.ndim(knots[0]) == 2:
        knots = tuple(knots[0])  # a list of knots as a single argument
    try:
        table: np.ndarray = np.asarray(knots, dtype=float)
    except (TypeError, ValueError, OverflowError):
        table = np.array(float("nan"))
    if table.ndim != 2 or table.shape[1] != 2 or len(table) < 2:
        raise InputError(f"piecewise.knots must be at least two pairs (x, y); got {knots!r}.")
    if not np.all(np.isfinite(table)) or np.any(table[1:, 0] <= table[:-1, 0]):
        raise InputError(f"piecewise.knots must be finite with increasing x; got {knots!r}. Sort them by x.")
    with np.errstate(over="ignore", invalid="ignore"):
        x, y = np.diff(table, axis=0).T
        if not np.all(np.isfinite(y / x) & np.isfinite(x)):
            raise InputError(f"piecewise.knots must have finite slopes between them; got {knots!r}. Move them apart.")
    return Piecewise(tuple((float(x), float(y)) for x, y in table))
