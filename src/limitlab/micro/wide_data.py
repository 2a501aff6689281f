r"""One instance of over-parametrised phase retrieval: its data set, its start, and what is seen of a state.

.. math:: A = WW^T/m, \quad A^* = w^* w^{*T}, \quad D = A - A^*, \qquad
          \mathrm{risk} = \kappa\, E r^2 = \kappa\, \frac{2\,\mathrm{tr} D^2 + (\mathrm{tr} D)^2}{d^2}, \quad
          \mathrm{error} = \frac{|D|_F^2}{|A^*|_F^2}

A state is a factor V (d, r) with A = V V^T. Simulations and predictions draw the same instance from the same seed.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.wide_requirements import loss_prefactor
from limitlab.micro.descent import RUN_KEY
from limitlab.micro.descent_steps import START
from limitlab.micro.glm_data import DRAW_KEY, check_glm, draw_glm, replica_key
from limitlab.numerics.machine import one_thread
from limitlab.numerics.trees import traced
from limitlab.problems.channels import Modulus
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["SUCCESS", "Instance", "draw_instance", "draw_weights", "look", "start_factor", "wide_dataset"]

SUCCESS = 1e-2  # of the relative error: below it the teacher counts as found


class Instance(NamedTuple):
    """Inputs X (n, d), squared labels b (n,), teacher w* (d,)."""

    X: np.ndarray
    b: np.ndarray
    teacher: np.ndarray


@eqx.filter_jit
def _draw(inputs, prior, channel, key, n: int, d: int):
    return draw_glm(inputs, prior, channel, jax.random.fold_in(key, DRAW_KEY), n, d, jnp.float64)


def draw_instance(by: str, problem: Problem, d: int, seed: int, replica: int) -> Instance:
    """The data set of one replica: the one that descent of a single unit and `GAMP` see with the same seed."""
    n = check_glm(by, problem, d)
    prior = traced(problem.teacher.prior)  # type: ignore[union-attr]
    w, X, y = (np.asarray(x) for x in _draw(problem.inputs, prior, problem.channel, replica_key(seed, replica), n, d))
    return Instance(X, np.square(y) if isinstance(problem.channel, Modulus) else y, w)


@eqx.filter_jit
def _normal(key, m: int, d: int):
    return jax.random.normal(jax.random.fold_in(jax.random.fold_in(key, RUN_KEY), START), (m, d))


def draw_weights(problem: Problem, d: int, seed: int, replica: int, width: int) -> np.ndarray:
    """W (width, d) at time 0, one unit a row; a single unit starts where descent of a single unit does."""
    start: Any = problem.start
    W = np.asarray(_normal(replica_key(seed, replica), width, d))
    if start.sphere:
        W = W * np.sqrt(d / np.sum(np.square(W), axis=1, keepdims=True))
    return float(start.scale) * W


def start_factor(problem: Problem, d: int, seed: int, replica: int, width: float) -> np.ndarray:
    r"""V with A(0) = V V^T, of min(width, d) columns; :math:`A(0) = \mathrm{scale}^2 I` if the width is infinite."""
    if math.isinf(width):
        return float(problem.start.scale) * np.eye(d)  # type: ignore[union-attr]
    W = draw_weights(problem, d, seed, replica, int(width)) / np.sqrt(width)
    if width <= d:
        return W.T.copy()
    with one_thread():
        return np.linalg.cholesky(W.T @ W)


def look(instance: Instance, V: np.ndarray, kappa: float) -> tuple[float, float, float]:
    """(risk, train_loss, error) of the state V."""
    X, b, w = instance
    H, D = X @ V, V @ V.T - np.outer(w, w)
    square, trace = float(np.sum(np.square(D))), float(np.trace(D))
    train = float(np.mean(np.square(b - np.einsum("ij,ij->i", H, H))))
    return kappa * (2 * square + trace**2) / len(w) ** 2, kappa * train, square / float(w @ w) ** 2


def wide_dataset(
    problem: Problem,
    times: np.ndarray,
    seen: list[list[tuple[float, float, float]]],
    status: list[str],
    end: list[float],
    *,
    method: str,
    attrs: dict[str, Any],
    coords: dict[str, Any] | None = None,
) -> "xr.Dataset":
    """What `look` saw, by replica and time, in the schema."""
    risk, train, error = np.moveaxis(np.array(seen, float), -1, 0).swapaxes(1, 2)  # (time, replica) each
    below = np.nan_to_num(error, nan=np.inf) < SUCCESS
    found = below.any(axis=0)
    run = ("time", "replica")
    return dataset(
        problem,
        {
            "risk": (run, risk),
            "train_loss": (run, train),
            "error": (run, error),
            "success": ("replica", found),
            "success_time": ("replica", np.where(found, times[np.argmax(below, axis=0)], np.inf)),
            "status": ("replica", status),
            "end_time": ("replica", np.array(end, float)),
        },
        {"time": times, **(coords or {})},
        method=method,
        reference="saraomannelli2020optimization",
        attrs={"success_error": SUCCESS, "s_per_time": 4 * loss_prefactor(problem), **attrs},
    )
