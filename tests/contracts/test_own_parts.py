"""Open to users: a class of every kind, defined outside the package, goes through all verbs without touching it."""

import dataclasses

import numpy as np
import pytest
from own_parts import Corner, Cubic, Laplace, Linear, LinearFlow, LogCosh, Rounded, SignSGD, Uniform, WatchedSGD

import limitlab as ll
from limitlab import testing

BASE = ll.Problem(
    teacher=ll.SingleIndex(ll.GaussianPrior()),
    channel=ll.GaussianNoise(0.1),
    student=ll.Committee(2, "tanh"),
    loss=ll.SquareLoss(),
    start=ll.InformedStart(0.3),
    algorithm=ll.OnlineSGD(0.4),
)
LINE = ll.Problem(
    teacher=ll.Committee(1, "linear"),
    channel=ll.GaussianNoise(0.1),
    student=ll.Committee(1, "linear"),
    loss=ll.SquareLoss(),
    start=ll.InformedStart(0.3),
    algorithm=ll.OnlineSGD(0.4),
)
OWN = {
    "inputs": {"inputs": Laplace()},
    "teacher": {"teacher": Cubic()},
    "student": {"student": Linear(), "start": ll.RandomStart()},
    "channel": {"channel": Rounded(0.3)},
    "prior": {"teacher": ll.SingleIndex(Uniform())},
    "loss": {"loss": LogCosh()},
    "start": {"start": Corner(0.5)},
    "algorithm": {"algorithm": SignSGD(0.2)},
}
TIMES = np.array([0.0, 0.2, 0.4])


@pytest.mark.more_of("loss", "student", "prior", "channel", "teacher", "inputs")
@pytest.mark.parametrize("kind", OWN)
def test_a_part_of_ones_own_goes_through_the_verbs(kind, tmp_path):
    problem = dataclasses.replace(BASE, **OWN[kind])
    sim = ll.simulate(problem, 16, TIMES, replicas=4)
    again = ll.simulate(problem, 16, TIMES, replicas=4, seed=1)
    assert set(sim.status.values.tolist()) == {"ok"} and np.all(np.isfinite(sim.risk))
    assert isinstance(ll.compare(sim, again, variables="risk").agrees, bool)
    ll.save(sim, tmp_path / "sim.nc")
    np.testing.assert_array_equal(ll.load(tmp_path / "sim.nc").risk, sim.risk)
    assert ll.plot(sim, again) is not None
    rate = "algorithm.learning_rate"
    swept = ll.sweep(ll.simulate, problem, {rate: [0.1, 0.2]}, d=16, times=TIMES, replicas=2, seed=0)
    assert set(swept.status.values.ravel().tolist()) == {"ok"} and swept.risk.sizes[rate] == 2
    assert ll.spec_hash(problem) == ll.spec_hash(dataclasses.replace(BASE, **OWN[kind])) != ll.spec_hash(BASE)


def test_a_rule_of_ones_own_declares_what_only_it_reports(tmp_path):
    problem = dataclasses.replace(BASE, algorithm=WatchedSGD(0.2))
    sim = ll.simulate(problem, 16, TIMES, replicas=4)
    np.testing.assert_array_equal(sim.fall, (sim.risk[0] - sim.risk).T)
    assert sim.fall.attrs["long_name"] == "by how much the risk has fallen"
    assert sim.attrs["declared"] == {"fall": {"dims": ["time", "replica"], "long_name": sim.fall.attrs["long_name"]}}
    assert ll.load(ll.save(sim, tmp_path / "sim.nc")).identical(sim)
    assert ll.compare(sim, sim.assign(fall=sim.fall + 0.0), variables="fall").agrees
    assert "fall" in {axis.get_title() or axis.get_ylabel() for axis in ll.plot(sim, variables="fall").axes}
    swept = ll.sweep(ll.simulate, problem, {"algorithm.learning_rate": [0.1, 0.2]}, d=16, times=TIMES, replicas=4)
    np.testing.assert_array_equal(swept.fall, swept.risk.isel(time=[0]).values - swept.risk)


def test_a_limit_of_ones_own_goes_through_the_verbs():
    limit, times = LinearFlow(), np.linspace(0, 1, 5)
    mine, ours = ll.predict(LINE, limit, times), ll.predict(LINE, ll.OverlapODE(), times)
    np.testing.assert_allclose(mine.risk, ours.risk, rtol=1e-6)  # two derivations of one law
    sim = ll.simulate(LINE, 400, times, replicas=24)
    gap = ll.compare(sim, mine, variables="risk")
    assert gap.agrees, str(gap)
    assert "γ·step/(p·d)" in ll.plot(sim, mine).axes[0].get_xlabel()
    swept = ll.sweep(ll.predict, LINE, {"channel.variance": [0.0, 0.1]}, limit=limit, times=times)
    np.testing.assert_allclose(swept.risk[1], mine.risk)
    assert "saad1995online" in ll.cite(LINE, limit)


def test_a_subclass_of_a_rule_of_ours_runs():
    class Mine(ll.OnlineSGD):
        pass

    ours, mine = (
        ll.simulate(dataclasses.replace(BASE, algorithm=rule(0.4)), 16, TIMES) for rule in (ll.OnlineSGD, Mine)
    )
    np.testing.assert_array_equal(ours.risk, mine.risk)


def test_the_contracts_hold_for_all_of_them():
    testing.check_inputs(Laplace())
    testing.check_teacher(Cubic())
    testing.check_student(Linear())
    testing.check_channel(Rounded(0.6))
    testing.check_prior(Uniform())
    testing.check_loss(LogCosh())
    testing.check_start(Corner(0.5))
    testing.check_algorithm(dataclasses.replace(BASE, algorithm=SignSGD(0.05)), time=0.3)
    testing.check_limit(LinearFlow(), LINE, [0.0, 0.5, 1.0], sizes=(40, 120, 360))
