"""Committees under descent: one rule for all students, what is reported of them, starts by overlaps, new samples."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import limitlab as ll
from limitlab.algorithms.data import DataSet, replica_key
from limitlab.algorithms.descent.network import start_network
from limitlab.algorithms.descent.step import Course, begin, descent_step
from limitlab.algorithms.descent.wide import draw_instance, draw_weights
from limitlab.algorithms.settings.fixed_data import NetworkDescent, WideDescent
from limitlab.numerics.trees import traced
from limitlab.problems.asked import Asked
from limitlab.problems.networks.network import Network
from limitlab.results.sides import counted
from limitlab.spec import dumps, loads, spec_hash
from limitlab.states.request import Request

M0 = [[0.3, 0.1], [0.0, 0.4]]


def erf_pair(**changes):
    parts = {
        "teacher": ll.Committee(2, "erf"),
        "sample_ratio": 2.0,
        "student": ll.Committee(2, "erf"),
        "loss": ll.SquareLoss(),
        "start": ll.OverlapStart(Q=np.eye(2), M=M0, P=np.eye(2)),
        "algorithm": ll.GradientDescent(1.0, spherical=False),
    }
    return ll.Problem(**(parts | changes))


def squares(**changes):
    parts = {
        "teacher": ll.SingleIndex(ll.GaussianPrior()),
        "channel": ll.Modulus(),
        "sample_ratio": 3.0,
        "student": ll.Committee(2, "square"),
        "loss": ll.PhaseRetrievalLoss(),
        "start": ll.RandomStart(),
        "algorithm": ll.GradientDescent(0.02, spherical=False),
    }
    return ll.Problem(**(parts | changes))


# --- one rule ------------------------------------------------------------------------------------------------


def test_wide_students_of_squares_move_by_the_rule_of_all_students():
    problem, d, steps = squares(), 20, 12
    wide = WideDescent.of(problem, Asked("a test"))
    X, b, w = draw_instance("a test", wide, d, 3, 0)
    parts = NetworkDescent.to_simulate(problem, Asked("a test")).parts
    course = Course(*traced((problem.algorithm, parts.loss, parts.student)))
    data = DataSet(jnp.asarray(w), jnp.asarray(X), jnp.sqrt(jnp.asarray(b)))
    run = begin(course, Network.of(jnp.asarray(draw_weights(wide, d, 3, 0, 2)), jnp.ones(2)), data, jax.random.key(0))
    move = eqx.filter_jit(descent_step)
    for k in range(steps):
        run = move(course, data, jax.random.key(0), run, jnp.asarray(k))
    W = np.asarray(run.state.parameters.rows)
    seen = ll.simulate(problem, d, [0.0, steps * 0.01], seed=3)
    np.testing.assert_allclose(seen.M[-1, 0, :, 0], W @ w / d, rtol=1e-11)
    np.testing.assert_allclose(seen.Q[-1, 0], W @ W.T / d, rtol=1e-11)
    A, aim = W.T @ W / 2, np.outer(w, w)
    assert float(seen.error[-1, 0]) == pytest.approx(np.sum((A - aim) ** 2) / np.sum(aim**2), rel=1e-10)


def test_a_committee_with_output_weights_moves_by_m_times_the_gradient_of_its_loss():
    """w_a <- w_a - eps sum g_a x, g_a = (f - y) c_a act'(h_a), eps = learning_rate/m: no 1/m in g."""
    c, rate, d = np.array([1.5, -0.5]), 0.8, 15
    problem = erf_pair(student=ll.Committee(2, "erf", output_weights=c), algorithm=ll.GradientDescent(rate))
    seen = ll.simulate(problem, d, [0.0, rate / 2], replicas=1, seed=2)
    assert seen.step.values.tolist() == [0, 1]
    setting = NetworkDescent.to_simulate(problem, Asked("a test"))
    course = Course(*traced((setting.rule, setting.parts.loss, setting.parts.student)))
    data, run, _ = start_network(setting, course, replica_key(2, 0), 30, Request(d, np.zeros(1), np.zeros(1, int)))
    W, X, y = (np.asarray(x) for x in (run.state.parameters.rows, data.X, data.y))
    H = X @ W.T
    f = erf(H / np.sqrt(2)) @ c / 2
    g = (f - y)[:, None] * c * np.sqrt(2 / np.pi) * np.exp(-(H**2) / 2)
    moved = W - rate / 2 * g.T @ X
    moved *= np.sqrt(d) / np.linalg.norm(moved, axis=1, keepdims=True)
    np.testing.assert_allclose(seen.Q[-1, 0], moved @ moved.T / d, rtol=1e-11)


def test_masks_persist_on_the_clock_of_the_width():
    rule, n = ll.PersistentSGD(0.4, 0.5, 1.0), 100_000
    out = jnp.zeros(n, bool)
    for width in (1, 4):
        share = float(jnp.mean(rule.next_mask(jax.random.key(0), out, width)))
        assert abs(share - 0.4 / width) < 5 * np.sqrt(0.4 / n)


# --- what is reported ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [erf_pair(), squares()], ids=["network", "wide"])
def test_correlations_of_two_times_contain_the_overlaps(problem):
    seen = ll.simulate(problem, 20, [0.0, 0.5, 1.0], replicas=2)
    assert seen.C.dims == ("time", "replica", "time_2", "student", "student_2")
    C = seen.C.values.swapaxes(1, 2)
    for t in range(3):
        np.testing.assert_allclose(C[t, t], seen.Q.values[t], rtol=1e-12, atol=1e-15)
        for s in range(t):
            np.testing.assert_allclose(C[t, s], C[s, t].swapaxes(-1, -2), rtol=1e-12, atol=1e-15)
    assert not np.allclose(C[2, 0, 0], C[2, 0, 0].T)  # of two times it is no symmetric matrix
    assert np.all(counted(["student", "student_2", "time_2"], (2, 2, 3)))
    assert np.sum(counted(["student", "student_2"], (2, 2))) == 3


def test_long_runs_of_wide_students_keep_no_correlations():
    times = np.linspace(0, 1, 60)
    seen = ll.simulate(squares(student=ll.Committee(40, "square")), 10, times, replicas=2)
    assert "C" not in seen and "error" in seen


def test_success_of_committees_is_by_the_error_of_the_output():
    problem = erf_pair(sample_ratio=6.0, channel=ll.GaussianNoise(0.01))
    seen = ll.simulate(problem, 30, [0.0, 5.0, 60.0], replicas=3, seed=1)
    assert "E (f - f*)^2/E f*^2" in seen.attrs["success_means"]
    first = seen.isel(time=0, replica=0)
    rng = np.random.default_rng(0)
    L = np.linalg.cholesky(np.block([[first.Q.values, first.M.values], [first.M.values.T, first.P.values]]))
    s = erf(rng.normal(size=(400_000, 4)) @ L.T / np.sqrt(2))
    f, aim = s[:, :2].mean(1), s[:, 2:].mean(1)
    ratio = np.mean((f - aim) ** 2) / np.mean(aim**2)
    assert float(first.error) == pytest.approx(ratio, rel=0.02)
    found = np.asarray(seen.error < 0.01).any(0)
    np.testing.assert_array_equal(seen.success, found)
    assert not np.any(seen.error[0] < 0.01)


# --- starts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sphere", [False, True])
def test_overlaps_of_a_start_are_exact_beside_a_teacher_that_draws_its_own(sphere):
    Q, M = np.array([[0.8, 0.1], [0.1, 1.3]]), np.array([[0.5], [-0.2]])
    rule = ll.GradientDescent(0.02, spherical=sphere)
    seen = ll.simulate(squares(start=ll.OverlapStart(Q=Q, M=M, P=[[1.0]]), algorithm=rule), 12, [0.0], replicas=2)
    norm = np.sqrt(np.diag(Q)) if sphere else np.ones(2)
    np.testing.assert_allclose(seen.M[0], np.broadcast_to(M / norm[:, None], (2, 2, 1)), rtol=1e-12)
    np.testing.assert_allclose(seen.Q[0], np.broadcast_to(Q / np.outer(norm, norm), (2, 2, 2)), rtol=1e-12)


def test_a_start_that_does_not_fit_is_refused_in_words():
    for start, words in (
        (ll.OverlapStart(Q=np.eye(2), M=np.zeros((2, 2)), P=np.eye(2)), "1 directions"),
        (ll.OverlapStart(Q=np.eye(2), M=np.zeros((2, 1)), P=[[1.0]]), "needs d >= 3"),
    ):
        with pytest.raises(ll.errors.InputError, match=words):
            ll.simulate(squares(start=start), 2, [0.1])


# --- new samples at every step -------------------------------------------------------------------------------


def test_fresh_is_a_field_of_its_own_and_leaves_old_hashes():
    old, new = erf_pair(), erf_pair(algorithm=ll.GradientDescent(1.0, spherical=False, fresh=True))
    assert "fresh" not in dumps(old) and loads(dumps(new)).algorithm.fresh
    assert spec_hash(old) != spec_hash(new)
    with pytest.raises(ll.errors.InputError, match="fresh must be True"):
        ll.GradientDescent(1.0, fresh=1)
    for limit in ("DMFT", "MatrixFlow"):
        words = ll.limits(squares(algorithm=ll.GradientDescent(0.02, spherical=False, fresh=True)))[limit]
        assert words != "applies"


@pytest.mark.parametrize(
    "student", [None, pytest.param(ll.Committee(2, "erf"), marks=pytest.mark.more)], ids=["line", "network"]
)
def test_fresh_samples_cost_what_new_ones_do_and_reused_ones_less(student):
    parts = {"sample_ratio": 1.5, "channel": ll.GaussianNoise(0.2), "start": ll.InformedStart(0.0)}
    parts |= {"teacher": ll.SingleIndex(ll.GaussianPrior()) if student is None else ll.Committee(2, "erf")}
    rate = 0.2 if student is None else 1.0
    ends = []
    for fresh in (True, False):
        rule = ll.GradientDescent(rate, spherical=False, fresh=fresh)
        runs = ll.simulate(erf_pair(student=student, algorithm=rule, **parts), 30, [4.0], replicas=12).isel(time=0)
        gap = (runs.risk - runs.train_loss).values
        ends.append(gap.mean() / (gap.std(ddof=1) / np.sqrt(len(gap))))
    assert abs(ends[0]) < 4.5 and ends[1] > 6


def test_he3_is_learned_in_two_steps_on_one_batch_and_not_on_new_ones():
    """The exact value of the limit is -0.258948: a repeated batch sees more than E[y z]."""
    problem = erf_pair(
        teacher=ll.Committee(1, ll.hermite(3), output_weights=[1 / np.sqrt(6)]),
        student=ll.Committee(1, "erf"),
        sample_ratio=3.0,
        start=ll.OverlapStart(Q=[[1.0]], M=[[0.0]], P=[[1.0]]),
        algorithm=ll.GradientDescent(1.0, spherical=False),
    )
    again = ll.simulate(problem, 200, [2.0], replicas=24).M.values.ravel()
    rule = dataclasses.replace(problem.algorithm, fresh=True)
    once = ll.simulate(dataclasses.replace(problem, algorithm=rule), 200, [2.0], replicas=24).M.values.ravel()
    z = [(x.mean() - aim) / (x.std(ddof=1) / np.sqrt(len(x))) for x, aim in ((again, -0.258948), (once, 0.0))]
    assert max(map(abs, z)) < 4.5
    assert abs(again.mean()) / (again.std(ddof=1) / np.sqrt(24)) > 6
