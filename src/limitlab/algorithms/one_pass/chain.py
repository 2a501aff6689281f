r"""One-pass SGD of a committee in overlap space: a Markov chain exact in law, at a cost that does not depend on d.

The update of the overlaps uses the input only through its fields s and its norms, and given Omega their joint law is
known: s = L g with L L^T = Omega and g standard normal in c = min(p + k, d) dimensions, and
x_b . x_b' = (g_b . g_b' + Wishart_{d-c})/d. A vanishing pivot of L only moves a chi-square from one term to the other,
so that no rank needs to be known. Any channel, any loss.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from limitlab.numerics.linalg import gram_factor
from limitlab.numerics.random import chi_square, normal, wishart
from limitlab.states.overlaps import Overlaps
from limitlab.states.run import FIELD_BOUND, OUTPUT_BOUND, Run

__all__ = ["Drawn", "overlaps_drawn", "overlaps_moved"]


def _factor(Omega: jax.Array, columns: int) -> jax.Array:
    """L (p+k, columns) with L L^T = Omega; the leading directions only if there are fewer columns than fields."""
    if columns == Omega.shape[-1]:
        return gram_factor(Omega)
    values, vectors = jnp.linalg.eigh(Omega)
    return vectors[:, -columns:] * jnp.sqrt(jnp.maximum(values[-columns:], 0.0))


class Drawn(NamedTuple):
    """Random numbers of a step: g (batch, columns), d x . x' (batch, batch), and the key of the labels."""

    g: jax.Array
    norms: jax.Array
    key: jax.Array


def overlaps_drawn(columns: int, both: Any, d: jax.Array, run: Run, key: jax.Array, count: int) -> Drawn:
    """The random numbers of so many steps; nothing of the run is looked at."""
    batch = both[0].batch_size
    key_g, key_y, key_h = jax.random.split(key, 3)
    g, labels = normal(key_g, (count, batch, columns)), jax.random.split(key_y, count)
    if batch == 1:
        return Drawn(g, jnp.sum(g**2, axis=-1, keepdims=True) + chi_square(key_h, d - columns, (count, 1, 1)), labels)
    rest = jax.vmap(lambda key: wishart(key, batch, d - columns))(jax.random.split(key_h, count))
    return Drawn(g, g @ jnp.swapaxes(g, 1, 2) + rest, labels)


def overlaps_moved(columns: int, both: Any, d: jax.Array, run: Run, drawn: Drawn, n: jax.Array) -> Run:
    """Move the overlaps by one step whose law is exactly that of the step in weight space.

    ``both`` is (rule, setting): `OnlineSGD` without temperature, two committees, normal inputs.
    """
    rule, setting = both
    o = Overlaps(*(run.state[name] for name in ("Q", "M", "P", "a")))
    p, batch, norms = o.Q.shape[0], rule.batch_size, drawn.norms / d
    s = drawn.g @ _factor(o.omega, columns).T
    lam, lam_star = s[:, :p], s[:, p:]
    y = setting.channel.sample(drawn.key, setting.teacher.link(lam_star))
    value_of, slope_of = setting.student.activation.unit_functions()
    value = value_of(lam)
    f = value @ o.a / p
    pull = rule.pull(setting, y, f)
    speed, keep = rule.speed(p * d, n), rule.keep(p * d, n)
    rate = rule.learning_rate * speed / (p * batch)
    C = -rate * o.a * slope_of(lam) * pull[:, None]
    cross = keep * (C.T @ lam)
    Q = keep**2 * o.Q + (cross + cross.T + C.T @ norms @ C) / d
    M = keep * o.M + C.T @ lam_star / d
    if rule.spherical:
        norm = jnp.sqrt(jnp.diagonal(Q))
        Q, M = Q / (norm[:, None] * norm[None, :]), M / norm[:, None]
        Q = Q.at[jnp.diag_indices(p)].set(1.0)
    a = o.a
    if setting.student.second_layer == "trained":
        a = keep * o.a - rule.second_layer_rate * rate / d * (pull @ value)
    sound = (jnp.max(jnp.abs(lam)) < FIELD_BOUND) & (jnp.max(jnp.abs(f)) < OUTPUT_BOUND) & jnp.all(jnp.isfinite(C))
    return run.onward({"Q": Q, "M": M, "P": o.P, "a": a}, sound, n)
