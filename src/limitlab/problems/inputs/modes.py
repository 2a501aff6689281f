r"""A covariance as inputs and theories see it: atoms of eigenvalues, and the teacher's components on them.

.. math:: x \sim N(0, C/d), \qquad C u_i = c_i u_i, \qquad \frac1d \sum_i f(c_i, t_i) = \sum_k h_k f(c_k, t_k)
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.modules import Module, field

__all__ = ["Modes"]

EVEN = 0.6180339887498949  # multiples of it spread evenly over [0, 1): ties are given to atoms far from each other
CLOSE = 1e-9  # remainders nearer than this are tied


class Modes(Module):
    """Eigenvalues c (K,), their shares h (K,) of all coordinates, squared components t2 (K,) of the teacher, rho_perp.

    ``smooth``: the atoms are nodes of a smooth law. At dimension d their coordinates are then quantiles of it.
    """

    c: Any
    h: Any
    t2: Any
    unexplained: Any
    smooth: bool = field(static=True, default=False)

    @property
    def count(self) -> int:
        """The number K of atoms."""
        return len(self.h)

    def squares(self, second_moment: Any) -> Any:
        """t_k^2 of a teacher whose weights have this second moment, if nothing else is said."""
        return self.t2 if self.t2 is not None else second_moment + 0 * self.h

    def signal(self, second_moment: Any) -> Any:
        """The variance of the linear part of the teacher's field, sum_k h_k c_k t_k^2."""
        return (self.h * self.c * self.squares(second_moment)).sum()

    def places(self, d: int) -> Any:
        """The atom of each of d coordinates: h_k d of them by largest remainder, or quantiles of a smooth law."""
        xp: Any = jnp if isinstance(self.h, jax.Array) else np
        if self.smooth:
            return xp.minimum(xp.searchsorted(xp.cumsum(self.h), (np.arange(d) + 0.5) / d), self.count - 1)
        due = self.h * d
        whole = xp.floor(due + CLOSE)
        rest = xp.round((due - whole) / CLOSE) + (np.arange(self.count) * EVEN) % 1
        rank = xp.argsort(xp.argsort(-rest))
        sizes = whole + (rank < d - whole.sum())
        return xp.minimum(xp.searchsorted(xp.cumsum(sizes), np.arange(d), side="right"), self.count - 1)

    def sizes(self, d: int) -> np.ndarray:
        """How many of d coordinates each atom has."""
        return np.bincount(np.asarray(self.places(d)), minlength=self.count)

    def deviations(self, d: int) -> Any:
        """sqrt(c_i) of each of d coordinates."""
        xp: Any = jnp if isinstance(self.c, jax.Array) else np
        return xp.sqrt(self.c)[self.places(d)]
