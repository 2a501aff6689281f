"""Gaussian moments: closed forms against other formulas, quadrature and each other."""

import functools
from itertools import combinations, pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from independent import FUNCTIONS, erf_moments, two_field_moments
from limitlab.numerics.gauss import bent
from limitlab.numerics.gauss.angles import angle, arcsine
from limitlab.numerics.gauss.fields import ClosedSum, field_sum
from limitlab.numerics.gauss.terms import Term, derivative_terms, expectation, four_signs, logistic_mixture


def gram(n, seed, rank=None):
    A = np.random.default_rng(seed).normal(size=(n, rank or n + 2))
    return A @ A.T / A.shape[1]


def weights(n, seed=5):
    return np.random.default_rng(seed).normal(size=n)


@functools.cache
def compiled(student, teacher, p, k, method="auto"):
    return jax.jit(field_sum(ll.activation(student), ll.activation(teacher), p, k, method).__call__)


def moments(student, teacher, p, k, Omega, c, noise=0.3, method="auto"):
    return compiled(student, teacher, p, k, method)(np.asarray(Omega), np.asarray(c), noise)


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


@pytest.mark.parametrize(
    ("student", "teacher"),
    [
        pytest.param("relu", "relu", marks=pytest.mark.more),
        pytest.param("relu", "erf", marks=pytest.mark.more),
        ("square", "relu"),
    ],
)
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


def planar(student, teacher, p, A, c, noise):
    """V of fields A z, z normal in the plane: Gauss nodes between the angles at which a field changes its sign."""
    (f, df), (g, _) = FUNCTIONS[student], FUNCTIONS[teacher]
    turns = [np.arctan2(a[1], a[0]) + turn for a in A for turn in (np.pi / 2, 3 * np.pi / 2)]
    edges = np.unique(np.mod([0.0, *turns], 2 * np.pi))
    x, w = np.polynomial.legendre.leggauss(40)
    radius = 5 * (x + 1)
    total = np.zeros((p, p))
    for low, high in zip(edges, [*edges[1:], 2 * np.pi], strict=True):
        angle = (low + high) / 2 + (high - low) / 2 * x
        s = (A @ np.array([np.cos(angle), np.sin(angle)]))[:, :, None] * radius
        density = np.outer((high - low) / 2 * w, 5 * w * radius * np.exp(-(radius**2) / 2) / (2 * np.pi))
        error = np.tensordot(c, np.concatenate([f(s[:p]), g(s[p:])]), 1)
        total += np.einsum("iab,jab,ab->ij", df(s[:p]), df(s[:p]), density * (error**2 + noise))
    return total


@pytest.mark.parametrize(
    ("student", "teacher"),
    [
        pytest.param("relu", "relu", marks=pytest.mark.more),
        ("abs", "relu"),
        pytest.param("relu", "erf", marks=pytest.mark.more),
    ],
)
def test_fields_in_a_plane(student, teacher):
    """Rank two: two fields are both zero where two others are, and correlations of what is left of them are 0/0."""
    for seed, parallel in ((1, False), (2, False), (3, True)):
        A, c = np.random.default_rng(seed).normal(size=(4, 2)), weights(4)
        if parallel:
            A[3] = 1.7 * A[0]
        exact = planar(student, teacher, 2, A, c, 0.3)
        np.testing.assert_allclose(moments(student, teacher, 2, 2, A @ A.T, c).V, exact, atol=1e-8 * np.max(exact))


def test_the_plane_is_where_a_field_loses_its_sign(monkeypatch):
    """Without noise in the plane the same formula is wrong by per cents."""
    A, c = np.random.default_rng(1).normal(size=(4, 2)), weights(4)
    exact = planar("relu", "relu", 2, A, c, 0.3)
    monkeypatch.setattr(bent, "_noisy", lambda r, determinants: (0.0, [x > bent.ROUNDING for x in determinants]))
    wrong = compiled.__wrapped__("relu", "relu", 2, 2)(A @ A.T, c, 0.3)  # traced anew
    assert np.max(np.abs(wrong.V - exact)) > 1e-3 * np.max(exact)


@pytest.mark.parametrize("width", [1e-6, 1e-5, 1e-4, 1e-3])
def test_moments_are_continuous_where_fields_leave_a_plane(width):
    rng = np.random.default_rng(4)
    A, c = rng.normal(size=(4, 2)), weights(4)
    out = np.concatenate([A, width * rng.normal(size=(4, 4))], axis=1)
    flat, bulky = (np.asarray(moments("relu", "relu", 2, 2, x @ x.T, c).V) for x in (A, out))
    assert np.max(np.abs(bulky - flat)) < max(1e-7, 100 * width**2)


def test_four_signs_of_fields_that_nearly_coincide():
    """Against Plackett's integral on many panels, with conditional correlations by linear algebra."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(2, 6))
    A = np.concatenate([A, A + 0.01 * rng.normal(size=(2, 6))])
    R = A @ A.T
    R /= np.sqrt(np.outer(np.diag(R), np.diag(R)))
    found = jax.jit(four_signs)({(i, j): R[i, j] for i in range(4) for j in range(i + 1, 4)})
    edges = np.pi / 2 * np.concatenate([[0.0], 2.0 ** -np.arange(40, -1, -1)])  # panels that halve towards the end
    x, w = np.polynomial.legendre.leggauss(20)
    angles = np.concatenate([(a + b) / 2 + (b - a) / 2 * x for a, b in pairwise(edges)])
    weight = np.concatenate([(b - a) / 2 * w for a, b in pairwise(edges)])
    total = 0.0
    for i, j in combinations(range(4), 2):
        k, m = (s for s in range(4) if s not in (i, j))
        for angle_, weight_ in zip(angles, weight, strict=True):
            u = np.cos(angle_)
            S = 2 * np.sin(angle_ / 2) ** 2 * np.eye(4) + u * R
            rest = S[np.ix_([k, m], [k, m])] - S[np.ix_([k, m], [i, j])] @ np.linalg.solve(
                S[np.ix_([i, j], [i, j])], S[np.ix_([i, j], [k, m])]
            )
            rho = np.clip(rest[0, 1] / np.sqrt(rest[0, 0] * rest[1, 1]), -1, 1)
            total += weight_ * np.sin(angle_) * R[i, j] / np.sqrt(1 - (u * R[i, j]) ** 2) * np.arcsin(rho)
    assert abs(found - 4 / np.pi**2 * total) < 1e-7


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


@pytest.mark.parametrize(
    ("p", "k"),
    [
        (1, 1),
        pytest.param(2, 1, marks=pytest.mark.more),
        pytest.param(2, 2, marks=pytest.mark.more),
        pytest.param(3, 2, marks=pytest.mark.more),
    ],
)
def test_quadrature_of_any_function_meets_its_error_estimate(p, k):
    """erf given as an anonymous function must agree with its closed form within the stated error."""
    Omega, c = gram(p + k, 4), weights(p + k)
    anonymous = ll.activation(lambda x: jax.scipy.special.erf(x / jnp.sqrt(2.0)))
    sums = field_sum(anonymous, anonymous, p, k)
    exact = moments("erf", "erf", p, k, Omega, c)
    error = sums.error(jnp.asarray(Omega), jnp.asarray(c), 0.3)
    worst = max(
        float(np.max(np.abs(np.asarray(x) - np.asarray(y))))
        for x, y in zip(jax.jit(sums.__call__)(Omega, c, 0.3), exact, strict=True)
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
    value = jax.jit(lambda C: expectation([sign] * 4, lambda a, b: C[a, b]))(C)
    np.testing.assert_allclose(value, (2 / np.pi) ** 2 * np.arcsin(0.6) * np.arcsin(-0.35), rtol=1e-13)


def test_derivative_terms_are_derivatives():
    """d/dC12 E[f(s1) g(s2)] = E[f'(s1) g'(s2)] (Price), so terms and derivative terms must match."""
    f, g = ll.activation("relu").terms, ll.activation("tanh").terms

    def value(rho):
        return expectation([f, g], lambda a, b: jnp.where(a == b, 1.3, rho))

    def slope(rho):
        return expectation([derivative_terms(f), derivative_terms(g)], lambda a, b: jnp.where(a == b, 1.3, rho))

    np.testing.assert_allclose(*jax.jit(lambda rho: (jax.jacfwd(value)(rho), slope(rho)))(0.4), rtol=1e-10)


def test_the_arcsine_is_exact_to_rounding():
    x = np.concatenate([np.linspace(-1, 1, 2001), [0.5, np.nextafter(0.5, 1), 1e-300, -1e-9, 1 - 1e-16]])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(arcsine)))(np.append(x, 1.5))
    np.testing.assert_allclose(values[:-1], np.arcsin(x), rtol=5e-16, atol=0)
    assert float(values[-1]) == np.pi / 2
    np.testing.assert_allclose(slopes[1:2000], (1 - x[1:2000] ** 2) ** -0.5, rtol=1e-12)
    assert float(slopes[2000]) == 0.0  # it is cut at 1


def test_the_angle_is_the_arctangent_of_two_numbers():
    y, x = np.meshgrid([0.0, 1e-200, -1e-9, 0.3, -0.7, 1.0, 1e9], [0.0, 1e-300, 1e-12, 0.2, 1.0, 1e5])
    np.testing.assert_allclose(jax.jit(angle)(y, x), np.arctan2(y, x), rtol=6e-16, atol=0)
    slopes = jax.jit(jax.grad(angle, argnums=(0, 1)))(0.3, 0.4)
    np.testing.assert_allclose(slopes, (0.4 / 0.25, -0.3 / 0.25), rtol=1e-14)


def edges(p, k):
    """Random overlaps, and such as a formula could trip over."""
    G, c = gram(p + k, 7), weights(p + k)
    nothing, copies = G.copy(), G.copy()
    nothing[0] = nothing[:, 0] = 0.0
    copies[-1], copies[:, -1], copies[-1, -1] = copies[0], copies[:, 0], copies[0, 0]
    yield from ((G, c, 0.3), (G, c, 0.0), (100 * G, c, 0.3), (1e-6 * G, c, 0.3), (nothing, c, 0.3), (copies, c, 0.3))
    yield gram(p + k, 8, rank=max(1, p + k - 1)), c, 0.3


@pytest.mark.parametrize(
    ("student", "teacher", "p", "k"),
    [
        ("erf", "erf", 4, 2),
        pytest.param("tanh", "sigmoid", 1, 1, marks=pytest.mark.more),
        pytest.param("relu", "relu", 4, 2, marks=pytest.mark.more),
        ("relu", "linear", 1, 2),
    ],
)
def test_formulas_for_one_kind_of_function_equal_the_general_terms(student, teacher, p, k):
    f, g = ll.activation(student), ll.activation(teacher)
    own, general = field_sum(f, g, p, k), ClosedSum(f, g, p, k)
    assert not isinstance(own, ClosedSum)
    own, general = (jax.jit(sums.__call__) for sums in (own, general))
    for n, (Omega, c, noise) in enumerate(edges(p, k)):
        # A rectifier feels the square root of 1 - rho: among parallel fields rounding shows at 1e-8.
        tolerance = 1e-7 if student == "relu" and n >= 5 else 1e-13
        for x, y in zip(own(Omega, c, noise), general(Omega, c, noise), strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * np.max(np.abs(y)))


@pytest.mark.parametrize("name", ["erf", pytest.param("relu", marks=pytest.mark.more)])
def test_a_wide_problem_agrees_with_a_part_of_it(name):
    """Fields without weight in the error change nothing: pieces of a wide table against one small table."""
    p, k, part = 17, 2, [2, 9, 16, 18]
    Omega, c = gram(p + k, 11), np.zeros(p + k)
    c[part] = weights(4)
    wide = jax.device_get(moments(name, name, p, k, Omega, c))
    small = moments(name, name, 3, 1, Omega[np.ix_(part, part)], c[part])
    np.testing.assert_allclose(wide.V[np.ix_(part[:3], part[:3])], small.V, rtol=1e-13)
    np.testing.assert_allclose(wide.L[np.ix_(part[:3], part)], small.L, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(wide.I[part], small.I, rtol=1e-12)


@pytest.mark.parametrize(("student", "teacher"), [("erf", "erf"), ("tanh", "erf"), ("relu", "relu"), ("erf", "square")])
def test_no_constants_are_as_many_as_four_fields(student, teacher):
    p, k = (30, 2) if student != "tanh" else (5, 2)
    sums, n = field_sum(ll.activation(student), ll.activation(teacher), p, k), p + k
    n = n if student != "tanh" else 10 * n
    traced = jax.make_jaxpr(sums.__call__)(jnp.eye(p + k), jnp.ones(p + k), 0.1)
    assert sum(np.size(x) for x in traced.consts) < 40 * n**2  # four fields are n^4/4: 256 n^2 or more
    assert max(np.size(v.aval) for e in traced.eqns for v in e.outvars) < 10 * n**2


@pytest.mark.parametrize(
    "name", ["erf", pytest.param("relu", marks=pytest.mark.more), pytest.param("tanh", marks=pytest.mark.more)]
)
def test_moments_have_the_derivatives_of_their_differences(name):
    p, k = 2, 1
    sums, Omega, c = field_sum(ll.activation(name), ll.activation(name), p, k), gram(p + k, 6), weights(p + k)

    def total(Omega):
        return sum(jnp.sum(jnp.sin(x + n)) for n, x in enumerate(sums(Omega, c, 0.2)))

    step = np.random.default_rng(3).normal(size=Omega.shape)
    step, value, slope = step + step.T, jax.jit(total), jax.jit(jax.grad(total))
    numeric = (value(Omega + 1e-5 * step) - value(Omega - 1e-5 * step)) / 2e-5
    forward = jax.jit(lambda x: jax.jvp(total, (x,), (step,))[1])(Omega)
    backward = slope(Omega)
    np.testing.assert_allclose([float(forward), float(np.sum(backward * step))], numeric, rtol=1e-7)
    lanes = jax.jit(jax.vmap(lambda x: sums(x, c, 0.2)))(np.stack([Omega, 2 * Omega]))
    for x, y in zip(lanes, moments(name, name, p, k, 2 * Omega, c, 0.2), strict=True):
        np.testing.assert_allclose(x[1], y, rtol=1e-12)
    assert np.all(np.isfinite(slope(np.ones((3, 3)))))  # three copies of one field
