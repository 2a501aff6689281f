"""One increment of the overlaps as the diffusion sees it: its mean, its covariance, and those of real steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import stepping
from limitlab.macro.overlaps.drift import drift
from limitlab.macro.overlaps.increments import covariance, flatten, increment_sum, sample_rule
from limitlab.numerics.linalg import gram_factor
from limitlab.numerics.trees import as_arrays
from limitlab.states.overlaps import Overlaps, limit_overlaps

__all__ = ["at_start", "closed_path", "closed_sigma", "exact_steps", "mean_increment", "sigma", "slope"]

sigma, slope = eqx.filter_jit(covariance), eqx.filter_jit(drift)


def at_start(problem):
    start = limit_overlaps(problem)
    return start, np.asarray(sigma(as_arrays(problem), start, as_arrays(sample_rule(problem))))


def mean_increment(problem):
    """E[X] over the nodes of the rule."""
    start, rule = limit_overlaps(problem), sample_rule(problem)
    n = start.omega.shape[0]
    s = jnp.asarray(rule.nodes[:, :n]) @ gram_factor(start.omega).T
    total = jax.jit(lambda *args: flatten(increment_sum(problem, start, *args)))
    return np.asarray(total(s, jnp.asarray(rule.nodes[:, n]), jnp.asarray(rule.weights)))


def exact_steps(problem, d, n=200_000):
    """Increments of n independent SGD steps from the limiting start, in units of the clock."""
    start, keys = limit_overlaps(problem), jax.random.split(jax.random.key(0), n)
    state = {name: getattr(start, name) for name in ("Q", "M", "P", "a")}
    after = stepping.one_steps(problem, state, d, keys, columns=len(start.omega))
    seen = jax.jit(jax.vmap(lambda state: flatten(Overlaps(**state))))(after)
    return (np.asarray(seen) - np.asarray(flatten(start))) / problem.algorithm.clock(problem, d)


def closed_sigma(m, gamma, delta):
    """Variance of the projected increment of m for one square, section 4 of the sheet."""
    s2 = 1 - m**2
    b = m * (4 * (1 - 6 * gamma) * s2 - 2 * gamma * delta)
    first = 48 * s2**2 * (1 + 2 * m**2) + 4 * delta * s2
    second = -2 * gamma * m**2 * s2 * (1440 * s2 + 72 * delta)
    third = s2**2 * (31680 - 11520 * m**2) + delta * s2 * (2016 - 576 * m**2) + 36 * delta**2
    return first + second + gamma**2 * m**2 * third - b**2


def closed_path(t, m=0.3, gamma=0.05, delta=0.2):
    """m(t) of the ODE of the projected square, section 3 of the sheet."""
    beta = 4 * (1 - 6 * gamma)
    alpha = beta - 2 * gamma * delta
    growth = np.exp(2 * alpha * t)
    return np.sqrt(alpha * m**2 * growth / (alpha + beta * m**2 * (growth - 1)))
