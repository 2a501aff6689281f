r"""Fluctuations of the overlaps to leading order: a Gaussian law around the solution of the ODE."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass
from limitlab.errors import ConvergenceError
from limitlab.macro.overlaps.drift import drift
from limitlab.macro.overlaps.increments import coordinates, covariance, flatten, noise_variance, sample_rule, unflatten
from limitlab.macro.overlaps.size import overlap_bytes
from limitlab.modules import filter_jit
from limitlab.numerics.checks import check_number, check_times
from limitlab.numerics.machine import Memory, check_memory, relieve
from limitlab.numerics.ode.integrate import norm, runge_kutta_step
from limitlab.numerics.trees import as_arrays
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.states.overlaps import Overlaps, error_sum, limit_overlaps
from limitlab.text import html_record
from limitlab.verbs import Watch, verb

__all__ = ["LinearNoise", "linear_noise"]

TURN = 0.1  # longest step times the local rate: leaves a relative error of about TURN^4/120 per unit of rate * time
SOFT_START = 100.0  # rate assumed before one is seen
FORGET = 0.7  # how fast a past rate is forgotten: steps grow by at most 1/FORGET each
BOUND = 1e8  # an overlap beyond it counts as diverged


class LinearNoise(NamedTuple):
    """Mean path (leading axis time), covariance (time, D, D), names of the D coordinates, and the rule used."""

    times: np.ndarray
    mean: Overlaps
    covariance: np.ndarray
    coordinates: tuple[str, ...]
    rule: str

    _repr_html_ = html_record

    def variance(self, coordinate: str) -> np.ndarray:
        """Variance of one coordinate, such as ``"M[0,0]"``, at all times."""
        i = self.coordinates.index(coordinate)
        return self.covariance[:, i, i]


@verb
def linear_noise(problem: Problem, d: float, times, progress: Watch = None) -> LinearNoise:
    r"""Covariance of the overlaps at dimension d, from a start without fluctuations.

    .. math:: \dot V = J V + V J^T + \frac{\gamma}{p d B}\, \Sigma, \qquad V(0) = 0

    along the solution of the ODE from the limiting start, with J the Jacobian of its drift and Sigma the covariance
    of one increment (`increments.covariance`). It is what `OverlapSDE` tends to as d grows, without random
    numbers; it knows nothing of the shift of the means nor of a start whose overlaps fluctuate.

    Parameters
    ----------
    problem
        One-pass SGD of a committee. Up to four units in all Sigma is accurate to the rule's many digits; more take
        scrambled Sobol points, good for about three digits.
    d
        Dimension: V is proportional to 1/d.
    times
        Increasing times.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.
    """
    relieve()
    setting = CommitteeOnePass.of(problem, Asked("linear_noise"))
    d = check_number("linear_noise", "d", d, low=1, remedy="It is the input dimension.")
    times = check_times(times)
    p, k = setting.student.width, setting.teacher.width
    check_memory(_memory(setting, p, k, len(times)), by="linear_noise")
    start, rule = limit_overlaps(setting), sample_rule(setting)
    y = flatten(start)
    V = jnp.zeros((len(y), len(y)))
    args = (as_arrays(setting), as_arrays(error_sum(setting)), as_arrays(rule), start.P)
    now, rate, path = jnp.zeros(()), jnp.asarray(SOFT_START), []
    for time in times:
        (y, V), now, rate = _advance(args, (y, V), now, rate, jnp.asarray(time))
        if float(now) != time:
            raise ConvergenceError(
                f"linear_noise diverged at t={float(now):.4g}, before the last time {times[-1]:g}. "
                "Ask for earlier times or lower the learning rate.",
                estimate=(times[: len(path)], path),
            )
        path.append((jax.tree.map(np.asarray, unflatten(y, start.P)), np.asarray(V)))
    mean = jax.tree.map(lambda *x: np.stack(x), *(o for o, _ in path))
    return LinearNoise(times, mean, np.stack([V for _, V in path]) / d, coordinates(*start.M.shape), rule.name)


def _memory(setting: CommitteeOnePass, p: int, k: int, times: int) -> Memory:
    """A matrix over all pairs of overlaps, in the stages of a step and along the path; a drift for every overlap."""
    entries = p * (p + 1) // 2 + p * k + p
    needed = 8 * entries**2 * (12 + 2 * times) + entries * overlap_bytes(setting, p, "auto")
    return Memory(needed, f"It follows the covariance of {entries} overlaps. Use fewer units or times.")


def _flow(args: Any, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Drift of the mean and of d V."""
    y, V = state
    setting, sums, rule, P = args

    def b(x: jax.Array) -> jax.Array:
        return flatten(drift(setting, sums, unflatten(x, P)))

    turned = jax.jacfwd(b)(y) @ V
    return b(y), turned + turned.T + noise_variance(setting, 1.0) * covariance(setting, unflatten(y, P), rule)


@filter_jit
def _advance(args: Any, state: Any, now: jax.Array, rate: jax.Array, target: jax.Array):
    """Runge-Kutta steps to the time ``target``, each at most `TURN` of the time in which the drift turns."""

    def body(carry):
        state, now, rate, _ = carry
        pieces = jnp.ceil((target - now) * rate / TURN * (1 - 1e-12))
        h = (target - now) / jnp.maximum(pieces, 1.0)
        new, seen = runge_kutta_step(lambda x: _flow(args, x), state, h)
        alive = jnp.isfinite(norm(new)) & (jnp.max(jnp.abs(new[0])) < BOUND)
        keep = jax.tree.map(lambda x, y: jnp.where(alive, x, y), new, state)
        after = jnp.where(pieces <= 1, target, now + h)
        return keep, jnp.where(alive, after, now), jnp.where(alive, jnp.maximum(seen, FORGET * rate), rate), alive

    start = (state, now, rate, jnp.asarray(True))
    state, now, rate, _ = jax.lax.while_loop(lambda c: c[3] & (c[1] < target), body, start)
    return state, now, rate
