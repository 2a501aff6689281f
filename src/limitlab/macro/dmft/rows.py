r"""The kernels of dynamical mean-field theory, closed one row (one step of time) after the other.

A student of m units has m x m blocks: entry (t, a) of a kernel is row t m + a of one matrix, and every formula is that
of one unit with matrices in place of numbers, in this order. With z the part of the weights that is orthogonal to the
teacher, R(t, r) = dz^t/dxi^r and C_z = E[z z^T], row t of the memory kernels M_C, K gives

.. math::
    Y(t, s) = \sum_{r<s} M_C(t, r)\, R(s, r)^T, \qquad q(t, s) = Y(t, s) + \sum_r K(t, r)\, C_z(r, s), \qquad
    Q = M_C(t, t) + K Y^T + Y K^T + K C_z K^T

and with them the next row: :math:`C_z(t+1, s) = A C_z(t, s) - E q(t, s)`,
:math:`C_z(t+1, t+1) = A C_z(t, t) A - A q^T E - E q A + E Q E + 2T\epsilon (E/\epsilon)^2`, with A and E diagonal. On
the sphere E = eps A and A is such that every norm stays 1 identically; else A = 1 - eps lambda and E = eps.

K is the mean response of g to z, so that alpha E[g^t z^s] = sum_r K(t, r) C_z(r, s) as for every functional of a
Gaussian path (Stein), the same as alpha E[g^t h^s] = q(t, s). Hence two estimates of a row of K, one by tangents and
one by regression of g on z; `_fitted` puts them together.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.macro.dmft.forces import AbstractForce
from limitlab.modules import Module, field
from limitlab.numerics.trees import as_array
from limitlab.states.run import FIELD_BOUND

__all__ = [
    "Beside",
    "Factors",
    "Fit",
    "Kernels",
    "Model",
    "Row",
    "Scheme",
    "beside",
    "close_row",
    "factor_rows",
    "first_kernels",
    "roomier",
]

JITTER = 1e-9  # relative, on the diagonal of M_C: for full batches it is nearly singular
TINY = 1e-300
RIDGES = (1e-2, 1e12)  # of the regression of g on z, in units of C_z
LONGEST = 2.0  # of a step on the sphere, in units of its radius, as in simulations


class Scheme(Module):
    """What the solver is told: probes of the tangents, and whether rows of K are fitted.

    ``mutation`` leaves something out, so that tests can see it fail: "no_memory" drops K(t, s) for s < t, "fresh_noise"
    draws the effective noise anew at each step, "swapped" has the factors of K in the other order, "symmetric_noise"
    takes the noise of two units at two times to be symmetric. "anew" leaves nothing out: no factor is used again.
    """

    probes: int = field(static=True, default=1)
    identity: bool = field(static=True, default=True)
    mutation: str = field(static=True, default="")


class Model(Module):
    """The learning rule, the force, alpha = n/d, P = W* W*^T/d, how to solve; ``even``: labels without a sign."""

    rule: AbstractDescent
    force: AbstractForce
    alpha: jax.Array
    P: jax.Array
    scheme: Scheme
    even: bool = field(static=True, default=False)

    @property
    def units(self) -> int:
        return self.force.units

    @property
    def eps(self):
        """Time per step."""
        return self.rule.learning_rate / self.units

    def along(self, M: jax.Array) -> jax.Array:
        """M P^{-1}: what of the weights is the teacher's."""
        return M / self.P if self.P.shape == (1, 1) else jnp.linalg.solve(self.P, M.T).T


class Fit(NamedTuple):
    """What K(t, .) leaves of alpha E[g^t z^s] (m, rows), and the squared errors of three means, in one unit.

    ``rest``: of that, divided by C_z. ``blur``: of K(t, s) by tangents for s < t. ``bend``: of K(t, t). Each is the
    mean over units.
    """

    left: jax.Array
    rest: jax.Array
    blur: jax.Array
    bend: jax.Array


class Row(NamedTuple):
    """Row t as the trajectories have it: alpha E[g^t g^s], K(t, s), its `Fit`, alpha E[g^t h^t], alpha E[g^t h0], loss.

    The first two are (m, rows), then (m, m) and (m, k).
    """

    M_C: jax.Array
    K: jax.Array
    fit: Fit | None
    B: jax.Array
    mu: jax.Array
    loss: jax.Array


class Kernels(Module):
    """All kernels up to some step (rows (t, a), columns (s, b), s <= t), zero beyond, and the numbers of each step."""

    M_C: jax.Array
    K: jax.Array
    Cz: jax.Array
    R: jax.Array
    noise: jax.Array  # Cholesky factor of M_C
    gram: jax.Array  # Cholesky factor of Cz + ridge
    ridge: jax.Array
    other_gram: jax.Array  # the same for the ridge before this one, to which it often returns
    other_ridge: jax.Array
    M: jax.Array  # (step, m, k)
    a: jax.Array  # (step, m)
    loss: jax.Array  # (step,)
    before: jax.Array  # alpha E[g^t h^t] - q(t, t), (step, m, m), before and after the row of K is fitted
    residual: jax.Array
    alive: jax.Array
    died: jax.Array


def first_kernels(size: int, M: np.ndarray, rest: np.ndarray) -> Kernels:
    """Room for ``size`` steps, and step 0: overlaps M (m, k), and the Gram matrix (m, m) of what is orthogonal."""
    m, k = M.shape
    square, one, line = np.zeros((size * m, size * m)), np.eye(size * m), np.zeros(size)
    corner, first, units, pairs = square.copy(), np.zeros((size, m, k)), np.zeros((size, m)), np.zeros((size, m, m))
    corner[:m, :m], first[0] = rest, M
    kernels = Kernels(
        M_C=as_array(square),
        K=as_array(square),
        Cz=as_array(corner),
        R=as_array(square),
        noise=as_array(one),
        gram=as_array(one),
        ridge=as_array(np.ones(())),
        other_gram=as_array(one),
        other_ridge=as_array(2 * np.ones(())),
        M=as_array(first),
        a=as_array(units),
        loss=as_array(line),
        before=as_array(pairs),
        residual=as_array(pairs),
        alive=as_array(True),
        died=as_array(-1),
    )
    return jax.device_put(kernels)


def roomier(k: Kernels, size: int) -> Kernels:
    """The same kernels with room for ``size`` steps."""

    def widened(new: jax.Array, x: jax.Array) -> np.ndarray:
        out = np.array(new)
        out[tuple(slice(n) for n in x.shape)] = x
        return out

    _, m, directions = k.M.shape
    more = jax.device_get(first_kernels(size, np.zeros((m, directions)), np.zeros((m, m))))
    return jax.device_put(jax.tree.map(widened, more, jax.device_get(k)))


def close_row(model: Model, k: Kernels, t, row: Row) -> Kernels:
    """Complete row t of the kernels and make row t + 1 of Cz, R and M."""
    rule, scheme, m = model.rule, model.scheme, model.units
    step, eps = jnp.arange(len(k.Cz)) // m, model.eps
    past, upto = step < t, step <= t

    def rows(x: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(x, t * m, m, axis=0)

    def block(x: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(x, t * m, m, axis=1)

    def put(x: jax.Array, new: jax.Array, at=t, axis: int = 0) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(x, new, at * m, axis=axis)

    M_C, Cz_t = (jnp.where(upto, x, 0.0) for x in (row.M_C, rows(k.Cz)))
    K = jnp.where(upto, row.K, 0.0)
    if scheme.mutation == "symmetric_noise":
        M_C = (M_C + M_C.reshape(m, -1, m).swapaxes(0, 2).reshape(m, -1)) / 2
    own = block(M_C)
    noise = factor_rows(k.noise, beside(k.noise, M_C, t), t, JITTER * jnp.diagonal(own))
    if scheme.mutation == "fresh_noise":
        noise = put(k.noise, put(jnp.zeros_like(M_C), jnp.linalg.cholesky(own), axis=1))
    Y = M_C @ k.R.T
    before = row.B - block(Y + K @ k.Cz)
    factors = Factors(k.gram, k.ridge, k.other_gram, k.other_ridge)
    if row.fit is not None:
        K, factors = _fitted(k, t, K, Cz_t, row.fit, reuse=scheme.mutation != "anew")
    if scheme.mutation == "no_memory":
        K = jnp.where(step == t, K, 0.0)
    q = jnp.where(upto, Y + K @ k.Cz, 0.0)
    q_t, Cz_tt = block(q), block(Cz_t)
    Q = own + Y @ K.T + K @ q.T
    # From M = 0 labels without a sign give E[g h0] = 0 by symmetry; its sampled value would grow.
    mu = jnp.where(jnp.all(k.M[t] == 0), 0.0, row.mu) if model.even else row.mu
    a, e, heat = _step_sizes(model, k.M[t], mu, Cz_tt, q_t, Q)
    M = a[:, None] * k.M[t] - e[:, None] * mu
    cross = a[:, None] * q_t.T * e
    corner = a[:, None] * Cz_tt * a - cross - cross.T + e[:, None] * Q * e + jnp.diag(jnp.square(heat))
    new = put(jnp.where(upto, a[:, None] * Cz_t - e[:, None] * q, 0.0), corner, t + 1, axis=1)
    R = put(jnp.where(past, a[:, None] * rows(k.R) - e[:, None] * (K @ k.R), 0.0), -jnp.diag(e), axis=1)
    if rule.spherical:
        longest = jnp.max(jnp.diagonal(Q) + _norms(model, mu))
        sound = jnp.square(eps) * longest <= LONGEST**2
    else:
        sound = jnp.max(jnp.diagonal(corner) + _norms(model, M)) <= FIELD_BOUND**2
    alive = k.alive & sound & jnp.isfinite(jnp.sum(M) + jnp.sum(corner))
    return Kernels(
        M_C=put(k.M_C, M_C),
        K=put(k.K, K),
        Cz=put(put(k.Cz, new, t + 1), new.T, t + 1, axis=1),
        R=put(k.R, R, t + 1),
        noise=noise,
        gram=factors.gram,
        ridge=factors.ridge,
        other_gram=factors.other,
        other_ridge=factors.other_ridge,
        M=k.M.at[t + 1].set(M),
        a=k.a.at[t].set(a),
        loss=k.loss.at[t].set(row.loss),
        before=k.before.at[t].set(before),
        residual=k.residual.at[t].set(row.B - q_t),
        alive=alive,
        died=jnp.where(k.alive & ~alive, t, k.died),
    )


def _norms(model: Model, M: jax.Array) -> jax.Array:
    """The squared norm (m,) of what overlaps M with the teacher stand for."""
    return jnp.sum(M * model.along(M), axis=1)


def _step_sizes(model: Model, M, mu, Cz, q, Q):
    """a, e and the size of the thermal noise of one step, (m,) each; on the sphere, a from the exact norm."""
    rule, eps, one = model.rule, model.eps, jnp.ones(model.units)
    heat = 0.0 if rule.heat is None else 2 * rule.heat * eps
    if not rule.spherical:
        return (1 - eps * rule.penalty) * one, eps * one, jnp.sqrt(heat) * one
    var = jnp.diagonal(Cz) - 2 * eps * jnp.diagonal(q) + jnp.square(eps) * jnp.diagonal(Q) + heat
    a = 1 / jnp.sqrt(_norms(model, M - eps * mu) + var)
    return a, a * eps, a * jnp.sqrt(heat)


class Factors(NamedTuple):
    """The factor of C_z + ridge and its ridge, and those of the ridge before."""

    gram: jax.Array
    ridge: jax.Array
    other: jax.Array
    other_ridge: jax.Array


def _fitted(k: Kernels, t, K, Cz_t, fit: Fit, reuse: bool) -> tuple[jax.Array, Factors]:
    r"""Row t of K with what regression adds to it, and the factors of C_z + ridge.

    .. math:: K \leftarrow K + \big(\alpha E[g z^T] - K C_z\big) (C_z + \Lambda)^{-1}, \qquad
              \Lambda_s = \mathrm{Var(regression)}\,/\,\mathrm{Var(tangents)}_s

    is the estimate of least variance from two that are independent: tangents win where they are small, regression where
    they explode. Noise dK of K biases C_z by its square, e^2 dK C_z dK: the less of it, the less bias. The ridge is
    rounded to a power of two; it goes back and forth between two of them at four steps in ten, so the factors of both
    are kept, and one is computed anew only for a third. Where a force jumps tangents are in doubt, and the ridge is at
    its least, 0.01.
    """
    m, columns = K.shape
    index, first = jnp.arange(columns), t * m
    ridge, last = (jnp.clip(fit.rest / jnp.maximum(x, TINY), *RIDGES) for x in (fit.blur, fit.bend))
    ridge = jnp.exp2(jnp.round(jnp.log2(ridge)))

    def anew() -> jax.Array:
        seen = (index[:, None] < first) & (index < first)
        return jnp.linalg.cholesky(jnp.where(seen, k.Cz, 0.0) + jnp.diag(jnp.where(index < first, ridge, 1.0)))

    same, back = (reuse & (ridge == x) for x in (k.ridge, k.other_ridge))
    gram = jax.lax.cond(same, lambda: k.gram, lambda: jax.lax.cond(back, lambda: k.other_gram, anew))
    other = jax.lax.cond(same, lambda: k.other_gram, lambda: k.gram)
    other_ridge = jnp.where(same, k.other_ridge, k.ridge)
    left = jnp.where(index < first + m, fit.left, 0.0)
    row, one = beside(gram, Cz_t, t), jnp.ones(m)
    K = K + _cholesky_solve(factor_rows(gram, row, t, last * one), left.T).T
    gram = factor_rows(gram, row, t, ridge * one)
    other = factor_rows(other, beside(other, Cz_t, t), t, other_ridge * one)
    return K, Factors(gram, ridge, other, other_ridge)


class Beside(NamedTuple):
    """Rows (t, a) of the factor of A left of their own block, A(t, t), and what of it these make up, (m, m)."""

    left: jax.Array
    own: jax.Array
    made: jax.Array


def beside(L: jax.Array, rows: jax.Array, t) -> Beside:
    """From those rows (m, columns) of A; L is the identity beyond."""
    m, columns = rows.shape
    before = jnp.where(jnp.arange(columns) < t * m, rows, 0.0)
    left = solve_triangular(L, before.T if m > 1 else before[0], lower=True).T.reshape(m, columns)
    made = left @ left.T if m > 1 else (left[0] @ left[0]).reshape(1, 1)
    return Beside(left, jax.lax.dynamic_slice_in_dim(rows, t * m, m, axis=1), made)


def factor_rows(L: jax.Array, row: Beside, t, ridge: jax.Array) -> jax.Array:
    """The factor of A + ridge (m,) with those rows."""
    m = len(ridge)
    own = jnp.zeros((m, m))
    for a in range(m):
        for b in range(a):
            rest = row.own[a, b] - row.made[a, b] - own[a, :b] @ own[b, :b]
            own = own.at[a, b].set(rest / own[b, b])
        pivot = row.own[a, a] + ridge[a] - row.made[a, a] - own[a, :a] @ own[a, :a]
        own = own.at[a, a].set(jnp.sqrt(jnp.maximum(pivot, jnp.maximum(1e-3 * ridge[a], TINY))))
    left = jax.lax.dynamic_update_slice_in_dim(row.left, own, t * m, axis=1)
    return jax.lax.dynamic_update_slice_in_dim(L, left, t * m, axis=0)


def _cholesky_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    return solve_triangular(L, solve_triangular(L, x, lower=True), lower=True, trans=1)
