"""One data set of a generalised linear model: a teacher, inputs and labels."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from limitlab.errors import InputError
from limitlab.problems.channels.base import AbstractChannel
from limitlab.problems.inputs import AbstractInputs, Gaussian, Hypercube
from limitlab.problems.networks import SingleIndex
from limitlab.problems.priors import AbstractPrior, GaussianPrior
from limitlab.problems.problem import Problem

__all__ = ["DRAW_KEY", "GLMData", "check_glm", "draw_glm", "replica_key"]


DRAW_KEY = 0  # of the data set, below the key of a replica; rules have others for what they draw themselves


class GLMData(NamedTuple):
    """Teacher weights w (d,), inputs X (n, d) with entries of variance 1/d, labels y (n,)."""

    teacher: jax.Array
    X: jax.Array
    y: jax.Array


def replica_key(seed: int, replica: int) -> jax.Array:
    """The key of one replica: it depends on nothing else, so more replicas leave the first ones as they were."""
    return jax.random.fold_in(jax.random.key(seed), replica)


def check_glm(by: str, problem: Problem, d: int) -> int:
    """The number of samples n = alpha d, or `InputError` if the problem is not a generalised linear model."""
    if not isinstance(problem.teacher, SingleIndex):
        raise InputError(
            f"{by} needs a single direction with a prior (Problem.teacher=SingleIndex(prior=...)); "
            f"got {problem.teacher!r}."
        )
    if not isinstance(problem.inputs, (Gaussian, Hypercube)):
        raise InputError(f"{by} needs independent inputs, Gaussian() or Hypercube(); got {problem.inputs!r}.")
    if problem.sample_ratio is None:
        raise InputError(
            f"{by} needs a fixed data set (Problem.sample_ratio = n/d); got sample_ratio=None, which means a fresh "
            "sample at every step. Add sample_ratio=2.0, say."
        )
    n = round(float(problem.sample_ratio) * d)
    if n < 1:
        raise InputError(
            f"{by} needs at least one sample; sample_ratio={problem.sample_ratio} at d={d} gives none. Use a larger d."
        )
    return n


def draw_glm(
    inputs: AbstractInputs, prior: AbstractPrior, channel: AbstractChannel, key: jax.Array, n: int, d: int, dtype
) -> GLMData:
    r"""Draw w ~ prior, x ~ inputs, y ~ channel(x . w).

    A Gaussian teacher is put on the sphere :math:`|w|^2 = \rho d`: its direction is independent of its norm, so this
    only removes the O(d^{-1/2}) scatter of the norm. Other priors are left alone: scaling would change the law of
    their entries (+-1 weights have the right norm anyway).
    """
    teacher_key, input_key, label_key = (jax.random.fold_in(key, i) for i in range(3))
    w = prior.sample(teacher_key, (d,))
    if isinstance(prior, GaussianPrior):
        w = w * jnp.sqrt(prior.second_moment * d / jnp.sum(jnp.square(w)))
    if isinstance(inputs, Hypercube):
        X = jax.random.rademacher(input_key, (n, d), dtype) / jnp.sqrt(jnp.asarray(d, dtype))
    else:
        X = jax.random.normal(input_key, (n, d), dtype) / jnp.sqrt(jnp.asarray(d, dtype))
    return GLMData(w, X, channel.sample(label_key, X @ w.astype(dtype)))
