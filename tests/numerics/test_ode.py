"""The explicit integrator: its numbers, and that times which are asked for twice change nothing."""

import diffrax
import numpy as np

from limitlab.numerics.ode.dopri8 import _tableau
from limitlab.numerics.ode.integrate import integrate


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
