"""Descent of any student on a fixed data set of any inputs, teacher, channel and loss, at finite size."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.data import DRAW, RUN, DataSet, draw_labels, given, replica_key, sample_count, teacher_key
from limitlab.algorithms.descent.step import FRAME, LOOK, START, Course, Nature, begin, descend
from limitlab.algorithms.one_pass.base import check_start
from limitlab.algorithms.one_pass.setting import OnePass
from limitlab.algorithms.one_pass.views import seen_bytes, view_of
from limitlab.algorithms.settings.fixed_data import NetworkDescent
from limitlab.modules import filter_jit
from limitlab.numerics.machine import Memory, blank
from limitlab.numerics.trees import traced
from limitlab.states.committee import CommitteeView, overlap_variables
from limitlab.states.direction import correlations, keeps_two_times, two_times_held
from limitlab.states.matrix import matrix_risk, relative_error
from limitlab.states.request import Request, Seen, second_times
from limitlab.states.run import Learner, Run
from limitlab.states.success import ERROR, OUTPUT, first_below
from limitlab.states.view import AbstractView, Report

__all__ = ["Replica", "network_memory", "report_of", "run_network", "start_network"]

WORKSPACE = 3  # copies of X that are alive at the peak
AT = ("time", "replica")


class Replica(NamedTuple):
    """A data set, the learner on it at step 0, and how it is seen."""

    data: DataSet
    run: Run
    view: AbstractView


def network_memory(setting: NetworkDescent, asked: Request) -> Memory:
    """What `run_network` holds: X and its workspace, the network, and what is seen of all replicas."""
    d, parts, looks = asked.d, setting.parts, asked.replicas * len(asked.clocked[0])
    n, m = sample_count("simulate", setting.ratio, d), parts.student.units
    held = WORKSPACE * n * d + 4 * (n + d) * m + 3 * looks * m * (m + 4)
    held += two_times_held(asked.clocked[0], asked.replicas, m, d)
    return Memory(
        8 * held + seen_bytes(parts, asked._replace(replicas=1), 1),
        f"It holds the {n} x {d} matrix of inputs and its workspace, and {looks} looks at {m} units. Use a smaller d, "
        "sample_ratio or width, or fewer replicas or times.",
    )


def run_network(name: str, setting: NetworkDescent, asked: Request) -> Seen:
    r"""Run a rule of descent of a student of m units on ``replicas`` data sets, each with its own teacher and start.

    Time: t = learning_rate * step/m. By time and replica,

    - ``train_loss``: the mean loss over all n samples, in the batch or not (with ``fresh``, over those of the next
      step);
    - what one-pass learning of the same student reports: ``risk`` on a new sample (measured ones with ``risk_error``
      and ``risk_from``), overlaps ``Q``, ``M``, ``P`` and the second layer ``a`` beside a teacher with directions,
      ``fourier`` beside a sparse target, ``r`` and ``polarisation`` on labelled inputs;
    - ``C`` = w_i(t).w_j(t')/d, t' on at most 51 of the asked times, of units beside a teacher with directions, if
      that is at most two million numbers;
    - of a student of squares that retrieves a phase ``error`` = \|A - A*\|^2/\|A*\|^2, A = WW^T/m, and the exact risk;
      of other committees ``error`` = E (f - f*)^2/E f*^2 on new samples, where errors are squared and noise is added;
      ``success`` if it is below 0.01 at an asked time;
    - ``status``: "diverged" if numbers are no longer finite, \|w_i\|^2/d passed 1e8 or, on the sphere, one step was
      longer than its diameter: numbers up to then (``end_time``), NaN after.
    """
    by, d, parts, (times, targets) = f"simulate with {name}", asked.d, setting.parts, asked.clocked
    n, m = sample_count(by, setting.ratio, d), parts.student.units
    parts.inputs.check(d)
    check_start(parts, setting.rule, setting.rule.spherical, d)
    live = parts.live()
    nature = Nature(live.inputs, live.teacher, live.channel) if setting.rule.fresh else None
    course = Course(traced(setting.rule), live.loss, live.student, nature=nature)
    label, grid = f"{name}, d = {d}, n = {n}, {m} units", second_times(times)
    paired = keeps_two_times(times, asked.replicas, m, d)
    paths: list[dict[str, np.ndarray]] = []
    ends: list[int] = []
    views: list[AbstractView] = []
    for done, replica in enumerate(asked.numbers):
        key = replica_key(asked.seed, replica)
        own, turn = jax.random.fold_in(key, RUN), (done, asked.replicas)
        data, run, view = start_network(setting, course, key, n, asked)
        kept = paired and isinstance(view, CommitteeView)

        def look(parameters, step, data=data, view=view, own=own, kept=kept) -> dict[str, Any]:
            state = Learner(*jax.tree.map(lambda x: x[None], (parameters, data.teacher)))
            seen = view.see(state, 0) | {"train_loss": _train_loss(course, data, own, parameters, step)[None]}
            return seen | ({"W": course.student.directions(parameters)} if kept else {})

        seen, run = descend(course, data, own, run, targets, look, label, turn, asked.progress)
        path = {name: np.stack([one[name] for one in seen]) for name in seen[0]}
        paths.append(path | ({"C": correlations(path.pop("W"), grid)[:, None]} if kept else {}))
        ends.append(int(run.died))
        views.append(view)
    died = np.array(ends)
    alive = died < 0
    gone = ~alive & (targets[:, None] > died)  # (time, replica): after the end
    path = {name: np.concatenate([one[name] for one in paths], axis=1) for name in paths[0]}
    path = {name: x if name in views[0].steady else blank(x, gone) for name, x in path.items()}
    train, pairs = path.pop("train_loss"), path.pop("C", None)
    told = report_of(setting, views[0], path)
    variables, coords = dict(told.variables), {}
    if "error" in variables:
        variables |= first_below(variables["error"][1], times)
    if pairs is not None:
        pairs = np.where(gone[grid].T[None, :, :, None, None], np.nan, pairs)
        variables |= overlap_variables({"C": pairs})
        coords = {"time_2": times[grid]}
    variables |= {
        "train_loss": (AT, train),
        "status": ("replica", np.where(alive, "ok", "diverged")),
        "end_time": ("replica", np.where(alive, times[-1], died * asked.clock)),
    }
    about = {"d": d, "n": n, "seed": asked.seed, "bytes_needed": network_memory(setting, asked).bytes, **told.attrs}
    coords |= {"time": times, "step": ("time", targets), **told.coords}
    return Seen(variables, coords, f"simulate ({name})", None, about)


def start_network(setting: NetworkDescent, course: Course, key: jax.Array, n: int, asked: Request) -> Replica:
    """The replica of a key at step 0. A teacher that draws its own weights is the one that other rules see."""
    draw, own = jax.random.fold_in(key, DRAW), jax.random.fold_in(key, RUN)
    parts, live, d = setting.parts, setting.parts.live(), asked.d
    parameters, weights = _weights(live, draw, own, d, setting.rule.spherical)
    data = _draw(live.inputs, live.teacher, weights, live.channel, draw, n, d)
    first = Learner(*jax.tree.map(lambda x: x[None], (parameters, weights)))
    view = view_of(parts, asked._replace(replicas=1), first, jax.random.fold_in(own, LOOK)[None])
    return Replica(data, _begin(course, parameters, data, own), view)


@filter_jit
def _weights(parts: OnePass, draw: jax.Array, own: jax.Array, d: int, spherical: bool) -> tuple[Any, Any]:
    """Parameters of the student at step 0, and the weights of the teacher."""
    teacher, start, frame = parts.teacher, jax.random.fold_in(own, START), jax.random.fold_in(own, FRAME)
    beside = teacher
    if teacher is not None and not teacher.by_start:
        beside = given(teacher, teacher.draw_on(parts.inputs, teacher_key(draw), d))
    parameters, weights = parts.student.begin(start, frame, parts.start, beside, d)
    return (parts.student.on_sphere(parameters) if spherical else parameters), weights


_draw = filter_jit(draw_labels)
_begin = filter_jit(begin)


@filter_jit
def _train_loss(course: Course, data: DataSet, key: jax.Array, parameters: Any, step: jax.Array) -> jax.Array:
    now = course.samples(data, key, step)
    return jnp.mean(course.loss.value(now.y, course.student.output(parameters, now.X)))


def report_of(setting: NetworkDescent, view: AbstractView, path: dict[str, np.ndarray]) -> Report:
    """What a path along (time, replica) says in the schema, with the ``error`` of a committee where it has one.

    Of plain squares (units of weight one, no bias) that retrieve a phase the error is that of A = WW^T/m, and the risk
    is exact; of others it is that of the output, if errors are squared and noise is added.
    """
    told = view.report(path)
    variables, attrs = dict(told.variables), dict(told.attrs)
    plain = "b" not in path and "a" in path and bool(np.all((path["a"] == 1) | np.isnan(path["a"])))
    if plain and setting.phase is not None and setting.kappa is not None:
        overlaps = path["Q"], path["M"], path["P"]
        variables |= {
            "error": (AT, relative_error(*overlaps)),
            "risk": (AT, matrix_risk(*overlaps, setting.kappa)),
        }
        variables.pop("risk_error", None)
        return Report(variables, told.coords, attrs | {"risk_from": None, **ERROR.attrs})
    if setting.parts.clean and isinstance(view, CommitteeView):
        error = view.relative_error(path, np.asarray(variables["risk"][1]))
        if error is not None:
            return Report(variables | {"error": (AT, error)}, told.coords, attrs | OUTPUT.attrs)
    return told
