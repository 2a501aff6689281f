"""Momentum: SGD where mu = 0, and the rule written by hand. The square of the summed rate is in `square/`."""

import dataclasses

import numpy as np
import pytest

import limitlab as ll
from cases import committee


def with_rule(rule, **more):
    return dataclasses.replace(committee(p=2, k=2, variance=0.1, **more), algorithm=rule)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, marks=pytest.mark.more),
        {"trained": True},
        pytest.param({"student": "relu"}, marks=pytest.mark.more),
    ],
)
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


@pytest.mark.parametrize("momentum", [-0.1, 1.0])
def test_a_momentum_that_never_forgets_is_refused(momentum):
    with pytest.raises(ll.errors.InputError, match="0 <= mu < 1"):
        ll.Momentum(0.1, momentum)
