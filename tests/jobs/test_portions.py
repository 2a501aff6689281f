"""Runs that come in portions are those that come at once: same seed, same numbers, whatever the rule."""

import numpy as np
import pytest

import limitlab as ll
from limitlab.jobs.worker import PORTIONS, _portion
from limitlab.micro.simulate import joined, portion

TIMES = [0.0, 0.1, 0.2]


def descent(rule, student=None):
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        student=student,
        sample_ratio=3.0,
        loss=ll.PhaseRetrievalLoss(),
        start=ll.InformedStart(0.3) if student is None else ll.RandomStart(),
        algorithm=rule,
    )


PROBLEMS = {
    "one-pass": (ll.library.escaping_mediocrity(width=2), TIMES),
    "line": (descent(ll.GradientDescent(0.05)), TIMES),
    "network": (descent(ll.StochasticGD(0.05, 0.5), ll.Committee(width=2, activation="square")), TIMES),
    "wide": (descent(ll.GradientDescent(0.05), ll.Committee(width=2, activation="square")), TIMES),
    "gamp": (
        ll.Problem(
            teacher=ll.SingleIndex(ll.GaussianPrior()),
            channel=ll.Sign(),
            sample_ratio=1.5,
            algorithm=ll.GAMP(iterations=4),
        ),
        None,
    ),
}


@pytest.mark.more_of("line", "network", "gamp", "one-pass")
@pytest.mark.parametrize("name", PROBLEMS)
def test_portions_are_the_runs_of_the_whole(name):
    problem, times = PROBLEMS[name]
    assert problem.algorithm.in_portions
    whole = ll.simulate(problem, 20, times, 3, seed=5)
    parts = [portion(problem, 20, times, count, 5, first) for first, count in ((0, 2), (2, 1))]
    made = joined(parts)
    assert made.sizes == whole.sizes and list(made.data_vars) == list(whole.data_vars)
    for variable in whole.variables:
        one, two = made[variable], whole[variable]
        assert one.dims == two.dims and one.attrs == two.attrs, variable
        if two.dtype.kind == "f":
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-14, err_msg=str(variable))
        else:
            np.testing.assert_array_equal(one, two)
    for attribute in ("change", "converged"):
        np.testing.assert_allclose(made.attrs.get(attribute, 0), whole.attrs.get(attribute, 0), rtol=1e-12)
    other = portion(problem, 20, times, 1, 5, 3)
    name = "mse" if times is None else "risk"
    assert not np.allclose(other[name].values[..., 0], whole[name].values[..., 2]), "the control: another run"


def test_portions_are_equal_where_they_can_be():
    assert [_portion(n) for n in (2, 4, 8, 12, 16, 64)] == [1, 1, 1, 2, 2, 8]
    for n in range(2, 200):
        assert PORTIONS // 2 <= -(-n // _portion(n)) <= PORTIONS or n < PORTIONS
