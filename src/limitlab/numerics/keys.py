"""Named random streams: what a seed is used for, said once.

A key belongs to a seed, a purpose and a replica, and to nothing else: more replicas or times leave the first ones as
they were, and two purposes never share numbers.
"""

import enum
from typing import Any

import jax

__all__ = ["Stream", "folded", "keys_of", "root", "stream"]


class Stream(enum.IntEnum):
    """Purposes. Their numbers are part of every stored result: never change one."""

    START = 0  # overlaps, second layers and biases at time 0, in simulations and predictions alike
    STEPS = 1  # samples, labels and thermal noise of the steps
    FRAME = 2  # the orientation of weights of which only the overlaps are known
    RIDGE = 3  # samples of a ridge fit of the second layer; in predictions, the noise of a stochastic limit
    NOISE = 3
    LOOK = 4  # test points, and random draws of a measurement
    KERNEL = 5  # samples of a kernel method; in predictions, a cloud of units at time 0
    CLOUD = 5
    KICKS = 6  # in predictions: the thermal noise of a cloud
    POOL = 7  # in predictions: the samples on which a cloud is seen


def root(seed: Any, purpose: Stream) -> jax.Array:
    """The key of one purpose, where there are no replicas."""
    return folded(seed, int(purpose))


def stream(seed: Any, purpose: Stream, replica: Any) -> jax.Array:
    """The key of one purpose and replica."""
    return folded(seed, int(purpose), replica)


@jax.jit
def folded(seed: Any, *numbers: Any) -> jax.Array:
    """The key of a seed and of numbers, one folded in after the other; one small program instead of six."""
    key = jax.random.key(seed)
    for number in numbers:
        key = jax.random.fold_in(key, number)
    return key


def keys_of(seed: Any, purpose: Stream, replicas: jax.Array) -> jax.Array:
    """`stream` of several replicas."""
    return jax.vmap(lambda r: stream(seed, purpose, r))(replicas)
