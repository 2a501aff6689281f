"""Every declared rate, read from its class: runs at three sizes approach the limit with that power of the size."""

import dataclasses

import numpy as np
import pytest

import limitlab as ll
from cases import committee, descent, mixture
from limitlab.macro.predict import LIMITS

GLM = ll.Problem(
    teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=1.5, algorithm=ll.GAMP(iterations=30)
)
FIT = dataclasses.replace(GLM, loss=ll.LogisticLoss(), algorithm=ll.ERM(0.1))
ONE_PASS = committee(p=2, k=2, variance=0.1)
DOWN = descent(ll.GradientDescent(0.02))
DIMENSIONS, RUNS = (60, 240, 960), 48


def off(values, prediction):
    """The root mean square of a single run's difference."""
    return float(np.sqrt(np.mean((np.asarray(values) - float(prediction)) ** 2)))


def overlap_ode(d):
    sim = ll.simulate(ONE_PASS, d, [0.5], replicas=RUNS, seed=d)
    return off(sim.risk[0], ll.predict(ONE_PASS, ll.OverlapODE(), [0.5]).risk[0])


def state_evolution(d):
    steps = dataclasses.replace(GLM, algorithm=ll.GAMP(iterations=4))
    sim = ll.simulate(steps, d, replicas=RUNS, seed=d)
    return off(sim.mse.isel(iteration=-1), ll.predict(steps, ll.StateEvolution()).mse.isel(iteration=-1))


def bayes_optimal(d):
    sim = ll.simulate(GLM, d, replicas=RUNS, seed=d)
    return off(sim.mse.isel(iteration=-1), ll.predict(GLM, ll.BayesOptimal()).mse)


def erm(d):
    sim = ll.simulate(FIT, d, replicas=RUNS, seed=d)
    return off(sim.generalisation_error, ll.predict(FIT, ll.ERMAsymptotics()).generalisation_error)


def dmft(d):
    limit = ll.predict(DOWN, ll.DMFT(trajectories=2**15, batches=4), [0.3]).m.mean("replica")
    return off(ll.simulate(DOWN, d, [0.3], replicas=RUNS, seed=d).m[0], limit[0])


def radial_flow(p):
    """The mean norm, which is linear in the law of the units: p of them scatter around it like p^-1/2.

    The risk is quadratic in the law: its mean is off by 1/p, which at these widths hides the scatter.
    """
    limit = ll.predict(mixture(), ll.RadialFlow(d=20), [0.1])
    sim = ll.simulate(mixture(p=p, learning_rate=1.0, batch_size=16), 20, [0.1], replicas=RUNS, seed=p)
    return off(sim.r[0].mean("student"), (limit.r * limit.weight).sum())


def matrix_flow(width):
    wide = ll.library.wide_phase_retrieval(3.0, width=width)
    few = [ll.predict(wide, ll.MatrixFlow(d=10, width=w, seed=s), [0.5]).risk for s in range(12) for w in (width,)]
    all_ = [ll.predict(wide, ll.MatrixFlow(d=10, width=np.inf, seed=s), [0.5]).risk for s in range(12)]
    return float(np.sqrt(np.mean([(float(a[0, 0]) - float(b[0, 0])) ** 2 for a, b in zip(few, all_, strict=True)])))


MEASURED = {
    ("OverlapODE", "d"): (overlap_ode, DIMENSIONS),
    ("StateEvolution", "d"): (state_evolution, DIMENSIONS),
    ("BayesOptimal", "d"): (bayes_optimal, DIMENSIONS),
    ("ERMAsymptotics", "d"): (erm, DIMENSIONS),
    ("DMFT", "d"): (dmft, (60, 180, 540)),
    ("RadialFlow", "p"): (radial_flow, (40, 160, 640)),
    ("MatrixFlow", "width"): (matrix_flow, (20, 80, 320)),
}
# Slopes that need a setting of their own are measured where their limit is tested, or by a gallery entry.
ELSEWHERE = {
    ("HighDimMeanField", "p"): "macro/test_high_dim_mean_field.py",
    ("HighDimMeanField", "d"): "macro/test_high_dim_mean_field.py",
    ("OverlapSDE", "d"): "macro/test_overlap_sde.py: means right beyond the first order in 1/d",
    ("DimensionFree", "d"): "limitlab run rates",
    ("DimensionFree", "p"): "limitlab run rates",
    ("MeanField", "p"): "limitlab run width-law",
}


def test_every_declared_rate_has_its_measurement():
    declared = {(name, size) for name, limit in LIMITS.items() for size in limit.rate}
    assert declared == set(MEASURED) | set(ELSEWHERE)
    assert not set(MEASURED) & set(ELSEWHERE)


@pytest.mark.slow
@pytest.mark.parametrize("case", MEASURED, ids=lambda case: " ".join(case))
def test_runs_approach_the_limit_at_the_declared_rate(case):
    measure, sizes = MEASURED[case]
    slope = np.polyfit(np.log(sizes), np.log([measure(size) for size in sizes]), 1)[0]
    declared = LIMITS[case[0]].rate[case[1]]
    # The log of a root mean square over RUNS runs has the error 1/sqrt(2 RUNS) = 0.1; that of the slope is 0.05.
    assert abs(slope - declared) < 0.2, slope
    assert abs(slope - 2 * declared) > 0.2  # another power is told apart
