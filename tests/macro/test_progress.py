"""Every limit that may take seconds says how far it is, can be stopped, and gives the same numbers."""

import numpy as np
import pytest

import limitlab as ll
from cases import committee, descent, mixture
from limitlab.macro.overlaps.size import is_cheap
from limitlab.numerics.gauss.fields import field_sum
from limitlab.verbs import Pace, tell, tick, turns, verb

STAIRS = ll.library.merged_staircase("z1 + z1*z2", step_noise=0.05)
NOISY = mixture(p=8, activation="relu", temperature=0.1, weight_decay=0.1)
CASES = {
    "OverlapODE": (committee(p=2, k=1), ll.OverlapODE(), [0.5, 1.0]),
    "OverlapODE, drawn": (committee(p=2, k=1), ll.OverlapODE(d=50, replicas=2), [0.5]),
    "OverlapSDE": (committee(p=2, k=1), ll.OverlapSDE(d=100, replicas=2, samples=4), [0.1, 0.2]),
    "HighDimMeanField": (committee(p=4, k=1), ll.HighDimMeanField(d=50), [0.5]),
    "DimensionFree": (STAIRS, ll.DimensionFree(), [0.5]),
    "MeanField": (mixture(p=8, activation="relu"), ll.MeanField(d=5, particles=8), [0.2]),
    "MeanField with noise": (NOISY, ll.MeanField(d=5, particles=8), [0.02, 0.05]),
    "RadialFlow": (mixture(p=8, activation="relu"), ll.RadialFlow(d=20, nodes=48), [0.2]),
    "RadialFlow, cells": (NOISY, ll.RadialFlow(d=20, cells=50), [0.1, 0.2]),
    "RadialFlow, proximal": (mixture(p=8, activation="relu"), ll.RadialFlow(d=20, nodes=48, method="jko"), [0.2, 0.3]),
    "DMFT": (descent(ll.GradientDescent(0.02)), ll.DMFT(trajectories=64, batches=2), [0.2]),
    "MatrixFlow": (ll.library.wide_phase_retrieval(2.5, width=4), ll.MatrixFlow(d=4, replicas=2), [0.1, 0.2]),
}


@pytest.fixture
def impatient(monkeypatch):
    """One step a call, and every tick is told."""
    monkeypatch.setattr("limitlab.verbs.CALL", 0.0)
    monkeypatch.setattr("limitlab.verbs.BETWEEN", 0.0)
    monkeypatch.setattr("limitlab.numerics.ode.integrate.FIRST_PIECE", 1)
    monkeypatch.setattr("limitlab.macro.dmft.solve.PIECE", 1)


@pytest.mark.more_of(
    "RadialFlow, cells",
    "MatrixFlow",
    "RadialFlow",
    "HighDimMeanField",
    "DimensionFree",
    "RadialFlow, proximal",
    "OverlapSDE",
    "MeanField with noise",
    "MeanField",
    "DMFT",
)
@pytest.mark.parametrize("name", CASES)
def test_a_limit_ticks_and_can_be_stopped(name, impatient):
    problem, limit, times = CASES[name]
    ticks: list[float] = []

    def watch(done, total, label):
        ticks.append(done / total)
        assert 0 <= done <= total and type(limit).__name__ in label

    seen = ll.predict(problem, limit, times, progress=watch)
    assert len(ticks) > 3 and max(ticks) > 0.5
    if name not in ("RadialFlow", "RadialFlow, cells", "MeanField", "DimensionFree"):  # they refine, and begin anew
        assert ticks == sorted(ticks)

    class Enough(Exception):
        pass

    def stop(done, total, label):
        if done > 0:
            raise Enough

    with pytest.raises(Enough):
        ll.predict(problem, limit, times, progress=stop)
    again = ll.predict(problem, limit, times)  # usable afterwards, and nobody watches: no number changed
    for variable in seen.data_vars:
        np.testing.assert_array_equal(seen[variable], again[variable])


def test_pieces_do_not_change_numbers(monkeypatch):
    """The same as in one call, whatever the pieces."""
    for name in ("OverlapODE", "OverlapSDE", "DMFT"):
        problem, limit, times = CASES[name]
        whole = ll.predict(problem, limit, times)
        with monkeypatch.context() as patch:
            patch.setattr("limitlab.verbs.CALL", 0.0)
            patch.setattr("limitlab.numerics.ode.integrate.FIRST_PIECE", 1)
            pieces = ll.predict(problem, limit, times)
        for variable in whole.data_vars:
            np.testing.assert_array_equal(whole[variable], pieces[variable])


def test_turns_share_the_work(impatient):
    told = []

    @verb
    def work(progress=None):
        tell(0, 1, "work")
        for _ in turns("ab"):
            for _ in turns("xy"):
                tick(0.5)
        tick(1.0)

    work(progress=lambda done, total, label: told.append((done / total, label)))
    assert [share for share, _ in told] == [0, 0, 0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.625, 0.75, 0.875, 1.0]
    assert {label for _, label in told} == {"work"}
    told.clear()
    work()
    assert told == [] and list(turns([])) == []


def test_a_pace_finds_the_steps_of_a_part_of_a_second(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("limitlab.verbs.time.perf_counter", lambda: now[0])
    pace, done = Pace(1), 0
    taken = []
    for _ in range(6):
        upto = pace.upto(done)
        now[0] += 1e-3 * (upto - done)  # a millisecond a step
        taken.append(upto - done)
        done = upto
    assert taken == [1, 64, 250, 250, 250, 250]
    slow = Pace(8)
    first = slow.upto(0)
    now[0] += 80.0
    assert slow.upto(first) == first + 1  # ten seconds a step


@pytest.mark.parametrize(
    ("activation", "width", "cheap"), [("erf", 4, True), ("relu", 4, True), ("erf", 8, False), ("tanh", 2, False)]
)
def test_only_small_sums_begin_with_many_steps(activation, width, cheap):
    f = ll.Committee(width=1, activation=activation).activation
    assert is_cheap(field_sum(f, f, width, 2)) == cheap
