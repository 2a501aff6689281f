"""Priors: derivatives, sums and integrals that must agree."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from limitlab.numerics.trees import traced

PRIORS = [
    ll.GaussianPrior(),
    ll.GaussianPrior(2.5),
    ll.RademacherPrior(),
    ll.GaussBernoulliPrior(0.1, 3.0),
    ll.GaussBernoulliPrior(1.0, 0.7),
    ll.LaplacePrior(0.8),
]
SIGNALS = [1e-6, 1e-2, 0.7, 30.0, 1e4]


@eqx.filter_jit
def _bayes(prior, A):
    return jnp.stack(prior.bayes(A))


@eqx.filter_jit
def _overlaps(prior, m_hat, q_hat, A):
    return jnp.stack(prior.overlaps(m_hat, q_hat, A))


def _at(function, prior, *numbers):
    return np.asarray(function(traced(prior), *(jnp.asarray(float(x)) for x in numbers)))


@pytest.mark.more_of("LaplacePrior(scale=0.8)")
@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_posterior_moments_are_derivatives(prior):
    live = traced(prior)
    A, B = jnp.array([0.3, 2.0, 50.0, 1e-3]), jnp.array([-0.7, 3.0, -20.0, 0.2])
    post = live.denoise(A, B)
    mean = jax.vmap(jax.grad(lambda b, a: live.denoise(a, b).log_z))(B, A)
    var = jax.vmap(jax.grad(lambda b, a: live.denoise(a, b).mean))(B, A)
    np.testing.assert_allclose(post.mean, mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(post.variance, var, rtol=1e-6, atol=1e-12)


@pytest.mark.more_of("LaplacePrior(scale=0.8)")
@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_overlap_error_and_potential(prior):
    rho = float(prior.second_moment)
    for A in SIGNALS:
        m, V, _ = _at(_bayes, prior, A)
        assert m + V == pytest.approx(rho, rel=1e-8)
        h = 1e-3 * A
        steps = [_at(_bayes, prior, A + k * h)[2] for k in (-2, -1, 1, 2)]
        slope = (steps[0] - 8 * steps[1] + 8 * steps[2] - steps[3]) / (12 * h)
        assert 2 * slope == pytest.approx(m, rel=3e-6, abs=1e-15 / h)  # rounding of Phi_w
        np.testing.assert_allclose(_at(_overlaps, prior, A, A, A)[:2], m, rtol=1e-7)


@pytest.mark.more_of(
    "GaussBernoulliPrior(density=0.1, variance=3.0)",
    "GaussBernoulliPrior(density=1.0, variance=0.7)",
    "GaussianPrior(variance=2.5)",
    "GaussianPrior()",
)
@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_brute_force(prior):
    """m, q, V off the Nishimori line by sums over w and z."""
    m_hat, q_hat, A = 1.3, 0.8, 2.1
    grid = np.linspace(-1, 1, 40001)
    if isinstance(prior, ll.RademacherPrior):
        w, p = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    elif isinstance(prior, ll.LaplacePrior):
        w = 30 * prior.scale * grid
        p = np.exp(-abs(w) / prior.scale)
    else:
        w = 8 * np.sqrt(prior.variance) * grid
        p = np.exp(-(w**2) / (2 * prior.variance))
    p = p / p.sum()
    if isinstance(prior, ll.GaussBernoulliPrior):
        w, p = np.append(w, 0.0), np.append(prior.density * p, 1 - prior.density)
    B = np.linspace(-12, 12, 1201) * np.sqrt(q_hat + m_hat**2 * float(prior.second_moment))
    B = np.linspace(B[0] * 2, B[-1] * 2, 1001)
    like = np.exp(-((B[:, None] - m_hat * w) ** 2) / (2 * q_hat)) / np.sqrt(2 * np.pi * q_hat)
    evidence, truth = like @ p, like @ (p * w)
    tilt = B[:, None] * w - A * w**2 / 2
    tilt = np.exp(tilt - tilt.max(1, keepdims=True))
    norm = tilt @ p
    mean = tilt @ (p * w) / norm
    var = tilt @ (p * w**2) / norm - mean**2
    dB = B[1] - B[0]
    expected = [np.sum(truth * mean) * dB, np.sum(evidence * mean**2) * dB, np.sum(evidence * var) * dB]
    np.testing.assert_allclose(_at(_overlaps, prior, m_hat, q_hat, A), expected, rtol=2e-6)
    wrong = _at(_overlaps, prior, 1.2 * m_hat, q_hat, A)  # negative control (A does not matter to +-1 weights)
    assert not np.allclose(wrong, expected, rtol=1e-3)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_samples(prior):
    w = np.asarray(prior.sample(jax.random.key(1), (50_000,)))
    assert abs(w.mean()) < 4 * w.std() / np.sqrt(len(w))
    square = w**2
    spread = square.std() / np.sqrt(len(w))
    assert abs(square.mean() - float(prior.second_moment)) <= 4 * spread + 1e-12
    assert np.max(np.abs(w)) <= float(prior.reach)


def test_binary_weights_far_from_the_noise():
    """1 - m = exp(-A/2) E sech(sqrt(A) z) keeps its digits where 1 - m underflows a difference."""
    _, V, _ = _at(_bayes, ll.RademacherPrior(), 200.0)
    z = np.linspace(-4, 4, 400001)
    f = np.exp(-(z**2) / 2) / np.cosh(np.sqrt(200.0) * z) / np.sqrt(2 * np.pi)
    assert V == pytest.approx(np.exp(-100.0) * np.sum(f) * (z[1] - z[0]), rel=1e-9)
