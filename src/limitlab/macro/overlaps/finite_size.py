r"""The O(1/d) part of the mean motion of the overlaps.

The noise of `overlap_sde` moves means by O(1/d), because the drift is curved. So do three other things, which the
equation dY = E[X] dt + noise leaves out; with them the means are right up to O(1/d^2). In units of
delta = gamma/(p d), the time of one step:

.. math:: b_1 = e - \tfrac12 (b \cdot \nabla) b

* time is discrete: a step moves along b for the time delta without turning, :math:`-\tfrac12 (b\cdot\nabla) b`;
* :math:`|x|^2` is not 1 but correlated with the fields: :math:`E[|x|^2 g(s)] = E[g] + E[s\cdot\nabla g]/d`, which to
  this order is :math:`E\,g(s \sqrt{1 + 2/d})`; and two inputs of a batch overlap,
  :math:`E[g_i(s) x \cdot x' g_j(s')] = (F \Omega^+ F^T)_{ij}/d`, :math:`F = E[g s^T]`;
* the sphere is curved: with Q_ii = 1, dividing by :math:`\sqrt{Q'_{ii} Q'_{jj}}` leaves, beyond the tangent,
  :math:`-\tfrac12 X_M X_{ii} + \tfrac38 M X_{ii}^2` in M and
  :math:`-\tfrac12 X_{ij}(X_{ii} + X_{jj}) + \tfrac38 Q_{ij}(X_{ii}^2 + X_{jj}^2) + \tfrac14 Q_{ij} X_{ii} X_{jj}` in Q.
"""

import jax
import jax.numpy as jnp

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.macro.overlaps.drift import drift
from limitlab.macro.overlaps.increments import push, tangent
from limitlab.numerics.gauss.fields import AbstractFieldSum
from limitlab.numerics.linalg import pseudo_inverse
from limitlab.states.overlaps import Overlaps, error_coefficients

__all__ = ["finite_size_drift"]


def finite_size_drift(
    setting: CommitteeOnePass, sums: AbstractFieldSum, overlaps: Overlaps, d: jax.Array, s: jax.Array, z: jax.Array
) -> Overlaps:
    r""":math:`\delta\, b_1(Y)`, to be added to the drift of the ODE.

    Second moments of X on the sphere would be moments of up to eight fields; they are averaged over the draws
    s (B, p+k), z (B,) instead, which is unbiased and, being O(1/d), adds no noise worth the name. Derivatives are
    differences over the very displacements that stand in the formulas, so that singular overlaps are allowed.
    """
    student, algorithm = setting.student, setting.algorithm
    a, p, batch = overlaps.a, student.width, algorithm.batch_size
    delta = setting.clock(d)
    variance = setting.channel.variance

    def look(before: Overlaps, where: tuple[jax.Array, jax.Array]):
        ahead, stretch = where
        y = jax.tree.map(lambda y, b: y + ahead * delta * b, overlaps, before)
        y = Overlaps(stretch * y.Q, stretch * y.M, stretch * y.P, y.a)
        slope = drift(setting, sums, y)
        return slope, (slope, sums(y.omega, error_coefficients(setting, y.a), variance))

    # At Y, at the end of a step from Y, and with slightly longer fields. A scan and not three calls: the moments
    # may be a large expression, to be compiled once.
    table = (jnp.array([0.0, 1.0, 0.0]), jnp.stack([jnp.ones_like(d), jnp.ones_like(d), 1 + 2 / d]))
    _, (slopes, moments) = jax.lax.scan(look, jax.tree.map(jnp.zeros_like, overlaps), table)
    turn = jax.tree.map(lambda x: (x[0] - x[1]) / 2, slopes)
    V, L = moments.V, moments.L[0]
    quadratic = algorithm.learning_rate / p * jnp.outer(a, a)
    eM, eQ = jnp.zeros_like(overlaps.M), quadratic * (V[2] - V[0]) / batch
    F = a[:, None] * L
    if batch > 1:
        eQ = eQ + delta * (1 - 1 / batch) * F @ pseudo_inverse(overlaps.omega) @ F.T
    if algorithm.spherical:
        eM, eQ = tangent(overlaps, eM, eQ)
        bQ = F[:, :p] + F[:, :p].T + quadratic * V[0] / batch
        bend = _bend(overlaps, *_second_moments(setting, overlaps, s, z), 1 / batch)
        mean = _bend(overlaps, *_products(F[None, :, p:], bQ[None]), 1 - 1 / batch)
        eM, eQ = eM + delta * (bend[0] + mean[0]), eQ + delta * (bend[1] + mean[1])
    return Overlaps(eQ + turn.Q, eM + turn.M, turn.P, turn.a)


def _products(XM: jax.Array, XQ: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Means over the first axis of X_M,ir X_ii, X_ij X_ii and X_ii X_jj."""
    diagonal = jnp.diagonal(XQ, axis1=1, axis2=2)
    n = len(XQ)
    return (
        jnp.einsum("bir,bi->ir", XM, diagonal) / n,
        jnp.einsum("bij,bi->ij", XQ, diagonal) / n,
        diagonal.T @ diagonal / n,
    )


def _second_moments(setting: CommitteeOnePass, overlaps: Overlaps, s: jax.Array, z: jax.Array):
    """`_products` of the free (not yet projected) increments of single samples."""
    student, algorithm = setting.student, setting.algorithm
    p = student.width
    force, _, _ = push(setting, overlaps.a, s, z)
    cross = force[:, :, None] * s[:, None, :p]
    step = algorithm.learning_rate / (p * algorithm.batch_size)
    XQ = cross + jnp.swapaxes(cross, 1, 2) + step * force[:, :, None] * force[:, None, :]
    return _products(force[:, :, None] * s[:, None, p:], XQ)


def _bend(overlaps: Overlaps, MD: jax.Array, QD: jax.Array, DD: jax.Array, share: float):
    """Second-order part of the projection to the sphere, given `_products`."""
    square = jnp.diagonal(DD)
    eM = -MD / 2 + 3 / 8 * overlaps.M * square[:, None]
    eQ = -(QD + QD.T) / 2 + overlaps.Q * (3 / 8 * (square[:, None] + square[None, :]) + DD / 4)
    return share * eM, share * eQ
