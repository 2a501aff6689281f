"""Prints, for each named computation, the bytes that it says it needs and those that it takes: a process of its own."""

import gc
import json
import re
import sys
import warnings
from pathlib import Path

import jax
import numpy as np

import limitlab as ll
from cases import committee, descent, mixture
from limitlab.macro import predict
from limitlab.micro import simulate

warnings.simplefilter("ignore")
RANDOM = ll.RandomStart()


def learner(rule, p, **more):
    small = committee(p=p, k=2, start=RANDOM)
    return ll.Problem(teacher=small.teacher, student=small.student, loss=small.loss, start=RANDOM, algorithm=rule)


def glm(rule, loss=None):
    teacher = ll.SingleIndex(ll.GaussianPrior())
    return ll.Problem(teacher=teacher, channel=ll.Sign(), sample_ratio=2.0, loss=loss, algorithm=rule)


def squares(width):
    return descent(
        ll.GradientDescent(0.01, spherical=False), start=RANDOM, student=ll.Committee(width=width, activation="square")
    )


def simulated(problem, small, large, last=0.02):
    """A small run, which loads all that is loaded once, and a large one."""
    times = None if problem.algorithm.axis != "time" else [0.0, last]
    return [lambda d=d: ll.simulate(problem, d, times) for d in (small, large)]


def predicted(small, large, times=(0.0, 1e-3)):
    return [
        lambda problem=problem, limit=limit: ll.predict(problem, limit, list(times) if limit.in_time else None)
        for problem, limit in (small, large)
    ]


ERF = {p: committee(p=p, start=RANDOM) for p in (2, 44, 400)}
SQUARE = {p: committee("square", "square", p=p, start=RANDOM) for p in (2, 500)}
GD, FREE = descent(ll.GradientDescent(0.01)), squares(3)
TARGET = ll.Problem(
    inputs=ll.Hypercube(),
    teacher=ll.SparseTarget("z1 + z1*z2"),
    student=ll.Committee(width=50, activation="erf", second_layer="trained"),
    loss=ll.SquareLoss(),
    start=ll.RandomStart(second_layer="uniform"),
    algorithm=ll.OnlineSGD(learning_rate=0.1),
)
MANY = tuple(np.linspace(0, 0.1, 1000))
CASES = {
    "OnlineSGD": simulated(learner(ll.OnlineSGD(0.1), 20), 100, 400_000, 3e-8),
    "OnlineSGD, batch": simulated(learner(ll.OnlineSGD(0.1, batch_size=2000), 4), 10, 8000, 6e-6),
    "Adam": simulated(learner(ll.Adam(0.1), 20), 100, 300_000, 0.2),
    "GradientDescent": simulated(GD, 50, 2200),
    "GAMP": simulated(glm(ll.GAMP(iterations=3)), 50, 2700),
    "ERM": simulated(glm(ll.ERM(0.1), ll.LogisticLoss()), 50, 1800),
    "squares": simulated(FREE, 50, 2000),
    "network": simulated(descent(ll.GradientDescent(0.01), student=ll.Committee(width=8)), 50, 2200),
    "OverlapODE": predicted((ERF[2], ll.OverlapODE(d=1000)), (ERF[44], ll.OverlapODE(d=1000))),
    "OverlapODE, squares": predicted((SQUARE[2], ll.OverlapODE(d=1000)), (SQUARE[500], ll.OverlapODE(d=1000))),
    "OverlapSDE": predicted((ERF[2], ll.OverlapSDE(replicas=2)), (ERF[2], ll.OverlapSDE(replicas=20_000)), (0.0, 0.05)),
    "HighDimMeanField": predicted(
        (ERF[2], ll.HighDimMeanField(d=1000)), (ERF[400], ll.HighDimMeanField(d=1000, nodes=2, rtol=1e-3))
    ),
    "DMFT": predicted((GD, ll.DMFT(64, 1)), (GD, ll.DMFT(2**16, 1)), (0.0, 0.6)),
    "DMFT, iterated": predicted(
        (GD, ll.DMFT(64, 1, "iterated", iterations=2)), (GD, ll.DMFT(2**16, 1, "iterated", iterations=2)), (0.0, 0.4)
    ),
    "MatrixFlow": predicted((FREE, ll.MatrixFlow(d=5)), (FREE, ll.MatrixFlow(d=600))),
    "MeanField": predicted((TARGET, ll.MeanField(d=50, particles=64)), (TARGET, ll.MeanField(d=50, particles=2**19))),
    "MeanField, mixture": predicted(
        (mixture(), ll.MeanField(d=10, gradients="samples", samples=64)),
        (mixture(), ll.MeanField(d=100, gradients="samples", samples=2**17)),
        (0.0, 0.01),
    ),
    "RadialFlow": predicted((mixture(), ll.RadialFlow(nodes=12)), (mixture(), ll.RadialFlow(nodes=12 * 2000)), MANY),
    "StateEvolution": predicted(
        (glm(None), ll.StateEvolution(iterations=2)), (glm(None), ll.StateEvolution(iterations=10**6))
    ),
}


def status(field: str) -> int:
    return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def watched(name: str) -> tuple[float, float]:
    """Bytes said and bytes taken."""
    small, large = CASES[name]
    small()
    gc.collect()
    base = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    said = []
    for module in (predict, simulate):
        module.check_memory = lambda needed, by: said.append(needed.bytes)
    large()
    taken = status("VmHWM") - base
    jax.clear_caches()
    gc.collect()
    return said[-1], taken


print(json.dumps({name: watched(name) for name in sys.argv[1:]}))
