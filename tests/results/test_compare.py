"""The verdict: false alarms are as rare as z says, deviations of any shape are found, and it is said where."""

import dataclasses
import io

import numpy as np
import pytest
import xarray as xr
from rich.console import Console
from scipy import stats

import limitlab as ll
from limitlab.errors import InputError
from limitlab.results.compare import compare
from limitlab.results.profiles import normal_score, worst_profiles
from limitlab.results.schema import overlap_dataset
from limitlab.states.overlaps import Overlaps

T = 30
KINDS = ("independent", "memory", "walk", "scaled")


def trajectories(rng, replicas, trials, kind, steps=T):
    """Gaussian trajectories (replica, time, trial) of mean 0, correlated in time or not, of equal or growing spread."""
    x = rng.normal(size=(replicas, steps, trials))
    if kind == "walk":
        return np.cumsum(x, axis=1)
    if kind in ("memory", "scaled"):
        for t in range(1, steps):
            x[:, t] = 0.9 * x[:, t - 1] + np.sqrt(1 - 0.81) * x[:, t]
    return x * np.logspace(-3, 0, steps)[None, :, None] if kind == "scaled" else x


def worst_of(x, y=None):
    y = np.zeros((1, *x.shape[1:])) if y is None else y
    return worst_profiles(x, y, np.maximum(np.abs(x).max((0, 1)), np.abs(y).max((0, 1))))


def z_of(x, y=None, components=1):
    """z of comparisons of so many components each."""
    log_count = worst_of(x, y).log_count.reshape(-1, components)
    return normal_score(np.min(log_count, axis=1) + np.log(components))


def signed_mean_z(x):
    """The statistic of old: one signed time average, which deviations of both signs leave at zero."""
    u = np.mean(x / np.std(x, axis=0, ddof=1), axis=1)
    return np.mean(u, axis=0) / (np.std(u, axis=0, ddof=1) / np.sqrt(len(u)))


# --- false alarms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [2, 4, 16, 64])
def test_false_alarms_are_as_rare_as_z_says(replicas):
    """All profiles of all components together: the chance is kept at two replicas as at many, and not wasted."""
    rng = np.random.default_rng(replicas)
    for components in (1, 5):
        x = [trajectories(rng, replicas, 500 * components, kind, steps=12) for kind in KINDS]
        z = z_of(np.concatenate(x, axis=2), components=components)
        assert np.mean(z > 4) < 1e-3
        for level in (1.5, 2.0, 2.5):
            chance = 2 * stats.norm.sf(level)
            assert stats.binomtest(int(np.sum(z > level)), len(z), chance, alternative="greater").pvalue > 1e-4
        assert np.mean(z > 1) > 0.1  # of at most 0.32: it is a level, not a bound far off


@pytest.mark.parametrize(("n", "m", "spread"), [(2, 2, 1.0), (2, 64, 1.0), (4, 16, 0.3), (16, 16, 3.0)])
def test_two_samples_raise_no_false_alarms(n, m, spread):
    """With the degrees of freedom that Welch estimates it would be 74 % for 2 against 64."""
    rng = np.random.default_rng(n + m)
    for kind in ("independent", "walk"):
        x, y = trajectories(rng, n, 2000, kind, 12) + 7, spread * trajectories(rng, m, 2000, kind, 12) + 7
        z = z_of(x, y)
        assert np.mean(z > 4) < 1e-3
        assert np.mean(z > 2) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 4, 16, 64])
def test_ten_thousand_comparisons_that_agree(replicas):
    """1 to 40 components, correlated in time or not: |z| > 4 in less than one of a thousand (it says 6e-5)."""
    rng, scores = np.random.default_rng(100 + replicas), []
    for components, rounds in ((1, 4), (3, 6), (10, 10), (40, 20)):
        for kind in KINDS:
            for _ in range(rounds):
                count = 640 // rounds
                x = trajectories(rng, replicas, count * components, kind, steps=20)
                scores.append(z_of(x, components=components))
    z = np.concatenate(scores)
    assert len(z) >= 10_000
    assert np.mean(z > 4) < 1e-3
    assert stats.binomtest(int(np.sum(z > 3)), len(z), 2 * stats.norm.sf(3), alternative="greater").pvalue > 1e-4


def test_negative_control_a_spread_about_the_mean_raises_false_alarms():
    """Weights from the scatter about the mean know of the gap: with 2 replicas the law is no longer Student's."""
    x = trajectories(np.random.default_rng(0), 2, 20_000, "walk")
    y = np.mean(x / np.std(x, axis=0, ddof=1), axis=1)
    tau = np.abs(np.mean(y, axis=0)) / np.maximum(np.std(y, axis=0, ddof=1) / np.sqrt(2), 1e-12)
    assert np.mean(2 * stats.t.sf(tau, 1) < 6.3e-5) > 0.01  # two hundred times too often


def test_negative_control_a_chi_square_over_points_rejects_correlated_trajectories():
    x = trajectories(np.random.default_rng(1), 64, 1000, "walk")
    tau = np.mean(x, axis=0) / (np.std(x, axis=0, ddof=1) / 8)
    p = stats.chi2.sf(np.sum(tau**2, axis=0), T)
    assert np.mean(p < 6.3e-5) > 0.05  # nominally 6e-5
    assert np.mean(z_of(x) > 4) < 3e-3


# --- deviations that are found ----------------------------------------------------------------------------


def planted(rng, kind, shape, size, replicas, trials, steps=T):
    """Trajectories off by a profile, in units of the spread, of ``size`` standard errors of that profile."""
    i, where = np.arange(steps)[:, None], rng.integers(0, steps, trials)[None]
    profile = {
        "constant": np.ones((steps, trials)),
        "alternating": (-1.0) ** i * np.ones(trials),
        "bump": np.exp(-(((i - where) / (steps / 10)) ** 2) / 2),
        "one time": (i == where) * 1.0,
    }[shape]
    many = trajectories(rng, 2000, 1, kind, steps)[..., 0]
    spread = np.std(many, axis=0)
    along = (many / spread) @ profile / np.sum(profile**2, axis=0)
    amplitude = size * np.std(along, axis=0) / np.sqrt(replicas)
    return trajectories(rng, replicas, trials, kind, steps) + amplitude * profile * spread[:, None]


SHAPES = ("constant", "alternating", "bump", "one time")
SIZES = [(16, 1, 10.0), (16, 40, 14.0), (64, 1, 7.5), (64, 40, 8.5)]


def share_found(rng, kind, shape, replicas, components, size, trials):
    """Components but one are as predicted, and share the correction."""
    x = planted(rng, kind, shape, size, replicas, trials)
    return np.mean(normal_score(worst_of(x).log_count + np.log(components)) > 4)


@pytest.mark.parametrize("shape", SHAPES)
def test_deviations_of_any_shape_are_found(shape):
    """The slow twin asks for 95 % of each kind of noise; so few trials as these can be 3 % off."""
    rng = np.random.default_rng(2)
    for replicas, components, size in SIZES[:1] + SIZES[3:]:
        found = [share_found(rng, kind, shape, replicas, components, size, 75) for kind in KINDS]
        assert np.mean(found) > 0.93


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "components", "size"), SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_deviations_of_any_shape_are_found_in_95_percent(shape, replicas, components, size):
    rng = np.random.default_rng(3)
    for kind in KINDS:
        assert share_found(rng, kind, shape, replicas, components, size, 2000) > 0.95


def test_one_component_of_forty_is_found_and_named():
    rng = np.random.default_rng(4)
    found = 0
    for trial in range(20):
        x = trajectories(rng, 16, 40, "memory")
        which = trial % 40
        x[:, :, which] = planted(rng, "memory", "constant", 14.0, 16, 1)[:, :, 0]
        worst = worst_of(x)
        found += normal_score(worst.log_count + np.log(40))[which] > 4 and np.argmin(worst.log_count) == which
    assert found >= 19


@pytest.mark.parametrize("shape", ["halves", "alternating"])
def test_deviations_that_cancel_in_the_mean_do_not_fool_it(shape):
    """The issue's: +10 and -10 standard errors in the two halves, or alternating by 20, were called agreement."""
    x = trajectories(np.random.default_rng(5), 16, 200, "memory")
    sign, size = {"halves": (np.sign(np.arange(T) - T / 2 + 0.5), 10), "alternating": ((-1.0) ** np.arange(T), 20)}[
        shape
    ]
    off = x + size / 4 * sign[None, :, None]
    assert np.mean(np.abs(signed_mean_z(off)) > 4) < 0.05  # negative control: the mean sees nothing
    assert np.mean(z_of(off) > 4) > 0.95


def test_the_worst_profile_is_the_one_that_was_planted():
    rng, size = np.random.default_rng(6), 30.0
    x = planted(rng, "memory", "constant", size, 16, 50)
    kinds = {"constant": "mean", "alternating": "alternating", "one time": "time"}
    for shape, kind in kinds.items():
        worst = worst_of(planted(rng, "independent", shape, size, 16, 50))
        assert np.mean(worst.kind == kind) > 0.9
    worst = worst_of(x)
    assert abs(np.median(worst.gap / worst.error) / size - 1) < 0.2
    one = trajectories(rng, 16, 1, "independent")
    one[:, 7] += 20.0
    worst = worst_of(one)
    assert (worst.kind[0], worst.first[0], worst.last[0]) == ("time", 7, 7)
    np.testing.assert_allclose(worst.gap, np.mean(one[:, 7]))
    np.testing.assert_allclose(worst.error, np.std(one[:, 7], ddof=1) / 4)


def test_at_a_single_time_it_is_the_test_of_student():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(7, 1, 50)) + 0.5, 2 * rng.normal(size=(12, 1, 50))
    expected = stats.ttest_1samp(x[:, 0], 0.0)
    np.testing.assert_allclose(-np.expm1(-np.exp(worst_of(x).log_count)), expected.pvalue, rtol=1e-9)
    np.testing.assert_array_equal(np.sign(worst_of(x).gap), np.sign(expected.statistic))
    welch = stats.ttest_ind(x[:, 0], y[:, 0], equal_var=False)
    safe = 2 * stats.t.sf(np.abs(welch.statistic), 6)
    np.testing.assert_allclose(-np.expm1(-np.exp(worst_of(x, y).log_count)), safe, rtol=1e-9)
    np.testing.assert_allclose(2 * stats.norm.sf(z_of(x)), expected.pvalue, rtol=1e-6)
    np.testing.assert_allclose(worst_of(y, x).gap, -worst_of(x, y).gap, rtol=1e-9)


def test_z_stays_finite_and_grows_far_beyond_the_smallest_float():
    x = np.random.default_rng(6).normal(size=(64, 1, 1))
    z = [float(z_of(x + shift)[0]) for shift in (1e1, 1e3, 1e5, 1e7)]
    assert np.all(np.isfinite(z))
    assert np.all(np.diff(z) > 1)
    # sf(tau) ~ tau^-63: log-tails are linear in log(shift), so z^2 is, up to logarithms
    assert abs((z[3] ** 2 - z[2] ** 2) / (z[2] ** 2 - z[1] ** 2) - 1) < 0.05


def test_times_without_spread_are_left_out_if_equal_and_certain_if_not():
    x = trajectories(np.random.default_rng(7), 8, 1, "memory")
    z = z_of(x)
    still = np.concatenate([np.full((8, 1, 1), 2.0), x + 2.0], axis=1)
    y = np.full((1, T + 1, 1), 2.0)
    np.testing.assert_allclose(z_of(still, y), z, rtol=1e-6)
    y[0, 0] += 1e-12
    np.testing.assert_allclose(z_of(still, y), z, rtol=1e-6)
    y[0, 0] += 1e-3
    worst = worst_of(still, y)
    assert worst.log_count[0] == -np.inf and worst.gap[0] == pytest.approx(-1e-3) and worst.first[0] == 0
    assert np.isnan(worst_of(np.ones((8, T, 1)), np.ones((1, T, 1))).log_count)[0]


def test_fluctuations_that_cancel_exactly_are_not_judged_by_their_rounding():
    """The mean of each trajectory is the same number but for rounding: it has no error bar, and agrees."""
    x = trajectories(np.random.default_rng(8), 4, 300, "independent", 8)
    x = x - np.mean(x, axis=1, keepdims=True) + 1e3
    assert np.all(np.isfinite(worst_of(x, np.full((1, 8, 300), 1e3)).log_count))
    assert np.all(z_of(x, np.full((1, 8, 300), 1e3)) < 6)


# --- whole results -------------------------------------------------------------------------------------

PROBLEM = ll.Problem(
    teacher=ll.Committee(width=1),
    student=ll.Committee(width=2),
    start=ll.RandomStart(),
    algorithm=ll.OnlineSGD(learning_rate=0.5),
)
TIMES = np.linspace(0.0, 3.0, T)


def result(rng_seed=0, replicas=16, shift=0.0, spread=0.1, problem=PROBLEM, times=TIMES, lost=(), **attrs):
    """A result in the schema; ``replicas=0`` is the exact mean, ``lost`` replicas end at half time."""
    rng, n, steps = np.random.default_rng(rng_seed), max(replicas, 1), len(times)
    noise = (
        spread * trajectories(rng, n, 8, "memory")[:, :steps].transpose(1, 0, 2)
        if replicas
        else np.zeros((steps, 1, 8))
    )
    mean = np.tanh(times)[:, None, None]
    M = (mean * np.asarray([1.0, 0.5]) + noise[..., :2])[..., None] + shift
    Q = np.ones((steps, n, 2, 2))
    Q[..., 0, 1] = Q[..., 1, 0] = mean[..., 0] + noise[..., 2]
    risk = np.exp(-mean[..., 0]) + noise[..., 3]
    P, a = np.ones((steps, n, 1, 1)), np.ones((steps, n, 2))
    status = ["diverged" if r in lost else "ok" for r in range(n)]
    for r in lost:
        for array in (M, Q, risk, a):
            array[steps // 2 :, r] = np.nan
    return overlap_dataset(
        problem,
        times,
        Overlaps(Q, M, P, a),
        risk,
        status=status,
        end_time=[float(times[-1])] * n,
        method="simulate" if replicas else "limit",
        replicated=bool(replicas),
        attrs=attrs,
    )


PRED = result(replicas=0)


def test_agreement_and_disagreement_are_told_apart():
    good, bad = compare(result(), PRED), compare(result(shift=0.2), PRED)
    assert good.agrees is True
    assert good.max_z < 4
    assert good.verdict.startswith("AGREES: every |z| < 4")
    assert bad.agrees is False
    assert bad.max_z > 4
    assert bad.verdict.startswith("DISAGREES: |z| reaches 4")
    assert "M[" in bad.verdict
    assert not compare(result(), PRED, threshold=1e-3).agrees


def test_the_table_has_gap_stderr_and_z():
    sim = result()
    table = compare(sim, PRED).table
    np.testing.assert_allclose(table["M_gap"], sim["M"].mean("replica") - PRED["M"], atol=1e-15)
    np.testing.assert_allclose(table["risk_stderr"], sim["risk"].std("replica", ddof=1) / 4, rtol=1e-12)
    assert table["M_z"].dims == ("student", "teacher")
    assert table["Q_gap"].dims == ("time", "student", "student_2")
    assert "replica" not in table.coords


def test_symmetric_matrices_count_once_and_constants_are_left_out():
    entries = {entry.variable: entry for entry in compare(result(), PRED).entries}
    assert set(entries) == {"risk", "M", "Q", "a"}
    assert (entries["Q"].compared, entries["Q"].constant) == (1, 2)
    assert entries["Q"].worst == "Q[0, 1]"
    assert (entries["a"].compared, entries["a"].constant) == (0, 2)
    assert entries["M"].compared == 2
    wrong = PRED.copy(deep=True)
    wrong["Q"][:, 1, 1] = 1.001  # a constant that is not equal
    gap = compare(result(), wrong)
    assert not gap.agrees
    assert gap.max_z == np.inf


def test_roles_may_be_swapped():
    forth, back = compare(result(), PRED), compare(PRED, result())
    assert forth.max_z == back.max_z
    np.testing.assert_allclose(forth.table["M_z"], -back.table["M_z"])
    np.testing.assert_allclose(forth.table["M_gap"], -back.table["M_gap"], atol=1e-15)


def test_two_results_with_replicas_are_two_samples():
    same, far = compare(result(1), result(2, replicas=24)), compare(result(1), result(2, shift=0.3))
    assert same.agrees
    assert not far.agrees
    assert "16 replicas, 24 replicas" in same.verdict
    one_sided = compare(result(1), PRED)
    assert np.all(same.table["M_stderr"] > one_sided.table["M_stderr"])


def test_pairs_are_sharper_than_samples_and_need_the_same_start():
    sim = result(1).assign_attrs(seed=1, d=100.0)
    shifted = sim.copy(deep=True)
    rng = np.random.default_rng(0)
    shifted["M"] = sim["M"] + 0.01 + 0.001 * rng.normal(size=sim["M"].shape)
    shifted["risk"] = sim["risk"] + 0.001 * rng.normal(size=sim["risk"].shape)
    apart = compare(sim, shifted)
    assert apart.agrees
    assert "paired=True is sharper" in apart.verdict
    assert "paired" not in compare(sim, shifted.assign_attrs(seed=2)).verdict
    together = compare(sim, shifted, paired=True)
    assert not together.agrees
    assert "replica by replica" in together.verdict
    assert compare(sim, sim, paired=True).agrees
    with pytest.raises(InputError, match=r"same seed.*got 1 and 2"):
        compare(sim, shifted.assign_attrs(seed=2), paired=True)
    with pytest.raises(InputError, match="replicas on both sides"):
        compare(sim, PRED, paired=True)
    with pytest.raises(InputError, match="at least 2 replicas with the same number"):
        compare(sim, shifted.assign_coords(replica=np.arange(16) + 15), paired=True)


def test_without_replicas_there_are_gaps_and_no_z():
    near = PRED.copy(deep=True)
    near["M"] = PRED["M"] + 1e-9
    same, far = compare(PRED, near), compare(PRED, PRED.assign(M=PRED["M"] + 0.1))
    assert np.isnan(same.max_z)
    assert same.agrees
    assert not far.agrees
    assert "no z-score" in same.verdict
    assert far.entries[1].gap == pytest.approx(-0.1)
    assert "-" in str(same)


def test_one_replica_is_refused_with_a_remedy():
    for sim, pred in ((result(replicas=1), PRED), (PRED, result(replicas=1)), (result(replicas=1), result())):
        with pytest.raises(InputError, match=r"at least 2 replicas.*got 1.*replicas=16"):
            compare(sim, pred)
    assert "single replica" in compare(result(), result(3, replicas=1, spread=1e-6)).verdict
    assert np.isnan(compare(result(replicas=1).isel(replica=0), PRED).max_z)


def test_different_problems_are_refused_by_field():
    other = ll.Problem(
        teacher=ll.Committee(width=1),
        student=ll.Committee(width=2, activation="relu"),
        start=ll.RandomStart(),
        algorithm=ll.OnlineSGD(learning_rate=0.4),
    )
    pred = result(replicas=0, problem=other)
    with pytest.raises(
        InputError, match=r"algorithm\.learning_rate \(0\.5 / 0\.4\); student\.activation \(erf / relu\)"
    ):
        compare(result(), pred)
    assert compare(result(), pred, check_problem=False).agrees


def test_only_shared_times_count_and_none_is_refused():
    some = compare(result(), PRED.isel(time=slice(0, 10)))
    assert some.table.sizes["time"] == 10
    assert f"only 10 of {T} times are shared" in some.verdict
    with pytest.raises(InputError, match=r"share no time.*Ask both for the same times"):
        compare(result(), PRED.assign_coords(time=TIMES + 10))


def test_diverged_replicas_are_left_out_loudly_and_forbid_agreement():
    gap = compare(result(lost=(2, 5)), PRED)
    assert gap.agrees is False
    assert gap.max_z < 4
    assert "WARNING: 2 of 16 replicas of the first result ended early" in gap.verdict
    assert "14 replicas" in gap.verdict
    kept = compare(result().drop_sel(replica=[2, 5]), PRED)
    np.testing.assert_allclose(gap.table["M_z"], kept.table["M_z"])
    every = compare(result(lost=range(16)), PRED)
    assert every.agrees is False
    assert every.table.sizes["time"] == T // 2
    assert "16 of 16" in every.verdict


def test_a_limit_that_ends_while_the_simulation_goes_on_disagrees():
    gap = compare(result(), result(replicas=0, lost=(0,)))
    assert gap.agrees is False
    assert "all of the second result ended early" in gap.verdict
    assert gap.table.sizes["time"] == T // 2


def test_results_that_diverge_together_are_compared_up_to_there():
    gap = compare(result(lost=range(16)), result(replicas=0, lost=(0,)))
    assert gap.agrees is True
    assert "WARNING" in gap.verdict
    assert "finite only up to t =" in gap.verdict
    assert gap.table.sizes["time"] == T // 2


def test_nothing_finite_is_a_disagreement_and_not_an_error():
    sim = result()
    sim = sim.assign({name: sim[name] * np.nan for name in ("M", "Q", "risk", "a")})
    gap = compare(sim, PRED)
    assert gap.agrees is False
    assert gap.entries == ()
    assert "at no time" in gap.verdict
    assert "DISAGREES" in str(gap)


def test_bare_datasets_with_a_time_dimension_are_enough():
    rng = np.random.default_rng(8)
    sim = xr.Dataset({"x": (("replica", "time"), rng.normal(size=(8, 5)))}, {"time": np.arange(5.0)})
    pred = xr.Dataset({"x": ("time", np.zeros(5)), "y": ("time", np.zeros(5))}, {"time": np.arange(5.0)})
    gap = compare(sim, pred)
    assert gap.agrees
    assert [entry.variable for entry in gap.entries] == ["x"]
    with pytest.raises(InputError, match="share no variable over time"):
        compare(sim, pred[["y"]])
    with pytest.raises(InputError, match="needs two results of one kind"):
        compare(sim, pred.isel(time=0))
    mixed = pred.expand_dims(particle=3).assign(z=("time", np.zeros(5)))
    gap = compare(sim.assign(z=sim["x"]), mixed)
    assert "x has other dimensions" in gap.verdict
    assert [entry.variable for entry in gap.entries] == ["z"]


def test_it_prints_an_aligned_table_and_escapes_html():
    gap = compare(result(d=1000), PRED)
    lines = str(gap).splitlines()
    assert lines[0] == "simulate [d=1000, 16 replicas] against limit"
    assert lines[1].split() == ["variable", "compared", "worst", "where", "gap", "stderr", "gap", "%", "z", "corrected"]
    rows = lines[3 : 3 + len(gap.entries)]
    assert len({len(row) for row in rows}) == 1
    assert lines[-1] == gap.verdict
    assert repr(gap) == str(gap)
    page = compare(result().assign_attrs(method="<b>"), PRED)._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert page.count("<tr>") == 1 + len(gap.entries)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(gap)
    assert "AGREES" in console.export_text()


def test_a_comparison_is_frozen():
    gap = compare(result(), PRED)
    with pytest.raises(AttributeError):
        gap.agrees = False  # type: ignore[misc]


def test_runs_that_all_end_at_once_do_not_agree():
    """Nothing was compared: only the common start is left."""
    lost = np.full((4, 3), np.nan)
    lost[:, 0] = 1.0
    times = {"time": np.arange(3.0)}
    sim = xr.Dataset({"x": (("replica", "time"), lost)}, times)
    gap = compare(sim, xr.Dataset({"x": ("time", lost[0])}, times))
    assert not gap.agrees
    assert gap.verdict.startswith("NOTHING TO COMPARE")


def test_iterations_and_fixed_points_compare_too():
    rng = np.random.default_rng(1)
    steps = {"iteration": np.arange(4)}
    sim = xr.Dataset({"m": (("iteration", "replica"), 1 + 0.1 * rng.normal(size=(4, 64)))}, steps)
    gap = compare(sim, xr.Dataset({"m": ("iteration", np.ones(4))}, steps))
    assert gap.agrees and "iterations: 4" in gap.verdict and "iteration" in gap.table.dims
    point = compare(sim.isel(iteration=0, drop=True), xr.Dataset({"m": ((), 1.0)}))
    assert point.agrees and "time" not in point.table.dims
    assert not compare(sim.isel(iteration=0, drop=True), xr.Dataset({"m": ((), 1.2)})).agrees


# --- where and how much -----------------------------------------------------------------------------------


def scalar(values, times=None, name="x", **attrs):
    """A bare result: values over (replica, time), or over time."""
    dims = ("replica", "time") if np.ndim(values) == 2 else ("time",)
    times = np.arange(np.shape(values)[-1]) + 1.0 if times is None else times
    return xr.Dataset({name: (dims, np.asarray(values, float))}, {"time": times}, attrs)


def runs(seed=0, replicas=16, kind="memory", spread=1.0):
    return spread * trajectories(np.random.default_rng(seed), replicas, 1, kind)[..., 0]


def test_the_row_of_a_variable_belongs_together():
    """Gap, standard error, per cent and z are those of one profile; the verdict is what z says."""
    x = runs()
    x[:, 7] += 8.0
    gap = compare(scalar(10 + x), scalar(np.full(T, 10.0)))
    (entry,) = gap.entries
    assert entry.where == "t = 8" and not gap.agrees
    assert entry.gap == pytest.approx(np.mean(x[:, 7])) and entry.stderr == pytest.approx(np.std(x[:, 7], ddof=1) / 4)
    assert entry.relative == pytest.approx(entry.gap / 10)
    assert entry.z == gap.max_z == float(gap.table["x_z"]) < entry.gap / entry.stderr
    assert "largest" in gap.verdict and "x, t = 8" in gap.verdict
    halves = 3 * np.where(np.arange(T) < T / 2, -1.0, 1.0)
    (entry,) = compare(scalar(10 + runs(kind="independent") + halves), scalar(np.full(T, 10.0))).entries
    assert entry.where == "slope over t" and entry.z < -4  # the cosine falls
    (entry,) = compare(scalar(10 + runs() + 5.0), scalar(np.full(T, 10.0))).entries
    assert entry.where == "mean over t" and entry.relative == pytest.approx(entry.gap / 10)


def test_an_issue_of_old_is_no_agreement():
    """+10 and -10 standard errors in the two halves; alternating by 20."""
    x, off = runs(1), 10 * np.std(runs(1), axis=0, ddof=1) / 4
    for sign, factor in ((np.where(np.arange(T) < T / 2, 1.0, -1.0), 1.0), ((-1.0) ** np.arange(T), 2.0)):
        assert not compare(scalar(x), scalar(factor * off * sign)).agrees


def test_a_margin_makes_it_a_test_of_equivalence():
    rng = np.random.default_rng(3)
    sim, pred = scalar(10.03 + 0.01 * rng.normal(size=(64, T))), scalar(np.full(T, 10.0))
    assert compare(sim, pred).word == "DISAGREES"
    close = compare(sim, pred, margin=0.01)
    assert close.word == "DIFFERS WITHIN THE MARGIN" and close.agrees and close.margin == 0.01
    worst = np.max(np.abs(close.table["x_gap"]) + 2 * close.table["x_stderr"]) / 10
    assert close.entries[0].reach == pytest.approx(float(worst))
    assert close.verdict.startswith(
        f"DIFFERS WITHIN THE MARGIN: differs by at most {100 * float(worst):.2g} % (x, t = "
    )
    assert "the margin is 1 %" in close.verdict
    far = compare(sim, pred, margin=0.003)
    assert far.word == "DISAGREES" and "beyond the margin of 0.3 %" in far.verdict
    at_one_time = sim.copy(deep=True)
    at_one_time["x"][:, 4] += 0.2  # 2 % at one time, 0.4 % on average
    assert compare(at_one_time, pred, margin=0.01).word == "DISAGREES"
    same = compare(scalar(10 + rng.normal(size=(16, T))), pred, margin=0.001)
    assert same.word == "AGREES" and "are not excluded" in same.verdict
    sharp = compare(scalar(10 + 1e-4 * rng.normal(size=(16, T))), pred, margin=0.001)
    assert sharp.word == "AGREES" and "any difference is below" in sharp.verdict
    assert compare(pred, scalar(np.full(T, 10.03)), margin=0.01).word == "DIFFERS WITHIN THE MARGIN"  # no replicas
    assert compare(pred, scalar(np.full(T, 10.3)), margin=0.01).word == "DISAGREES"
    ended = result(lost=(2,))
    assert compare(ended, PRED, margin=10.0).word == "DISAGREES"
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(InputError, match="margin"):
            compare(sim, pred, margin=wrong)


def test_times_are_matched_to_rounding():
    """np.arange(0, .35, .1) has 0.30000000000000004: only t = 0 was left, and everything agreed."""
    here, there = np.arange(0, 0.35, 0.1), np.linspace(0, 0.3, 4)
    assert not np.array_equal(here, there)
    x = 1 + np.concatenate([np.zeros((16, 1)), 0.01 * np.random.default_rng(0).normal(size=(16, 3))], axis=1)
    gap = compare(scalar(x, here), scalar(np.ones(4), there))
    assert gap.agrees and "times: 4" in gap.verdict and "interpolated" not in gap.verdict
    assert not compare(scalar(x, here), scalar([1.0, 1.5, 2.0, 2.5], there)).agrees
    early = np.logspace(-9, 3, 10)  # small times stay apart from each other and from 0
    assert compare(scalar(np.ones((4, 10)), early), scalar(np.ones(11), np.append(0, early))).table.sizes["time"] == 10


def test_a_prediction_is_interpolated_between_its_times_and_nowhere_else():
    rng, t, grid = np.random.default_rng(1), np.linspace(0.1, 3.5, 35), np.linspace(0, 3, 16)
    sim, pred = scalar(np.sin(t) + 0.01 * rng.normal(size=(16, 35)), t), scalar(np.sin(grid), grid)
    gap = compare(sim, pred)
    assert gap.agrees and "at 15 of 35 times the prediction was interpolated (cubic in time)" in gap.verdict
    assert gap.table.sizes["time"] == 30 and float(gap.table["time"][-1]) == pytest.approx(3.0)
    assert "only 30 of 35 times are shared" in gap.verdict
    np.testing.assert_allclose(gap.table["x_gap"], np.mean(sim["x"][:, :30], axis=0) - np.sin(t[:30]), atol=1e-4)
    assert compare(pred, sim).agrees  # roles swapped
    assert not compare(sim, pred.assign_coords(time=grid / 1.1)).agrees
    coarse = pred.isel(time=[0, 5, 10, 15])
    few = compare(sim, coarse)  # too coarse: only its own times are left
    assert "too far apart to interpolate" in few.verdict and few.table.sizes["time"] < 10
    two = compare(sim, sim.isel(time=slice(1, None, 2)))  # samples are not interpolated
    assert two.table.sizes["time"] == 17 and "interpolated" not in two.verdict


def test_no_verdict_where_nothing_beyond_the_start_is_compared():
    sim = scalar(np.ones((4, 3)), np.array([0.0, 1.0, 2.0]))
    gap = compare(sim, scalar(np.ones(2), np.array([0.0, 1.0])).isel(time=[0]))
    assert gap.word == "NOTHING TO COMPARE" and gap.agrees is False
    assert "only t = 0, the start, is shared" in gap.verdict
    assert str(gap) and gap._repr_html_()
    again = scalar(np.ones((4, 2)), np.array([0.0, 0.5]))
    assert compare(sim, again).word == "NOTHING TO COMPARE"
    assert compare(sim.isel(time=[2]), scalar([1.0], np.array([2.0]))).agrees  # a single later time is a comparison
    steps = xr.Dataset({"m": ("iteration", np.ones(2))}, {"iteration": [0, 1]})
    assert "only iteration 0, the start" in compare(steps, steps.isel(iteration=[0])).verdict


# --- words ------------------------------------------------------------------------------------------------


def test_problems_are_not_results():
    with pytest.raises(InputError, match=r"two results of simulate or predict.*the first is a Problem.*Write compare"):
        compare(PROBLEM, PROBLEM)
    with pytest.raises(InputError, match="the second is a float"):
        compare(PRED, 1.0)


def test_chosen_variables_are_all_that_is_spoken_of():
    sim, pred = result(), PRED.isel(student=[0])
    assert "Q has other dimensions" in compare(sim, pred).verdict
    gap = compare(sim, pred, variables="risk")
    assert [entry.variable for entry in gap.entries] == ["risk"]
    assert "Q" not in str(gap) and "M" not in str(gap)
    with pytest.raises(InputError, match=r"Q has other dimensions or labels.*student: 2.*student: 1"):
        compare(sim, pred, variables=["risk", "Q"])


def test_iterations_are_called_so():
    rng = np.random.default_rng(1)
    steps = {"iteration": np.arange(6)}
    x = 1 + 0.1 * rng.normal(size=(6, 64))
    x[4] += 1.0
    gap = compare(
        xr.Dataset({"m": (("iteration", "replica"), x)}, steps), xr.Dataset({"m": ("iteration", np.ones(6))}, steps)
    )
    assert gap.entries[0].where == "iteration 4"
    assert "time" not in str(gap)
    x[4] -= 1.0
    gap = compare(
        xr.Dataset({"m": (("iteration", "replica"), x + 1)}, steps), xr.Dataset({"m": ("iteration", np.ones(6))}, steps)
    )
    assert gap.entries[0].where == "mean over iterations"


# --- signs ------------------------------------------------------------------------------------------------


def test_what_has_no_sign_is_compared_without_it():
    """Runs that end at +1 or -1 by chance, against a theory on one side: the mean over runs says nothing."""
    rng, grow = np.random.default_rng(2), np.linspace(0.1, 1, T)
    sign = rng.choice([-1.0, 1.0], size=(16, 1))
    x = sign * (grow + 0.01 * rng.normal(size=(16, T)))
    sim, pred = scalar(x, name="M"), scalar(-grow, name="M")
    assert abs(compare(sim, pred).entries[0].relative) > 0.3  # negative control
    for which in ((sim.assign_attrs(unsigned=["M"]), pred), (sim, pred.assign_attrs(unsigned="M"))):
        gap = compare(*which)
        assert gap.agrees and gap.entries[0].worst == "|M|" and "M up to a sign: absolute values" in gap.verdict
        assert gap.table["M_gap"].attrs["long_name"].startswith("|M|:")
    wrong = compare(sim.assign_attrs(unsigned=["M"]), scalar(1.1 * grow, name="M"))
    assert not wrong.agrees
    zero = compare(sim.assign_attrs(unsigned=["M"]), scalar(np.zeros(T), name="M"))
    assert "up to a sign" not in zero.verdict  # a theory without a side


def phase_retrieval(**changes):
    parts = {
        "teacher": ll.Committee(width=1, activation="square"),
        "student": ll.Committee(width=2, activation="square"),
        "loss": ll.SquareLoss(),
        "start": ll.RandomStart(sphere=True),
        "algorithm": ll.OnlineSGD(learning_rate=0.1, spherical=True),
    }
    return ll.Problem(**{**parts, **changes})


@pytest.mark.parametrize(
    ("problem", "names"),
    [
        (phase_retrieval(), {"M", "m", "Q"}),
        (phase_retrieval(start=ll.InformedStart(0.2)), set()),
        (phase_retrieval(student=ll.Committee(width=2, activation="relu")), {"M", "m"}),
        (phase_retrieval(teacher=ll.Committee(width=1, activation="erf")), {"M", "Q"}),
        (PROBLEM, set()),
        (phase_retrieval(teacher=ll.Committee(1), student=ll.Committee(2)), set()),
        (
            phase_retrieval(
                teacher=ll.Committee(1), student=ll.Committee(2), start=ll.RandomStart(second_layer="rademacher")
            ),
            {"M", "Q", "a"},
        ),
        (ll.library.phase_retrieval(), set()),
        (dataclasses.replace(ll.library.phase_retrieval(), start=ll.SpectralStart()), {"M", "m"}),
        (ll.library.perceptron(), set()),
        (ll.library.descent_phase_retrieval(algorithm=ll.GradientDescent(0.01), overlap=0.5), set()),
    ],
)
def test_a_problem_knows_which_overlaps_have_no_sign(problem, names):
    from limitlab.problems.signs import unsigned

    assert set(unsigned(problem)) == names


def test_the_law_of_what_has_no_sign_is_even_and_its_size_is_compared():
    """Theory at -0.1 against SGD at +0.24: both were means over runs that chose their side by chance."""
    sim = ll.simulate(phase_retrieval(), d=30, times=[0.0, 2.0], replicas=200, seed=0, representation="overlaps")
    assert sim.attrs["unsigned"] == ["M", "m", "Q"]
    up = int((sim["M"].isel(time=-1, student=0, teacher=0) > 0).sum())
    assert stats.binomtest(up, 200, 0.5).pvalue > 1e-3
    some, others = sim.isel(replica=slice(0, 100)), sim.isel(replica=slice(100, 200))
    gap = compare(some, others)
    assert gap.agrees and "M, Q up to a sign" in gap.verdict
    both = abs(some["M"]).mean("replica") - abs(others["M"]).mean("replica")
    np.testing.assert_allclose(gap.table["M_gap"], both, atol=1e-12)
    assert not compare(some, others.assign(M=others["M"] * 1.5)).agrees


# --- made-up results --------------------------------------------------------------------------------------

AXIS = np.linspace(0, 1, 11)
CURVE = np.exp(-AXIS)


def bare(values, times=AXIS, **attrs):
    dims = ("replica", "time") if np.ndim(values) == 2 else ("time",)
    return xr.Dataset({"risk": (dims, values)}, {"time": times}, attrs)


def walks(replicas=16, seed=3, steps=11):
    return CURVE + 0.01 * np.cumsum(np.random.default_rng(seed).normal(size=(replicas, steps)), axis=1)


def test_the_order_of_times_does_not_matter():
    """Shuffled, one of 11 times was compared and the word was AGREES; falling ones shared nothing."""
    straight, x = compare(bare(walks()), bare(CURVE)), walks()
    for order in (np.random.default_rng(0).permutation(11), np.arange(11)[::-1]):
        mixed = bare(CURVE[order], AXIS[order]), bare(x[:, order], AXIS[order])
        for sim, pred in ((bare(x), mixed[0]), (mixed[1], bare(CURVE)), (mixed[1], mixed[0])):
            assert compare(sim, pred).verdict == straight.verdict
    assert "times: 11" in straight.verdict


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (np.r_[AXIS[:-1], AXIS[-2]], r"every time once; the second result has 0\.9 twice\. Keep one"),
        (np.r_[AXIS[:-1], np.nan], r"finite numbers >= 0; the second result has nan"),
        (np.r_[AXIS[:-1], np.inf], r"the second result has inf"),
        (AXIS - 2, r"the second result has -2"),
        (np.array(list("abcdefghijk")), r"the second result has a"),
        (np.arange(11).astype("datetime64[ns]"), r"the second result has 1970"),
    ],
)
def test_times_that_are_none_are_refused(times, words):
    with pytest.raises(InputError, match=words):
        compare(bare(walks()), bare(CURVE, times))


def test_no_times_at_all_are_refused():
    with pytest.raises(InputError, match="needs times in both results; the first has none"):
        compare(bare(walks()[:, :0], AXIS[:0]), bare(CURVE))


@pytest.mark.parametrize("wrong", [np.nan, 0, -1, np.inf, "4", None, [4.0], 1j, True])
def test_a_threshold_is_a_number(wrong):
    """NaN let anything differ within the margin: no z is beyond it."""
    with pytest.raises(InputError, match=r"compare\.threshold must be a finite number"):
        compare(bare(walks() + 1), bare(CURVE), threshold=wrong, margin=0.001)


@pytest.mark.parametrize("wrong", [np.nan, -1, np.inf, "a", None])
def test_a_tolerance_is_a_number(wrong):
    with pytest.raises(InputError, match=r"compare\.rtol must be a finite number"):
        compare(bare(CURVE + 1), bare(CURVE), rtol=wrong)


def test_variables_are_names_and_count_once():
    with pytest.raises(InputError, match="variables must be a name or a list of names; got 5"):
        compare(bare(walks()), bare(CURVE), variables=5)  # pyright: ignore[reportArgumentType]
    twice = compare(bare(walks()), bare(CURVE), variables=["risk", "risk"])
    assert twice.verdict == compare(bare(walks()), bare(CURVE)).verdict


def test_whole_numbers_are_compared_too():
    sim = bare(walks()).assign(k=(("replica", "time"), np.ones((16, 11))))
    wrong, right = (bare(CURVE).assign(k=("time", np.full(11, value))) for value in (0, 1))
    assert compare(sim, right).agrees
    gap = compare(sim, wrong)
    assert gap.word == "DISAGREES"
    assert "k, t = 0" in gap.verdict


@pytest.mark.parametrize("scale", [1e-170, 1e170, 1e300])
def test_very_large_and_very_small_numbers_are_judged_like_others(scale):
    """Their squares overflow or vanish: a gap of 10 % of 1e170 was called constant and equal."""
    for shift in (0.0, 0.1):
        here, there = (compare(bare((walks() + shift) * f), bare(CURVE * f)) for f in (1.0, scale))
        assert here.word == there.word == ("DISAGREES" if shift else "AGREES")
        assert there.max_z == pytest.approx(here.max_z, rel=1e-6)
        assert there.entries[0].relative == pytest.approx(here.entries[0].relative)


def test_a_component_of_rounding_is_not_judged():
    """Zero in all runs against 1e-18 in the prediction, beside a component of size 1."""
    x = np.stack([walks(), np.zeros((16, 11))], axis=-1)
    sim = xr.Dataset({"M": (("replica", "time", "student"), x)}, {"time": AXIS})
    for dust, agrees in ((1e-18, True), (1e-12, False)):
        pred = xr.Dataset({"M": (("time", "student"), np.stack([CURVE, np.full(11, dust)], axis=-1))}, {"time": AXIS})
        assert compare(sim, pred).agrees is agrees


@pytest.mark.parametrize(("ended", "agrees"), [(1, False), (7, False), (9, True), (16, True)])
def test_a_limit_that_ends_early_needs_most_runs_to_end_too(ended, agrees):
    """It ended at 0.2, one run of sixteen at 1: that was an agreement up to 0.1."""
    x, y = walks(), CURVE.copy()
    x[:ended, -1], y[2:] = np.nan, np.nan
    gap = compare(bare(x), bare(y))
    assert gap.agrees is agrees
    assert ("most replicas of the other went on" in gap.verdict) is not agrees
    assert "finite only up to t = 0.1" in gap.verdict
    both = compare(bare(x), bare(np.where(np.arange(16)[:, None] < 15, y, walks(seed=4))))
    assert both.agrees is (ended >= 7)


def test_few_replicas_are_said_to_see_little():
    for replicas in (2, 4):
        gap = compare(bare(walks(replicas)), bare(CURVE))
        assert f"{replicas} replicas show gross differences only" in gap.verdict
    assert "gross" not in compare(bare(walks(5)), bare(CURVE)).verdict


def test_other_labels_are_said_to_be_other_labels():
    x = np.stack([walks(), walks()], axis=-1)
    sim = xr.Dataset({"risk": (("replica", "time", "alpha"), x)}, {"time": AXIS, "alpha": [1.0, 2.0]})
    pred = xr.Dataset({"risk": (("time", "alpha"), x[0])}, {"time": AXIS, "alpha": [2.0, 1.0]})
    with pytest.raises(InputError, match=r"risk: other dimensions or labels on the two sides, \(time: 11, alpha: 2\)"):
        compare(sim, pred)


def test_a_problem_that_is_no_table_is_another_problem():
    with pytest.raises(InputError, match="two different problems"):
        compare(bare(walks(), spec_hash="a", problem="{"), bare(CURVE, spec_hash="b", problem="[]"))


def test_a_margin_of_zero_is_said_to_be_none():
    noise = bare(walks() - CURVE)
    assert "differences up to any size (the prediction is zero)" in compare(noise, bare(0 * CURVE), margin=0.01).verdict
    assert "the margin is 100 %" in compare(bare(walks()), bare(CURVE), margin=1).verdict
