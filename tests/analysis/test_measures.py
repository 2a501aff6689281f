"""Potentials, optimality, finite width, critical delta, distances."""

import math
import sys

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import fsolve
from scipy.special import ndtr

import limitlab as ll
from cases import radial as problem
from limitlab.analysis.mixtures.wasserstein import line_distance

RHO = (np.array([0.8, 1.2, 2.0]), np.array([0.3, 0.5, 0.2]))


def test_the_risk_is_a_quadratic_form_and_psi_its_derivative():
    p = ll.analysis.potentials(problem(0.5, noise=0.2), 12)
    r, w = RHO
    assert p.risk(RHO) == pytest.approx(0.5 + 0.1 + w @ p.V(r) + w @ p.U(r, r) @ w / 2, abs=1e-13)
    other = (np.append(r, 1.5), np.append(w * (1 - 1e-6), 1e-6))
    slope = (p.risk(other) - p.risk(RHO)) / 1e-6
    psi = p.psi(np.append(r, 1.5), RHO)
    assert slope == pytest.approx(psi[-1] - w @ psi[:-1], rel=1e-4)
    np.testing.assert_allclose(p.U(r, r), p.U(r, r).T, atol=1e-14)


def test_risks_of_results_and_of_laws_agree():
    learner = problem(0.4)
    flow = ll.predict(learner, ll.RadialFlow(d=40, nodes=48), times=np.array([0.0, 1.0]))
    for i in range(2):
        assert ll.analysis.potentials(learner, 40).risk(flow.isel(time=i)) == pytest.approx(
            float(flow.risk[i]), abs=1e-9
        )


@pytest.mark.parametrize(
    ("delta", "d"),
    [
        pytest.param(0.2, 40, marks=pytest.mark.more),
        pytest.param(0.5, 10, marks=pytest.mark.more),
        pytest.param(0.8, 40, marks=pytest.mark.more),
        (0.45, math.inf),
    ],
)
def test_the_global_minimum_is_certified(delta, d):
    learner = problem(delta)
    best = ll.analysis.global_minimum(learner, d)
    assert best.gap <= 1e-10 and best.law.weight.sum() == pytest.approx(1.0)
    assert ll.analysis.optimality_gap(learner, best.law, d).gap < 1e-8
    p, rng = ll.analysis.potentials(learner, d), np.random.default_rng(0)
    for _ in range(50):  # no law is better, and the gap of each bounds its excess
        r, w = rng.exponential(1.5, 4), rng.dirichlet(np.ones(4))
        gap = ll.analysis.optimality_gap(learner, (r, w), d)
        assert 0 < p.risk((r, w)) - best.risk <= gap.gap + 1e-12
    assert (best.at_infinity > 0) == (delta > 0.474 or d == 10)


def test_infinite_d_can_reach_risk_zero_above_the_critical_delta():
    assert ll.analysis.global_minimum(problem(0.6)).risk < 1e-20
    assert ll.analysis.global_minimum(problem(0.4)).risk > 1e-3


def test_critical_delta_at_infinite_d_solves_its_equations():
    def q(s):
        z = np.array([0.5, 1.5]) / s
        phi = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        return -2.5 + 10 * (s * phi[0] - 0.5 * ndtr(-z[0])) - 10 * (s * phi[1] - 1.5 * ndtr(-z[1]))

    delta, r = fsolve(lambda x: [q((1 + x[0]) * x[1]) - 1, q((1 - x[0]) * x[1]) + 1], [0.45, 1.7], xtol=1e-13)
    found = ll.analysis.critical_delta(problem())
    assert found.delta == pytest.approx(delta, abs=1e-7) and found.radius == pytest.approx(r, abs=1e-6)
    finite = ll.analysis.critical_delta(problem(), 60)
    assert finite.delta < found.delta and math.isinf(finite.rival)
    for shift, optimal in ((-0.01, True), (0.01, False)):
        near = problem(finite.delta + shift)
        best = ll.analysis.global_minimum(near, 60)
        assert (len(best.law.r) == 1) == optimal


@pytest.mark.more
def test_there_may_be_no_critical_delta():
    with pytest.raises(ll.errors.ConvergenceError, match="no delta"):
        ll.analysis.critical_delta(problem(), 10)


@pytest.mark.parametrize("activation", [None, "tanh"])
def test_the_law_of_finite_width(activation):
    """E risk_N = risk + K/N for independent units: z-score over draws of networks and data."""
    d, N, learner = 8, 5, problem(0.5, activation=activation)
    sigma = np.tanh if activation else (lambda x: np.interp(x, [0.5, 1.5], [-2.5, 7.5]))
    rng = np.random.default_rng(1)
    r = rng.choice(RHO[0], (3000, N), p=RHO[1])
    w = rng.normal(size=(3000, N, d))
    w = w * (r / np.linalg.norm(w, axis=2))[:, :, None]
    y = rng.choice([-1.0, 1.0], (3000, 60))
    x = (1 + 0.5 * y)[:, :, None] * rng.normal(size=(3000, 60, d))
    losses = np.mean((y - sigma(x @ w.transpose(0, 2, 1)).mean(axis=2)) ** 2, axis=1) / 2
    risk, K = ll.analysis.potentials(learner, d).risk(RHO), ll.analysis.finite_width(learner, RHO, d)
    error = losses.std() / math.sqrt(len(losses))
    assert abs(losses.mean() - risk - K / N) < 4 * error
    assert abs(losses.mean() - risk) > 8 * error  # control: without the correction


# --- distances ---------------------------------------------------------------------------------------------


def test_distances_on_a_line_are_optimal():
    import ot

    rng = np.random.default_rng(0)
    for p in (1.0, 2.0, 3.0):
        x, y, a, b = rng.normal(size=30), rng.normal(size=21), rng.random(30), rng.random(21)
        costs = np.abs(x[:, None] - y) ** p
        plan = float(ot.emd2(a / a.sum(), b / b.sum(), costs))
        assert line_distance(x, a, y, b, p) == pytest.approx(plan ** (1 / p), rel=1e-9)
    assert line_distance([1.0], [1.0], [1.0, 3.0], [0.75, 0.25]) == pytest.approx(1.0)


def clouds(rng, n, m, weighted):
    """Two results that tell of n and m units with two numbers each."""
    for count in (n, m):
        units = {"r": ("particle", rng.random(count)), "a": ("particle", rng.normal(size=count))}
        yield xr.Dataset({**units, **({"weight": ("particle", rng.random(count))} if weighted else {})})


@pytest.mark.parametrize(("n", "m", "weighted"), [(7, 7, False), (40, 40, False), (40, 40, True), (30, 21, False)])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_distances_of_clouds_are_those_of_the_best_plan(n, m, weighted, p, monkeypatch):
    import ot

    one, two = clouds(np.random.default_rng(n), n, m, weighted)
    x, y = (np.stack([ds.r.values, ds.a.values], axis=1) for ds in (one, two))
    a, b = (ds.weight.values if weighted else np.ones(ds.sizes["particle"]) for ds in (one, two))
    costs = np.linalg.norm(x[:, None] - y, axis=2) ** p
    best = float(ot.emd2(a / a.sum(), b / b.sum(), costs)) ** (1 / p)
    assert float(ll.wasserstein(one, two, p)) == pytest.approx(best, rel=1e-12)
    if n == m:
        assert np.mean(np.diagonal(costs)) ** (1 / p) > 1.05 * best  # unit by unit is not the best plan
    monkeypatch.setitem(sys.modules, "ot", None)  # as if it were not installed
    if n == m and not weighted:
        assert float(ll.wasserstein(one, two, p)) == pytest.approx(best, rel=1e-12)
    else:
        with pytest.raises(ll.errors.InputError, match=r'pip install "limitlab\[transport\]"'):
            ll.wasserstein(one, two, p)


def test_distances_between_results():
    times = np.array([0.0, 1.0])
    nodes = ll.predict(problem(), ll.RadialFlow(d=40, nodes=48), times=times)
    cells = ll.predict(problem(), ll.RadialFlow(d=40, method="volumes"), times=times)
    assert float(ll.wasserstein(nodes, nodes).max()) < 1e-12
    near = ll.wasserstein(nodes, cells)
    assert near.dims == ("time",) and float(near.max()) < 0.02
    other = ll.predict(problem(scale=1.0), ll.RadialFlow(d=40, nodes=48), times=times)
    assert float(ll.wasserstein(nodes, other)[0]) == pytest.approx(0.2, rel=0.02)  # r0 is scale times one variable


def test_distances_in_several_dimensions_use_the_best_plan():
    learner = problem(activation="relu", student={"second_layer": "trained"}, start={"second_layer": "rademacher"})
    one, two = (ll.predict(learner, ll.RadialFlow(), times=np.array([t])) for t in (0.5, 1.0))
    two = two.assign_coords(time=one.time)
    points = [np.stack([ds.r.values[0], ds.a.values[0]], axis=1) for ds in (one, two)]
    pairs = [np.mean(np.sum((points[0] - q) ** 2, axis=1)) for q in (points[1], points[1][::-1])]
    assert float(ll.wasserstein(one, two)[0]) == pytest.approx(math.sqrt(min(pairs)), rel=1e-9)


def test_histograms_of_norms():
    flow = ll.predict(problem(), ll.RadialFlow(d=40, nodes=48), times=np.array([0.0, 1.0]))
    seen = ll.analysis.radial_density(flow, np.linspace(0, 3, 31))
    np.testing.assert_allclose(seen.density.sum("radius") * 0.1, 1.0, atol=1e-9)
    with pytest.raises(ll.errors.InputError, match="increase"):
        ll.analysis.radial_density(flow, [1.0, 0.5])


@pytest.mark.parametrize(
    ("act", "pattern"),
    [
        (lambda: ll.analysis.potentials(problem(), 20).V(-1.0), "norms >= 0"),
        (lambda: ll.analysis.potentials(problem(activation="relu"), 20).V(math.inf), "bounded"),
        (lambda: ll.analysis.optimality_gap(problem(), (np.array([-0.1]), np.array([1.0])), 20), ">= 0"),
        (lambda: ll.analysis.optimality_gap(problem(), (np.array([1.0]), np.array([-1.0])), 20), "weights >= 0"),
        (lambda: ll.analysis.global_minimum(problem(rule={"weight_decay": 0.1})), "weight_decay=0"),
        (lambda: ll.analysis.stationary_law(problem(), 20), "temperature > 0"),
        (lambda: ll.analysis.finite_width(problem(), (np.array([math.inf]), np.array([1.0])), 20), "finite norms"),
        (lambda: ll.wasserstein(1, 2), "results"),
        (lambda: ll.wasserstein(xr.Dataset(), xr.Dataset()), "single units"),
    ],
)
def test_bad_measures_are_refused_in_words(act, pattern):
    with pytest.raises(ll.errors.InputError, match=pattern):
        act()
