"""Numbers in the words of the pages, measured."""

import math

import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the explorer needs pip install 'limitlab[explorer]'")

import limitlab as ll
from limitlab.explorer.description import Answers
from limitlab.explorer.pages import learn, pages
from limitlab.gallery.mixtures import critical_delta

PAGES = pages()


def scatter(d, runs, time):
    """Standard deviation over runs of the overlap on the page of descent, and its relative error."""
    page = PAGES["descent"]
    ds = ll.simulate(page.problem(page.defaults), d=d, times=np.array([0.0, time]), replicas=runs, seed=d)
    overlap = np.abs((ds.m / np.sqrt(ds.q)).isel(time=-1).values)
    return overlap.std(ddof=1), 1 / math.sqrt(2 * runs)


def exponent(small, large):
    """By which power of d the scatter falls, and its error: sizes and numbers of runs of two sets, and the time."""
    (one, e1), (two, e2) = (scatter(*asked) for asked in (small, large))
    by = math.log(large[0] / small[0])
    return math.log(two / one) / by, math.hypot(e1, e2) / by


def test_runs_of_descent_scatter_like_the_root_of_d_after_a_few_steps():
    found, error = exponent((100, 96, 0.1), (400, 48, 0.1))
    assert abs(found + 0.5) < 3 * error < 0.3, (found, error)
    assert abs(found + 1) > 3 * error and abs(found) > 3 * error  # the control: neither 1/d nor no change


@pytest.mark.slow
def test_runs_of_descent_scatter_as_their_page_says():
    found, error = exponent((100, 400, 1.0), (400, 200, 1.0))
    assert abs(found + 0.5) < 3 * error < 0.15, (found, error)
    assert scatter(100, 400, 1.0)[0] == pytest.approx(0.16, rel=0.15)
    assert scatter(400, 200, 1.0)[0] == pytest.approx(0.09, rel=0.15)
    page, times = PAGES["descent"], np.array([0.0, 1.0])
    theory = ll.predict(page.problem(page.defaults), ll.DMFT(trajectories=2048, batches=8), times)
    for d, runs in ((100, 400), (400, 200)):
        sims = ll.simulate(page.problem(page.defaults), d=d, times=times, replicas=runs, seed=1 + d)
        ends = [np.abs((ds.m / np.sqrt(ds.q)).isel(time=-1).values) for ds in (theory, sims)]
        error = math.hypot(*(end.std(ddof=1) / math.sqrt(end.size) for end in ends))
        assert abs(ends[0].mean() - ends[1].mean()) < 0.02 + 2 * error < 0.05
    said = " ".join(page.trust)
    assert "0.16 at d = 100" in said and "0.09 at d = 400" in said and "1/√d" in said and "within 0.02" in said


@pytest.mark.slow
def test_one_sphere_is_best_up_to_the_delta_that_the_cloud_page_names():
    found = ll.analysis.critical_delta(critical_delta.problem(), 40).delta
    words = " ".join(PAGES["cloud"].words(PAGES["cloud"].defaults, Answers({"flow": _flow()})).going_on)
    assert f"about {found:.2f} at d = 40" in words


def _flow():
    page = PAGES["cloud"]
    values = {**page.defaults, "horizon": 0.5}
    return ll.predict(page.problem(values), ll.RadialFlow(d=40, nodes=36, rtol=1e-4), np.array([0.0, 0.5]))


@pytest.mark.slow
@pytest.mark.parametrize("entry", PAGES["learn"].opens)
def test_twice_as_many_nodes_move_no_coefficient_by_more_than_the_learn_page_says(entry):
    page = PAGES["learn"]
    values = {**page.defaults, **page.opens[entry]}
    times = np.array(learn.times(values))
    one, two = (
        ll.predict(page.problem(values), ll.DimensionFree(nodes=count, rtol=learn.FULL["rtol"]), times)
        for count in (learn.FULL["nodes"], 2 * learn.FULL["nodes"])
    )
    assert float(np.abs(one.fourier - two.fourier).max()) < 0.005
    assert "more than 0.005" in " ".join(page.trust)
