"""One step of descent on a fixed data set, its start, and the largest step that leaves the teacher stable."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.descent.base import AbstractDescent
from limitlab.errors import AccuracyWarning
from limitlab.micro.glm_data import GLMData
from limitlab.problems.losses import AbstractLoss
from limitlab.problems.problem import Problem
from limitlab.problems.starts import AbstractStart, InformedStart, RandomStart
from limitlab.states.run import FIELD_BOUND, Run, whole

__all__ = ["SUCCESS", "Descent", "begin", "descent_step", "top_curvature", "warn_if_unstable"]

SUCCESS = 0.99  # of the cosine between w and the teacher, up to a sign
LONGEST = 2.0  # of a step on the sphere, in units of its radius: the diameter
MASK, HEAT, START = 0, 1, 2  # streams of random numbers of one run
PROBE = 400  # samples of the data set on which the curvature is looked at


class Descent(eqx.Module):
    """Weights w (d,), the batch (n,), and the step at which the teacher was found (or -1)."""

    w: jax.Array
    mask: jax.Array
    found: jax.Array = eqx.field(converter=whole)


def begin(rule: AbstractDescent, start: AbstractStart, data: GLMData, key: jax.Array) -> Run:
    """Step 0 of a run. An informed start has exactly the asked cosine with the teacher, and |w|^2 = d."""
    d = data.teacher.shape[0]
    z = jax.random.normal(jax.random.fold_in(key, START), (d,))
    if isinstance(start, InformedStart):
        along = data.teacher / jnp.linalg.norm(data.teacher)
        z = z - (z @ along) * along
        c = start.overlap
        w = jnp.sqrt(float(d)) * (c * along + jnp.sqrt(1 - jnp.square(c)) * z / jnp.linalg.norm(z))
    else:
        assert isinstance(start, RandomStart)
        w = start.scale * z
        if rule.spherical:
            w = _project(w)
        elif start.sphere:
            w = start.scale * _project(w)
    mask = rule.first_mask(jax.random.fold_in(jax.random.fold_in(key, MASK), 0), len(data.y))
    found = jnp.where(_cosine(w, data.teacher) > SUCCESS, 0, -1)
    return Run(Descent(w, mask, found), jnp.asarray(True), jnp.asarray(-1))


def descent_step(
    rule: AbstractDescent, loss: AbstractLoss, data: GLMData, key: jax.Array, run: Run, step: jax.Array
) -> Run:
    """Two matrix-vector products, h = X w and G = X^T g, and O(n + d) besides."""
    now, eta, d = run.state, rule.learning_rate, data.teacher.shape[0]
    h = data.X @ now.w
    g = loss.gradient(data.y, h)[0] * rule.factor
    G = (jnp.where(now.mask, g, 0.0) if rule.masked else g) @ data.X
    w = (1 - eta * rule.penalty) * now.w - eta * G
    if not (isinstance(rule.heat, float) and rule.heat == 0.0):
        noise = jax.random.normal(jax.random.fold_in(jax.random.fold_in(key, HEAT), step), w.shape)
        w = w + jnp.sqrt(2 * rule.heat * eta) * noise
    if rule.spherical:
        sound = jnp.square(eta) * (G @ G) <= LONGEST**2 * d
        w = _project(w)
    else:
        sound = w @ w <= FIELD_BOUND**2 * d
    alive = run.alive & sound & jnp.isfinite(jnp.sum(w))
    w = jnp.where(alive, w, now.w)
    hit = (now.found < 0) & alive & (_cosine(w, data.teacher) > SUCCESS)
    mask = rule.next_mask(jax.random.fold_in(jax.random.fold_in(key, MASK), step + 1), now.mask)
    state = Descent(w, mask, jnp.where(hit, step + 1, now.found))
    return Run(state, alive, jnp.where(run.alive & ~alive, step, run.died))


def _project(w: jax.Array) -> jax.Array:
    return w * jnp.sqrt(w.shape[0] / (w @ w))


def _cosine(w: jax.Array, teacher: jax.Array) -> jax.Array:
    return jnp.abs(w @ teacher) / jnp.sqrt((w @ w) * (teacher @ teacher))


def top_curvature(problem: Problem, n: int = PROBE, seed: int = 0) -> float:
    r"""The largest eigenvalue at the teacher of the Hessian that one step sees,

    .. math:: \mathrm{factor} \sum_\mu \ell''(y_\mu, w \cdot x_\mu)\, x_\mu x_\mu^T + \lambda,

    on one data set of n samples; w is the teacher, on the sphere if the rule keeps to it. Descent leaves w if
    learning_rate times this exceeds 2.
    """
    rule, loss, alpha = problem.need("algorithm", "loss", "sample_ratio", by="top_curvature")
    n, d = (n, max(round(n / float(alpha)), 1)) if alpha >= 1 else (max(round(n * float(alpha)), 1), n)
    rng, rho = np.random.default_rng(seed), float(problem.teacher.prior.second_moment)  # type: ignore[union-attr]
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    z = X @ rng.normal(size=d)
    z *= np.sqrt(n / (z @ z))
    y = problem.channel.sample(jax.random.key(seed), jnp.asarray(np.sqrt(rho) * z))
    bend = loss.gradient(y, jnp.asarray(z if rule.spherical else np.sqrt(rho) * z))[1]
    return float(rule.factor) * float(np.linalg.eigvalsh((X.T * np.asarray(bend)) @ X)[-1]) + float(rule.penalty)


def warn_if_unstable(by: str, problem: Problem) -> bool:
    """`AccuracyWarning` if the step is above the stability limit 2/`top_curvature`; returns whether it is."""
    top, eta = top_curvature(problem), float(problem.algorithm.learning_rate)  # type: ignore[union-attr]
    if eta * top > 2:
        warnings.warn(
            f"{by}: learning_rate={eta:g} is above the stability limit of about {2 / top:.2g} (2 over the largest "
            "curvature at the teacher, batch included): steps overshoot there. Use a smaller learning_rate; the "
            "status says which runs diverged.",
            AccuracyWarning,
            stacklevel=4,
        )
    return eta * top > 2
