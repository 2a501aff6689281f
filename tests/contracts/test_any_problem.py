"""A simulation needs no theory: every sensible one-pass problem runs, and ten drawn at random agree with NumPy."""

import dataclasses

import numpy as np
import pytest
from any_problem import CASES, RATE, WIDTH, D, by_hand, problem

import limitlab as ll
from limitlab.errors import InputError
from limitlab.problems.asked import Asked

pytestmark = pytest.mark.filterwarnings("ignore::limitlab.errors.RepresentationWarning")  # tanh on an even target

STEPS, RUNS, HAND = 40, 96, 2000
CLOCK = RATE / (WIDTH * D)
DRAWN = [CASES[i] for i in np.random.default_rng(14).choice(len(CASES), 10, replace=False)]


def name(case):
    return " | ".join(case)


def seen(case, seed=3, d=D):
    sim = ll.simulate(problem(case), d, [0.0, STEPS * CLOCK], replicas=RUNS, seed=seed).isel(time=-1)
    if "Q" in sim:
        norm = np.mean(np.diagonal(sim.Q.values, axis1=1, axis2=2), axis=1)
    elif "r" in sim:
        norm = np.mean(sim.r.values**2, axis=1)
    else:
        norm = np.mean(np.sum(sim.u.values**2, axis=2) + sim.s.values**2, axis=1)
    told = {"risk": sim.risk.values, "norm": norm}
    return told | ({"a": sim.a.values.mean(1)} if case.layer == "trained" else {})


def z_scores(one, two):
    return {
        key: (np.mean(one[key]) - np.mean(two[key]))
        / np.hypot(np.std(one[key]) / np.sqrt(len(one[key])), np.std(two[key]) / np.sqrt(len(two[key])))
        for key in one
        if np.std(one[key]) + np.std(two[key]) > 1e-12
    }


def test_there_are_all_of_them():
    assert len(CASES) == 5 * 6 * 3 * 2 + 2 * 3 * 2
    for case in CASES:
        made = problem(case)
        made.algorithm.setting(made, Asked("a test", InputError))  # none is refused


@pytest.mark.more_of(
    "gaussian, single index | sign, hinge | erf | trained",
    "hypercube, single index | noise, pseudo-huber | tanh | trained",
    "hypercube, sparse | modulus, square | tanh | fixed",
    "hypercube, single index | logistic, logistic | erf | fixed",
    "gaussian, committee | logistic, logistic | tanh | trained",
    "hypercube, sparse | sign, logistic | erf | trained",
    "gaussian, single index | logistic, logistic | square | trained",
    "hypercube, single index | noise, pseudo-huber | erf | fixed",
)
@pytest.mark.parametrize("case", DRAWN, ids=name)
def test_ten_drawn_at_random_agree_with_plain_numpy(case):
    z = z_scores(seen(case), by_hand(case, STEPS, HAND, seed=1))
    assert max(map(abs, z.values())) < 4, z


def test_a_wrong_number_of_steps_is_seen():
    """Negative control: plain NumPy that stops halfway."""
    case = next(case for case in DRAWN if case.activation == "erf" or case.activation == "tanh")
    z = z_scores(seen(case), by_hand(case, STEPS // 4, HAND, seed=1))
    assert max(map(abs, z.values())) > 6, z


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=name)
def test_every_one_runs(case):
    sim = ll.simulate(problem(case), D, [0.0, 10 * CLOCK], replicas=2)
    assert set(sim.status.values.tolist()) == {"ok"} and np.all(np.isfinite(sim.risk))
    if "risk_error" in sim:
        assert np.all(sim.risk_error > 0) and sim.attrs["risk_from"]


EXTRAS = {
    "decay, heat, schedule, bias": dict(
        student=dict(bias="trained", second_layer="trained"),
        rule=dict(weight_decay=0.3, temperature=0.01, schedule=ll.PowerSchedule(0.25)),
    ),
    "batches on the sphere": dict(student={}, rule=dict(batch_size=4, spherical=True)),
}


@pytest.mark.more_of(
    "gaussian, committee-batches on the sphere",
    "hypercube, sparse-decay, heat, schedule, bias",
    "gaussian, committee-decay, heat, schedule, bias",
)
@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("pair", ["gaussian, committee", "hypercube, sparse"])
def test_all_options_of_the_rule_run_everywhere(pair, extra):
    case = next(c for c in CASES if c.pair == pair and c.labels == "noise, square" and c.activation == "tanh")
    made = problem(case)
    made = dataclasses.replace(
        made,
        student=ll.Committee(WIDTH, "tanh", **EXTRAS[extra]["student"]),
        algorithm=ll.OnlineSGD(RATE, **EXTRAS[extra]["rule"]),
    )
    sim = ll.simulate(made, D, [0.0, 10 * CLOCK], replicas=2)
    assert np.all(np.isfinite(sim.risk)) and set(sim.status.values.tolist()) == {"ok"}
    assert ("b" in sim) == ("bias" in EXTRAS[extra]["student"])


def test_a_sparse_target_on_gaussian_inputs_is_refused_in_words():
    case = next(c for c in CASES if c.pair == "hypercube, sparse")
    with pytest.raises(InputError, match="reduced by z\\^2 = 1"):
        ll.simulate(dataclasses.replace(problem(case), inputs=ll.Gaussian()), D, [0.0])


def test_the_risk_on_fields_is_the_exact_one():
    """The same runs, measured by the closed form and by draws of the fields: within the stated error."""
    from limitlab.algorithms.one_pass import views

    made = problem(next(c for c in CASES if c[:3] == ("gaussian, committee", "noise, square", "tanh")))
    exact = ll.simulate(made, D, [0.0, STEPS * CLOCK], replicas=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "closed", lambda setting: False)
        drawn = ll.simulate(made, D, [0.0, STEPS * CLOCK], replicas=8)
    z = (drawn.risk - exact.risk) / drawn.risk_error
    assert float(np.max(np.abs(z))) < 4.5 and float(np.std(z)) > 0.4
    np.testing.assert_allclose(drawn.Q, exact.Q, rtol=1e-12)
