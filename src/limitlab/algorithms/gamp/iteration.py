r"""Generalised approximate message passing: the iteration itself, free of where the data come from.

.. math::
    V_\mu = \sum_i X_{\mu i}^2 v_i, \qquad \omega_\mu = \sum_i X_{\mu i} a_i - V_\mu g_\mu^{\rm old}, \qquad
    g_\mu = g_{\rm out}(y_\mu, \omega_\mu, V_\mu) \\
    A_i = -\sum_\mu X_{\mu i}^2\, \partial_\omega g_\mu, \qquad B_i = A_i a_i + \sum_\mu X_{\mu i} g_\mu, \qquad
    a_i, v_i \leftarrow f_a(A_i, B_i), f_v(A_i, B_i)

The term with the old g is Onsager's reaction; g is 0 before the first iteration. The scalar version replaces
:math:`X_{\mu i}^2` by its mean: one V, one A, and no second matrix. The new (a, v) are mixed with a share ``damping``
of the old ones.

Three safeguards, in units of the prior's second moment rho:

- A may come out negative at finite size while a is small; it is kept above ``LEAST_SIGNAL``. V is kept above ``FLOOR``
  (float32: ``FLOOR32``) where it divides.
- A run that has recovered the weights stands still. Either its mean variance falls below the floor while the labels
  agree (V g^2 of order one; a small variance alone is not enough, since one label read with the wrong sign can leave
  an error far above it). Or the variance is small, below ``SILENCE``, and all labels together say less than
  ``SILENCE`` of what one could, so that the next iteration would forget: without noise only labels with z of order
  sqrt(V) inform, and at finite size there may be none left; A would be 0 and the next a the prior mean.
- A run whose :math:`|a|^2/d` exceeds ``RUNAWAY`` or is not finite has diverged and keeps its last sound state.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.priors import AbstractPrior

__all__ = ["Data", "Info", "Iterated", "Model", "State", "advance", "begin", "converge", "gather", "iterate", "step"]

FLOOR = 1e-12
FLOOR32 = 1e-10  # products in float32 are right to a few 1e-7, and V stands for the square of an error
LEAST_SIGNAL = 1e-10  # of A, in units of 1/rho
AGREEMENT = 10.0  # V E g^2 is at most 1 if V is the true uncertainty
SILENCE = 1e-3
RUNAWAY = 1e6


class Model(NamedTuple):
    """The law of weights and labels that the algorithm believes in."""

    prior: AbstractPrior
    channel: AbstractChannel


class Data(NamedTuple):
    """Inputs X (n, d), labels y (n,), and the sizes of X: its squared entries, or their mean times d."""

    X: jax.Array
    y: jax.Array
    squares: jax.Array


class State(NamedTuple):
    """Posterior means a (d,) and variances v (d,) of the weights, and the last output function g (n,)."""

    a: jax.Array
    v: jax.Array
    g: jax.Array


class Info(NamedTuple):
    """Relative change |f_a - a|/|f_a|; is the new state sound; are its weights known; had the labels nothing to say."""

    change: jax.Array
    sound: jax.Array
    known: jax.Array
    silent: jax.Array


class Iterated(NamedTuple):
    """A state with its history: the last change, iterations made, and whether it has diverged or come to rest."""

    state: State
    change: jax.Array
    steps: jax.Array
    diverged: jax.Array
    perfect: jax.Array

    def converged(self, tolerance: jax.Array | float) -> jax.Array:
        """True at a fixed point."""
        return self.perfect | (~self.diverged & (self.change <= tolerance))


def gather(X: jax.Array, y: jax.Array, variances: str, scale: float | None = None) -> Data:
    """X, y, and X*X ("vector") or the mean squared row norm of X ("scalar"; ``scale`` if it is known)."""
    if variances == "vector":
        return Data(X, jnp.asarray(y, float), jnp.square(X))
    size = jnp.sum(jnp.square(X), dtype=float) / X.shape[0] if scale is None else scale
    return Data(X, jnp.asarray(y, float), jnp.asarray(size, float))


def begin(a: jax.Array, v: jax.Array, n: int) -> Iterated:
    """Before the first iteration: no reaction yet."""
    state = State(jnp.asarray(a, float), jnp.asarray(v, float), jnp.zeros(n))
    no = jnp.asarray(False)
    return Iterated(state, jnp.asarray(jnp.inf), jnp.asarray(0), no, no)


def step(model: Model, data: Data, state: State, damping: jax.Array | float) -> tuple[State, Info]:
    """One iteration."""
    X, y, squares = data
    rho = model.prior.second_moment
    floor = rho * (FLOOR if X.dtype == jnp.float64 else FLOOR32)
    vector = squares.ndim == 2
    a, v, old = state
    spread = _times(squares, v) if vector else squares * jnp.mean(v)
    V = jnp.maximum(spread, floor)
    out = model.channel.output(y, _times(X, a) - spread * old, V)
    A = -_times(out.dg, squares) if vector else -squares * (X.shape[0] / X.shape[1]) * jnp.mean(out.dg)
    A = jnp.maximum(A, LEAST_SIGNAL / rho)
    post = model.prior.denoise(A, A * a + _times(out.g, X))
    new_a = (1 - damping) * post.mean + damping * a
    new_v = (1 - damping) * post.variance + damping * v
    change = _norm(post.mean - a) / jnp.maximum(_norm(post.mean), 1e-300)
    sound = jnp.all(jnp.isfinite(new_v)) & jnp.all(jnp.isfinite(out.g)) & (jnp.mean(jnp.square(new_a)) <= RUNAWAY * rho)
    known = (jnp.mean(new_v) < floor) & (jnp.mean(V * jnp.square(out.g)) < AGREEMENT)
    said = jnp.sum(V * (jnp.square(out.g) + jnp.abs(out.dg)))
    silent = (said < SILENCE) & (jnp.mean(v) < SILENCE * rho) & (jnp.mean(new_v) > jnp.mean(v))
    return State(new_a, new_v, out.g), Info(change, sound, known, silent)


def advance(model: Model, data: Data, run: Iterated, damping: jax.Array | float) -> Iterated:
    """One iteration of a run, unless it has ended: nothing moves after perfect recovery or divergence."""
    new, info = step(model, data, run.state, damping)
    moving = ~(run.diverged | run.perfect)
    silent = info.silent & (run.steps > 0)  # at the start V is a belief, not yet what the labels have left
    moved = moving & info.sound & ~silent
    return Iterated(
        jax.tree.map(lambda x, old: jnp.where(moved, x, old), new, run.state),
        jnp.where(moved, info.change, run.change),
        run.steps + moved,
        run.diverged | (moving & ~info.sound),
        run.perfect | (moving & info.sound & (info.known | silent)),
    )


def iterate(model: Model, data: Data, run: Iterated, damping, iterations: int, look) -> tuple[Iterated, jax.Array]:
    """``iterations`` iterations; ``look(state)`` is kept at the start and after each, NaN once a run has diverged."""

    def body(run, _):
        run = advance(model, data, run, damping)
        return run, jnp.where(run.diverged, jnp.nan, look(run.state))

    end, path = jax.lax.scan(body, run, length=iterations)
    return end, jnp.concatenate([look(run.state)[None], path])


@eqx.filter_jit
def converge(model: Model, data: Data, run: Iterated, damping, tolerance, iterations) -> Iterated:
    """Iterate until a fixed point is reached to ``tolerance``, the run diverges, or ``iterations`` are made."""

    def going(run):
        return ~(run.converged(tolerance) | run.diverged) & (run.steps < iterations)

    return jax.lax.while_loop(going, lambda run: advance(model, data, run, damping), run)


def _times(left: jax.Array, right: jax.Array) -> jax.Array:
    """A product with the matrix in the matrix's type, given back in float64."""
    dtype = left.dtype if left.ndim == 2 else right.dtype
    return (left.astype(dtype) @ right.astype(dtype)).astype(float)


def _norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(jnp.square(x)))
