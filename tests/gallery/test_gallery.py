"""The gallery's claims: each check can fail, each figure is drawn, and (slow) each entry holds when really computed.

The computations take a minute each, so the checks are put to the test on synthetic results: trajectories that obey the
claim by construction, for which every check must pass, and the same with one thing wrong, for which the check that is
about that thing must not.
"""

import dataclasses
import functools
import math

import numpy as np
import pytest
from drawers import both

import limitlab as ll
from limitlab.analysis.exits.exit_time import exit_time
from limitlab.gallery import ENTRIES, run_entry
from limitlab.gallery.committees import escape, escape_wide, plateau, second_layer, unify
from limitlab.results.schema import dataset, overlap_dataset
from limitlab.states.overlaps import Overlaps
from limitlab.sweep import sweep

ONE_PASS = ("escape", "escape-wide", "second-layer", "unify", "plateau")  # the others: test_gallery_static.py


def trajectory(problem, times, risk, M, Q, a=1.0, d=None):
    """Results made of given functions: risk (time, replica), M, Q, a broadcast to their shapes."""
    risk = np.asarray(risk)
    replicated = risk.ndim == 2
    risk = risk if replicated else risk[:, None]
    p, k = problem.student.width, problem.teacher.width
    lead = risk.shape
    path = Overlaps(
        np.broadcast_to(np.asarray(Q, float), (*lead, p, p)),
        np.broadcast_to(np.asarray(M, float), (*lead, p, k)),
        np.broadcast_to(np.eye(k), (*lead, k, k)),
        np.broadcast_to(np.asarray(a, float), (*lead, p)),
    )
    ends = {"status": ["ok"] * lead[1], "end_time": [times[-1]] * lead[1]}
    method = "simulate (overlaps)" if replicated else "OverlapODE"
    attrs = {} if d is None else {"d": d}
    return overlap_dataset(problem, times, path, risk, method=method, replicated=replicated, attrs=attrs, **ends)


def scattered(ode, replicas=64, seed=0, relative=0.02):
    """Replicas around a prediction: every variable with its own smooth random factor, of mean one."""
    rng = np.random.default_rng(seed)
    times = ode["time"].values
    ramp = times / times[-1]

    def shake(name, dims):
        values = ode[name].transpose("time", *dims).values[:, None]
        factors = 1 + relative * rng.standard_normal((1, replicas, *values.shape[2:]))
        return 1 + (factors - 1) * ramp.reshape(-1, 1, *[1] * (values.ndim - 2)), values

    (fr, risk), (fm, M) = shake("risk", ()), shake("M", ("student", "teacher"))
    (fq, Q), (fa, a) = shake("Q", ("student", "student_2")), shake("a", ("student",))
    problem = ll.spec.from_json(ode.attrs["problem"])
    Q = Q * (fq + np.swapaxes(fq, -1, -2)) / 2
    return trajectory(problem, times, risk * fr, M * fm, Q, a * fa, d=2000)


def verdicts(entry, data):
    return {check.statement: check.ok for check in entry.check(data)}


def assert_fails(entry, data, words):
    """The check whose statement has these words fails, and there is such a check."""
    about = {statement: ok for statement, ok in verdicts(entry, data).items() if words in statement}
    assert about, f"no check says {words!r}"
    assert not all(about.values())


# --- synthetic results that obey the claims -----------------------------------------------------------------


def one_unit(d, times, replicas, seed, *, factor=2.0, gamma=1 / 12):
    """Phase retrieval by one unit: the exact ODE from m(0)^2 = F g^2/d, which is what the claim says of SGD."""
    m = math.sqrt(factor / d) * np.random.default_rng(seed).standard_normal(replicas)
    grown = m**2 * np.exp(8 * (1 - 6 * gamma) * times[:, None])
    u = grown / (1 - m**2 + grown)
    M = np.sign(m) * np.sqrt(u)
    return trajectory(escape.PROBLEM, times, 2 * (1 - u), M[..., None, None], 1.0, d=d)


def escape_data(**truth):
    def formula(problem, d, average):
        return {"exit_time": float(exit_time(problem, d, escape.THRESHOLD, average))}

    def runs(replicas, times, seed, **truth):
        return lambda problem, d: one_unit(d, times, replicas, seed + int(d), **truth)

    grid = {"average": escape.FORMULAS, "d": escape.DIFFUSED}
    return {
        "formulas": sweep(formula, escape.PROBLEM, grid),
        "sde": sweep(runs(1024, escape.SDE_TIMES, 1, **truth), escape.PROBLEM, {"d": escape.DIFFUSED}),
        "sgd": sweep(runs(1024, escape.SGD_TIMES, 2, **truth), escape.PROBLEM, {"d": escape.SIMULATED}),
        "ode": one_unit(escape.SHOWN, escape.SGD_TIMES, 64, 3, factor=1.0),
    }


KNOWN = {}


@functools.wraps(exit_time)
def remembered(problem, d, threshold, average="quenched", **more):
    """exit_time, each value computed once for all tests."""
    key = ll.spec_hash(problem), d, threshold, average, *more.items()
    if key not in KNOWN:
        KNOWN[key] = exit_time(problem, d, threshold, average, **more)
    return KNOWN[key]


@pytest.fixture
def fake_wide(monkeypatch):
    """escape-wide with few points and made-up runs: they leave when the formula says (times ``late``)."""
    monkeypatch.setattr(escape_wide, "CURVE", [0.05, 0.1, 0.15])
    monkeypatch.setattr(escape_wide, "STARTS", 64)
    monkeypatch.setattr(ll, "exit_time", remembered)
    settings = {"late": 1.0, "learns": True}

    def risks(problem, d, times, replicas):
        of = ll.analysis.plateau(problem)
        rng, start = np.random.default_rng(5), 1 + 1 / of.width
        if of.width > 1 and of.Gamma > 1 / 6:
            share = 1 - 0.1 * np.sin(np.minimum(times, 2.0))[:, None] + 0.01 * rng.standard_normal(replicas)
            return start * np.where(times[:, None] == 0, 1.0, share)
        theory = remembered(problem, d=d, threshold=escape_wide.THRESHOLD, average="noise_corrected", starts=64)
        leave = theory.time * settings["late"] * (1 + 0.1 * rng.standard_normal(replicas))
        lost = 1 / (1 + 4 * np.exp(-of.growth * (times[:, None] - leave)))  # 0.2 at the exit
        lost = lost - lost[:1]
        return start * (1 - lost if settings["learns"] else 1 - 0.3 * lost)

    def simulate(problem, d, times, replicas, seed, representation, progress):
        return trajectory(problem, times, risks(problem, d, times, replicas), 0.0, np.eye(problem.student.width), d=d)

    def predict(problem, limit, times):
        return simulate(problem, limit.d, times, limit.replicas, 0, "", None)

    monkeypatch.setattr(ll, "simulate", simulate)
    monkeypatch.setattr(ll, "predict", predict)
    return settings


def second_layer_data():
    data = {}
    for kind, floor, a in (("fixed", 0.05, 1.0), ("trained", 0.0, 2.0)):
        problem, t = second_layer.problem(kind), second_layer.TIMES
        decay = np.exp(-t / 2)
        M = (0.3 + 0.7 * (1 - decay))[:, None, None, None]
        a_path = (a + (1 - a) * decay)[:, None, None]
        data[f"{kind}_ode"] = trajectory(problem, t, floor + 0.3 * decay, M, 1 - 0.5 * np.eye(2), a_path)
        data[f"{kind}_sgd"] = scattered(data[f"{kind}_ode"])
    data["trained_weights"] = scattered(data["trained_ode"], replicas=8, seed=1)
    return data


def unify_data():
    data, t = {}, unify.TIMES
    for p in unify.WIDTHS:
        risk = 0.05 * np.exp(-t) + 0.02 / p
        M = (1 - 0.7 * np.exp(-t))[:, None, None, None] * np.ones((p, 2))
        data[f"ode_{p}"] = trajectory(unify.problem(p), t, risk, M, np.eye(p) + 0.1)
        data[f"sgd_{p}"] = scattered(data[f"ode_{p}"])
    data["infinite"] = dataset(
        unify.problem(64), {"risk": (("time",), 0.05 * np.exp(-t))}, {"time": t}, method="HighDimMeanField"
    )

    def gaps(base, width, d):
        return {"mean_field": 1 / width, "high_dim": 1 / d + 1 / width}

    data["by_width"] = sweep(gaps, unify.problem(2), {"width": unify.MANY}, d=unify.SMALL_D)
    data["by_dimension"] = sweep(gaps, unify.problem(2), {"d": unify.DIMENSIONS}, width=10**4)
    return data


def committee_path(p, times, tilt, rate=0.3):
    """Specialisation that grows like tilt exp(rate t) and saturates at one."""
    gap = 1 / (1 + np.exp(-rate * times) / tilt)
    M = 0.5 + gap[:, None, None, None] * (np.eye(p) - 0.5)
    return 0.3 * (1 - gap), M


def plateau_data(rate=0.3):
    data = {}
    for p in plateau.WIDTHS:
        problem, t = ll.library.soft_committee(p, plateau.RATE[p], plateau.TILT), plateau.TIMES[p]
        data[f"ode_{p}"] = trajectory(problem, t, *committee_path(p, t, plateau.TILT), np.eye(p) + 0.2, float(p))
        data[f"sgd_{p}"] = scattered(data[f"ode_{p}"])
    base = ll.library.soft_committee(2, plateau.RATE[2], plateau.TILT)

    def flow(problem, tilt):
        path = committee_path(2, plateau.LONG, tilt, rate if np.isscalar(rate) else rate(tilt))
        return trajectory(base, plateau.LONG, *path, np.eye(2), 2.0)

    data["tilts"] = sweep(flow, base, {"tilt": plateau.TILTS})
    return data


# --- the checks ---------------------------------------------------------------------------------------------


def shifted_risk(runs, by=1.05):
    return runs.assign(risk=by * runs["risk"])


def test_escape_holds_for_runs_that_obey_its_claim():
    assert all(verdicts(escape.ENTRY, escape_data()).values())


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ({"factor": 1.0}, "SGD leaves when the noise-corrected formula says"),  # no noise: later
        ({"factor": 1.0}, "the ODE without noise is late"),
        ({"factor": 3.0}, "OverlapSDE leaves when the noise-corrected formula says"),
        ({"gamma": 1 / 14}, "grows like log(d)/growth"),  # a wrong learning rate
    ],
)
def test_escape_fails_for_runs_that_do_not(truth, words):
    assert_fails(escape.ENTRY, escape_data(**truth), words)


def test_escape_fails_if_sgd_and_sde_differ():
    data = escape_data() | {"sgd": escape_data(factor=1.0)["sgd"]}
    assert_fails(escape.ENTRY, data, "SGD and OverlapSDE agree")


def test_escape_wide_holds_for_runs_that_obey_its_claim(fake_wide):
    assert all(verdicts(escape_wide.ENTRY, escape_wide.compute(None)).values())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"late": 1.2}, "SGD leaves when"), ({"learns": False}, "below gamma = p/6 it learns")],
)
def test_escape_wide_fails_for_runs_that_do_not(fake_wide, wrong, words):
    fake_wide |= wrong
    assert_fails(escape_wide.ENTRY, escape_wide.compute(None), words)


def test_escape_wide_fails_if_the_optimum_learns_or_the_gain_is_the_formulas(fake_wide):
    data = escape_wide.compute(None)
    assert_fails(escape_wide.ENTRY, data | {"ode_optimal": data["ode_learns"]}, "never loses")
    off = data["gain_p8"].assign(samples=data["gain_p8"]["samples"] / 2)
    assert_fails(escape_wide.ENTRY, data | {"gain_p8": off}, "the gain over p = 1")
    turned = data["sgd_p1"].assign(samples=-data["sgd_p1"]["samples"])
    assert_fails(escape_wide.ENTRY, data | {"sgd_p1": turned}, "fewest samples")


def test_second_layer_holds_for_runs_that_obey_its_claim():
    assert all(verdicts(second_layer.ENTRY, second_layer_data()).values())


def test_second_layer_fails_for_runs_that_do_not():
    data, entry = second_layer_data(), second_layer.ENTRY
    for kind in ("fixed", "trained"):
        off = {f"{kind}_sgd": shifted_risk(data[f"{kind}_sgd"])}
        assert_fails(entry, data | off, f"second layer {kind}")
    assert_fails(entry, data | {"trained_weights": shifted_risk(data["trained_weights"], 1.2)}, "real weights")
    stuck = data["trained_ode"].assign(risk=data["fixed_ode"]["risk"], a=data["fixed_ode"]["a"])
    assert_fails(entry, data | {"trained_ode": stuck}, "only the trained second layer learns")
    assert_fails(entry, data | {"trained_ode": stuck}, "towards the teacher")


def test_unify_holds_for_runs_that_obey_its_claim():
    assert all(verdicts(unify.ENTRY, unify_data()).values())


def test_unify_fails_for_runs_that_do_not():
    data, entry = unify_data(), unify.ENTRY
    for p in unify.WIDTHS:
        assert_fails(entry, data | {f"sgd_{p}": shifted_risk(data[f"sgd_{p}"])}, f"p = {p}")
    assert_fails(entry, data | {"infinite": shifted_risk(data["infinite"], 3.0)}, "approaches the infinitely wide")
    flat = {"mean_field": data["by_width"]["high_dim"], "high_dim": data["by_width"]["mean_field"]}
    assert_fails(entry, data | {"by_width": data["by_width"].assign(flat)}, "1/sqrt(p)")
    assert_fails(entry, data | {"by_width": data["by_width"].assign(flat)}, "width does not cure")
    level = data["by_dimension"].assign(high_dim=0 * data["by_dimension"]["high_dim"] + 1)
    assert_fails(entry, data | {"by_dimension": level}, "1/sqrt(d)")


def test_plateau_holds_for_runs_that_obey_its_claim():
    assert all(verdicts(plateau.ENTRY, plateau_data()).values())


def test_plateau_fails_for_runs_that_do_not():
    data, entry = plateau_data(), plateau.ENTRY
    for p in plateau.WIDTHS:
        assert_fails(entry, data | {f"sgd_{p}": shifted_risk(data[f"sgd_{p}"])}, f"width {p}")
        early = data[f"ode_{p}"].assign(M=0 * data[f"ode_{p}"]["M"] + 0.5)
        assert_fails(entry, data | {f"ode_{p}": early}, f"specialise, width {p}")
    uneven = plateau_data(rate=lambda tilt: 0.3 * tilt**0.02)  # a length that is no logarithm
    assert_fails(entry, uneven, "each factor of ten")


# --- the figures and the entries ----------------------------------------------------------------------------


def test_every_figure_says_what_it_shows(fake_wide):
    made = {
        "escape": escape_data(),
        "escape-wide": escape_wide.compute(None),
        "second-layer": second_layer_data(),
        "unify": unify_data(),
        "plateau": plateau_data(),
    }
    assert set(made) == set(ONE_PASS)
    for name, data in made.items():
        figure = both(ENTRIES[name].figure(data))
        assert len(figure.get_suptitle()) > 20, name
        assert any(axes.get_legend() is not None for axes in figure.axes), name
        for axes in figure.axes:
            assert axes.get_xlabel(), name
            assert axes.get_title(loc="left"), name
            assert axes.lines, name
        assert figure.axes[0].get_ylabel(), name


def test_every_entry_is_described():
    for name, entry in ENTRIES.items():
        assert entry.name == name
        assert 0 < entry.seconds <= (300 if name == "atlas" else 200)  # runs at d = 512, where others stop at 256
        assert len(entry.title) > 20
        assert entry.claim.endswith(".")
        assert dataclasses.is_dataclass(entry)


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_PASS)
def test_the_claim_holds_when_really_computed(name, tmp_path):
    verdict = run_entry(name, tmp_path)
    assert verdict.ok, verdict.text
