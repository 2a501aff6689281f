"""Numbers that are too large, not numbers, or too many: words before anything is allocated, and never a raw error."""

import inspect
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import limitlab as ll
from cases import committee, descent, mixture
from limitlab.algorithms.one_pass.base import AbstractOnePass
from limitlab.numerics import machine
from limitlab.numerics.machine import Memory, check_memory, in_units
from users import environment

HERE = Path(__file__).parent
TIMES = [0.0, 0.1]
HUGE = 10**9


def wide(width=3, ratio=3.0):
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()),
        channel=ll.Modulus(),
        sample_ratio=ratio,
        student=ll.Committee(width=width, activation="square"),
        loss=ll.PhaseRetrievalLoss(),
        start=ll.RandomStart(),
        algorithm=ll.GradientDescent(0.01, spherical=False),
    )


def sparse(width=50):
    return ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget("z1 + z1*z2"),
        student=ll.Committee(width=width, activation="tanh", second_layer="trained"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(second_layer="uniform"),
        algorithm=ll.OnlineSGD(learning_rate=0.1),
    )


def linear(rule, ratio=2.0, loss=None):
    return ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=ratio, loss=loss, algorithm=rule
    )


def network(rule, width):
    return descent(rule, student=ll.Committee(width=width, activation="tanh"))


def by(rule, width=2):
    """One-pass learning of a committee by another rule."""
    problem = committee(p=width, start=ll.RandomStart())
    return ll.Problem(**{name: getattr(problem, name) for name in ("teacher", "student", "loss", "start")} | rule)


RANDOM = {"start": ll.RandomStart()}
GAMP, ERM = linear(ll.GAMP()), linear(ll.ERM(0.1), loss=ll.LogisticLoss())
GD = descent(ll.GradientDescent(0.01))

PREDICTIONS = {
    **{
        f"OverlapODE, {name}": (committee(name, name, p=10**6, **RANDOM), ll.OverlapODE())
        for name in ("erf", "relu", "tanh", "square", "linear", "abs")
    },
    "OverlapODE, a function": (committee(lambda x: x / (1 + x**2), p=3000, **RANDOM), ll.OverlapODE()),
    "OverlapODE, 20000 units": (committee(p=20000, **RANDOM), ll.OverlapODE()),
    "OverlapODE, teacher": (committee(k=HUGE, **RANDOM), ll.OverlapODE()),
    "OverlapODE, drawn": (committee(p=10**6, **RANDOM), ll.OverlapODE(d=100)),
    "OverlapODE, replicas": (committee(**RANDOM), ll.OverlapODE(d=100, replicas=10**12)),
    "OverlapODE, implicit": (committee("square", "square", p=400, **RANDOM), ll.OverlapODE(solver="implicit")),
    "OverlapSDE": (committee(p=10**6, **RANDOM), ll.OverlapSDE(d=10**12)),
    "OverlapSDE, replicas": (committee(**RANDOM), ll.OverlapSDE(replicas=10**12)),
    "OverlapSDE, samples": (committee(**RANDOM), ll.OverlapSDE(samples=10**12)),
    "HighDimMeanField": (committee(p=10**6, **RANDOM), ll.HighDimMeanField(d=1000)),
    "HighDimMeanField, particles": (committee(**RANDOM), ll.HighDimMeanField(particles=10**6)),
    "MeanField, particles": (sparse(), ll.MeanField(d=100, particles=10**12)),
    "MeanField, mixture": (mixture(), ll.MeanField(d=40, particles=10**8)),
    "MeanField, samples": (mixture(), ll.MeanField(d=40, gradients="samples", samples=10**12)),
    "MeanField, d": (mixture(), ll.MeanField(d=10**12)),
    "DimensionFree, nodes": (sparse(), ll.DimensionFree(nodes=12 * 10**10)),
    "DimensionFree, pairs": (sparse(), ll.DimensionFree(nodes=12 * 10**4, corrected=True)),
    "RadialFlow, nodes": (mixture(), ll.RadialFlow(nodes=12 * 10**10)),
    "RadialFlow, cells": (mixture(), ll.RadialFlow(d=40, method="volumes", cells=10**11)),
    "RadialFlow, steps": (mixture(), ll.RadialFlow(d=40, method="jko", nodes=12 * 10**5)),
    "StateEvolution": (GAMP, ll.StateEvolution(iterations=10**12)),
    "DMFT, trajectories": (GD, ll.DMFT(trajectories=10**11)),
    "DMFT, probes": (GD, ll.DMFT(trajectories=64, probes=10**10)),
    "DMFT, batches": (GD, ll.DMFT(trajectories=64, batches=10**12)),
    "MatrixFlow, d": (wide(), ll.MatrixFlow(d=10**7)),
    "MatrixFlow, width": (wide(), ll.MatrixFlow(width=10**12)),
    "MatrixFlow, student": (wide(10**12), ll.MatrixFlow()),
    "MatrixFlow, samples": (wide(ratio=1e9), ll.MatrixFlow()),
    "MatrixFlow, replicas": (wide(), ll.MatrixFlow(replicas=10**12)),
}
ONE_PASS = {
    "OnlineSGD": {"algorithm": ll.OnlineSGD(0.01)},
    "Adam": {"algorithm": ll.Adam(0.01)},
    "Momentum": {"algorithm": ll.Momentum(0.01, 0.9)},
    "LayerwiseSGD": {"algorithm": ll.LayerwiseSGD(learning_rate=0.01, switch_time=0.05)},
}
DESCENTS = (
    ll.GradientDescent(0.01),
    ll.StochasticGD(0.01, 0.5),
    ll.PersistentSGD(0.01, 0.5, 0.5),
    ll.Langevin(0.01, 1.0),
)
RIDGE = {"algorithm": ll.LayerwiseSGD(learning_rate=0.01, switch_time=0.05, penalty=0.1, ridge_samples=10**6)}
SIMULATIONS = {
    **{f"{name}, d": (by(rule), {"d": 10**13}) for name, rule in ONE_PASS.items()},
    **{f"{name}, width": (by(rule, 10**11), {"d": 100}) for name, rule in ONE_PASS.items()},
    **{f"{name}, replicas": (by(rule), {"d": 100, "replicas": 10**12}) for name, rule in ONE_PASS.items()},
    "OnlineSGD, batch": (by({"algorithm": ll.OnlineSGD(0.01, batch_size=10**12)}), {"d": 100}),
    "LayerwiseSGD, ridge": (by(RIDGE, 10**6), {"d": 100}),
    "OnlineSGD, overlaps": (committee(p=10**7, **RANDOM), {"d": 10**9, "representation": "overlaps"}),
    "OnlineSGD, teacher": (committee(k=HUGE, **RANDOM), {"d": 10**10}),
    "OnlineSGD, sparse": (sparse(10**11), {"d": 100}),
    "OnlineSGD, mixture": (mixture(p=10**11), {"d": 100}),
    **{f"{type(rule).__name__}, d": (descent(rule), {"d": 10**8}) for rule in DESCENTS},
    **{f"{type(rule).__name__}, samples": (descent(rule, 1e12), {"d": 100}) for rule in DESCENTS},
    **{f"{type(rule).__name__}, replicas": (descent(rule), {"d": 100, "replicas": 10**12}) for rule in DESCENTS},
    **{f"{type(rule).__name__}, units": (network(rule, 10**10), {"d": 100}) for rule in DESCENTS},
    "squares, width": (wide(10**11), {"d": 100}),
    "squares, d": (wide(), {"d": 10**7}),
}
STATIC = {
    "GAMP, d": (GAMP, {"d": 10**7}),
    "GAMP, samples": (linear(ll.GAMP(), 1e14), {"d": 100}),
    "GAMP, replicas": (GAMP, {"d": 100, "replicas": 10**12}),
    "GAMP, iterations": (linear(ll.GAMP(iterations=10**12)), {"d": 100}),
    "ERM, d": (ERM, {"d": 10**7}),
    "ERM, replicas": (ERM, {"d": 100, "replicas": 10**12}),
}
MEDIOCRE = ll.library.escaping_mediocrity
QUESTIONS = {
    "exit_time, units": lambda: ll.exit_time(MEDIOCRE(10**6), 1000, 0.2),
    "exit_time, starts": lambda: ll.exit_time(MEDIOCRE(4), 1000, 0.2, "full", starts=10**12),
    "uniqueness": lambda: ll.uniqueness(wide(), 10**7),
    "linear_noise": lambda: ll.analysis.linear_noise(committee(p=500, start=ll.InformedStart(0.2)), 100, TIMES),
    "kernel_ridge": lambda: ll.analysis.kernel_ridge(sparse(), 100, [10**7]),
    "kernel_ridge, replicas": lambda: ll.analysis.kernel_ridge(sparse(), 100, [10], replicas=10**13),
    "stationary_law": lambda: ll.analysis.stationary_law(mixture(temperature=0.01, weight_decay=0.1), 40, 10**10),
    "DMFT.run": lambda: ll.DMFT(trajectories=64).run(GD, [0.0, 1e7]),
}


@pytest.fixture
def small_machine(monkeypatch):
    """16 GiB, whatever the tests run on."""
    monkeypatch.setattr(machine, "memory_here", lambda: 2**34)


TOO_MUCH = r"needs about \S+ ([GTPE]iB) of memory, this machine has 16.0 GiB\. .*(Use|use) "


@pytest.mark.parametrize("name", PREDICTIONS)
def test_a_prediction_that_does_not_fit_is_refused(name, small_machine):
    problem, limit = PREDICTIONS[name]
    with pytest.raises(ll.errors.InputError, match=f"{type(limit).__name__} {TOO_MUCH}"):
        ll.predict(problem, limit, times=TIMES if limit.in_time else None)


@pytest.mark.parametrize("name", SIMULATIONS | STATIC)
def test_a_simulation_that_does_not_fit_is_refused(name, small_machine):
    problem, asked = (SIMULATIONS | STATIC)[name]
    with pytest.raises(ll.errors.InputError, match=f"simulate with {type(problem.algorithm).__name__} {TOO_MUCH}"):
        ll.simulate(problem, times=TIMES if name in SIMULATIONS else None, **asked)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_that_does_not_fit_is_refused(name, small_machine):
    with pytest.raises(ll.errors.InputError, match=TOO_MUCH):
        QUESTIONS[name]()


def test_times_count_too(small_machine):
    many = np.linspace(0, 1, 10**6)
    with pytest.raises(ll.errors.InputError, match=TOO_MUCH):
        ll.predict(committee(p=300, **RANDOM), ll.OverlapODE(), many)
    with pytest.raises(ll.errors.InputError, match=TOO_MUCH):
        ll.simulate(committee(p=300, **RANDOM), 1000, many)


def test_identical_units_are_few(monkeypatch):
    """Units that start together are followed as one: a wide student of them is no large problem."""
    monkeypatch.setattr(machine, "memory_here", lambda: 2**28)
    p, limit = 1000, ll.OverlapODE()
    together = ll.OverlapStart(np.ones((p, p)), np.zeros((p, 2)), np.eye(2))
    needed = [
        limit.memory(limit.parsed(committee(p=p, start=start)), np.array(TIMES)).bytes
        for start in (together, ll.RandomStart())
    ]
    assert [machine.fits(count) for count in needed] == [True, False]
    whole = 8 * 24 * p**2  # tables of all pairs of units, which those that are one do not need
    assert needed[1] - needed[0] > whole


def test_bytes_in_words(small_machine):
    sizes = {2**29: "0.5 GiB", 60 * 2**30: "60.0 GiB", 2**50: "1.0 PiB", 10**40: "8.7e+21 EiB"}
    assert {count: in_units(count) for count in sizes} == sizes
    check_memory(None, "anything")
    check_memory(Memory(2**33, "."), "anything")
    with pytest.raises(
        ll.errors.InputError, match=r"anything needs about 14\.0 GiB of memory, this machine has 16\.0 GiB\. Do"
    ):
        check_memory(Memory(14 * 2**30, "Do."), "anything")


# --- how honest the estimates are ------------------------------------------------------------------------------


def measured(names: list[str]) -> dict[str, tuple[float, float]]:
    """name -> (bytes said, bytes taken at the peak), in a process of its own."""
    command = [sys.executable, str(HERE / "peak_memory.py"), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment())
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


QUICK = ["OnlineSGD", "DMFT"]
FULL = [
    "OnlineSGD, batch",
    "Adam",
    "GAMP",
    "ERM",
    "squares",
    "network",
    "OverlapODE",
    "OverlapODE, squares",
    "HighDimMeanField",
]
FULL += [
    "DMFT, iterated",
    "MatrixFlow",
    "MeanField",
    "MeanField, mixture",
    "RadialFlow",
    "OverlapSDE",
    "StateEvolution",
]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    "names",
    [["GradientDescent"], pytest.param(QUICK, marks=pytest.mark.more), pytest.param(FULL, marks=pytest.mark.slow)],
    ids=["one", "quick", "full"],
)
def test_estimates_are_within_a_factor_of_three(names):
    for name, (said, taken) in measured(names).items():
        assert 1 / 3 < said / taken < 3, (name, said, taken)


# --- seeds -----------------------------------------------------------------------------------------------------

NO_SEEDS = (-1, 1.0, True, "1", None, 2**63, 2**64, 10**30, 10**400, np.uint64(2**63), np.float64(2), math.nan)
SEEDED = (ll.OverlapODE, ll.OverlapSDE, ll.HighDimMeanField, ll.MeanField, ll.DMFT, ll.MatrixFlow)


@pytest.mark.parametrize("seed", NO_SEEDS, ids=lambda x: repr(x)[:20])
def test_what_is_no_seed_is_refused_in_words(seed):
    words = r"seed('\])? must be .*Seeds are whole numbers from 0 to 2\^63 - 1"
    problem = committee(**RANDOM)
    for limit in SEEDED:
        with pytest.raises(ll.errors.InputError, match=f"{limit.__name__}.{words}"):
            limit(seed=seed)
    asks = [
        lambda: ll.simulate(problem, 10, TIMES, seed=seed),
        lambda: ll.exit_time(MEDIOCRE(4), 100, 0.2, "full", seed=seed),
        lambda: ll.uniqueness(wide(), 20, seed),
        lambda: ll.analysis.kernel_ridge(sparse(), 10, [5], seed=seed),
        lambda: ll.GAMP().fit(np.eye(3), np.ones(3), prior=ll.GaussianPrior(), channel=ll.Sign(), seed=seed),
    ]
    for ask in asks:
        with pytest.raises(ll.errors.InputError, match=words):
            ask()


def test_seeds_of_any_kind_are_the_same_seed():
    problem, runs = committee(**RANDOM), {}
    for seed in (3, np.int8(3), np.uint64(3), np.int64(3)):
        runs[type(seed)] = ll.simulate(problem, 10, TIMES, seed=seed)
    assert len({run.risk.values.tobytes() for run in runs.values()}) == 1
    last = ll.simulate(problem, 10, TIMES, seed=2**63 - 1)
    assert last.attrs["seed"] == 2**63 - 1
    assert not np.array_equal(last.M, runs[int].M)
    assert not np.array_equal(last.M, ll.simulate(problem, 10, TIMES, seed=2**31 - 1).M)


# --- numbers ---------------------------------------------------------------------------------------------------

NO_TIMES = {
    "none": [],
    "unsorted": [1.0, 0.0],
    "twice": [0.0, 0.0],
    "negative": [-1.0],
    "nan": [math.nan],
    "nan later": [0.0, math.nan],
    "infinite": [0.0, math.inf],
    "too large": [10**400],
    "text": "soon",
    "texts": ["a"],
    "complex": [1j],
    "a table": [[0.0, 1.0]],
    "nothing": [None],
    "a dict": {},
}


@pytest.mark.parametrize("name", NO_TIMES)
def test_times_that_are_none_are_refused(name):
    problem, times = committee(**RANDOM), NO_TIMES[name]
    for ask in (lambda: ll.simulate(problem, 10, times), lambda: ll.predict(problem, ll.OverlapODE(), times)):
        with pytest.raises(ll.errors.InputError, match="times must") as caught:
            ask()
        assert len(str(caught.value)) < 400
    with pytest.raises(ll.errors.InputError, match=r"within 2\^53 steps"):
        ll.simulate(problem, 10, [1e300])
    with pytest.raises(ll.errors.InputError, match=r"within 2\^53 steps"):
        ll.predict(GD, ll.DMFT(), [1e300])


OUT = (math.inf, -math.inf, math.nan, 10**400, -(10**400), "x", None, 1j, np.complex128(1), [1.0], True)
PARTS = {
    "learning_rate": lambda x: ll.OnlineSGD(x),
    "descent": lambda x: ll.GradientDescent(x),
    "temperature": lambda x: ll.Langevin(0.1, x),
    "penalty": lambda x: ll.ERM(x),
    "damping": lambda x: ll.GAMP(damping=x),
    "variance": lambda x: ll.GaussianNoise(x),
    "delta": lambda x: ll.IsotropicMixture(delta=x),
    "scale": lambda x: ll.RandomStart(scale=x),
    "overlap": lambda x: ll.InformedStart(x),
    "prior": lambda x: ll.GaussianPrior(x),
    "rtol": lambda x: ll.OverlapODE(rtol=x),
    "exit_time": lambda x: ll.exit_time(MEDIOCRE(4), x, 0.2),
    "regime": lambda x: ll.analysis.regime(x, 0),
    "width": lambda x: ll.Committee(width=x),
    "batch_size": lambda x: ll.OnlineSGD(0.1, batch_size=-1 if x is OUT[3] else x),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("value", OUT, ids=lambda x: repr(x)[:12])
def test_a_number_that_is_none_is_refused_in_words(part, value):
    with pytest.raises(ll.errors.InputError) as caught:
        PARTS[part](value)
    assert "must be" in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize("value", [None, 10**400, [0.5], {}, 1j, np.array([0.5]), object(), "x", float, math.nan])
def test_a_persistence_time_that_is_none_is_refused(value):
    with pytest.raises(ll.errors.InputError, match=r"PersistentSGD\.persistence_time must be a finite number"):
        ll.PersistentSGD(learning_rate=0.1, batch_fraction=0.5, persistence_time=value)


@pytest.mark.parametrize("value", [0, 10**400, math.nan, "x" * 9999, True, 1.5, 2.0**60])
def test_a_width_that_is_none_is_refused(value):
    with pytest.raises(ll.errors.InputError, match=r"MatrixFlow\.width must be a whole number from 1") as error:
        ll.MatrixFlow(d=4, width=value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("value", [0.5, None, "x", math.exp, lambda z: 1.0 if z > 0 else 0.0, lambda: 0.5])
def test_a_law_that_is_no_function_is_refused_in_words(value):
    with pytest.raises(ll.errors.InputError, match=r"probability must be a jax\.numpy function of 1 number; "):
        ll.CustomBinary(value)
    with pytest.raises(ll.errors.InputError, match=r"log_density must be a jax\.numpy function of 2 numbers; "):
        ll.CustomChannel(value, (-9.0, 9.0))


@pytest.mark.parametrize("value", [0.5, None, 3, b"x", ["x"], "x" * 9999, "a\0b"])
def test_a_store_that_is_no_folder_is_refused_in_words(value):
    with pytest.raises(ll.errors.InputError, match=r"A store is a folder|cannot be the name of a store"):
        ll.Store(value)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 10**400, "x"])
def test_a_sample_ratio_that_is_none_is_refused(value):
    with pytest.raises(ll.errors.InputError, match="sample_ratio"):
        linear(ll.GAMP(), value)


@pytest.mark.parametrize("Q", [[[math.nan]], [[math.inf]], [[10**400]], "x", [["x"]], [[1.0, 2.0]], [[1e308]]])
def test_overlaps_that_are_none_are_refused(Q):
    with pytest.raises(ll.errors.InputError, match=r"must|needs Q|overlap"):
        ll.OverlapStart(Q=Q, M=[[0.5]], P=[[1.0]])


def test_a_rate_beyond_all_bounds_ends_in_a_status():
    problem = committee(learning_rate=1e308, **RANDOM)
    assert set(ll.simulate(problem, 10, [1e305]).status.values) <= {"ok", "diverged"}
    assert str(ll.predict(problem, ll.OverlapODE(), TIMES).status.values) in ("diverged", "not_converged")


def test_rules_say_what_they_remember():
    """A rule with a memory holds it beside its weights."""
    for rule, count in (("OnlineSGD", 0), ("Momentum", 1), ("Adam", 2)):
        algorithm = ONE_PASS[rule]["algorithm"]
        assert isinstance(algorithm, AbstractOnePass) and algorithm.memories == count


# --- long loops ------------------------------------------------------------------------------------------------


def maps_of_a_loop(hows, loops, room, env):
    command = [sys.executable, str(HERE / "many_maps.py"), hows, str(loops), str(room)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_maps(alone, minded):
    growth = np.diff([alone["before"], *alone["counts"]])
    limit = minded["before"] + minded["room"]
    assert alone["counts"][-1] > alone["before"] + 1.5 * minded["room"]
    assert max(minded["counts"]) < limit + 2 * max(growth)  # looked at once a call
    assert minded["counts"][-1] < alone["counts"][-1]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.more
def test_a_loop_outside_of_a_sweep_keeps_its_memory_maps():
    """Compiled programs are given up before the limit, here a low one; without that the loop goes far beyond it."""
    seen = {}
    for how in ("minded", "left alone"):
        seen |= maps_of_a_loop(how, 5, 600, environment())
    check_maps(seen["left alone"], seen["minded"])


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_memory_maps_grow_where_nobody_minds_them():
    """The smaller twin, compiled as this run: three rounds left alone, then three minded; 100 or more maps a round."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    seen = maps_of_a_loop("left alone,minded", 3, 135, env)
    check_maps(seen["left alone"], seen["minded"])
    with pytest.raises(AssertionError):
        check_maps(seen["left alone"], seen["left alone"])


DOORS = set(
    "simulate predict exit_time free_entropy optimal_penalty separability_threshold thresholds uniqueness".split()
)
DOORS |= {"optimal_learning_rate"}
DOORS_OF_ANALYSIS = set(
    """asymptotic_risk critical_delta critical_learning_rate finite_width fixed_points global_minimum kernel_ridge
    linear_noise optimality_gap phase_diagram potentials stationary_law""".split()
)


def test_every_verb_and_question_that_compiles_minds_the_maps():
    for module, names in ((ll, DOORS), (ll.analysis, DOORS_OF_ANALYSIS)):
        for name in names:
            assert "relieve" in inspect.unwrap(getattr(module, name)).__code__.co_names, name


def test_programs_are_not_given_up_for_maps_of_others(monkeypatch):
    """If giving up programs does not help, it is not tried again at every call."""
    cleared = []
    monkeypatch.setattr(machine, "count_maps", lambda: 1000)
    monkeypatch.setattr(machine, "maps_allowed", lambda: 1000)
    monkeypatch.setattr(machine, "LOOK", 0.0)
    monkeypatch.setattr(machine, "_left", 0)
    monkeypatch.setattr("jax.clear_caches", lambda: cleared.append(1))
    for _ in range(5):
        machine.relieve()
    assert len(cleared) == 1
