"""The number of times (or iterations) that are asked for is no shape of a compiled program."""

import numpy as np
import pytest
from jax import monitoring

import limitlab as ll
from cases import committee, descent, messages, sparse, wide
from limitlab.macro.predict import LIMITS
from limitlab.numerics.ode.integrate import integrate
from limitlab.numerics.shapes import MOST, along_rows, filled, places

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
