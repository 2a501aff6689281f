"""The number of times (or iterations, or replicas) that are asked for is no shape of a compiled program."""

import dataclasses

import numpy as np
import pytest
from jax import monitoring

import limitlab as ll
from cases import committee, descent, messages, sparse, wide
from limitlab.algorithms.one_pass.base import _seated
from limitlab.algorithms.one_pass.setting import OnePass
from limitlab.macro.predict import LIMITS
from limitlab.numerics.ode.integrate import integrate
from limitlab.numerics.shapes import MOST, along_rows, filled, places, seats
from limitlab.problems.asked import Asked
from limitlab.states.request import Request

MIXTURE = ll.library.isotropic_mixture(delta=0.5)
CASES = {  # limit, and a road of it -> the problem, and the limit
    "OverlapODE": (committee(p=2, k=1), ll.OverlapODE()),
    "OverlapODE, replicas": (committee(p=2, k=1), ll.OverlapODE(d=100, replicas=3)),
    "OverlapODE, stiff": (committee("square", "square", 1, 1), ll.OverlapODE(solver="implicit")),
    "OverlapSDE": (committee("square", "square", 1, 1), ll.OverlapSDE(d=100, replicas=4, samples=4)),
    "HighDimMeanField": (committee(p=2, k=1), ll.HighDimMeanField()),
    "DimensionFree": (sparse("z1"), ll.DimensionFree(nodes=24)),
    "MeanField, sparse": (sparse("z1"), ll.MeanField(d=20, particles=64)),
    "MeanField, mixture": (MIXTURE, ll.MeanField(d=10, particles=8)),
    "RadialFlow": (MIXTURE, ll.RadialFlow(d=10, nodes=12)),
    "RadialFlow, volumes": (MIXTURE, ll.RadialFlow(d=10, method="volumes", cells=50)),
    "RadialFlow, jko": (MIXTURE, ll.RadialFlow(d=10, method="jko", nodes=12)),
    "DMFT": (descent(ll.GradientDescent(0.01)), ll.DMFT(trajectories=64, batches=1)),
    "MatrixFlow": (wide(width=4), ll.MatrixFlow(d=6)),
}
compiled: list[str] = []


@monitoring.register_event_duration_secs_listener
def _count(event: str, seconds: float, **_) -> None:
    if event == "/jax/core/compile/backend_compile_duration":  # also of a program that is read from disk
        compiled.append(event)


def programs(call) -> int:
    """How many programs a call needs that this process did not have."""
    before = len(compiled)
    call()
    return len(compiled) - before


def test_every_limit_in_time_is_among_the_cases():
    assert {name for name, limit in LIMITS.items() if limit.axis == "time"} == {case.split(",")[0] for case in CASES}


@pytest.mark.more_of("OverlapSDE", "RadialFlow, jko", "MeanField, mixture", "OverlapODE, stiff")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_other_times_compile_nothing(case):
    problem, limit = CASES[case]
    few, more = (np.linspace(0, 0.1, count) for count in (21, 31))
    first = ll.predict(problem, limit, times=few)
    assert programs(lambda: ll.predict(problem, limit, times=more)) == 0
    assert first.sizes["time"] == 21


def test_other_iterations_compile_nothing():
    for start in ("weak", 0.3):
        limit, problem = ll.StateEvolution(start=start), messages(ll.GaussianPrior(), ll.Sign(), 2.0, iterations=20)
        ll.predict(problem, limit)
        again = messages(ll.GaussianPrior(), ll.Sign(), 2.0, iterations=28)
        assert programs(lambda limit=limit, again=again: ll.predict(again, limit)) == 0


ONE_PASS = {  # d, representation
    "weights": (committee(p=2, k=1), 30, "weights"),
    "a chain of overlaps": (committee(p=2, k=1), 30, "overlaps"),
    "points": (MIXTURE, 6, "weights"),
    "a cube": (sparse("z1 + z1*z2"), 6, "weights"),
}


@pytest.mark.parametrize("case", ONE_PASS)
def test_other_replicas_compile_nothing_and_are_the_same_runs(case):
    problem, d, how = ONE_PASS[case]
    many = ll.simulate(problem, d, [0.0, 0.5, 1.0], replicas=8, representation=how)
    few = []
    assert programs(lambda: few.append(ll.simulate(problem, d, [0.0, 1.0], replicas=7, representation=how))) == 0
    assert few[0].sizes["replica"] == 7
    for name in ("risk", "status", "end_time"):
        assert few[0][name].dtype.kind in "OU" or np.all(np.isfinite(few[0][name]))
    again = many.risk.isel(time=[0, 2], replica=slice(7))
    np.testing.assert_array_equal(few[0].risk, again)
    assert np.unique(many.risk.values[-1]).size == 8  # each is a run of its own


def test_other_paths_of_a_stochastic_limit_compile_nothing():
    problem = committee("square", "square", 1, 1)
    many = ll.predict(problem, ll.OverlapSDE(d=10_000, replicas=6, samples=4), [0.0, 0.1])
    few = []
    five = ll.OverlapSDE(d=10_000, replicas=5, samples=4)
    assert programs(lambda: few.append(ll.predict(problem, five, [0.0, 0.1]))) == 0
    np.testing.assert_array_equal(few[0].Q, many.Q[:, :5])
    assert few[0].sizes["replica"] == 5 and np.unique(many.Q[-1]).size == 6


def test_replicas_that_do_not_move_are_few_and_none_of_large_ones():
    assert [seats(n) for n in (1, 3, 5, 9, 16, 17, 33, 100, 129)] == [1, 3, 6, 12, 16, 20, 40, 112, 160]
    assert all(n <= seats(n) <= 1.5 * n for n in range(1, 3000))
    assert len({seats(n) for n in range(1, 1025)}) == 32
    setting = OnePass.of(committee(p=2, k=1), Asked("a test", ll.errors.InputError))
    rule = committee(p=2, k=1).algorithm
    small, large = (Request(d, np.zeros(1), np.zeros(1, int), 5) for d in (100, 10**6))
    assert _seated(setting, rule, small).replicas == 6
    assert _seated(setting, rule, large).replicas == 5
    many, times = sparse("*".join(f"z{i}" for i in range(1, 9)), p=512), np.zeros(240)
    u_of_17 = OnePass.of(many, Asked("a test", ll.errors.InputError))  # is kept; u of the 20 that are seated is not
    assert _seated(u_of_17, many.algorithm, Request(10, times, times.astype(int), 17)).replicas == 17


def test_other_iterations_of_message_passing_compile_nothing():
    several = ll.Problem(teacher=ll.MultiIndex(2, "and"), sample_ratio=2.0, algorithm=ll.GAMP(iterations=3))
    for problem in (messages(ll.GaussianPrior(), ll.Sign(), 2.0, iterations=3), several):
        longer = dataclasses.replace(problem, algorithm=ll.GAMP(iterations=5))
        short, long = ll.simulate(problem, 33, seed=2), []
        assert programs(lambda longer=longer, long=long: long.append(ll.simulate(longer, 33, seed=2))) == 0
        assert short.sizes["iteration"] == 4 and long[0].sizes["iteration"] == 6
        np.testing.assert_allclose(long[0].mse[:4], short.mse, rtol=1e-12)
        assert np.all(np.isfinite(long[0].mse)) and long[0].mse[5] != long[0].mse[3]


def test_message_passing_is_two_programs_however_many_replicas():
    problem = messages(ll.GaussianPrior(), ll.Sign(), 2.0, iterations=3)
    assert programs(lambda: ll.simulate(problem, d=31, replicas=6)) <= 2  # the runs, and their errors on new labels
    assert programs(lambda: ll.simulate(problem, d=31, replicas=9, seed=1)) == 0


def test_what_was_asked_once_compiles_nothing():
    """Once, each replica of a network compiled its start anew, a law its unit at infinity, a quadrature its error."""
    parts = {"teacher": ll.Committee(1, "erf"), "loss": ll.SquareLoss(), "start": ll.RandomStart(), "sample_ratio": 2.0}
    descent = ll.Problem(**parts, student=ll.Committee(2, "tanh"), algorithm=ll.GradientDescent(0.1, spherical=False))
    quadrature = committee("tanh", "tanh", 1, 1), ll.OverlapODE(method="quadrature", rtol=1e-4)
    for ask in (
        lambda seed: ll.simulate(descent, 8, [0.0, 0.1], replicas=2, seed=seed),
        lambda seed: ll.analysis.potentials(MIXTURE, 10).risk(([1.0], [1.0])),
        lambda seed: ll.predict(*quadrature, times=[0.0, 0.1]),
    ):
        assert programs(lambda ask=ask: ask(0)) < 45
        assert programs(lambda ask=ask: ask(1)) == 0


def test_a_program_is_counted():
    problem = committee("linear", "linear", 7, 5)  # widths that no other test of this process has
    assert programs(lambda: ll.predict(problem, ll.OverlapODE(), times=[0.0, 0.1])) > 0
    assert programs(lambda: ll.predict(problem, ll.OverlapODE(), times=[0.0, 0.2])) == 0


def test_pieces_of_a_path_share_one_program():
    """What a piece gives to the next has the types that the first was given (once, a weak one compiled all twice)."""
    start, times = np.linspace(1.0, 2.0, 501), np.array([0.0, 1.0])  # pauses after its first step
    assert programs(lambda: integrate(lambda y, rate: -rate * y, start, times, np.asarray(1.0))) == 1
    assert programs(lambda: integrate(lambda y, rate: -rate * y, start[1:], times, np.asarray(1.0))) == 1  # counted


def test_rows_are_padded_to_few_counts_and_large_ones_are_not():
    assert [places(n) for n in (1, 21, 32, 33, 1000)] == [32, 32, 32, 64, 1024]
    assert places(3, MOST) == 3
    assert filled([1.0, 2.0], 4).tolist() == [1.0, 2.0, 2.0, 2.0]
    seen = []

    @along_rows
    def double(by, rows):
        seen.append(len(rows["x"]))
        return by * rows["x"]

    assert double(2.0, {"x": np.arange(5.0)}).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert seen == [32]
