"""Normal numbers from pairs: the polynomials, the edges of the bits, the law, and laws that look like it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from limitlab.numerics import random
from limitlab.numerics.random import normal

COUNT = 400_000


def test_logarithm_and_sine_are_accurate_to_rounding():
    rng = np.random.default_rng(0)
    cells = 0.5**41 * (2 * np.arange(2000) + 1)
    u = np.concatenate([cells, 1 - cells, rng.random(20_000), 0.5 ** np.arange(1, 41)])
    np.testing.assert_allclose(random._log(jnp.asarray(u)), np.log(u), rtol=1e-15)
    x = np.concatenate([np.linspace(-0.5, 0.5, 20_001), [0.0, 0.25]])
    np.testing.assert_allclose(random._sine(jnp.asarray(x)), np.sin(np.pi * x), atol=1e-15)


def of_bits(bits: np.ndarray, monkeypatch) -> np.ndarray:
    """The numbers made of these random bits: first the sines, then the cosines."""
    with monkeypatch.context() as m:
        m.setattr(random.jax.random, "bits", lambda key, shape, dtype: jnp.asarray(bits, dtype))
        return np.asarray(random._normal.__wrapped__(jax.random.key(0), (2 * len(bits),), np.dtype(float)))


def test_extreme_bits_are_finite_and_cells_have_their_middles(monkeypatch):
    bits = np.array([0, 2**64 - 1, 2**24 - 1, (2**40 - 1) << 24], np.uint64)
    z = of_bits(bits, monkeypatch)
    u = 1 - (np.array([0, 2**40 - 1, 0, 2**40 - 1]) + 0.5) / 2.0**40
    v = -1 + (np.array([0, 2**24 - 1, 2**24 - 1, 0]) + 0.5) / 2.0**23
    radius = np.sqrt(-2 * np.log(u))
    expected = np.concatenate([radius * np.sin(np.pi * v), radius * np.cos(np.pi * v)])
    np.testing.assert_allclose(z, expected, rtol=1e-9, atol=1e-14)
    assert 7.5 < np.max(np.abs(z)) < 7.6


def test_even_bits_have_the_moments_of_the_law(monkeypatch):
    """Every angle of 2^6 with the middle of every cell of 2^14 radii: a rule of quadrature, without chance."""
    radii = (2 * np.arange(2**14, dtype=np.uint64) + np.uint64(1)) << np.uint64(49)
    angles = np.arange(2**6, dtype=np.uint64) << np.uint64(18)
    z = of_bits((radii[:, None] + angles).ravel(), monkeypatch)
    x, y = z[: len(z) // 2], z[len(z) // 2 :]
    moments = {"x": (x, 0), "x^2": (x**2, 1), "y^2": (y**2, 1), "xy": (x * y, 0), "x^2 y^2": (x**2 * y**2, 1)}
    moments |= {"x^3": (x**3, 0), "x^4": (x**4, 3), "y^4": (y**4, 3)}
    for name, (values, truth) in moments.items():
        assert np.mean(values) == pytest.approx(truth, abs=1e-3), name


def fits(z: np.ndarray) -> float:
    """The smallest p-value of a few tests, times their number: z standard normal, its halves independent."""
    a, b = np.split(z, 2)
    score = lambda x: 2 * stats.norm.sf(abs(np.mean(x)) / np.std(x) * np.sqrt(len(x)))  # noqa: E731
    least = [stats.kstest(z, "norm").pvalue, stats.kstest((a + b) / np.sqrt(2), "norm").pvalue]
    least += [score(a * b), score((a**2 - 1) * (b**2 - 1)), score(z[1:] * z[:-1]), score(z**4 - 3)]
    return min(least) * len(least)


def test_numbers_are_normal_and_independent():
    assert fits(np.asarray(normal(jax.random.key(1), (COUNT,)))) > 1e-3


@pytest.mark.parametrize("wrong", ["one radius", "same angle", "no square root", "half the circle", "twelve uniforms"])
def test_negative_control_other_laws_are_rejected(wrong):
    rng = np.random.default_rng(0)
    u, v = rng.random((2, COUNT // 2))
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    pairs = {
        "one radius": (np.sqrt(2) * np.sin(angle), np.sqrt(2) * np.cos(angle)),
        "same angle": (radius * np.sin(angle), radius * np.sin(angle)),
        "no square root": (-np.log(u) * np.sin(angle), -np.log(u) * np.cos(angle)),
        "half the circle": (radius * np.sin(angle / 2), radius * np.cos(angle / 2)),
        "twelve uniforms": np.split(rng.random((12, COUNT)).sum(0) - 6, 2),
    }
    assert fits(np.concatenate(pairs[wrong])) < 1e-6


def test_shapes_types_and_lanes():
    keys = jax.random.split(jax.random.key(3), 4)
    lanes = jax.vmap(lambda key: normal(key, (3, 5)))(keys)
    for key, lane in zip(keys, lanes, strict=True):
        np.testing.assert_array_equal(lane, normal(key, (15,)).reshape(3, 5))
    for shape in ((), (1,), (0,), (2, 0)):
        assert normal(keys[0], shape).shape == shape
    single = normal(keys[0], (3, 5), jnp.float32)
    assert single.dtype == jnp.float32
    np.testing.assert_array_equal(single, lanes[0].astype(jnp.float32))
