"""The square on every gallery problem: SGD at d = 2000 against the ODE, and at d = 100 against the SDE, 64 replicas.

From a random start near a saddle the noise of SGD moves the escape at O(1) at every d, so that only the SDE can agree
there; those problems are compared with the SDE alone.
"""

import importlib

import pytest

import limitlab as ll

MODULES = ("escape", "escape_wide", "second_layer", "unify", "plateau")
PROBLEMS = {
    name: case
    for module in MODULES
    for name, case in importlib.import_module(f"limitlab.gallery.committees.{module}").problems().items()
}
REPLICAS = 64


def test_every_entry_offers_problems_for_the_square():
    assert len(PROBLEMS) >= 8
    assert any(not case[0].start.random for case in PROBLEMS.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, case in PROBLEMS.items() if not case[0].start.random])
def test_sgd_at_large_d_follows_the_ode(name):
    problem, times = PROBLEMS[name]
    sim = ll.simulate(problem, 2000, times, replicas=REPLICAS, seed=11, representation="overlaps")
    gap = ll.compare(sim, ll.predict(problem, ll.OverlapODE(), times))
    assert gap.agrees, str(gap)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_sgd_at_small_d_has_the_means_of_the_sde(name):
    problem, times = PROBLEMS[name]
    sim = ll.simulate(problem, 100, times, replicas=REPLICAS, seed=12, representation="overlaps")
    gap = ll.compare(sim, ll.predict(problem, ll.OverlapSDE(d=100, replicas=REPLICAS, seed=13), times))
    assert gap.agrees, str(gap)


@pytest.mark.slow
def test_the_square_is_open_for_a_wrong_rate():
    """Negative control: the same comparison with a learning rate 10 % off must fail."""
    from dataclasses import replace

    problem, times = PROBLEMS["second layer trained"]
    sim = ll.simulate(problem, 2000, times, replicas=REPLICAS, seed=11, representation="overlaps")
    off = replace(problem, algorithm=replace(problem.algorithm, learning_rate=1.1 * problem.algorithm.learning_rate))
    assert not ll.compare(sim, ll.predict(off, ll.OverlapODE(), times), check_problem=False).agrees
