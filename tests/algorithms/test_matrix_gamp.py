"""Message passing on several directions: against state evolution, its symmetries, its starts, its refusals."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from limitlab.algorithms.gamp.matrix import output_of, symmetries
from limitlab.errors import InputError
from limitlab.macro.multi.information import evidence, field_law
from limitlab.problems.links import link
from limitlab.problems.links.named import Majority

TWO = ll.MultiIndex(2, "majority", ties="zero")


def problem(teacher, ratio, start=None, variance=0.0, iterations=4):
    return ll.Problem(
        teacher=teacher,
        channel=ll.GaussianNoise(variance),
        sample_ratio=ratio,
        start=start,
        algorithm=ll.GAMP(iterations=iterations),
    )


def scores(p, d, replicas, seed=0):
    """The largest |z| over all iterations and entries of M, and the run."""
    sim, pred = ll.simulate(p, d=d, replicas=replicas, seed=seed), ll.predict(p, ll.StateEvolution())
    M = sim.M.values[1:]
    error = M.std(axis=1, ddof=1) / np.sqrt(replicas)
    return np.max(np.abs(M.mean(axis=1) - pred.M.values[1:]) / error), sim, pred


@pytest.mark.parametrize(
    ("words", "width", "variance"),
    [(Majority("zero"), 2, 0.0), (Majority("coin"), 2, 0.0), ("parity", 2, 0.0), ("and", 2, 0.3), ("sign(z1)", 1, 0.0)],
)
def test_the_output_function_is_that_of_the_theory(words, width, variance):
    words = link(words)
    law, V = field_law(words, width, variance), np.array([[0.6, -0.2], [-0.2, 0.7]])[:width, :width]
    w = np.random.default_rng(0).normal(size=(50, width))
    Z, (slope,) = evidence(law, w, V)
    g = output_of(words, width, variance)
    for i in range(0, len(law.labels.y), max(1, len(law.labels.y) // 6)):
        sound = Z[:, i] > 1e-6
        seen = g.g(jnp.full(50, law.labels.y[i]), jnp.asarray(w), jnp.asarray(V))
        assert np.allclose(np.asarray(seen)[sound], (slope[:, i] / Z[:, i, None])[sound], atol=1e-7)


def test_nodes_agree_with_a_brute_average():
    smooth, V = output_of(link("tanh(z1) + z2"), 2, 0.4), np.array([[0.6, -0.2], [-0.2, 0.7]])
    rng = np.random.default_rng(2)
    w = rng.normal(size=(20, 2))
    y = np.tanh(w[:, 0]) + w[:, 1] + 0.7 * rng.normal(size=20)
    z = w[:, None] + rng.normal(size=(200_000, 2)) @ np.linalg.cholesky(V).T
    P = np.exp(-((y[:, None] - np.tanh(z[..., 0]) - z[..., 1]) ** 2) / 0.8)
    mean = np.einsum("ni,nik->nk", P, z) / P.sum(axis=1)[:, None]
    seen = np.asarray(smooth.g(jnp.asarray(y), jnp.asarray(w), jnp.asarray(V)))
    assert np.max(np.abs(seen - (mean - w) @ np.linalg.inv(V))) < 0.05


def test_runs_follow_state_evolution():
    z, sim, _ = scores(problem(TWO, 3.0, ll.InformedStart([[0.3, 0.2], [0.2, 0.25]])), d=400, replicas=12)
    assert z < 4
    assert set(sim.status.values) == {"ok"}
    wrong = ll.predict(  # two labels in place of three: rejected
        problem(ll.MultiIndex(2, "majority", ties="coin"), 3.0, ll.InformedStart([[0.3, 0.2], [0.2, 0.25]])),
        ll.StateEvolution(),
    )
    M = sim.M.values[-1]
    assert np.max(np.abs(M.mean(axis=0) - wrong.M.values[-1]) / (M.std(axis=0, ddof=1) / np.sqrt(12))) > 6


def test_equal_columns_never_specialise_and_small_random_ones_do():
    p = problem(TWO, 4.0, iterations=40)
    free = ll.simulate(p, d=400, replicas=4, seed=1)
    assert np.all(free.M_singular_values.values[-1, :, 1] > 0.3)
    assert np.all(np.einsum("rkk->r", free.M.values[-1]) > 1.2)  # estimate k is the one of direction k
    stuck = ll.simulate(dataclasses.replace(p, start=ll.InformedStart(0.0)), d=400, replicas=4, seed=1)
    assert np.all(stuck.M_singular_values.values[20, :, 1] < 1e-7)  # later rounding tells the columns apart
    fixed = ll.predict(p, ll.BayesOptimal())
    assert np.mean(free.M.values[-1, :, 0, 0]) == pytest.approx(float(fixed.M[0, 0]), abs=0.05)


def test_symmetries_of_links():
    assert len(symmetries(Majority("zero"), 2)) == 2  # the exchange
    assert len(symmetries(link("parity"), 2)) == 4
    assert len(symmetries(link("parity"), 3)) == 24
    assert len(symmetries(link("z1 + z2*z3"), 3)) == 4
    p = problem(ll.MultiIndex(2, "squares"), 3.0, ll.RandomStart(0.05), variance=0.05, iterations=25)
    seen = ll.simulate(p, d=150, replicas=2)
    M = seen.M.values[-1]
    assert np.allclose(M, np.swapaxes(M, 1, 2), atol=1e-8)  # the best rotation makes it symmetric


def test_weights_of_signs_are_found():
    p = problem(dataclasses.replace(TWO, prior=ll.RademacherPrior()), 3.0, ll.InformedStart(0.7), iterations=25)
    seen = ll.simulate(p, d=200, replicas=4)
    assert np.mean(seen.mse.values[-1]) < 0.02  # a finite run may leave single weights wrong


def test_refusals():
    real = problem(ll.MultiIndex(2, "product"), 2.0)
    with pytest.raises(InputError, match="variance > 0"):
        ll.simulate(real, d=50)
    with pytest.raises(InputError, match="scalar"):
        ll.simulate(dataclasses.replace(problem(TWO, 2.0), algorithm=ll.GAMP(variances="vector")), d=50)
    with pytest.raises(InputError, match="does not know"):
        ll.simulate(problem(TWO, 2.0, ll.SpectralStart()), d=50)
    with pytest.raises(InputError, match="2 x 2 matrix"):
        ll.simulate(problem(TWO, 2.0, ll.InformedStart(np.eye(3) / 2)), d=50)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("teacher", "ratio", "start", "variance"),
    [
        (TWO, 1.5, None, 0.0),
        (TWO, 3.0, [[0.3, 0.2], [0.2, 0.25]], 0.0),
        (ll.MultiIndex(2, "parity"), 3.5, [[0.3, 0.05], [0.05, 0.2]], 0.0),
        (ll.MultiIndex(2, "parity"), 1.8, [[0.4, 0.0], [0.0, 0.4]], 0.0),
        (ll.MultiIndex(2, "and"), 3.0, [[0.3, 0.05], [0.05, 0.2]], 0.0),
        (ll.MultiIndex(3, "sign_sum"), 4.0, None, 0.0),
    ],
)
def test_runs_follow_state_evolution_at_large_size(teacher, ratio, start, variance):
    start = None if start is None else ll.InformedStart(start)
    assert scores(problem(teacher, ratio, start, variance, iterations=15), d=1000, replicas=16)[0] < 4
