"""Gallery entries on sparse targets: their checks pass on results that obey the claim and fail on doctored ones; the
computations themselves are slow."""

import numpy as np
import pytest
from drawers import both

from limitlab.gallery import ENTRIES, run_entry
from limitlab.gallery.fits import crossing, power
from limitlab.gallery.sparse import linear_vs_sgd, rates, saddle
from limitlab.results.schema import dataset

NAMES = ("saddle", "linear-vs-sgd", "rates")


def scattered(means, runs, relative, seed=0):
    """Runs around the means, whose average is the mean."""
    noise = np.random.default_rng(seed).standard_normal((len(means), runs))
    return np.asarray(means)[:, None] * (1 + relative * (noise - noise.mean(axis=1, keepdims=True)))


# --- results that obey the claims ---------------------------------------------------------------------------


def flat(problem, times, risk=0.5):
    return dataset(problem, {"risk": (("time",), np.full(len(times), risk))}, {"time": times}, method="made up")


def saddle_data(rate=saddle.MU_2, exponent=0.5, stairs=0.0, late=1.0, power_sgd=0.0):
    two = np.log(saddle.TWO_D) / (2 * rate) - 0.3
    three = 1.3 * np.asarray(saddle.THREE_D, float) ** exponent
    data = {f"flat_{name}": flat(saddle.problem(text), saddle.FLAT_TIMES) for name, text in saddle._leaps().items()}
    times = np.linspace(0, 8, 9)
    data |= {f"path_{d}": flat(saddle.problem(saddle.TWO), times) for d in saddle.SHOWN_D}
    data["two"] = saddle._exits(saddle.problem(saddle.TWO), saddle.TWO_D, list(two))
    level = 0.55 + stairs * np.log(saddle.TWO_D)
    data["stairs"] = saddle._exits(saddle.problem(saddle.STAIRS), saddle.TWO_D, list(level))
    data["three"] = saddle._exits(saddle.problem(saddle.THREE), saddle.THREE_D, [[t, t] for t in three])
    runs = scattered(late * saddle.theory_two(data, saddle.SGD_TWO), saddle.RUNS_TWO, 0.03)
    data["two_sgd"] = saddle._exits(saddle.problem(saddle.TWO), saddle.SGD_TWO, runs)
    means = late * 1.3 * np.asarray(saddle.SGD_THREE, float) ** 0.5 * (np.array(saddle.SGD_THREE) / 50) ** power_sgd
    runs = scattered(means, saddle.RUNS_THREE, 0.06, seed=1)
    data["three_sgd"] = saddle._exits(saddle.problem(saddle.THREE), saddle.SGD_THREE, runs)
    return data


def linear_data(sgd=1.0, kernel=0.0, level=1.0):
    data = {}
    for P in linear_vs_sgd.TARGETS:
        one, times = linear_vs_sgd.problem(P), linear_vs_sgd.TIMES[P]
        risk = linear_vs_sgd.LEVEL + 0.01 * (times.mean() - times)
        data[f"flow_{P}"] = dataset(one, {"risk": (("time",), risk)}, {"time": times}, method="made up")
        d, last = np.asarray(linear_vs_sgd.SGD_D, float), linear_vs_sgd.SGD_D[-1]
        n = level * times.mean() / linear_vs_sgd.NOISE * last * (d / last) ** sgd
        data[f"sgd_{P}"] = linear_vs_sgd._table(one, linear_vs_sgd.SGD_D, scattered(n, 4, 0.02), "made up")
        d = linear_vs_sgd.KERNEL_D[P]
        n = 0.5 * np.asarray(d, float) ** (P + kernel)
        data[f"kernel_{P}"] = linear_vs_sgd._table(one, d, scattered(n, 4, 0.02), "made up")
    return data


def rates_data(d=-1.0, width=-0.5, step=0.5, both=0.5):
    def table(name, x, exponent, runs, relative=0.3):
        x = np.asarray(x, float)
        squares = 0.01 * (x / x[0]) ** (2 * exponent)
        squares = squares * (1 + 0.1 / x) ** -2 if name == "d" and runs == 1 else squares  # approached from above
        squares = squares[:, None] if runs == 1 else scattered(squares, runs, relative)
        return rates._table(name, list(x), squares, "made up")

    return {
        "dimension": table("d", rates.DIMENSIONS, d, 1),
        "width": table("width", rates.UNITS, width, rates.DRAWS),
        "step": table("d_eta", rates.STEPS, step, rates.PAIRS),
        "step_dimension": table("d", rates.SGD_D, both, rates.PAIRS),
    }


MADE = {"saddle": saddle_data, "linear-vs-sgd": linear_data, "rates": rates_data}
# entry -> what is made wrong, and the words of a check that must then fail
WRONG = {
    "saddle": [
        ({"rate": 1.05 * saddle.MU_2}, "costs log(10)/(2 mu_2)"),
        ({"exponent": 0.55}, "grows like d^(1/2)"),
        ({"stairs": 0.02}, "does not grow with d"),
        ({"late": 1.15}, "leaves the leap of two with the flow"),
        ({"late": 1.15}, "leaves the leap of three within 10 %"),
        ({"power_sgd": 0.2}, "power of d at these sizes"),
    ],
    "linear-vs-sgd": [
        ({"sgd": 1.2}, "SGD needs samples like d,"),
        ({"level": 1.1}, "as the dimension-free flow says"),
        ({"kernel": -0.4}, "the kernel needs samples like"),
        ({"kernel": -1.0}, "d is not enough"),
    ],
    "rates": [
        ({"d": -0.5}, "in the end like 1/d"),
        ({"d": -0.4}, "faster than the bound"),
        ({"width": -0.25}, "falls like M^(-1/2)"),
        ({"step": 1.0}, "grows like eta^(1/2)"),
        ({"step": 1.0}, "one factor c"),
        ({"both": 0.0}, "grows like d^(1/2)"),
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_the_checks_pass_on_results_that_obey_the_claim(name):
    checks = ENTRIES[name].check(MADE[name]())
    assert all(check.ok for check in checks), [check for check in checks if not check.ok]


@pytest.mark.parametrize(("name", "wrong", "words"), [(n, *case) for n, cases in WRONG.items() for case in cases])
def test_the_check_that_is_about_it_fails_on_a_doctored_result(name, wrong, words):
    about = [check for check in ENTRIES[name].check(MADE[name](**wrong)) if words in check.statement]
    assert about
    assert not all(check.ok for check in about)


def test_a_risk_that_moves_in_infinite_dimension_is_seen():
    data = saddle_data()
    data["flat_two"] = flat(saddle.problem(saddle.TWO), saddle.FLAT_TIMES, 0.5 - 1e-6)
    assert not saddle.check(data)[0].ok


def test_a_run_that_never_left_is_not_averaged_away():
    data = saddle_data()
    times = data["two_sgd"].exit_time.values.copy()
    times[0, 0] = np.nan
    data["two_sgd"] = saddle._exits(saddle.problem(saddle.TWO), saddle.SGD_TWO, times)
    assert data["two_sgd"].status.values[0, 0] == "not_reached"
    about = [check for check in saddle.check(data) if "leap of two with the flow" in check.statement]
    assert not about[0].ok


@pytest.mark.parametrize("name", NAMES)
def test_the_figure_says_what_it_shows(name):
    figure = both(ENTRIES[name].figure(MADE[name]()))
    assert len(figure.get_suptitle()) > 20
    for axes in figure.axes:
        assert axes.get_xlabel() and axes.get_ylabel() and axes.lines
        assert axes.get_title(loc="left") and axes.get_legend() is not None


def test_twins_share_their_start_and_nothing_else(monkeypatch):
    """The distance is nought before the first step, grows with the step, and needs no more than independent data."""
    monkeypatch.setattr(rates, "TIME", 0.0)
    np.testing.assert_allclose(rates.twins(12, 0.1, pairs=2), 0.0, atol=1e-30)
    monkeypatch.setattr(rates, "TIME", 0.5)
    small, large = (np.mean(rates.twins(12, noise, pairs=8)) for noise in (0.02, 0.2))
    assert 0 < 3 * small < large < 30 * small


def test_crossing_and_power_are_exact_on_lines():
    x = np.linspace(0, 3, 4)
    assert crossing(x, 2 * x, 3.0) == pytest.approx(1.5)
    assert np.isnan(crossing(x, x, 10.0))
    assert crossing(x, x + 5, 1.0) == 0.0
    x = np.array([1.0, 10.0, 100.0])
    slope, error, factor = power(x, 3 * x**-0.7, [0.1, 0.1, 0.1])
    assert (slope, factor) == (pytest.approx(-0.7), pytest.approx(3.0))
    assert error == pytest.approx(0.1 / np.log(10) / np.sqrt(2))
    assert np.isnan(power(x, x)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_claim_holds_when_really_computed(name, tmp_path):
    verdict = run_entry(name, tmp_path)
    assert verdict.ok, verdict.text
