r"""The radial flow as a density on cells, by conservative finite volumes.

.. math::
    \partial_t \bar\rho = \partial_r\big(\bar\rho\,\partial_r \Psi_\lambda\big), \qquad
    \partial_t \bar\rho = \partial_r\big(\bar\rho\,\partial_r \Psi_{\lambda,T}\big) + T\,\partial_r^2 \bar\rho, \quad
    \Psi_{\lambda,T} = \Psi_\lambda - T(d - 1)\log r

for the density of r with respect to dr (no factor r^(d-1)). Without noise: upwind fluxes, explicit steps within the
Courant limit. With noise: exponentially fitted fluxes and implicit steps in the field f of the last one. Both conserve
mass to rounding, keep the density non-negative, and are of first order in the width of a cell.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.macro.mixtures.law import Radial, RadialData, RadialUnits, make_data, risks, seen
from limitlab.modules import Module, filter_jit
from limitlab.numerics.trees import as_array
from limitlab.problems.starts.neurons import Neurons
from limitlab.verbs import Pace, tick

__all__ = ["Grid", "VolumePath", "entropy", "make_grid", "spread", "start_masses"]

COURANT = 0.9
SMEAR = 0.02  # what implicit steps may add to the temperature, as a share of it
EDGE = 1e-9  # mass in the last cell at which the grid is too short
MOST_STEPS = 5_000_000


class Grid(Module):
    """Cells of one width: features of centres (K, J), of inner edges (K - 1, J), and what else pulls there."""

    law: RadialData
    centres: jax.Array  # (K,)
    features: jax.Array  # (K, J): the average unit
    pulls: jax.Array  # (K - 1, J): its derivative in r
    outward: jax.Array  # (K - 1,): weight decay, and the room that d dimensions give
    width: jax.Array
    temperature: jax.Array


class VolumePath(NamedTuple):
    """Masses of the cells (time, K), outputs (time, J), how it ended, and the worst error of the total mass."""

    masses: np.ndarray
    f: np.ndarray
    risk: np.ndarray
    status: str
    end: float
    steps: int
    mass_error: float


def make_grid(setting: Radial, d: float, cells: int, reach: float) -> Grid:
    """Cells on [0, reach]."""
    law, rule = make_data(setting, d), setting.one_pass.algorithm
    width = reach / cells
    centres, edges = (np.arange(cells) + 0.5) * width, np.arange(1, cells) * width
    a = setting.output_weight
    (value, _, _), _ = _seen(law, _units(centres))
    (_, _, pull), _ = _seen(law, _units(edges))
    T, decay = float(rule.temperature), float(rule.weight_decay)
    outward = -decay * edges + (T * (d - 1) / edges if T > 0 else 0.0)
    return Grid(
        law,
        as_array(centres),
        as_array(a * np.asarray(value)),
        as_array(a * np.asarray(pull) * law.lengths[:, 0]),
        as_array(outward),
        as_array(width),
        as_array(T),
    )


_seen = filter_jit(seen)


def _units(r: np.ndarray) -> RadialUnits:
    return RadialUnits(np.ones(len(r)), np.zeros(len(r)), r[:, None])


def start_masses(neurons: Neurons, d: float, cells: int, reach: float) -> np.ndarray:
    """The start's mass in each cell; a point mass is shared by the two nearest centres."""
    scale, width = float(neurons.scale), reach / cells
    if math.isinf(d) or neurons.sphere:
        place = scale / width - 0.5
        left = int(np.clip(math.floor(place), 0, cells - 2))
        share = float(np.clip(place - left, 0.0, 1.0))
        masses = np.zeros(cells)
        masses[left : left + 2] = 1 - share, share
        return masses
    from scipy.special import gammainc

    edges = np.arange(cells + 1) * width
    below = gammainc(d / 2, d * np.square(edges / scale) / 2)
    below[-1] = 1.0
    return np.diff(below)


def speeds(grid: Grid, f: jax.Array) -> jax.Array:
    """The velocity at the inner edges in the field f."""
    return grid.pulls @ (grid.law.weights * (grid.law.labels - f)) + grid.outward


def _upwind(grid: Grid, masses: jax.Array, left: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One explicit step within the Courant limit, at most the time that is left."""
    v = speeds(grid, masses @ grid.features)
    out = jnp.append(jnp.maximum(v, 0.0), 0.0) + jnp.append(0.0, jnp.maximum(-v, 0.0))  # what leaves each cell
    dt = jnp.minimum(left, COURANT * grid.width / jnp.maximum(jnp.max(out), 1e-300))
    flux = dt / grid.width * (jnp.maximum(v, 0.0) * masses[:-1] - jnp.maximum(-v, 0.0) * masses[1:])
    return masses - jnp.append(flux, 0.0) + jnp.append(0.0, flux), dt


def _bernoulli(x: jax.Array) -> jax.Array:
    """x/(e^x - 1)."""
    small = jnp.abs(x) < 1e-5
    safe = jnp.where(small, 1.0, jnp.clip(x, -500.0, 500.0))
    return jnp.where(small, 1 - x / 2 + x**2 / 12, safe / jnp.expm1(safe))


def _fitted(grid: Grid, masses: jax.Array, left: jax.Array, longest: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One implicit step whose rest is the Boltzmann law of the field, for every width of the cells."""
    v, h, T = speeds(grid, masses @ grid.features), grid.width, grid.temperature
    speed = jnp.sum(masses[:-1] * jnp.square(v))  # implicit steps diffuse by v^2 dt/2, which must be little against T
    dt = jnp.minimum(left, jnp.minimum(longest, SMEAR * 2 * T / jnp.maximum(speed, 1e-300)))
    right, back = T / h**2 * _bernoulli(-v * h / T) * dt, T / h**2 * _bernoulli(v * h / T) * dt
    diagonal = 1 + jnp.append(right, 0.0) + jnp.append(0.0, back)
    lower, upper = jnp.append(0.0, -right), jnp.append(-back, 0.0)
    new = jax.lax.linalg.tridiagonal_solve(lower, diagonal, upper, masses[:, None])[:, 0]
    return new, dt


class Moving(NamedTuple):
    """Masses, the time they have reached, steps so far, and the worst error of the total mass."""

    masses: Any
    now: Any
    steps: Any
    error: Any


@filter_jit
def _onward(grid: Grid, run: Moving, until, pause, longest, noisy: bool) -> Moving:
    """To the time ``until``, or to the step ``pause``."""

    def move(run: Moving) -> Moving:
        masses, now, steps, error = run
        new, dt = _fitted(grid, masses, until - now, longest) if noisy else _upwind(grid, masses, until - now)
        then = jnp.where(dt >= until - now, until, now + dt)
        return Moving(new, then, steps + 1, jnp.maximum(error, jnp.abs(jnp.sum(new) - 1)))

    def going(run: Moving) -> jax.Array:
        fine = (run.masses[-1] < EDGE) & jnp.all(jnp.isfinite(run.masses))
        return fine & (run.now < until) & (run.steps < pause)

    return jax.lax.while_loop(going, move, run)


def spread(grid: Grid, masses: np.ndarray, clock: np.ndarray, longest: float | None) -> VolumePath:
    """Move the masses through the asked times; ``longest`` bounds the implicit steps."""
    noisy, pace, seen_masses, reached = float(grid.temperature) > 0, Pace(1), [], []
    run = Moving(masses, np.asarray(0.0), np.asarray(0), np.asarray(abs(np.sum(masses) - 1)))
    reach = np.asarray(longest or math.inf)
    for until in clock:
        while True:
            pause = min(pace.upto(int(run.steps)), MOST_STEPS)
            run = jax.device_get(_onward(grid, run, until, np.asarray(pause), reach, noisy))
            if run.steps < pause or run.now >= until or pause == MOST_STEPS:
                break  # there, or no longer sound
            tick(float(run.now / clock[-1]))
        seen_masses.append(run.masses)
        reached.append(run.now)
    seen_masses, reached = np.stack(seen_masses), np.stack(reached)
    last, now, steps, error = run
    f = seen_masses @ grid.features
    risks_seen = risks(grid.law, f)
    done = (reached >= clock) & np.all(np.isfinite(seen_masses), axis=1)
    status = "ok"
    if not np.all(done):
        status = "max_steps" if steps >= MOST_STEPS else "failed" if np.all(np.isfinite(last)) else "diverged"
    gone = ~done[:, None]
    return VolumePath(
        np.where(gone, np.nan, seen_masses),
        np.where(gone, np.nan, f),
        np.where(done, risks_seen, np.nan),
        status,
        float(now),
        int(steps),
        float(error),
    )


def entropy(masses: np.ndarray, centres: np.ndarray, d: float) -> np.ndarray:
    r""":math:`-\int \rho\log\rho` of the law of w/sqrt(d) in d dimensions, uniform over directions."""
    from scipy.special import gammaln

    width = centres[1] - centres[0]
    area = math.log(2) + d / 2 * math.log(math.pi) - float(gammaln(d / 2))  # of the unit sphere
    room = masses @ (area + (d - 1) * np.log(centres))
    return room - np.sum(masses * np.log(np.maximum(masses / width, 1e-300)), axis=-1)
