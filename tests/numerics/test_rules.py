"""Rules of quadrature: exact to their degree and not beyond, and equal to integrals that SciPy knows."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from limitlab.numerics.gauss import normal, rules


def normal_moment(k):
    return 0.0 if k % 2 else float(special.factorial2(k - 1)) if k else 1.0


def sphere_moment(n, k):
    """E x^k of one coordinate of a uniform point on the sphere of R^n."""
    return (
        0.0
        if k % 2
        else math.exp(
            special.gammaln((k + 1) / 2) - special.gammaln(0.5) + special.gammaln(n / 2) - special.gammaln((n + k) / 2)
        )
    )


def chi_moment(n, k):
    return 2.0**k * math.exp(special.gammaln(n / 2 + k) - special.gammaln(n / 2))


GAUSS = {
    "legendre": (rules.legendre, lambda k: (1 - (-1) ** (k + 1)) / (k + 1)),
    "hermite": (rules.hermite, normal_moment),
    "coin": (lambda n: rules.gegenbauer_rule(1, n), lambda k: float(k % 2 == 0)),
    "circle": (lambda n: rules.gegenbauer_rule(2, n), lambda k: sphere_moment(2, k)),
    "sphere": (lambda n: rules.gegenbauer_rule(5, n), lambda k: sphere_moment(5, k)),
    "chi-square": (lambda n: rules.chi_square_rule(7, n), lambda k: chi_moment(7, k)),
    "half-integer chi-square": (lambda n: rules.chi_square_rule(1, n), lambda k: chi_moment(1, k)),
}


@pytest.mark.parametrize("name", GAUSS)
@pytest.mark.parametrize("count", [1, 4, 9])
def test_n_nodes_are_exact_to_degree_2n_minus_1_and_no_further(name, count):
    make, moment = GAUSS[name]
    x, w = make(count)
    for k in range(2 * count):
        scale = np.sum(np.abs(w * x**k)) + 1e-300
        assert abs(np.sum(w * x**k) - moment(k)) < 1e-12 * max(scale, 1e-3)
    if name != "coin":  # which two nodes integrate exactly
        assert abs(np.sum(w * x ** (2 * count)) / moment(2 * count) - 1) > 1e-6


def test_rules_that_everybody_shares_cannot_be_changed():
    for x in (*rules.legendre(5), *rules.hermite(5)):
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 0.0


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_panels_are_exact_between_edges_in_any_order(kind):
    x, w = rules.panel_nodes(kind([2.0, -1.0, 0.5, 0.5]), 3)
    assert isinstance(x, jax.Array) == (kind is jnp.asarray) and x.shape == (9,)
    for k in range(6):
        np.testing.assert_allclose(np.sum(w * x**k), (2.0 ** (k + 1) - (-1.0) ** (k + 1)) / (k + 1), rtol=1e-13)
    assert abs(np.sum(w * x**6) - (2.0**7 + 1) / 7) > 1e-3  # degree 6 is one too many
    assert np.sum(w[3:6]) == 0 or np.sum(w) == pytest.approx(3)  # an empty panel weighs nothing


def test_rows_of_edges_have_rows_of_nodes():
    edges = np.array([[0.0, 1.0, 2.0], [-1.0, 3.0, 4.0]])
    x, w = rules.panel_nodes(edges, 5)
    for row in range(2):
        alone = rules.panel_nodes(edges[row], 5)
        np.testing.assert_array_equal([x[row], w[row]], alone)
    x, w = rules.between(edges[:, 0], edges[:, 2], 5)
    np.testing.assert_allclose(np.sum(w * x**3, axis=1), [4.0, (4.0**4 - 1) / 4], rtol=1e-13)


@pytest.mark.parametrize("width", [1e-10, 1e-5, 1.0])
def test_graded_panels_see_a_narrow_bend_that_hermite_nodes_miss(width):
    def bend(x):
        return np.exp(-np.abs(x - 0.3) / width)

    x, dx = rules.panel_nodes(
        jnp.concatenate([rules.graded_edges(0.3, width, 24.0), rules.graded_edges(0.0, 1.0, 12.0)])
    )
    here = float(jnp.sum(normal.measure(x, dx) * bend(x)))
    exact = _exponential_mean(0.3, width)
    assert abs(here / exact - 1) < max(1e-9, 1e-15 / width)  # the place itself is rounded
    nodes, weights = rules.hermite(40)
    assert width == 1.0 or abs(np.sum(weights * bend(nodes)) / exact - 1) > 0.5


def _exponential_mean(c, width):
    """E exp(-|x - c|/width): each side is a normal integral, scaled so that nothing overflows."""
    rate = 1 / width
    return sum(0.5 * special.erfcx((rate + s * c) / math.sqrt(2)) * math.exp(-(c**2) / 2) for s in (1, -1))


def test_half_a_line():
    x, dx = rules.half_line(1e-6, 12.0)
    assert float(jnp.min(x)) > 0
    np.testing.assert_allclose(jnp.sum(normal.measure(x, dx)), 0.5, rtol=1e-10)
    exact = 2**0.25 * math.gamma(0.75) / (2 * math.sqrt(math.pi))
    np.testing.assert_allclose(jnp.sum(normal.measure(x, dx) * jnp.sqrt(x)), exact, rtol=1e-9)


def test_the_trapezoid_rule_of_a_normal_has_all_digits_for_entire_functions():
    x, w = rules.normal_nodes()
    np.testing.assert_allclose(np.sum(w * np.cos(x)), math.exp(-0.5), rtol=1e-14)
    coarse, v = rules.normal_nodes(step=2.0)
    assert abs(np.sum(v * np.cos(coarse)) - math.exp(-0.5)) > 1e-4


@pytest.mark.parametrize("r", [1, 2, 3, 5])
def test_rules_of_several_normals_and_their_twins(r):
    def f(z):
        return np.cos(z.sum(axis=1) / math.sqrt(r)) + z[:, 0] ** 2

    exact = math.exp(-0.5) + 1
    one, twin = (rules.normal_rule(r, twin) for twin in (False, True))
    digits = 1e-11 if r < 5 else 1e-3
    for rule in (one, twin):
        assert rule.weights.sum() == pytest.approx(1, abs=1e-13)
        assert abs(rule.weights @ f(rule.nodes) - exact) < digits
    assert one.nodes.shape != twin.nodes.shape or np.max(np.abs(one.nodes - twin.nodes)) > 1e-3
    with pytest.raises(ValueError, match="at least 1"):
        rules.normal_rule(0)


def test_products_of_rules():
    nodes, weights = rules.product_rule(*rules.hermite(4), 3)
    assert nodes.shape == (64, 3)
    np.testing.assert_allclose(weights @ (nodes[:, 0] ** 6 * nodes[:, 1] ** 4 * nodes[:, 2] ** 2), 15 * 3, rtol=1e-12)
    few, shares = rules.product_rule(*rules.hermite(4), 3, 0.05)
    assert len(few) < 64 and shares.sum() == pytest.approx(1)


def test_sobol_points_are_the_first_of_their_sequence_and_inside():
    many, few = (rules.sobol_points(3, count, np.random.default_rng(4)) for count in (64, 40))
    np.testing.assert_array_equal(many[:40], few)
    other = stats.qmc.Sobol(3, scramble=True, rng=np.random.default_rng(4)).random(64)
    np.testing.assert_array_equal(many, other)
    assert np.all((many > 0) & (many < 1))
    assert rules.sobol_points(2, 1, np.random.default_rng(0)).shape == (1, 2)


@pytest.mark.parametrize("d", [1, 2, 3, 15, 16, 300])
def test_one_coordinate_of_a_direction(d):
    x, w = rules.direction_rule(d, 201, 8.5)
    for k in (0, 1, 2, 4, 6):
        assert np.sum(w * x**k) == pytest.approx(d ** (k / 2) * sphere_moment(d, k), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("d", [2, 10, 1000])
def test_the_length_of_a_gaussian_vector(d):
    x, w = rules.length_nodes(d, 12)
    exact = math.exp(special.gammaln((d + 1) / 2) - special.gammaln(d / 2)) * math.sqrt(2 / d)
    np.testing.assert_allclose([np.sum(w * x), np.sum(w * x**2)], [exact, 1.0], rtol=1e-9)
    chi = integrate.quad(lambda s: np.tanh(s / math.sqrt(d)) * stats.chi(d).pdf(s), 0, math.sqrt(d) + 10, epsabs=1e-13)
    np.testing.assert_allclose(np.sum(w * np.tanh(x)), chi[0], rtol=1e-9)
    assert abs(np.sum(w * x) - 1) > 0.1 / d  # the length of a finite vector is not its mean square


def test_the_normal_density_is_scipys():
    x = np.array([-40.0, -8.0, -1.0, 0.0, 0.3, 5.0, np.inf])
    np.testing.assert_allclose(normal.density(jnp.asarray(x)), stats.norm.pdf(x), rtol=1e-12)
    dx = np.linspace(0.1, 0.7, 7)
    np.testing.assert_allclose(
        normal.measure(jnp.asarray(x[:6]), dx[:6], 2.0), stats.norm.pdf(x[:6]) * math.exp(2.0) * dx[:6], rtol=1e-12
    )
