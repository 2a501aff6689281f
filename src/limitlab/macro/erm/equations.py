r"""The fixed-point equations of convex empirical risk minimisation, solved by continuation.

.. math::
    \hat m = \alpha E[f_0 g], \quad \hat q = \alpha E[g^2], \quad \hat V = -\alpha E[\partial_\omega g], \qquad
    m = \rho \hat m V, \quad q - m^2/\rho = \hat q V^2, \quad V = 1/(\lambda + \hat V)

with g = (prox - omega)/V. Unknowns are x = (arcsinh t, log sigma, log V), t = m/(sqrt(rho) sigma), sigma^2 =
q - m^2/rho. A strong penalty is easy; from there the solution is followed, by tangents and Newton
steps, to the penalty that was asked for. (Max margin has no penalty: it is followed from few samples to many.)

With a spectrum the second half is a sum over modes (`limitlab.macro.erm.spectral`); the first stays as it is.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from limitlab.macro.erm.spectral import Law
from limitlab.modules import filter_jit
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.losses import AbstractConvexLoss
from limitlab.problems.population import errors, response
from limitlab.problems.predictor import Predictor

__all__ = ["TOLERANCE", "Solution", "residual", "solve_lanes"]

TOLERANCE = 1e-10  # of the residual, relative in sigma and V
LOOSE = 1e-3  # of the residual along the path
POWER = 8  # the penalty falls like (1 - s)^POWER along the path
FEW = 0.02  # samples per dimension where max margin starts
MAX_STEPS = 1000


class Solution(NamedTuple):
    """The predictor, V, its conjugates, its errors, and the residual of the equations."""

    m: jax.Array
    q: jax.Array
    sigma: jax.Array
    V: jax.Array
    m_hat: jax.Array
    q_hat: jax.Array
    V_hat: jax.Array
    train_loss: jax.Array
    errors: dict[str, jax.Array]
    residual: jax.Array
    steps: jax.Array


def _unpack(x: jax.Array, rho) -> tuple[Predictor, jax.Array]:
    return Predictor(jnp.sinh(x[0]), jnp.exp(x[1]), rho), jnp.exp(x[2])


def _new(channel, loss, x, alpha, penalty, rho, law: Law | None = None) -> jax.Array:
    """One round of the equations: x from its conjugates."""
    p, V = _unpack(x, rho)
    f, g, bend, _ = response(channel, loss, p, V, channel.blind(loss))
    if law is not None:
        m, sigma, V = law.order(alpha * f, alpha * g, alpha * bend, penalty, rho)
        return jnp.stack([jnp.arcsinh(m / (jnp.sqrt(rho) * sigma)), jnp.log(sigma), jnp.log(V)])
    log_V = -jnp.log(penalty + alpha * bend)
    log_sigma = jnp.log(alpha * g) / 2 + (x[2] if loss.hard else log_V)
    ratio = jnp.sqrt(rho) * alpha * f / jnp.sqrt(alpha * g)
    return jnp.stack([jnp.arcsinh(ratio), log_sigma, log_V])


def residual(channel, loss, x, alpha, penalty, rho, law: Law | None = None) -> jax.Array:
    """x minus what the equations make of it."""
    return x - _new(channel, loss, x, alpha, penalty, rho, law)


def _path(loss, s, alpha, penalty, largest):
    """(alpha, penalty) at s in [0, 1]."""
    if loss.hard:
        first = jnp.minimum(alpha, FEW)
        return first * (alpha / first) ** s, jnp.ones_like(penalty)
    first = jnp.maximum(penalty, 10 * (1 + alpha) * largest)
    return alpha, penalty + (first - penalty) * (1 - s) ** POWER


def _start(loss, alpha, penalty, largest):
    """A rough first point: with a strong penalty, or few samples, the equations hardly depend on x."""
    alpha, penalty = _path(loss, jnp.zeros(()), alpha, penalty, largest)
    return jnp.stack([jnp.asarray(0.1), jnp.log(alpha + 1e-3) / 2 - jnp.log(penalty), -jnp.log(penalty)])


class _Walk(NamedTuple):
    """Where the continuation stands: the last good point and its tangent, and the point being corrected."""

    good: jax.Array
    tangent: jax.Array
    s: jax.Array
    x: jax.Array
    to: jax.Array
    h: jax.Array
    tries: jax.Array
    size: jax.Array
    steps: jax.Array
    done: jax.Array


def _follow(channel: AbstractChannel, loss: AbstractConvexLoss, alpha, penalty, rho, law: Law | None) -> _Walk:
    """From s = 0 to s = 1, one Newton step (three derivatives and the slope in s) per round.

    Arrays of cases are followed side by side, each until it is there: the loop is around all of them, since a loop for
    each under `vmap` is traced several times over.
    """
    largest = 1.0 if law is None else jnp.max(law.c)

    def turn(at: _Walk, alpha, penalty, rho) -> _Walk:
        def equations(x, s):
            r = residual(channel, loss, x, *_path(loss, s, alpha, penalty, largest), rho, law)
            return r, r

        (J, slope), r = jax.jacfwd(equations, argnums=(0, 1), has_aux=True)(at.x, at.to)
        both = jnp.linalg.solve(J, -jnp.stack([r, slope], axis=1))
        step, tangent = both[:, 0], both[:, 1]
        step = step * jnp.minimum(1.0, 2.0 / jnp.maximum(jnp.max(jnp.abs(step)), 1e-300))
        size = jnp.max(jnp.abs(r))
        finite = jnp.isfinite(size) & jnp.all(jnp.isfinite(both))
        last = at.to >= 1
        # At the end go on until the residual is nothing, or has come down to rounding and falls no more.
        settled = (size < 0.01 * TOLERANCE) | ((size < TOLERANCE) & (size > 0.3 * at.size))
        good = finite & jnp.where(last, settled, size < LOOSE)
        bad = ~finite | (
            ~good
            & ((at.tries >= jnp.where(last | (at.to <= 0), 20, 4)) | ((at.tries == 0) & (size > 1.0) & (at.s > 0)))
        )
        done = good & last
        h = jnp.where(bad, at.h / 4, jnp.where(good & (at.tries <= 1), 2 * at.h, at.h))
        point = jnp.where(good, at.x + jnp.where(done, 0.0, 1.0) * step, at.good)
        tangent, s = jnp.where(good, tangent, at.tangent), jnp.where(good, at.to, at.s)
        to = jnp.where(good | bad, jnp.minimum(1.0, s + h), at.to)
        x = jnp.where(good | bad, point + tangent * (to - s), at.x + step)
        tries = jnp.where(good | bad, 0, at.tries + 1)
        new = _Walk(point, tangent, s, x, to, h, tries, size, at.steps + 1, done)
        on = goes_on(at)
        return jax.tree.map(lambda a, b: jnp.where(on, a, b), new, at)

    def begin(alpha, penalty) -> _Walk:
        x = _start(loss, alpha, penalty, largest)
        zero, one = jnp.zeros(()), jnp.asarray(0)
        return _Walk(x, jnp.zeros(3), zero, x, zero, zero + 0.1, one, zero + jnp.inf, one, zero > 1)

    def goes_on(at: _Walk) -> jax.Array:
        return ~at.done & (at.h > 1e-7) & (at.steps < MAX_STEPS)

    if jnp.ndim(alpha):
        turn, begin = jax.vmap(turn), jax.vmap(begin)
    start = begin(alpha, penalty)
    return jax.lax.while_loop(lambda at: jnp.any(goes_on(at)), lambda at: turn(at, alpha, penalty, rho), start)


def _solve_one(channel: AbstractChannel, loss: AbstractConvexLoss, end: _Walk, alpha, rho) -> Solution:
    p, V = _unpack(end.good, rho)
    blind = channel.blind(loss)
    if blind:  # m = 0 by symmetry, not by rounding
        p = p._replace(t=jnp.zeros_like(p.t))
    f, g, bend, train = response(channel, loss, p, V, blind)
    train = jnp.zeros(()) if loss.hard else train  # not by rounding on the wrong side of the margin
    size = jnp.where(end.done, end.size, jnp.inf)
    paid = errors(channel, loss, p, blind)
    return Solution(p.m, p.q, p.sigma, V, alpha * f, alpha * g, alpha * bend, train, paid, size, end.steps)


@filter_jit
def solve_lanes(
    channel: AbstractChannel, loss: AbstractConvexLoss, alpha, penalty, rho, law: Law | None = None
) -> Solution:
    """The solutions for arrays of sample ratios, penalties and teacher norms, all in one call."""
    if channel.on_a_line:
        end = _follow(channel, loss, alpha, penalty, rho, law)
        return jax.vmap(lambda end, alpha, rho: _solve_one(channel, loss, end, alpha, rho))(end, alpha, rho)

    # Two-dimensional laws: one after the other, or their nodes fill the memory.
    def alone(case):
        alpha, penalty, rho = case
        return _solve_one(channel, loss, _follow(channel, loss, alpha, penalty, rho, law), alpha, rho)

    return jax.lax.map(alone, (alpha, penalty, rho))
