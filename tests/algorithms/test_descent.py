"""Descent on a fixed data set at finite size: rules, losses, simulation, success."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import descent
from independent import edges, linear_regression
from limitlab.algorithms.data import replica_key
from limitlab.algorithms.descent import curvature
from limitlab.algorithms.descent.line import start_line
from limitlab.algorithms.descent.network import run_network
from limitlab.algorithms.descent.step import Course
from limitlab.algorithms.settings.fixed_data import Descent
from limitlab.analysis.success import wilson
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.population import population_risk
from limitlab.spec import dumps, loads
from limitlab.states.request import second_times

# --- rules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ll.GradientDescent(0.0), "learning_rate must be"),
        (lambda: ll.StochasticGD(0.01, 0.0), "batch_fraction must be"),
        (lambda: ll.StochasticGD(0.01, 1.5), "batch_fraction must be"),
        (lambda: ll.StochasticGD(0.01, 0.5, scale=2), "scale must be one of"),
        (lambda: ll.PersistentSGD(0.01, 0.5, 0.0), "persistence_time must be"),
        (lambda: descent(ll.PersistentSGD(0.01, 0.5, 0.001)), "less than one step"),
        (lambda: descent(ll.PersistentSGD(0.1, 0.1, 0.2)), "leave the batch within one step"),
        (lambda: ll.Langevin(0.01, -1.0), "temperature must be"),
        (lambda: ll.GradientDescent(0.01, penalty=0.1), "spherical=True keeps fixed"),
        (lambda: ll.GradientDescent(0.01, spherical=False, penalty=-1.0), "penalty must be"),
        (lambda: ll.InformedStart(1.2), "overlap must be"),
        (lambda: ll.PhaseRetrievalLoss(0.0), "prefactor must be"),
        (lambda: ll.PhaseRetrievalLoss(labels="phase"), "labels must be one of"),
        (lambda: ll.SquaredHingeLoss(np.inf), "margin must be"),
    ],
)
def test_bad_parameters_are_refused_in_words(make, message):
    with pytest.raises(ll.errors.InputError, match=message):
        make()


def test_masks_have_the_stationary_law_and_the_correlation_of_the_sheet():
    eta, b, tau, n = 0.1, 0.3, 0.8, 200_000
    rule = ll.PersistentSGD(eta, b, tau)
    first = mask = rule.first_mask(jax.random.key(0), n)
    for lag in range(1, 6):
        mask = rule.next_mask(jax.random.key(lag), mask)
        both = b**2 + b * (1 - b) * (1 - eta / (b * tau)) ** lag
        for mean, value in ((b, jnp.mean(mask)), (both, jnp.mean(mask & first))):
            assert abs(float(value) - mean) < 4 * np.sqrt(mean * (1 - mean) / n)


def test_a_persistence_time_is_long_or_short_beside_the_step_of_the_students_width():
    """The step of m units is learning_rate/m: what one unit cannot have, two can."""
    rule = ll.PersistentSGD(1.1, 0.4, 1.3, spherical=False)
    parts = {"teacher": ll.Committee(2, "erf"), "sample_ratio": 2.0, "loss": ll.SquareLoss(), "algorithm": rule}
    with pytest.raises(ll.errors.InputError, match=r"\(1 - b\) learning_rate/b = 1.65 .* got 1.3"):
        ll.Problem(student=ll.Committee(1, "erf"), **parts)
    two = ll.Problem(student=ll.Committee(2, "erf"), start=ll.InformedStart(0.3), **parts)
    mask = rule.next_mask(jax.random.key(0), jnp.ones(200_000, bool), width=2)
    stay = 1 - 0.6 * 0.55 / (0.4 * 1.3)
    assert abs(float(jnp.mean(mask)) - stay) < 4 * np.sqrt(stay * (1 - stay) / 200_000)
    assert np.all(np.isfinite(ll.simulate(two, d=20, times=[1.1], replicas=2).M.values))
    with pytest.raises(ll.errors.InputError, match=r"at least learning_rate/m = 0.55.* got 0.5"):
        dataclasses.replace(two, algorithm=dataclasses.replace(rule, persistence_time=0.5))


def test_spec_tables_keep_the_new_fields():
    for rule in (
        ll.StochasticGD(0.1, 0.2, spherical=False, penalty=0.3, scale=1),
        ll.PersistentSGD(0.1, 0.2, 3.0, scale="1"),
        ll.Langevin(0.1, 0.2, spherical=False, penalty=0.1),
    ):
        assert loads(dumps(descent(rule))).algorithm == rule


# --- losses --------------------------------------------------------------------------------------------------

CHANNELS = {
    "phase retrieval": (ll.PhaseRetrievalLoss(0.7), ll.Modulus(variance=0.3)),
    "intensity": (ll.PhaseRetrievalLoss(0.7, labels="intensity"), ll.SquaredModulus(variance=0.3)),
    "amplitude": (ll.AmplitudeLoss(0.4), ll.Modulus(variance=0.3)),
    "squared hinge": (ll.SquaredHingeLoss(0.5), ll.Sign(flip=0.1)),
    "square": (ll.SquareLoss(), ll.GaussianNoise(variance=0.3)),
}


@pytest.mark.more_of("phase retrieval")
@pytest.mark.parametrize("name", CHANNELS)
def test_gradients_are_derivatives_of_the_loss(name):
    loss, channel = CHANNELS[name]
    z = jnp.asarray(np.random.default_rng(0).normal(size=50))
    y = channel.sample(jax.random.key(0), z + 0.3)
    first = jax.vmap(jax.grad(lambda y, z: jnp.sum(loss.value(y, z)), argnums=1))
    second = jax.vmap(jax.grad(lambda y, z: jnp.sum(loss.gradient(y, z)[0]), argnums=1))
    np.testing.assert_allclose(loss.gradient(y, z)[0], first(y, z), rtol=1e-12)
    np.testing.assert_allclose(loss.gradient(y, z)[1], second(y, z), rtol=1e-12)


@pytest.mark.parametrize("name", CHANNELS)
def test_population_risk_is_the_mean_over_new_samples(name):
    loss, channel = CHANNELS[name]
    m, q, rho, n = 0.4, 0.8, 1.3, 400_000
    z = np.random.default_rng(1).normal(size=(2, n)) * np.sqrt(rho)
    f = m / rho * z[0] + np.sqrt((q - m**2 / rho) / rho) * z[1]
    values = np.asarray(loss.value(channel.sample(jax.random.key(1), jnp.asarray(z[0])), jnp.asarray(f)))
    risk = population_risk(channel, loss, np.array([m, np.nan]), np.array([q, q]), rho)
    assert abs(values.mean() - risk[0]) < 4 * values.std() / np.sqrt(n)
    assert np.isnan(risk[1])


def test_phase_retrieval_on_the_sphere_has_risk_one_minus_m_squared():
    m = np.linspace(-1, 1, 7)
    risk = population_risk(ll.Modulus(), ll.PhaseRetrievalLoss(), m, np.ones(7), 1.0)
    np.testing.assert_allclose(risk, 1 - m**2, atol=1e-14)


def test_squared_hinge_has_the_right_proximal_point():
    loss, V = ll.SquaredHingeLoss(0.5), 0.8
    z = np.linspace(-8, 8, 16001)
    for y, w in ((1.0, -0.4), (-1.0, 0.7), (1.0, 1.7), (-1.0, 3.0)):
        cost = np.asarray(loss.value(y, z)) + (z - w) ** 2 / (2 * V)
        assert abs(float(loss.prox(y, jnp.asarray(w), jnp.asarray(V))) - z[np.argmin(cost)]) < 1.1e-3


def top_curvature(problem, **how):
    return curvature.top_curvature(Descent.of(problem, Asked("a test")), **how)


# --- simulation ----------------------------------------------------------------------------------------------

D = 60


def by_hand(problem, d, steps, seed=0):
    """m and the training loss of the first replica, by plain NumPy on the same data."""
    rule = problem.algorithm
    n = round(problem.sample_ratio * d)
    course = Course(*traced((rule, problem.loss)), None)
    data, run = start_line(Descent.of(problem, Asked("a test")), course, replica_key(seed, 0), n, d)
    X, y, w, star = (np.asarray(x) for x in (data.X, data.y, run.state.parameters, data.teacher))
    seen = []
    for _ in range(steps + 1):
        h = X @ w
        seen.append((w @ star / d, np.mean((h**2 - y**2) ** 2) / 4))
        w = (1 - rule.learning_rate * rule.penalty) * w - rule.learning_rate * X.T @ (h * (h**2 - y**2))
        w = w * np.sqrt(d / (w @ w)) if rule.spherical else w
    return np.array(seen).T


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(ll.GradientDescent(0.01), marks=pytest.mark.more),
        ll.GradientDescent(0.01, spherical=False, penalty=0.3),
    ],
)
def test_descent_is_the_step_written_by_hand(rule):
    problem = descent(rule)
    result = ll.simulate(problem, D, 0.01 * np.arange(21), replicas=2)
    m, loss = by_hand(problem, D, 20)
    np.testing.assert_allclose(result.m[:, 0], m, atol=1e-11)
    np.testing.assert_allclose(result.train_loss[:, 0], loss, atol=1e-11)


def test_an_informed_start_has_its_overlap_and_a_sphere_is_kept():
    result = ll.simulate(descent(ll.Langevin(0.01, 0.2), rho=2.0), D, [0, 0.1, 0.2], replicas=3)
    np.testing.assert_allclose(result.m[0], 0.5 * np.sqrt(2), atol=1e-12)
    np.testing.assert_allclose(result.q, 1, atol=1e-12)
    np.testing.assert_allclose(result.C, result.C.transpose("time_2", "replica", "time").values, atol=1e-12)
    np.testing.assert_allclose(
        result.risk[0], population_risk(ll.Modulus(), ll.PhaseRetrievalLoss(), *START), atol=1e-9
    )


START = (np.full(3, 0.5 * np.sqrt(2)), np.ones(3), 2.0)


def test_rules_contain_each_other():
    times = [0.05, 0.2]

    def m(rule, times=times, loss=None):
        return ll.simulate(descent(rule, loss=loss), D, times, replicas=2, seed=3).m.values

    plain, stochastic = m(ll.GradientDescent(0.01)), m(ll.StochasticGD(0.01, 0.5))
    np.testing.assert_array_equal(m(ll.PersistentSGD(0.01, 1.0, 0.7)), plain)
    np.testing.assert_allclose(m(ll.Langevin(0.01, 0.0)), plain, atol=1e-13)
    np.testing.assert_array_equal(m(ll.PersistentSGD(0.01, 0.5, 0.02)), stochastic)
    assert np.max(np.abs(m(ll.PersistentSGD(0.01, 0.5, 0.2)) - stochastic)) > 1e-3
    # the two conventions: scale 1 is scale 1/b at b times the rate, and a prefactor kappa is 4 kappa times the rate
    np.testing.assert_allclose(m(ll.StochasticGD(0.02, 0.5, scale=1), [0.1, 0.4]), stochastic, atol=1e-12)
    np.testing.assert_allclose(
        m(ll.GradientDescent(0.0025), [0.0125, 0.05], ll.PhaseRetrievalLoss(1.0)), plain, atol=1e-12
    )


def test_same_seed_same_numbers_whatever_replicas_and_times():
    problem = descent(ll.PersistentSGD(0.01, 0.5, 0.2))
    one = ll.simulate(problem, D, [0.1, 0.2], replicas=2, seed=5)
    two = ll.simulate(problem, D, [0.2, 0.3], replicas=3, seed=5)
    np.testing.assert_array_equal(one.m[1], two.m[0, :2])
    assert np.all(ll.simulate(problem, D, [0.2], replicas=2, seed=6).m[0] != one.m[1])


def test_linear_regression_has_its_closed_form():
    alpha, eta, m0, variance, steps = 2.0, 0.05, 0.2, 0.5, np.array([0, 5, 20, 60])
    problem = descent(
        ll.GradientDescent(eta, spherical=False),
        alpha,
        ll.InformedStart(m0),
        ll.SquareLoss(),
        ll.GaussianNoise(variance),
    )
    result = ll.simulate(problem, 200, eta * steps, replicas=24, seed=1)
    for values, exact in zip(
        (result.m, result.train_loss), linear_regression(steps, alpha, eta, m0, variance), strict=True
    ):
        error = values.std("replica", ddof=1).values / np.sqrt(24)
        assert np.all(np.abs(values.mean("replica").values - exact) <= 4 * error + 1e-12)
    np.testing.assert_allclose(
        result.risk, (1 + result.q - 2 * result.m + variance) / 2, rtol=5e-3
    )  # |w*|^2 = d exactly


def test_success_is_counted_at_every_step_and_a_rate_has_its_interval():
    problem = descent(ll.GradientDescent(0.02), 8.0, ll.RandomStart())
    result = ll.simulate(problem, D, [0.0, 10.0], replicas=10)
    rate = ll.success_rate(result)
    assert 0.5 < float(rate.success_rate) <= 1
    assert float(rate.success_rate_low) < float(rate.success_rate) <= float(rate.success_rate_high) + 1e-12
    found = result.success.values
    assert np.array_equal(np.isfinite(result.success_time), found)
    assert np.all(np.abs(result.m[-1, found]) > 0.99)
    assert np.all(result.success_time[found] < 10)
    early = ll.simulate(problem, D, [float(result.success_time[found][0])], replicas=int(np.argmax(found)) + 1)
    assert abs(float(early.m[0, -1])) > 0.99
    assert float(ll.success_rate(result, threshold=0.0).success_rate) == 1
    np.testing.assert_allclose(wilson(np.array(0.5), 10), (0.2366, 0.7634), atol=1e-4)
    assert wilson(np.array(0.0), 20)[1] > 0.1


@pytest.mark.more
def test_success_rates_of_a_sweep_and_files(tmp_path):
    problem = descent(ll.GradientDescent(0.02), start=ll.RandomStart())
    swept = ll.sweep(ll.simulate, problem, {"sample_ratio": [1.0, 8.0]}, d=40, times=[2.0], replicas=4)
    rate = ll.success_rate(swept)
    assert rate.success_rate.dims == ("sample_ratio",)
    assert float(rate.success_rate[0]) < float(rate.success_rate[1])
    ll.save(swept, tmp_path / "sweep.nc")
    assert ll.load(tmp_path / "sweep.nc").success.equals(swept.success)
    with pytest.raises(ll.errors.InputError, match="needs the variable 'success'"):
        ll.success_rate(swept.drop_vars("success"))


def test_a_step_above_the_stability_limit_warns_before_and_says_so_after():
    free = descent(ll.GradientDescent(0.5, spherical=False), 2.0, loss=ll.SquareLoss(), channel=ll.GaussianNoise())
    assert top_curvature(free) == pytest.approx(edges(2.0)[1], rel=0.1)
    with pytest.warns(ll.errors.AccuracyWarning, match="above the stability limit of about 0.3"):
        result = ll.simulate(free, D, [0.5, 5.0, 100.0], replicas=2)
    assert set(result.status.values) == {"diverged"}
    assert np.all(np.isfinite(result.m[0]))
    assert np.all(np.isnan(result.m[-1]))
    assert np.all((result.end_time > 0) & (result.end_time < 100))
    with pytest.warns(ll.errors.AccuracyWarning, match="steps overshoot"):
        on_sphere = ll.simulate(descent(ll.GradientDescent(0.5)), D, [0.0, 2.0], replicas=2)
    assert set(on_sphere.status.values) == {"diverged"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ll.simulate(descent(ll.GradientDescent(0.02)), D, [0.02])


def test_the_curvature_at_the_teacher_is_that_of_the_sheet():
    assert 30 < top_curvature(descent(ll.GradientDescent(0.01)), n=1500) < 40
    ratio = top_curvature(descent(ll.StochasticGD(0.01, 0.5))) / top_curvature(descent(ll.GradientDescent(0.01)))
    assert ratio == pytest.approx(2)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (descent(ll.GradientDescent(0.01), channel=ll.Sign()), r"labels \|z\|"),
        (descent(ll.GradientDescent(0.01), channel=ll.SquaredModulus()), 'labels="intensity"'),
        (descent(ll.GradientDescent(0.01), loss=ll.PhaseRetrievalLoss(labels="intensity")), "SquaredModulus"),
        (descent(ll.GradientDescent(0.01), loss=ll.SquareLoss()), "learns nothing"),
        (descent(ll.GradientDescent(0.01), loss=ll.LogisticLoss()), "labels -1 and"),
    ],
)
def test_the_limit_is_choosy_and_a_simulation_is_not(problem, message):
    """A linear output that makes no sense of its labels moves all the same: it runs as any network does."""
    with pytest.raises(ll.errors.LimitUndefinedError, match=message):
        ll.predict(problem, ll.DMFT(), [0.1])
    assert ll.limits(problem)["DMFT"] != "applies"
    assert problem.algorithm.setting(problem, Asked("a test", ll.errors.InputError)).run is run_network


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (descent(ll.GradientDescent(0.01), loss=ll.MaxMargin(), channel=ll.Sign()), "a loss with a gradient"),
        (descent(ll.GradientDescent(0.01), alpha=None), "sample_ratio"),
        (descent(ll.GradientDescent(0.01), start=ll.SpectralStart()), "RandomStart"),
    ],
)
def test_problems_that_do_not_fit_are_refused_in_words(problem, message):
    with pytest.raises(ll.errors.InputError, match=message):
        ll.simulate(problem, D, [0.1])
    with pytest.raises(ll.errors.LimitUndefinedError, match=message):
        ll.predict(problem, ll.DMFT(), [0.1])
    assert ll.limits(problem)["DMFT"] != "applies"


def test_the_theory_refuses_a_student_whose_second_layer_moves():
    student = ll.Committee(width=3, activation="square", second_layer="trained")
    problem = descent(ll.StochasticGD(0.01, 0.5), student=student)
    with pytest.raises(ll.errors.LimitUndefinedError, match="one direction"):
        ll.predict(problem, ll.DMFT(), [0.1])


def test_too_large_a_data_set_is_refused_kindly():
    with pytest.raises(ll.errors.InputError, match=r"needs about .* GiB.*matrix of inputs"):
        ll.simulate(descent(ll.GradientDescent(0.01)), 10**6, [0.1])
    with pytest.raises(ll.errors.InputError, match="d >= 2"):
        ll.simulate(descent(ll.GradientDescent(0.01)), 1, [0.1])


def test_the_grid_of_second_times_stays_small():
    assert np.array_equal(second_times(np.arange(20)), np.arange(20))
    thin = second_times(np.arange(1001))
    assert len(thin) == 51 and thin[0] == 0 and thin[-1] == 1000
