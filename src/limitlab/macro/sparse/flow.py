r"""The flow of a measure over neurons (a, u, s) that learns a sparse target of the hypercube.

.. math::
    f(z) = E_\rho[a\, \sigma_s(u \cdot z)], \qquad e = h - f, \qquad \sigma_s(m) = E\,\sigma(m + sG)

    \dot a = \kappa\, E_z[e\,\sigma_s], \qquad
    \dot u = a\, E_z[e\, \partial_m\sigma_s\, z], \qquad
    \dot s = a\, E_z[e\, \partial_s\sigma_s]

It is the gradient flow of the risk of this effective network. The law of the start lives on few coordinates, so that
quadrature nodes carry it exactly to rounding; random particles are not needed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import SparseOnePass
from limitlab.modules import Module, field
from limitlab.numerics.cube import cube_points, walsh
from limitlab.numerics.gauss.smoothing import AbstractSmoother, Smoothed
from limitlab.numerics.sets import basis
from limitlab.numerics.trees import as_array
from limitlab.problems.sparse.symmetry import fixed_projection
from limitlab.problems.sparse.target import SparseTarget

__all__ = [
    "NARROWEST",
    "NUMBERS",
    "Flow",
    "Particles",
    "drift",
    "error_of",
    "make_flow",
    "means",
    "moved",
    "network",
    "outputs",
    "width",
    "with_width",
]

# With kinks s can reach 0 in finite time, and the neuron then slides along its kink: Phi(m/s) takes whatever value
# keeps it there. A floor under s keeps that value defined; it moves f by a tenth of its size, and costs small steps.
NARROWEST = 5e-5
NUMBERS = 2**22  # entries of an array (particles, points of the cube) that is held at once; larger ones go in chunks


class Particles(NamedTuple):
    """Neurons: second layer a (n,), latent weights u (n, P), and the rest's norm s as ``Flow.form`` says."""

    a: jax.Array
    u: jax.Array
    r: jax.Array


class Flow(Module):
    """Everything that the motion needs apart from the particles."""

    weights: jax.Array  # (n,), summing to 1
    points: jax.Array  # (2^P, P)
    target: jax.Array  # (2^P,)
    projector: jax.Array  # (P, P) on the vectors that the symmetries of the target leave alone
    allowed: jax.Array  # (2^P,) 1 for the sets that can have a coefficient, by parity
    second_rate: jax.Array
    decay: jax.Array
    kick: jax.Array  # gamma/(p b), for the noise of finite steps (`step_noise`)
    noise: jax.Array
    smoother: AbstractSmoother
    interacting: bool = field(static=True, default=True)

    @property
    def form(self) -> str:
        """What the particles' r is: "log" s, which keeps s positive, or "plain" s for kinks, which may stop at 0."""
        return "plain" if self.smoother.kinked else "log"


def parity_sets(target: SparseTarget, even: bool) -> np.ndarray:
    """1 for the sets that are sums (symmetric differences) of the target's, of an odd number if the law of a is even.

    A flip of some signs under which h is unchanged leaves f unchanged; one under which h changes its sign changes that
    of f if a and -a are equally likely. The constant counts as a set of the target.
    """
    P = target.latent
    marks = np.array([mask | (1 << P if even else 0) for mask in target.terms])  # the extra bit counts the summands
    sums = np.zeros(1, np.int64)
    for vector in marks[basis(marks)[0]]:
        sums = np.concatenate([sums, sums ^ vector])
    allowed = np.zeros(2**P)
    if even:
        allowed[sums[sums >> P == 1] & (2**P - 1)] = 1.0
    else:
        allowed[sums] = 1.0
    return allowed


def make_flow(setting: SparseOnePass, weights: np.ndarray, *, even: bool, widest: float) -> Flow:
    """The flow of a problem; ``even`` says that the law of the start's a is even."""
    target = setting.teacher
    allowed = parity_sets(target, even)
    if not setting.interacting:
        allowed = np.ones_like(allowed)  # f does not act on itself: nothing grows from rounding
    return Flow(
        weights=as_array(weights),
        points=as_array(cube_points(target.latent)),
        target=as_array(target.values),
        projector=as_array(fixed_projection(target)),
        allowed=as_array(allowed),
        second_rate=as_array(float(setting.second_rate)),
        decay=as_array(float(setting.weight_decay)),
        kick=as_array(float(setting.kick)),
        noise=as_array(float(setting.channel.variance)),
        smoother=setting.student.activation.smoother(widest),
        interacting=setting.interacting,
    )


def width(flow: Flow, r: jax.Array) -> jax.Array:
    """s of the particles."""
    xp: Any = np if isinstance(r, np.ndarray) else jnp
    return xp.exp(r) if flow.form == "log" else xp.maximum(r, NARROWEST)


def with_width(flow: Flow, s):
    """The coordinate r of given widths."""
    xp = np if isinstance(s, np.ndarray) else jnp
    return xp.log(xp.maximum(s, 1e-9)) if flow.form == "log" else s  # s = 0 if there are no others


def outputs(flow: Flow, x: Particles) -> jax.Array:
    """f at all points of the cube."""
    return network(flow, x.a, x.u, width(flow, x.r))


def network(flow: Flow, a: jax.Array, u: jax.Array, s: jax.Array) -> jax.Array:
    """f at all points of the cube, of neurons (a, u, s)."""

    def at(points):
        return (flow.weights * a) @ flow.smoother(u @ points.T, s[:, None]).value

    return _in_chunks(at, flow.points, len(a))


def _in_chunks(function, points: jax.Array, n: int) -> jax.Array:
    size = len(points)
    chunk = max(1, NUMBERS // n)
    if size <= chunk:
        return function(points)
    chunk = 2 ** int(np.log2(chunk))
    return jax.lax.map(function, points.reshape(size // chunk, chunk, -1)).reshape(size)


def error_of(flow: Flow, f: jax.Array) -> jax.Array:
    """h - f, without what rounding puts on sets that symmetry forbids."""
    if not flow.interacting:
        return flow.target
    e = flow.target - f
    return walsh(flow.allowed * walsh(e)) * len(e)


def means(e: jax.Array, points: jax.Array, seen: Smoothed) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sums over points of the error with sigma_s, with its slope times z, and with its pull."""
    return seen.value @ e, (seen.slope * e) @ points, seen.pull @ e


def drift(x: Particles, flow: Flow) -> Particles:
    """The motion of the particles."""
    s = width(flow, x.r)[:, None]
    size, n = len(flow.points), len(x.a)

    def sums(points, e, seen):
        return list(means(e / size, points, seen))

    if size * n <= NUMBERS:
        seen = flow.smoother(x.u @ flow.points.T, s)
        e = error_of(flow, (flow.weights * x.a) @ seen.value)
        parts = sums(flow.points, e, seen)
    else:  # twice the work, so that no array has all particles and all points
        e = error_of(flow, outputs(flow, x) if flow.interacting else flow.target)
        chunk = 2 ** int(np.log2(max(1, NUMBERS // n)))
        pieces = (flow.points.reshape(-1, chunk, flow.points.shape[1]), e.reshape(-1, chunk))

        def add(total, piece):
            points, e = piece
            new = sums(points, e, flow.smoother(x.u @ points.T, s))
            return [a + b for a, b in zip(total, new, strict=True)], None

        start = [jnp.zeros(n), jnp.zeros_like(x.u), jnp.zeros(n)]
        parts = jax.lax.scan(add, start, pieces)[0]
    return moved(flow, x, s[:, 0], *parts)


def moved(flow: Flow, x: Particles, s: jax.Array, value: jax.Array, slope: jax.Array, pull: jax.Array) -> Particles:
    """The motion, from the means of the error with sigma_s, its slope times z, and its pull."""
    da = flow.second_rate * value - jnp.where(flow.second_rate > 0, flow.decay, 0.0) * x.a
    du = (x.a[:, None] * slope) @ flow.projector - flow.decay * x.u
    if flow.form == "log":  # the pull is E sigma'': s stays positive
        return Particles(da, du, x.a * pull - flow.decay)
    speed = x.a * pull - flow.decay * s  # the pull is d_s sigma_s; s may reach its floor and wait there
    return Particles(da, du, jnp.where(x.r <= NARROWEST, jnp.maximum(speed, 0.0), speed))
