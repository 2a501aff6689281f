r"""When a hyperplane through the origin can separate the labels.

.. math:: 1/\alpha_c = \min_t E\,(Z + tU)_+^2, \qquad U = y z^*/\sqrt\rho, \quad Z \sim N(0, 1)

Below alpha_c samples per dimension random labels of this law are separable, above they are not.
"""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from limitlab.errors import ConvergenceError, InputError
from limitlab.modules import filter_jit
from limitlab.numerics.gauss.normal import density, measure
from limitlab.numerics.gauss.rules import REACH, graded_edges, panel_nodes
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.channels import AbstractChannel, BinaryChannel

__all__ = ["separability_ratio"]

SHARP = 1e-30  # the variance of a known output: none, but far from underflow
FARTHEST = 1e7  # slope beyond which the labels count as separable for every number of samples


@filter_jit
def _overshoot(channel: BinaryChannel, rho, hidden, t):
    """E (Z + tU)_+^2 and half its derivative in t; labels see z and a normal number of variance ``hidden``."""
    hidden = jnp.maximum(hidden, SHARP)
    centres, width = channel.features(hidden)
    root = jnp.sqrt(rho)
    edges = [graded_edges(0.0, 1 / (1 + jnp.abs(t)), REACH)]
    for centre in centres:
        scale = jnp.clip(width / root, 1e-9, 1.0)
        edges.append(graded_edges(jnp.clip(jnp.asarray(centre) / root, -REACH, REACH), scale, 2 * REACH))
    v, dv = panel_nodes(jnp.clip(jnp.concatenate(edges), -REACH, REACH))
    weight = measure(v, dv)
    value, slope = jnp.zeros(()), jnp.zeros(())
    for y in (1.0, -1.0):
        p = weight * jnp.exp(channel.output(jnp.full_like(v, y), root * v, hidden).log_z)
        a = t * y * v
        phi = density(a)
        value += jnp.sum(p * ((1 + jnp.square(a)) * ndtr(a) + a * phi))
        slope += jnp.sum(p * y * v * (a * ndtr(a) + phi))
    return value, slope


def separability_ratio(channel: AbstractChannel, rho: float, hidden: float = 0.0) -> float:
    """alpha_c for labels through the channel of z ~ N(0, rho); infinite if they are always separable.

    ``hidden`` is the variance of a part of z that is not linear in the inputs; it comes on top of rho. Their covariance
    does not matter: a hyperplane that separates x separates any invertible map of x.
    """
    asked = Asked("Separability", InputError)
    channel = asked.part(channel, BinaryChannel, "labels -1 and +1", "Use a channel such as Sign().")
    live, variance = traced(channel), (np.asarray(float(rho)), np.asarray(float(hidden)))

    def slope(t):
        return float(_overshoot(live, *variance, np.asarray(float(t)))[1])

    # The overshoot is convex in t: its derivative changes sign once. At t = 0 it has the sign of E y z.
    at_zero = slope(0.0)
    if abs(at_zero) < 1e-14:
        return 1 / float(_overshoot(live, *variance, np.asarray(0.0))[0])
    side = -1.0 if at_zero > 0 else 1.0
    far = side
    while slope(far) * at_zero > 0:
        far *= 2
        if abs(far) > FARTHEST:
            return float("inf")
    from scipy.optimize import brentq  # slow to import

    t, report = brentq(slope, 0.0, far, xtol=1e-10, full_output=True)
    if not report.converged:
        raise ConvergenceError(f"separability: no minimum was found up to t = {far:g}.", t)
    return 1 / float(_overshoot(live, *variance, np.asarray(float(t)))[0])
