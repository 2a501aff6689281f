"""A second layer that starts larger: the scale multiplies it, whoever asks, and one changes nothing."""

from dataclasses import replace

import numpy as np
import pytest

import limitlab as ll
from limitlab.spec import spec_hash, to_dict

TIMES = np.linspace(0, 1, 3)


def committee(start: ll.AbstractStart, weights=None) -> ll.Problem:
    return ll.Problem(
        teacher=ll.Committee(width=2, activation="erf"),
        student=ll.Committee(width=2, activation="erf", second_layer="trained", output_weights=weights),
        loss=ll.SquareLoss(),
        start=start,
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )


def staircase(start: ll.AbstractStart, weights=None) -> ll.Problem:
    student = ll.Committee(width=4, activation="shifted(tanh, 1.0)", second_layer="trained", output_weights=weights)
    return replace(ll.library.merged_staircase("z1 + z1*z2", width=4), student=student, start=start)


def mixture(start: ll.AbstractStart, weights=None) -> ll.Problem:
    one = ll.library.isotropic_mixture(width=4)
    return replace(one, start=start, student=replace(one.student, output_weights=weights))


@pytest.mark.parametrize(
    ("problem", "limit", "law", "weights"),
    [
        (committee, ll.OverlapODE(), "ones", [3.0, 3.0]),
        pytest.param(staircase, ll.DimensionFree(), "ones", [3.0] * 4, marks=pytest.mark.more),
        (staircase, ll.DimensionFree(), "rademacher", [3.0, -3.0, 3.0, -3.0]),
        pytest.param(mixture, ll.RadialFlow(d=20), "ones", [3.0] * 4, marks=pytest.mark.more),
        (mixture, ll.RadialFlow(d=20, method="volumes", cells=60), "ones", [3.0] * 4),
    ],
)
def test_limits_see_the_scale_as_given_output_weights(problem, limit, law, weights):
    scaled = ll.predict(problem(ll.RandomStart(second_layer=law, second_layer_scale=3.0)), limit, TIMES)
    given = ll.predict(problem(ll.RandomStart(), weights), limit, TIMES)
    plain = ll.predict(problem(ll.RandomStart(second_layer=law)), limit, TIMES)
    np.testing.assert_allclose(scaled.risk, given.risk, rtol=1e-9, atol=1e-12)
    assert np.max(np.abs(scaled.risk - plain.risk)) > 0.01


@pytest.mark.parametrize("law", ["uniform", pytest.param("gaussian", marks=pytest.mark.more)])
def test_the_law_of_a_random_second_layer_is_stretched(law):
    """The first coefficients of the flow are linear in E a^2 at short times: nine times as fast."""
    times = np.array([0.0, 1e-5])
    slow, fast = (
        ll.predict(staircase(ll.RandomStart(second_layer=law, second_layer_scale=c)), ll.DimensionFree(), times)
        for c in (1.0, 3.0)
    )
    second = {"uniform": 1 / 3, "gaussian": 1.0}[law]
    rate = {c: float(ds.fourier.sel(term="z1")[-1]) / times[-1] for c, ds in ((1.0, slow), (3.0, fast))}
    g, w = np.polynomial.hermite_e.hermegauss(80)
    slope = w @ (1 - np.tanh(g + 1) ** 2) / w.sum()
    for c, seen in rate.items():  # du/dt = a E sigma'(G) z1, f = E a u E sigma'(G)
        np.testing.assert_allclose(seen, c**2 * second * slope**2, rtol=1e-3)


def test_simulations_start_there():
    plain, scaled = (
        ll.simulate(committee(ll.RandomStart(second_layer="gaussian", second_layer_scale=c)), 50, TIMES[:1], 3, 0)
        for c in (1.0, 2.5)
    )
    np.testing.assert_allclose(scaled.a, 2.5 * plain.a, rtol=1e-14)
    few = ll.simulate(mixture(ll.RandomStart(second_layer_scale=2.5)), 20, TIMES[:1], 2, 0)
    assert np.all(few.a == 2.5)


def test_one_is_what_it_was():
    here, there = (committee(s) for s in (ll.RandomStart(), ll.RandomStart(second_layer_scale=1.0)))
    assert spec_hash(here) == spec_hash(there)
    assert "second_layer_scale" not in to_dict(here)["start"]
    assert spec_hash(committee(ll.RandomStart(second_layer_scale=2.0))) != spec_hash(here)
    with pytest.raises(ll.errors.InputError, match="second_layer_scale"):
        ll.RandomStart(second_layer_scale=0.0)


def test_closed_forms_for_ones_refuse_another_scale():
    one = ll.library.escaping_mediocrity()
    other = replace(one, start=ll.RandomStart(sphere=True, second_layer_scale=2.0))
    with pytest.raises(ll.errors.LimitUndefinedError, match="scale one"):
        ll.exit_time(other, 100, 0.5)
