"""Random features: Gaussian equivalence, real features beside it, and where it fails."""

import dataclasses

import numpy as np
import pytest

import limitlab as ll
from limitlab.spec import dumps, loads


def features(act="relu", channel=None, loss=None, alpha=1.0, penalty=0.01, psi=1.5, **parts):
    return ll.Problem(
        **{
            "teacher": ll.SingleIndex(ll.GaussianPrior()),
            "channel": ll.GaussianNoise(0.1) if channel is None else channel,
            "sample_ratio": alpha,
            "student": ll.RandomFeatures(width_ratio=psi, activation=act),
            "loss": ll.SquareLoss() if loss is None else loss,
            "algorithm": ll.ERM(penalty),
            **parts,
        }
    )


RELU, TANH = features(), features("tanh", ll.Sign(), ll.LogisticLoss())


def test_moments_of_activations():
    for act, numbers in (
        ("erf", (0, 0.56418958, 0.12257017)),
        ("relu", (0.39894228, 0.5, 0.30140514)),
        ("sign", (0, 0.79788456, 0.60281027)),
        ("linear", (0, 1, 0)),
    ):
        np.testing.assert_allclose(ll.RandomFeatures(1.0, act).kappas(), numbers, atol=6e-9)


@pytest.mark.more
def test_numbers_of_other_code():
    relu, tanh = ll.predict(RELU), ll.predict(TANH)
    np.testing.assert_allclose([relu.train_loss, relu.risk], [0.00613986, 0.56217827], atol=6e-9)
    told = [float(tanh[name]) for name in ("train_loss", "risk", "generalisation_error")]
    np.testing.assert_allclose(told, [0.10335560, 0.66647125, 0.30611524], atol=6e-9)
    assert "far below d^2" in relu.attrs["notes"] and "linear part" not in relu.attrs["notes"]
    assert "mse" not in relu and float(relu.squared_norm) > 0


def test_linear_features_are_inputs_of_a_marchenko_pastur_law():
    linear = ll.predict(features("linear", psi=0.5))  # fewer features than inputs: the rest of the teacher is unseen
    spectrum = ll.Spectrum(ll.MarchenkoPastur(0.5).atoms.c[1:], ll.MarchenkoPastur(0.5).atoms.h[1:], None, 0.5)
    c, h = spectrum.eigenvalues, spectrum.weights
    direct = dataclasses.replace(spectrum, teacher=0.5 / c, weights=h / h.sum())
    other = ll.predict(dataclasses.replace(features(alpha=2.0, student=None), inputs=ll.Gaussian(spectrum=direct)))
    for name in ("m", "q", "risk", "train_loss"):
        np.testing.assert_allclose(linear[name], other[name], rtol=1e-9)


def test_features_without_a_linear_part_learn_nothing():
    found = ll.predict(features("abs"))
    assert float(found.m) == 0 and float(found.risk) > 0.55
    assert float(ll.predict(features("abs", ll.Sign(), ll.SquareLoss())).generalisation_error) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "problem",
    [pytest.param(RELU, marks=pytest.mark.more), pytest.param(TANH, marks=pytest.mark.more)],
    ids=["relu", "tanh"],
)
def test_real_features_agree(problem):
    sim, pred = ll.simulate(problem, d=150, replicas=16, seed=0), ll.predict(problem)
    for name in ("train_loss", "risk", "q", "squared_norm", "generalisation_error"):
        error = float(sim[name].std("replica", ddof=1)) / 4
        assert abs(float(sim[name].mean() - pred[name])) < 4 * error, name
    assert sim.attrs["risk_from"] == "8192 new samples"


def test_a_warning_where_equivalence_fails():
    with pytest.warns(ll.errors.AccuracyWarning, match=r"n = 300 and p = 30 are not small beside d\^2 = 400"):
        ll.simulate(features(alpha=15.0), d=20)


def test_the_best_penalty_of_features():
    best = ll.optimal_penalty(RELU)
    near = [float(ll.predict(features(penalty=best.penalty * f)).risk) for f in (0.9, 1.0, 1.1)]
    assert near[1] == min(near) and near[1] < 0.56


def test_words_and_files():
    assert repr(RELU.student) == 'RandomFeatures(width_ratio=1.5, activation="relu")'
    assert ll.spec_hash(loads(dumps(RELU))) == ll.spec_hash(RELU)
    with pytest.raises(ll.errors.InputError, match="width_ratio must be"):
        ll.RandomFeatures(0.0)
    with pytest.raises(ll.errors.LimitUndefinedError, match="labels of mean 0"):
        ll.predict(features(channel=ll.Rectified(0.1)))
    with pytest.raises(ll.errors.LimitUndefinedError, match="without a spectrum"):
        ll.predict(features(inputs=ll.Gaussian(spectrum=ll.Spectrum([0.5, 1.5]))))
    with pytest.raises(ll.errors.InputError, match="not RandomFeatures"):
        ll.simulate(features(algorithm=ll.GAMP()), d=30)
    with pytest.raises(ll.errors.LimitUndefinedError, match="not RandomFeatures"):
        ll.predict(RELU, ll.BayesOptimal())
    online = features(sample_ratio=None, start=ll.RandomStart(), algorithm=ll.OnlineSGD(0.1))
    with pytest.raises(ll.errors.InputError, match="first layer learns"):
        ll.simulate(online, d=30, times=[0.0, 0.1])
