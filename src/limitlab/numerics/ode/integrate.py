"""The door to the integrators: every one reports how it ended instead of raising or returning NaN in silence.

* `integrate`, `integrate_many`: dy/dt = f(y) on trees of arrays, compiled; explicit order 8, then implicit order 5;
* `follow`: stiff flows whose Jacobian the caller factorises, in NumPy; linearly implicit, extrapolated;
* `runge_kutta_step`: one compiled step of order 4 with the rate of the drift, for steps chosen along the way.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from limitlab.modules import filter_jit
from limitlab.numerics.ode.dopri8 import OK, RAN_AWAY, SMALLEST, STALLED, TOO_MANY, March, begun, march, march_many
from limitlab.numerics.ode.extrapolation import Followed, Frozen, follow
from limitlab.numerics.ode.rk4 import norm, plus, runge_kutta_step
from limitlab.numerics.shapes import filled, places
from limitlab.verbs import Pace, tick

__all__ = [
    "Followed",
    "Frozen",
    "Integration",
    "follow",
    "integrate",
    "integrate_many",
    "norm",
    "plus",
    "runge_kutta_step",
]

EXPLICIT_STEPS = 4000  # then the problem is taken to be stiff (a long plateau) and an implicit method goes on
SOON = 256  # the same where the caller inverts the Jacobian at a small cost: steps beyond those that asked times end
IMPLICIT_STEPS = 20000
STIFF_PIECE = 2**20  # numbers of matrices in a piece of implicit steps, which go on for a part of a second
MOST_STEPS = 10_000_000
FIRST_PIECE = 128  # explicit steps of a cheap drift before the first pause
STATUS = ("ok", "diverged", "max_steps", "not_converged")  # by code
GROWN = 1e3  # a state that has grown by this factor when its steps shrink to nothing has diverged
TOGETHER_STEPS = 256  # of several integrations side by side; those that need more go on alone, the others do not wait
FIRST_STEP = 1e-4  # grows tenfold a step where it can; a search for it would compile the drift twice more


class Integration(NamedTuple):
    """Values at the asked times (NaN after a failure), how it ended, when, and what it took."""

    values: Any
    status: str
    end_time: float
    steps: int
    solver: str


def integrate(
    drift: Callable[[Any, Any], Any],
    start: Any,
    times: np.ndarray,
    args: Any = None,
    *,
    rtol: float = 1e-10,
    atol: float = 1e-12,
    bound: float = 1e8,
    solver: str = "auto",
    begin: float = 0.0,
    size: float | None = None,
    cheap: bool = False,
    freeze: Callable[[Any], Frozen] | None = None,
) -> Integration:
    """Solve dy/dt = drift(y, args) from time ``begin`` and report y at ``times`` (NaN at earlier ones).

    Explicit steps of order 8 first; after `EXPLICIT_STEPS` of them the rest is integrated by an implicit method of
    order 5, whose steps are not limited by fast decaying directions. ``solver`` forces "explicit" or "implicit".
    With ``freeze``, which gives the flow linearised at a state (as one vector: the leaves of the tree one after the
    other), it is `follow` that goes on, and sooner.
    The run counts as diverged when an entry exceeds ``bound`` or is not finite, or when it has grown far beyond its
    ``size`` (the largest entry of the start, unless the run began earlier) and no step is small enough.

    Explicit steps go in pieces, between which progress is told and Ctrl-C is heard: the first has one step, unless the
    drift is ``cheap`` (a tenth of a millisecond at most). No number depends on the pieces.
    """
    times = np.asarray(times, float)
    stores = [np.full((len(times), *np.shape(leaf)), np.nan) for leaf in jax.tree.leaves(start)]
    structure = jax.tree.structure(start)
    at_start = times == begin
    for store, leaf in zip(stores, jax.tree.leaves(start), strict=True):
        store[at_start] = np.asarray(leaf)
    now, state, total, used = begin, start, 0, []
    size = _size(start) if size is None else size
    room = places(len(times), _numbers(start))
    plan = {"auto": ("explicit", "implicit"), "explicit": ("explicit",), "implicit": ("implicit",)}[solver]
    status = "ok"
    for stage, method in enumerate(plan):
        pending = np.nonzero(times > now)[0]
        if len(pending) == 0:
            break
        # Times already reached are asked again at the present time, and the last one until there are as many as for
        # other lists of times, so that shapes, and the compiled code, stay.
        asked = filled(np.maximum(times, now), room)
        # The present time and the tolerances as arrays: numbers would be compiled in, and compiled again for others.
        t0 = np.asarray(now)
        tolerances = np.asarray(float(rtol)), np.asarray(float(atol)), np.asarray(float(bound))
        if method == "explicit":
            most = (MOST_STEPS, 0) if solver != "auto" else (EXPLICIT_STEPS, 0) if freeze is None else (SOON, 1)
            pace = Pace(FIRST_PIECE if cheap else 1)
            values, final, reached, code, steps = _explicit(drift, state, t0, asked, args, tolerances, most, size, pace)
        elif freeze is not None:
            values, final, reached, code, steps = _followed(freeze, state, now, asked, rtol, size)
        else:
            values, final, reached, code, steps = _stiff(drift, state, t0, asked, args, tolerances, size)
        done = pending[times[pending] <= reached]
        for store, leaf in zip(stores, jax.tree.leaves(values), strict=True):
            store[done] = leaf[done]
        now, state, total = float(reached), final, total + int(steps)
        used.append(method)
        status = STATUS[int(code)]
        if status != "max_steps" or stage == len(plan) - 1:
            break
    return Integration(jax.tree.unflatten(structure, stores), status, now, total, " then ".join(used) or "none")


def integrate_many(
    drift: Callable[[Any, Any], Any],
    starts: Any,
    times: np.ndarray,
    args: Any,
    shared: tuple = (),
    *,
    rtol: np.ndarray,
    atol: np.ndarray,
    bound: float = 1e8,
    solver: str = "auto",
    drifts: Callable[[Any, Any], Any] | None = None,
) -> list[Integration]:
    """`integrate` for several problems, which lie along the first axis of the arrays in ``starts`` and ``args``.

    ``drift(y, (args, *shared))`` is that of one problem. ``drifts`` does the same for all at once and makes them move
    side by side, which is fast where one drift alone is cheap; without it one follows the other. Either way it is one
    compiled call, and no result depends on the other problems, to the last bit. A problem that needs more than
    `TOGETHER_STEPS` goes on alone as in `integrate`, with the implicit method if need be. ``solver`` is "auto" or
    "explicit".
    """
    times = np.asarray(times, float)
    leaves, structure = jax.tree.flatten(starts)
    if np.all(times == 0.0):
        out = [[np.repeat(leaf[None], len(times), axis=0) for leaf in lane] for lane in zip(*leaves, strict=True)]
        return [Integration(jax.tree.unflatten(structure, lane), "ok", 0.0, 0, "none") for lane in out]
    out = _solve_many(drift, drifts, starts, times, args, shared, rtol, atol, bound, TOGETHER_STEPS)
    values, reached, final, codes, steps = jax.device_get(out)
    columns, runs = jax.tree.leaves(values), []
    for lane, code in enumerate(codes.tolist()):
        own = jax.tree.unflatten(structure, [leaf[lane] for leaf in columns])
        run = Integration(own, STATUS[code], float(reached[lane]), int(steps[lane]), "explicit")
        if code == TOO_MANY:
            begun, y, arg = (jax.tree.map(lambda x: np.asarray(x[lane]), t) for t in (starts, final, args))  # noqa: B023
            keep = {"rtol": float(rtol[lane]), "atol": float(atol[lane]), "bound": bound, "solver": solver}
            rest = integrate(drift, y, times, (arg, *shared), begin=run.end_time, size=_size(begun), **keep)
            passed = int(np.sum(times <= run.end_time))
            joined = jax.tree.map(lambda a, b: np.concatenate([a[:passed], b[passed:]]), own, rest.values)  # noqa: B023
            run = rest._replace(values=joined, steps=run.steps + rest.steps)
        runs.append(run)
    return runs


def _numbers(tree: Any) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(tree))


def _size(tree: Any) -> float:
    return max(float(np.max(np.abs(leaf), initial=0.0)) for leaf in jax.tree.leaves(tree))


def _code(run: March, size: jax.Array) -> jax.Array:
    """Steps that shrink to nothing while the state grows: it has diverged."""
    grown = jnp.max(jnp.abs(run.y)) >= GROWN * (1 + size)
    return jnp.where((run.code == STALLED) & grown, RAN_AWAY, run.code)


@filter_jit
def _solve_many(drift, drifts, starts, times, args, shared, rtol, atol, bound, max_steps):
    first = jax.tree.map(lambda x: x[0], starts)
    shaped = ravel_pytree(first)[1]
    flat = jax.vmap(lambda y: ravel_pytree(y)[0])
    y0, times, first_step = flat(starts), jnp.asarray(times), jnp.minimum(FIRST_STEP, times[-1])
    if drifts is not None:
        run = march_many(
            lambda y: flat(drifts(jax.vmap(shaped)(y), (args, *shared))),
            y0,
            times,
            rtol,
            atol,
            bound,
            first_step,
            max_steps,
        )
    else:

        def alone(lane):
            y, arg, relative, absolute = lane

            def flow(y):
                return ravel_pytree(drift(shaped(y), (arg, *shared)))[0]

            return march(flow, begun(y, 0.0, first_step, len(times)), times, relative, absolute, bound, max_steps)

        run = jax.lax.map(alone, (y0, args, rtol, atol))
    code = jax.vmap(_code)(run, jnp.max(jnp.abs(y0), axis=1))
    return jax.vmap(jax.vmap(shaped))(run.values), run.t, jax.vmap(shaped)(run.y), code, run.steps


def _explicit(drift, start, t0, times, args, tolerances: tuple[Any, Any, Any], most: Any, size: float, pace: Pace):
    """Explicit steps in pieces of a part of a second, so that progress is told and Ctrl-C is heard between them."""
    flat = np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(start)])
    done, limits = 0, (np.asarray(most[0]), np.asarray(most[1]))
    zero, values = np.zeros((), int), np.full((len(times), len(flat)), np.nan)
    before: Any = (t0, flat, np.minimum(FIRST_STEP, times[-1] - t0), zero, values, zero, zero)
    run = March(*before)
    while True:
        run = _march(drift, start, run, times, args, *tolerances, *limits, np.asarray(pace.upto(done)))
        reached, code, done, seen = jax.device_get((run.t, run.code, run.steps, run.seen))
        if seen >= len(times) or code != OK:
            break
        tick(float(reached / times[-1]))
    values, y = jax.device_get((run.values, run.y))
    return *_shaped(start, values, y), float(reached), _verdict(int(code), y, size), int(done)


def _verdict(code: int, y: np.ndarray, size: float) -> int:
    """Steps that shrink to nothing while the state grows: it has diverged."""
    return RAN_AWAY if code == STALLED and np.max(np.abs(y)) >= GROWN * (1 + size) else code


def _shaped(start: Any, values: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """The path (times, state) and the last state, both of vectors, as trees like the start."""
    leaves, structure = jax.tree.flatten(start)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
    shapes = [np.shape(leaf) for leaf in leaves]
    paths = [x.reshape(-1, *shape) for x, shape in zip(np.split(values, ends, axis=1), shapes, strict=True)]
    final = [x.reshape(shape) for x, shape in zip(np.split(y, ends), shapes, strict=True)]
    return jax.tree.unflatten(structure, paths), jax.tree.unflatten(structure, final)


def _followed(freeze: Callable[[Any], Frozen], start, now: float, times: np.ndarray, rtol: float, size: float):
    """Linearly implicit steps, which grow as the flow comes to rest."""
    flat = np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(start)])
    run = follow(freeze, flat, times, rtol=rtol, begin=now)
    values = np.stack([np.full_like(flat, np.nan) if y is None else y for y in run.states])
    return *_shaped(start, values, run.last), run.end, _verdict(STATUS.index(run.status), run.last, size), run.steps


@filter_jit
def _march(drift, start, run: March, times, args, rtol, atol, bound, most, spare, pause) -> March:
    """Onwards to the step ``pause``; one vector is a third less to compile than a tree."""
    shaped = ravel_pytree(start)[1]
    return march(lambda y: ravel_pytree(drift(shaped(y), args))[0], run, times, rtol, atol, bound, most, pause, spare)


def _stiff(drift, start, t0, times, args, tolerances: tuple[Any, Any, Any], size: float):
    """Implicit steps in pieces of so many steps, whatever the machine: each begins with the mean step of the last."""
    piece = int(np.clip(STIFF_PIECE // _numbers(start) ** 2, 8, 256))
    now, final, total, h = t0, start, 0, np.minimum(FIRST_STEP, times[-1] - t0)
    stores = [np.full((len(times), *np.shape(leaf)), np.nan) for leaf in jax.tree.leaves(start)]
    while True:
        asked = np.maximum(times, now)
        out = _implicit(drift, final, now, h, asked, args, *tolerances, piece, np.asarray(size))
        values, reached, final, code, steps = jax.device_get(out)
        here = (times > now) & (times <= reached)
        for store, leaf in zip(stores, jax.tree.leaves(values), strict=True):
            store[here] = leaf[here]
        total += int(steps)
        if code != TOO_MANY or total >= IMPLICIT_STEPS:
            return jax.tree.unflatten(jax.tree.structure(start), stores), final, float(reached), int(code), total
        tick(float(reached / times[-1]))
        now, h = reached, np.minimum(np.maximum((reached - now) / steps, SMALLEST), times[-1] - reached)


@filter_jit
def _implicit(drift, start, t0, first_step, times, args, rtol, atol, bound, max_steps, size):
    flat, shaped = ravel_pytree(start)

    import diffrax  # a third of a second, and most problems are not stiff

    def runaway(t, y, args, **kwargs):
        return ~jnp.all(jnp.isfinite(y)) | (jnp.max(jnp.abs(y)) > bound)

    # Steps end on the asked times: the interpolant between steps is not error-controlled, and for steps of order 8
    # it was a hundred times less accurate than the steps. Landing on one may leave a step of rounding size: dtmin.
    controller = diffrax.PIDController(rtol=rtol, atol=atol, dtmin=1e-16, force_dtmin=False)
    controller = diffrax.ClipStepSizeController(controller, step_ts=times)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, a: ravel_pytree(drift(shaped(y), a))[0]),
        diffrax.Kvaerno5(),
        t0=t0,
        t1=times[-1],
        dt0=first_step,
        y0=flat,
        args=args,
        saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(ts=times), diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=controller,
        max_steps=max_steps,
        event=diffrax.Event(runaway),
        throw=False,
    )
    assert solution.ts is not None and solution.ys is not None and solution.stats is not None
    values, final = jax.vmap(shaped)(solution.ys[0]), shaped(solution.ys[1][0])
    # Steps that shrink to nothing while the state stays small are a failure of the method, not of the dynamics.
    stalled = (solution.result == diffrax.RESULTS.dt_min_reached) & (
        jnp.max(jnp.abs(solution.ys[1])) < GROWN * (1 + size)
    )
    code = jnp.where(
        solution.result == diffrax.RESULTS.successful,
        0,
        jnp.where(solution.result == diffrax.RESULTS.max_steps_reached, 2, jnp.where(stalled, 3, 1)),
    )
    return values, solution.ts[1][0], final, code, solution.stats["num_steps"]
