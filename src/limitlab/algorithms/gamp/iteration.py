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

`converge` can find the damping by itself. With g at rest the iteration is a preconditioned gradient flow,
:math:`a \leftarrow a + s\,(f_a - a)` with a step s = 1 - damping; each of its modes is multiplied by 1 - s lambda. It
diverges where a step is too long, and then the change :math:`r = f_a - a` turns round at every iteration. An escape
from an unstable fixed point, which is wanted, grows without turning. So s is halved when

.. math:: \sum_i r_i r_i^{\rm old}/f_v < -\tfrac12 \sum_i (r_i^{\rm old})^2/f_v

and grows by a tenth otherwise, up to 1. The metric is that of the posterior variances, in which the flow is symmetric.
On independent columns s stays 1 and the iteration is the plain one. A run that diverges all the same begins again with
shorter steps (``LONGEST``): its first ones, while the variances are still those of the prior, may have led astray.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from limitlab.modules import filter_jit
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.priors import AbstractPrior

__all__ = [
    "Data",
    "Info",
    "Iterated",
    "Model",
    "State",
    "advance",
    "begin",
    "converge",
    "gather",
    "iterate",
    "settle",
    "step",
    "visited",
]

FLOOR = 1e-12
FLOOR32 = 1e-10  # products in float32 are right to a few 1e-7, and V stands for the square of an error
LEAST_SIGNAL = 1e-10  # of A, in units of 1/rho
AGREEMENT = 10.0  # V E g^2 is at most 1 if V is the true uncertainty
SILENCE = 1e-3
RUNAWAY = 1e6
TURN = 0.5  # a change that comes back with more than half its size was too long a step
GROWTH = 1.1  # of the step, when it was not
SHORTEST = 1e-3  # step
LONGEST = (1.0, 0.3, 0.1, 0.03)  # steps that are allowed, one after the other as long as runs diverge


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


class Proposal(NamedTuple):
    """Posterior means and variances, the output function g with its derivative, and the variances V of the outputs."""

    mean: jax.Array
    variance: jax.Array
    g: jax.Array
    dg: jax.Array
    V: jax.Array


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
    return _mixed(model, data, state, _proposed(model, data, state), damping)


def _proposed(model: Model, data: Data, state: State) -> Proposal:
    """Where an iteration without damping leads."""
    X, y, squares = data
    rho = model.prior.second_moment
    vector = squares.ndim == 2
    a, v, old = state
    spread = _times(squares, v) if vector else squares * jnp.mean(v)
    V = jnp.maximum(spread, _floor(model, data))
    out = model.channel.output(y, _times(X, a) - spread * old, V)
    A = -_times(out.dg, squares) if vector else -squares * (X.shape[0] / X.shape[1]) * jnp.mean(out.dg)
    A = jnp.maximum(A, LEAST_SIGNAL / rho)
    post = model.prior.denoise(A, A * a + _times(out.g, X))
    return Proposal(post.mean, post.variance, out.g, out.dg, V)


def _mixed(model: Model, data: Data, state: State, to: Proposal, damping: jax.Array | float) -> tuple[State, Info]:
    """The proposal and a share ``damping`` of the old state."""
    rho, floor, (a, v, _) = model.prior.second_moment, _floor(model, data), state
    new_a = (1 - damping) * to.mean + damping * a
    new_v = (1 - damping) * to.variance + damping * v
    change = _norm(to.mean - a) / jnp.maximum(_norm(to.mean), 1e-300)
    sound = jnp.all(jnp.isfinite(new_v)) & jnp.all(jnp.isfinite(to.g)) & (jnp.mean(jnp.square(new_a)) <= RUNAWAY * rho)
    known = (jnp.mean(new_v) < floor) & (jnp.mean(to.V * jnp.square(to.g)) < AGREEMENT)
    said = jnp.sum(to.V * (jnp.square(to.g) + jnp.abs(to.dg)))
    silent = (said < SILENCE) & (jnp.mean(v) < SILENCE * rho) & (jnp.mean(new_v) > jnp.mean(v))
    return State(new_a, new_v, to.g), Info(change, sound, known, silent)


def _floor(model: Model, data: Data) -> jax.Array | float:
    return model.prior.second_moment * (FLOOR if data.X.dtype == jnp.float64 else FLOOR32)


def advance(model: Model, data: Data, run: Iterated, damping: jax.Array | float) -> Iterated:
    """One iteration of a run, unless it has ended: nothing moves after perfect recovery or divergence."""
    return _taken(run, *step(model, data, run.state, damping))


def _taken(run: Iterated, new: State, info: Info) -> Iterated:
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


def visited(onward: Callable, look: Callable, first: Any, count: Any, room: int) -> tuple[Any, Any]:
    """The state after ``count`` turns, and what `look` saw at the start and after each.

    That has ``room`` + 1 rows, of which those after ``count`` (traced: one program for all of them) are empty.
    """

    def turn(t, both):
        state = onward(both[0])
        return state, jax.tree.map(lambda rows, new: rows.at[t + 1].set(new), both[1], look(state))

    rows = jax.tree.map(lambda x: jnp.zeros((room + 1, *x.shape), x.dtype).at[0].set(x), look(first))
    return jax.lax.fori_loop(0, count, turn, (first, rows))


def iterate(model: Model, data: Data, run: Iterated, damping, count: Any, room: int, look) -> tuple[Iterated, Any]:
    """``count`` iterations, `visited`; ``look(state)`` is NaN once a run has diverged."""

    def seen(run):
        return jnp.where(run.diverged, jnp.nan, look(run.state))

    return visited(lambda run: advance(model, data, run, damping), seen, run, count, room)


class Settling(NamedTuple):
    """A run on its way to a fixed point: its step 1 - damping, the last proposed move, the calmest state so far."""

    run: Iterated
    step: jax.Array
    move: jax.Array
    calm: State
    least: jax.Array


def settle(model: Model, data: Data, start: Iterated, tolerance, iterations: int) -> Iterated:
    """`converge` with a damping that is found on the way, from the start again while runs diverge."""
    made, run = 0, start
    for longest in LONGEST:
        numbers = (tolerance, jnp.asarray(iterations - made))
        run = converge(model, data, start, None, *numbers, longest=jnp.asarray(longest))
        made += int(run.steps)
        if not bool(run.diverged) or made >= iterations:
            break
    return run._replace(steps=jnp.asarray(made))


@filter_jit
def converge(model: Model, data: Data, run: Iterated, damping, tolerance, iterations, longest: Any = 1.0) -> Iterated:
    """Iterate until a fixed point is reached to ``tolerance``, the run diverges, or ``iterations`` are made.

    Without a ``damping`` (None) it is found on the way, with steps up to ``longest``. A run that does not converge ends
    in the state that an iteration changed least; in its start, if each changed all of it.
    """
    floor = _floor(model, data)

    def onward(s: Settling) -> Settling:
        state, to = s.run.state, _proposed(model, data, s.run.state)
        move, step = to.mean - state.a, s.step
        if damping is None:
            weight = 1 / jnp.maximum(to.variance, floor)
            turned = jnp.sum(weight * move * s.move) < -TURN * jnp.sum(weight * jnp.square(s.move))
            step = jnp.where(turned, jnp.maximum(step / 2, SHORTEST), jnp.minimum(step * GROWTH, longest))
        new, info = _mixed(model, data, state, to, 1 - step if damping is None else damping)
        run = _taken(s.run, new, info)
        if damping is None:  # too long a step is tried again at half its length
            again = ~info.sound & (step > SHORTEST)
            run = run._replace(diverged=run.diverged & ~again, steps=run.steps + again)
            step = jnp.where(again, step / 2, step)
        calmer = info.sound & (info.change < s.least)
        calm = jax.tree.map(lambda x, old: jnp.where(calmer, x, old), run.state, s.calm)
        return Settling(run, step, jnp.where(info.sound, move, s.move), calm, jnp.where(calmer, info.change, s.least))

    def going(s: Settling) -> jax.Array:
        return ~(s.run.converged(tolerance) | s.run.diverged) & (s.run.steps < iterations)

    one, first = jnp.asarray(1.0), jnp.asarray(longest)
    end = jax.lax.while_loop(going, onward, Settling(run, first, jnp.zeros_like(run.state.a), run.state, one))
    there = end.run.converged(tolerance)
    return end.run._replace(state=jax.tree.map(lambda x, calm: jnp.where(there, x, calm), end.run.state, end.calm))


def _times(left: jax.Array, right: jax.Array) -> jax.Array:
    """A product with the matrix in the matrix's type, given back in float64."""
    dtype = left.dtype if left.ndim == 2 else right.dtype
    return (left.astype(dtype) @ right.astype(dtype)).astype(float)


def _norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(jnp.square(x)))
