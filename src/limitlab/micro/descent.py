"""Descent on a fixed data set at finite size."""

from functools import partial
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.algorithms.descent_requirements import check_descent
from limitlab.algorithms.loop import march
from limitlab.errors import InputError
from limitlab.micro.descent_steps import SUCCESS, Descent, begin, descent_step, warn_if_unstable
from limitlab.micro.glm_data import DRAW_KEY, GLMData, check_glm, draw_glm, replica_key
from limitlab.numerics.checks import check_choice, whole_steps
from limitlab.numerics.machine import Progress, blank, check_memory
from limitlab.numerics.trees import traced
from limitlab.problems.population import population_risk
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.states.run import Run

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["run_descent", "second_times"]

RUN_KEY = 1
WORKSPACE = 3  # copies of X that are alive at the peak: the matrix, and the random bits it is drawn from
GRID = 51  # of two times, the earlier takes at most so many values


def run_descent(
    problem: Problem,
    d: int,
    times: np.ndarray,
    replicas: int,
    seed: int,
    representation: str,
    progress: Progress | None,
) -> "xr.Dataset":
    r"""Run a rule of descent on ``replicas`` data sets, each with its own teacher and start.

    - ``m`` = w.w*/d, ``q`` = \|w\|^2/d and ``C`` = w(t).w(t')/d, t' on at most 51 of the asked times;
    - ``train_loss``: the mean loss over all n samples, in the batch or not; ``risk``: the loss on a new sample,
      averaged exactly over samples for the (m, q) reached;
    - ``success``: whether the cosine between w and the teacher, up to a sign, exceeded 0.99 at any step up to the last
      asked time; ``success_time``: the first such time, infinite without success;
    - ``status``: "diverged" if \|w\|^2/d passed 1e8 or, on the sphere, one step was longer than its diameter: numbers
      up to then (``end_time``), NaN after.

    A step costs two products with the n x d matrix of inputs, of which one (and the random bits it is drawn from) is
    held at a time: about 24 n d bytes.
    """
    by = f"simulate with {type(problem.algorithm).__name__}"
    check_descent(by, problem, InputError)
    check_choice("simulate", "representation", representation, ("weights",))
    n = check_glm(by, problem, d)
    if d < 2:
        raise InputError(f"{by} needs d >= 2: at d = 1 the sphere has two points; got d={d}.")
    rule, loss = problem.need("algorithm", "loss", by=by)
    targets = whole_steps(times, rule.clock(problem, d))
    grid = second_times(times)
    needed = 8 * (WORKSPACE * n * d + len(times) * d + replicas * len(times) * (len(grid) + 4))
    check_memory(
        needed, f"It holds the {n} x {d} matrix of inputs and its workspace. Use a smaller d, sample_ratio or replicas."
    )
    warn_if_unstable(by, problem)

    paths, ends, rhos = [], [], []
    for replica in range(replicas):
        path, end, rho = _run(problem, n, d, targets, replica_key(seed, replica), (replica, replicas), progress)
        W = path.pop("w")
        paths.append(path | {"C": W @ W[grid].T / d})
        ends.append(jax.tree.map(np.asarray, (end.alive, end.died, end.state.found)))
        rhos.append(rho)
    alive, died, found = (np.array(x) for x in zip(*ends, strict=True))
    gone = ~alive & (targets[:, None] > died)  # (time, replica): after the end
    values = {name: blank(np.stack([p[name] for p in paths], axis=1), gone) for name in paths[0]}
    values["C"] = np.where(gone[grid].T[None], np.nan, values["C"])
    risk = [
        population_risk(problem.channel, loss, m, q, rho)
        for m, q, rho in zip(values["m"].T, values["q"].T, rhos, strict=True)
    ]
    eta, along = float(rule.clock(problem, d)), ("time", "replica")
    return dataset(
        problem,
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
        method=f"simulate ({type(rule).__name__})",
        attrs={"d": d, "n": n, "seed": seed, "success_overlap": SUCCESS, "bytes_needed": needed},
    )


def second_times(times: np.ndarray) -> np.ndarray:
    """Which of the asked times are kept as the earlier of two: all if few, else 51 spread evenly."""
    return np.unique(np.rint(np.linspace(0, len(times) - 1, min(len(times), GRID))).astype(int))


def _run(problem: Problem, n: int, d: int, targets, key, turn: tuple[int, int], progress: Progress | None):
    """What one replica shows at the target steps, how it ended, and the |w*|^2/d of its teacher."""
    rule, loss = traced((problem.algorithm, problem.loss))
    assert isinstance(rule, AbstractDescent)
    parts = traced((problem.teacher.prior, problem.channel))  # type: ignore[union-attr]
    data, run = _draw(problem.inputs, parts, rule, traced(problem.start), key, n, d)
    key, (replica, replicas), last = jax.random.fold_in(key, RUN_KEY), turn, int(targets[-1])

    def onward(run, first, last_step):
        return _advance(rule, loss, data, key, run, first - replica * last, last_step - replica * last)

    label = f"{type(rule).__name__}, d = {d}, n = {n}"
    seen, run = march(
        onward,
        lambda state, _: _look(loss, data, state),
        run,
        (targets + replica * last).tolist(),
        progress,
        label,
        now=replica * last,
        total=replicas * last,
    )
    path = jax.tree.map(lambda *x: np.stack(x), *seen)
    return path, run, float(data.teacher @ data.teacher) / d


@eqx.filter_jit
def _draw(inputs, parts, rule, start, key, n: int, d: int) -> tuple[GLMData, Run]:
    prior, channel = parts
    data = draw_glm(inputs, prior, channel, jax.random.fold_in(key, DRAW_KEY), n, d, jnp.float64)
    return data, begin(rule, start, data, jax.random.fold_in(key, RUN_KEY))


@eqx.filter_jit
def _advance(rule, loss, data: GLMData, key, run: Run, first, last) -> Run:
    step = partial(descent_step, rule, loss, data, key)
    return jax.lax.fori_loop(first, last, lambda k, r: step(r, k), run)


@eqx.filter_jit
def _look(loss, data: GLMData, state: Descent) -> dict[str, jax.Array]:
    d = data.teacher.shape[0]
    return {
        "m": state.w @ data.teacher / d,
        "q": state.w @ state.w / d,
        "train_loss": jnp.mean(loss.value(data.y, data.X @ state.w)),
        "w": state.w,
    }
