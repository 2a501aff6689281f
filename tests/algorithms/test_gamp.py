"""Message passing at finite size: exact fixed points, the trajectory of state evolution, starts, and the edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import messages as problem
from independent import sign_evolution
from limitlab.algorithms.data import draw_set
from limitlab.algorithms.gamp import trajectories
from limitlab.algorithms.gamp.iteration import Model, begin, converge, gather, iterate
from limitlab.algorithms.gamp.starts import start_from
from limitlab.algorithms.gamp.trajectories import label_errors
from limitlab.numerics.linalg import leading_vector
from limitlab.numerics.trees import traced
from limitlab.problems.starts import SpectralStart
from limitlab.problems.starts.base import Evidence
from limitlab.problems.starts.spectral import spectral_weights
from limitlab.results.schema import validate

D, ITERATIONS = 1000, 12


def run_gamp(problem, d, replicas, seed, progress):
    return ll.simulate(problem, d, replicas=replicas, seed=seed, progress=progress)


def drawn(prior, channel, n, d, seed=0, dtype=float):
    data = draw_set(ll.Gaussian(), ll.SingleIndex(prior), channel, jax.random.key(seed), n, d, jnp.dtype(dtype))
    return data, Model(*traced((prior, channel)))


# --- state evolution, written again here with scipy ------------------------------------------------------


# --- exact statements about fixed points -----------------------------------------------------------------


@pytest.mark.parametrize("variances", ["scalar", "vector"])
def test_linear_fixed_point_is_ridge_for_any_inputs(variances):
    """g = (y - Xa)/Delta and a = rho X^T g at a fixed point, whatever the variances are."""
    rng = np.random.default_rng(0)
    rule = ll.GAMP(variances=variances, damping=0.2, iterations=2000, tolerance=1e-12)
    for mixing in (0.0, 0.02):
        X = rng.normal(size=(450, 300)) @ (np.eye(300) + mixing * rng.normal(size=(300, 300))) / np.sqrt(300)
        y = X @ rng.normal(size=300) + 0.5 * rng.normal(size=450)
        fit = rule.fit(X, y, prior=ll.GaussianPrior(variance=1.5), channel=ll.GaussianNoise(variance=0.25))
        precision = X.T @ X + 0.25 / 1.5 * np.eye(300)
        assert fit.status_ == "ok"
        assert np.max(np.abs(fit.coef_ - np.linalg.solve(precision, X.T @ y))) < 1e-9
        if mixing == 0:  # the variances are right for large independent inputs only
            assert abs(fit.coef_variance_.mean() / (0.25 * np.diag(np.linalg.inv(precision)).mean()) - 1) < 0.02


@pytest.fixture(scope="module")
def fixed_points():
    """The same data by scalar, vector, single-precision and damped iterations."""
    data, model = drawn(ll.GaussianPrior(), ll.Sign(variance=0.1), 2 * D, D)
    single = data.X.astype(jnp.float32)
    ways = {
        "scalar": (gather(data.X, data.y, "scalar"), 0.0, 1e-6),
        "vector": (gather(data.X, data.y, "vector"), 0.0, 1e-9),
        "single": (gather(single, data.y, "scalar"), 0.0, 1e-6),
        "damped": (gather(data.X, data.y, "vector"), 0.5, 1e-9),
    }
    runs = {}
    for name, (arrays, damping, tolerance) in ways.items():
        numbers = (jnp.asarray(damping), jnp.asarray(tolerance), jnp.asarray(500))
        runs[name] = converge(model, arrays, begin(jnp.zeros(D), jnp.ones(D), 2 * D), *numbers)
        assert bool(runs[name].converged(tolerance)), name
    return data.teacher, runs


def test_scalar_and_vector_variances_agree_at_large_size(fixed_points):
    teacher, runs = fixed_points
    assert abs(float((runs["scalar"].state.a - runs["vector"].state.a) @ teacher / D)) < 1e-3


def test_single_precision_agrees_with_double(fixed_points):
    _, runs = fixed_points
    assert np.max(np.abs(runs["scalar"].state.a - runs["single"].state.a)) < 1e-4
    single = run_gamp(problem(ll.GaussianPrior(), ll.Sign(), 2.0, precision="float32"), D, 4, 0, None)
    assert np.max(np.abs(single["m"].mean("replica").values - sign_evolution(2.0, ITERATIONS))) < 0.05


def test_damping_keeps_the_fixed_point(fixed_points):
    _, runs = fixed_points
    assert np.max(np.abs(runs["vector"].state.a - runs["damped"].state.a)) < 1e-7
    assert int(runs["damped"].steps) > int(runs["vector"].steps)


# --- noiseless channels end well -------------------------------------------------------------------------


@pytest.mark.more
def test_binary_weights_stay_found():
    """Once no label is uncertain A is 0; the run must rest there, not fall back to the prior mean."""
    run = run_gamp(problem(ll.RademacherPrior(), ll.Sign(), 2.2, iterations=60), D, 8, 0, None)
    assert np.all(run["mse"].values[-1] < 1e-6)
    assert run.attrs["converged"] == [1] * 8


@pytest.mark.more
def test_a_confident_start_of_a_noisy_problem_still_moves():
    """V = 0 at the start is a belief; the labels are noisy and take it back."""
    noise, alpha = 0.5, 2.0
    run = run_gamp(
        problem(ll.GaussianPrior(), ll.GaussianNoise(variance=noise), alpha, start=ll.InformedStart(1.0)), D, 2, 0, None
    )
    V = (1 - alpha - noise + np.sqrt((1 - alpha - noise) ** 2 + 4 * noise)) / 2
    assert abs(run["V"].values[-1].mean() - V) < 0.01
    assert run["m"].values[0] == pytest.approx(1.0)


# --- starts ----------------------------------------------------------------------------------------------


def test_lanczos_finds_the_leading_eigenvector():
    data, model = drawn(ll.GaussianPrior(), ll.Modulus(), 600, 300)
    arrays = gather(data.X, data.y, "scalar", scale=1.0)
    T = np.asarray(spectral_weights(Evidence(*model, *arrays)))
    assert np.allclose(T, np.maximum(1 - 1 / np.asarray(data.y) ** 2, -20))
    exact = np.linalg.eigh(np.asarray(data.X).T @ (T[:, None] * np.asarray(data.X)))[1][:, -1]
    found = leading_vector(data.X, jnp.asarray(T), jax.random.normal(jax.random.key(1), (300,)))
    assert abs(float(found @ exact)) > 1 - 1e-6
    # a space of dimension below the number of steps, all eigenvalues negative
    small = leading_vector(jnp.eye(3), jnp.array([-3.0, -1.0, -2.0]), jnp.ones(3))
    assert np.allclose(np.abs(small), [0, 1, 0], atol=1e-8)


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(SpectralStart(), marks=pytest.mark.more),
        pytest.param(ll.RandomStart(0.01), marks=pytest.mark.more),
        ll.RandomStart(0.01, sphere=True),
    ],
)
def test_phase_retrieval_succeeds_up_to_a_sign(start):
    run = run_gamp(problem(ll.GaussianPrior(), ll.Modulus(), 2.0, start=start, iterations=100), 500, 4, 0, None)
    assert np.all(run["mse"].values[-1] < 1e-6)
    assert np.all(run["m"].values[-1] > 0.999)
    assert np.all(run["generalisation_error"].values[-1] < 1e-6)
    if isinstance(start, SpectralStart):
        cosine = run["m"].values[0] / np.sqrt(run["q"].values[0])
        assert np.all(cosine > 0.5)


def test_informed_start_is_on_the_nishimori_line():
    data, model = drawn(ll.GaussianPrior(variance=2.0), ll.Modulus(), 1500, D)
    arrays = gather(data.X, data.y, "scalar")
    a, v = start_from(model, arrays, ll.InformedStart(0.3), jax.random.key(5), data.teacher)
    assert abs(float(a @ data.teacher / D) - 0.6) < 4 * np.sqrt(2.0 * 0.42 / D)
    assert abs(float(a @ a / D) - 0.6) < 0.15
    assert np.allclose(v, 1.4)


# --- error on new labels ---------------------------------------------------------------------------------

CHANNELS = [
    ll.Sign(variance=0.2, flip=0.1),
    ll.Logistic(),
    ll.Door(width=0.7),
    ll.GaussianNoise(variance=0.3),
    ll.Modulus(),
    ll.SquaredModulus(variance=0.1),
    ll.Rectified(variance=0.1),
]


@pytest.mark.more_of("Rectified", "Sign", "Logistic", "Door")
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: type(c).__name__)
def test_label_error_off_the_nishimori_line(channel):
    m, q, V, rho, n = 0.6, 0.9, 0.3, 1.2, 10_000 if isinstance(channel, ll.Logistic) else 100_000
    keys = jax.random.split(jax.random.key(3), 3)
    w = jnp.sqrt(q) * jax.random.normal(keys[0], (n,))
    z = m / q * w + jnp.sqrt(rho - m**2 / q) * jax.random.normal(keys[1], (n,))
    y, mean = channel.sample(keys[2], z), jax.jit(channel.mean_label)(w, jnp.asarray(V))
    cost = np.asarray(jnp.sign(mean) != y if channel.labels == "binary" else jnp.square(y - mean), float)
    error = float(label_errors(channel, *(np.array([x]) for x in (m, q, V, rho)))[0])
    assert abs(cost.mean() - error) < 4 * cost.std() / np.sqrt(n)
    same = float(
        jax.jit(channel.prediction_error)(*(jnp.asarray(x) for x in (rho, m, q, V)))
    )  # by nodes over (omega, y)
    assert abs(error - same) < 1e-8


def test_label_error_of_a_sign_is_an_angle():
    m, q, rho = np.array([0.0, 0.3, 0.999]), np.array([0.5, 0.4, 0.9985]), np.array([1.0, 1.0, 1.0])
    error = label_errors(ll.Sign(variance=0.2, flip=0.1), m, q, 0.3 * rho, rho)
    assert np.allclose(error, 0.1 + 0.8 * np.arccos(m / np.sqrt(q * 1.2)) / np.pi, rtol=0, atol=1e-8)
    assert np.allclose(label_errors(ll.Sign(), np.zeros(1), np.zeros(1), np.ones(1), np.ones(1)), 0.5)


# --- contract --------------------------------------------------------------------------------------------


def test_same_seed_same_numbers_whatever_the_number_of_replicas():
    p = problem(ll.GaussianPrior(), ll.Sign(), 1.5)
    few, many, other = (run_gamp(p, 60, r, s, None) for r, s in ((2, 7), (5, 7), (2, 8)))
    validate(few)
    assert np.array_equal(few["m"].values, many["m"].values[:, :2])
    assert not np.allclose(few["m"].values, other["m"].values)
    assert (few.attrs["d"], few.attrs["n"], few.attrs["seed"]) == (60, 90, 7)
    assert few["iteration"].values.tolist() == list(range(ITERATIONS + 1))


@pytest.mark.more
def test_one_compilation_serves_all_noise_levels(monkeypatch):
    traces = []
    monkeypatch.setattr(trajectories, "draw_set", lambda *args: traces.append(1) or draw_set(*args))
    for noise in (0.1, 0.2, 0.3):
        run_gamp(
            problem(ll.GaussianPrior(variance=1 + noise), ll.Sign(variance=noise), 1.5, damping=noise), 61, 2, 0, None
        )
    assert len(traces) == 1


@pytest.mark.more
def test_progress_and_hypercube_inputs():
    seen = []
    p = ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SingleIndex(prior=ll.GaussianPrior()),
        channel=ll.Sign(),
        sample_ratio=2.0,
        algorithm=ll.GAMP(iterations=ITERATIONS),
    )
    run = run_gamp(p, 500, 4, 0, lambda done, total, label: seen.append((done, total)))
    assert seen[-1] == (4, 4)
    assert np.max(np.abs(run["m"].mean("replica").values - sign_evolution(2.0, ITERATIONS))) < 0.06


def test_divergence_is_a_status_with_the_numbers_up_to_then():
    run = run_gamp(problem(ll.GaussianPrior(), ll.Sign(), 1.0, start=ll.RandomStart(1e60)), 60, 2, 0, None)
    assert run["status"].values.tolist() == ["diverged", "diverged"]
    assert np.all(np.isfinite(run["m"].values[0])) and np.all(np.isnan(run["m"].values[1:]))
    assert np.all(run["end_time"].values == 0)
    assert run.attrs["converged"] == [0, 0]


def test_a_run_that_ends_in_a_burst_has_diverged_and_keeps_its_sign():
    """|z| at d = 200: a run at m = 1 blew up in its last iteration, which also decided its sign; its status was ok."""
    rule = ll.GAMP(iterations=30)
    p = ll.Problem(
        teacher=ll.SingleIndex(G), channel=ll.Modulus(), sample_ratio=1.5, start=ll.InformedStart(0.1), algorithm=rule
    )
    run = run_gamp(p, 200, 64, 0, None)  # one run in forty does
    m, q, V, mse = (run[name].values for name in ("m", "q", "V", "mse"))
    bad, end = run["status"].values == "diverged", run["end_time"].values.astype(int)
    assert np.any(bad) and np.all(end[bad] < 30) and np.all(end[~bad] == 30)
    size = (q + V)[end, np.arange(64)]
    assert np.all(size < trajectories.SANE * 1.3)  # kept states are sound, 1.3 being room for the teacher's own |w|^2/d
    for r in range(64):
        assert np.all(np.isfinite(m[: end[r] + 1, r])) and np.all(np.isnan(mse[end[r] + 1 :, r]))
        cosine = m[: end[r] + 1, r] / np.sqrt(q[: end[r] + 1, r])
        assert cosine[np.argmax(np.abs(cosine))] > 0
    assert not np.any(np.asarray(run.attrs["converged"])[bad])


def test_where_a_run_ends_and_which_sign_it_has():
    size = np.array([[1.0, 1.0, 9.0], [2.0, 5.0, 20.0], [70.0, 1.2, 35.0], [66.0, 1.1, 30.0]])
    # a burst to the end; a burst that is over; a start far off, from which 30 is no burst
    assert trajectories._last_sound(size, np.ones((4, 3)), [3, 3, 3]).tolist() == [1, 3, 3]
    assert trajectories._last_sound(size, np.ones((4, 3)), [2, 1, 3]).tolist() == [1, 0, 3]
    m = np.array([[0.1, 0.0], [-0.9, 0.3], [1.0, np.nan]])
    q = np.array([[1.0, 0.0], [1.0, 0.5], [60.0, np.nan]])
    assert trajectories._mirrored(m, q).tolist() == [True, False]


def test_a_diverging_run_keeps_its_last_finite_state():
    data, model = drawn(ll.GaussianPrior(), ll.Sign(), 300, 100)
    arrays = gather(data.X + 0.1, data.y, "vector")  # a mean: the sharpest way to break message passing
    run = begin(jnp.zeros(100), jnp.ones(100), 300)
    end, path = jax.jit(lambda: iterate(model, arrays, run, 0.0, 50, 60, lambda s: jnp.mean(s.a)))()
    assert bool(end.diverged)
    assert 0 < int(end.steps) < 50
    assert np.all(np.isfinite(end.state.a)) and float(jnp.mean(end.state.a)) == float(path[int(end.steps)])
    assert np.all(np.isnan(path[int(end.steps) + 1 : 51]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("damping", 1.0),
        ("damping", -0.1),
        ("iterations", 0),
        ("iterations", 2.5),
        ("tolerance", -1e-3),
        ("variances", "matrix"),
        ("precision", "float16"),
    ],
)
def test_bad_rules_are_refused(field, value):
    with pytest.raises(ll.errors.InputError, match=f"GAMP.{field}"):
        ll.GAMP(**{field: value})


G = ll.GaussianPrior()
BAD_PROBLEMS = {
    "even channel": (problem(G, ll.Modulus(), 1.5), "SpectralStart"),
    "spectral sign": (problem(G, ll.Sign(), 1.5, start=SpectralStart()), "sign of z"),
    "negative overlap": (problem(G, ll.Sign(), 1.5, start=ll.InformedStart(-0.5)), r"\[0, 1\]"),
    "no data set": (problem(G, ll.Sign(), None), "sample_ratio"),
    "committee": (
        ll.Problem(teacher=ll.Committee(width=2), channel=ll.Sign(), sample_ratio=1.0, algorithm=ll.GAMP()),
        "SingleIndex",
    ),
    "no sample": (problem(G, ll.Sign(), 0.001), "at least one sample"),
    "overlaps": (problem(G, ll.Sign(), 1.0, start=ll.OverlapStart(Q=1.0, M=0.0, P=1.0)), "can start from"),
}


@pytest.mark.parametrize("case", BAD_PROBLEMS)
def test_bad_problems_are_refused(case):
    bad, match = BAD_PROBLEMS[case]
    with pytest.raises(ll.errors.InputError, match=match):
        run_gamp(bad, 50, 1, 0, None)


def test_more_memory_than_the_machine_has_is_refused():
    with pytest.raises(ll.errors.InputError, match="GiB"):
        run_gamp(problem(G, ll.Sign(), 2.0), 10**7, 1, 0, None)
