r"""Ridge regression in the limit, in closed form for every channel.

.. math::
    \lambda V^2 + (\lambda + \alpha - 1)V = 1, \qquad m = c_1 \rho (1 - \lambda V), \qquad k = \alpha V^2/(1 + V)^2,
    \qquad q - \frac{m^2}{\rho} = \frac{k}{1 - k}\,[\,y_2 - c_1^2\rho + \rho (c_1 \lambda V)^2\,]

with c1 = E[yz]/rho and y2 = E y^2. Without penalty: least squares (alpha > 1) or its least-norm solution (alpha < 1).
With a spectrum the effective ridge kappa solves alpha = df1 + lambda/kappa (`limitlab.numerics.spectral_ridge`).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.fixed_data import ConvexFit
from limitlab.macro.erm.spectral import Law, weights_by_mode
from limitlab.modules import filter_jit
from limitlab.numerics.spectral_ridge import spectral_ridge
from limitlab.numerics.trees import traced
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.losses import SquareLoss
from limitlab.problems.population import errors
from limitlab.problems.predictor import Predictor

__all__ = ["ridge_lanes", "spectral_lanes"]


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


def spectral_lanes(setting: ConvexFit, law: Law, alpha: np.ndarray, penalty: np.ndarray):
    """The same for inputs with a spectrum. They diverge where n is the rank and there is no penalty."""
    rho, channel = setting.rho, setting.channel
    c1, _, rest = (float(x) for x in channel.label_moments(rho))
    noise = rest + c1**2 * (rho - law.signal.sum())
    found = spectral_ridge(law.c, c1**2 * law.signal, noise, alpha, penalty, counts=law.h)
    bad = ~np.isfinite(found.test)
    test, df1, kappa = (np.where(bad, 1.0, x)[:, None] for x in (found.test, found.df1, found.kappa))
    # lambda/kappa is the same as alpha - df1, and exactly 0 where all rows are fitted
    V_hat = np.where(kappa > 0, np.reshape(penalty, (-1, 1)) / np.where(kappa > 0, kappa, 1.0), alpha[:, None] - df1)
    L = law.c / (law.c + kappa)
    m, others = np.transpose([law.spread(row, rho) for row in L])
    m, sigma = c1 * m, np.sqrt(test[:, 0] / alpha * (L**2 @ law.h) + c1**2 * others)
    V_hat = V_hat[:, 0]
    with np.errstate(divide="ignore"):
        V = np.where(V_hat > 0, df1[:, 0] / np.where(V_hat > 0, V_hat, 1.0), np.inf)
    modes: Any = setting.modes
    c = np.asarray(modes.c, float)
    gain = c1 * c / (c + np.where(kappa > 0, kappa, 1e-300))
    scatter = test / alpha[:, None] * np.where(c > 0, c, 0.0) / np.square(np.where(c > 0, c + kappa, 1.0))
    values = {
        "m": m,
        "q": m**2 / rho + sigma**2,
        "V": V,
        "m_hat": c1 * V_hat,
        "q_hat": test[:, 0] * V_hat**2 / alpha,
        "V_hat": V_hat,
        "train_loss": found.train / 2,
        **{name: np.asarray(x) for name, x in _errors(traced(channel), m, sigma, rho).items()},
        **weights_by_mode(setting, gain, scatter),
    }
    lost = {name: np.where(bad.reshape(-1, *(1,) * (x.ndim - 1)), np.nan, x) for name, x in values.items()}
    return lost, bad


@filter_jit
def _errors(channel, m, sigma, rho):
    def one(m, sigma):
        sigma = jnp.maximum(sigma, 1e-150)
        return errors(channel, SquareLoss(), Predictor(m / (jnp.sqrt(rho) * sigma), sigma, rho))

    return jax.vmap(one)(jnp.asarray(m), jnp.asarray(sigma))
