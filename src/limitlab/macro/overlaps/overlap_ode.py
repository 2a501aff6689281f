r"""Overlap equations of one-pass SGD as d grows at fixed widths."""

import functools
import warnings
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.requirements import check_one_pass_committee
from limitlab.errors import AccuracyWarning
from limitlab.macro.limit import AbstractLimit
from limitlab.numerics.checks import check_choice, check_integer, check_number
from limitlab.numerics.gauss.fields import AbstractFieldSum, FieldMoments
from limitlab.numerics.ode.integrate import integrate
from limitlab.numerics.trees import NUMBERS, as_arrays
from limitlab.problems.problem import Problem
from limitlab.results.points import Point
from limitlab.results.schema import overlap_dataset
from limitlab.states.overlaps import (
    Overlaps,
    error_coefficients,
    error_sum,
    initial_overlaps,
    limit_overlaps,
    risks,
    start_key,
)

__all__ = ["OverlapODE", "drift"]

VISIBLE = 1e-5  # an estimated error of the moments above this is said aloud


@eqx.filter_jit
def _moments(sums: AbstractFieldSum, Omega: jax.Array, c: jax.Array, noise: jax.Array | float) -> FieldMoments:
    """Traced once, although an integrator asks for the drift in several places."""
    return sums(Omega, c, noise)


def drift(problem: Problem, sums: AbstractFieldSum, overlaps: Overlaps, copies: jax.Array | None = None) -> Overlaps:
    r"""Mean motion of the overlaps under one-pass SGD.

    .. math::
        \dot M_{ir} &= a_i E[\sigma'(\lambda_i)\, \lambda^*_r\, \mathcal E] \\
        \dot Q_{ij} &= E[(a_i \sigma'(\lambda_i)\lambda_j + a_j \sigma'(\lambda_j)\lambda_i)\, \mathcal E]
                       + \frac{\gamma}{pB}\, a_i a_j E[\sigma'(\lambda_i)\sigma'(\lambda_j)\, \mathcal E^2] \\
        \dot a_i &= \kappa E[\sigma(\lambda_i)\, \mathcal E]

    with (lambda, lambda*) ~ N(0, Omega), batches of B samples, kappa = 0 unless the second layer is trained. On the
    sphere the radial part is taken out: Psi_ir - M_ir Phi_ii/2 (Phi_ii/Q_ii in general). ``copies`` counts how many
    units of the network share each row of the overlaps (see `OverlapODE`).
    """
    c = error_coefficients(problem, overlaps.a if copies is None else overlaps.a * copies)
    return motion(problem, overlaps, _moments(sums, overlaps.omega, c, problem.channel.variance))  # type: ignore[attr-defined]


def motion(problem: Problem, overlaps: Overlaps, moments: FieldMoments) -> Overlaps:
    """`drift` from its Gaussian moments."""
    student, algorithm = problem.need("student", "algorithm", by="drift")
    a, p, width = overlaps.a, overlaps.a.shape[0], student.width
    flow = a[:, None] * moments.L
    dM = flow[:, p:]
    dQ = flow[:, :p] + flow[:, :p].T
    dQ = dQ + algorithm.learning_rate / (width * algorithm.batch_size) * jnp.outer(a, a) * moments.V
    if algorithm.spherical:
        radial = jnp.diagonal(dQ) / jnp.diagonal(overlaps.Q) / 2
        dM = dM - overlaps.M * radial[:, None]
        dQ = dQ - overlaps.Q * (radial[:, None] + radial[None, :])
    da = algorithm.second_layer_rate * moments.I[:p] if student.second_layer == "trained" else jnp.zeros_like(a)
    # Symmetric to the last bit: on the sphere an antisymmetric part of Q, begun by rounding, would grow.
    return Overlaps((dQ + dQ.T) / 2, dM, jnp.zeros_like(overlaps.P), da)


_draw = eqx.filter_jit(initial_overlaps)


def _flow(overlaps: Overlaps, args: tuple[Problem, AbstractFieldSum, jax.Array]) -> Overlaps:
    problem, sums, copies = args
    return drift(problem, sums, overlaps, copies)


@functools.partial(jax.jit, static_argnums=0)
def _limit(structure: Any, numbers: list) -> Overlaps:
    return limit_overlaps(jax.tree.unflatten(structure, numbers))


class Start(NamedTuple):
    """The overlaps at time 0, the first unit of each set of identical units, and for every unit its set."""

    overlaps: Overlaps
    first: np.ndarray
    member: np.ndarray


_STARTS: dict[Hashable, Start] = {}  # of late: problems of a sweep often share one


def limit_start(problem: Problem) -> Start:
    """`limit_overlaps`, compiled and remembered, as NumPy arrays that nobody may change."""
    leaves, structure = jax.tree.flatten(problem)
    if not all(isinstance(x, NUMBERS) for x in leaves):
        overlaps = limit_overlaps(problem)
        return Start(overlaps, *_distinct(overlaps))
    return start_of(problem, leaves, structure)


def start_of(problem: Problem, leaves: list, structure: Any) -> Start:
    """`limit_start` of a problem that has been taken apart."""
    asked = jax.tree.leaves((problem.start, problem.student))
    key = (structure, *(x if isinstance(x, float) else np.asarray(x, float).tobytes() for x in asked))
    if key not in _STARTS:
        if len(_STARTS) >= 4096:
            _STARTS.clear()
        overlaps = jax.device_get(_limit(structure, [np.asarray(x, float) for x in leaves]))
        _STARTS[key] = Start(overlaps, *_distinct(overlaps))
    return _STARTS[key]


def _distinct(start: Overlaps) -> tuple[np.ndarray, np.ndarray]:
    """The first unit of each set of identical units, and for every unit the number of its set."""
    Q, M, a = (np.asarray(x) for x in (start.Q, start.M, start.a))
    own = np.diag(Q)
    same = (Q == own[:, None]) & (Q == own[None, :]) & (a[:, None] == a[None, :])
    same &= np.all(M[:, None, :] == M[None, :, :], axis=-1)
    first, member = np.unique(np.argmax(same, axis=1), return_inverse=True)
    return first, member


class OverlapODE(AbstractLimit):
    r"""Online SGD of committees at fixed widths as :math:`d \to \infty`: the ODE of `drift`.

    Needs Gaussian inputs, the square loss and a fresh sample at every step. Time: t = gamma * step / (p d), so a
    time t costs t p d / gamma steps. All terms in the learning rate are kept. Units that start with the very same
    weights stay together under SGD and are integrated as one: for activations with a kink the equations of two
    parallel units are not Lipschitz (they feel the square root of 1 - rho) and rounding would pull them apart.

    Parameters
    ----------
    d
        None starts from the limiting overlaps. A number draws the start at that dimension: a random start then
        keeps its O(d^-1/2) overlaps, without which it may sit on a saddle for ever. ``simulate`` with the same
        seed starts from the same overlaps.
    replicas, seed
        How many such starts (only with ``d``).
    rtol
        Relative tolerance of the integrator; not finer than a tenth of the error of a quadrature, where one is used.
    method
        "auto", or force "closed" / "quadrature" Gaussian moments.
    solver
        "auto" (explicit, then implicit on long plateaus), "explicit" or "implicit".
    """

    d: float | None = None
    replicas: int = eqx.field(static=True, default=1)
    seed: int = eqx.field(static=True, default=0)
    rtol: float = eqx.field(static=True, default=1e-10)
    method: str = eqx.field(static=True, default="auto")
    solver: str = eqx.field(static=True, default="auto")

    reference: ClassVar[str] = "saad1995online"
    rate: ClassVar[dict[str, float]] = {"d": -0.5}

    def __check_init__(self):
        if self.d is not None:
            check_number(
                "OverlapODE", "d", self.d, low=1, remedy="It is the dimension of the start; None means infinity."
            )
        check_integer("OverlapODE", "replicas", self.replicas, low=1)
        check_number("OverlapODE", "rtol", self.rtol, low=1e-13, high=1e-2, remedy="Use a tolerance such as 1e-10.")
        check_choice("OverlapODE", "method", self.method, ("auto", "closed", "quadrature"))
        check_choice("OverlapODE", "solver", self.solver, ("auto", "explicit", "implicit"))

    def check(self, problem: Problem) -> None:
        check_one_pass_committee("OverlapODE", problem)

    def start(self, problem: Problem, replica: int) -> Overlaps:
        """Where the ODE of one replica starts."""
        if self.d is None:
            return limit_start(problem).overlaps
        return _draw(as_arrays(problem), start_key(self.seed, replica), jnp.asarray(float(self.d)))

    def solve(self, problem: Problem, times: np.ndarray):
        runs = [self._run(problem, times, r) for r in range(self.replicas if self.d is not None else 1)]
        return self._dataset(problem, times, runs, (as_arrays(problem), as_arrays(error_sum(problem, self.method))))

    def _run(self, problem: Problem, times: np.ndarray, replica: int):
        start = self.start(problem, replica)
        first, member = _distinct(start)
        small = Overlaps(start.Q[first][:, first], start.M[first], start.P, start.a[first])
        sums = as_arrays(error_sum(problem, self.method, units=len(first)))
        args = (as_arrays(problem), sums, jnp.asarray(np.bincount(member), float))
        rtol = tolerance(self.rtol, *args[:2], small, args[2])
        run = integrate(_flow, small, times, args, rtol=rtol, atol=0.01 * rtol, solver=self.solver)
        o = run.values
        return run._replace(values=Overlaps(o.Q[:, member][:, :, member], o.M[:, member], o.P, o.a[:, member]))

    def _dataset(self, problem: Problem, times: np.ndarray, runs: list, args: Any):
        path: Overlaps = jax.tree.map(lambda *x: np.stack(x, axis=1), *(run.values for run in runs))  # (time, replica)
        values, error = risks(args[0], args[1], path), max(quadrature_error(args, path, r) for r in range(len(runs)))
        warn_of_error(error, args[1].name)
        return overlap_dataset(
            problem,
            times,
            path,
            values,
            status=[run.status for run in runs],
            end_time=[run.end_time for run in runs],
            method="OverlapODE",
            reference=self.reference,
            replicated=self.d is not None,
            attrs=self.about(args[1].name, error, runs[0].solver, max(run.steps for run in runs)),
        )

    def about(self, moments: str, error: float, solver: str, steps: int) -> dict[str, Any]:
        """What a result says of how it was made."""
        drawn = {} if self.d is None else {"d": float(self.d), "seed": self.seed}
        made = {"gaussian_moments": moments, "quadrature_error": error, "solver": solver, "steps": steps}
        return {**made, "rtol": self.rtol, **drawn}

    def family_key(self, problem: Problem) -> Hashable | None:
        """Problems with equal keys may share a call of `family`; None: the problem has to be solved alone."""
        from limitlab.macro.overlaps.family import family_key

        return family_key(self, problem)

    def family(self, problems: Sequence[Problem], times: Any) -> list[Point]:
        """The results of problems with equal keys, in one compiled call; none depends on which others share it."""
        from limitlab.macro.overlaps.family import family

        return family(self, problems, times)


def tolerance(rtol: float, problem: Problem, sums: AbstractFieldSum, start: Overlaps, copies: Any) -> float:
    """Steps finer than the moments are exact would only resolve the kinks of the quadrature, at any cost."""
    c = error_coefficients(problem, start.a * copies)
    blur = float(sums.error(start.omega, c, problem.channel.variance))  # type: ignore[attr-defined]
    return max(rtol, blur / 10) if blur > VISIBLE else rtol


def warn_of_error(error: float, moments: str) -> None:
    """Say aloud that Gaussian moments are less accurate than one would think."""
    if error > VISIBLE:
        warnings.warn(
            f"OverlapODE: the Gaussian moments ({moments}) have an estimated error of {error:.1e}. A function "
            'with a kink loses digits here: use a named activation such as "relu" where there is one.',
            AccuracyWarning,
            stacklevel=3,
        )


def quadrature_error(args: Any, path: Overlaps, replica: int) -> float:
    """The largest error estimate of the moments at the first, middle and last finite point of a path."""
    problem, sums = args
    finite = np.nonzero(np.all(np.isfinite(path.Q[:, replica]), axis=(1, 2)))[0]
    worst = 0.0
    for t in {finite[0], finite[len(finite) // 2], finite[-1]} if len(finite) else ():
        here = jax.tree.map(lambda x: jnp.asarray(x[t, replica]), path)  # noqa: B023
        c = error_coefficients(problem, here.a)
        worst = max(worst, float(sums.error(here.omega, c, problem.channel.variance)))
    return worst
