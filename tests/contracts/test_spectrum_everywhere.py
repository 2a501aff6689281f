"""No rule and no limit ignores a spectrum in silence: it is either used or refused in words."""

import dataclasses

import numpy as np
import pytest
from test_parts import PREDICTED, RULES

import limitlab as ll
from limitlab.macro.predict import LIMITS
from limitlab.problems.inputs import Gaussian

WIDE, NARROW = ll.Spectrum([0.2, 1.8]), ll.Spectrum([0.5, 1.5])
KNOWN = {"OverlapODE", "ERMAsymptotics"}  # limits with a theory
REFUSE = {"GAMP"}  # rules that cannot run


def on(problem, spectrum):
    return dataclasses.replace(problem, inputs=Gaussian(spectrum=spectrum))


@pytest.mark.more_of("ERMAsymptotics")
@pytest.mark.parametrize("limit", LIMITS)
def test_limits(limit):
    problem, made, times = PREDICTED[limit]
    if not problem.inputs.normal:
        pytest.skip("not on Gaussian inputs")
    if limit in KNOWN:
        told = [ll.predict(on(problem, s), made, times) for s in (WIDE, NARROW)]
        assert float(abs(told[0].risk - told[1].risk).max()) > 1e-6
        return
    with pytest.raises((ll.errors.LimitUndefinedError, ll.errors.InputError), match="without a spectrum"):
        ll.predict(on(problem, WIDE), made, times)
    assert "without a spectrum" in ll.limits(on(problem, WIDE))[limit]


@pytest.mark.more_of("Momentum", "Adam", "OnlineSGD", "GradientDescent")
@pytest.mark.parametrize("rule", RULES)
def test_rules(rule):
    problem = RULES[rule]
    times = {"times": [0.0, 0.1]} if problem.algorithm.axis == "time" else {}
    if rule in REFUSE:
        with pytest.raises(ll.errors.InputError, match="without a spectrum"):
            ll.simulate(on(problem, WIDE), d=20, **times)
        return
    told = [ll.simulate(on(problem, s), d=20, seed=0, **times) for s in (WIDE, NARROW)]
    names = [name for name in ("Q", "q", "risk") if name in told[0]]
    assert names and all(float(abs(told[0][name] - told[1][name]).max()) > 1e-9 for name in names)
    assert all(np.all(np.isfinite(told[0][name])) for name in names)


@pytest.mark.parametrize(
    "question",
    [
        lambda p: ll.exit_time(p, d=100, threshold=0.5),
        lambda p: ll.optimal_learning_rate(p),
    ],
)
def test_questions_about_committees(question):
    problem = on(PREDICTED["OverlapODE"][0], WIDE)
    with pytest.raises((ll.errors.LimitUndefinedError, ll.errors.InputError), match="spectrum"):
        question(problem)


def test_questions_about_one_direction():
    problem = on(PREDICTED["BayesOptimal"][0], WIDE)
    with pytest.raises((ll.errors.LimitUndefinedError, ll.errors.InputError), match="spectrum"):
        ll.free_entropy(problem, 0.5)
