r"""The kernels of dynamical mean-field theory, closed one row (one step of time) after the other.

With z the part of a weight that is orthogonal to the teacher, R(t, r) = dz^t/dxi^r and C_z = E[z z], row t of the
memory kernels M_C, K gives

.. math::
    Y_s = \sum_{r<s} R(s, r)\, M_C(r, t), \qquad q_s = Y_s + \sum_r C_z(s, r)\, K(t, r), \qquad
    Q = M_C(t, t) + 2 K \cdot Y + K C_z K^T

and with them the next row: :math:`C_z(t+1, s) = a C_z(t, s) - e q_s`,
:math:`C_z(t+1, t+1) = a^2 C_z(t, t) - 2 a e q_t + e^2 Q + 2T\eta (e/\eta)^2`. On the sphere e = a eta and a is such
that the norm stays 1 identically; else a = 1 - eta lambda and e = eta.

K is the mean response of g to z, so that alpha E[g^t z^s] = sum_r C_z(s, r) K(t, r) as for every functional of a
Gaussian path (Stein), the same as alpha E[g^t h^s] = q_s. Hence two estimates of a row of K, one by tangents and one by
regression of g on z; `_fitted` puts them together.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.numerics.trees import as_array
from limitlab.problems.losses import AbstractLoss
from limitlab.states.run import FIELD_BOUND

__all__ = ["Fit", "Kernels", "Model", "Row", "Scheme", "close_row", "first_kernels", "roomier"]

JITTER = 1e-9  # relative, on the diagonal of M_C: for full batches it is nearly singular
TINY = 1e-300
RIDGES = (1e-2, 1e12)  # of the regression of g on z, in units of C_z
LONGEST = 2.0  # of a step on the sphere, in units of its radius, as in simulations


class Scheme(eqx.Module):
    """What the solver is told: probes of the tangents, and whether rows of K are fitted.

    ``mutation`` leaves something out, so that tests can see it fail: "no_memory" drops K(t, s) for s < t, "fresh_noise"
    draws the effective noise anew at each step.
    """

    probes: int = eqx.field(static=True, default=1)
    identity: bool = eqx.field(static=True, default=True)
    mutation: str = eqx.field(static=True, default="")


class Model(eqx.Module):
    """The learning rule, the loss, alpha = n/d, rho = |w*|^2/d, how to solve; ``even``: labels without a sign."""

    rule: AbstractDescent
    loss: AbstractLoss
    alpha: jax.Array
    rho: jax.Array
    scheme: Scheme
    even: bool = eqx.field(static=True, default=False)


class Fit(NamedTuple):
    """What K(t, .) leaves of alpha E[g^t z^s], and the squared errors of three means, in one unit.

    ``rest``: of that, divided by C_z. ``blur``: of K(t, s) by tangents for s < t. ``bend``: of K(t, t).
    """

    left: jax.Array
    rest: jax.Array
    blur: jax.Array
    bend: jax.Array


class Row(NamedTuple):
    """Row t as the trajectories have it: alpha E[g^t g^s], K(t, s), its `Fit`, alpha E[g^t h^t], alpha E[h0 g^t]."""

    M_C: jax.Array
    K: jax.Array
    fit: Fit | None
    B: jax.Array
    mu: jax.Array
    loss: jax.Array


class Kernels(eqx.Module):
    """All kernels up to some step (rows t, columns s <= t), zero beyond, and the scalars of each step."""

    M_C: jax.Array
    K: jax.Array
    Cz: jax.Array
    R: jax.Array
    noise: jax.Array  # Cholesky factor of M_C
    gram: jax.Array  # Cholesky factor of Cz + ridge
    ridge: jax.Array
    m: jax.Array
    a: jax.Array
    loss: jax.Array
    before: jax.Array  # alpha E[g^t h^t] - q_t before and after the row of K is fitted
    residual: jax.Array
    alive: jax.Array
    died: jax.Array


def first_kernels(size: int, m: float, q: float, rho: float) -> Kernels:
    """Room for ``size`` steps, and step 0."""
    square, line, one = np.zeros((size, size)), np.zeros(size), np.eye(size)
    corner, first = square.copy(), line.copy()
    corner[0, 0], first[0] = max(q - m * m / rho, 0.0), m
    kernels = Kernels(
        M_C=as_array(square),
        K=as_array(square),
        Cz=as_array(corner),
        R=as_array(square),
        noise=as_array(one),
        gram=as_array(one),
        ridge=as_array(np.zeros(())),
        m=as_array(first),
        a=as_array(line),
        loss=as_array(line),
        before=as_array(line),
        residual=as_array(line),
        alive=as_array(True),
        died=as_array(-1),
    )
    return jax.device_put(kernels)


def roomier(k: Kernels, size: int) -> Kernels:
    """The same kernels with room for ``size`` steps."""
    old = len(k.m)

    def widened(new: jax.Array, x: jax.Array) -> np.ndarray:
        out = np.array(new)
        out[(slice(old),) * x.ndim] = x
        return out

    more = jax.device_get(first_kernels(size, 0.0, 0.0, 1.0))
    return jax.device_put(jax.tree.map(widened, more, jax.device_get(k)))


def close_row(model: Model, k: Kernels, t, row: Row) -> Kernels:
    """Complete row t of the kernels and make row t + 1 of Cz, R and m."""
    rule, rho, scheme = model.rule, model.rho, model.scheme
    index = jnp.arange(len(k.m))
    past, upto = index < t, index <= t
    M_C, Cz_t = (jnp.where(upto, x, 0.0) for x in (row.M_C, k.Cz[t]))
    K = jnp.where(upto, row.K, 0.0)
    noise = _cholesky_row(k.noise, M_C, t, JITTER * M_C[t])
    if scheme.mutation == "fresh_noise":
        noise = k.noise.at[t].set(jnp.where(index == t, jnp.sqrt(M_C[t]), 0.0))
    Y = k.R @ M_C
    before = row.B - Y[t] - Cz_t @ K
    gram, ridge = k.gram, k.ridge
    if row.fit is not None:
        K, gram, ridge = _fitted(k, t, K, Cz_t, row.fit)
    if scheme.mutation == "no_memory":
        K = jnp.where(index == t, K, 0.0)
    q = jnp.where(upto, Y + k.Cz @ K, 0.0)
    Q = M_C[t] + K @ Y + K @ q
    # From m = 0 labels without a sign give E[h0 g] = 0 by symmetry; its sampled value would grow.
    mu = jnp.where(k.m[t] == 0, 0.0, row.mu) if model.even else row.mu
    a, e, heat = _step_sizes(rule, rho, k.m[t], mu, Cz_t[t], q[t], Q)
    m = a * k.m[t] - e * mu
    corner = jnp.square(a) * Cz_t[t] - 2 * a * e * q[t] + jnp.square(e) * Q + jnp.square(heat)
    new = jnp.where(upto, a * Cz_t - e * q, 0.0).at[t + 1].set(corner)
    R = jnp.where(past, a * k.R[t] - e * (K @ k.R), 0.0).at[t].set(-e)
    if rule.spherical:
        sound = jnp.square(rule.learning_rate) * (Q + jnp.square(mu) / rho) <= LONGEST**2
    else:
        sound = corner + jnp.square(m) / rho <= FIELD_BOUND**2
    alive = k.alive & sound & jnp.isfinite(m + corner)
    return Kernels(
        M_C=k.M_C.at[t].set(M_C),
        K=k.K.at[t].set(K),
        Cz=k.Cz.at[t + 1].set(new).at[:, t + 1].set(new),
        R=k.R.at[t + 1].set(R),
        noise=noise,
        gram=gram,
        ridge=ridge,
        m=k.m.at[t + 1].set(m),
        a=k.a.at[t].set(a),
        loss=k.loss.at[t].set(row.loss),
        before=k.before.at[t].set(before),
        residual=k.residual.at[t].set(row.B - q[t]),
        alive=alive,
        died=jnp.where(k.alive & ~alive, t, k.died),
    )


def _step_sizes(rule: AbstractDescent, rho, m, mu, Cz, q, Q):
    """a, e and the size of the thermal noise of one step; on the sphere, a from the exact norm."""
    eta = rule.learning_rate
    heat = 0.0 if rule.heat is None else 2 * rule.heat * eta
    if not rule.spherical:
        return 1 - eta * rule.penalty, eta, jnp.sqrt(heat)
    var = Cz - 2 * eta * q + jnp.square(eta) * Q + heat
    a = 1 / jnp.sqrt(jnp.square(m - eta * mu) / rho + var)
    return a, a * eta, a * jnp.sqrt(heat)


def _fitted(k: Kernels, t, K, Cz_t, fit: Fit) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""Row t of K with what regression adds to it, the factor of C_z + ridge, and the ridge.

    .. math:: K \leftarrow K + (C_z + \Lambda)^{-1} \big(\alpha E[g z] - C_z K\big), \qquad
              \Lambda_s = \mathrm{Var(regression)}\,/\,\mathrm{Var(tangents)}_s

    is the estimate of least variance from two that are independent: tangents win where they are small, regression where
    they explode. Noise dK of K biases C_z by its square, e^2 dK C_z dK: the less of it, the less bias. The ridge is
    rounded to a power of two, and the factor computed anew when it changes.
    """
    index = jnp.arange(len(K))
    ridge, last = (jnp.clip(fit.rest / jnp.maximum(x, TINY), *RIDGES) for x in (fit.blur, fit.bend))
    ridge = jnp.exp2(jnp.round(jnp.log2(ridge)))

    def anew() -> jax.Array:
        seen = (index[:, None] < t) & (index < t)
        return jnp.linalg.cholesky(jnp.where(seen, k.Cz, 0.0) + jnp.diag(jnp.where(index < t, ridge, 1.0)))

    gram = jax.lax.cond(ridge == k.ridge, lambda: k.gram, anew)
    K = K + _cholesky_solve(_cholesky_row(gram, Cz_t, t, last), jnp.where(index <= t, fit.left, 0.0))
    return K, _cholesky_row(gram, Cz_t, t, ridge), ridge


def _cholesky_row(L: jax.Array, row: jax.Array, t, ridge) -> jax.Array:
    """Row t of the factor of A + ridge, from row t of A; L is the identity beyond."""
    index = jnp.arange(len(row))
    left = solve_triangular(L, jnp.where(index < t, row, 0.0), lower=True)
    pivot = jnp.maximum(row[t] + ridge - left @ left, jnp.maximum(1e-3 * ridge, TINY))
    return L.at[t].set(jnp.where(index == t, jnp.sqrt(pivot), left))


def _cholesky_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    return solve_triangular(L, solve_triangular(L, x, lower=True), lower=True, trans=1)
