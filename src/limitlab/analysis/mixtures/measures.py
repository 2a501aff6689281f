r"""The risk as a functional of the law of units: potentials, the test of global optimality, the price of finite width.

.. math::
    \mathrm{risk}(\rho) = \tfrac12 E y^2 + \int V\,d\rho + \tfrac12 \iint U\,d\rho\,d\rho, \qquad
    \Psi = V + \int U(\cdot, \theta')\,\rho(d\theta')

for laws of norms r of a rotation-invariant network on an isotropic mixture (:math:`U` averaged over directions).
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from limitlab._setup import double
from limitlab.algorithms.settings.one_pass import LabelledOnePass
from limitlab.errors import InputError
from limitlab.macro.mixtures.law import Radial, RadialData, RadialUnits, at_infinity, make_data, risk, seen
from limitlab.macro.mixtures.radial_flow import RadialFlow
from limitlab.modules import filter_jit
from limitlab.numerics.gauss import normal
from limitlab.numerics.gauss.rules import normal_nodes
from limitlab.numerics.machine import relieve
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.text import html_record
from limitlab.verbs import verb

__all__ = ["Measure", "OptimalityGap", "Potentials", "as_measure", "finite_width", "optimality_gap", "potentials"]

SCAN = 2001  # radii at which a potential is first seen


class Measure(NamedTuple):
    """A law of norms: radii (math.inf allowed) and weights that sum to 1."""

    r: np.ndarray
    weight: np.ndarray

    _repr_html_ = html_record


class OptimalityGap(NamedTuple):
    r"""``gap`` = :math:`\int\Psi\,d\rho - \inf\Psi`: 0 if and only if rho is optimal, and never below the excess risk.

    ``radius`` is where Psi is least (math.inf: best approached by ever longer weights), ``spread`` how much Psi varies
    on the support, ``risk`` the risk of rho.
    """

    gap: float
    radius: float
    spread: float
    risk: float

    _repr_html_ = html_record


@filter_jit
def _average_units(law: RadialData, r):
    return seen(law, RadialUnits(jnp.ones(len(r)), jnp.zeros(len(r)), r[:, None]))[0].value


class Potentials:
    """V, U, Psi and the risk of a problem at dimension d; see `potentials`. They know neither temperature nor decay."""

    def __init__(self, one_pass: LabelledOnePass, setting: Radial, d: float):
        self.problem, self.setting, self.d = one_pass.problem, setting, d
        self.temperature, self.decay = float(one_pass.algorithm.temperature), float(one_pass.algorithm.weight_decay)
        self.law: RadialData = make_data(setting, d)
        self.a = setting.output_weight
        self.activation = setting.one_pass.student.activation
        self.far = at_infinity(self.activation)
        self.labels, self.weights = np.asarray(self.law.labels), np.asarray(self.law.weights)

    @double
    def units(self, r) -> np.ndarray:
        """The average unit of norm r at the nodes of the data: (radii, nodes)."""
        r = np.atleast_1d(np.asarray(r, float))
        if np.any(np.isnan(r)) or np.any(r < 0):
            raise InputError(f"r must be norms >= 0; got {r.tolist()}. They are |w|/sqrt(d).")
        lost = np.isinf(r)
        if np.any(lost) and self.far is None:
            raise InputError("r may be infinite only for activations that are bounded; give finite norms.")
        inside = np.ones(2 ** math.ceil(math.log2(max(1, len(r)))))  # few lengths, so few compilations
        inside[: len(r)] = np.where(lost, 1.0, r)
        value = np.asarray(_average_units(self.law, jnp.asarray(inside)))[: len(r)]
        return self.a * np.where(lost[:, None], 0.0 if self.far is None else self.far, value)

    def V(self, r) -> np.ndarray:
        """-E[y sigma] at norms r."""
        return -self.units(r) @ (self.weights * self.labels)

    def U(self, r, r2) -> np.ndarray:
        """E[sigma sigma'] at all pairs of norms, averaged over directions: (r, r2)."""
        return (self.units(r) * self.weights) @ self.units(r2).T

    def network(self, rho) -> np.ndarray:
        """f at the nodes of the data."""
        rho = as_measure(rho)
        return rho.weight @ self.units(rho.r)

    def psi(self, r, rho) -> np.ndarray:
        """Psi at norms r in the field of rho (weight decay not counted)."""
        return -self.units(r) @ (self.weights * (self.labels - self.network(rho)))

    @double
    def risk(self, rho) -> float:
        """Half the mean square error, label noise included."""
        return float(risk(self.law, jnp.asarray(self.network(rho))))


@verb
def potentials(problem: Problem, d: float = math.inf) -> Potentials:
    """V, U and Psi of an isotropic mixture with units sigma(w.x) at dimension d.

    ``potentials(problem, d).risk(rho)`` is the risk of any law of norms: a result of `RadialFlow` or `simulate` at one
    time, a pair (radii, weights), or radii of equal weight.
    """
    relieve()
    problem = Asked("potentials", InputError).part(problem, Problem, "a Problem", "Describe one by Problem(...).")
    asked = Asked("RadialFlow")  # the same needs: norms only
    one_pass = LabelledOnePass.of(problem, asked)
    cold = replace(one_pass, algorithm=replace(one_pass.algorithm, temperature=0.0))
    return Potentials(one_pass, RadialFlow(d=d, method="jko").radial(cold, asked), d)


def as_measure(rho: Any) -> Measure:
    """A law of norms from a result at one time, a pair (radii, weights) or radii of equal weight."""
    if hasattr(rho, "data_vars"):
        return _measure_of(rho)
    try:
        if isinstance(rho, tuple) and len(rho) == 2:
            r, weight = (np.atleast_1d(np.asarray(x, float)) for x in rho)
        else:
            r = np.atleast_1d(np.asarray(rho, float))
            weight = np.full(r.shape, 1 / max(1, r.size))
    except (TypeError, ValueError, OverflowError):
        r = weight = np.array([np.nan])
    total = float(np.sum(weight)) if weight.size else 0.0
    if r.ndim != 1 or r.shape != weight.shape or np.any(np.isnan(r)) or not total > 0 or not np.all(weight >= 0):
        raise InputError(
            f"A law of norms must be (radii, weights >= 0), radii alone, or a result at one time; got {rho!r}."
        )
    if np.any(r < 0):
        raise InputError(f"Norms must be >= 0; got a smallest one of {r.min():g}. They are |w|/sqrt(d).")
    return Measure(r, weight / total)


def _measure_of(ds) -> Measure:
    extra = [dim for dim in ds.dims if dim in ("time", "replica", "iteration") and ds.sizes[dim] > 1]
    if extra or "block" in ds.dims:
        raise InputError(
            f"A law of norms needs one time and one run of one norm; the result has {dict(ds.sizes)}. Select with "
            ".isel(time=-1, replica=0)."
        )
    ds = ds.squeeze([dim for dim in ("time", "replica", "iteration") if dim in ds.dims])
    if "density" in ds:
        r, weight = ds["radius"].values, ds["density"].values
    elif "r" in ds:
        r = ds["r"].values
        weight = ds["weight"].values if "weight" in ds else np.ones(len(r))
    else:
        raise InputError(f"The result has no norms r and no density of them; it has {', '.join(map(str, ds))}.")
    if np.any(np.isnan(r)) or np.any(np.isnan(weight)):
        raise InputError("The result is NaN at this time (its run had ended). Choose an earlier time.")
    return Measure(r, weight / weight.sum())


def radii(p: Potentials, count: int = SCAN) -> np.ndarray:
    """A grid over all norms, dense where the activation is not yet saturated; math.inf last if it is bounded."""
    u = np.linspace(0.0, 1.0, count + 1)[:-1]
    grid = 2.0 * u / (1 - u)
    return np.append(grid, np.inf) if p.far is not None else grid


def refine(function, low: float, high: float) -> tuple[float, float]:
    """Where a function of one number is least between two, and its value there."""
    from scipy.optimize import minimize_scalar

    fit: Any = minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 1e-13})
    return float(fit.x), float(fit.fun)


def least(p: Potentials, error: np.ndarray, decay: float = 0.0) -> tuple[float, float]:
    """The minimum of Psi in the field whose weighted error is given, and its radius; from a scan, then refined."""

    def psi(r):
        finite = np.where(np.isinf(r), 0.0, r)
        cost = decay * np.square(finite) / 2
        return -p.units(r) @ error + (np.where(np.isinf(r), np.inf, cost) if decay else 0.0)

    grid = radii(p)
    values = psi(grid)
    if p.far is None and values[-1] < np.min(values[:-1]):  # of an unbounded activation, and still falling
        return -math.inf, math.inf
    best, place = float(np.min(values)), float(grid[int(np.argmin(values))])
    inner = np.nonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:]))[0] + 1
    for i in inner[np.argsort(values[inner])][:4]:
        high = grid[i + 1] if np.isfinite(grid[i + 1]) else 2 * grid[i]
        r, value = refine(lambda r: float(psi(np.array([r]))[0]), float(grid[i - 1]), float(high))
        if value < best:
            best, place = value, r
    return best, place


@verb
def optimality_gap(problem: Problem, rho, d: float = math.inf) -> OptimalityGap:
    r"""Is the law of norms a global minimum of the risk? It is if and only if Psi is minimal on its support.

    Weight decay is counted as it acts, :math:`\Psi_\lambda = \Psi + \lambda r^2/2`. By convexity no law has a risk
    (with decay) below that of rho minus ``gap``.
    """
    relieve()
    p, rho = potentials(problem, d), as_measure(rho)
    decay = p.decay
    f = p.network(rho)
    error = p.weights * (p.labels - f)
    lowest, place = least(p, error, decay)
    there = -p.units(rho.r) @ error + (decay * np.square(rho.r) / 2 if decay else 0.0)
    heavy = there[rho.weight > 1e-12 * rho.weight.max()]
    return OptimalityGap(
        float(rho.weight @ there) - min(lowest, float(np.min(heavy))),
        place if lowest < float(np.min(heavy)) else float(rho.r[int(np.argmin(there))]),
        float(np.ptp(heavy)),
        float(risk(p.law, jnp.asarray(f))),
    )


@verb
def finite_width(problem: Problem, rho, d: float = math.inf) -> float:
    r"""K of the law of finite width: N units drawn from rho have a risk of risk(rho) + K/N on average.

    .. math:: K = \tfrac12\Big[\int U(\theta, \theta)\,d\rho - \iint U\,d\rho\,d\rho\Big]

    with the diagonal of U, where both directions are the same one. Hence inf risk_N is within K/N of inf risk.
    """
    relieve()
    p, rho = potentials(problem, d), as_measure(rho)
    if np.any(np.isinf(rho.r)):
        raise InputError("finite_width needs finite norms; the law has an atom at infinity.")
    square = float(rho.weight @ _second_moment(p, rho.r))
    return 0.5 * (square - float(p.weights @ np.square(p.network(rho))))


def _second_moment(p: Potentials, r: np.ndarray) -> np.ndarray:
    """E[(a sigma(w.x))^2] of a given direction: the field is Gaussian in either class, at every d."""
    activation = p.activation
    pieces, total = activation.pieces(), np.zeros(len(r))
    for tau in p.setting.widths.taus:
        if pieces is not None:
            total += _pieces_square(pieces, tau * r) / 2
        else:
            G, weights = normal_nodes(0.02)
            total += np.square(np.asarray(activation.function(jnp.asarray(tau * r[:, None] * G)))) @ weights / 2
    return p.a**2 * total


def _pieces_square(pieces, s: np.ndarray) -> np.ndarray:
    """E of the square of a piecewise linear function at width s, line by line: closed form."""
    from scipy.special import ndtr

    level, tilt, places, bends = (np.asarray(x, float) for x in pieces)
    s = np.maximum(np.asarray(s, float), 1e-150)[:, None]
    order = np.argsort(places)
    places, bends = places[order], bends[order]
    slopes = np.concatenate([[tilt], tilt + np.cumsum(bends)])
    starts = np.concatenate([[level], level - np.cumsum(bends * places)])
    edges = np.concatenate([[-np.inf], places, [np.inf]]) / s
    low, high = edges[:, :-1], edges[:, 1:]

    def density(z):
        return np.asarray(normal.density(z))

    def times(z):
        return np.where(np.isinf(z), 0.0, np.where(np.isinf(z), 0.0, z) * density(z))

    mass = ndtr(high) - ndtr(low)
    first = density(low) - density(high)
    second = mass + times(low) - times(high)
    return np.sum(starts**2 * mass + 2 * starts * slopes * s * first + np.square(slopes * s) * second, axis=1)
