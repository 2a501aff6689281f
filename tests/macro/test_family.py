"""Families: problems that differ in numbers only, solved in one compiled call, are what each is alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import committee, spread
from limitlab.numerics.gauss.erf import erf_moments
from limitlab.numerics.gauss.fields import field_sum
from limitlab.problems.activations import activation
from limitlab.results.schema import ATTRIBUTES

TIMES = np.linspace(0.0, 4.0, 9)
ALONE = ("created", "steps")  # what may differ from the single call: a step more or less, by rounding


def gram(p, k, seed):
    A = np.random.default_rng(seed).normal(size=(p + k, p + k + 3))
    Omega = A @ A.T / A.shape[1]
    return ll.OverlapStart(Q=Omega[:p, :p], M=Omega[:p, p:], P=Omega[p:, p:])


def check_equal(points, problems, limit, times, rtol=1e-10, which=None):
    for n in range(len(problems)) if which is None else which:
        single, point = ll.predict(problems[n], limit, times), points[n]
        assert list(point.variables) == list(single.data_vars)
        assert list(point.coords) == list(single.coords)
        for name, x in {**single.data_vars, **single.coords}.items():
            dims, values = {**point.variables, **point.coords}[name]
            assert (dims, values.dtype, values.shape) == (x.dims, x.dtype, x.shape), name
            if x.dtype.kind == "f":
                np.testing.assert_allclose(values, x.values, rtol=rtol, atol=rtol, err_msg=str(name))
            else:
                np.testing.assert_array_equal(values, x.values)
        own = [key for key in single.attrs if key == "method" or key not in ATTRIBUTES]  # the rest is stamped by sweeps
        assert list(point.attrs) == own
        same = [key for key in own if key not in ALONE]
        assert [point.attrs[key] for key in same] == [single.attrs[key] for key in same]
        assert abs(point.attrs["steps"] - single.attrs["steps"]) <= 0.1 * single.attrs["steps"] + 6


CASES = {
    "erf": (spread(p=4, k=2), 1e-10),
    "erf, start of any overlaps": (
        [committee(p=3, k=2, start=gram(3, 2, n), variance=0.1 * n) for n in range(8)],
        1e-10,
    ),
    "relu": (spread(student="relu", teacher="relu", p=1, k=1), 1e-10),
    "square": (spread(student="square", teacher="square", p=2, k=1, learning_rate=0.02), 1e-9),
    "linear": (spread(student="linear", teacher="linear"), 1e-10),
    "spherical": (spread(p=3, k=1, spherical=True), 1e-10),
    "trained": (spread(trained=True, second_layer_rate=0.7, output_weights=[0.5, 1.2]), 1e-10),
    "random": (
        [committee(p=1, k=1, start=ll.RandomStart(scale=s)) for s in np.linspace(0.5, 2, 8)],
        1e-10,
    ),  # overlap 0
    "equal units": (spread(p=4, k=2, start=ll.InformedStart(overlap=1.0), teacher_weights=[1.0, 0.5]), 1e-10),
    "rank one": (spread(p=3, k=1, start=ll.OverlapStart(Q=np.full((3, 3), 0.5), M=np.full((3, 1), 0.2), P=1.0)), 1e-10),
}


@pytest.mark.more_of(
    "square", "trained", "equal units", "erf, start of any overlaps", "spherical", "relu", "linear", "erf"
)
@pytest.mark.parametrize("name", CASES)
def test_a_family_is_what_its_members_are_alone(name):
    problems, rtol = CASES[name]
    limit = ll.OverlapODE()
    check_equal(limit.many(problems, TIMES), problems, limit, TIMES, rtol, which=(0, 5))


@pytest.mark.parametrize("times", [[0.0], [0.7]])
def test_any_times(times):
    problems, limit = spread(p=2, k=1), ll.OverlapODE()
    check_equal(limit.many(problems, times), problems, limit, np.asarray(times), which=(3,))


@pytest.mark.parametrize(
    ("activation", "p", "k", "method"),
    [
        pytest.param("erf", 4, 2, "auto", marks=pytest.mark.more),
        ("relu", 1, 1, "auto"),
        ("square", 2, 1, "auto"),
        pytest.param("linear", 2, 2, "auto", marks=pytest.mark.more),
        pytest.param("tanh", 1, 1, "quadrature", marks=pytest.mark.more),
        pytest.param("piecewise((-1, -1), (1, 1))", 1, 1, "auto", marks=pytest.mark.more),
    ],
)
@pytest.mark.filterwarnings("ignore::limitlab.errors.AccuracyWarning")
def test_a_member_depends_neither_on_the_others_nor_on_its_place(activation, p, k, method):
    """To the last bit, at a fixed number of members: any order, any company, also one that diverges."""
    limit = ll.OverlapODE(method=method, rtol=1e-10 if method == "auto" and "piece" not in activation else 1e-6)
    problems = spread(16, student=activation, teacher=activation, p=p, k=k, start=ll.InformedStart(overlap=0.4))
    wild = dataclasses.replace(problems[0], algorithm=ll.OnlineSGD(learning_rate=80.0))
    times = TIMES if limit.rtol < 1e-6 else TIMES[:2]  # closed forms: the programs of the families above
    rng = np.random.default_rng(1)
    seen = {}
    rounds = [list(range(8)), *(rng.choice(16, 8).tolist() for _ in range(3)), [*rng.permutation(16)[:7].tolist(), -1]]
    for members in rounds:
        here = [wild if n < 0 else problems[n] for n in members]
        for n, point in zip(members, limit.many(here, times), strict=True):
            for name, (_, values) in point.variables.items():
                first = seen.setdefault((n, name), values)
                assert np.array_equal(first, values, equal_nan=values.dtype.kind == "f"), (n, name)
    assert len({n for n, _ in seen}) > 8


def test_a_member_that_diverges_says_so_and_leaves_the_others_alone():
    limit = ll.OverlapODE()
    start = ll.InformedStart(overlap=0.3)
    problems = spread(student="square", teacher="square", p=2, k=1, start=start, learning_rate=0.02)
    problems[2] = dataclasses.replace(problems[2], algorithm=ll.OnlineSGD(learning_rate=30.0))
    points = limit.many(problems, TIMES)
    assert [str(x.variables["status"][1]) for x in points] == ["ok", "ok", "diverged", *["ok"] * 5]
    assert 0 < float(points[2].variables["end_time"][1]) < TIMES[-1]
    assert np.isnan(points[2].variables["risk"][1][-1])
    assert np.isfinite(points[2].variables["risk"][1][0])
    check_equal(points, problems, limit, TIMES, 1e-8, which=(2, 3))


@pytest.mark.more
def test_a_member_with_many_steps_goes_on_alone_and_with_the_implicit_method_if_need_be(monkeypatch):
    """The others do not wait for it; the numbers of steps are small here, so that the test is short."""
    monkeypatch.setattr("limitlab.numerics.ode.integrate.TOGETHER_STEPS", 14)
    monkeypatch.setattr("limitlab.numerics.ode.integrate.EXPLICIT_STEPS", 30)
    limit, times = ll.OverlapODE(rtol=1e-6), np.array([0.5, 1.0, 60.0, 4000.0])
    problems = spread(student="linear", teacher="linear", p=1, k=1, variance=0.0)
    problems[5] = dataclasses.replace(problems[5], start=ll.InformedStart(overlap=1.0))  # has learned, does not move
    points = limit.many(problems, times)
    assert [x.attrs["solver"] for x in points] == ["explicit then implicit" if n != 5 else "explicit" for n in range(8)]
    assert all(str(x.variables["status"][1]) == "ok" for x in points)
    for n in (0, 5):
        single = ll.predict(problems[n], limit, times)
        assert single.attrs["solver"] == points[n].attrs["solver"]
        np.testing.assert_allclose(points[n].variables["M"][1], single.M.values, rtol=1e-5)
    again = limit.many(problems[::-1], times)[::-1]
    for one, two in zip(points, again, strict=True):
        assert np.array_equal(one.variables["M"][1], two.variables["M"][1])


def test_different_structures_are_refused():
    limit = ll.OverlapODE()
    one = spread(8, p=2, k=1)
    others = {
        "width": spread(1, p=3, k=1)[0],
        "activation": spread(1, student="relu", p=2, k=1)[0],
        "static field": spread(1, p=2, k=1, batch_size=2)[0],
        "kind of start": spread(1, p=2, k=1, start=ll.RandomStart())[0],
        "weights given": spread(1, p=2, k=1, output_weights=[1.0, 1.0])[0],
    }
    assert len({limit.kin(q) for q in one}) == 1
    keys = {name: limit.kin(q) for name, q in others.items()}
    assert None not in keys.values()
    assert len({limit.kin(one[0]), *keys.values()}) == len(keys) + 1
    for other in others.values():
        with pytest.raises(ll.errors.InputError, match="numbers only"):
            limit.many([*one[:7], other], TIMES)


def test_what_cannot_be_in_a_family_has_no_key():
    problem = committee()
    assert ll.OverlapODE(d=100).kin(problem) is None
    assert ll.OverlapODE(solver="implicit").kin(problem) is None
    limit = ll.OverlapODE()
    assert limit.kin(committee(weight_decay=0.1)) is None
    assert limit.kin(committee(start=ll.RandomStart(second_layer="gaussian"))) is None
    assert limit.kin(ll.Problem(teacher=ll.SingleIndex(prior=ll.GaussianPrior()))) is None
    with pytest.raises(ll.errors.LimitUndefinedError, match="weight decay"):
        limit.many([committee(weight_decay=0.1)] * 8, TIMES)
    with pytest.raises(ll.errors.InputError, match="numbers only"):
        limit.many([*[committee()] * 7, committee(weight_decay=0.1)], TIMES)


@pytest.mark.more
def test_members_whose_units_start_alike_are_what_they_are_among_themselves():
    """Two units that are one and two that are not share a call, and neither sees the other, to the last bit."""
    limit = ll.OverlapODE()
    apart = spread(8, p=2, k=1, start=ll.InformedStart(overlap=0.4))
    alike = spread(8, p=2, k=1, start=ll.InformedStart(overlap=1.0))
    mixed = limit.many([*apart[:5], *alike[5:]], TIMES[:5])
    for n, point in enumerate(mixed):
        own = limit.many(apart if n < 5 else alike, TIMES[:5])[n]
        for name, (_, values) in point.variables.items():
            np.testing.assert_array_equal(values, own.variables[name][1])


def test_a_limit_that_is_not_defined_is_refused_for_all():
    problems = [committee(learning_rate=0.1 * n, student="sign") for n in range(1, 9)]
    with pytest.raises(ll.errors.LimitUndefinedError, match="gradient"):
        ll.OverlapODE().many(problems, TIMES)


def test_a_poor_quadrature_is_said_once():
    problems = spread(student="piecewise((-1, -1), (1, 1))", p=1, k=1, start=ll.InformedStart(overlap=0.4))
    with pytest.warns(ll.errors.AccuracyWarning, match="estimated error") as said:
        points = ll.OverlapODE(rtol=1e-5).many(problems, [0.1])
    assert len(said) == 1
    assert points[0].attrs["quadrature_error"] > 1e-5


@pytest.mark.parametrize(("p", "k"), [(1, 1), pytest.param(3, 2, marks=pytest.mark.more)])
def test_moments_of_error_functions_equal_the_general_ones(p, k):
    n, lanes = p + k, 8
    rng = np.random.default_rng(p)
    A = rng.normal(size=(lanes, n, n - 1 if n > 2 else n))  # singular where it can be
    Omega = A @ np.swapaxes(A, 1, 2) * rng.uniform(0.01, 30, size=(lanes, 1, 1))
    c, noise = rng.normal(size=(lanes, n)), rng.uniform(size=lanes)
    last = (jnp.moveaxis(jnp.asarray(Omega), 0, -1), jnp.asarray(c.T), jnp.asarray(noise))
    got = jax.jit(erf_moments, static_argnums=3)(*last, p)
    general = jax.jit(jax.vmap(field_sum(activation("erf"), activation("erf"), p, k)))(Omega, c, noise)
    for ours, theirs in zip(got, general, strict=True):
        np.testing.assert_allclose(np.moveaxis(ours, -1, 0), theirs, rtol=1e-11, atol=1e-12)


def test_a_sweep_without_a_limit_takes_the_usual_one_for_all():
    grid = {"algorithm.learning_rate": np.linspace(0.1, 0.8, 8).tolist()}
    swept = [ll.sweep(ll.predict, committee(), grid, times=TIMES[:3], **x) for x in ({}, {"limit": ll.OverlapODE()})]
    np.testing.assert_array_equal(swept[0].risk, swept[1].risk)
