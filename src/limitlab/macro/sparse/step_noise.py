r"""What finite steps do to the flow of a sparse target, to first order in gamma/(p b).

Every sample kicks all neurons along the same random direction r of the other coordinates. Neurons i and j (which are
orthogonal there without noise) gain a common part :math:`D_{ij} = v_i \cdot v_j`, the network a random linear part
:math:`f_r = E_k[a_k \psi_k\, v_k] \cdot r`, and this acts back on everything. With
:math:`\psi, \chi, \xi = E\sigma', E\sigma'', E\sigma'''` and :math:`G_i(z) = E_k[a_k \psi_k D_{ki}]`,

.. math::
    \dot a_i &= \kappa\,(E_z[e\,\sigma_s] - E_z[\psi_i G_i]), \qquad
    \dot u_i = a_i\,(E_z[e\,\psi_i z] - E_z[\chi_i G_i z]) \\
    \dot q_i &= 2 a_i\,(q_i E_z[e\,\chi_i - \xi_i G_i] - E_z[\psi_i G_i])
        + \frac{\gamma}{pb}\, a_i^2\, E_z[(e^2 + \Delta)\, E\sigma'^2] \\
    \dot D_{ij} &= (g_i + g_j) D_{ij} - a_i E_k[a_k K_{ik} D_{kj}] - a_j E_k[a_k K_{jk} D_{ki}]
        + \frac{\gamma}{pb}\, a_i a_j E_z[(e^2 + \Delta)\, \psi_i \psi_j]

where :math:`q = s^2`, :math:`g_i = a_i E_z[e\,\chi_i]`, :math:`K_{ij} = E_z[\psi_i \psi_j]`. Half of
:math:`E_{ij}[a_i a_j E_z[\psi_i\psi_j] D_{ij}]` is what f_r adds to the risk.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from limitlab.macro.sparse.flow import Flow, error_of

__all__ = ["Kicked", "kicked_drift", "residual"]


class Kicked(NamedTuple):
    """Neurons with the common part of their weights: a (n,), u (n, P), q = s^2 (n,), D (n, n)."""

    a: jax.Array
    u: jax.Array
    q: jax.Array
    D: jax.Array


def _seen(flow: Flow, x: Kicked):
    """sigma, psi, chi, xi at (n, 2^P), and s."""
    s = jnp.sqrt(jnp.maximum(x.q, 1e-30))[:, None]
    m = x.u @ flow.points.T
    at, along = jax.jvp(lambda m: flow.smoother(m, s), (m,), (jnp.ones_like(m),))
    scale = s if flow.smoother.kinked else 1.0
    return at.value, at.slope, at.pull / scale, along.pull / scale, m, s


def kicked_drift(x: Kicked, flow: Flow) -> Kicked:
    """The motion to first order in the noise of the steps."""
    size = len(flow.points)
    value, psi, chi, xi, m, s = _seen(flow, x)
    heavy = flow.weights * x.a
    e = error_of(flow, heavy @ value)
    mean = e / size
    G = (x.D @ (heavy[:, None] * psi)) / size if flow.interacting else jnp.zeros_like(psi)  # (n, 2^P), with E_z
    felt = jnp.square(e) + flow.noise
    kick = flow.kick / size * x.a
    growth = x.a * (chi @ mean)
    pushed = jnp.sum(psi * G, axis=1)
    energy = flow.smoother.energy(m, s) @ felt
    K = psi @ psi.T / size
    damped = x.a[:, None] * ((K * heavy) @ x.D) if flow.interacting else 0.0
    common = (psi * felt) @ psi.T * (kick[:, None] * x.a)
    decay = flow.decay
    da = flow.second_rate * (value @ mean - pushed) - jnp.where(flow.second_rate > 0, decay, 0.0) * x.a
    du = (x.a[:, None] * ((psi * mean - chi * G) @ flow.points)) @ flow.projector - decay * x.u
    inward = 2 * x.a * (x.q * (chi @ mean - jnp.sum(xi * G, axis=1)) - pushed)
    dq = inward + kick * x.a * energy - 2 * decay * x.q
    drifted = growth[:, None] * x.D - damped
    dD = drifted + drifted.T + common - 2 * decay * x.D
    return Kicked(da, du, dq, dD)


def residual(flow: Flow, x: Kicked) -> jax.Array:
    """The part of the risk that lies on the other coordinates."""
    _, psi, _, _, _, _ = _seen(flow, x)
    heavy = (flow.weights * x.a)[:, None] * psi
    return 0.5 * jnp.sum(heavy * (x.D @ heavy)) / len(flow.points)
