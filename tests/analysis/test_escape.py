"""Exit times from the plateau of phase retrieval: formulas, equations, measurements."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import digamma

import limitlab as ll
from limitlab.analysis.exits import averages as escape_averages
from limitlab.analysis.exits import ode as escape_ode
from limitlab.analysis.exits.exit_time import (
    AVERAGES,
    asymptotic_risk,
    critical_learning_rate,
    exit_time,
    measured_exit_time,
    optimal_learning_rate,
    overparametrisation_gain,
)
from limitlab.analysis.exits.formulas import Plateau, plateau_of
from limitlab.macro.overlaps.drift import drift
from limitlab.results.schema import dataset
from limitlab.states.overlaps import Overlaps, error_sum

retrieval = ll.library.escaping_mediocrity


# p, d, gamma | SGD and its standard error | printed t_qnc | full equations | with the noise of SGD (T = 0.2, Delta = 0)
def _overlaps(p, d, number, seed=3):
    """Overlaps of real unit vectors."""
    W = np.random.default_rng(seed).standard_normal((number, p + 1, d))
    W /= np.linalg.norm(W, axis=2, keepdims=True)
    gram = W @ np.swapaxes(W, 1, 2)
    return gram[:, 1:, 0], gram[:, 1:, 1:]


def _integrate(plateau, m, Q, t):
    """One run of the equations to time t, by an independent integrator."""
    p = plateau.width

    def rhs(_, y):
        return np.concatenate([x.ravel() for x in escape_ode.flow(plateau, y[:p], y[p:].reshape(p, p))])

    start = np.concatenate([m, Q.ravel()])
    end = solve_ivp(rhs, (0, t), start, method="LSODA", rtol=1e-10, atol=1e-12).y[:, -1]
    return end[:p], end[p:].reshape(p, p)


# ---------------------------------------------------------------- the seed's formulas


@pytest.mark.parametrize(("d", "T"), [(30, 0.2), (1000, 0.05), (1e6, 0.5)])
def test_quenched_time_of_one_unit_averages_over_chi_square(d, T):
    y = np.linspace(-60, 3, 40001)  # mu_0 = exp(2y): the trapezoid rule in the logarithm needs no care at zero
    density = 2 * np.exp(y - np.exp(2 * y) / 2) / math.sqrt(2 * math.pi)
    log = np.sum(density * np.log(T * d * np.exp(-2 * y) + 1 - T)) * (y[1] - y[0])
    answer = exit_time(retrieval(1, 0.05, 0.2), d, T)
    assert answer.time == pytest.approx(log / (8 * (1 - 0.3) - 4 * 0.05 * 0.2), rel=1e-7)


@pytest.mark.parametrize(("p", "d", "T"), [(1, 20, 0.3), (2, 12, 0.6), (3, 60, 0.3), (8, 40, 0.5)])
def test_quenched_average_is_that_of_unit_vectors(p, d, T):
    m, Q = _overlaps(p, d, 20000)
    mu, tau = escape_averages.start_numbers(m, Q, d)
    start = escape_averages._mean_log_overlaps(p, d, False)
    top = escape_averages.quenched_log(p, d, T, limiting=False).value + start  # the numerator hardly varies

    def z(values, mean):
        return (values.mean() - mean) / (values.std() / math.sqrt(len(values)))

    assert abs(z(np.log(mu), start)) < 4
    assert abs(z(np.log(T * (p + 1) * d / 2 + (mu - tau / (2 * p)) * (1 - T)), top)) < 4
    # Negative control: dropping tau_0 is seen at these sizes (not for one unit, which has none).
    assert p == 1 or abs(z(np.log(T * (p + 1) * d / 2 + mu * (1 - T)), top)) > 10


def test_the_drawn_starts_are_unit_vectors_in_law():
    real, drawn = _overlaps(3, 6, 20000), escape_averages.random_starts(3, 6, 20000, np.random.default_rng(9))
    assert np.allclose(np.einsum("njj->nj", drawn[1]), 1)
    for f in (
        lambda m, Q: m[:, 0] ** 2,
        lambda m, Q: Q[:, 0, 1] * m[:, 0] * m[:, 1],
        lambda m, Q: Q[:, 1, 2] ** 4,
    ):
        a, b = f(*real), f(*drawn)
        assert abs(a.mean() - b.mean()) < 4 * math.sqrt((a.var() + b.var()) / 20000)


def test_mean_log_overlap_at_finite_d_is_known_for_one_unit():
    for d in (2, 3, 17, 1e3, 1e7):
        exact = digamma(0.5) - digamma(d / 2) + math.log(d)
        assert escape_averages._mean_log_overlaps(1, d, False) == pytest.approx(exact, abs=2e-7)
    for p in (2, 5, 30):  # and goes to the chi-square value with an error of order 1/d
        limit = math.log(2) + digamma(p / 2)
        gaps = [escape_averages._mean_log_overlaps(p, d, False) - limit for d in (1e3, 1e4)]
        assert 0 < abs(gaps[0]) < 4 / 1e3
        assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.05)


def test_cumulants_and_draws_agree_where_both_are_good():
    p, d, T = 4, 60, 0.3
    series = escape_averages.quenched_log(p, d, T, limiting=False)
    mean, k2 = (p + 1) * (T * d + 1 - T) / 2, (8 * p**3 + 4 * p * (p - 1)) * (d - 1) / (d + 2)
    start = -escape_averages._mean_log_overlaps(p, d, False)
    drawn = escape_averages._drawn_log(p, d, T, False, mean, k2, start)
    assert series.stderr == 0
    assert drawn.value == pytest.approx(series.value, abs=4 * drawn.stderr + 2e-5)
    assert drawn.stderr < 1e-4


def test_laws_of_the_start_differ_by_one_over_d():
    problem, d = retrieval(1, 0.05), 1000
    finite, limiting = (exit_time(problem, d, 0.2, law=law).time for law in ("finite", "limiting"))
    assert (limiting - finite) * 8 * (1 - 0.3) == pytest.approx(1 / d, rel=0.05)
    assert exit_time(problem, d, 0.2).time == limiting  # as printed for one unit
    wide = retrieval(2, 0.05)
    assert exit_time(wide, d, 0.2).time == exit_time(wide, d, 0.2, law="finite").time  # as printed for several


def test_averaging_after_solving_takes_longer_than_before():
    for d in (20, 1000, 1e6):
        for T in (0.05, 0.5, 0.95):
            problem = retrieval(1, 0.05)
            assert exit_time(problem, d, T, "quenched").time > exit_time(problem, d, T, "annealed").time


# ---------------------------------------------------------------- the equations behind them


def test_plain_array_equations_are_those_of_the_overlap_ode():
    problem = retrieval(3, 0.4, 0.7)
    m, Q = (x[0] for x in _overlaps(3, 7, 1))
    state = Overlaps(*map(np.asarray, (Q, m[:, None], np.eye(1), np.ones(3))))
    expected = drift(problem, error_sum(problem), state)
    dm, dQ = escape_ode.flow(plateau_of("test", problem), m, Q)
    np.testing.assert_allclose(dm, expected.M[:, 0], atol=1e-13)
    np.testing.assert_allclose(dQ, expected.Q, atol=1e-13)
    assert escape_ode.excess_risk(m, Q) + 0.35 == pytest.approx(float(ll.risk(problem, state)), abs=1e-13)


def test_rates_at_the_start_are_the_linearised_equations():
    for p in (1, 2, 5):
        plateau = Plateau(p, 0.07, 0.4)
        m = 1e-6 * np.ones(p)
        dm, _ = escape_ode.flow(plateau, m, np.eye(p))
        np.testing.assert_allclose(2 * dm / m, plateau.growth, rtol=1e-9)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_one_unit_in_closed_form_is_the_integrated_equation(factor):
    plateau, d, T = Plateau(1, 0.06, 0.5), 400, 0.3
    exits = escape_ode.ode_exits(plateau, d, T, 256, 0, factor)
    finite = escape_averages.quenched_log(1, d, T, limiting=False).value / plateau.growth
    answer = escape_ode.ode_exit(exits, finite)
    closed = escape_averages.single_unit_exit(plateau, d, T, factor)
    assert answer.fraction == closed.fraction == 1
    assert abs(answer.value - closed.value) < 4 * answer.stderr + 1e-7
    assert answer.stderr < 1e-3


def test_measured_time_on_the_overlap_ode_is_the_closed_form():
    gamma, Delta, T, m0 = 0.05, 0.3, 0.4, 0.05
    base = retrieval(1, gamma, Delta)
    problem = ll.Problem(
        teacher=base.teacher,
        channel=base.channel,
        student=base.student,
        loss=base.loss,
        start=ll.OverlapStart(Q=1.0, M=m0, P=1.0),
        algorithm=base.algorithm,
    )
    times = np.linspace(0, 3, 3001)
    measured = measured_exit_time(ll.predict(problem, ll.OverlapODE(), times), T)
    u, (alpha, beta) = m0**2, plateau_of("test", problem).pull
    target = T + (1 - T) * u
    closed = math.log(target * (alpha - beta * u) / (u * (alpha - beta * target))) / (2 * alpha)
    assert measured.time == pytest.approx(closed, abs=2e-6)
    assert measured.reached
    assert measured.stderr == 0
    assert math.isnan(measured.samples)  # the limit has no dimension, hence no number of samples


# ---------------------------------------------------------------- where it is never reached


def test_the_optimal_rate_of_wide_students_leaves_but_does_not_arrive():
    problem = retrieval(4, 4 / 3)  # gamma_opt of four units
    assert optimal_learning_rate(problem).value == pytest.approx(4 / 3)
    for average in ("annealed", "quenched"):
        answer = exit_time(problem, 1000, 0.2, average)
        assert math.isfinite(answer.time)  # the formula has its number
        assert not answer.reached
        assert "Not reached" in answer.note
    for average in ("full", "noise_corrected"):
        answer = exit_time(problem, 1000, 0.2, average, starts=32)
        assert answer.time == answer.samples == math.inf
        assert answer.fraction_reached == 0
        assert "Not reached" in str(answer)
    assert exit_time(problem, 1000, 0.05, "full", starts=32).reached  # a small threshold is passed


@pytest.mark.parametrize("average", AVERAGES)
def test_a_rate_above_the_escape_bound_is_never_reached(average):
    for p in (1, 3):
        bound = critical_learning_rate(retrieval(p, 0.1, 0.5)).escape
        answer = exit_time(retrieval(p, 1.01 * bound, 0.5), 1000, 0.2, average)
        assert answer.time == math.inf
        assert not answer.reached
        assert "plateau" in answer.note


def test_a_threshold_below_the_noise_floor_is_never_reached():
    gamma, Delta = 0.05, 1.0
    floor = gamma * Delta / (1 - 6 * gamma) / 2  # share of the initial excess risk, 2
    problem = retrieval(1, gamma, Delta)
    assert exit_time(problem, 1000, 1 - 1.1 * floor, "full").reached
    below = exit_time(problem, 1000, 1 - 0.9 * floor, "full")
    assert below.time == math.inf
    assert "noise" in below.note
    formula = exit_time(problem, 1000, 1 - 0.9 * floor, "quenched")
    assert math.isfinite(formula.time)
    assert not formula.reached


def test_a_formula_outside_its_domain_says_so():
    answer = exit_time(retrieval(4, 0.5), 20, 0.05)
    assert math.isnan(answer.time)
    assert "undefined" in answer.note


# ---------------------------------------------------------------- learning rates


@pytest.mark.parametrize(("p", "Delta"), [(1, 0.0), (1, 2.0), (4, 0.5), (32, 0.0)])
def test_the_optimal_rate_minimises_samples_not_time(p, Delta):
    best = optimal_learning_rate(retrieval(p, 0.01, Delta))
    assert best.value == pytest.approx(p / (2 + 2 / p + 8 / p**2 + Delta))
    rates = best.value * np.array([0.9, 1.0, 1.1])
    logs = escape_averages.annealed_log(p, 1000, 0.2)
    plateaus = [Plateau(p, float(rate) / p, Delta) for rate in rates]
    samples = [logs / x.growth * 1000 / x.Gamma for x in plateaus]
    assert samples[1] < min(samples[0], samples[2])
    assert samples[1] == pytest.approx(best.prefactor * 1000 * logs)
    assert plateaus[0].growth > plateaus[1].growth > plateaus[2].growth  # the time itself only increases
    assert best.learns == (p == 1)
    assert ("not below the learning bound" in best.note) == (p > 1)


def test_one_unit_learns_below_its_critical_rate_and_not_above():
    for Delta in (0.0, 1.5):
        critical = critical_learning_rate(retrieval(1, 0.1, Delta))
        assert float(critical) == critical.escape == pytest.approx(2 / (12 + Delta))
        for share, grows in ((0.99, True), (1.01, False)):
            m, _ = _integrate(Plateau(1, share * critical.learning, Delta), np.array([0.02]), np.eye(1), 20.0)
            assert (m[0] > 0.02) == grows


@pytest.mark.parametrize("p", [2, 4, 16])
def test_wide_students_learn_below_p_over_six_and_not_above(p):
    critical = critical_learning_rate(retrieval(p, 0.1))
    assert critical.learning == pytest.approx(p / 6)
    assert critical.escape == pytest.approx(2 * optimal_learning_rate(retrieval(p, 0.1)).value)
    assert critical.sharp
    below, above = (escape_ode.ode_exits(Plateau(p, x / 6, 0.0), 1000, 0.95, 8, 0) for x in (0.9, 1.1))
    assert below.fraction == 1
    assert above.fraction == 0


def test_with_noise_the_learning_bound_of_wide_students_is_a_crossover():
    critical = critical_learning_rate(retrieval(4, 0.1, 0.5))
    assert not critical.sharp
    excess = [asymptotic_risk(retrieval(4, x * critical.learning, 0.5)).excess for x in (0.97, 1.0, 1.03)]
    assert excess[0] < excess[1] < excess[2]
    assert excess[2] - excess[1] == pytest.approx(excess[1] - excess[0], rel=0.2)  # no jump, no kink


# ---------------------------------------------------------------- where it ends


@pytest.mark.parametrize(
    ("p", "Gamma", "Delta"), [(1, 0.1, 1.0), (2, 0.1, 1.0), (4, 0.05, 0.5), (8, 0.1, 1.0), (2, 0.175, 0.0)]
)
def test_asymptotic_risk_is_where_the_equations_end(p, Gamma, Delta):
    answer = asymptotic_risk(retrieval(p, Gamma * p, Delta))
    m, Q = (x[0] for x in _overlaps(p, 200, 1))
    m, Q = _integrate(Plateau(p, Gamma, Delta), m, Q, 300.0)
    assert answer.excess == pytest.approx(float(escape_ode.excess_risk(m, Q)), abs=1e-6)
    assert float(answer) == pytest.approx(answer.excess + Delta / 2)
    np.testing.assert_allclose(np.abs(m), answer.overlap, atol=1e-4)
    assert answer.learned


def test_noiseless_ends():
    assert asymptotic_risk(retrieval(4, 0.6)).value == 0
    plateau = asymptotic_risk(retrieval(1, 0.2))
    assert (plateau.value, plateau.learned) == (2.0, False)
    lost = asymptotic_risk(retrieval(2, 0.4))
    assert math.isnan(lost.value)
    assert "depends on the start" in lost.note


# ---------------------------------------------------------------- measurements


def _trajectories(problem, times, risk, d=100, status=None):
    variables = {"risk": (("time", "replica"), risk)}
    if status is not None:
        variables["status"] = (("replica",), np.asarray(status))
    return dataset(problem, variables, {"time": times}, method="made up", attrs={"d": d})


def test_measured_time_is_the_first_crossing_run_by_run():
    problem = retrieval(2, 0.5, 0.4)  # noise floor 0.2
    times = np.array([0.0, 1.0, 2.0, 4.0])
    # Excess risks from 1: crosses 0.75 at 1.5; dips at once; never; dies after falling to 0.8.
    excess = np.array([[1, 1, 1, 2.0], [1, 0.5, 0.9, 1.9], [0.5, 0.9, 0.8, np.nan], [0.1, 0.1, 0.8, np.nan]])
    data = _trajectories(problem, times, 0.2 + excess, status=["ok", "ok", "ok", "diverged"])
    answer = measured_exit_time(data, 0.25)
    assert answer.fraction_reached == 0.5
    assert not answer.reached
    assert answer.time == pytest.approx((1.5 + 0.5) / 2)
    assert answer.stderr == pytest.approx(0.5)
    assert answer.samples == pytest.approx(answer.time * 2 * 100 / 0.5)
    assert "2 of 4" in answer.note
    none = measured_exit_time(data.isel(replica=[2]), 0.25)
    assert none.time == none.samples == math.inf
    assert none.note.startswith("Not reached")
    # Negative control: forgetting the floor moves the crossing.
    wrong = _trajectories(retrieval(2, 0.5, 0.0), times, 0.2 + excess[:, :1])
    assert abs(measured_exit_time(wrong, 0.25).time - 1.5) > 0.05


def test_measured_time_needs_a_risk_from_time_zero():
    problem, risk = retrieval(), np.ones((2, 1))
    with pytest.raises(ll.errors.InputError, match="time 0"):
        measured_exit_time(_trajectories(problem, [1.0, 2.0], risk), 0.2)
    with pytest.raises(ll.errors.InputError, match="nothing to leave"):
        measured_exit_time(_trajectories(retrieval(1, 0.1, 2.0), [0.0, 1.0], risk), 0.2)
    with pytest.raises(ll.errors.InputError, match="threshold"):
        measured_exit_time(_trajectories(problem, [0.0, 1.0], risk), 1.0)
    data = dataset(problem, {"mse": (("time",), [1.0])}, {"time": [0.0]}, method="x")
    with pytest.raises(ll.errors.InputError, match="risk"):
        measured_exit_time(data, 0.2)


@pytest.mark.more
def test_samples_of_a_measured_time_are_those_of_the_simulation():
    """The clock, against the simulation's own count; without the factor p it would be wrong by 2."""
    base = retrieval(2, 0.3)
    algorithm = ll.OnlineSGD(learning_rate=0.3, spherical=True, batch_size=3)
    problem = ll.Problem(
        teacher=base.teacher, student=base.student, loss=base.loss, start=base.start, algorithm=algorithm
    )
    data = ll.simulate(problem, 50, np.linspace(0, 1, 6), representation="overlaps")
    per_time = float(data["samples"][-1] / data["time"][-1])
    crossing = _trajectories(problem, [0.0, 1.0], np.array([[1.0], [0.0]]), d=50)
    answer = measured_exit_time(crossing, 0.5)
    assert answer.samples / answer.time == pytest.approx(per_time, rel=0.01)
    formula = exit_time(problem, 50, 0.5, "annealed")
    assert formula.samples / formula.time == pytest.approx(per_time, rel=0.01)


# ---------------------------------------------------------------- bad input


def test_other_problems_are_refused_in_words():
    def change(**parts):
        base = retrieval(2, 0.3)
        fields = {name: getattr(base, name) for name in ("teacher", "student", "loss", "start", "algorithm")}
        return ll.Problem(**{**fields, **parts})

    cases = {
        "square": change(teacher=ll.Committee(width=1, activation="erf")),
        "width 1": change(teacher=ll.Committee(width=2, activation="square")),
        "fixed": change(student=ll.Committee(width=2, activation="square", second_layer="trained")),
        "output weights": change(student=ll.Committee(width=2, activation="square", output_weights=[1.0, -1.0])),
        "spherical=True": change(algorithm=ll.OnlineSGD(learning_rate=0.1)),
        "squared norm": change(start=ll.RandomStart(sphere=True, scale=2.0)),
        "sphere=True": change(start=ll.InformedStart(overlap=0.1)),
        "second_layer": change(start=ll.RandomStart(sphere=True, second_layer="gaussian")),
        "fresh sample": ll.Problem(
            **{n: getattr(retrieval(), n) for n in ("teacher", "student", "loss", "start", "algorithm")},
            sample_ratio=2.0,
        ),
    }
    for words, problem in cases.items():
        with pytest.raises(ll.errors.LimitUndefinedError, match=words):
            exit_time(problem, 100, 0.2)
    assert optimal_learning_rate(cases["sphere=True"]).value == pytest.approx(0.4)  # rates ask for no random start


def test_bad_arguments_are_refused():
    problem = retrieval()
    for arguments, words in (
        ((1, 0.2), "d must be"),
        ((100, 0.0), "threshold"),
        ((100, 1.0), "threshold"),
        ((100, 0.2, "typical"), "average"),
    ):
        with pytest.raises(ll.errors.InputError, match=words):
            exit_time(problem, *arguments)
    with pytest.raises(ll.errors.InputError, match="law"):
        exit_time(problem, 100, 0.2, law="unknown")
    with pytest.raises(ll.errors.InputError, match="width"):
        overparametrisation_gain(0)


# ---------------------------------------------------------------- SGD
