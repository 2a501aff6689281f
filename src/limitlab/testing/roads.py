"""Contracts of learning rules and limits: pure, on their clock, at their rate."""

import dataclasses
from typing import Any

import numpy as np

from limitlab._setup import double
from limitlab.errors import InputError, LimitUndefinedError
from limitlab.macro.limit import AbstractLimit
from limitlab.macro.predict import predict
from limitlab.micro.simulate import simulate
from limitlab.problems.asked import Asked
from limitlab.problems.base import AbstractAlgorithm
from limitlab.problems.problem import Problem
from limitlab.results.schema import validate
from limitlab.testing.common import Z, broken, check_part

__all__ = ["check_algorithm", "check_limit"]


@double
def check_algorithm(
    problem: Problem, d: int = 20, time: float = 0.2, replicas: int = 48, limit: AbstractLimit | None = None
) -> None:
    """The rule of a problem: pure, blind to the number of replicas and times, and on its clock.

    The clock is judged by what it is for. Half the learning rate, run to the same time, must give the same risk up to
    the size of a step. Where the rule claims a limit (`usual_limit`), twice the dimension must give the same risk up to
    finite size. A clock that is off by a constant factor passes both: give a ``limit`` that the rule should follow, and
    the risk must be that of the limit at the same time, up to finite size.
    """
    rule: Any = problem.algorithm
    check_part(rule, AbstractAlgorithm)
    if rule.axis not in ("time", "iteration", ""):
        broken(rule, f"axis must be 'time', 'iteration' or ''; got {rule.axis!r}.")
    if rule.axis == "time" and not rule.clock_words:
        broken(rule, "a rule on a clock says it in clock_words.")
    rule.setting(problem, Asked(f"check_algorithm of {type(rule).__name__}", InputError))
    if rule.axis != "time":
        few, many = (simulate(problem, d, replicas=n, seed=1) for n in (2, 3))
        _compare_runs(rule, few, many.isel(replica=slice(2)), "the number of replicas")
        validate(few)
        return
    clock = float(rule.clock(problem, d))
    if not (np.isfinite(clock) and clock > 0):
        broken(rule, f"clock must be a positive time per step; got {clock}.")
    half = clock * round(time / (2 * clock))
    few = simulate(problem, d, [half], replicas=2, seed=1)
    many = simulate(problem, d, [0.0, half, 2 * half], replicas=3, seed=1)
    _compare_runs(rule, few, many.isel(replica=slice(2), time=slice(1, 2)), "the number of replicas or times")
    validate(many)
    if not np.array_equal(many.step, np.rint(many.time / clock)):
        broken(rule, "steps are not those of its clock.")
    usual = _risk(simulate(problem, d, [time], replicas=replicas, seed=2))
    slower = dataclasses.replace(problem, algorithm=dataclasses.replace(rule, learning_rate=rule.learning_rate / 2))
    _same(rule, usual, _risk(simulate(slower, d, [time], replicas=replicas, seed=3)), "half the learning rate", 0.1)
    if rule.usual_limit(problem) is not None:
        larger = _risk(simulate(problem, 2 * d, [time], replicas=replicas, seed=4))
        _same(rule, usual, larger, "twice the dimension", 0.15)
    if limit is not None:
        _same(rule, usual, np.ravel(predict(problem, limit, [time]).risk), type(limit).__name__, 0.15)


def _risk(data: Any) -> np.ndarray:
    if set(data.status.values.tolist()) != {"ok"}:
        ends = sorted(set(data.status.values.tolist()))
        raise InputError(f"The runs of a contract ended as {ends}. Use a smaller step.")
    return np.asarray(data.risk.values[-1], float)


def _same(rule: Any, one: np.ndarray, two: np.ndarray, what: str, share: float) -> None:
    error = np.sqrt(sum(np.var(x, ddof=1) / len(x) for x in (one, two) if len(x) > 1))
    gap = abs(float(np.mean(one) - np.mean(two)))
    if gap > Z * error + share * abs(float(np.mean(one))):
        broken(
            rule,
            f"with {what} the risk at the same time is {np.mean(two):.4g} in place of {np.mean(one):.4g}: the clock is "
            "not the time on which it learns.",
        )


def _compare_runs(rule: Any, one: Any, two: Any, what: str) -> None:
    until = {"end_time", "success", "success_time"}  # what depends on how long a run was followed
    for name in (str(n) for n in one.data_vars if n not in until and "time_2" not in one[n].dims):
        if one[name].dtype.kind == "f" and not np.allclose(one[name], two[name], rtol=1e-8, atol=1e-10, equal_nan=True):
            broken(rule, f"{name} depends on {what}: the same seed must give the same numbers.")


@double
def check_limit(
    limit: AbstractLimit, problem: Problem, times: Any = None, sizes: tuple[int, ...] = (), replicas: int = 48
) -> None:
    """A limit: described, refused in words where it is not defined, pure, in the schema, and at its declared rate.

    With ``sizes`` (three dimensions or more) runs at these are compared with it: the root mean square of a single
    run's difference in risk must fall with the declared power of d.
    """
    check_part(limit, AbstractLimit)
    if not isinstance(limit.reference, str) or not limit.reference:
        broken(limit, "reference must be a key of a bibliography.")
    if not limit.rate or any(not power < 0 for power in limit.rate.values()):
        broken(limit, f"rate must declare negative exponents, such as {{'d': -0.5}}; got {limit.rate!r}.")
    limit.check(problem)
    try:
        limit.check(Problem(algorithm=None, teacher=problem.teacher, inputs=problem.inputs))
    except LimitUndefinedError:
        pass
    except Exception as error:
        broken(limit, f"a problem without its rule must be refused by LimitUndefinedError; got {type(error).__name__}.")
    one, two = (predict(problem, limit, times) for _ in range(2))
    validate(one)
    for name in one.data_vars:
        if not np.array_equal(one[name].values, two[name].values, equal_nan=one[name].dtype.kind == "f"):
            broken(limit, f"it is not pure: two predictions of {name} differ.")
    if len(sizes) >= 3 and "d" in limit.rate:
        _check_rate(limit, problem, np.asarray(times, float), one, sizes, replicas)


def _check_rate(limit: AbstractLimit, problem: Problem, times, prediction, sizes, replicas: int) -> None:
    spread = []
    for n, d in enumerate(sizes):
        runs = simulate(problem, d, times, replicas=replicas, seed=10 + n)
        gap = runs.risk.values - prediction.risk.values[:, None]
        spread.append(np.sqrt(np.mean(np.square(gap), axis=1)).max())
    slope = np.polyfit(np.log(sizes), np.log(spread), 1)[0]
    error = 3 / np.sqrt(2 * replicas) / np.std(np.log(sizes)) / np.sqrt(len(sizes))
    declared = limit.rate["d"]
    if abs(slope - declared) > error + 0.1:
        broken(limit, f"rate says d^{declared:g}; runs at d = {list(sizes)} fall as d^{slope:.2f}.")
