"""Gallery entries on descent: each check holds in made-up results that obey the claim, and fails in spoiled ones.

By default nothing long is computed: results are made up (shares of success as they were measured by other code). The
slow tests compute the entries, and compare success of gradient descent with those shares.
"""

import numpy as np
import pytest
from drawers import both

from limitlab.analysis.success import wilson
from limitlab.gallery import ENTRIES
from limitlab.gallery.descent import (
    atlas,
    batch_reuse,
    gd_phase_retrieval,
    open_questions,
    over_parametrised,
    persistent_random,
    persistent_sgd,
    second_unit,
    wide_descent,
)
from limitlab.gallery.descent.success_curves import Step, chance, fit_step, part_of, success_curve, trend
from limitlab.results.schema import dataset

# GD, eta = 0.02, t up to 50, measured by independent code (100, 60, 30 runs); NaN where it was not run.
SHARES = {
    64: (0.01, 0.27, 0.48, 0.72, 0.81, 0.92),
    128: (0.00, 0.07, 0.42, 0.58, 0.88, 0.95),
    256: (np.nan, 0.03, 0.27, 0.50, 0.93, 0.90),
}
INDEPENDENT_RUNS = {64: 100, 128: 60, 256: 30}


# --- made-up results -----------------------------------------------------------------------------------------


def flags(share, runs):
    return np.arange(runs) < round(share * runs)


def counted(one, ratios, shares, runs, **columns):
    """A success curve with these shares of success; further columns (ratio, run)."""
    success = np.array([flags(share, runs) for share in shares])
    values = {"success": success, "success_time": np.where(success, 10.0, np.inf), **columns}
    axes = ("sample_ratio", "replica")
    return dataset(one, {k: (axes, v) for k, v in values.items()}, {"sample_ratio": list(ratios)}, method="made up")


def made_up_gd():
    data = {
        f"gd_{d}": counted(gd_phase_retrieval.problem(), gd_phase_retrieval.RATIOS, np.nan_to_num(SHARES[d]), runs)
        for d, runs in gd_phase_retrieval.RUNS.items()
    }
    one = gd_phase_retrieval.problem(overlap=0.5)
    return data | {"informed": dataset(one, {"success": ("replica", flags(1, 60))}, method="made up")}


def made_up_wide():
    ratios, runs, one = over_parametrised.RATIOS, over_parametrised.RUNS, over_parametrised.problem()
    shares = {"m_1": (0.1, 0.2, 0.5, 0.4, 0.5), "m_2": (0, 0.6, 1, 1, 0.9)}
    data = {}
    for name in over_parametrised.WIDTHS:
        share = shares.get(name, (0, 0.1, 0.5, 1, 1))
        errors = np.where([flags(s, runs) for s in share], 1e-6, 0.5)
        data[name] = counted(one, ratios, share, runs, error=errors, train_loss=np.full(errors.shape, 1e-12))
    unique = np.array([flags(s, runs) for s in (0, 0, 0.4, 1, 1)], float)
    columns = {"kappa": 0.02 * unique - 0.01, "unique": unique, "residual": 0 * unique, "wrong_residual": 1 + unique}
    coords = {"sample_ratio": list(ratios), "data_set": np.arange(runs)}
    axes = ("sample_ratio", "data_set")
    proof = dataset(one, {k: (axes, v) for k, v in columns.items()}, coords, method="made up")
    return data | {"certificate": proof}


def made_up_random():
    data, runs = {}, 40
    for rule, share in {"gd": 0.05, "sgd": 0.075, "psgd": 0.5}.items():
        times, success = persistent_random.TIMES, flags(share, runs)
        when = np.where(success, np.linspace(5, 190, runs), np.inf)
        m = np.where(success, 1.0, 0.3 + 0.1 * (rule == "psgd")) * np.ones((len(times), 1))
        values = {"m": (("time", "replica"), m), "success": ("replica", success), "success_time": ("replica", when)}
        one = persistent_random.problem(rule)
        data[rule] = dataset(one, values, {"time": times}, method="made up", attrs={"d": 128})
    return data


def made_up_path(one, times, speed, runs, noise, seed):
    """Overlaps that rise at a given speed, the same in theory and simulation up to noise."""
    rng, t = np.random.default_rng(seed), np.asarray(times)
    m0 = float(one.start.overlap)
    m = 1 - (1 - m0) * np.exp(-speed * t[:, None]) + noise * t[:, None] * rng.normal(size=runs)
    C = (
        1
        - 0.5 * (1 - np.exp(-speed * np.abs(t[:, None, None] - t)))
        + noise * rng.normal(size=(runs, 1)) * (t[:, None, None] - t)
    )
    axes = ("time", "replica")
    values = {"m": (axes, m), "train_loss": (axes, 1 - m0 * m**2 / 2), "C": ((*axes, "time_2"), C)}
    coords = {"time": t, "time_2": t}
    return dataset(one, values, coords, method="made up", attrs={"d": persistent_sgd.D})


def made_up_paths():
    data = {}
    for rule, speed in {"gd": 2.0, "sgd": 2.0, "psgd": 1.0}.items():
        one, times = persistent_sgd.problem(rule), persistent_sgd.TIMES
        data[rule] = made_up_path(one, times, speed, 12, 0.01, 0)
        data[f"{rule}_dmft"] = made_up_path(one, times, speed, 8, 0.003, 1)
    return data | made_up_late()


def made_up_late():
    """Persistent SGD is slower and goes farther."""
    data = {}
    for rule, (speed, end, found) in {"gd": (1, 0.6, 0), "sgd": (1, 0.6, 0), "psgd": (0.1, 0.9, 0.8)}.items():
        one = persistent_sgd.problem(rule, persistent_sgd.LATE_START, persistent_sgd.LATE_ETA)

        def made(runs, noise, times, one=one, speed=speed, end=end, found=found, d=None):
            t = times[:, None]
            rng = np.random.default_rng([len(data), runs])
            m = 0.2 + (end - 0.2 + noise * rng.normal(size=runs)) * (1 - np.exp(-speed * t))
            C = np.exp(-0.05 * np.abs(t[:, :, None] - times)) + noise * rng.normal(size=(runs, 1)) * (
                t[:, :, None] - times
            )
            success = flags(found, runs)
            values = {"m": (("time", "replica"), m), "success": ("replica", success)}
            values |= {"train_loss": (("time", "replica"), 1 - m**2 / 2), "C": (("time", "replica", "time_2"), C)}
            values["success_time"] = ("replica", np.where(success, 30.0, np.inf))
            attrs = {"bytes_needed": 10**8, "trajectories": 2048} | ({} if d is None else {"d": d})
            return dataset(one, values, {"time": times, "time_2": times}, method="made up", attrs=attrs)

        times = persistent_sgd.LATE_TIMES
        for d, runs in persistent_sgd.LATE_RUNS.items():
            data[f"{rule}_d{d}"] = made(runs, 0.05, times, d=d)
        if rule in persistent_sgd.FOLLOWED:
            early = times[times <= persistent_sgd.LATE_END]
            data[f"{rule}_late_dmft"] = made(6, 0.01, early)
            data[f"{rule}_late"] = made(persistent_sgd.LATE_BESIDE, 0.05, early, d=500)
    return data


def made_up_atlas():
    """Steps whose half-way points rise by a tenth of that at d = 64 with every doubling of d."""
    data = {}
    for name, first in {"wide": 2.35, "psgd": 3.0, "gd": 4.1}.items():
        for d, size in atlas.METHODS[name].sizes.items():
            middle = first * (1 + 0.1 * np.log2(d / 64))
            share = 1 / (1 + (middle / np.array(size.ratios)) ** (20.0 if name == "wide" else 6.0))
            found = np.round(share * size.runs) / size.runs
            if name == "wide":
                data[f"{name}_{d}"] = counted(atlas.problem(name, d=d), size.ratios, found, size.runs)
            else:
                kinds = [(one, 1 - one) for one in found]
                data[f"{name}_{d}"] = shares(
                    atlas.problem(name), kinds, "sample_ratio", list(size.ratios), d, atlas.T_MAX, size.runs
                )
    limits = {"threshold": ("kind", [1.0, 1.1284714])}
    return data | {"limits": dataset(atlas.problem(), limits, {"kind": ["bayes", "amp"]}, method="made up")}


def made_up_units(one, times, M, Q, loss, runs, noise, seed, d=None):
    """Paths of m units beside k directions: M (time, m, k), Q (time, m, m), and C that decays, with noise by run."""
    rng, t = np.random.default_rng(seed), np.asarray(times)
    grow = (t / t[-1])[:, None, None, None]

    def shaken(x):
        return np.asarray(x)[:, None] + noise * grow * rng.normal(size=(1, runs, *np.shape(x)[1:]))

    loss = np.asarray(loss)[:, None] * (1 + noise * rng.normal(size=runs))
    Q = shaken(Q)
    Q = (Q + Q.swapaxes(-1, -2)) / 2
    C = Q[:, :, None] * np.exp(-0.3 * np.abs(t[:, None, None, None, None] - t[:, None, None]))
    C = C + noise * rng.normal(size=(1, runs, 1, *Q.shape[2:])) * (t[:, None, None, None, None] - t[:, None, None])
    run = ("time", "replica")
    values = {
        "M": ((*run, "student", "teacher"), shaken(M)),
        "Q": ((*run, "student", "student_2"), Q),
        "C": ((*run, "time_2", "student", "student_2"), C),
        "train_loss": (run, loss),
    }
    coords = {"time": t, "time_2": t}
    return dataset(one, values, coords, method="made up", attrs={} if d is None else {"d": d})


def made_up_reuse():
    data, steps = {}, np.arange(batch_reuse.STEPS + 1)
    loss = 0.6 - 0.02 * steps
    for seed, link in enumerate(batch_reuse.LINKS):
        exact = batch_reuse.two_steps(link)
        m = np.where(steps < 2, 0.0, exact * (1 + 0.1 * (steps - 2)))[:, None, None]
        ones, times = np.ones((len(steps), 1, 1)), batch_reuse.times(link)
        for name, path, runs, noise, fresh in (
            (link, m, 16, 0.03, False),
            (f"{link}_dmft", m, 12, 0.004, False),
            (f"{link}_fresh", 0 * m, 16, 0.03, True),
        ):
            one = batch_reuse.problem(link, fresh)
            data[name] = made_up_units(one, times, path, ones, loss, runs, noise, 10 * seed + len(data), d=800)
    return data


def made_up_wide_paths():
    data, t = {}, wide_descent.TIMES
    for seed, (case, start) in enumerate(wide_descent.STARTS.items()):
        M = np.array(start)[None, :, None] * (1 + np.tanh(2 * t))[:, None, None]
        Q = np.eye(len(start)) * (1 + 0.3 * t[:, None, None]) + 0.3 * t[:, None, None] * (1 - np.eye(len(start)))
        loss = (0.6 + 0.1 * seed) * np.exp(-2 * t)
        one = wide_descent.problem(case)
        data[case] = made_up_units(one, t, M, Q, loss, 16, 0.02, 3 * seed, d=1000)
        data[f"{case}_dmft"] = made_up_units(one, t, M, Q, loss, 8, 0.004, 3 * seed + 1)
    return data


def shares(one, kinds, at, ratios=None, d=64, t_max=100.0, runs=40):
    """Shares of success, and of stuck runs among the others, as `success_rate` gives them."""
    share, stuck = (np.array(x, float) for x in zip(*kinds, strict=True))
    low, high = wilson(share, runs)
    columns = {
        "success_rate": share,
        "success_rate_low": low,
        "success_rate_high": high,
        "stuck": stuck,
        "wrong": 0 * share,
        "unfinished": 1 - share - stuck,
        "diverged": 0 * share,
        "median_time": np.where(share > 0, 20.0, np.inf),
        "runs": np.full(len(share), runs),
    }
    values = {k: (at, v) for k, v in columns.items()} | {"t_max": ((), t_max)}
    return dataset(one, values, {at: ratios}, method="made up", attrs={"d": d})


def made_up_second():
    measured = {  # (success, stuck) by ratio; then at one ratio for longer
        "m_1": ([(0.02, 0.9), (0.05, 0.9), (0.3, 0.6), (0.6, 0.4), (0.7, 0.3)], (0.05, 0.9)),
        "m_2": ([(0.0, 0.8), (0.5, 0.3), (0.8, 0.1), (1.0, 0.0)], (0.75, 0.2)),
        "m_4": ([(0.0, 0.2), (0.0, 0.2), (0.2, 0.1), (1.0, 0.0)], (0.2, 0.1)),
        "m_d": ([(0.0, 0.0), (1.0, 0.0)], None),
    }
    data = {}
    for name, (kinds, long) in measured.items():
        one, ratios = second_unit.problem(second_unit.WIDTHS[name]), second_unit.RATIOS[name]
        data[name] = shares(one, kinds, "sample_ratio", list(ratios))
        if long is not None:
            data[f"{name}_long"] = shares(one, [long], "sample_ratio", [second_unit.AT], t_max=400.0)
    return data


def made_up_questions():
    cells = dict.fromkeys(open_questions.CELLS, 0.3)
    cells |= {"amplitude": 0.0, "start_01": 0.6, "start_03": 0.45, "psgd": 0.5}
    cells |= {"two": 0.5, "two_start": 0.9, "two_sgd": 0.45, "two_psgd": 0.4}
    data = {}
    for d, runs in open_questions.RUNS.items():
        less = 0.0 if d == 64 else 0.15
        kinds = [(max(p - less, 0.0), 0.1) for p in cells.values()]
        one = shares(open_questions.problem(), kinds, "kind", list(cells), d=d, runs=runs)
        data[f"d_{d}"] = one.drop_vars("t_max")
    return data


MADE_UP = {
    "second-unit": made_up_second,
    "open-questions": made_up_questions,
    "batch-reuse": made_up_reuse,
    "wide-descent": made_up_wide_paths,
    "gd-phase-retrieval": made_up_gd,
    "over-parametrised": made_up_wide,
    "persistent-sgd": made_up_paths,
    "persistent-random": made_up_random,
    "atlas": made_up_atlas,
}


# --- spoiling them -------------------------------------------------------------------------------------------


def changed(data, name, **columns):
    """The results with some variables of one of them replaced: a function of the old values each."""
    ds = data[name]
    return {**data, name: ds.assign({k: (ds[k].dims, change(ds[k].values)) for k, change in columns.items()})}


def grafted(data, name, source):
    """The results with the paths of another one in the place of one's own."""
    return changed(data, name, **{k: lambda _, k=k: data[source][k].values for k in persistent_sgd.SEEN})


def lucky(values):
    return np.ones_like(values)


def unlucky(values):
    return np.zeros_like(values)


# entry -> what is spoiled, and the words of a check that must then fail
def shifted(data, name, kind, **columns):
    """The results with numbers of one cell changed."""
    ds = data[name].copy(deep=True)
    for column, value in columns.items():
        ds[column].loc[{"kind": kind}] = value
    return {**data, name: ds}


WRONG = {
    "second-unit": [
        (lambda data: {**data, "m_2_long": data["m_1_long"]}, "two units succeed more often"),
        (lambda data: {**data, "m_2_long": data["m_1_long"]}, "a larger gain"),
        (lambda data: changed(data, "m_4_long", stuck=lambda x: 1 - x), "unfinished rather than stuck"),
        (lambda data: changed(data, "m_1_long", stuck=lambda x: 0 * x), "stuck rather than unfinished"),
        (lambda data: changed(data, "m_4_long", success_rate=unlucky), "four units gain from more time"),
        (lambda data: changed(data, "m_d", stuck=lambda x: x + 0.5), "as many units as dimensions"),
        (lambda data: changed(data, "m_2", success_rate=lucky), "control: with few samples"),
    ],
    "open-questions": [
        (lambda data: shifted(data, "d_64", "amplitude", success_rate=0.6), "amplitude loss is worse"),
        (lambda data: shifted(data, "d_64", "start_01", success_rate=0.0), "a small start"),
        (lambda data: shifted(data, "d_128", "step_4", success_rate=0.9), "no effect of half or twice the step"),
        (lambda data: shifted(data, "d_64", "two_sgd", success_rate=0.0), "SGD is not told from GD"),
        (lambda data: shifted(data, "d_64", "two_psgd", success_rate=1.0), "what p-SGD brings"),
        (lambda data: shifted(data, "d_128", "two", success_rate=0.0), "width: two units"),
        (lambda data: shifted(data, "d_128", "base", success_rate=0.9), "control: one unit succeeds less often"),
    ],
    "batch-reuse": [
        (lambda data: changed(data, "he3_dmft", M=lambda M: 1.2 * M), "exact overlap after two steps"),
        (lambda data: changed(data, "mixed_dmft", M=lambda M: 2 * M), "He₂ + He₃, exponent 2: 8 steps"),
        (lambda data: changed(data, "he2_dmft", train_loss=lambda x: 2 * x), "He₂, even: 8 steps"),
        (lambda data: changed(data, "mixed_fresh", M=lambda M: M - 0.2), "new samples at every step teach nothing"),
        (lambda data: changed(data, "he3", M=lambda M: 0 * M + data["he3_fresh"].M.values), "one batch teaches"),
        (lambda data: changed(data, "he2", M=lambda M: M - 0.2), "an even link teaches nothing"),
        (lambda data: changed(data, "he3_fresh", M=lambda _: data["he3"].M.values), "control: the theory of one batch"),
    ],
    "wide-descent": [
        (lambda data: changed(data, "two_dmft", M=lambda M: M + 0.1), "two units, gradient descent: M"),
        (
            lambda data: changed(data, "three_dmft", C=lambda C: 0.9 * C),
            "three units, persistent SGD (b = ½, τ = 1): M",
        ),
        (lambda data: changed(data, "two_dmft", Q=lambda Q: Q + 0.1), "two units, gradient descent: M"),
        (
            lambda data: {
                name: ds.assign(M=ds.M.isel(time=0, drop=True).expand_dims(time=ds.time).transpose(*ds.M.dims))
                for name, ds in data.items()
            },
            "control: a clock without 1/m",
        ),
        (
            lambda data: changed(data, "three_dmft", train_loss=lambda _: data["two_dmft"].train_loss.values),
            "do not move alike",
        ),
        (lambda data: changed(data, "three_dmft", M=lambda M: M + 0.1), "stays without in the theory"),
    ],
    "gd-phase-retrieval": [
        (lambda data: changed(data, "gd_128", success=lucky), "gradient descent fails"),
        (lambda data: changed(data, "gd_64", success=lucky), "half of its runs"),
        (lambda data: changed(data, "gd_64", success=unlucky), "most of its runs"),
        (lambda data: {**data, "gd_64": data["gd_256"], "gd_256": data["gd_64"]}, "half-way point is higher"),
        (lambda data: changed(data, "informed", success=unlucky), "control: from an overlap"),
    ],
    "over-parametrised": [
        (lambda data: changed(data, "m_d", success=lucky), "never enough"),
        (lambda data: changed(data, "certificate", unique=lucky), "never enough"),
        (lambda data: changed(data, "m_infinite", train_loss=lucky), "at another A"),
        (lambda data: changed(data, "m_infinite", success=unlucky), "always enough"),
        (lambda data: changed(data, "m_infinite", success=unlucky), "certified clearly"),
        (lambda data: changed(data, "m_d", success=unlucky), "as good as an infinite"),
        (lambda data: {**data, "m_1": data["m_infinite"]}, "one unit is trapped"),
        (lambda data: {**data, "m_2": data["m_infinite"]}, "two units need fewer"),
        (lambda data: changed(data, "certificate", residual=lucky), "control: a certificate"),
    ],
    "persistent-sgd": [
        (lambda data: grafted(data, "gd_dmft", "psgd_dmft"), "GD, start 0.5, d = 1000"),
        (lambda data: grafted(data, "sgd_dmft", "psgd_dmft"), "SGD, half the samples, start 0.5, d = 1000"),
        (lambda data: changed(data, "psgd_dmft", C=lambda C: 0.8 * C), "τ = 1, start 0.5, d = 1000"),
        (lambda data: grafted(data, "sgd_dmft", "psgd_dmft"), "control: the theory of SGD"),
        (lambda data: grafted(data, "sgd_dmft", "psgd_dmft"), "SGD moves as GD does"),
        (
            lambda data: grafted(data, "gd_late_dmft", "psgd_late_dmft"),
            "GD, start 0.2, step 0.025, d = 500, up to t = 20",
        ),
        (
            lambda data: changed(data, "psgd_late_dmft", C=lambda C: 0.7 * C),
            "τ = 1, start 0.2, step 0.025, d = 500, up to",
        ),
        (lambda data: grafted(data, "psgd_late_dmft", "gd_late_dmft"), "in the theory too persistent SGD is behind GD"),
        (
            lambda data: changed(data, "psgd_d250", m=lambda m: m - 0.3),
            "d = 250, start 0.2: persistent SGD is behind GD",
        ),
        (lambda data: changed(data, "psgd_d250", m=lambda m: m + 0.4), "250, start 0.2: persistent SGD is behind SGD"),
        (
            lambda data: changed(data, "psgd_d250", success=unlucky),
            "250: by t = 60 more runs of persistent SGD than of GD",
        ),
        (
            lambda data: changed(data, "sgd_d250", success=lucky),
            "250: by t = 60 more runs of persistent SGD than of SGD",
        ),
        (lambda data: changed(data, "psgd_d500", m=lambda m: 0 * m), "d = 500, start 0.2: persistent SGD is behind GD"),
        (lambda data: changed(data, "psgd_d500", m=lambda m: m + 0.4), "500, start 0.2: persistent SGD is behind SGD"),
        (
            lambda data: changed(data, "psgd_d500", success=unlucky),
            "500: by t = 60 more runs of persistent SGD than of SGD",
        ),
    ],
    "persistent-random": [
        (lambda data: {**data, "psgd": data["gd"]}, "more often than GD"),
        (lambda data: {**data, "psgd": data["sgd"]}, "more often than SGD"),
        (lambda data: {**data, "sgd": data["psgd"]}, "control: without persistence"),
        (lambda data: changed(data, "psgd", success=lucky), "not always"),
        (lambda data: changed(data, "psgd", success_time=lambda t: t / 1e3), "it is slow"),
        (lambda data: changed(data, "psgd", m=unlucky), "highest mean"),
    ],
    "atlas": [
        (lambda data: changed(data, "limits", threshold=lambda x: 1.01 * x), "possible from 1"),
        (lambda data: changed(data, "wide_64", success=lucky), "inside the ratios"),
        (
            lambda data: {
                **data,
                "wide_32": data["wide_32"].assign_coords(sample_ratio=data["wide_32"].sample_ratio / 3),
            },
            "need more than message passing",
        ),
        (lambda data: changed(data, "gd_64", success_rate=lucky), "one unit by gradient descent needs more"),
        (lambda data: changed(data, "psgd_64", success_rate_low=unlucky), "persistent SGD succeeds more often"),
        (lambda data: changed(data, "gd_64", success_rate=lambda values: values[::-1]), "rise as a logistic step"),
        (lambda data: changed(data, "gd_64", success_rate=lambda values: values[::-1]), "control: with the counts"),
        (lambda data: {**data, "wide_16": data["wide_64"], "wide_64": data["wide_16"]}, "a wide network needs rises"),
        (
            lambda data: {**data, "wide_16": data["wide_64"], "wide_64": data["wide_16"]},
            "control: with the dimensions in the opposite order",
        ),
        (
            lambda data: {**data, **{f"gd_{d}": sure_step(data["gd_256"]) for d in (64, 128, 256)}},
            "where a number heads",
        ),
    ],
}


def sure_step(curve):
    """The same step, known a hundred times better."""
    return curve.assign(runs=10_000 * curve.runs)


def check_entry(name, data):
    entry = ENTRIES[name]
    checks = entry.check(data)
    assert all(check.ok for check in checks), [check for check in checks if not check.ok]
    for spoil, words in WRONG[name]:
        about = [check for check in entry.check(spoil(data)) if words in check.statement]
        assert about and not all(check.ok for check in about), words
    figure = both(entry.figure(data))
    assert len(figure.get_suptitle()) > 20
    assert any(axes.get_legend() is not None for axes in figure.axes)
    assert all(axes.get_xlabel() and axes.get_ylabel() and axes.lines for axes in figure.axes)


@pytest.mark.parametrize("name", list(WRONG))
def test_the_checks_hold_in_results_that_obey_the_claim_and_fail_in_spoiled_ones(name):
    check_entry(name, MADE_UP[name]())


# --- the fit of a step ---------------------------------------------------------------------------------------


def test_the_interval_of_the_half_way_point_covers_the_truth():
    rng, ratios, runs = np.random.default_rng(0), np.arange(2.0, 9.0), 40
    truth, inside = 1 / (1 + (4.4 / ratios) ** 5), []
    one = counted(atlas.problem(), ratios, truth, runs)
    for _ in range(40):
        step = fit_step(one.assign(success=(one.success.dims, rng.random(one.success.shape) < truth[:, None])))
        inside.append(step.low <= 4.4 <= step.high)
    assert np.mean(inside) >= 0.85
    exact = fit_step(one)
    assert exact.at == pytest.approx(4.4, abs=0.05)
    assert exact.width == pytest.approx(0.2, rel=0.1)
    assert exact.fits > 0.9
    assert fit_step(counted(atlas.problem(), ratios, truth[[1, 0, 3, 2, 5, 4, 6]], runs)).fits < 1e-3


def test_a_trend_finds_the_line_through_half_way_points_and_says_when_there_is_none():
    points = {
        d: Step(2 + 0.5 * np.log2(d), 2 + 0.5 * np.log2(d) - 0.196, 2 + 0.5 * np.log2(d) + 0.196, 0.2, 1.0)
        for d in (64, 128, 256, 512)
    }
    rise = trend(points, np.log2, 2.0**14)
    assert (rise.at, rise.slope, rise.fits) == (pytest.approx(9.0), pytest.approx(0.5), pytest.approx(1.0))
    assert rise.slope_error == pytest.approx(0.1 / np.sqrt(5))  # sum of (log2 d - 7.5)^2 = 5
    assert rise.error == pytest.approx(0.1 * np.sqrt(1 / 4 + 6.5**2 / 5))
    assert trend(points, lambda d: 1 / d, 1e4).fits == pytest.approx(np.exp(-5))  # chi^2 = 10 with two degrees
    assert trend({d: points[d] for d in (64, 128)}, np.log2, 1e4).fits == 1


def test_a_jump_between_two_ratios_is_known_no_better_than_their_gap():
    step = fit_step(counted(atlas.problem(), (1.0, 2.0, 3.0, 4.0), (0, 0, 1, 1), 20))
    assert step.at == pytest.approx(np.sqrt(6), abs=0.02)
    assert step.low < 2.1 and step.high > 2.9
    assert 1.9 < step.low and step.high < 3.1
    none = fit_step(counted(atlas.problem(), (1.0, 2.0, 3.0, 4.0), (0, 0, 0, 0), 20))
    assert none.high > 4.0  # nothing says where it is


def test_a_curve_keeps_every_run_and_tells_its_progress_in_one_scale():
    told = []

    def run(alpha, number, progress):
        progress(1, 1, "half")
        return counted(atlas.problem(), (1.0,), (number / 2,), 4).isel(sample_ratio=0)

    curve = success_curve(atlas.problem(), run, (1.0, 2.0, 3.0), lambda *x: told.append(x[:2]), "made up", d=5)
    assert curve.success.sum("replica").values.tolist() == [0, 2, 4]
    assert told == [(1000, 3000), (2000, 3000), (3000, 3000)]
    assert curve.attrs["d"] == 5
    assert part_of(None, 0, 1) is None


def test_the_chance_of_more_successes_is_that_of_a_fair_coin():
    few, many = flags(0, 10), flags(0.5, 10)
    assert chance(many, few) == pytest.approx(2**-5)
    assert chance(few, many) == 1
    assert chance(many, many) == 1


# --- really computed -----------------------------------------------------------------------------------------


def test_a_wide_student_is_decided_by_the_certificate_on_a_few_data_sets():
    ratios, runs = (1.5, 3.0), 2
    wide, proof = over_parametrised.curve(np.inf, runs, ratios), over_parametrised.certificates(runs, ratios)
    assert (wide.success.values > 0).tolist() == [[False] * runs, [True] * runs]
    assert (proof.unique.values > 0).tolist() == [[False] * runs, [True] * runs]


def test_gradient_descent_is_counted_at_small_size():
    many = gd_phase_retrieval.curve(16, 12, ratios=(8.0,))
    assert (many.success.values > 0).mean() > 0.5
    assert np.all(np.isfinite(many.success_time.values) == (many.success.values > 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(WRONG))
def test_the_claim_holds_and_could_fail(name):
    data = ENTRIES[name].compute(None)
    check_entry(name, data)
    if name == "gd-phase-retrieval":
        assert_shares_as_other_code_has_them(data)


def assert_shares_as_other_code_has_them(data):
    for d, shares in SHARES.items():
        mine, n, k = data[f"gd_{d}"].success.mean("replica").values, gd_phase_retrieval.RUNS[d], INDEPENDENT_RUNS[d]
        pooled = (n * mine + k * np.array(shares) + 1) / (n + k + 2)
        z = (mine - shares) / np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / k))
        assert np.nanmax(np.abs(z)) < 4, (d, z)
