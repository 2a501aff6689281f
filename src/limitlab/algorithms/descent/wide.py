"""Gradient descent of a committee of squares on phase-retrieval data, at finite size and width.

Simulations and predictions draw the same instance and the same start from the same seed.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.data import DRAW, RUN, draw_set, replica_key, sample_count
from limitlab.algorithms.descent.step import START
from limitlab.algorithms.loop import march
from limitlab.algorithms.settings.fixed_data import PhaseData, WideDescent
from limitlab.errors import AccuracyWarning
from limitlab.modules import filter_jit
from limitlab.numerics.machine import Memory, one_thread
from limitlab.numerics.trees import traced
from limitlab.states.committee import overlap_variables
from limitlab.states.direction import correlations, keeps_two_times, two_times_held
from limitlab.states.matrix import NOTHING, Instance, Retrieved, look, matrix_attrs, matrix_variables
from limitlab.states.request import Request, Seen, second_times
from limitlab.states.run import FIELD_BOUND, Run
from limitlab.verbs import Progress, caution

__all__ = [
    "Descended",
    "descend",
    "draw_instance",
    "draw_weights",
    "run_wide",
    "start_factor",
    "warn_if_unstable",
    "wide_memory",
]

REFERENCE = "saraomannelli2020optimization"


def wide_memory(setting: WideDescent, asked: Request) -> Memory:
    """What `run_wide` holds: X and its workspace, W and the fields, and what is seen of all replicas."""
    d, width, looks = asked.d, setting.width, asked.replicas * len(asked.clocked[0])
    n, held = sample_count("simulate", setting.ratio, d), two_times_held(asked.clocked[0], asked.replicas, width, d)
    return Memory(
        8 * (4 * n * d + 3 * (n + d) * width + 40 * looks + held),
        f"It holds {n} x {d} inputs, {width} x {d} weights and {looks} looks. Use a smaller d, sample_ratio or width, "
        "or fewer replicas or times.",
    )


def run_wide(name: str, setting: WideDescent, asked: Request) -> Seen:
    r"""Run `GradientDescent` of a committee of m squares on ``replicas`` data sets of phase retrieval.

    .. math:: w_i \leftarrow w_i + \frac{4\kappa\eta}{m} S w_i, \qquad S = \sum_\mu r_\mu x_\mu x_\mu^T

    with eta the learning rate and kappa the prefactor of the loss. Time: t = learning_rate * step / m, so that the
    motion at a given time does not depend on m. Gives, by time and replica, ``risk`` on a new sample (exact for the
    weights reached), ``train_loss`` and ``error`` = \|A - A*\|^2/\|A*\|^2 with A = WW^T/m; ``success`` if the error
    is below 0.01 at an asked time, and ``success_time``, the first such time (infinite if none). A run whose weights
    grow beyond all bounds is "diverged". Where these are few numbers, also the overlaps ``M``, ``Q``, ``P``, the second
    layer ``a`` and the correlation ``C`` of two times, as for any student (see `run_network`).

    A step costs two products of an n x d matrix with a d x m one. `MatrixFlow` with the same d and seed sees the same
    data and start.
    """
    by, d, width, (times, targets) = f"simulate with {name}", asked.d, setting.width, asked.clocked
    n, grid = sample_count(by, setting.ratio, d), second_times(times)
    runs, overlaps, paired = [], [], keeps_two_times(times, asked.replicas, width, d)
    for done, replica in enumerate(asked.numbers):
        instance = draw_instance(by, setting, d, asked.seed, replica)
        if done == 0:
            warn_if_unstable(by, setting, instance)
        V = draw_weights(setting, d, asked.seed, replica, width).T / np.sqrt(width)
        states: list[np.ndarray] = []
        keep = states.append if paired else None
        run = descend(setting, instance, V, targets, (done, asked.replicas), asked.progress, keep)
        runs.append(run)
        if paired:
            W = np.sqrt(width) * np.stack(states).swapaxes(1, 2)
            lost = (np.asarray(targets) > run.end) & (run.status != "ok")
            overlaps.append(_overlaps(np.where(lost[:, None, None], np.nan, W), instance.teacher, grid))
    end = [times[-1] if run.status == "ok" else run.end * setting.clock for run in runs]
    variables = matrix_variables(times, [run.seen for run in runs], [run.status for run in runs], end)
    coords: dict[str, Any] = {"time": times, "step": ("time", targets)}
    if paired:
        variables |= overlap_variables({name: np.stack([o[name] for o in overlaps], axis=1) for name in "MQCa"})
        P = np.stack([o["P"] for o in overlaps])
        same, units = np.max(np.abs(P - P[0])) <= 1e-9, ("teacher", "teacher_2")
        variables["P"] = (units, P[0]) if same else (("replica", *units), P)
        coords["time_2"] = times[grid]
    return Seen(
        variables,
        coords,
        f"simulate ({name})",
        REFERENCE,
        {
            **matrix_attrs(setting.kappa),
            "d": int(d),
            "n": n,
            "seed": int(asked.seed),
            "width": width,
            "bytes_needed": wide_memory(setting, asked).bytes,
        },
    )


def _overlaps(W: np.ndarray, teacher: np.ndarray, grid: np.ndarray) -> dict[str, np.ndarray]:
    """What is seen of weights W (time, m, d) beside the teacher (d,)."""
    d = len(teacher)
    return {
        "M": W @ teacher[:, None] / d,
        "Q": W @ W.swapaxes(1, 2) / d,
        "C": correlations(W, grid),
        "a": np.where(np.isnan(W[..., 0]), np.nan, 1.0),
        "P": np.array([[teacher @ teacher / d]]),
    }


# --- one instance and its start ------------------------------------------------------------------------------


def draw_instance(by: str, setting: PhaseData, d: int, seed: int, replica: int) -> Instance:
    """The data set of one replica: the one that descent of a single unit and `GAMP` see with the same seed."""
    n = sample_count(by, setting.ratio, d)
    teacher = traced(setting.teacher)
    w, X, y = map(np.asarray, _draw(setting.inputs, teacher, setting.channel, replica_key(seed, replica), n, d))
    return Instance(X, y if setting.squared else np.square(y), w)


@filter_jit
def _draw(inputs, teacher, channel, key, n: int, d: int):
    return draw_set(inputs, teacher, channel, jax.random.fold_in(key, DRAW), n, d)


def draw_weights(setting: WideDescent, d: int, seed: int, replica: int, width: int) -> np.ndarray:
    """W (width, d) at time 0, one unit a row; a single unit starts where descent of a single unit does."""
    return np.asarray(_weights(traced(setting.start), replica_key(seed, replica), width, d))


@filter_jit
def _weights(start, key, m: int, d: int):
    return start.weights(jax.random.fold_in(jax.random.fold_in(key, RUN), START), m, d, None)


def start_factor(setting: WideDescent, d: int, seed: int, replica: int, width: float) -> np.ndarray:
    r"""V with A(0) = V V^T, of min(width, d) columns; :math:`A(0) = \mathrm{scale}^2 I` if the width is infinite."""
    if math.isinf(width):
        return float(setting.start.scale) * np.eye(d)
    W = draw_weights(setting, d, seed, replica, int(width)) / np.sqrt(width)
    if width <= d:
        return W.T.copy()
    with one_thread():
        return np.linalg.cholesky(W.T @ W)


# --- its steps -----------------------------------------------------------------------------------------------


class Descended(NamedTuple):
    """What `look` saw of one run at the asked steps, how the run ended and at which step."""

    seen: list[Retrieved]
    status: str
    end: int


def descend(
    setting: WideDescent,
    instance: Instance,
    V: np.ndarray,
    targets: np.ndarray,
    turn: tuple[int, int] = (0, 1),
    progress: Progress | None = None,
    keep: Callable[[np.ndarray], None] | None = None,
) -> Descended:
    r"""Steps V <- (1 + eps S) V from step 0, seen at the target steps; eps = 4 kappa learning_rate/width.

    ``keep`` is given V at each of these steps.

    It is A <- (1 + eps S) A (1 + eps S) for A = V V^T, whatever the number of columns of V.
    """
    kappa = setting.kappa
    X, b = jnp.asarray(instance.X), jnp.asarray(instance.b)
    eps = jnp.asarray(4 * kappa * setting.clock)
    (replica, replicas), last = turn, int(targets[-1])
    begun = replica * last

    def onward(run, first, upto):
        return _advance(X, b, eps, run, first - begun, upto - begun)

    def see(state, _):
        V = np.asarray(state)
        if keep is not None:
            keep(V)
        return look(instance, V, kappa)

    seen, run = march(
        onward,
        see,
        Run.alone(jnp.asarray(V)),
        (targets + begun).tolist(),
        progress,
        f"GradientDescent, d = {len(instance.teacher)}, width = {V.shape[1]}",
        now=begun,
        total=replicas * last,
    )
    died = int(run.died)
    alive = died < 0
    told = [NOTHING if not alive and t > died else x for t, x in zip(targets, seen, strict=True)]
    return Descended(told, "ok" if alive else "diverged", last if alive else died)


@filter_jit
def _advance(X: jax.Array, b: jax.Array, eps: jax.Array, run: Run, first: jax.Array, last: jax.Array) -> Run:
    def step(k, run):
        H = X @ run.state
        V = run.state + eps * (X.T @ ((b - jnp.sum(jnp.square(H), axis=1))[:, None] * H))
        size = jnp.sum(jnp.square(V))
        return run.onward(V, size <= FIELD_BOUND**2 * X.shape[1], k)  # not sound if NaN

    return jax.lax.fori_loop(first, last, step, run)


def warn_if_unstable(by: str, setting: WideDescent, instance: Instance) -> None:
    r"""`AccuracyWarning` if descent leaves the teacher: eps times the top curvature there exceeds 2.

    The curvature at A = A*, for all units alike, is :math:`2 \sum_\mu (x_\mu \cdot w^*)^2 x_\mu x_\mu^T`.
    """
    X, b, _ = instance
    top = 2 * float(np.linalg.eigvalsh((X.T * b) @ X)[-1])
    per_rate, rate = 4 * setting.kappa / setting.width, setting.learning_rate
    if rate * per_rate * top > 2:
        caution(
            f"{by}: learning_rate={rate:g} is above the stability limit of about {2 / (per_rate * top):.2g} (2 over "
            "the largest curvature at the teacher; it grows with the width): steps overshoot there. Use a smaller "
            "learning_rate; the status says which runs diverged.",
            AccuracyWarning,
        )
