r"""The free-entropy landscape of a generalised linear model."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.fixed_data import GLM
from limitlab.errors import InputError
from limitlab.macro.bayes.fixed_points import Points, curve, stable_states
from limitlab.modules import filter_jit
from limitlab.numerics.machine import relieve
from limitlab.numerics.roots import bisect
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.channels import AbstractChannel
from limitlab.problems.priors import AbstractPrior
from limitlab.problems.problem import Problem
from limitlab.results.schema import dataset
from limitlab.verbs import Watch, verb

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["fixed_points", "free_entropy"]


@filter_jit
def _landscape(prior, channel, alpha, m):
    """f_RS(m) = inf_A f_RS(m, A): A solves m_w(A) = m, by bisection in log A."""
    rho = jnp.asarray(prior.second_moment, float)

    def one(m):
        ends = jnp.asarray(-60.0), jnp.asarray(36.0)
        low, high = bisect(lambda x: prior.bayes(jnp.exp(x) / rho).m < m, *ends)
        A = jnp.exp((low + high) / 2) / rho
        phi_w = prior.bayes(A).phi
        return phi_w - m * A / 2 + alpha * channel.bayes(m, jnp.maximum(rho - m, 1e-26)).phi, A

    return jax.lax.map(one, m)


@verb
def free_entropy(problem: Problem, m, progress: Watch = None, rough: bool = False) -> "xr.Dataset":
    r"""The free entropy of the problem at every overlap m, :math:`f(m) = \inf_A f_{RS}(m, A)`, with its maxima.

    .. math:: f_{RS}(m, A) = \Phi_w(A) + \alpha\,\Phi_{out}(m) - \tfrac12 m A

    Message passing climbs this landscape from m = 0 and stops at the first maximum; the best estimator sits at the
    highest.

    Parameters
    ----------
    problem
        A generalised linear model: `SingleIndex` teacher, channel, sample ratio.
    m
        Overlaps between 0 and rho = E w^2. At m = rho noiseless continuous labels give plus or minus infinity.
    progress
        True draws a bar; a function is called as progress(done, total, label); None is silent.
    rough
        Interpolates the maxima between a few dozen fixed points instead of solving for them; less good beside
        a jump.

    Returns
    -------
    xarray.Dataset
        ``free_entropy`` and ``m_hat`` (the minimising A) over ``overlap``. Attributes: ``maxima`` (overlaps of all
        local maxima), ``maxima_free_entropy``, ``message_passing`` and ``bayes_optimal`` (overlaps of the first and of
        the highest).
    """
    relieve()
    asked = Asked("free_entropy", InputError)
    problem = asked.part(problem, Problem, "a Problem", "Describe what is learned with Problem(...).")
    glm = GLM.of(problem, asked)
    prior, channel, alpha, rho = glm.prior, glm.channel, glm.ratio, glm.rho
    try:
        m = np.atleast_1d(np.asarray(m, float))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"free_entropy needs a list of overlaps m; got {m!r}.") from None
    if m.ndim != 1 or m.size == 0 or not np.all((m >= 0) & (m <= rho * (1 + 1e-12))) or np.any(np.diff(m) <= 0):
        raise InputError(
            f"free_entropy needs increasing overlaps m in [0, rho] with rho = {rho:g}; got "
            f"{np.array2string(m, threshold=6)}. Use numpy.linspace(0, {rho:g}, 201)."
        )
    line = curve(prior, channel, rough)
    inner = (m > 0) & (m < rho)
    values, signals = np.full(m.shape, alpha * line.zero_phi), np.zeros(m.shape)
    if np.any(inner):
        f, A = _landscape(traced(prior), traced(channel), np.asarray(alpha), m[inner])
        values[inner], signals[inner] = np.asarray(f), np.asarray(A)
    values[m >= rho], signals[m >= rho] = _at_the_truth(line, alpha), np.inf
    states = stable_states(line, np.array([alpha]))[0]
    best = max(states, key=lambda s: s.free_entropy)
    return dataset(
        problem,
        {"free_entropy": (("overlap",), values), "m_hat": (("overlap",), signals)},
        {"overlap": m},
        method="free_entropy",
        reference="barbier2019optimal",
        attrs={
            "maxima": [float(s.m) for s in states],
            "maxima_free_entropy": [float(s.free_entropy) for s in states],
            "message_passing": float(states[0].m),
            "bayes_optimal": float(best.m),
        },
    )


@verb
def fixed_points(prior: AbstractPrior, channel: AbstractChannel) -> Points:
    r"""All fixed points of Bayes-optimal state evolution, stable or not, as one curve over the signal A.

    .. math:: \alpha(A) = A/E g^2, \qquad m = m_w(A), \qquad f(A) = \Phi_w(A) - \tfrac12 m A + \alpha(A)\,\Phi_{out}(m)

    Each is a fixed point at its own sample ratio ``alpha``: stable where alpha rises with A, unstable where it falls.
    """
    relieve()
    return curve(prior, channel).at


def _at_the_truth(line, alpha: float) -> float:
    """f at m = rho: finite only for a discrete prior with discrete labels or noise."""
    if line.prior.dimension == 0 and line.channel.noiseless_rate == 0:
        return alpha * line.perfect_phi - line.prior.entropy
    excess = alpha * line.channel.noiseless_rate - float(line.prior.dimension)
    return np.inf if excess > 0 else -np.inf
