r"""The weights' half of the equations of convex fits when inputs have a spectrum.

.. math::
    V = \sum_k \frac{h_k c_k}{\lambda + \hat V c_k}, \qquad m = \hat m \sum_k \frac{h_k b_k^2}{\lambda + \hat V c_k},
    \qquad q = \sum_k h_k c_k \frac{\hat m^2 b_k^2 + \hat q c_k}{(\lambda + \hat V c_k)^2}, \qquad b_k = c_k t_k

    E\, w_k = \frac{\hat m\, b_k}{\lambda + \hat V c_k}, \qquad
    \mathrm{Var}\, w_k = \frac{\hat q\, c_k}{(\lambda + \hat V c_k)^2}, \qquad
    r = \frac{|w|^2}{d} = \sum_k h_k\,[(E\,w_k)^2 + \mathrm{Var}\, w_k]

The penalty weighs r, not q. Modes with eigenvalue 0 are neither seen nor moved.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.fixed_data import ConvexFit

__all__ = ["Law", "law_of", "weights_by_mode"]


FEWEST = 8  # modes of a compiled program


class Law(NamedTuple):
    """Positive eigenvalues c, their shares h, and the signal h c t^2 on them."""

    c: Any
    h: Any
    signal: Any

    def padded(self) -> "Law":
        """With modes of no share, so that spectra of many sizes share a few compiled programs."""
        more = max(FEWEST, 1 << (len(self.c) - 1).bit_length()) - len(self.c)
        return Law(np.pad(self.c, (0, more), mode="edge"), *(np.pad(x, (0, more)) for x in (self.h, self.signal)))

    def order(self, m_hat, q_hat, V_hat, penalty, rho):
        """m, sigma with sigma^2 = q - m^2/rho, and V. Nothing cancels: what remains of q is a variance over modes."""
        y = self.c / (penalty + V_hat * self.c)
        m, rest = self.spread(y, rho)
        sigma = jnp.sqrt(q_hat * jnp.sum(self.h * jnp.square(y)) + jnp.square(m_hat) * rest)
        return m_hat * m, sigma, jnp.sum(self.h * y)

    def spread(self, y, rho) -> tuple[Any, Any]:
        """sum p y, and sum p y^2 - (sum p y)^2/rho, for p = h c t^2 whose sum is at most rho."""
        whole = self.signal.sum()
        mean = (self.signal * y).sum() / (whole + (whole == 0))
        return mean * whole, (self.signal * (y - mean) ** 2).sum() + mean**2 * whole * (1 - whole / rho)


def law_of(setting: ConvexFit) -> Law | None:
    """The law of a setting's modes; None if all eigenvalues are 1."""
    modes = setting.modes
    if modes is None:
        return None
    c, h, t2 = (np.asarray(x, float) for x in (modes.c, modes.h, modes.squares(setting.prior.second_moment)))
    seen = (c > 0) & (h > 0)
    return Law(c[seen], h[seen], (h * c * t2)[seen])


def weights_by_mode(setting: ConvexFit, gain: np.ndarray, scatter: np.ndarray) -> dict[str, np.ndarray]:
    """What is seen of weights with E w = gain t and Var w = scatter, both (lane, mode): names of the schema.

    Of a read-out of features, whose weights no teacher has, the norm alone.
    """
    modes: Any = setting.modes
    h, t2 = (np.asarray(x, float) for x in (modes.h, modes.squares(setting.prior.second_moment)))
    m, q = gain * t2, gain**2 * t2 + scatter
    if setting.features is not None:
        return {"squared_norm": q @ h}
    return {"m_mode": m, "q_mode": q, "squared_norm": q @ h, "mse": (q - 2 * m + t2) @ h}
