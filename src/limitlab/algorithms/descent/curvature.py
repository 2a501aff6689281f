"""The largest step that leaves the teacher stable."""

import jax
import numpy as np

from limitlab.algorithms.settings.fixed_data import Descent
from limitlab.errors import AccuracyWarning
from limitlab.modules import filter_jit
from limitlab.numerics.trees import traced
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.losses import AbstractLoss
from limitlab.verbs import caution

__all__ = ["top_curvature", "warn_if_unstable"]

PROBE = 400  # samples of the data set on which the curvature is looked at


def top_curvature(setting: Descent, n: int = PROBE, seed: int = 0) -> float:
    r"""The largest eigenvalue at the teacher of the Hessian that one step sees,

    .. math:: \mathrm{factor} \sum_\mu \ell''(y_\mu, w \cdot x_\mu)\, x_\mu x_\mu^T + \lambda,

    on one data set of n samples; w is the teacher, on the sphere if the rule keeps to it. Descent leaves w if
    learning_rate times this exceeds 2.
    """
    rule, alpha, rho = setting.rule, setting.ratio, setting.rho
    n, d = (n, max(round(n / alpha), 1)) if alpha >= 1 else (max(round(n * alpha), 1), n)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    z = X @ rng.normal(size=d)
    z *= np.sqrt(n / (z @ z))
    fields = np.sqrt(rho) * z
    bend = _bends(traced(setting.channel), traced(setting.loss), seed, fields, z if rule.spherical else fields)
    return float(rule.factor) * float(np.linalg.eigvalsh((X.T * np.asarray(bend)) @ X)[-1]) + float(rule.penalty)


@filter_jit
def _bends(channel: AbstractChannel, loss: AbstractLoss, seed: int, truth: jax.Array, fields: jax.Array) -> jax.Array:
    return loss.gradient(channel.sample(jax.random.key(seed), truth), fields)[1]


def warn_if_unstable(by: str, setting: Descent) -> bool:
    """`AccuracyWarning` if the step is above the stability limit 2/`top_curvature`; returns whether it is."""
    top, eta = top_curvature(setting), float(setting.rule.learning_rate)
    if eta * top > 2:
        caution(
            f"{by}: learning_rate={eta:g} is above the stability limit of about {2 / top:.2g} (2 over the largest "
            "curvature at the teacher, batch included): steps overshoot there. Use a smaller learning_rate; the "
            "status says which runs diverged.",
            AccuracyWarning,
        )
    return eta * top > 2
