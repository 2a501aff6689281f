r"""A cloud of student units that meet only through their law: its motion under one-pass SGD, and its risk.

.. math:: Q_{ij} = m_i P^{-1} m_j + \sqrt{q_i q_j}\,\xi_{ij}

A particle is a unit's overlaps m with the teacher and the variance q of its part orthogonal to it. Between two
particles xi is 0 in infinite dimension; at finite d it is the cosine of two random directions, over which everything
is averaged.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.modules import Module, field
from limitlab.numerics.gauss.pairs import pair_moments, pair_numbers
from limitlab.numerics.gauss.rules import GaussianRule, gegenbauer_rule, normal_rule
from limitlab.numerics.linalg import pseudo_inverse
from limitlab.numerics.trees import as_array, as_arrays
from limitlab.states.overlaps import error_coefficients

__all__ = ["CHUNK", "Cloud", "Interaction", "cloud_risk", "drift", "interaction"]

# Numbers held at once by one table of pair moments (512 KiB): pieces that fit a cache are also the fastest.
CHUNK = 2**16


class Cloud(NamedTuple):
    """Particles: overlaps m (p, k) with the teacher, variances q (p,) orthogonal to it, second layer a (p,)."""

    m: jax.Array
    q: jax.Array
    a: jax.Array


class Interaction(Module):
    """What acts between particles: teacher Gram matrix P and its pseudo-inverse, the law of xi, a pair rule.

    ``own`` says what a particle does to itself: True, it is one unit (xi_ii = 1); False, it is a crowd of units whose
    orthogonal parts are as independent as those of any other pair.
    """

    P: jax.Array
    P_inverse: jax.Array
    xi: jax.Array
    weights: jax.Array
    rule: GaussianRule | None
    own: bool = field(static=True)
    square: bool = field(static=True)


_inverse = jax.jit(pseudo_inverse)


class _Sums(NamedTuple):
    r"""Sums over partners C weighted by c_C: curvature u (p,), pull (p, k), spread h (p,), values by layer (p,)."""

    curvature: jax.Array
    pull: jax.Array
    spread: jax.Array
    teacher: jax.Array
    student: jax.Array


def interaction(
    setting: CommitteeOnePass, P: Any, d: float | None, *, own: bool = True, nodes: int = 24, method: str = "auto"
):
    """The interaction of a problem at dimension d (None: infinite).

    ``method`` "pairs" keeps squares from their matrix formula, "quadrature" takes pair quadrature for any function.
    ``nodes`` is the size of the rule in xi; polynomials need no more than half their degree.
    """
    student, teacher = setting.student, setting.teacher
    f, g, n = student.activation, teacher.activation, None if d is None else round(d) - teacher.width
    exact = f.terms is not None and g.terms is not None and method != "quadrature"
    terms = f.terms or ()
    if exact and all(term.kind == "one" for term in terms):
        nodes = min(nodes, max((term.power for term in terms), default=0) // 2 + 1)
    square = f.name == g.name == "square" and method == "auto"
    # For squares the rule costs nothing: as many zeros as there are nodes at finite d, and one compilation serves both.
    zeros = nodes if square else 1
    xi, weights = (np.zeros(zeros), np.full(zeros, 1 / zeros)) if n is None else gegenbauer_rule(n, nodes)
    P, xi, weights = jax.device_put((np.asarray(P, float), np.asarray(xi), np.asarray(weights)))
    rule = None if exact else as_arrays(normal_rule(2))
    return Interaction(P, as_array(_inverse(P)), xi, weights, rule, own, square)


def _square_sums(cloud: Cloud, c: jax.Array, links: Interaction) -> _Sums:
    r"""Both activations squares: only m^T diag(c) m (k, k) and E xi^2 = v are needed, O(p k^2) in all.

    Curvature 2 Omega_CC, slope 4 Omega_iC, values Omega_ii Omega_CC + 2 Omega_iC^2, with E Q_ij = S_ij and
    E Q_ij^2 = S_ij^2 + v q_i q_j between different particles.
    """
    m, q, p = cloud.m, cloud.q, cloud.q.shape[0]
    mP = m @ links.P_inverse
    S = jnp.sum(mP * m, axis=1)
    Q, v = S + q, links.weights @ links.xi**2
    inner, own, traces = (m.T * c[:p]) @ m, c[:p] if links.own else jnp.zeros(p), jnp.diagonal(links.P)
    # What a particle that is one unit does to itself on top of what an independent copy of it would do.
    extra_second, extra_spread = own * (Q**2 - S**2 - v * q**2), own * q * (Q - v * q)
    second = jnp.sum((mP @ inner) * mP, axis=1) + v * q * (c[:p] @ q) + extra_second
    return _Sums(
        jnp.full(p, 2 * (c[:p] @ Q + c[p:] @ traces)),
        4 * ((m * c[p:]) @ links.P + mP @ inner + (own * q)[:, None] * m),
        4 * (v * q * (c[:p] @ q) + extra_spread),
        Q * (c[p:] @ traces) + 2 * m**2 @ c[p:],
        Q * (c[:p] @ Q) + 2 * second,
    )


def _pair_sums(setting: CommitteeOnePass, cloud: Cloud, c: jax.Array, links: Interaction, values: bool) -> _Sums:
    """Any activations, pair by pair; a table larger than `CHUNK` is computed in pieces, one after the other.

    Without ``values``, which only the risk and a trained second layer need, these are left out and reported as 0.
    """
    f, g = setting.student.activation, setting.teacher.activation
    m, q, p = cloud.m, cloud.q, cloud.q.shape[0]
    S = m @ links.P_inverse @ m.T
    Q = jnp.diagonal(S) + q
    # The flow keeps q >= 0 but a trial step of the integrator may not; the floor also has a finite slope at q = 0.
    root = jnp.sqrt(jnp.maximum(q, 1e-300))

    def pack(*entries):
        return jnp.stack(entries if values else entries[:-1])

    def inside(i, j):
        spread = root[i] * root[j] * links.xi
        moments = pair_moments(f, f, Q[i] * jnp.ones_like(spread), Q[j], S[i, j] + spread, rule=links.rule)
        return pack(moments.curvature, moments.slope, moments.slope * spread, moments.value) @ links.weights

    def alone(i):
        own = pair_moments(f, f, Q[i], Q[i], Q[i], same=True, rule=links.rule)
        return pack(own.curvature, own.slope, own.slope * q[i], own.value)

    def outside(i, r):
        moments = pair_moments(f, g, Q[i], links.P[r, r], m[i, r], rule=links.rule)
        return pack(moments.curvature, moments.slope, moments.value)

    size = pair_numbers(f, f, links.rule)
    table = _table(inside, p, p, size * links.xi.size)
    if links.own:
        table = jnp.where(jnp.eye(p, dtype=bool)[..., None], _mapped(alone, (jnp.arange(p),), size)[:, None], table)
    others = _table(outside, p, links.P.shape[0], pair_numbers(f, g, links.rule))
    student, teacher = jnp.einsum("ijn,j->nij", table, c[:p]), jnp.einsum("irn,r->nir", others, c[p:])
    return _Sums(
        jnp.sum(student[0], axis=1) + jnp.sum(teacher[0], axis=1),
        student[1] @ m + teacher[1] @ links.P,
        jnp.sum(student[2], axis=1),
        jnp.sum(teacher[2], axis=1) if values else jnp.zeros(p),
        jnp.sum(student[3], axis=1) if values else jnp.zeros(p),
    )


def _mapped(function: Any, indices: tuple[jax.Array, ...], size: int) -> jax.Array:
    batch = max(1, CHUNK // size)
    if len(indices[0]) <= batch:
        return jax.vmap(function)(*indices)
    return jax.lax.map(lambda index: function(*index), indices, batch_size=batch)


def _table(function: Any, rows: int, columns: int, size: int) -> jax.Array:
    i, j = (x.ravel() for x in jnp.meshgrid(jnp.arange(rows), jnp.arange(columns), indexing="ij"))
    return _mapped(function, (i, j), size).reshape(rows, columns, -1)


def _sums(setting: CommitteeOnePass, cloud: Cloud, links: Interaction, values: bool) -> tuple[jax.Array, _Sums]:
    c = error_coefficients(setting, cloud.a)
    return c, _square_sums(cloud, c, links) if links.square else _pair_sums(setting, cloud, c, links, values)


def drift(setting: CommitteeOnePass, links: Interaction, cloud: Cloud) -> Cloud:
    r"""Motion of the particles, with the coefficients c of the error :math:`\mathcal E = \sum_C c_C \sigma_C(s_C)`.

    .. math::
        \dot m_{ir} &= a_i\,\big( u_i\, m_{ir}
            + \textstyle\sum_j c_j E_\xi[K_{ij}]\, m_{jr} + \sum_s c_s K_{is} P_{sr} \big) \\
        \dot q_i &= 2 a_i\,\big( u_i\, q_i + \textstyle\sum_j c_j E_\xi[K_{ij}\, \xi_{ij}] \sqrt{q_i q_j} \big) \\
        \dot a_i &= \kappa \textstyle\sum_C c_C E_\xi E[\sigma_i \sigma_C], \qquad
        u_i = \sum_C c_C E_\xi E[\sigma''_i \sigma_C], \quad K_{iC} = E[\sigma'_i \sigma'_C]

    On the sphere the radial part is taken out: with :math:`\Phi_i` the motion of
    :math:`Q_{ii} = m_i P^{-1} m_i + q_i`, m loses :math:`m \Phi/2Q` and q loses :math:`q \Phi/Q`, so Q_ii stays.
    """
    student, algorithm = setting.student, setting.algorithm
    m, q, a = cloud
    trained = student.second_layer == "trained"
    _, sums = _sums(setting, cloud, links, values=trained)
    dm = a[:, None] * (sums.curvature[:, None] * m + sums.pull)
    dq = 2 * a * (sums.curvature * q + sums.spread)
    if algorithm.spherical:
        mP = m @ links.P_inverse
        radial = (jnp.sum(mP * dm, axis=1) + dq / 2) / (jnp.sum(mP * m, axis=1) + q)
        dm, dq = dm - m * radial[:, None], dq - 2 * q * radial
    da = algorithm.second_layer_rate * (sums.teacher + sums.student) if trained else jnp.zeros_like(a)
    return Cloud(dm, dq, da)


def cloud_risk(setting: CommitteeOnePass, links: Interaction, cloud: Cloud) -> jax.Array:
    r""":math:`R = \tfrac12 (E_\xi E[\bar{\mathcal E}^2] + \Delta)`, the noise floor included."""
    c, sums = _sums(setting, cloud, links, values=True)
    p, g, k = len(cloud.q), setting.teacher.activation, links.P.shape[0]
    scale = jnp.diagonal(links.P)
    table = pair_moments(g, g, *jnp.broadcast_arrays(scale[:, None], scale[None, :], links.P), rule=links.rule).value
    own = pair_moments(g, g, scale, scale, scale, same=True, rule=links.rule).value
    table = jnp.where(jnp.eye(k, dtype=bool), own, table)
    noise = setting.channel.variance
    return 0.5 * (c[:p] @ (2 * sums.teacher + sums.student) + c[p:] @ table @ c[p:] + noise)
