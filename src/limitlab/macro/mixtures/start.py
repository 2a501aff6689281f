r"""Clouds of units in d dimensions drawn from the law of the start, with little noise.

There are two clouds, independent of each other: the product of their outputs has no bias from the noise of either,
:math:`E[f_A f_B] = (E f)^2`. In a cloud each unit comes with its mirror image (a, b, -w). Norms, second layer and
biases are stratified: one of each in every quantile of its law, matched at random; directions are random.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaincinv, ndtri

from limitlab.problems.problem import Problem
from limitlab.problems.starts import RandomStart

__all__ = ["Cloud", "draw_clouds"]


class Cloud(NamedTuple):
    """Units: second layer a (..., images, m), biases b (..., images, m), theta = w/sqrt(d) (..., images, m, d).

    Units of the same index m are mirror images at the start; ``images`` is 1 if the second ones need not be held
    because they stay so. A leading axis of 2 is that of the independent clouds.
    """

    a: Any
    b: Any
    theta: Any


def draw_clouds(problem: Problem, d: int, pairs: int, images: int, seed: int) -> Cloud:
    """Two clouds of so many pairs at time 0, with or without the second image of each."""
    clouds = [_draw(problem, d, pairs, key) for key in jax.random.split(jax.random.fold_in(jax.random.key(seed), 5))]
    a, b, theta = (np.stack(x)[:, None] for x in zip(*clouds, strict=True))
    signs = np.array([1.0, -1.0])[:images, None, None]
    a, b = (jnp.asarray(np.broadcast_to(x, (2, images, pairs))) for x in (a, b))
    return Cloud(a, b, jnp.asarray(signs * theta))


def _draw(problem: Problem, d: int, pairs: int, key: jax.Array) -> tuple[np.ndarray, ...]:
    student, start = problem.student, problem.start
    assert student is not None and isinstance(start, RandomStart)
    keys = jax.random.split(key, 4)
    direction = np.asarray(jax.random.normal(keys[0], (pairs, d)))
    direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
    norm = np.ones(pairs) if start.sphere else np.sqrt(2 * gammaincinv(d / 2, _strata(keys[1], pairs)) / d)
    a = _second_layer(student.output_weights, start.second_layer, _strata(keys[2], pairs))
    b = np.zeros(pairs)
    if student.bias == "trained":
        b = float(start.bias_scale) * ndtri(_strata(keys[3], pairs))
    return a, b, float(start.scale) * norm[:, None] * direction


def _strata(key: jax.Array, count: int) -> np.ndarray:
    """One uniform number in each of ``count`` equal intervals, in random order."""
    key_u, key_order = jax.random.split(key)
    inside = np.asarray(jax.random.uniform(key_u, (count,), minval=1e-12))
    return (np.asarray(jax.random.permutation(key_order, count)) + inside) / count


def _second_layer(given: np.ndarray | None, law: str, u: np.ndarray) -> np.ndarray:
    """The quantiles u of the law of a."""
    if given is not None:
        return np.sort(given)[np.minimum((u * len(given)).astype(int), len(given) - 1)]
    if law == "rademacher":
        return np.where(u < 0.5, -1.0, 1.0)
    if law == "uniform":
        return 2 * u - 1
    return ndtri(u) if law == "gaussian" else np.ones_like(u)
