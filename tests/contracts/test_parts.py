"""The contracts of `limitlab.testing` on every part of ours."""

import dataclasses

import pytest

import limitlab as ll
from cases import committee, descent, mixture
from limitlab import testing
from limitlab.macro.predict import LIMITS

CHANNELS = [
    ll.GaussianNoise(0.2),
    ll.Sign(),
    ll.Sign(variance=0.3, flip=0.1),
    ll.Modulus(0.2),
    ll.SquaredModulus(0.3),
    ll.Rectified(0.2),
    ll.Logistic(),
    ll.Door(0.8),
]
PRIORS = [ll.GaussianPrior(1.3), ll.RademacherPrior(), ll.GaussBernoulliPrior(0.3), ll.LaplacePrior(0.7)]
LOSSES = [
    ll.SquareLoss(),
    ll.LogisticLoss(),
    ll.HingeLoss(),
    ll.MaxMargin(),
    ll.SquaredHingeLoss(),
    ll.HuberLoss(1.0),
    ll.PseudoHuberLoss(0.7),
    ll.PhaseRetrievalLoss(),
    ll.AmplitudeLoss(),
]
STARTS = [
    ll.RandomStart(0.8),
    ll.RandomStart(1.2, sphere=True, second_layer="gaussian"),
    ll.InformedStart(0.4),
    ll.OverlapStart(Q=[[1.0, 0.2], [0.2, 0.8]], M=[[0.3, 0.1], [0.0, 0.2]], P=[[1.0, 0.0], [0.0, 1.0]]),
]
INPUTS = [ll.Gaussian(), ll.Hypercube(), ll.IsotropicMixture(0.4), ll.AnisotropicMixture(0.4, 0.5)]
TEACHERS = [
    (ll.Committee(3, "relu", output_weights=[1.0, -1.0, 2.0]), ll.Gaussian()),
    (ll.SingleIndex(ll.LaplacePrior(0.5)), ll.Gaussian()),
    (ll.SparseTarget("z1 - 2*z1*z2"), ll.Hypercube()),
    (ll.MultiIndex(3, "z1^2 + erf(z2*z3)"), ll.Gaussian()),
    (ll.MultiIndex(2, "squares", prior=ll.RademacherPrior()), ll.Hypercube()),
]
STUDENTS = [
    ll.Committee(3, "erf", second_layer="trained"),
    ll.Committee(9, "relu", bias="trained"),
    ll.Committee(1, "square"),
]


def name(part):
    return type(part).__name__


@pytest.mark.more_of("Sign1", "Modulus", "SquaredModulus", "Rectified", "Logistic", "Door")
@pytest.mark.parametrize("channel", CHANNELS, ids=name)
def test_channels(channel):
    testing.check_channel(channel)


@pytest.mark.more_of("LaplacePrior")
@pytest.mark.parametrize("prior", PRIORS, ids=name)
def test_priors(prior):
    testing.check_prior(prior)


@pytest.mark.more_of("LogisticLoss")
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_losses(loss):
    testing.check_loss(loss)


@pytest.mark.more_of("RandomStart0", "RandomStart1")
@pytest.mark.parametrize("start", STARTS, ids=name)
def test_starts(start):
    testing.check_start(start)


@pytest.mark.more_of("Hypercube", "IsotropicMixture")
@pytest.mark.parametrize("inputs", INPUTS, ids=name)
def test_inputs(inputs):
    testing.check_inputs(inputs)


@pytest.mark.more_of("Committee-Gaussian", "SparseTarget-Hypercube")
@pytest.mark.parametrize(("teacher", "inputs"), TEACHERS, ids=lambda part: name(part))
def test_teachers(teacher, inputs):
    testing.check_teacher(teacher, inputs)


@pytest.mark.more_of('3 "erf"', '9 "relu"')
@pytest.mark.parametrize("student", STUDENTS, ids=lambda s: f"{s.width} {s.activation}")
def test_students(student):
    testing.check_student(student)


ONE_PASS = committee(p=2, k=2, variance=0.1)
GLM = ll.Problem(
    teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=2.0, algorithm=ll.GAMP(iterations=6)
)
RULES = {
    "OnlineSGD": dataclasses.replace(ONE_PASS, algorithm=ll.OnlineSGD(0.3)),
    "LayerwiseSGD": dataclasses.replace(ONE_PASS, algorithm=ll.LayerwiseSGD(0.3, 0.1)),
    "Momentum": dataclasses.replace(ONE_PASS, algorithm=ll.Momentum(0.1, 0.5)),
    "Adam": dataclasses.replace(ONE_PASS, algorithm=ll.Adam(0.02)),
    "GradientDescent": descent(ll.GradientDescent(0.02)),
    "StochasticGD": descent(ll.StochasticGD(0.02, 0.5)),
    "PersistentSGD": descent(ll.PersistentSGD(0.02, 0.5, 0.5)),
    "Langevin": descent(ll.Langevin(0.02, 0.1)),
    "GAMP": GLM,
    "ERM": dataclasses.replace(GLM, loss=ll.LogisticLoss(), algorithm=ll.ERM(0.1)),
}


def test_every_rule_has_a_case():
    from limitlab.problems.base import AbstractAlgorithm
    from limitlab.spec.kinds import known_kinds

    assert set(RULES) == set(known_kinds()[AbstractAlgorithm])


@pytest.mark.more_of(
    "PersistentSGD", "Langevin", "GAMP", "StochasticGD", "Momentum", "Adam", "OnlineSGD", "LayerwiseSGD"
)
@pytest.mark.parametrize("rule", RULES)
def test_rules(rule):
    testing.check_algorithm(RULES[rule])


SPARSE = ll.library.merged_staircase("z1 + z1*z2")
TIMES = [0.0, 0.1]
PREDICTED = {
    "OverlapODE": (ONE_PASS, ll.OverlapODE(), TIMES),
    "OverlapSDE": (ONE_PASS, ll.OverlapSDE(d=50, replicas=2), TIMES),
    "HighDimMeanField": (ONE_PASS, ll.HighDimMeanField(), TIMES),
    "DimensionFree": (SPARSE, ll.DimensionFree(), TIMES),
    "MeanField": (SPARSE, ll.MeanField(d=10), TIMES),
    "RadialFlow": (mixture(), ll.RadialFlow(d=10), TIMES),
    "StateEvolution": (GLM, ll.StateEvolution(), None),
    "BayesOptimal": (GLM, ll.BayesOptimal(), None),
    "ERMAsymptotics": (RULES["ERM"], ll.ERMAsymptotics(), None),
    "DMFT": (RULES["GradientDescent"], ll.DMFT(trajectories=256, batches=2), [0.0, 0.04]),
    "MatrixFlow": (ll.library.wide_phase_retrieval(3.0, width=5), ll.MatrixFlow(d=8), TIMES),
}


def test_every_limit_has_a_case():
    assert set(PREDICTED) == set(LIMITS)


@pytest.mark.more_of("HighDimMeanField", "RadialFlow", "OverlapSDE", "MeanField", "ERMAsymptotics")
@pytest.mark.parametrize("limit", PREDICTED)
def test_limits(limit):
    problem, made, times = PREDICTED[limit]
    testing.check_limit(made, problem, times)
    told = ll.predict(problem, made, times)
    assert {str(name) for name in told.data_vars} <= set(made.variables)  # it declares what it reports
