r"""One step of one-pass SGD, in weight space and in overlap space.

Both maps take the same state (a microstate, a flag "alive", the step at which the run died) and obey the same
law of the overlaps. A run dies when a field exceeds `FIELD_BOUND` or the error is not finite; its state is then
kept as it was.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.numerics.linalg import gram_factor
from limitlab.numerics.random import chi_square, wishart
from limitlab.problems.problem import Problem
from limitlab.states.overlaps import Overlaps, Weights, error_coefficients

__all__ = ["Run", "overlaps_step", "weights_step", "whole"]

FIELD_BOUND = 1e4  # a field of an O(1) problem; its square is the bound on overlaps in the limits


def whole(x: Any) -> jax.Array:
    """Whole numbers of one type, whatever they come from: for another type everything would be compiled anew."""
    return jnp.asarray(x, int)


class Run(eqx.Module):
    """A microstate, whether the run is alive, and the step at which it died (or -1)."""

    state: Any
    alive: jax.Array
    died: jax.Array = eqx.field(converter=whole)


def _update(problem: Problem, lam: jax.Array, lam_star: jax.Array, a: jax.Array, z: jax.Array, alive: jax.Array):
    r"""Per-sample coefficients: :math:`C_{bi} = \frac{\gamma}{pB} a_i \sigma'(\lambda_{bi}) \mathcal E_b` and the
    second layer's increment (times d), both zero for a dead run."""
    student, algorithm, teacher = problem.student, problem.algorithm, problem.teacher
    value = jnp.concatenate([student.activation(lam), teacher.activation(lam_star)], axis=-1)  # type: ignore[union-attr]
    error = value @ error_coefficients(problem, a) + jnp.sqrt(problem.channel.variance) * z  # type: ignore[union-attr]
    slope = jax.vmap(jax.vmap(student.activation.derivative))(lam)  # type: ignore[union-attr]
    rate = algorithm.learning_rate / (student.width * algorithm.batch_size)  # type: ignore[union-attr]
    C = rate * a * slope * error[:, None]
    da = jnp.zeros_like(a)
    if student.second_layer == "trained":  # type: ignore[union-attr]
        da = algorithm.second_layer_rate * rate * (error @ value[:, : student.width])  # type: ignore[union-attr]
    alive = alive & jnp.all(jnp.isfinite(C)) & (jnp.max(jnp.abs(lam)) < FIELD_BOUND)
    return jnp.where(alive, C, 0.0), jnp.where(alive, da, 0.0), alive


def _next(run: Run, state: Any, alive: jax.Array, step: jax.Array) -> Run:
    died = jnp.where(run.alive & ~alive, step, run.died)
    return Run(state, alive, died)


def weights_step(problem: Problem, d: jax.Array, run: Run, key: jax.Array, step: jax.Array) -> Run:
    """Draw fresh inputs in d dimensions and move the weights: O((p + k) d) per sample."""
    algorithm, w = problem.algorithm, run.state
    n = w.W.shape[-1]
    key_x, key_z = jax.random.split(jax.random.fold_in(key, step))
    x = jax.random.normal(key_x, (algorithm.batch_size, n)) / jnp.sqrt(d)  # type: ignore[union-attr]
    x = jax.lax.optimization_barrier(x)  # or the compiler draws it once for each of its uses
    z = jax.random.normal(key_z, (algorithm.batch_size,))  # type: ignore[union-attr]
    C, da, alive = _update(problem, x @ w.W.T, x @ w.W_star.T, w.a, z, run.alive)
    W = w.W + (C[0][:, None] * x if len(x) == 1 else C.T @ x)  # an outer product fuses with the sum
    if algorithm.spherical:  # type: ignore[union-attr]
        W = W * jnp.sqrt(d / jnp.sum(W**2, axis=1, keepdims=True))
    return _next(run, Weights(W, w.W_star, w.a + da / d), alive, step)


def _factor(Omega: jax.Array, columns: int) -> jax.Array:
    """L (p+k, columns) with L L^T = Omega; the leading directions only if there are fewer columns than fields."""
    if columns == Omega.shape[-1]:
        return gram_factor(Omega)
    values, vectors = jnp.linalg.eigh(Omega)
    return vectors[:, -columns:] * jnp.sqrt(jnp.maximum(values[-columns:], 0.0))


def overlaps_step(columns: int, problem: Problem, d: jax.Array, run: Run, key: jax.Array, step: jax.Array) -> Run:
    r"""Move the overlaps by one step whose law is exactly that of `weights_step`, at a cost independent of d.

    The update of the overlaps uses the input only through its fields s and its norms, and given Omega their joint
    law is known: s = L g with L L^T = Omega and g standard normal in c = min(p + k, d) dimensions, and
    x_b . x_b' = (g_b . g_b' + Wishart_{d-c})/d. A vanishing pivot of L only moves a chi-square from one term to
    the other, so that no rank needs to be known.
    """
    algorithm, o = problem.algorithm, run.state
    p, batch = o.Q.shape[0], algorithm.batch_size  # type: ignore[union-attr]
    key_g, key_z, key_h = jax.random.split(jax.random.fold_in(key, step), 3)
    g = jax.random.normal(key_g, (batch, columns))
    z = jax.random.normal(key_z, (batch,))
    s = g @ _factor(o.omega, columns).T
    lam, lam_star = s[:, :p], s[:, p:]
    if batch == 1:
        norms = (jnp.sum(g**2) + chi_square(key_h, d - columns))[None, None] / d
    else:
        norms = (g @ g.T + wishart(key_h, batch, d - columns)) / d
    C, da, alive = _update(problem, lam, lam_star, o.a, z, run.alive)
    cross = C.T @ lam
    Q = o.Q + (cross + cross.T + C.T @ norms @ C) / d
    M = o.M + C.T @ lam_star / d
    if algorithm.spherical:  # type: ignore[union-attr]
        norm = jnp.sqrt(jnp.diagonal(Q))
        Q, M = Q / (norm[:, None] * norm[None, :]), M / norm[:, None]
        Q = Q.at[jnp.diag_indices(p)].set(1.0)
    return _next(run, Overlaps(Q, M, o.P, o.a + da / d), alive, step)
