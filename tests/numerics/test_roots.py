"""Roots of one number, many at once: against SciPy, with derivatives, and with what must not work."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

from limitlab.numerics.roots import (
    bisect,
    bracketed_newton,
    crossing,
    illinois,
    implicit_root,
    newton,
    proximal_point,
)


def cubic(x):
    return x**3 + x - 5.0, 3 * x**2 + 1


ROOT = float(optimize.brentq(lambda x: cubic(x)[0], 0, 5, xtol=1e-15))  # type: ignore[arg-type]


def test_newton_falls_to_the_root_of_a_convex_function_from_above():
    np.testing.assert_allclose(newton(cubic, jnp.array([2.0, 5.0]), 12), ROOT, rtol=1e-15)
    assert abs(float(newton(cubic, jnp.asarray(5.0), 2)) - ROOT) > 1e-2  # two steps are not enough


def test_newton_in_a_bracket_survives_where_plain_newton_does_not():
    def steep(x):  # Newton's method oscillates without end from |x| > 1.4
        return jnp.arctan(x - 0.3), 1 / (1 + (x - 0.3) ** 2)

    assert not abs(float(newton(steep, jnp.asarray(5.0), 8)) - 0.3) < 1
    found = bracketed_newton(steep, jnp.array([-4.0, -1e8]), jnp.array([10.0, 1e3]))
    np.testing.assert_allclose(found, 0.3, rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
def test_newton_in_a_bracket_finds_roots_of_any_size(scale):
    def equation(x):
        return (x / scale) ** 3 + x / scale - 5.0, (3 * (x / scale) ** 2 + 1) / scale

    found = bracketed_newton(equation, jnp.asarray(0.0), jnp.asarray(1e15))
    np.testing.assert_allclose(found, ROOT * scale, rtol=1e-14)


def test_a_root_is_differentiable_in_what_it_depends_on():
    """x^3 + b x = c: dx/dc = 1/(3 x^2 + b), dx/db = -x/(3 x^2 + b)."""

    def root(b, c):
        def step(x, b, c):
            return x**3 + b * x - c, 3 * x**2 + b

        return implicit_root(lambda b, c: newton(lambda x: step(x, b, c), jnp.asarray(5.0), 12), step, b, c)

    x = ROOT
    np.testing.assert_allclose(root(1.0, 5.0), x, rtol=1e-15)
    slopes = jax.grad(root, (0, 1))(1.0, 5.0)
    np.testing.assert_allclose(slopes, [-x / (3 * x**2 + 1), 1 / (3 * x**2 + 1)], rtol=1e-12)
    bare = jax.grad(lambda c: jax.lax.stop_gradient(root(1.0, c)))(5.0)
    assert bare == 0.0  # without the last step nothing would be left of the derivative


@pytest.mark.parametrize("V", [1e-8, 1.0, 1e8])
def test_the_proximal_point_of_a_softplus_is_lamberts(V):
    """l = e^p: p + V e^p = s, p = s - W(V e^s)."""
    s = jnp.linspace(-20.0, 20.0, 41)
    p = proximal_point(lambda p: (jnp.exp(p), jnp.exp(p)), s, jnp.full_like(s, V))
    exact = np.asarray(s) - np.real(special.lambertw(V * np.exp(np.asarray(s))))
    np.testing.assert_allclose(p, exact, rtol=1e-11, atol=1e-12)
    slope = jax.grad(lambda s: proximal_point(lambda p: (jnp.exp(p), jnp.exp(p)), s, jnp.asarray(V)))(0.5)
    inner = float(np.real(special.lambertw(V * np.exp(0.5))))
    np.testing.assert_allclose(slope, 1 / (1 + inner), rtol=1e-10)


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_halving(kind):
    target = kind([0.1, 0.7, 2.0])
    low, high = bisect(lambda x: x**3 < target, kind(np.zeros(3)), kind(np.full(3, 4.0)), 50)
    assert isinstance(low, jax.Array) == (kind is jnp.asarray)
    np.testing.assert_allclose(low, np.cbrt(target), rtol=1e-13)
    np.testing.assert_allclose(high - low, 4 * 0.5**50, rtol=1e-2)
    wrong, _ = bisect(lambda x: x**3 > target, kind(np.zeros(3)), kind(np.full(3, 4.0)), 50)
    assert np.max(np.abs(wrong - np.cbrt(target))) > 0.1  # the sign matters


def test_bracketed_secants_find_many_roots_with_few_values():
    calls, target = [], np.array([0.3, 5.0, 400.0])

    def function(x):
        calls.append(x)
        return np.log(np.exp(x) + x) - np.log(target), np.exp(x)

    low, high = np.full(3, 0.01), np.full(3, 20.0)
    low[0] = -0.56
    x, seen = illinois(function, (low, high), (function(low)[0], function(high)[0]))
    exact = [optimize.brentq(lambda x, t=t: np.exp(x) + x - t, -0.567, 20.0, xtol=1e-15) for t in target]
    np.testing.assert_allclose(x, exact, rtol=1e-11)
    np.testing.assert_array_equal(seen, np.exp(x))  # what was computed at the root itself
    assert len(calls) < 30
    lazy, _ = illinois(function, (low, high), (function(low)[0], function(high)[0]), steps=2)
    assert np.max(np.abs(lazy - exact)) > 1e-3


def test_a_crossing_behind_which_there_is_nothing():
    """-infinity below 1, where there is no branch; then a function that crosses zero at sqrt 2."""
    x, off = crossing(lambda x: -np.inf if x < 1 else x**2 - 2, 0.0, 3.0, 7.0)
    np.testing.assert_allclose(x, np.sqrt(2), atol=1e-11)
    assert off < 1e-10
    x, off = crossing(lambda x: -np.inf if x < 1 else 1.0, 0.0, 3.0, 1.0)  # a jump is found too, and its error said
    assert abs(x - 1) < 1e-10 and 0 < off < 1e-10
    _, off = crossing(lambda x: x**2 - 2, 0.0, 3.0, 7.0, steps=3)
    assert off > 1e-2
