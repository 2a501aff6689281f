"""Mean-field clouds on labelled inputs: gradients by hand, closed against samples, the radial flow, SGD, the edges."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import limitlab as ll
from cases import MMN, labelled, mixture
from limitlab.macro.mixtures.closed import _field, closed_pull, closed_risk
from limitlab.macro.mixtures.clouds import Plan, _kicked_steps, _make_flow, drift
from limitlab.macro.mixtures.samples import sample_field, sample_pull
from limitlab.macro.mixtures.start import Units, draw_clouds
from limitlab.numerics.gauss.orthant import orthant
from limitlab.problems.activations import activation

D = 20
PULL = jax.jit(closed_pull)
TIMES = np.array([0.0, 0.1, 0.4])
ANISOTROPIC = np.array([[1.5**2, 1.0], [0.5**2, 1.0]])


@pytest.mark.parametrize("rho", [pytest.param(0.0, marks=pytest.mark.more), 0.3, -0.8, 0.95, -0.999, 0.9999])
def test_orthant_probabilities(rho):
    """Against a one-dimensional integral; at correlation 1 the larger threshold decides."""
    rng = np.random.default_rng(0)
    h, k = rng.normal(size=8), rng.normal(size=8)
    bar = np.sqrt(1 - rho**2)

    def probability(h, k):
        inside = lambda x: stats.norm.pdf(x) * stats.norm.cdf((rho * x - k) / bar)  # noqa: E731
        steep = np.clip(k / rho if rho else h, h, 9.0)
        edges = np.sort(np.clip([h, steep - 8 * bar, steep, steep + 8 * bar, 9.0], h, 9.0))
        return sum(quad(inside, *edge, epsabs=1e-12)[0] for edge in pairwise(edges))

    exact = [probability(*pair) for pair in zip(h, k, strict=True)]
    np.testing.assert_allclose(orthant(jnp.asarray(h), jnp.asarray(k), jnp.asarray(rho)), exact, atol=1e-10)
    same = orthant(jnp.asarray(h), jnp.asarray(k), jnp.asarray(1.0))
    np.testing.assert_allclose(same, stats.norm.cdf(-np.maximum(h, k)), atol=1e-15)
    np.testing.assert_allclose(orthant(jnp.asarray(h), jnp.asarray(-h), jnp.asarray(-1.0)), 0.0, atol=1e-15)


def energy(name, cloud):
    """1/2 E(y - f)^2 over two dimensions in polar coordinates, radii split at every kink: for automatic derivatives."""
    level, tilt, places, bends = map(np.asarray, activation(name).pieces())
    nodes, weights = np.polynomial.legendre.leggauss(24)
    a, b, theta = cloud
    n = len(a)

    def ray(angle, y, variance):
        speed = theta @ (jnp.sqrt(variance) * jnp.array([jnp.cos(angle), jnp.sin(angle)]))
        kinks = jnp.clip(((places[:, None] - b) / speed).ravel(), 0.0, 9.0)
        edges = jnp.sort(jnp.concatenate([kinks, jnp.array([0.0, 2.0, 4.0, 6.0, 9.0])]))
        gap = jnp.diff(edges)[:, None]
        r = (edges[:-1, None] + gap * (1 + nodes) / 2).ravel()
        u = speed[:, None] * r + b[:, None]
        value = level + tilt * u + sum(g * jnp.maximum(u - t, 0.0) for g, t in zip(bends, places, strict=True))
        return jnp.sum((gap * weights / 2).ravel() * r * jnp.exp(-(r**2) / 2) * (y - a @ value / n) ** 2)

    angles = 2 * np.pi * (np.arange(3000) + 0.5) / 3000
    per_class = [
        jnp.mean(jax.vmap(lambda angle, y=y, v=v: ray(angle, y, v))(jnp.asarray(angles)))
        for y, v in zip((1.0, -1.0), ANISOTROPIC, strict=True)
    ]
    return sum(per_class) / 4


@pytest.mark.parametrize("name", [pytest.param(MMN, marks=pytest.mark.more), "shifted(abs, 0.3)"])
def test_closed_gradients_are_automatic_derivatives(name):
    """Units 0 and 1 see each other only: twice the energy of both is what the flow descends, without own terms."""
    rng = np.random.default_rng(0)
    a, b, theta = rng.normal(size=2), 0.3 * rng.normal(size=2), rng.normal(size=(2, 2))
    pair = Units(*map(jnp.asarray, (a, b, theta)))

    def meeting(cloud):  # E y^2/2 + mean V + U_01/2: the energy without its diagonal
        a = cloud.a * jnp.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])  # both, and each alone
        both, one, two = jax.vmap(lambda a: energy(name, cloud._replace(a=a)))(a)
        return 2 * both - (one + two) / 2

    slope = jax.jit(jax.grad(meeting))(pair)
    field = _field(activation(name), jnp.asarray(ANISOTROPIC), False, True, True)
    pull = PULL(field, jax.tree.map(lambda x: x[None], pair))
    for x, y in zip(pull, slope, strict=True):
        np.testing.assert_allclose(x[0], -2 * y, atol=1e-8)
    halves = jax.tree.map(lambda x: x[:, None, None], pair)
    np.testing.assert_allclose(jax.jit(closed_risk)(field, halves), jax.jit(meeting)(pair), atol=1e-9)


@pytest.mark.more
def test_mirrored_units_stand_for_two():
    problem = mixture(student={"second_layer": "trained", "bias": "trained"}, start={"bias_scale": 0.4})
    one, two = (jax.tree.map(lambda x: x[0], draw_clouds(labelled(problem), 4, 5, images, seed=1)) for images in (1, 2))
    variances = jnp.asarray(np.outer([1.5**2, 0.25], np.ones(4)))
    folded, full = (_field(activation(MMN), variances, mirrored, True, True) for mirrored in (True, False))
    for x, y in zip(PULL(folded, one), PULL(full, two), strict=True):
        np.testing.assert_allclose(x[0], y[0], atol=1e-12)


@pytest.mark.parametrize(
    "inputs",
    [
        ll.IsotropicMixture(0.5),
        pytest.param(ll.AnisotropicMixture(delta=0.6, fraction=0.5), marks=pytest.mark.more),
    ],
)
def test_samples_give_the_closed_gradient(inputs):
    """Within the scatter over sample sets; a clock wrong by two is noticed."""
    problem = mixture(inputs=inputs, student={"second_layer": "trained", "bias": "trained"}, start={"bias_scale": 0.3})
    setting = labelled(problem)
    clouds = draw_clouds(setting, 4, 6, 2, seed=0)
    cloud = jax.tree.map(lambda x: x[0], clouds)
    flow, _ = _make_flow(setting, Plan(4, 24, "closed", 1, None, 0.1, 0), inputs.widths(), 2)
    exact = PULL(jax.tree.map(lambda x: x[0], flow.fields), cloud)
    pull = jax.jit(sample_pull)
    keys = jax.random.split(jax.random.key(0), 12)
    drawn = [pull(sample_field(setting, 4, 8192, key), cloud) for key in keys]
    for parts in zip(exact, *drawn, strict=True):
        x, seen = np.asarray(parts[0]), np.stack(parts[1:])
        error = seen.std(axis=0, ddof=1) / np.sqrt(12) + 1e-12
        score = stats.norm.ppf(stats.t.cdf((seen.mean(axis=0) - x) / error, 11))
        assert np.max(np.abs(score)) < 4.5
        assert np.max(np.abs(seen.mean(axis=0) - 2 * x) / error) > 20


@pytest.fixture(scope="module")
def cloud():
    """80 units without noise."""
    return ll.predict(mixture(), ll.MeanField(d=D, particles=80, seed=0), TIMES)


@pytest.mark.more
def test_risk_falls_and_is_labelled(cloud):
    run = cloud
    assert np.all(np.diff(run.risk) < 0) and run.status == "ok" and run.end_time == TIMES[-1]
    assert run.attrs["gradients"] == "closed" and run.attrs["particles"] == 80 and "halves" in run.attrs["risk_from"]
    np.testing.assert_allclose(run.weight.sum(), 1.0)


@pytest.mark.more
def test_schedule_is_a_change_of_clock(cloud):
    schedule = ll.PowerSchedule(exponent=0.25, onset=0.0)
    times = (0.75 * TIMES) ** (4 / 3)  # the clock at these is TIMES
    slowed = mixture(learning_rate=0.1, schedule=schedule)
    run = ll.predict(slowed, ll.MeanField(d=D, particles=80, seed=0), times)
    np.testing.assert_allclose(run.risk, cloud.risk, rtol=1e-9)


@pytest.mark.more
def test_noise_is_that_of_a_brownian_motion():
    """One Euler step: the drift, and kicks of variance 2 T h on what is trained."""
    problem = mixture(temperature=0.2, start={"second_layer": "rademacher"})
    setting = labelled(problem)
    clouds = draw_clouds(setting, D, 100, 2, seed=0)
    flow, _ = _make_flow(setting, Plan(D, 400, "samples", 512, None, 0.01, 0), None, 2)
    after = _kicked_steps(flow, clouds, jnp.asarray(0.01), jnp.asarray(0), jnp.asarray(1), jax.random.key(1))
    kick = np.asarray(after.theta - clouds.theta - 0.01 * drift(clouds, flow).theta).ravel() / np.sqrt(2 * 0.2 * 0.01)
    assert stats.kstest(kick, "norm").pvalue > 1e-4
    np.testing.assert_array_equal(after.a, clouds.a)
    np.testing.assert_array_equal(after.b, clouds.b)
    twice = [
        ll.predict(problem, ll.MeanField(d=D, particles=16, gradients="samples", samples=512, seed=1), [0.0, 0.02])
        for _ in range(2)
    ]
    np.testing.assert_array_equal(twice[0].risk, twice[1].risk)
    assert twice[0].attrs["step"] == 0.01 and twice[0].attrs["steps"] == 2


@pytest.mark.more
def test_any_sampler_and_any_activation():
    inputs = ll.CustomInputs(lambda key, count, d: ll.AnisotropicMixture(0.6, 0.5).draw(key, count, d))
    problem = mixture(inputs=inputs, activation="tanh", weight_decay=0.5)
    run = ll.predict(problem, ll.MeanField(d=4, particles=16, samples=1024), [0.0, 0.5])
    assert run.attrs["gradients"] == "samples" and run.status == "ok" and "alignment" not in run
    named = mixture(inputs=ll.AnisotropicMixture(0.6, 0.5), activation="tanh", weight_decay=0.5)
    other = ll.predict(named, ll.MeanField(d=4, particles=16, samples=1024), [0.0, 0.5])
    assert abs(float(run.risk[0] - other.risk[0])) < 0.1 and other.r.dims == ("time", "particle", "block")
    assert float(run.r[1].mean()) < float(run.r[0].mean())


def test_bad_input_is_refused_in_words():
    problem = mixture()
    assert "RadialFlow()" in ll.limits(problem)["MeanField"]
    custom = mixture(inputs=ll.CustomInputs(lambda key, count, d: (jnp.ones((count, 2)), jnp.ones(count))))
    assert "RadialFlow" not in ll.limits(custom)["MeanField"]
    with pytest.raises(ll.errors.InputError, match=r"shape \(16, 20\)"):
        ll.predict(custom, ll.MeanField(d=D), [0.1])
    with pytest.raises(ll.errors.LimitUndefinedError, match='gradients="samples"'):
        ll.predict(mixture(activation="tanh"), ll.MeanField(d=D, gradients="closed"), [0.1])
    with pytest.raises(ll.errors.InputError, match="at least 8"):
        ll.predict(problem, ll.MeanField(d=D, particles=4), [0.1])
    for wrong in ({"gradients": "exact"}, {"samples": 0}, {"step": 0.0}, {"rtol": 1.0}):
        with pytest.raises(ll.errors.InputError):
            ll.MeanField(d=D, **wrong)
