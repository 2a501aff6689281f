"""Overlap equations of several problems that differ in numbers only, in one compiled call."""

import threading
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limitlab.algorithms.one_pass.online_sgd import OnlineSGD
from limitlab.errors import InputError, LimitlabError
from limitlab.macro.overlaps.overlap_ode import (
    OverlapODE,
    Start,
    _flow,
    motion,
    quadrature_error,
    start_of,
    tolerance,
    warn_of_error,
)
from limitlab.numerics.checks import check_times
from limitlab.numerics.gauss.erf import erf_moments
from limitlab.numerics.gauss.fields import AbstractFieldSum, ClosedSum, FieldMoments, QuadratureSum
from limitlab.numerics.ode.integrate import Integration, integrate_many
from limitlab.numerics.trees import NUMBERS, as_arrays
from limitlab.problems.networks import Committee
from limitlab.problems.problem import Problem
from limitlab.results.points import Point
from limitlab.states.overlaps import Overlaps, error_coefficients, error_sum, family_risks

__all__ = ["family", "family_key"]

DIMS = {
    "risk": ("time",),
    "M": ("time", "student", "teacher"),
    "Q": ("time", "student", "student_2"),
    "a": ("time", "student"),
    "P": ("teacher", "teacher_2"),
    "status": (),
    "end_time": (),
}
KEPT = 4096  # members that are remembered between the question for their key and the call
LIGHT = 2**12  # four-field moments of a drift up to which several problems move side by side


class Member(NamedTuple):
    """A problem, its numbers, where it starts, and the key of its family."""

    problem: Problem
    numbers: list
    start: Start
    key: Hashable


def family_key(limit: OverlapODE, problem: Problem) -> Hashable | None:
    """Equal for problems that may share a call of `family`; None if the problem has to be solved alone."""
    member = _member(limit, problem)
    return None if member is None else member.key


_recent: dict[int, Member] = {}
_door = threading.Lock()


def _member(limit: OverlapODE, problem: Problem) -> Member | None:
    if limit.d is not None or limit.solver == "implicit":
        return None
    member = _recent.get(id(problem))
    if member is None or member.problem is not problem:
        member = _new_member(problem)
        if member is not None:
            with _door:
                while len(_recent) >= KEPT:
                    _recent.pop(next(iter(_recent)))
                _recent[id(problem)] = member
    return member


def _new_member(problem: Problem) -> Member | None:
    rule, start = problem.algorithm, problem.start
    if start is None or problem.student is None:
        return None
    if not isinstance(problem.teacher, Committee) or not isinstance(rule, OnlineSGD):
        return None
    if rule.weight_decay or rule.temperature:  # refused by the limit, and numbers: what else it refuses is structure
        return None
    numbers, structure = jax.tree.flatten(problem)
    if not all(isinstance(x, NUMBERS) for x in numbers):
        return None
    try:
        begun = start_of(problem, numbers, structure)
    except LimitlabError:
        return None
    if rule.spherical and not np.all(np.diag(begun.overlaps.Q) > 0):
        return None
    return Member(problem, numbers, begun, (structure, tuple(map(np.shape, numbers)), begun.member.tobytes()))


def family(limit: OverlapODE, problems: Sequence[Problem], times: Any) -> list[Point]:
    """The results of several problems of one `family_key`. None depends on the others, if their number is the same."""
    times, problems = check_times(times), list(problems)
    found = [_member(limit, problem) for problem in problems]
    members = [member for member in found if member is not None]
    kinds = len({member.key for member in members})
    if kinds != 1 or len(members) < len(problems):
        raise InputError(
            f"OverlapODE.family needs problems that differ in numbers only; got {kinds} kinds among {len(problems)} "
            f"problems, and {len(problems) - len(members)} that have to be solved alone. Group them by "
            "OverlapODE.family_key, and predict those for which it is None."
        )
    limit.check(problems[0])
    stacked = jax.tree.unflatten(
        jax.tree.structure(problems[0]), [np.asarray(x, float) for x in zip(*(m.numbers for m in members), strict=True)]
    )
    runs = _runs(limit, members, stacked, times)
    sums = as_arrays(error_sum(problems[0], limit.method))
    paths: Overlaps = jax.tree.map(lambda *x: np.stack(x), *(run.values for run in runs))
    values = np.asarray(family_risks(stacked, sums, paths))
    errors = _errors(problems, sums, paths)
    warn_of_error(max(errors), sums.name)
    return _points(limit, times, runs, values, errors, sums.name)


def _runs(limit: OverlapODE, members: list[Member], stacked: Problem, times: np.ndarray) -> list[Integration]:
    """The paths of all units. ``stacked`` is one problem whose numbers have an axis for the members."""
    _, first, member = members[0].start
    starts = [m.start.overlaps for m in members]
    small = [Overlaps(o.Q[first][:, first], o.M[first], o.P, o.a[first]) for o in starts]
    sums = as_arrays(error_sum(members[0].problem, limit.method, units=len(first)))
    copies = np.bincount(member).astype(float)
    rtol = np.full(len(members), limit.rtol)
    if isinstance(sums, QuadratureSum):
        pairs = zip(members, small, strict=True)
        rtol = np.asarray([tolerance(limit.rtol, as_arrays(m.problem), sums, o, copies) for m, o in pairs])
    runs = integrate_many(
        _flow,
        jax.tree.map(lambda *x: np.stack(x), *small),
        times,
        stacked,
        (sums, copies),
        rtol=rtol,
        atol=0.01 * rtol,
        solver=limit.solver,
        drifts=_flows if _light(sums) else None,
    )
    if len(first) < len(member):
        runs = [run._replace(values=_all_units(run.values, member)) for run in runs]
    return runs


def _all_units(o: Overlaps, member: np.ndarray) -> Overlaps:
    return Overlaps(o.Q[:, member][:, :, member], o.M[:, member], o.P, o.a[:, member])


def _flows(o: Overlaps, args: Any) -> Overlaps:
    """`_flow` of all problems at once, which lie along the first axes."""
    problem, sums, copies = args
    c = jax.vmap(lambda q, a: error_coefficients(q, a * copies))(problem, o.a)
    return jax.vmap(motion)(problem, o, _moments(sums, o.omega, c, problem.channel.variance))


def _moments(sums: AbstractFieldSum, Omega: jax.Array, c: jax.Array, noise: jax.Array) -> FieldMoments:
    if isinstance(sums, ClosedSum) and sums.f.name == sums.g.name == "erf":
        behind = erf_moments(jnp.moveaxis(Omega, 0, -1), c.T, noise, sums.p)
        return FieldMoments(*(jnp.moveaxis(x, -1, 0) for x in behind))
    return jax.vmap(sums)(Omega, c, noise)


def _light(sums: AbstractFieldSum) -> bool:
    """Whether a drift is so cheap that a program of many small steps spends its time elsewhere."""
    if isinstance(sums, QuadratureSum):
        return False
    p, n, work = sums.p, sums.p + sums.k, 1
    if isinstance(sums, ClosedSum):
        terms = (*sums.f.terms, *sums.g.terms)
        if any(isinstance(t.tau, tuple) for t in terms):
            return False  # a mixture: a sum over ten widths in every slot
        work = 20 if any(t.kind == "sign" and t.tau == 0.0 for t in terms) else 1  # nodes of the integral of four signs
    return work * p * (p + 1) * n * (n + 1) // 4 <= LIGHT


def _errors(problems: list[Problem], sums: AbstractFieldSum, paths: Overlaps) -> list[float]:
    """The estimated errors of the moments along the paths; one constant unless they are a quadrature."""
    if isinstance(sums, QuadratureSum):
        lanes = [jax.tree.map(lambda x: x[n, :, None], paths) for n in range(len(problems))]  # noqa: B023
        return [quadrature_error((as_arrays(q), sums), o, 0) for q, o in zip(problems, lanes, strict=True)]
    seen = np.any(np.all(np.isfinite(paths.Q), axis=(2, 3)), axis=1)
    return (sums.error(paths.Q, paths.a, 0.0) * seen).tolist()


def _points(limit, times, runs: list[Integration], values, errors: list[float], name: str) -> list[Point]:
    """What `predict` gives, without the stamps of a Dataset (its problem, versions)."""
    p, k = runs[0].values.M.shape[1:]
    numbered = {"student": p, "teacher": k, "student_2": p, "teacher_2": k}
    coords = {"time": (("time",), times), **{name: ((name,), np.arange(size)) for name, size in numbered.items()}}
    points = []
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
        about = limit.about(name, error, run.solver, run.steps)
        attrs = {"method": "OverlapODE", "reference": limit.reference, **about}
        points.append(Point({key: (DIMS[key], arrays[key]) for key in DIMS}, coords, attrs))
    return points
