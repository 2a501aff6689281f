"""Hermite coefficients, information exponents and the sample complexity they imply."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import hermite_e

import limitlab as ll
from limitlab.analysis.hermite import (
    hermite_coefficients,
    hermite_expansion,
    information_exponent,
    sample_complexity_class,
)
from limitlab.numerics.gauss.fields import field_sum

DEGREE = 24


def _h(n, x):
    return hermite_e.hermeval(x, [0.0] * n + [1.0]) / math.sqrt(math.factorial(n))


def _step(threshold):
    """Coefficients of 1{z > threshold}: the tail, then phi(threshold) He_{n-1}(threshold)/sqrt(n!)."""
    phi = math.exp(-(threshold**2) / 2) / math.sqrt(2 * math.pi)
    rest = [phi * _h(n - 1, threshold) / math.sqrt(n) for n in range(1, DEGREE + 1)]
    return np.array([math.erfc(threshold / math.sqrt(2)) / 2, *rest])


def _ramp(threshold):
    """Coefficients of max(z - threshold, 0): its derivative is a step, c_n(f) = c_{n-1}(f')/sqrt(n)."""
    phi = math.exp(-(threshold**2) / 2) / math.sqrt(2 * math.pi)
    mean = phi - threshold * math.erfc(threshold / math.sqrt(2)) / 2
    return np.array([mean, *(_step(threshold)[:DEGREE] / np.sqrt(np.arange(1, DEGREE + 1)))])


def _erf():
    """c_n = b_{n-1}/sqrt(n) with b_n the coefficients of the derivative sqrt(2/pi) exp(-z^2/2)."""
    c = np.zeros(DEGREE + 1)
    for n in range(1, DEGREE + 1, 2):
        j = (n - 1) // 2
        bell = math.sqrt(1 / math.pi) * (-1) ** j * math.sqrt(math.factorial(2 * j)) / (math.factorial(j) * 4**j)
        c[n] = bell / math.sqrt(n)
    return c


def _unit(*pairs):
    c = np.zeros(DEGREE + 1)
    for n, value in pairs:
        c[n] = value
    return c


sign = 2 * _step(0.0) - _unit((0, 1.0))
CASES = {
    "linear": _unit((1, 1.0)),
    "square": _unit((0, 1.0), (2, math.sqrt(2))),
    "erf": _erf(),
    "sign": sign,
    "relu": _ramp(0.0),
    "abs": 2 * _ramp(0.0) - _unit((1, 1.0)),
    "hermite(3)": _unit((3, math.sqrt(6))),
    "hermite(7)": _unit((7, math.sqrt(5040))),
    "shifted(relu, 0.3)": _ramp(-0.3),
    "shifted(sign, -0.7)": 2 * _step(0.7) - _unit((0, 1.0)),
    "shifted(linear, 2.0)": _unit((0, 2.0), (1, 1.0)),
    "piecewise((-1.0, 0.0), (0.2, 1.2), (2.0, 1.2))": _ramp(-1.0) - _ramp(0.2),
}


@pytest.mark.parametrize("name", CASES)
def test_coefficients_of_named_activations_are_right_to_1e_10(name):
    expansion = hermite_expansion(name, DEGREE)
    np.testing.assert_allclose(expansion.coefficients, CASES[name], rtol=0, atol=1e-10 * max(1, expansion.norm))
    assert np.max(np.abs(expansion.coefficients - CASES[name])) <= 30 * expansion.error  # the estimate is honest
    assert expansion.error < 1e-11 * max(1, expansion.norm)
    assert "Gauss-Legendre" in expansion.method


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "shifted(tanh, 0.4)"])
def test_smooth_activations_agree_with_the_trapezoid_rule(name):
    z = 0.05 * np.arange(-280, 281)
    weights = 0.05 * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    values = np.asarray(ll.activation(name)(jnp.asarray(z)))
    expected = [np.sum(weights * values * _h(n, z)) for n in range(11)]
    np.testing.assert_allclose(hermite_coefficients(name, 10), expected, rtol=0, atol=2e-12)


def test_sigmoid_is_half_of_one_plus_tanh_of_half():
    half_tanh = hermite_coefficients(lambda x: (1 + jnp.tanh(x / 2)) / 2, 12)
    np.testing.assert_allclose(hermite_coefficients("sigmoid", 12), half_tanh, rtol=0, atol=1e-13)


def test_kinks_and_jumps_of_python_functions_are_found():
    at = math.sqrt(0.5)
    kink = hermite_expansion(lambda x: jnp.maximum(x - at, 0.0), DEGREE)
    jump = hermite_expansion(lambda x: jnp.where(x > at, 1.0, 0.0), DEGREE)
    np.testing.assert_allclose(kink.coefficients, _ramp(at), rtol=0, atol=1e-12)
    np.testing.assert_allclose(jump.coefficients, _step(at), rtol=0, atol=1e-12)


def test_plain_gauss_hermite_would_miss_a_kink():
    """Negative control: the usual rule with 80 nodes fails in the third digit."""
    x, w = hermite_e.hermegauss(80)
    gauss = np.sum(w * np.maximum(x, 0)) / math.sqrt(2 * math.pi)
    assert abs(gauss - _ramp(0.0)[0]) > 1e-4
    assert abs(hermite_coefficients("relu", 0)[0] - _ramp(0.0)[0]) < 1e-12


def test_parseval_holds():
    expansion = hermite_expansion("erf", 120)
    assert np.sum(expansion.coefficients**2) == pytest.approx(1 / 3, abs=1e-12)  # E erf(z/sqrt2)^2 = (2/pi) asin(1/2)
    assert expansion.norm**2 == pytest.approx(1 / 3, abs=1e-13)


@pytest.mark.parametrize(("student", "teacher"), [("relu", "erf"), ("tanh", "sign"), ("square", "abs")])
def test_two_point_function_is_the_power_series_in_the_overlap(student, teacher):
    """I2 = sum_n c_n c*_n rho^n, against the library's own Gaussian moments."""
    rho = 0.35
    sums = field_sum(ll.activation(student), ll.activation(teacher), 1, 1)
    direct = sums.values(jnp.asarray([[1.0, rho], [rho, 1.0]]), jnp.asarray([0.0, 1.0]))[0]
    series = np.sum(hermite_coefficients(student, 40) * hermite_coefficients(teacher, 40) * rho ** np.arange(41))
    assert series == pytest.approx(float(direct), abs=2e-8)  # tanh moments are a mixture, right to 1e-8


@pytest.mark.parametrize(
    ("name", "exponent"),
    [
        ("erf", 1),
        ("relu", 1),
        ("sign", 1),
        ("square", 2),
        ("abs", 2),
        ("hermite(3)", 3),
        ("hermite(12)", 12),
        (lambda x: x**4 - 6 * x**2, 4),
        (lambda x: jnp.abs(x) - jnp.sqrt(2 / jnp.pi) * x**2 / 2, 4),
    ],
)
def test_information_exponent_is_the_first_nonzero_coefficient(name, exponent):
    assert information_exponent(name) == exponent


def test_a_constant_has_no_information_exponent_and_says_so():
    with pytest.raises(ll.errors.InputError, match="constant"):
        information_exponent(lambda x: jnp.full_like(x, 2.0))
    with pytest.raises(ll.errors.InputError, match="Raise degree"):
        information_exponent("hermite(9)", degree=8)


def test_sample_complexity_classes():
    table = {1: (1, 0, "O(d)"), 2: (1, 1, "O(d log d)"), 3: (2, 0, "O(d^2)"), 5: (4, 0, "O(d^4)")}
    for exponent, (power, logs, words) in table.items():
        answer = sample_complexity_class(exponent)
        assert (answer.power, answer.logs) == (power, logs)
        assert words in str(answer)
    assert sample_complexity_class("square").exponent == 2
    with pytest.raises(ll.errors.InputError, match="exponent"):
        sample_complexity_class(0)


def test_bad_input_is_refused_in_words():
    with pytest.raises(ll.errors.InputError, match="degree"):
        hermite_coefficients("erf", -1)
    with pytest.raises(ll.errors.InputError, match="activation"):
        hermite_coefficients("no such thing", 3)
    with pytest.raises(ll.errors.ConvergenceError, match="exp"):
        hermite_coefficients(lambda x: jnp.exp(0.4 * x**2), 3)
