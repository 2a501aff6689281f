"""Descent of one direction on a fixed data set at finite size."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.data import DRAW, RUN, DataSet, draw_set, replica_key, sample_count
from limitlab.algorithms.descent.curvature import warn_if_unstable
from limitlab.algorithms.descent.step import START, Course, Nature, begin, descend
from limitlab.algorithms.settings.fixed_data import Descent
from limitlab.errors import InputError
from limitlab.modules import filter_jit
from limitlab.numerics.linalg import on_sphere
from limitlab.numerics.machine import Memory, blank
from limitlab.numerics.trees import traced
from limitlab.problems.base import AbstractStudent, Pace, Response
from limitlab.problems.population import population_risk
from limitlab.states.request import Request, Seen, second_times
from limitlab.states.run import Run
from limitlab.states.success import COSINE

__all__ = ["direction_student", "line_memory", "run_line", "start_line"]

WORKSPACE = 3  # copies of X that are alive at the peak: the matrix, and the random bits it is drawn from


class _Line(AbstractStudent):
    """f = w.x, w (d,)."""

    def begin(self, key, frame, start, teacher, d):
        raise InputError("A single direction starts beside a drawn teacher: see `start.direction`.")

    def output(self, parameters, x):
        return x @ parameters

    def respond(self, parameters, x):
        f = x @ parameters
        return Response(f, jnp.max(jnp.abs(f)), lambda pull: pull @ x)

    def pace(self, parameters, d, second_layer_rate):
        return Pace(1.0, jnp.sqrt(d))

    def directions(self, parameters):
        return parameters[None, :]

    def on_sphere(self, parameters):
        return on_sphere(parameters)


def direction_student() -> AbstractStudent:
    """One direction as a student; no part of a problem that a file could name."""
    return _Line()


def line_memory(setting: Descent, asked: Request) -> Memory:
    """What `run_line` holds: X and its workspace, w at the asked times, and what is seen of all replicas."""
    d, times = asked.d, asked.clocked[0]
    n, looks = sample_count("simulate", setting.ratio, d), asked.replicas * len(times)
    return Memory(
        8 * (WORKSPACE * n * d + 2 * len(times) * d + 3 * looks * (len(second_times(times)) + 4)),
        f"It holds the {n} x {d} matrix of inputs and its workspace, and {looks} looks. Use a smaller d or "
        "sample_ratio, or fewer replicas or times.",
    )


def run_line(name: str, setting: Descent, asked: Request) -> Seen:
    r"""Run a rule of descent on ``replicas`` data sets, each with its own teacher and start.

    - ``m`` = w.w*/d, ``q`` = \|w\|^2/d and ``C`` = w(t).w(t')/d, t' on at most 51 of the asked times;
    - ``train_loss``: the mean loss over all n samples, in the batch or not (with ``fresh``, over those of the next
      step); ``risk``: the loss on a new sample,
      averaged exactly over samples for the (m, q) reached;
    - ``success``: whether the cosine between w and the teacher, up to a sign, exceeded 0.99 at any step up to the last
      asked time; ``success_time``: the first such time, infinite without success;
    - ``status``: "diverged" if \|w\|^2/d passed 1e8 or, on the sphere, one step was longer than its diameter: numbers
      up to then (``end_time``), NaN after.

    A step costs two products with the n x d matrix of inputs, of which one (and the random bits it is drawn from) is
    held at a time: about 24 n d bytes.
    """
    by, d, (times, targets) = f"simulate with {name}", asked.d, asked.clocked
    n = sample_count(by, setting.ratio, d)
    if d < 2:
        raise InputError(f"{by} needs d >= 2: at d = 1 the sphere has two points; got d={d}.")
    grid = second_times(times)
    warn_if_unstable(by, setting)

    nature = Nature(setting.inputs, *traced((setting.teacher, setting.channel))) if setting.rule.fresh else None
    course = Course(*traced((setting.rule, setting.loss)), _Line(), watched=True, nature=nature)
    label, paths, ends, rhos = f"{name}, d = {d}, n = {n}", [], [], []
    for done, replica in enumerate(asked.numbers):
        key = replica_key(asked.seed, replica)
        data, run = start_line(setting, course, key, n, d)
        seen, run = descend(
            course,
            data,
            jax.random.fold_in(key, RUN),
            run,
            targets,
            lambda w, step, data=data, key=key: _look(course, data, jax.random.fold_in(key, RUN), w, step),
            label,
            (done, asked.replicas),
            asked.progress,
        )
        path = jax.tree.map(lambda *x: np.stack(x), *seen)
        W = path.pop("w")
        paths.append(path | {"C": W @ W[grid].T / d})
        ends.append(jax.tree.map(np.asarray, (run.died, run.state.found)))
        rhos.append(float(data.teacher @ data.teacher) / d)
    died, found = (np.array(x) for x in zip(*ends, strict=True))
    alive = died < 0
    gone = ~alive & (targets[:, None] > died)  # (time, replica): after the end
    values = {name: blank(np.stack([p[name] for p in paths], axis=1), gone) for name in paths[0]}
    values["C"] = np.where(gone[grid].T[None], np.nan, values["C"])
    risk = [
        population_risk(setting.channel, setting.loss, m, q, rho)
        for m, q, rho in zip(values["m"].T, values["q"].T, rhos, strict=True)
    ]
    eta, along = float(setting.rule.learning_rate), ("time", "replica")
    return Seen(
        {
            "m": (along, values["m"]),
            "q": (along, values["q"]),
            "train_loss": (along, values["train_loss"]),
            "risk": (along, np.stack(risk, axis=1)),
            "C": ((*along, "time_2"), values["C"]),
            "success": ("replica", found >= 0),
            "success_time": ("replica", np.where(found >= 0, found * eta, np.inf)),
            "status": ("replica", np.where(alive, "ok", "diverged")),
            "end_time": ("replica", np.where(alive, times[-1], died * eta)),
        },
        {"time": times, "time_2": times[grid], "step": ("time", targets)},
        f"simulate ({name})",
        None,
        {"d": d, "n": n, "seed": asked.seed, **COSINE.attrs, "bytes_needed": line_memory(setting, asked).bytes},
    )


def start_line(setting: Descent, course: Course, key: jax.Array, n: int, d: int) -> tuple[DataSet, Run]:
    """The data set and step 0 of the replica of a key."""
    nature = setting.inputs, *traced((setting.teacher, setting.channel))
    return _start(*nature, course, traced(setting.start), key, n, d)


@filter_jit
def _start(inputs, teacher, channel, course: Course, start, key, n: int, d: int) -> tuple[DataSet, Run]:
    data = draw_set(inputs, teacher, channel, jax.random.fold_in(key, DRAW), n, d)
    key = jax.random.fold_in(key, RUN)
    w = start.direction(jax.random.fold_in(key, START), data.teacher, course.rule.spherical)
    return data, begin(course, w, data, key)


@filter_jit
def _look(course: Course, data: DataSet, key: jax.Array, w: Any, step: Any) -> dict[str, jax.Array]:
    d, now = w.shape[0], course.samples(data, key, step)
    return {
        "m": w @ data.teacher / d,
        "q": w @ w / d,
        "train_loss": jnp.mean(course.loss.value(now.y, now.X @ w)),
        "w": w,
    }
