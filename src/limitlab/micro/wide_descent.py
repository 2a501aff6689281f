"""Gradient descent of a committee of squares at finite size and width."""

import warnings
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.loop import march
from limitlab.algorithms.wide_requirements import check_wide, loss_prefactor, wide_clock
from limitlab.errors import AccuracyWarning, InputError
from limitlab.micro.glm_data import check_glm
from limitlab.micro.wide_data import Instance, draw_instance, draw_weights, look, wide_dataset
from limitlab.numerics.checks import check_choice, whole_steps
from limitlab.numerics.machine import Progress, check_memory
from limitlab.problems.problem import Problem
from limitlab.states.run import FIELD_BOUND, Run

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Descended", "descend", "run_wide_descent", "warn_if_unstable"]

NOTHING = (np.nan, np.nan, np.nan)


class Descended(NamedTuple):
    """What `look` saw of one run at the asked steps, how the run ended and at which step."""

    seen: list[tuple[float, float, float]]
    status: str
    end: int


def run_wide_descent(
    problem: Problem,
    d: int,
    times: np.ndarray,
    replicas: int,
    seed: int,
    representation: str,
    progress: Progress | None,
) -> "xr.Dataset":
    r"""Run `GradientDescent` of a committee of m squares on ``replicas`` data sets of phase retrieval.

    .. math:: w_i \leftarrow w_i + \frac{4\kappa\eta}{m} S w_i, \qquad S = \sum_\mu r_\mu x_\mu x_\mu^T

    with eta the learning rate and kappa the prefactor of the loss. Time: t = learning_rate * step / m, so that the
    motion at a given time does not depend on m. Gives, by time and replica, ``risk`` on a new sample (exact for the
    weights reached), ``train_loss`` and ``error`` = \|A - A*\|^2/\|A*\|^2 with A = WW^T/m; ``success`` if the error
    is below 0.01 at an asked time, and ``success_time``, the first such time (infinite if none). A run whose weights
    grow beyond all bounds is "diverged".

    A step costs two products of an n x d matrix with a d x m one. `MatrixFlow` with the same d and seed sees the same
    data and start.
    """
    by = "simulate with GradientDescent"
    check_wide(by, problem, InputError)
    check_choice("simulate", "representation", representation, ("weights",))
    n, width = check_glm(by, problem, d), problem.student.width  # type: ignore[union-attr]
    needed = 8 * (4 * n * d + 3 * (n + d) * width)
    check_memory(needed, f"It holds {n} x {d} inputs and {width} x {d} weights. Use a smaller d or width.")
    clock = wide_clock(problem)
    targets = whole_steps(times, clock)
    runs = []
    for replica in range(replicas):
        instance = draw_instance(by, problem, d, seed, replica)
        if replica == 0:
            warn_if_unstable(by, problem, instance)
        V = draw_weights(problem, d, seed, replica, width).T / np.sqrt(width)
        runs.append(descend(problem, instance, V, targets, (replica, replicas), progress))
    return wide_dataset(
        problem,
        times,
        [run.seen for run in runs],
        [run.status for run in runs],
        [times[-1] if run.status == "ok" else run.end * clock for run in runs],
        method="simulate (GradientDescent)",
        coords={"step": ("time", targets)},
        attrs={"d": int(d), "n": n, "seed": int(seed), "width": width, "bytes_needed": needed},
    )


def descend(
    problem: Problem,
    instance: Instance,
    V: np.ndarray,
    targets: np.ndarray,
    turn: tuple[int, int] = (0, 1),
    progress: Progress | None = None,
) -> Descended:
    r"""Steps V <- (1 + eps S) V from step 0, seen at the target steps; eps = 4 kappa learning_rate/width.

    It is A <- (1 + eps S) A (1 + eps S) for A = V V^T, whatever the number of columns of V.
    """
    kappa = loss_prefactor(problem)
    X, b = jnp.asarray(instance.X), jnp.asarray(instance.b)
    eps = jnp.asarray(4 * kappa * wide_clock(problem))
    (replica, replicas), last = turn, int(targets[-1])
    begun = replica * last

    def onward(run, first, upto):
        return _advance(X, b, eps, run, first - begun, upto - begun)

    run = Run(jnp.asarray(V), jnp.asarray(True), jnp.asarray(-1))
    seen, run = march(
        onward,
        lambda state, _: look(instance, np.asarray(state), kappa),
        run,
        (targets + begun).tolist(),
        progress,
        f"GradientDescent, d = {len(instance.teacher)}, width = {V.shape[1]}",
        now=begun,
        total=replicas * last,
    )
    alive, died = bool(run.alive), int(run.died)
    told = [NOTHING if not alive and t > died else x for t, x in zip(targets, seen, strict=True)]
    return Descended(told, "ok" if alive else "diverged", last if alive else died)


@eqx.filter_jit
def _advance(X: jax.Array, b: jax.Array, eps: jax.Array, run: Run, first: jax.Array, last: jax.Array) -> Run:
    def step(k, run):
        H = X @ run.state
        V = run.state + eps * (X.T @ ((b - jnp.sum(jnp.square(H), axis=1))[:, None] * H))
        size = jnp.sum(jnp.square(V))
        alive = run.alive & (size <= FIELD_BOUND**2 * X.shape[1])  # false for NaN
        return Run(jnp.where(alive, V, run.state), alive, jnp.where(run.alive & ~alive, k, run.died))

    return jax.lax.fori_loop(first, last, step, run)


def warn_if_unstable(by: str, problem: Problem, instance: Instance) -> None:
    r"""`AccuracyWarning` if descent leaves the teacher: eps times the top curvature there exceeds 2.

    The curvature at A = A*, for all units alike, is :math:`2 \sum_\mu (x_\mu \cdot w^*)^2 x_\mu x_\mu^T`.
    """
    X, b, _ = instance
    top = 2 * float(np.linalg.eigvalsh((X.T * b) @ X)[-1])
    per_rate = 4 * loss_prefactor(problem) / problem.student.width  # type: ignore[union-attr]
    rate = float(problem.algorithm.learning_rate)  # type: ignore[union-attr]
    if rate * per_rate * top > 2:
        warnings.warn(
            f"{by}: learning_rate={rate:g} is above the stability limit of about {2 / (per_rate * top):.2g} (2 over "
            "the largest curvature at the teacher; it grows with the width): steps overshoot there. Use a smaller "
            "learning_rate; the status says which runs diverged.",
            AccuracyWarning,
            stacklevel=4,
        )
