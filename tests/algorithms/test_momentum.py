"""Momentum: SGD where mu = 0, the rule written by hand, and the overlap equations of the summed rate."""

import dataclasses

import numpy as np
import pytest

import limitlab as ll
from cases import committee

TIMES = np.array([0.25, 0.5, 1.0])


def with_rule(rule, **more):
    return dataclasses.replace(committee(p=2, k=2, variance=0.1, **more), algorithm=rule)


@pytest.mark.parametrize("more", [{}, {"trained": True}, {"student": "relu"}])
def test_no_momentum_is_plain_sgd(more):
    """To rounding: every parameter, the clock and the samples."""
    plain, ball = (
        ll.simulate(with_rule(rule, **more), 20, [0.0, 0.3, 1.0], replicas=2)
        for rule in (ll.OnlineSGD(0.5), ll.Momentum(0.5, 0.0))
    )
    for name in ("risk", "Q", "M", "a"):
        np.testing.assert_allclose(ball[name], plain[name], rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(ball.step, plain.step)


def test_the_ball_remembers_its_gradients():
    """Two steps by hand on a linear unit: v_1 = mu v_0 + g_1; a plain sum of steps is seen."""
    from stepping import learner, move, network

    problem = ll.Problem(
        teacher=ll.Committee(1, "linear"),
        student=ll.Committee(1, "linear", second_layer="trained"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(),
        algorithm=ll.Momentum(0.3, 0.6, second_layer_rate=2.0),
    )
    W, a = np.array([0.5, -1.0, 0.2]), 0.7
    x, y = np.array([[0.3, 0.1, -0.4], [0.2, 0.5, 0.1]]), [0.8, -0.3]
    state, vw, va = learner(problem, network(W[None], [a])), np.zeros(3), 0.0
    for n in range(2):
        state = move(problem, state, x[n : n + 1], y[n : n + 1], n)
        pull = a * (W @ x[n]) - y[n]
        gw, ga = pull * a * x[n], pull * (W @ x[n])
        vw, va = 0.6 * vw + gw, 0.6 * va + ga
        W, a = W - 0.3 * vw, a - 2.0 * 0.3 / 3 * va
    np.testing.assert_allclose(state.student.rows[0], W, rtol=1e-13)
    np.testing.assert_allclose(state.student.a[0], a, rtol=1e-13)


def test_at_large_d_it_follows_the_overlap_equations_of_the_summed_rate():
    """gamma/(1 - mu) in place of gamma, on the clock gamma step/((1 - mu) p d)."""
    gamma, mu = 0.1, 0.8
    sim = ll.simulate(with_rule(ll.Momentum(gamma, mu)), 800, TIMES, replicas=24, seed=5)
    right = ll.predict(with_rule(ll.OnlineSGD(gamma / (1 - mu))), ll.OverlapODE(), TIMES)
    wrong = ll.predict(with_rule(ll.OnlineSGD(gamma)), ll.OverlapODE(), TIMES * (1 - mu))  # the clock without 1 - mu
    gap = np.abs(np.mean(sim.risk.values, axis=1) - right.risk.values)
    error = np.std(sim.risk.values, axis=1, ddof=1) / np.sqrt(24)
    assert np.max(gap / error) < 4, gap / error
    off = np.abs(np.mean(sim.risk.values, axis=1) - wrong.risk.values)
    assert np.max(off / error) > 8


@pytest.mark.parametrize("momentum", [-0.1, 1.0])
def test_a_momentum_that_never_forgets_is_refused(momentum):
    with pytest.raises(ll.errors.InputError, match="0 <= mu < 1"):
        ll.Momentum(0.1, momentum)
