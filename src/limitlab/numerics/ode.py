"""Adaptive integration that reports how it ended instead of raising or returning NaN in silence."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from limitlab.numerics.explicit import RAN_AWAY, STALLED, march

__all__ = ["Integration", "integrate"]

EXPLICIT_STEPS = 4000  # then the problem is taken to be stiff (a long plateau) and an implicit method goes on
IMPLICIT_STEPS = 20000
GROWN = 1e3  # a state that has grown by this factor when its steps shrink to nothing has diverged
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
) -> Integration:
    """Solve dy/dt = drift(y, args) from time 0 and report y at ``times``.

    Explicit steps of order 8 first; after `EXPLICIT_STEPS` of them the rest is integrated by an implicit method of
    order 5, whose steps are not limited by fast decaying directions. ``solver`` forces "explicit" or "implicit".
    The run counts as diverged when an entry exceeds ``bound`` or is not finite.
    """
    times = np.asarray(times, float)
    filled = [np.full((len(times), *np.shape(leaf)), np.nan) for leaf in jax.tree.leaves(start)]
    structure = jax.tree.structure(start)
    at_zero = times == 0.0
    for store, leaf in zip(filled, jax.tree.leaves(start), strict=True):
        store[at_zero] = np.asarray(leaf)
    now, state, total, used = 0.0, start, 0, []
    plan = {"auto": ("explicit", "implicit"), "explicit": ("explicit",), "implicit": ("implicit",)}[solver]
    status = "ok"
    for stage, method in enumerate(plan):
        pending = np.nonzero(times > now)[0]
        if len(pending) == 0:
            break
        # Times already reached are asked again at the present time, so that shapes, and the compiled code, stay.
        asked = np.maximum(times, now)
        limit = EXPLICIT_STEPS if (method == "explicit" and solver == "auto") else IMPLICIT_STEPS
        limit = 10_000_000 if solver == "explicit" else limit
        out = _solve(drift, state, now, asked, args, rtol, atol, bound, method, limit)
        values, reached, final, code, steps = jax.device_get(out)
        done = pending[times[pending] <= reached]
        for store, leaf in zip(filled, jax.tree.leaves(values), strict=True):
            store[done] = leaf[done]
        now, state, total = float(reached), final, total + int(steps)
        used.append(method)
        status = ("ok", "diverged", "max_steps", "not_converged")[int(code)]
        if status != "max_steps" or stage == len(plan) - 1:
            break
    return Integration(jax.tree.unflatten(structure, filled), status, now, total, " then ".join(used) or "none")


@eqx.filter_jit
def _solve(drift, start, t0, times, args, rtol, atol, bound, method, max_steps):
    flat, shaped = ravel_pytree(start)  # one vector: a third less to compile than a tree
    if method == "explicit":
        run = march(
            lambda y: ravel_pytree(drift(shaped(y), args))[0],
            flat,
            t0,
            jnp.asarray(times),
            rtol,
            atol,
            bound,
            jnp.minimum(FIRST_STEP, times[-1] - t0),
            max_steps,
        )
        grown = jnp.max(jnp.abs(run.y)) >= GROWN * (1 + jnp.max(jnp.abs(flat)))
        code = jnp.where((run.code == STALLED) & grown, RAN_AWAY, run.code)
        return jax.vmap(shaped)(run.values), run.t, shaped(run.y), code, run.steps

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
        dt0=jnp.minimum(FIRST_STEP, times[-1] - t0),
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
        jnp.max(jnp.abs(solution.ys[1])) < GROWN * (1 + jnp.max(jnp.abs(flat)))
    )
    code = jnp.where(
        solution.result == diffrax.RESULTS.successful,
        0,
        jnp.where(solution.result == diffrax.RESULTS.max_steps_reached, 2, jnp.where(stalled, 3, 1)),
    )
    return values, solution.ts[1][0], final, code, solution.stats["num_steps"]
