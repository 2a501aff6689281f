r"""Ridge regression in the limit, in closed form for every channel.

.. math::
    \lambda V^2 + (\lambda + \alpha - 1)V = 1, \qquad m = c_1 \rho (1 - \lambda V), \qquad k = \alpha V^2/(1 + V)^2,
    \qquad q - \frac{m^2}{\rho} = \frac{k}{1 - k}\,[\,y_2 - c_1^2\rho + \rho (c_1 \lambda V)^2\,]

with c1 = E[yz]/rho and y2 = E y^2. Without penalty: least squares (alpha > 1) or its least-norm solution (alpha < 1).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.numerics.trees import traced
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.losses import SquareLoss
from limitlab.problems.population import errors
from limitlab.problems.predictor import Predictor

__all__ = ["ridge_lanes"]


def ridge_lanes(channel: AbstractChannel, alpha: np.ndarray, penalty: np.ndarray, rho: float):
    """Values by name for pairs of sample ratio and penalty, and where they diverge (alpha = 1, no penalty)."""
    c1, _, rest = (float(x) for x in channel.label_moments(rho))
    bad = (alpha == 1) & (penalty == 0)
    a, l = np.where(bad, 2.0, alpha), np.asarray(penalty, float)
    b = l + a - 1
    root = np.sqrt(b**2 + 4 * l)
    with np.errstate(divide="ignore", invalid="ignore"):
        V = np.where(b > 0, 2 / (b + root), (root - b) / (2 * l))
        shrink = np.where(b > 0, l * V, (root - b) / 2)  # lambda V, also where V is infinite
        ratio = np.where(np.isinf(V), 1.0, V / (1 + V))
    m = c1 * rho * (1 - shrink)
    k = a * ratio**2
    sigma = np.sqrt(k / (1 - k) * (rest + rho * (c1 * shrink) ** 2))
    error = rest + rho * (c1 * shrink) ** 2 + sigma**2
    values = {
        "m": m,
        "q": m**2 / rho + sigma**2,
        "V": V,
        "m_hat": c1 * a / (1 + V),
        "q_hat": a * error / (1 + V) ** 2,
        "V_hat": a / (1 + V),
        "train_loss": error / (2 * (1 + V) ** 2),
        **{name: np.asarray(x) for name, x in _errors(traced(channel), m, sigma, rho).items()},
    }
    return {name: np.where(bad, np.nan, value) for name, value in values.items()}, bad


@eqx.filter_jit
def _errors(channel, m, sigma, rho):
    def one(m, sigma):
        sigma = jnp.maximum(sigma, 1e-150)
        return errors(channel, SquareLoss(), Predictor(m / (jnp.sqrt(rho) * sigma), sigma, rho))

    return jax.vmap(one)(jnp.asarray(m), jnp.asarray(sigma))
