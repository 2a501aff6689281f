"""Published numbers: thresholds, rates and tables that papers print, and what they print of exit times."""

import math

import numpy as np
import pytest

import limitlab as ll
from cases import fit, fit_curve, glm, wide
from limitlab.analysis.exits.exit_time import (
    AVERAGES,
    asymptotic_risk,
    exit_time,
    overparametrisation_gain,
)
from limitlab.analysis.exits.formulas import Plateau
from limitlab.analysis.linear.penalty import optimal_penalty, separability_threshold

# --- Bayes-optimal thresholds: Barbier et al. 2019 ------------------------------------------------------------------


def test_large_and_small_sample_ratios():
    """err = 0.44170/alpha for many samples, m = 2 alpha/pi for few."""
    ds = ll.sweep(
        ll.predict,
        glm(ll.GaussianPrior(), ll.Sign(), 1.0),
        {"sample_ratio": [1e-4, 1e4]},
        limit=ll.BayesOptimal(),
    )
    assert float(ds.m[0]) == pytest.approx(2e-4 / np.pi, rel=1e-4)
    assert float(ds.generalisation_error[1]) * 1e4 == pytest.approx(0.44170, abs=1e-5)


ANCHORS = [
    (ll.GaussianPrior(), ll.Modulus(), 0.5, 1.0, 1.12847),
    (ll.RademacherPrior(), ll.Sign(), 0.0, 1.24468, 1.49263),
    (ll.RademacherPrior(), ll.Door(0.6744897501960817), 1.36046, 1.0, 1.56643),
    (ll.GaussBernoulliPrior(0.4), ll.GaussianNoise(), 0.0, 0.4, 0.58925),
    (ll.GaussianPrior(), ll.Rectified(), 0.0, 2.0, 2.0),
]


@pytest.mark.more_of(
    "GaussianPrior()-Rectified()-0.0-2.0-2.0", "RademacherPrior()-Door(width=0.6744897501960817)-1.36046-1.0-1.56643"
)
@pytest.mark.parametrize(("prior", "channel", "weak", "information", "algorithmic"), ANCHORS, ids=str)
def test_published_thresholds(prior, channel, weak, information, algorithmic):
    t = ll.thresholds(prior, channel)
    assert t.weak_recovery == pytest.approx(weak, abs=1e-5)
    assert t.information == pytest.approx(information, abs=1e-5)
    assert t.algorithmic == pytest.approx(algorithmic, abs=1e-5)
    assert t.hard_phase == (information < algorithmic)
    assert t.perfect
    assert all(error < 1e-6 for error in t.accuracy.values())
    assert f"{t.algorithmic:.6g}" in str(t) or not t.hard_phase


# --- Convex fits: Sur and Candes 2019, Aubin et al. 2020 -----------------------------------------------------------


@pytest.mark.more
def test_unpenalised_logistic_regression_is_the_fixed_point_of_sur_and_candes():
    found = ll.predict(fit(ll.LogisticLoss(), ll.Logistic(), alpha=5.0, penalty=0.0, rho=5.0), ll.ERMAsymptotics())
    m, q = found.m.item(), found.q.item()
    np.testing.assert_allclose(
        [m / 5, np.sqrt((q - m**2 / 5) * 5), found.V.item()], [1.4994, 4.7436, 3.0269], atol=6e-5, rtol=0
    )


@pytest.mark.more
def test_large_sample_rates_of_a_noiseless_sign_teacher():
    margin = fit_curve(fit(ll.MaxMargin()), [1e3])
    np.testing.assert_allclose(1e3 * margin.generalisation_error, 0.50049, rtol=1e-4)
    np.testing.assert_allclose(1e3 / np.sqrt(margin.q), 1.0045, rtol=1e-4)
    logistic = fit_curve(fit(ll.LogisticLoss(), penalty=0.1116 / 1e6), [1e3])
    np.testing.assert_allclose(1e3 * logistic.generalisation_error, 0.44198, rtol=1e-4)
    hinge = fit_curve(fit(ll.HingeLoss(), penalty=0.782 / 1e6), [1e3])
    np.testing.assert_allclose(1e3 * hinge.generalisation_error, 0.4877, rtol=1e-4)
    ridge = ll.predict(fit(ll.SquareLoss(), alpha=1e6, penalty=np.pi / 2 - 1), ll.ERMAsymptotics())
    np.testing.assert_allclose(1e3 * ridge.generalisation_error, 0.24049, rtol=1e-4)


@pytest.mark.parametrize(
    ("channel", "rho", "threshold"),
    [(ll.Logistic(), 1.0, 2.278), (ll.Logistic(), 5.0, 3.071), (ll.Sign(flip=0.1), 1.0, 2.992)],
)
def test_separability_thresholds(channel, rho, threshold):
    assert abs(separability_threshold(channel, ll.GaussianPrior(variance=rho)) - threshold) < 6e-4


@pytest.mark.more
def test_optimal_logistic_penalty_at_large_sample_ratio():
    found = optimal_penalty(fit(ll.LogisticLoss(), alpha=100.0))
    np.testing.assert_allclose(100 * found.generalisation_error, 0.44198, rtol=3e-4)
    np.testing.assert_allclose(found.penalty * 1e4, 0.1116, rtol=0.01)
    assert found.within[0] < found.penalty < found.within[1]
    with pytest.raises(ll.errors.InputError, match="has no penalty"):
        optimal_penalty(fit(ll.MaxMargin()))


# --- Exit times of phase retrieval: Arnaboldi et al. 2023 ----------------------------------------------------------


retrieval = ll.library.escaping_mediocrity

# p, d, gamma | SGD and its standard error | printed t_qnc | full equations | with the noise of SGD (T = 0.2, Delta = 0)
TABLE = [
    (1, 1e3, 1 / 12, 1.533, 0.005, 1.643, 1.699, 1.527),
    (1, 1e4, 1 / 12, 2.091, 0.018, 2.218, 2.274, 2.101),
    (2, 1e4, 0.25, 1.430, 0.013, 1.435, 1.506, 1.397),
    (4, 1e3, 0.5, 0.803, 0.003, 0.785, 0.877, 0.795),
    (4, 1e4, 0.5, 1.144, 0.007, 1.139, 1.231, 1.150),
    (16, 1e3, 2.0, 0.742, 0.005, 0.684, 0.806, 0.728),
]


@pytest.mark.parametrize(("p", "d", "T", "gamma", "Delta"), [(1, 1000, 0.2, 0.05, 0.3), (3, 777, 0.4, 0.3, 0.1)])
def test_annealed_time_is_the_printed_formula(p, d, T, gamma, Delta):
    top = math.log((T * (p + 1) * d + (p + 1) * (1 - T)) / (2 * p))
    printed = top / (8 * (1 - gamma / p * (1 + 1 / p + 4 / p**2 + Delta / 2)))
    answer = exit_time(retrieval(p, gamma, Delta), d, T, "annealed")
    assert answer.time == pytest.approx(printed, rel=1e-14)
    assert answer.samples == pytest.approx(printed * p * d / gamma, rel=1e-14)
    assert answer.stderr == 0
    assert answer.reached
    assert answer.note == ""


def test_annealed_time_of_one_unit_is_the_short_printed_formula():
    answer = exit_time(retrieval(1, 0.07, 0.5), 500, 0.3, "annealed")
    assert float(answer) == pytest.approx(math.log(0.3 * 500 + 0.7) / (8 * (1 - 6 * 0.07) - 4 * 0.07 * 0.5), rel=1e-14)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"p={row[0]},d={row[1]:g}")
def test_the_table_of_exit_times_is_reproduced(row):
    p, d, gamma, sgd, stderr, printed, full, corrected = row
    problem, T = retrieval(p, gamma), 0.2
    answers = {average: exit_time(problem, d, T, average) for average in AVERAGES}
    assert all(a.reached for a in answers.values())
    assert answers["quenched"].time == pytest.approx(printed, abs=6e-4)
    # The last two columns were drawn from a few hundred starts: 0.008 covers their error and ours.
    assert answers["full"].time == pytest.approx(full, abs=0.008)
    assert answers["noise_corrected"].time == pytest.approx(corrected, abs=0.008)
    assert answers["full"].stderr < 2e-3
    # Against SGD: the correction is asymptotic in d; without the noise factor it fails by far.
    assert abs(answers["noise_corrected"].time - sgd) < 0.02 * sgd + 2 * stderr
    assert answers["full"].time - sgd > 0.03 * sgd + 2 * stderr


def test_noise_factor_of_one_unit_is_the_short_formula():
    for gamma, Delta in ((1 / 12, 0.0), (0.03, 0.8)):
        assert Plateau(1, gamma, Delta).noise_factor == pytest.approx(1 / (1 - gamma * (6 + Delta / 2)), rel=1e-13)
    assert Plateau(1, 1 / 12, 0.0).noise_factor == pytest.approx(2)


def test_gain_of_width():
    assert overparametrisation_gain(1).at_optimum == overparametrisation_gain(1, 3.0).attainable == 1
    for Delta in (0.0, 1.0, 7.0):
        gain = overparametrisation_gain(math.inf, Delta)
        assert gain.at_optimum == pytest.approx((12 + Delta) / (2 + Delta))
        assert gain.attainable <= gain.at_optimum + 1e-12
    for p in (2, 5, 100):
        c = 1 + 1 / p + 4 / p**2
        assert overparametrisation_gain(p).attainable == pytest.approx(2 / 3 * (6 - c))
    assert overparametrisation_gain(math.inf).attainable == pytest.approx(10 / 3)


def test_one_unit_ends_at_the_printed_risk_and_several_below_it():
    for Gamma, Delta in ((0.02, 0.5), (0.1, 1.0)):
        printed = Gamma * Delta / (1 - 6 * Gamma)
        assert asymptotic_risk(retrieval(1, Gamma, Delta)).excess == pytest.approx(printed, rel=1e-12)
        wide = asymptotic_risk(retrieval(8, 8 * Gamma, Delta))
        assert wide.mutual < 1  # coinciding units, for which the printed risk would hold, are unstable
        assert wide.excess < printed
    assert wide.excess < 0.9 * printed
    small = asymptotic_risk(retrieval(8, 8e-4, 0.5)).excess  # to first order in the rate they agree
    assert small == pytest.approx(1e-4 * 0.5, rel=1e-3)


# --- Wide students: Sarao Mannelli et al. 2020, and the formula sheet ----------------------------------------------


@pytest.mark.parametrize(("alpha", "found"), [(1.5, 0.0), (3.0, 1.0)])
@pytest.mark.parametrize("width", [20, math.inf])
def test_wide_students_never_recover_at_one_and_a_half_and_always_at_three(alpha, found, width):
    ds = ll.predict(wide(alpha), ll.MatrixFlow(d=20, replicas=4, width=width), [1e2, 1e5])
    assert float(ds.success.mean()) == found
    assert set(ds.status.values) == {"ok"}
    assert np.all(np.isfinite(ds.success_time) == bool(found))


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "found"), [(1.5, 0.0), (3.0, 1.0)])
def test_the_same_at_forty_dimensions_and_twenty_instances(alpha, found):
    for d, replicas in ((20, 20), (40, 12)):
        ds = ll.predict(wide(alpha), ll.MatrixFlow(d=d, replicas=replicas, width=math.inf), [1e6])
        assert float(ds.success.mean()) == found


def phase(alpha):
    return glm(ll.GaussianPrior(), ll.Modulus(), alpha)


@pytest.mark.parametrize(("alpha", "unique"), [(1.5, False), (3.0, True)])
def test_never_unique_at_one_and_a_half_and_always_at_three(alpha, unique):
    verdicts = [ll.uniqueness(phase(alpha), d=20, seed=0, replica=r) for r in range(6)]
    assert all(v.unique is unique and (v.kappa > 0) is unique for v in verdicts)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "instances"), [(20, 20), (40, 12)])
def test_the_table_of_the_sheet(d, instances):
    for alpha, low, high in ((1.5, 0.0, 0.0), (2.0, 0.0, 0.75), (3.0, 1.0, 1.0)):
        share = np.mean([ll.uniqueness(phase(alpha), d=d, seed=1, replica=r).unique for r in range(instances)])
        assert low <= share <= high
