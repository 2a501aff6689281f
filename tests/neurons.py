"""Clouds of neurons that tests choose, for `HighDimMeanField`."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from limitlab.macro.committees.particles import Cloud, cloud_risk, drift

__all__ = ["GRAM", "draw", "gap", "jit_drift", "jit_risk"]

GRAM = np.array([[1.2, 0.3], [0.3, 0.8]])  # of the teachers
jit_drift, jit_risk = eqx.filter_jit(drift), eqx.filter_jit(cloud_risk)


def draw(p=3, k=2, seed=0) -> Cloud:
    rng = np.random.default_rng(seed)
    m, q, a = 0.5 * rng.normal(size=(p, k)), rng.uniform(0.3, 1.2, p), rng.uniform(-1, 2, p)
    return Cloud(jnp.asarray(m), jnp.asarray(q), jnp.asarray(a))


def gap(one: Cloud, two: Cloud) -> float:
    return max(float(jnp.max(jnp.abs(x - y))) for x, y in zip(one, two, strict=True))
