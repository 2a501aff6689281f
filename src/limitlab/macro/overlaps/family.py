"""Overlap equations of several problems that differ in numbers only, in one compiled call."""

import functools
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.settings.one_pass import CommitteeOnePass, committee_parts
from limitlab.errors import InputError, LimitUndefinedError
from limitlab.macro.overlaps.drift import Crowds, crowds, flow, motion, quadrature_error, tolerance, warn_of_error
from limitlab.numerics.gauss.erf import erf_moments
from limitlab.numerics.gauss.fields import AbstractFieldSum, BentSum, ClosedSum, ErfSum, FieldMoments, QuadratureSum
from limitlab.numerics.ode.integrate import Integration, integrate_many
from limitlab.numerics.trees import NUMBERS, as_arrays
from limitlab.problems.asked import Asked
from limitlab.problems.problem import Problem
from limitlab.results.points import Table
from limitlab.states.overlaps import Overlaps, error_coefficients, error_sum, family_risks, limit_overlaps

__all__ = ["How", "Member", "kin", "solve_many"]

DIMS = {
    "risk": ("time",),
    "M": ("time", "student", "teacher"),
    "Q": ("time", "student", "student_2"),
    "a": ("time", "student"),
    "P": ("teacher", "teacher_2"),
    "status": (),
    "end_time": (),
}
LIGHT = 2**12  # four-field moments of a drift up to which several problems move side by side
ASKED = Asked("OverlapODE")


class How(NamedTuple):
    """Tolerance, Gaussian moments and integrator, as `OverlapODE` has them."""

    rtol: float
    method: str
    solver: str


class Member(NamedTuple):
    """The result of one problem, and what made it: name and error of the moments, integrator, steps."""

    variables: Table
    coords: Table
    made: tuple[str, float, str, int]


def kin(problem: Problem) -> Hashable | None:
    """Equal for problems that differ in numbers only; None if the problem has to be solved alone."""
    apart = _apart(problem)
    return None if apart is None else apart[1]


def _apart(problem: Problem) -> tuple[list, Hashable] | None:
    """The numbers of a problem, and what is left of it."""
    try:
        parts = committee_parts(problem, ASKED)
    except LimitUndefinedError:
        return None
    if parts.start.random_layer and parts.student.output_weights is None:
        return None
    numbers, structure = jax.tree.flatten(problem)
    if not all(isinstance(x, NUMBERS) for x in numbers):
        return None
    return numbers, (structure, tuple(map(np.shape, numbers)))


def solve_many(setting: CommitteeOnePass, problems: Sequence[Problem], times: np.ndarray, how: How) -> list[Member]:
    """The results of several problems of one `kin`, of which ``setting`` is the first.

    None depends on the others, if their number is the same: units that start alike move as one, and problems in which
    other units do so are solved apart, each time in a call with as many lanes.
    """
    columns = [np.asarray(x, float) for x in zip(*_same(problems), strict=True)]
    structure = jax.tree.structure(setting)
    stacked = jax.tree.unflatten(structure, columns)  # one setting, whose numbers have an axis for the problems
    starts = jax.device_get(_starts(structure, columns))
    if setting.algorithm.spherical and not np.all(np.diagonal(starts.Q, axis1=1, axis2=2) > 0):
        raise InputError("OverlapODE needs student units of non-zero norm for a spherical rule. Use another start.")
    runs: dict[int, Integration] = {}
    for sets, members in _alike(starts):
        filled = np.asarray(members + members[:1] * (len(problems) - len(members)))
        own, here = jax.tree.map(lambda x: x[filled], (stacked, starts))  # noqa: B023
        runs |= dict(zip(members, _runs(setting, own, sets.pick(here), sets, times, how), strict=False))
    done = [runs[n] for n in range(len(problems))]
    sums = as_arrays(error_sum(setting, how.method))
    paths: Overlaps = jax.tree.map(lambda *x: np.stack(x), *(run.values for run in done))
    values = np.asarray(family_risks(stacked, sums, paths))
    errors = _errors(stacked, sums, paths)
    warn_of_error(max(errors), sums.name)
    return _members(times, done, values, errors, sums.name)


def _same(problems: Sequence[Problem]) -> list[list]:
    """The numbers of each problem; a refusal unless they are all in which the problems differ."""
    apart = [_apart(problem) for problem in problems]
    known = [one for one in apart if one is not None]
    kinds = len({key for _, key in known})
    if kinds != 1 or len(known) < len(problems):
        raise InputError(
            f"OverlapODE.many needs problems that differ in numbers only; got {kinds} kinds among {len(problems)} "
            f"problems, and {len(problems) - len(known)} that have to be solved alone. Group them by OverlapODE.kin, "
            "and predict those for which it is None."
        )
    return [numbers for numbers, _ in known]


@functools.partial(jax.jit, static_argnums=0)
def _starts(structure: Any, columns: list) -> Overlaps:
    return jax.vmap(lambda numbers: limit_overlaps(jax.tree.unflatten(structure, numbers)))(columns)


def _alike(starts: Overlaps) -> list[tuple[Crowds, list[int]]]:
    """The problems by which of their units are identical at the start."""
    count, parts = len(starts.Q), (starts.Q, starts.M, starts.a)
    if all(np.array_equal(x, np.broadcast_to(x[:1], x.shape)) for x in parts):
        return [(crowds(_lane(starts, 0)), list(range(count)))]
    groups: dict[bytes, tuple[Crowds, list[int]]] = {}
    for n in range(count):
        sets = crowds(_lane(starts, n))
        groups.setdefault(sets.member.tobytes(), (sets, []))[1].append(n)
    return list(groups.values())


def _lane(tree: Any, n: int) -> Any:
    return jax.tree.map(lambda x: x[n], tree)


def _runs(
    setting: CommitteeOnePass, stacked: Any, starts: Overlaps, sets: Crowds, times: np.ndarray, how: How
) -> list[Integration]:
    """The paths of all units, from one unit of each set. Numbers of ``stacked`` have an axis for the problems."""
    sums = as_arrays(error_sum(setting, how.method, units=len(sets.first)))
    rtol = np.full(len(starts.Q), how.rtol)
    if isinstance(sums, QuadratureSum):
        lanes = [_lane((stacked, starts), n) for n in range(len(rtol))]
        rtol = np.asarray([tolerance(how.rtol, as_arrays(lane), sums, o, sets.copies) for lane, o in lanes])
    runs = integrate_many(
        flow,
        starts,
        times,
        stacked,
        (sums, sets.copies),
        rtol=rtol,
        atol=0.01 * rtol,
        solver=how.solver,
        drifts=_flows if _light(sums) else None,
    )
    if len(sets.first) < len(sets.member):
        runs = [run._replace(values=sets.spread(run.values)) for run in runs]
    return runs


def _flows(o: Overlaps, args: Any) -> Overlaps:
    """`flow` of all problems at once, which lie along the first axes."""
    setting, sums, copies = args
    c = jax.vmap(lambda q, a: error_coefficients(q, a * copies))(setting, o.a)
    return jax.vmap(motion)(setting, o, _moments(sums, o.omega, c, setting.channel.variance))


def _moments(sums: AbstractFieldSum, Omega: jax.Array, c: jax.Array, noise: jax.Array) -> FieldMoments:
    if isinstance(sums, ErfSum) and sums.f.name == sums.g.name == "erf":
        behind = erf_moments(jnp.moveaxis(Omega, 0, -1), c.T, noise, sums.p)
        return FieldMoments(*(jnp.moveaxis(x, -1, 0) for x in behind))
    return jax.vmap(sums)(Omega, c, noise)


def _light(sums: AbstractFieldSum) -> bool:
    """Whether a drift is so cheap that a program of many small steps spends its time elsewhere."""
    if isinstance(sums, QuadratureSum) or (isinstance(sums, ErfSum) and sums.mixed):
        return False
    p, n, work = sums.p, sums.p + sums.k, 1
    if isinstance(sums, ClosedSum | BentSum):
        terms = (*sums.f.terms, *sums.g.terms)
        if any(isinstance(t.tau, tuple) for t in terms):
            return False  # a mixture: a sum over ten widths in every slot
        work = 20 if any(t.kind == "sign" and t.tau == 0.0 for t in terms) else 1  # nodes of the integral of four signs
    return work * p * (p + 1) * n * (n + 1) // 4 <= LIGHT


def _errors(stacked: Any, sums: AbstractFieldSum, paths: Overlaps) -> list[float]:
    """The estimated errors of the moments along the paths; one constant unless they are a quadrature."""
    if isinstance(sums, QuadratureSum):
        lanes = [_lane((stacked, jax.tree.map(lambda x: x[:, :, None], paths)), n) for n in range(len(paths.Q))]
        return [quadrature_error((as_arrays(lane), sums), path, 0) for lane, path in lanes]
    seen = np.any(np.all(np.isfinite(paths.Q), axis=(2, 3)), axis=1)
    return (sums.error(paths.Q, paths.a, 0.0) * seen).tolist()


def _members(times: np.ndarray, runs: list[Integration], values, errors: list[float], name: str) -> list[Member]:
    """What `predict` gives, without the stamps of a Dataset."""
    p, k = runs[0].values.M.shape[1:]
    numbered = {"student": p, "teacher": k, "student_2": p, "teacher_2": k}
    coords: Table = {
        "time": (("time",), times),
        **{label: ((label,), np.arange(size)) for label, size in numbered.items()},
    }
    members = []
    for run, risk, error in zip(runs, values, errors, strict=True):
        o = run.values
        known = np.all(np.isfinite(o.P), axis=(1, 2))
        arrays = {
            "risk": risk,
            "M": o.M,
            "Q": o.Q,
            "a": o.a,
            "P": o.P[np.argmax(known)],
            "status": np.asarray(run.status),
            "end_time": np.asarray(run.end_time),
        }
        variables: Table = {key: (DIMS[key], arrays[key]) for key in DIMS}
        members.append(Member(variables, coords, (name, error, run.solver, run.steps)))
    return members
