"""A part of a user's own that has the abstract methods and nothing else: it runs, or what it lacks is said in words."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_parts import Cubic, Linear, LinearFlow, LogCosh, Rounded, SignSGD, Uniform

import limitlab as ll
from limitlab import extending as ex
from limitlab.errors import InputError

PROBLEM = ll.Problem(
    teacher=ll.SingleIndex(ll.GaussianPrior()),
    student=Linear(),
    loss=ll.SquareLoss(),
    start=ll.RandomStart(),
    algorithm=ll.OnlineSGD(0.4),
)
TIMES = np.array([0.0, 0.1])


def refused(words, **changes):
    problem = dataclasses.replace(PROBLEM, **changes)
    with pytest.raises(InputError, match=words):
        ll.simulate(problem, 8, TIMES if problem.algorithm.axis == "time" else None)


@pytest.mark.parametrize(
    "rule",
    [
        ll.OnlineSGD(0.4, spherical=True),
        ll.GradientDescent(0.01),
        ll.StochasticGD(0.01, 0.5),
        ll.PersistentSGD(0.01, 0.5, 1.0),
        ll.Langevin(0.01, 0.1),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_a_student_without_a_sphere_is_refused_by_spherical_rules(rule):
    ratio = None if isinstance(rule, ex.AbstractOnePass) else 3.0
    refused(
        "needs a student that can be put on the sphere .*Linear, which has no method",
        algorithm=rule,
        sample_ratio=ratio,
    )


def test_a_student_with_a_sphere_of_its_own_runs():
    class Round(Linear):
        def on_sphere(self, parameters):
            w = parameters["w"]
            return {**parameters, "w": w * jnp.sqrt(len(w) / jnp.sum(w**2))}

    sim = ll.simulate(
        dataclasses.replace(PROBLEM, student=Round(), algorithm=ll.OnlineSGD(0.4, spherical=True)), 8, TIMES
    )
    assert sim.status.item() == "ok"


class ByStart(Cubic):
    by_start: ClassVar[bool] = True


class ByStartOfOne(ByStart):
    units: ClassVar[int] = 1


class ByFields(Cubic):
    by_fields: ClassVar[bool] = True


class Joint(ll.AbstractStart):
    joint: ClassVar[bool] = True


class Alone(ll.AbstractStart):
    alone: ClassVar[bool] = True


class OfNothing(ex.AbstractConvexLoss):
    def scalar(self, t):
        return t**2 / 2

    def features(self, V):
        return (), 1.0


class Speechless(Rounded):
    labels: ClassVar = None


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (ByStart, "ByStart says by_start = True, which needs a `units` of its own"),
        (ByStartOfOne, "needs a `with_directions` of its own; got none. Give ByStartOfOne one, or leave by_start out"),
        (ByFields, "ByFields says by_fields = True, which needs a `link`"),
        (Joint, "Joint says joint = True, which needs a `draw`"),
        (Alone, "Alone says alone = True, which needs a `direction`"),
        (OfNothing, "OfNothing.of must be one of 'margin', 'residual'; got None"),
        (Speechless, "Speechless.labels must be one of 'binary', 'real'; got None"),
    ],
)
def test_a_part_that_promises_what_it_has_no_method_for_is_refused(part, words):
    with pytest.raises(InputError, match=words):
        part()


def test_a_discrete_prior_says_its_entropy():
    class Discrete(Uniform):
        @property
        def dimension(self):
            return 0.0

    with pytest.raises(InputError, match="Discrete has no entropy"):
        Discrete().entropy  # noqa: B018


def test_a_rule_that_knows_nothing_is_refused_at_each_step():
    class Bare(ll.AbstractAlgorithm):
        pass

    class Parsed(Bare):
        def setting(self, problem, asked):
            return problem

    class Ran(Parsed):
        def run(self, setting, asked):
            return {"risk": 1.0}

    refused("needs a rule that can be simulated; got .*Bare", algorithm=Bare())
    refused("Parsed does not know how to run", algorithm=Parsed())
    refused("`run` needs to return limitlab.extending.Seen; got {'risk': 1.0}", algorithm=Ran())
    with pytest.raises(InputError, match="knows no usual limit of Bare"):
        ll.predict(dataclasses.replace(PROBLEM, algorithm=Bare()), None, TIMES)


@pytest.mark.parametrize("clock", [-1.0, float("nan"), float("inf")])
def test_a_clock_that_is_no_time_is_refused(clock):
    class Broken(SignSGD):
        def clock(self, problem, d):
            return clock

    refused(r"Broken\.clock must be a finite number in \[0, inf\)", algorithm=Broken(0.1))


def test_a_limit_that_returns_no_dataset_or_names_no_reference_is_told_so():
    class Number(ll.AbstractLimit):
        def solve(self, problem, times):
            return 3.0

    with pytest.raises(InputError, match=r"Number\.solve must return a Dataset .* got 3\.0"):
        ll.predict(PROBLEM, Number(), TIMES)
    with pytest.raises(InputError, match=r"which name a reference; got .*Number"):
        ll.cite(PROBLEM, Number())
    with pytest.raises(ll.testing.ContractError, match="reference must be a key"):
        ll.testing.check_limit(Number(), PROBLEM, TIMES)
    assert LinearFlow().reference


def test_rules_that_need_more_than_the_abstract_methods_say_what():
    fixed = {"sample_ratio": 3.0, "student": None}
    refused("LayerwiseSGD needs a Committee, whose layers are known", algorithm=ll.LayerwiseSGD(0.4, 0.1))
    refused("GAMP needs a single direction with a prior", algorithm=ll.GAMP(), teacher=Cubic(), **fixed)
    refused("ERM needs a teacher SingleIndex", algorithm=ll.ERM(0.1), teacher=Cubic(), **fixed)
    refused("ERM needs a convex loss", algorithm=ll.ERM(0.1), loss=LogCosh(), **fixed)
    refused("does not know weights beside a given teacher", start=ll.AbstractStart(), student=ll.Committee(2, "tanh"))


class Somewhere(ll.AbstractStart):
    """Weights, and nothing known of their overlaps."""

    def weights(self, key, p, d, directions):
        return jax.random.normal(key, (p, d))


def test_a_limit_of_overlaps_does_not_apply_to_a_start_that_does_not_know_them():
    """limits() said that it did, and predict that the start does not know them."""
    problem = dataclasses.replace(
        PROBLEM, teacher=ll.Committee(2, "erf"), student=ll.Committee(2, "erf"), start=Somewhere()
    )
    told = ll.limits(problem)
    for name in ("OverlapODE", "OverlapSDE", "HighDimMeanField"):
        assert "a start that knows its overlaps; got Somewhere()" in told[name]


@pytest.mark.parametrize(
    "changes",
    [{"start": Somewhere()}, {"channel": ll.Modulus()}, {"loss": ll.LogisticLoss()}],
    ids=["start", "even labels", "real labels"],
)
def test_descent_of_one_direction_needs_no_theory_either(changes):
    """What the equations of one direction do not know runs as a network of one linear unit; DMFT says no."""
    rule = ll.GradientDescent(0.01, spherical=False)
    problem = dataclasses.replace(PROBLEM, student=None, sample_ratio=3.0, algorithm=rule, **changes)
    sim = ll.simulate(problem, 8, TIMES)
    assert sim.status.item() == "ok" and np.all(np.isfinite(sim.risk)) and sim.risk_error.max() > 0
    with pytest.raises(ll.errors.LimitUndefinedError):
        ll.DMFT().check(problem)
