"""The z-score is a z-score: standard normal when the two agree, large when they do not."""

import io

import numpy as np
import pytest
import xarray as xr
from rich.console import Console
from scipy import stats

import limitlab as ll
from limitlab.errors import InputError
from limitlab.results.compare import compare
from limitlab.results.schema import overlap_dataset
from limitlab.results.zscore import trajectory_z
from limitlab.states.overlaps import Overlaps

T = 30


def trajectories(rng, replicas, trials, kind):
    """Correlated Gaussian trajectories (replica, time, trial) of mean 0."""
    x = rng.normal(size=(replicas, T, trials))
    if kind == "walk":
        return np.cumsum(x, axis=1)
    if kind in ("memory", "scaled"):
        for t in range(1, T):
            x[:, t] = 0.9 * x[:, t - 1] + np.sqrt(1 - 0.81) * x[:, t]
    return x * np.logspace(-3, 0, T)[None, :, None] if kind == "scaled" else x


def z_of(x, y=None):
    y = np.zeros((1, *x.shape[1:])) if y is None else y
    return trajectory_z(x, y, np.maximum(np.abs(x).max((0, 1)), np.abs(y).max((0, 1))))


KINDS = ("independent", "memory", "walk", "scaled")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replicas", [16, 64])
def test_z_is_standard_normal_under_the_null(kind, replicas):
    z = z_of(trajectories(np.random.default_rng(replicas), replicas, 1500, kind))
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(np.std(z) - 1) < 0.1
    assert np.max(np.abs(z)) < 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replicas", [2, 3, 5])
def test_few_replicas_do_not_raise_false_alarms(kind, replicas):
    z = z_of(trajectories(np.random.default_rng(replicas), replicas, 20_000, kind))
    # Normal: 0.0027 and 6e-5. Weights 1/s(t) taken from so few replicas leave a little more, not percents.
    assert np.mean(np.abs(z) > 3) < 0.01
    assert np.mean(np.abs(z) > 4) < 1e-3


def test_negative_control_raw_weights_raise_false_alarms_with_few_replicas():
    x = trajectories(np.random.default_rng(0), 2, 20_000, "walk")
    y = np.mean(x / np.std(x, axis=0, ddof=1), axis=1)
    tau = np.abs(np.mean(y, axis=0)) / np.maximum(np.std(y, axis=0, ddof=1) / np.sqrt(2), 1e-12)
    assert np.mean(2 * stats.t.sf(tau, 1) < 6.3e-5) > 0.01  # two hundred times too often


def test_negative_control_a_chi_square_over_points_rejects_correlated_trajectories():
    x = trajectories(np.random.default_rng(1), 64, 1000, "walk")
    tau = np.mean(x, axis=0) / (np.std(x, axis=0, ddof=1) / 8)
    p = stats.chi2.sf(np.sum(tau**2, axis=0), T)
    assert np.mean(p < 6.3e-5) > 0.05  # nominally 6e-5
    assert np.mean(np.abs(z_of(x)) > 4) < 3e-3


@pytest.mark.parametrize(("n", "m"), [(16, 16), (40, 12)])
def test_two_samples_of_unequal_spread_give_a_standard_normal_z(n, m):
    rng = np.random.default_rng(n)
    x, y = trajectories(rng, n, 1500, "walk") + 7, 3 * trajectories(rng, m, 1500, "walk") + 7
    z = z_of(x, y)
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(np.std(z) - 1) < 0.1


def test_a_shift_is_detected_with_the_expected_size():
    rng = np.random.default_rng(3)
    x = trajectories(rng, 64, 500, "memory")
    error = np.std(np.mean(x, axis=1)) / 8  # of the time average over 64 replicas
    expected = stats.norm.isf(stats.t.sf(5, 63))  # 4.6: what 5 standard errors are worth with 64 replicas
    assert abs(np.mean(z_of(x + 5 * error)) - expected) < 0.25
    assert abs(np.mean(z_of(x - 5 * error)) + expected) < 0.25
    y = trajectories(rng, 64, 500, "memory")
    assert abs(np.mean(z_of(x + 5 * error, y)) - stats.norm.isf(stats.t.sf(5 / np.sqrt(2), 126))) < 0.25


def test_a_large_gap_at_few_times_is_detected():
    x = trajectories(np.random.default_rng(4), 8, 200, "memory")
    x[:, 20:24] += 100.0
    assert np.all(z_of(x) > 4)


def test_at_a_single_time_it_is_the_test_of_student_and_of_welch():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(7, 1, 50)) + 0.5, 2 * rng.normal(size=(12, 1, 50))
    z = z_of(x)
    expected = stats.ttest_1samp(x[:, 0], 0.0)
    np.testing.assert_allclose(2 * stats.norm.sf(np.abs(z)), expected.pvalue, rtol=1e-9)
    np.testing.assert_array_equal(np.sign(z), np.sign(expected.statistic))
    welch = stats.ttest_ind(x[:, 0], y[:, 0], equal_var=False)
    np.testing.assert_allclose(2 * stats.norm.sf(np.abs(z_of(x, y))), welch.pvalue, rtol=1e-9)
    np.testing.assert_allclose(z_of(y, x), -z_of(x, y), rtol=1e-9)


def test_z_stays_finite_and_grows_far_beyond_the_smallest_float():
    x = np.random.default_rng(6).normal(size=(64, 1, 1))
    z = [float(z_of(x + shift)[0]) for shift in (1e1, 1e3, 1e5, 1e7)]
    assert np.all(np.isfinite(z))
    assert np.all(np.diff(z) > 1)
    # sf(tau) ~ tau^-63: log-tails are linear in log(shift), so z^2 is, up to logarithms
    assert abs((z[3] ** 2 - z[2] ** 2) / (z[2] ** 2 - z[1] ** 2) - 1) < 0.05


def test_times_without_spread_are_left_out_if_equal_and_infinite_if_not():
    x = trajectories(np.random.default_rng(7), 8, 1, "memory")
    z = z_of(x)
    still = np.concatenate([np.full((8, 1, 1), 2.0), x + 2.0], axis=1)
    y = np.full((1, T + 1, 1), 2.0)
    np.testing.assert_allclose(z_of(still, y), z, rtol=1e-6)
    y[0, 0] += 1e-12
    np.testing.assert_allclose(z_of(still, y), z, rtol=1e-6)
    y[0, 0] += 1e-3
    assert z_of(still, y)[0] == -np.inf
    assert np.isnan(z_of(np.ones((8, T, 1)), np.ones((1, T, 1))))[0]


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
    x = sim["M"].transpose("replica", "time", "student", "teacher").values[..., 0]
    np.testing.assert_allclose(table["M_z"].values[:, 0], z_of(x, PRED["M"].values[None, ..., 0]), rtol=1e-12)


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
    same, far = compare(result(1), result(2, replicas=24)), compare(result(1), result(2, shift=0.2))
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
        compare(result(), PRED.assign_coords(time=TIMES + 0.01))


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
    assert lines[1].split() == [
        "variable",
        "compared",
        "worst",
        "largest",
        "gap",
        "stderr",
        "at",
        "time",
        "z",
    ]
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
