"""Gaussian moments: closed forms against other formulas, quadrature and each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from independent import FUNCTIONS, erf_moments, two_field_moments
from limitlab.numerics.gauss.fields import field_sum
from limitlab.numerics.gauss.terms import Term, derivative_terms, expectation, logistic_mixture


def gram(n, seed, rank=None):
    A = np.random.default_rng(seed).normal(size=(n, rank or n + 2))
    return A @ A.T / A.shape[1]


def weights(n, seed=5):
    return np.random.default_rng(seed).normal(size=n)


def moments(student, teacher, p, k, Omega, c, noise=0.3, method="auto"):
    sums = field_sum(ll.activation(student), ll.activation(teacher), p, k, method)
    return sums(jnp.asarray(Omega), jnp.asarray(c), noise)


@pytest.mark.parametrize(("p", "k"), [(1, 1), (3, 2), (2, 4)])
def test_erf_terms_equal_the_saad_solla_formulas(p, k):
    Omega, c = gram(p + k, 0), weights(p + k)
    for x, y in zip(moments("erf", "erf", p, k, Omega, c), erf_moments(Omega, c, p, 0.3), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13)


PAIRS = [
    ("relu", "relu"),
    ("relu", "erf"),
    ("relu", "square"),
    ("relu", "tanh"),
    ("relu", "sign"),
    ("erf", "relu"),
    ("erf", "square"),
    ("erf", "hermite(3)"),
    ("square", "relu"),
    ("square", "sign"),
    ("tanh", "tanh"),
    ("sigmoid", "erf"),
    ("hermite(3)", "relu"),
    ("abs", "linear"),
    ("linear", "abs"),
]


@pytest.mark.parametrize(("student", "teacher"), PAIRS)
def test_closed_forms_equal_panel_quadrature(student, teacher):
    Omega, c = gram(2, 3), weights(2)
    mixture = {"tanh", "sigmoid"} & {student, teacher}
    tolerance = 5e-8 if mixture else 1e-10
    closed = moments(student, teacher, 1, 1, Omega, c, method="closed")
    for x, y in zip(closed, two_field_moments(Omega, c, student, teacher, 0.3), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def monte_carlo(student, teacher, p, Omega, c, noise, seed=0, n=400_000):
    """Batches of plain averages of L and V, for z-scores."""
    (f, df), (g, _) = FUNCTIONS[student], FUNCTIONS[teacher]
    values, vectors = np.linalg.eigh(Omega)
    root = vectors * np.sqrt(np.maximum(values, 0))
    s = np.random.default_rng(seed).normal(size=(n, len(Omega))) @ root.T
    err = np.concatenate([f(s[:, :p]), g(s[:, p:])], axis=1) @ c
    slope = df(s[:, :p])
    L = slope[:, :, None] * s[:, None, :] * err[:, None, None]
    V = slope[:, :, None] * slope[:, None, :] * (err**2 + noise)[:, None, None]
    return L, V


@pytest.mark.parametrize(("student", "teacher"), [("relu", "relu"), ("relu", "erf"), ("square", "relu")])
def test_many_field_moments_match_monte_carlo_even_for_singular_overlaps(student, teacher):
    p, k = 3, 2
    Omega, c = gram(p + k, 1, rank=3), weights(p + k)
    exact = moments(student, teacher, p, k, Omega, c)
    for x, y in zip(exact[1:], monte_carlo(student, teacher, p, Omega, c, 0.3), strict=True):
        z = (y.mean(0) - x) / (y.std(0) / np.sqrt(len(y)))
        assert np.max(np.abs(z)) < 4.5


def test_monte_carlo_check_would_see_a_wrong_moment():
    Omega, c = gram(5, 1, rank=3), weights(5)
    exact = moments("relu", "relu", 3, 2, Omega, 1.02 * c)
    y = monte_carlo("relu", "relu", 3, Omega, c, 0.3)[1]
    assert np.max(np.abs((y.mean(0) - exact.V) / (y.std(0) / np.sqrt(len(y))))) > 4.5


def test_copies_of_a_field_are_merged_exactly():
    """Two students with the same weights: the four-field formula must give the two-field answer."""
    q, m, r = 0.7, 0.4, 1.1
    small = moments("relu", "relu", 1, 1, np.array([[q, m], [m, r]]), np.array([-1.0, 0.8]))
    big = moments("relu", "relu", 2, 1, np.array([[q, q, m], [q, q, m], [m, m, r]]), np.array([-0.5, -0.5, 0.8]))
    np.testing.assert_allclose(big.V, np.full((2, 2), float(small.V[0, 0])), rtol=1e-7)
    np.testing.assert_allclose(big.L[:, [0, 2]], np.tile(small.L, (2, 1)), rtol=1e-7)


def test_student_equal_to_teacher_has_zero_error_moments():
    for name in ("relu", "erf", "tanh", "square"):
        out = moments(name, name, 1, 1, np.ones((2, 2)), np.array([-1.0, 1.0]), noise=0.0)
        for x in out:
            np.testing.assert_allclose(x, 0.0, atol=1e-7)


def test_square_matrix_formula_equals_the_terms():
    Omega, c = gram(5, 2), weights(5)
    for x, y in zip(
        moments("square", "square", 3, 2, Omega, c),
        moments("square", "square", 3, 2, Omega, c, method="closed"),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize(("p", "k"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_quadrature_of_any_function_meets_its_error_estimate(p, k):
    """erf given as an anonymous function must agree with its closed form within the stated error."""
    Omega, c = gram(p + k, 4), weights(p + k)
    anonymous = ll.activation(lambda x: jax.scipy.special.erf(x / jnp.sqrt(2.0)))
    sums = field_sum(anonymous, anonymous, p, k)
    exact = moments("erf", "erf", p, k, Omega, c)
    error = sums.error(jnp.asarray(Omega), jnp.asarray(c), 0.3)
    worst = max(
        float(jnp.max(jnp.abs(x - y)))
        for x, y in zip(sums(jnp.asarray(Omega), jnp.asarray(c), 0.3), exact, strict=True)
    )
    assert worst <= 3 * error + 1e-9
    assert error < (1e-7 if p + k <= 4 else 3e-3)


def test_a_kink_hidden_in_an_anonymous_function_shows_in_the_error_estimate():
    anonymous = ll.activation(lambda x: jnp.where(x > 0.3, x - 0.3, 0.0))
    sums = field_sum(anonymous, anonymous, 1, 1)
    assert sums.error(jnp.asarray(gram(2, 0)), jnp.asarray(weights(2)), 0.0) > 1e-5


def test_logistic_mixture_reproduces_the_sigmoid():
    from scipy.special import ndtr

    x = np.linspace(-30, 30, 2001)
    mixture = sum(w * ndtr(x / t) for w, t in logistic_mixture())
    assert np.max(np.abs(mixture - 1 / (1 + np.exp(-x)))) < 1e-8


def test_four_signs_reduce_to_the_arcsine_law():
    """E[sgn a sgn b sgn c sgn d] with (a, b) independent of (c, d) is a product of two arcsines."""
    C = np.eye(4)
    C[0, 1] = C[1, 0] = 0.6
    C[2, 3] = C[3, 2] = -0.35
    sign = (Term(1.0, 0, "sign"),)
    value = expectation([sign] * 4, lambda a, b: jnp.asarray(C[a, b]))
    np.testing.assert_allclose(value, (2 / np.pi) ** 2 * np.arcsin(0.6) * np.arcsin(-0.35), rtol=1e-13)


def test_derivative_terms_are_derivatives():
    """d/dC12 E[f(s1) g(s2)] = E[f'(s1) g'(s2)] (Price), so terms and derivative terms must match."""
    f, g = ll.activation("relu").terms, ll.activation("tanh").terms

    def value(rho):
        return expectation([f, g], lambda a, b: jnp.where(a == b, 1.3, rho))

    slope = expectation([derivative_terms(f), derivative_terms(g)], lambda a, b: jnp.where(a == b, 1.3, 0.4))
    np.testing.assert_allclose(jax.jacfwd(value)(0.4), slope, rtol=1e-10)
