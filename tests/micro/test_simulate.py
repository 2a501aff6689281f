"""One-pass SGD at finite size: the exact mean of a step, two representations with one law, and the edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import limitlab as ll
from cases import committee
from limitlab.numerics.random import chi_square, wishart
from limitlab.states.overlaps import initial_overlaps

LAW_CASES = {
    "erf, trained": dict(student="erf", teacher="erf", p=2, k=1, trained=True, learning_rate=1.5, variance=0.2),
    "relu, batches": dict(student="relu", teacher="erf", p=2, k=1, batch_size=3, learning_rate=1.0),
    "square, sphere": dict(student="square", teacher="square", p=2, k=1, spherical=True, learning_rate=0.2),
    "as many fields as dimensions": dict(student="erf", teacher="relu", p=2, k=2, learning_rate=1.0, d=4),
    "more fields than dimensions": dict(student="erf", teacher="erf", p=3, k=2, learning_rate=1.0, d=3, random=True),
    "rank-deficient start": dict(
        student="erf",
        teacher="erf",
        p=3,
        k=1,
        learning_rate=1.0,
        start=ll.OverlapStart(Q=np.full((3, 3), 0.5), M=np.full((3, 1), 0.2), P=1.0),
    ),
}


def scalars(data):
    """Scalar summaries of the last macrostate, one row per replica."""
    last = data.isel(time=-1)
    Q, M = last.Q.values, last.M.values
    return {
        "risk": last.risk.values,
        "Q00": Q[:, 0, 0],
        "Q01": Q[:, 0, 1],
        "M00": M[:, 0, 0],
        "a0": last.a.values[:, 0],
        "trace Q^2": np.einsum("rij,rji->r", Q, Q),
        "|M|^2": np.sum(M**2, axis=(1, 2)),
    }


@pytest.mark.more_of(
    "rank-deficient start",
    "as many fields as dimensions",
    "relu, batches",
    "erf, trained",
    "more fields than dimensions",
)
@pytest.mark.parametrize("name", LAW_CASES)
def test_overlaps_have_the_law_of_the_weights(name):
    """Two-sample Kolmogorov-Smirnov tests on scalars of the state after 40 steps, replicas by the thousand."""
    case = dict(LAW_CASES[name])
    d = case.pop("d", 12)
    if case.pop("random", False):
        case["start"] = ll.RandomStart()
    problem = committee(**case)
    time = [40 * problem.algorithm.clock(problem, d)]
    one = scalars(ll.simulate(problem, d, time, replicas=3000, seed=1, representation="weights"))
    two = scalars(ll.simulate(problem, d, time, replicas=3000, seed=2, representation="overlaps"))
    values = {key: stats.ks_2samp(one[key], two[key]).pvalue for key in one if np.ptp(one[key]) > 1e-9}
    assert min(values.values()) > 1e-4, values
    assert len(values) >= 4


def test_law_test_rejects_a_fixed_norm(monkeypatch):
    """Negative control: replacing |x|^2 by its mean must be seen by the same test."""
    from limitlab.algorithms.one_pass import chain

    problem = committee(
        p=2, k=1, learning_rate=3.0, variance=1.0, start=ll.OverlapStart(Q=np.eye(2), M=[[0.1], [0.1]], P=1.0)
    )
    d = 4
    time = [40 * problem.algorithm.clock(problem, d)]
    one = scalars(ll.simulate(problem, d, time, replicas=3000, seed=1, representation="weights"))
    monkeypatch.setattr(chain, "chi_square", lambda key, n, shape=(): jnp.asarray(0.0))
    two = scalars(ll.simulate(problem, d, time, replicas=3001, seed=2, representation="overlaps"))
    assert min(stats.ks_2samp(one[key], two[key]).pvalue for key in ("risk", "Q00", "trace Q^2")) < 1e-6


def test_starts_are_realised_exactly_at_finite_d():
    start = ll.OverlapStart(Q=[[1.0, 0.3], [0.3, 0.6]], M=[[0.2], [0.5]], P=1.4)
    sim = ll.simulate(committee(p=2, k=1, start=start), 7, [0.0], replicas=2)
    for name in ("Q", "M"):
        np.testing.assert_allclose(sim[name].isel(time=0, replica=1), getattr(start, name), atol=1e-12)


@pytest.mark.more
def test_random_start_has_its_exact_law_at_finite_d():
    """Moments of a Gaussian start at d = 9: E M = 0, var M = 1/d, E Q = 1, var Q_ii = 2/d, var Q_ij = 1/d."""
    problem = committee(p=2, k=2, start=ll.RandomStart())
    draw = jax.jit(jax.vmap(lambda k: initial_overlaps(problem, k, 9.0)))
    draws = jax.tree.map(np.asarray, draw(jax.random.split(jax.random.key(0), 40_000)))
    for value, mean, variance in (
        (draws.M[:, 0, 1], 0.0, 1 / 9),
        (draws.Q[:, 0, 0], 1.0, 2 / 9),
        (draws.Q[:, 0, 1], 0.0, 1 / 9),
    ):
        assert abs(np.mean(value) - mean) < 4 * np.sqrt(variance / 40_000)
        assert abs(np.var(value) / variance - 1) < 0.06
    on_sphere = committee(p=2, k=1, start=ll.RandomStart(sphere=True))
    draw = jax.jit(jax.vmap(lambda k: initial_overlaps(on_sphere, k, 5.0).M[0, 0]))
    m = draw(jax.random.split(jax.random.key(1), 5000))
    assert stats.kstest(np.asarray(m) ** 2, stats.beta(0.5, 2.0).cdf).pvalue > 1e-4


@pytest.mark.parametrize("degrees", [1, 2, 7, 500])
def test_chi_square_is_exact(degrees):
    draws = np.asarray(chi_square(jax.random.key(degrees), degrees, (20_000,)))
    assert stats.kstest(draws, stats.chi2(degrees).cdf).pvalue > 1e-4


def test_wishart_of_few_degrees_has_their_rank():
    assert int(jnp.linalg.matrix_rank(wishart(jax.random.key(0), 5, 2.0), rtol=1e-10)) == 2


def test_divergence_is_a_status_with_finite_numbers_before():
    problem = committee("square", "square", p=1, k=1, learning_rate=3.0, start=ll.OverlapStart(Q=1.0, M=0.2, P=1.0))
    for representation in ("weights", "overlaps"):
        sim = ll.simulate(problem, 40, np.linspace(0, 20, 81), replicas=8, seed=0, representation=representation)
        assert "diverged" in set(sim.status.values.tolist())
        for r in range(8):
            one = sim.isel(replica=r)
            before = (
                one.time.values <= float(one.end_time) if str(one.status.values) == "diverged" else one.time.values >= 0
            )
            assert np.all(np.isfinite(one.risk.values[before]))


def test_a_huge_dimension_costs_nothing():
    problem = ll.library.escaping_mediocrity(width=2, learning_rate=0.1)
    clock = problem.algorithm.clock(problem, 10**9)
    sim = ll.simulate(problem, 10**9, [0.0, 200 * clock], replicas=2, representation="overlaps")
    assert sim.step.values[-1] == 200
    assert float(np.max(np.abs(sim.M))) < 1e-3


def test_weights_that_do_not_fit_are_refused_with_a_remedy():
    with pytest.raises(ll.errors.InputError, match="overlaps"):
        ll.simulate(committee(), 10**10, [1.0], replicas=100)


def test_progress_is_reported_up_to_the_last_step():
    seen = []
    ll.simulate(
        committee(),
        30,
        [1.0],
        representation="overlaps",
        progress=lambda done, total, label: seen.append((done, total)),
    )
    assert seen[-1][0] == seen[-1][1] == 120


def test_a_second_simulation_of_the_same_shape_compiles_nothing():
    from limitlab.algorithms.loop import advance as _advance

    problem = committee(p=2, k=2)
    ll.simulate(problem, 50, [0.1], replicas=3, seed=1, representation="overlaps")
    before = _advance._cached._cache_size()
    ll.simulate(committee(p=2, k=2, learning_rate=0.7), 80, [0.2], replicas=3, seed=2, representation="overlaps")
    assert _advance._cached._cache_size() == before


@pytest.mark.parametrize("rate", [1e-20, 1e-310])
def test_more_steps_than_can_be_counted_are_refused(rate):
    with pytest.raises(ll.errors.InputError, match=r"within 2\^53 steps"):
        ll.simulate(committee(learning_rate=rate), d=5, times=[0.0, 0.1])
