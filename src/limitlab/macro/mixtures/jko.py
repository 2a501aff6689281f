r"""The radial flow by proximal steps in the Wasserstein metric (Jordan, Kinderlehrer, Otto).

.. math:: X \leftarrow \arg\min_{X \ge 0}\; \mathrm{risk}(X) + \tfrac\lambda2 \sum_i w_i X_i^2
          + \frac1{2h} \sum_i w_i (X_i - X_i^{\rm old})^2

for nodes X of fixed weights w: in one dimension the optimal transport keeps their order, and the step is the implicit
Euler step of the particles. First order in h; stable however stiff the flow is. Each step is solved by Newton's method;
one that is too long to find a minimum near by ends the run as "not_converged".
"""

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.macro.mixtures.law import Radial, RadialData, RadialUnits, make_data, network, norm_speeds, risks, seen
from limitlab.macro.mixtures.particles import RadialPath
from limitlab.modules import filter_jit
from limitlab.numerics.shapes import along_rows
from limitlab.verbs import Pace, tick, turns

__all__ = ["proximal"]

NEWTON = 30
SMALL = 1e-12


def _speed(law: RadialData, weights: jax.Array, a: jax.Array, decay: jax.Array, r: jax.Array) -> jax.Array:
    x = RadialUnits(a, jnp.zeros_like(a), r[:, None])
    (value, _, pull), s = seen(law, x)
    error = law.weights * (law.labels - (weights * a) @ value)
    return norm_speeds(law, x, pull, s, error)[:, 0] - decay * r


def _step(law, weights, a, decay, old, h):
    """One proximal step: the new radii and whether they are a minimum to the tolerance of Newton's method."""

    def residual(r):
        return r - old - h * _speed(law, weights, a, decay, r)

    def free(r, F):
        return ~((r <= 0) & (F > 0))  # a node at the wall that is pushed against it stays

    def size(r):
        F = residual(r)
        return jnp.max(jnp.abs(jnp.where(free(r, F), F, 0.0)))

    def newton(carry):  # all radii at once, some against a wall: not roots of one number each
        r, _, count = carry
        F = residual(r)
        live = free(r, F)
        jacobian = jax.jacfwd(residual)(r)
        jacobian = jnp.where(live[:, None] & live[None, :], jacobian, jnp.eye(len(r)))
        full = jnp.linalg.solve(jacobian, jnp.where(live, -F, 0.0))
        tries = jnp.maximum(r + 0.5 ** jnp.arange(6)[:, None] * full, 0.0)
        sizes = jax.lax.map(size, tries)
        best = jnp.nanargmin(jnp.where(jnp.isfinite(sizes), sizes, jnp.inf))
        return tries[best], sizes[best], count + 1

    def going(carry):
        _, left, count = carry
        return (left > SMALL) & (count < NEWTON)

    r, left, _ = jax.lax.while_loop(going, newton, (old, size(old), 0))
    live = free(r, residual(r))
    # The Hessian of what is minimised, up to a congruence: a step too long may end where it is stationary, not least.
    root = jnp.sqrt(weights)
    hessian = root[:, None] * jax.jacfwd(residual)(r) / root[None, :]
    hessian = jnp.where(live[:, None] & live[None, :], (hessian + hessian.T) / 2, jnp.eye(len(r)))
    return r, (left <= 1e3 * SMALL) & (jnp.linalg.eigvalsh(hessian)[0] > 0)


@filter_jit
def _march(law, weights, a, decay, r, fine, h, count):
    """So many steps of length h; it stays where one fails."""

    def one(_, state):
        new, ok = _step(law, weights, a, decay, state[0], h)
        return jnp.where(state[1] & ok, new, state[0]), state[1] & ok

    return jax.lax.fori_loop(0, count, one, (r, fine))


@along_rows
@filter_jit
def _outputs(law, weights, a, path):
    return jax.lax.map(lambda r: network(law, RadialUnits(a, jnp.zeros_like(a), r[:, None]), weights), path)


def proximal(
    setting: Radial, d: float, clock: np.ndarray, units: RadialUnits, weights: np.ndarray, step: float
) -> RadialPath:
    """Proximal steps of length at most ``step`` on the clock of the schedule."""
    law = make_data(setting, d)
    a, decay = units.a, np.asarray(float(setting.one_pass.algorithm.weight_decay))
    r, fine, path, sound, total, pace = units.r[:, 0], np.asarray(True), [], [], 0, Pace(1)
    for gap in turns(np.diff(np.append(0.0, clock)).tolist()):  # equal steps between two asked times
        count = int(np.ceil(gap / step - 1e-9))
        h, done = np.asarray(gap / max(count, 1)), 0
        while done < count:
            now = min(count, pace.upto(total + done) - total)
            r, fine = jax.device_get(_march(law, weights, a, decay, r, fine, h, np.asarray(now - done)))
            done = now
            tick(done / count)
        total += count
        path.append(r)
        sound.append(fine)
    r, fine = np.stack(path), np.stack(sound)
    f = _outputs(law, weights, a, r)
    risk, gone = risks(law, f), ~fine
    radii = np.where(gone[:, None], np.nan, r)
    still = np.broadcast_to(np.asarray(units.a), radii.shape)
    units = RadialUnits(still, np.zeros_like(radii), radii[:, :, None])
    end = float(clock[~gone][-1]) if np.any(~gone) else 0.0
    return RadialPath(
        units,
        weights,
        np.where(gone[:, None], np.nan, f),
        np.where(gone, np.nan, risk),
        "not_converged" if np.any(gone) else "ok",
        end,
        total,
    )
