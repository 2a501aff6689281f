"""Random laws that JAX does not have, or not fast enough inside a compiled loop."""

import jax
import jax.numpy as jnp

__all__ = ["chi_square", "wishart"]


def chi_square(key: jax.Array, degrees, shape: tuple[int, ...] = ()) -> jax.Array:
    r"""Exact draws of :math:`\chi^2_n`, n = ``degrees`` >= 0 (a traced number or array is allowed; 0 gives 0).

    Marsaglia and Tsang's squeeze for the gamma law of shape n/2, all lanes at once until every lane has accepted;
    a lane is accepted with probability above 0.95, so one or two rounds are enough. Shapes below one are drawn at
    shape + 1 and multiplied by u**(1/shape).
    """
    a = jnp.broadcast_to(jnp.asarray(degrees, float) / 2, shape)
    positive = a > 0
    safe = jnp.where(positive, a, 1.0)
    boosted = jnp.where(safe < 1, safe + 1, safe)
    scale = boosted - 1 / 3
    c = 1 / jnp.sqrt(9 * scale)

    def attempt(key):
        key_x, key_u = jax.random.split(key)
        x = jax.random.normal(key_x, shape)
        v = (1 + c * x) ** 3
        log_u = jnp.log1p(-jax.random.uniform(key_u, shape))
        inside = jnp.where(v > 0, v, 1.0)
        accept = (v > 0) & (log_u < x**2 / 2 + scale * (1 - inside + jnp.log(inside)))
        return accept, scale * inside

    def body(state):
        key, done, value = state
        key, use = jax.random.split(key)
        accept, proposal = attempt(use)
        return key, done | accept, jnp.where(done, value, proposal)

    key, key_boost = jax.random.split(key)
    start = (key, jnp.zeros(shape, bool), jnp.zeros(shape))
    value = jax.lax.while_loop(lambda s: ~jnp.all(s[1]), body, start)[2]
    boost = jnp.exp(jnp.log1p(-jax.random.uniform(key_boost, shape)) / safe)
    return jnp.where(positive, 2 * value * jnp.where(safe < 1, boost, 1.0), 0.0)


def wishart(key: jax.Array, p: int, degrees) -> jax.Array:
    r"""One draw of G G^T, G of shape (p, n) with standard normal entries, n = ``degrees`` (any real n >= p - 1).

    Bartlett's factor: a triangular matrix with normal entries below and chi variables of n, n-1, ... degrees on
    the diagonal, so that the cost does not depend on n. For a whole n < p the later diagonal entries are zero
    and the rank is n, as it must be.
    """
    key_n, key_c = jax.random.split(key)
    left = jnp.maximum(degrees - jnp.arange(p), 0.0)
    diagonal = jnp.sqrt(chi_square(key_c, left, (p,)))
    below = jnp.tril(jax.random.normal(key_n, (p, p)), -1)
    # Columns beyond the degrees of freedom are absent when n < p.
    below = jnp.where(jnp.arange(p)[None, :] < degrees, below, 0.0)
    L = below + jnp.diag(diagonal)
    return L @ L.T
