r"""Clouds of units in d dimensions drawn from the law of the start, with little noise.

There are two clouds, independent of each other: the product of their outputs has no bias from the noise of either,
:math:`E[f_A f_B] = (E f)^2`. In a cloud each unit comes with its mirror image (a, b, -w). Norms, second layer and
biases are stratified: one of each in every quantile of its law, matched at random; directions are random.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from limitlab.algorithms.settings.one_pass import LabelledOnePass
from limitlab.modules import filter_jit
from limitlab.numerics.keys import Stream, root
from limitlab.numerics.random import normal
from limitlab.problems.starts.neurons import Neurons

__all__ = ["Units", "draw_clouds"]


class Units(NamedTuple):
    """Units: second layer a (..., images, m), biases b (..., images, m), theta = w/sqrt(d) (..., images, m, d).

    Units of the same index m are mirror images at the start; ``images`` is 1 if the second ones need not be held
    because they stay so. A leading axis of 2 is that of the independent clouds.
    """

    a: Any
    b: Any
    theta: Any


def draw_clouds(setting: LabelledOnePass, d: int, pairs: int, images: int, seed: int) -> Units:
    """Two clouds of so many pairs at time 0, with or without the second image of each."""
    clouds = [
        _draw(setting, d, *draws) for draws in zip(*jax.device_get(_random(np.asarray(seed), pairs, d)), strict=True)
    ]
    a, b, theta = (np.stack(x)[:, None] for x in zip(*clouds, strict=True))
    signs = np.array([1.0, -1.0])[:images, None, None]
    a, b = (np.broadcast_to(x, (2, images, pairs)) for x in (a, b))
    return Units(a, b, signs * theta)


@filter_jit
def _random(seed: np.ndarray, pairs: int, d: int) -> tuple[jax.Array, jax.Array]:
    """Of each cloud the normals of its directions, and strata of norms, second layer and biases."""

    def draws(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(key, 4)
        return normal(keys[0], (pairs, d)), jax.lax.map(lambda other: _strata(other, pairs), keys[1:])

    return jax.lax.map(draws, jax.random.split(root(seed, Stream.CLOUD)))  # a generator is long to write out


def _draw(setting: LabelledOnePass, d: int, normals: np.ndarray, strata: np.ndarray) -> tuple[np.ndarray, ...]:
    from scipy.special import gammaincinv, ndtri

    neurons, pairs = setting.neurons, len(normals)
    direction = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    norm = np.ones(pairs) if neurons.sphere else np.sqrt(2 * gammaincinv(d / 2, strata[0]) / d)
    a = _second_layer(neurons, strata[1])
    b = np.zeros(pairs)
    if setting.biased:
        b = float(neurons.bias_scale) * ndtri(strata[2])
    return a, b, float(neurons.scale) * norm[:, None] * direction


def _strata(key: jax.Array, count: int) -> jax.Array:
    """One uniform number in each of ``count`` equal intervals, in random order."""
    key_u, key_order = jax.random.split(key)
    return (jax.random.permutation(key_order, count) + jax.random.uniform(key_u, (count,), minval=1e-12)) / count


def _second_layer(neurons: Neurons, u: np.ndarray) -> np.ndarray:
    """The quantiles u of the law of a."""
    from scipy.special import ndtri

    given, law = neurons.given, neurons.layer
    if given is not None:
        return np.sort(given)[np.minimum((u * len(given)).astype(int), len(given) - 1)]
    scale = float(neurons.layer_scale)
    if law == "rademacher":
        return np.where(u < 0.5, -scale, scale)
    if law == "uniform":
        return scale * (2 * u - 1)
    return scale * ndtri(u) if law == "gaussian" else np.full_like(u, scale)
