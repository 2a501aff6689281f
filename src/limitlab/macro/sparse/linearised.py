r"""The flow of neurons linearised at a point, for steps that grow as it comes to rest.

A neuron x_i moves by :math:`g(x_i, e)`, linear in the error e on the cube, and e sees the neurons through f alone:

.. math:: J = \mathrm{diag}(D_i) - G\,\Pi F, \qquad D_i = \partial_x g(x_i, e), \quad G_i = \partial_e g(x_i, e), \quad
          F_i = \partial f/\partial x_i

with the projector Pi on what symmetry allows in e. So 1 - hJ is inverted neuron by neuron, and on 2^P unknowns:

.. math:: (1 - hJ)\,x = c \iff x = Bc - h\,BG\,\Pi s, \quad (1 + h\,FBG\,\Pi)\,s = FBc, \qquad B = (1 - hD)^{-1}
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.macro.sparse.flow import Flow, Particles, drift, error_of, means, moved, outputs, width
from limitlab.modules import filter_jit
from limitlab.numerics.cube import walsh

__all__ = ["FrozenFlow", "is_worthwhile"]

HELD = 2**22  # entries of G and of F (32 MiB each)
WORK = 2**28  # multiplications for the matrix on 2^P unknowns


def is_worthwhile(flow: Flow, neurons: int) -> bool:
    """Whether a step costs no more than a few evaluations of the flow. Kinks have no Jacobian to speak of."""
    size, P = flow.points.shape
    return not flow.smoother.kinked and neurons * (P + 2) * size <= min(HELD, WORK // size)


def _particles(v: jax.Array) -> Particles:
    return Particles(v[:, 0], v[:, 1:-1], v[:, -1])


def _rows(x: Particles) -> jax.Array:
    return jnp.concatenate([x.a[:, None], x.u, x.r[:, None]], axis=1)


@filter_jit
def _velocity(flow: Flow, v: Any) -> jax.Array:
    return _rows(drift(_particles(v), flow))


@filter_jit
def _parts(flow: Flow, v: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """D (n, K, K), G (n, K, M) and F (n, M, K)."""
    x, size = _particles(v), len(flow.points)
    e = error_of(flow, outputs(flow, x))

    def alone(row):
        x = _particles(row[None])
        s = width(flow, x.r)
        seen = flow.smoother(x.u @ flow.points.T, s[:, None])
        return _rows(moved(flow, x, s, *means(e / size, flow.points, seen)))[0]

    s = width(flow, x.r)[:, None]
    seen, a = flow.smoother(x.u @ flow.points.T, s), x.a[:, None]
    along = (flow.points @ flow.projector).T
    G = [flow.second_rate * seen.value[:, None], (a * seen.slope)[:, None] * along, (a * seen.pull)[:, None]]
    weighted = [seen.value[..., None], (a * seen.slope)[..., None] * flow.points, (a * s**2 * seen.pull)[..., None]]
    F = flow.weights[:, None, None] * jnp.concatenate(weighted, axis=2)
    return jax.vmap(jax.jacfwd(alone))(v), jnp.concatenate(G, axis=1) / size, F


class FrozenFlow:
    """The flow at a state, as `follow` asks for it: coordinates are rows (a, u, r), one a neuron."""

    def __init__(self, flow: Flow, y: np.ndarray):
        self.flow, self.P, self.size = flow, flow.points.shape[1], len(flow.points)
        self.D, G, F = jax.device_get(_parts(flow, self.enter(y)))
        rows = len(G) * (self.P + 2)
        self.G, self.F = G, np.moveaxis(F, 0, 1).reshape(self.size, rows)
        self.projector = walsh(np.asarray(flow.allowed) * walsh(np.eye(self.size))) * self.size
        self.coupled = flow.interacting

    def enter(self, y: np.ndarray) -> np.ndarray:
        n = len(y) // (self.P + 2)
        return np.column_stack([y[:n], y[n:-n].reshape(n, self.P), y[-n:]])

    def leave(self, u: np.ndarray) -> np.ndarray:
        return np.concatenate([u[:, 0], u[:, 1:-1].ravel(), u[:, -1]])

    def solver(self, h: float) -> Callable[[np.ndarray], np.ndarray]:
        """c -> (1 - hJ)^-1 c."""
        system = np.eye(self.P + 2) - h * self.D
        if not np.all(np.isfinite(system)):
            return lambda c: np.full_like(c, np.nan)
        B = np.linalg.inv(system)
        if not self.coupled:
            return lambda c: (B @ c[..., None])[..., 0]
        BG = (B @ self.G).reshape(-1, self.size)
        small = np.linalg.inv(np.eye(self.size) + h * (self.F @ BG) @ self.projector)
        back = h * BG @ self.projector @ small

        def solve(c: np.ndarray) -> np.ndarray:
            x = (B @ c[..., None])[..., 0]
            return x - (back @ (self.F @ x.ravel())).reshape(c.shape)

        return solve

    def motion(self, u: np.ndarray) -> np.ndarray:
        """How the rows move."""
        return np.asarray(_velocity(self.flow, u))

    def euler(self, h: float) -> Callable[[np.ndarray], np.ndarray]:
        solve, fixed = self.solver(h), np.asarray(self.flow.projector)

        def substep(u: np.ndarray) -> np.ndarray:
            step = solve(h * self.motion(u))
            step[:, 1:-1] = step[:, 1:-1] @ fixed  # symmetric already, but for rounding, which could grow
            return u + step

        return substep
