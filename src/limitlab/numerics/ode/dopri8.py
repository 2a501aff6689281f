"""An explicit integrator of order 8 that compiles the drift once.

The pair of orders 8 and 7 of Prince and Dormand (1981) in 13 stages, as in `diffrax.Dopri8`. A general solver
writes the drift into the program several times, which for the drifts here is most of the time to the first result; this
loop has it once, inside a loop over the stages.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["OK", "RAN_AWAY", "SMALLEST", "STALLED", "TOO_MANY", "March", "begun", "march", "march_many"]

OK, RAN_AWAY, TOO_MANY, STALLED = 0, 1, 2, 3
SAFETY, SLOWEST, FASTEST = 0.9, 0.2, 10.0
SMALLEST = 1e-16  # a step below it is a failure
# Rows of the stages after the first; then the weights of the solution, and those of the error.
TABLEAU = """
0.05555555555555555
; 0.020833333333333332 0.0625
; 0.03125 0 0.09375
; 0.3125 0 -1.171875 1.171875
; 0.0375 0 0 0.1875 0.15
; 0.04791013711111111 0 0 0.11224871277777777 -0.02550567377777778 0.012846823888888888
; 0.01691798978729228 0 0 0.3878482784860432 0.03597736985150033 0.19697021421566607 -0.17271385234050185
; 0.0690957533591923 0 0 -0.6342479767288541 -0.16119757522460407 0.13865030945882525 0.9409286140357562
    0.21163632648194397
; 0.1835569968390454 0 0 -2.4687680843155926 -0.29128688781630047 -0.026473020233117376 2.8478387641928005
    0.2813873314698498 0.12374489986331466
; -1.2154248173958881 0 0 16.672608665945774 0.915741828416818 -6.056605804357471 -16.00357359415618
    14.849303086297663 -13.371575735289849 5.134182648179638
; 0.25886091643826425 0 0 -4.774485785489205 -0.4350930137770325 -3.0494833320722416 5.5779200399360995
    6.15583158986104 -5.062104586736939 2.193926173180679 0.13462799865933495
; 0.8224275996265075 0 0 -11.658673257277664 -0.7576221166909362 0.7139735881595816 12.075774986890057
    -2.127659113920403 1.9901662070489554 -0.23428647154404028 0.17589857770794226 0
; 0.041747491141530244 0 0 0 0 -0.05545232861123931 0.2393128072011801 0.703510669403443 -0.7597596138144609
    0.6605630309222863 0.15818748251012332 -0.2381095387528628 0.25
; 0.012194277465176744 0 0 0 0 0.7731539478765578 -0.07192809284993823 -1.763834521196444 1.787182038027448
    -0.7829855527544889 0.07877188662899604 -0.28255398319730723 0.25
"""


def _tableau() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the stages, weights of the solution and of the error."""
    *stages, weights, errors = ([float(x) for x in row.split()] for row in TABLEAU.split(";"))
    rows = np.zeros((len(weights), len(weights)))
    for i, row in enumerate(stages):
        rows[i + 1, : len(row)] = row
    return rows, np.asarray(weights), np.asarray(errors)


class March(NamedTuple):
    """Where the integration is: time, state, next step, values at the times passed, how it stands."""

    t: jax.Array
    y: jax.Array
    h: jax.Array
    seen: jax.Array  # number of asked times passed
    values: jax.Array  # (times, state)
    steps: jax.Array
    code: jax.Array


def _length(now: March, times: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The next step, and whether it ends on the next asked time."""
    left = times[now.seen] - now.t
    lands = now.h >= left * (1 - 1e-12)
    return jnp.where(lands, left, now.h), lands


def _judge(now: March, times, h, lands, y, wrong, rtol, atol, bound, max_steps, spare=0) -> tuple[March, Any]:
    """The state after a step of length h to y with the error ``wrong``, and whether it came to an asked time."""
    scale = atol + rtol * jnp.maximum(jnp.abs(now.y), jnp.abs(y))
    error = jnp.sqrt(jnp.mean(jnp.square(wrong / scale)))
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
    code = jnp.where((code == OK) & (now.steps + 1 >= max_steps + spare * now.seen), TOO_MANY, code)
    seen = now.seen + (accept & lands & ~runaway)
    y = jnp.where(accept, y, now.y)
    # Of the type that it had at the start: a weak one would have the next piece traced and compiled once more.
    code = jnp.where(seen >= len(times), OK, code).astype(now.code.dtype)
    return now._replace(t=t, y=y, h=after, seen=seen, steps=now.steps + 1, code=code), accept & lands


def march(drift, start: March, times: jax.Array, rtol, atol, bound, max_steps, pause=None, spare: Any = 0) -> March:
    """Solve dy/dt = drift(y) through the asked times, each of which ends a step.

    It stops after ``pause`` steps in all, if that is given, with what it needs to go on as if it had not. Every asked
    time that it has come to allows ``spare`` steps more than ``max_steps``.
    """
    rows, weights, error_weights = map(jnp.asarray, _tableau())
    count, last = len(weights), len(times)

    def stage(i, carry):
        y, h, K = carry
        return y, h, jax.lax.dynamic_update_index_in_dim(K, drift(y + h * (rows[i] @ K)), i, 0)

    def step(now: March) -> March:
        h, lands = _length(now, times)
        _, _, K = jax.lax.fori_loop(0, count, stage, (now.y, h, jnp.zeros((count, now.y.size))))
        y, wrong = now.y + h * (weights @ K), h * (error_weights @ K)
        new, here = _judge(now, times, h, lands, y, wrong, rtol, atol, bound, max_steps, spare)
        return new._replace(values=now.values.at[now.seen].set(jnp.where(here, y, now.values[now.seen])))

    def passed(now: March) -> March:
        values = now.values.at[now.seen].set(now.y)
        return now._replace(seen=now.seen + 1, values=values)

    def body(now: March) -> March:
        # Times that are asked twice (or lie before t0) are passed without a step.
        return jax.lax.cond(times[jnp.minimum(now.seen, last - 1)] <= now.t, passed, step, now)

    def going(now: March) -> jax.Array:
        on = (now.seen < last) & (now.code == OK)
        return on if pause is None else on & (now.steps < pause)

    return jax.lax.while_loop(going, body, start)


def march_many(drift, y0: jax.Array, times: jax.Array, rtol, atol, bound, first_step, max_steps) -> March:
    """As `march` from time 0 for all rows of y0 (lanes, state) side by side: ``drift`` takes and gives all rows.

    Every row has its own steps and tolerances, and does not depend on the others.
    """
    rows, weights, error_weights = map(jnp.asarray, _tableau())
    count, last = len(weights), len(times)

    def combined(w: jax.Array, K: jax.Array) -> jax.Array:
        # One product with a vector: as a sum it would be computed again at every use, deep inside the drift.
        return (w @ K.reshape(count, -1)).reshape(K.shape[1:])

    def stage(i, carry):
        y, h, K = carry
        return y, h, jax.lax.dynamic_update_index_in_dim(K, drift(y + h * combined(rows[i], K)), i, 0)

    def running(now: March) -> jax.Array:
        return (now.seen < last) & (now.code == OK)

    def body(now: March) -> March:
        going, next_time = running(now), jnp.minimum(now.seen, last - 1)
        ahead = now._replace(seen=next_time)
        h, lands = jax.vmap(_length, (0, None))(ahead, times)
        _, _, K = jax.lax.fori_loop(0, count, stage, (now.y, h[:, None], jnp.zeros((count, *now.y.shape))))
        y, wrong = now.y + h[:, None] * combined(weights, K), h[:, None] * combined(error_weights, K)
        judge = jax.vmap(_judge, (0, None, 0, 0, 0, 0, 0, 0, None, None))
        new, here = judge(ahead, times, h, lands, y, wrong, rtol, atol, bound, max_steps)
        due = times[next_time] <= now.t
        new = _choose(due, now._replace(seen=now.seen + 1), new)
        write = (going & (due | here))[:, None] & (jnp.arange(last) == next_time[:, None])
        values = jnp.where(write[:, :, None], jnp.where(due[:, None], now.y, y)[:, None], now.values)
        return _choose(going, new, now)._replace(values=values)

    start = jax.vmap(begun, (0, None, None, None))(y0, 0.0, first_step, last)
    return jax.lax.while_loop(lambda now: jnp.any(running(now)), body, start)


def _choose(which: jax.Array, yes: March, no: March) -> March:
    """Rows of one or the other, the values at the asked times left out."""

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(which.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, yes._replace(values=no.values), no)


def begun(y0: jax.Array, t0, first_step, last: int) -> March:
    """Before the first step, ``last`` times ahead."""
    return March(
        jnp.asarray(t0, float),
        y0,
        jnp.asarray(first_step, float),
        jnp.zeros((), int),
        jnp.full((last, y0.size), jnp.nan),
        jnp.zeros((), int),
        jnp.zeros((), int),
    )
