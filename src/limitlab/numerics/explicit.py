"""An explicit integrator of order 8 that compiles the drift once.

The tableau is that of `diffrax.Dopri8`. A general solver writes the drift into the program several times, which for
the drifts here is most of the time to the first result; this loop has it once, inside a loop over the stages.
"""

from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["OK", "RAN_AWAY", "STALLED", "TOO_MANY", "March", "march"]

OK, RAN_AWAY, TOO_MANY, STALLED = 0, 1, 2, 3
SAFETY, SLOWEST, FASTEST = 0.9, 0.2, 10.0
SMALLEST = 1e-16  # a step below it is a failure


def _tableau() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the stages, weights of the solution and of the error; the last stage only serves the next step."""
    table = diffrax.Dopri8.tableau
    count = len(table.b_sol) - 1
    rows = np.zeros((count, count))
    for i, row in enumerate(table.a_lower[: count - 1]):
        rows[i + 1, : len(row)] = row
    return rows, np.asarray(table.b_sol[:count]), np.asarray(table.b_error[:count])


class March(NamedTuple):
    """Where the integration is: time, state, next step, values at the times passed, how it stands."""

    t: jax.Array
    y: jax.Array
    h: jax.Array
    seen: jax.Array  # number of asked times passed
    values: jax.Array  # (times, state)
    steps: jax.Array
    code: jax.Array


def march(drift, y0: jax.Array, t0, times: jax.Array, rtol, atol, bound, first_step, max_steps) -> March:
    """Solve dy/dt = drift(y) from t0 through the asked times, each of which ends a step."""
    rows, weights, error_weights = map(jnp.asarray, _tableau())
    count, last = len(weights), len(times)

    def stage(i, carry):
        y, h, K = carry
        return y, h, K.at[i].set(drift(y + h * (rows[i] @ K)))

    def step(now: March) -> March:
        left = times[now.seen] - now.t
        lands = now.h >= left * (1 - 1e-12)
        h = jnp.where(lands, left, now.h)
        _, _, K = jax.lax.fori_loop(0, count, stage, (now.y, h, jnp.zeros((count, now.y.size))))
        y = now.y + h * (weights @ K)
        scale = atol + rtol * jnp.maximum(jnp.abs(now.y), jnp.abs(y))
        error = jnp.sqrt(jnp.mean(jnp.square(h * (error_weights @ K) / scale)))
        sound = jnp.all(jnp.isfinite(y)) & jnp.isfinite(error)
        factor = jnp.where(sound, SAFETY * jnp.maximum(error, 1e-30) ** (-1 / 8), SLOWEST)
        accept = sound & (error <= 1)
        runaway = accept & (jnp.max(jnp.abs(y)) > bound)
        # A step cut short to land says little about the next one: the step before it is kept if it was longer.
        grown = h * jnp.clip(factor, SLOWEST, jnp.where(accept, FASTEST, 1.0))
        after = jnp.where(accept & lands, jnp.maximum(grown, now.h), grown)
        t = jnp.where(accept, jnp.where(lands, times[now.seen], now.t + h), now.t)
        stuck = ~accept & (h < SMALLEST)
        code = jnp.where(runaway, RAN_AWAY, jnp.where(stuck, STALLED, OK))
        code = jnp.where((code == OK) & (now.steps + 1 >= max_steps), TOO_MANY, code)
        values = now.values.at[now.seen].set(jnp.where(accept & lands, y, now.values[now.seen]))
        seen = now.seen + (accept & lands & ~runaway)
        # Times that are asked twice (or lie before t0) are passed without a step.
        y = jnp.where(accept, y, now.y)
        return March(t, y, after, seen, values, now.steps + 1, jnp.where(seen >= last, OK, code))

    def passed(now: March) -> March:
        values = now.values.at[now.seen].set(now.y)
        return now._replace(seen=now.seen + 1, values=values)

    def body(now: March) -> March:
        return jax.lax.cond(times[jnp.minimum(now.seen, last - 1)] <= now.t, passed, step, now)

    start = March(
        jnp.asarray(t0, float),
        y0,
        jnp.asarray(first_step, float),
        jnp.zeros((), int),
        jnp.full((last, y0.size), jnp.nan),
        jnp.zeros((), int),
        jnp.zeros((), int),
    )
    return jax.lax.while_loop(lambda now: (now.seen < last) & (now.code == OK), body, start)
