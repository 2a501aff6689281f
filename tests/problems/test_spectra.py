"""Spectra of inputs: laws of eigenvalues, words about bad ones, files, and what is drawn at dimension d."""

import copy
import dataclasses
import pickle

import jax
import numpy as np
import pytest
from scipy.special import ndtr

import limitlab as ll
from cases import committee
from limitlab import testing
from limitlab.algorithms.one_pass.setting import OnePass
from limitlab.problems.asked import Asked
from limitlab.spec import dumps, loads, to_dict
from limitlab.states.committee import FieldRisk

TWO = ll.Spectrum([0.25, 1.75], teacher=[4.0, 0.25])
SPECTRA = [
    ll.Spectrum([1.0]),
    ll.Spectrum([0.5, 1.0, 3.0], [0.5, 0.3, 0.2], unexplained=0.3),
    TWO,
    ll.PowerLaw(1.2, 1.6, modes=12),
    ll.PowerLaw(decay=1.0, target_decay=1.3, modes=12, unexplained=0.2),
    ll.MarchenkoPastur(0.5),
    ll.MarchenkoPastur(2.0),
]


def linear(spectrum, **parts):
    """Labels of a single direction on inputs with a spectrum."""
    return ll.Problem(
        **{
            "inputs": ll.Gaussian(spectrum=spectrum),
            "teacher": ll.SingleIndex(ll.GaussianPrior()),
            "channel": ll.Sign(),
            "sample_ratio": 2.0,
            "loss": ll.LogisticLoss(),
            "algorithm": ll.ERM(0.1),
            **parts,
        }
    )


@pytest.mark.parametrize("spectrum", SPECTRA, ids=repr)
def test_a_spectrum_is_a_part_like_others(spectrum):
    inputs = ll.Gaussian(spectrum=spectrum)
    problem = linear(spectrum)
    again = loads(dumps(problem))
    assert ll.spec_hash(again) == ll.spec_hash(problem) == ll.spec_hash(pickle.loads(pickle.dumps(problem)))
    assert repr(again) == repr(problem) == repr(copy.deepcopy(problem))
    assert eval(repr(inputs), vars(ll)).spectrum.atoms.c.tolist() == inputs.modes.c.tolist()
    np.testing.assert_allclose(inputs.modes.h.sum(), 1, rtol=1e-12)
    testing.check_inputs(inputs)


def test_problems_without_a_spectrum_have_the_hash_that_they_had():
    problem = linear(None)
    assert to_dict(problem)["inputs"] == {"kind": "Gaussian"}
    assert ll.spec_hash(problem) != ll.spec_hash(linear(ll.Spectrum([1.0])))
    assert repr(ll.Gaussian()) == "Gaussian()"


def test_coordinates_follow_the_shares_by_largest_remainder():
    modes = ll.Spectrum([1.0, 2.0, 3.0], [0.5, 0.3, 0.2]).atoms
    assert modes.sizes(10).tolist() == [5, 3, 2]
    assert modes.sizes(11).tolist() == [6, 3, 2]  # 5.5, 3.3, 2.2
    assert modes.sizes(14).tolist() == [7, 4, 3]  # 7, 4.2, 2.8
    even = ll.Spectrum(np.arange(1.0, 9.0)).atoms
    assert even.sizes(8).tolist() == [1] * 8
    spare = np.nonzero(even.sizes(12) == 2)[0]
    assert even.sizes(12).sum() == 12 and len(spare) == 4 and np.max(np.diff(spare)) <= 3  # ties are spread
    under = jax.jit(lambda h: ll.Spectrum([1.0, 2.0, 3.0]).atoms.__class__(modes.c, h, None, 0.0).places(11))
    np.testing.assert_array_equal(under(modes.h), modes.places(11))
    for ratio in (0.5, 1.0, 2.0):
        law, d = ll.MarchenkoPastur(ratio).atoms, 4000
        c = law.c[law.places(d)]
        np.testing.assert_allclose([c.mean(), (c**2).mean()], [1, 1 + ratio], rtol=3e-3)
        F = np.random.default_rng(0).normal(size=(300, round(300 / ratio)))
        seen = np.linalg.eigvalsh(F @ F.T) / F.shape[1]
        places = (np.arange(300) + 0.5) / 300
        np.testing.assert_allclose(np.quantile(c, places), np.sort(seen), rtol=0.04, atol=0.12)


def test_a_power_law_in_a_problem_has_mean_one_and_signal_one():
    modes = ll.PowerLaw(1.2, 1.6, modes=400).atoms
    np.testing.assert_allclose([modes.c.mean(), modes.signal(1.0)], 1, rtol=1e-13)
    np.testing.assert_allclose(modes.c[1] / modes.c[0], 2**-1.2, rtol=1e-13)
    np.testing.assert_allclose((modes.c * modes.t2)[1] / (modes.c * modes.t2)[0], 2**-1.6, rtol=1e-13)


def test_the_teacher_has_the_components_that_the_spectrum_says():
    inputs, d = ll.Gaussian(spectrum=TWO), 40
    teacher = ll.SingleIndex(ll.GaussianPrior())
    w = np.asarray(teacher.draw_on(inputs, jax.random.key(0), d))
    np.testing.assert_allclose(np.mean(w.reshape(2, -1) ** 2, axis=1), [4.0, 0.25], rtol=1e-12)
    assert np.std(w[:20] ** 2) > 1  # a direction, not signs
    flat = ll.Gaussian(spectrum=ll.Spectrum([0.25, 1.75]))
    w = np.asarray(ll.SingleIndex(ll.GaussianPrior(3.0)).draw_on(flat, jax.random.key(0), d))
    np.testing.assert_allclose(np.mean(w.reshape(2, -1) ** 2, axis=1), 3.0, rtol=1e-12)
    w = np.asarray(ll.SingleIndex(ll.RademacherPrior()).draw_on(flat, jax.random.key(0), d))
    assert set(w.tolist()) == {-1.0, 1.0}


def test_fields_have_the_covariance_of_the_spectrum():
    inputs, d = ll.Gaussian(spectrum=ll.Spectrum([0.5, 1.0, 3.0], [0.5, 0.3, 0.2])), 20
    x = np.asarray(inputs.draw(jax.random.key(1), 40_000, d))
    C = np.diag(np.repeat([0.5, 1.0, 3.0], [10, 6, 4]))
    np.testing.assert_allclose(d * x.T @ x / len(x), C, atol=0.06)
    w = np.random.default_rng(0).normal(size=(2, d))
    seen = np.asarray(inputs.visible(w))
    np.testing.assert_allclose(seen @ seen.T / d, w @ C @ w.T / d, rtol=1e-12)
    assert not inputs.normal and inputs.normal_fields


def test_unexplained_is_noise_on_the_teachers_field():
    plain, more = (ll.Gaussian(spectrum=ll.Spectrum([0.5, 1.5], unexplained=v)) for v in (0.0, 0.3))
    z = np.zeros(20_000)
    assert plain.unseen(jax.random.key(0), z) is z
    np.testing.assert_allclose(np.var(more.unseen(jax.random.key(0), jax.numpy.asarray(z))), 0.3, rtol=0.04)


def test_what_is_unexplained_is_independent_of_the_coin_that_flips_signs():
    """By samples of one-pass rules, and by fields of a risk: E y = (1 - 2 flip) E sign(z + unseen) at every z."""
    count, d, flip, teacher = 2**17, 4, 0.3, ll.SingleIndex(ll.GaussianPrior())
    inputs, channel = ll.Gaussian(spectrum=ll.Spectrum([1.0], unexplained=1.0)), ll.Sign(flip=flip)
    problem = dataclasses.replace(committee("linear", "linear", 1, 1), inputs=inputs, teacher=teacher, channel=channel)
    setting = OnePass.of(problem, Asked("a test", ll.errors.InputError))
    w = 0.7 * np.ones(d)

    def z_score(x, y):
        z = np.asarray(x @ w)
        return np.sum((y - (1 - 2 * flip) * (2 * ndtr(z) - 1)) * np.sign(z)) / np.sqrt(count)

    x, y = setting.draw(w, jax.random.key(1), count, d)
    assert abs(z_score(x, y)) < 4
    key = jax.random.split(jax.random.key(1))[1]  # the control: the noise from the key that the coin has
    noisy = inputs.unseen(jax.random.fold_in(key, 1), x @ w)
    assert abs(z_score(x, channel.sample(key, noisy))) > 10

    one, g = (
        np.ones((1, 1, 1)),
        np.repeat(np.asarray(x)[None, :, :1], 2, axis=2),
    )  # the student sees the teacher's field
    parts = problem.student, setting.teacher, channel, ll.SquareLoss(), False, inputs
    risk = FieldRisk(g, jax.random.split(jax.random.key(2), 1), *parts)
    found, error = (float(v[0]) for v in risk({"Q": one, "M": one, "P": one, "a": np.ones((1, 1))}))
    z = g[0, :, 0]
    assert abs(found - np.mean((1 + z**2) / 2 - z * (1 - 2 * flip) * (2 * ndtr(z) - 1))) < 4 * error


def gaussian_covariates(k=30, p=50, seed=0):
    """Blocks of one covariance matrix."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(k + p, 2 * (k + p))) / np.sqrt(2 * (k + p))
    S = A @ A.T
    return S[:k, :k], S[k:, k:], S[:k, k:], rng.normal(size=k)


def test_gaussian_covariates_keep_the_moments_of_teacher_and_student():
    Psi, Omega, Phi, theta = gaussian_covariates()
    k, p = Phi.shape
    found = ll.Spectrum.from_covariances(Psi, Omega, Phi, theta)
    modes = found.atoms
    np.testing.assert_allclose(modes.signal(1.0) + found.unexplained, theta @ Psi @ theta / k, rtol=1e-10)
    lam, v_hat = 0.3, 1.7  # m of the equations, in matrices and in modes
    direct = Phi.T @ theta @ np.linalg.solve(lam * np.eye(p) + v_hat * Omega, Phi.T @ theta) / k
    b2 = (modes.c**2) * modes.t2
    np.testing.assert_allclose(np.sum(modes.h * b2 / (lam + v_hat * modes.c)), direct, rtol=1e-10)
    low = np.linalg.qr(np.random.default_rng(1).normal(size=(p, 20)))[0]
    rank = ll.Spectrum.from_covariances(np.eye(p), low @ low.T, low @ low.T, np.ones(p))
    assert np.sum(rank.eigenvalues > 0) == 20 and rank.unexplained > 0
    with pytest.raises(ll.errors.InputError, match=r"fit together.*rho_perp < 0.*blocks of one covariance"):
        ll.Spectrum.from_covariances(Psi, Omega, 3 * Phi, theta)
    with pytest.raises(ll.errors.InputError, match="Omega must be symmetric"):
        ll.Spectrum.from_covariances(Psi, Omega + np.triu(np.ones((p, p)), 1), Phi, theta)
    with pytest.raises(ll.errors.InputError, match=r"Phi must have shape \(30, 50\)"):
        ll.Spectrum.from_covariances(Psi, Omega, Phi.T, theta)


def test_rows_of_data_give_their_second_moments():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(200, 8)) * np.arange(1, 9), rng.normal(size=8)
    found = ll.Spectrum.from_data(X, w)
    np.testing.assert_allclose(found.atoms.signal(1.0), np.mean((X @ w) ** 2), rtol=1e-12)
    np.testing.assert_allclose(found.eigenvalues.sum(), np.sum(X**2) * 8 / 200, rtol=1e-12)
    assert ll.Spectrum.from_data(X).teacher is None
    X[3, 4] = np.nan
    with pytest.raises(ll.errors.InputError, match="1 entries that are not finite"):
        ll.Spectrum.from_data(X, w)
    with pytest.raises(ll.errors.InputError, match="one for each column"):
        ll.Spectrum.from_data(np.eye(4), w)


BAD = [
    (lambda: ll.Spectrum([1.0, -0.5]), "eigenvalues must be finite and >= 0; got -0.5"),
    (lambda: ll.Spectrum([1.0, np.nan]), "eigenvalues must be finite"),
    (lambda: ll.Spectrum([]), "at least one number"),
    (lambda: ll.Spectrum([0.0, 0.0]), "must not all be 0"),
    (lambda: ll.Spectrum([1.0, 2.0], [0.5, 0.6]), "sum is 1; got 1.1"),
    (lambda: ll.Spectrum([1.0, 2.0], [0.5]), "one for each eigenvalue"),
    (lambda: ll.Spectrum([1.0, 2.0], teacher=[1.0, -1.0]), "teacher must be finite and >= 0"),
    (lambda: ll.Spectrum([1.0], unexplained=-0.1), "unexplained must be a finite number in"),
    (lambda: ll.Spectrum("wide"), "must be numbers"),
    (lambda: ll.Gaussian(spectrum=ll.PowerLaw(1.5, 1.8)), "finitely many modes.*modes=400"),
    (lambda: ll.Gaussian(spectrum=[1.0, 2.0]), "must be a spectrum"),
    (lambda: ll.PowerLaw(1.5, 1.8, modes=0), "modes must be a whole number >= 1"),
    (lambda: ll.PowerLaw(-1.5, 1.8), "decay must be"),
    (lambda: ll.MarchenkoPastur(0.0), "ratio must be"),
    (lambda: linear(TWO, teacher=ll.SingleIndex(ll.GaussianPrior(2.0))), r"GaussianPrior\(1\)"),
    (lambda: linear(TWO, teacher=ll.SingleIndex(ll.RademacherPrior())), r"GaussianPrior\(1\)"),
    (lambda: linear(TWO, teacher=ll.Committee(2, "erf")), "single direction.*`teacher`"),
    (lambda: linear(ll.Spectrum([1.0], unexplained=0.1), teacher=ll.Committee(2, "erf")), "`unexplained`"),
    (lambda: ll.simulate(linear(ll.Spectrum([1.0, 2.0, 3.0])), d=2), "d must be at least 3"),
]


@pytest.mark.parametrize(("make", "words"), BAD)
def test_bad_input_is_answered_in_words(make, words):
    with pytest.raises(ll.errors.InputError, match=words):
        make()
