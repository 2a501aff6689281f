"""The integrators: their numbers, that times which are asked for twice change nothing, and their pieces."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlab.numerics.ode.dopri8 import _tableau
from limitlab.numerics.ode.integrate import integrate
from limitlab.verbs import verb


def test_the_tableau_is_that_of_diffrax():
    rows, weights, errors = _tableau()
    table, count = diffrax.Dopri8.tableau, len(weights)
    assert np.array_equal(weights, table.b_sol[:count])
    assert np.array_equal(errors, table.b_error[:count])
    for i, row in enumerate(table.a_lower[: count - 1]):
        assert np.array_equal(rows[i + 1, : len(row)], row)
    assert np.count_nonzero(np.triu(rows)) == 0


def _decay(y, rate):
    return -rate * y


def test_values_do_not_depend_on_how_many_times_are_padded():
    times = np.linspace(0.0, 3.0, 40)  # 64 places
    many = integrate(_decay, np.ones(2), times, np.asarray([1.0, 2.0]))
    assert many.values.shape == (40, 2)
    assert np.max(np.abs(many.values - np.exp(-np.outer(times, [1.0, 2.0])))) < 1e-9
    few = integrate(_decay, np.ones(2), times[[0, -1]], np.asarray([1.0, 2.0]))
    assert few.values.shape == (2, 2)
    assert few.status == many.status == "ok"
    assert np.max(np.abs(few.values - many.values[[0, -1]])) < 1e-9


def _stiff_circle(y, rate):
    """A circle, beside a direction that decays fast."""
    x, v, r = y
    return jnp.stack([v, -x, -rate * r])


def test_implicit_steps_go_in_pieces_that_are_told_and_can_be_stopped(monkeypatch):
    monkeypatch.setattr("limitlab.verbs.BETWEEN", 0.0)
    times, start, rate = np.linspace(0.0, 60.0, 4), np.asarray([1.0, 0.0, 0.3]), np.asarray(1e4)

    @verb
    def stiff(times, progress=None):
        return integrate(_stiff_circle, start, times, rate, rtol=1e-8, solver="implicit")

    told = []
    run = stiff(times, progress=lambda *words: told.append(words[:2]))
    assert run.status == "ok" and run.steps > 512  # three pieces
    inside = [done / total for done, total in told[:-1]]
    assert len(inside) >= 2 and inside == sorted(inside) and 0 < inside[-1] < 1
    exact = np.stack([np.cos(times), -np.sin(times)], axis=1)
    assert np.max(np.abs(run.values[:, :2] - exact)) < 1e-5
    assert np.max(np.abs(stiff(times[[0, -1]]).values - run.values[[0, -1]])) < 1e-5  # whatever times are asked

    def enough(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stiff(times, progress=enough)
    assert stiff(times).status == "ok"


def test_a_drift_that_may_be_costly_begins_with_one_step(monkeypatch):
    """Nobody is heard inside a compiled call: 64 first steps of eight units of tanh took eight seconds."""
    monkeypatch.setattr("limitlab.verbs.BETWEEN", 0.0)
    monkeypatch.setattr("limitlab.verbs.CALL", 0.0)
    times, start, told = np.asarray([0.0, 3.0]), np.asarray([1.0, 0.0, 0.3]), []

    @verb
    def turn(cheap, progress=None):
        return integrate(_stiff_circle, start, times, np.asarray(1.0), rtol=1e-8, cheap=cheap)

    careful = turn(False, progress=lambda *words: told.append(words))
    assert len(told) == careful.steps  # one a step, the last of which is the end
    told.clear()
    bold = turn(True, progress=lambda *words: told.append(words))
    assert len(told) == 1 and bold.steps == careful.steps < 100
    np.testing.assert_array_equal(bold.values, careful.values)
