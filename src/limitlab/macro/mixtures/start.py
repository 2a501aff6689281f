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

from limitlab.algorithms.settings.one_pass import LabelledOnePass
from limitlab.numerics.keys import Stream, root
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
    clouds = [_draw(setting, d, pairs, key) for key in jax.random.split(root(seed, Stream.CLOUD))]
    a, b, theta = (np.stack(x)[:, None] for x in zip(*clouds, strict=True))
    signs = np.array([1.0, -1.0])[:images, None, None]
    a, b = (jnp.asarray(np.broadcast_to(x, (2, images, pairs))) for x in (a, b))
    return Units(a, b, jnp.asarray(signs * theta))


def _draw(setting: LabelledOnePass, d: int, pairs: int, key: jax.Array) -> tuple[np.ndarray, ...]:
    neurons = setting.neurons
    keys = jax.random.split(key, 4)
    direction = np.asarray(jax.random.normal(keys[0], (pairs, d)))
    direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
    norm = np.ones(pairs) if neurons.sphere else np.sqrt(2 * gammaincinv(d / 2, _strata(keys[1], pairs)) / d)
    a = _second_layer(neurons, _strata(keys[2], pairs))
    b = np.zeros(pairs)
    if setting.biased:
        b = float(neurons.bias_scale) * ndtri(_strata(keys[3], pairs))
    return a, b, float(neurons.scale) * norm[:, None] * direction


def _strata(key: jax.Array, count: int) -> np.ndarray:
    """One uniform number in each of ``count`` equal intervals, in random order."""
    key_u, key_order = jax.random.split(key)
    inside = np.asarray(jax.random.uniform(key_u, (count,), minval=1e-12))
    return (np.asarray(jax.random.permutation(key_order, count)) + inside) / count


def _second_layer(neurons: Neurons, u: np.ndarray) -> np.ndarray:
    """The quantiles u of the law of a."""
    given, law = neurons.given, neurons.layer
    if given is not None:
        return np.sort(given)[np.minimum((u * len(given)).astype(int), len(given) - 1)]
    scale = float(neurons.layer_scale)
    if law == "rademacher":
        return np.where(u < 0.5, -scale, scale)
    if law == "uniform":
        return scale * (2 * u - 1)
    return scale * ndtri(u) if law == "gaussian" else np.full_like(u, scale)
