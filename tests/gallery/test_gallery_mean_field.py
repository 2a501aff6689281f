"""Gallery entries on the mean-field view: their checks pass on results that obey the claim and fail on doctored ones;
the computations themselves are slow."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from drawers import both

import limitlab as ll
from limitlab.figures import new_figure
from limitlab.figures.on_paper import paper
from limitlab.gallery import ENTRIES, Check, Entry, run_entry
from limitlab.gallery.mixtures import anisotropic, bad_activation, critical_delta, isotropic, noisy, width_law
from limitlab.results.schema import dataset

NAMES = ("isotropic", "critical-delta", "bad-activation", "width-law", "noisy", "anisotropic")


def around(mean, runs, size, seed=0):
    """Runs (time, replica) around a path, whose average is the path."""
    noise = np.random.default_rng(seed).standard_normal((len(mean), runs))
    return np.asarray(mean)[:, None] + size * (noise - noise.mean(axis=1, keepdims=True))


def made(problem, variables, coords, **attrs):
    times = coords.get("time")
    replicas = next((np.shape(v)[d.index("replica")] for d, v in variables.values() if "replica" in d), None)
    ends = {}
    if replicas is not None:
        ends = {"status": (("replica",), ["ok"] * replicas), "end_time": (("replica",), [times[-1]] * replicas)}
    return dataset(problem, {**variables, **ends}, coords, method="made up", attrs=attrs)


# --- results that obey the claims ---------------------------------------------------------------------------


def isotropic_data(slow=1.0, width=3.0, wide=0.0, volumes=0.0, rises=0.0):
    """Norms that grow, a risk that decays: faster at larger delta."""
    m, data, u = isotropic, {}, (np.arange(64) + 0.5) / 64

    def risk(delta, t):
        return 0.1 + np.exp(-3 * (1 + delta) * t) + rises * t

    def norms(delta, t):
        return 0.7 + 0.2 * u + 2 * delta * np.asarray(t)[:, None]

    for delta in m.DELTAS:
        flow = {
            "risk": (("time",), risk(delta, m.DENSE)),
            "r": (("time", "particle"), norms(delta, m.DENSE)),
            "weight": (("particle",), np.full(64, 1 / 64)),
        }
        data[m.name("flow", delta)] = made(m.problem(delta), flow, {"time": m.DENSE})
        for kind, n in (("sgd", m.WIDTH), ("half", m.WIDTH // 2)):
            runs = around(risk(delta, slow * m.TIMES) + width / n, m.REPLICAS, 2e-4, seed=n)
            r = np.repeat(norms(delta, m.TIMES)[:, None] + wide, m.REPLICAS, axis=1)
            variables = {"risk": (("time", "replica"), runs), "r": (("time", "replica", "student"), r)}
            data[m.name(kind, delta)] = made(m.problem(delta, n), variables, {"time": m.TIMES})
    times, radius = np.unique(np.concatenate([m.FILM, m.SHOWN])), np.linspace(0, 3, 301)
    place = 0.8 + 2 * m.FILMED * times[:, None]
    density = np.exp(-(((radius - place) / 0.1) ** 2) / 2) / (0.1 * np.sqrt(2 * np.pi))
    variables = {"risk": (("time",), risk(m.FILMED, times) + volumes), "density": (("time", "radius"), density)}
    coords = {"time": times, "radius": radius}
    data["density"] = made(m.problem(m.FILMED), variables, coords, cells=300, mass_error=1e-15)
    r = norms(m.FILMED, m.FILM)[:, None]
    film = {"risk": (("time", "replica"), risk(m.FILMED, m.FILM)[:, None]), "r": (("time", "replica", "student"), r)}
    data["film"] = made(m.problem(m.FILMED), film, {"time": m.FILM})
    return data


def critical_data(limit=0.0, power=-1.0, swapped=False, below=0.0, above=0.01, attained=1.0, low=0.03):
    m = critical_delta
    d = np.array(m.DIMENSIONS)
    critical = np.where(d == 10, np.nan, 0.474218946 + limit - 0.0425 * (d / 40) ** power)
    if swapped:
        critical[[2, 3]] = critical[[3, 2]]
    gap = np.where(m.DELTAS > np.nan_to_num(critical, nan=-1)[:, None], 0.1, 0.0)
    gap[:, 0] = np.where(d <= 40, low, gap[:, 0])
    status = np.where(np.isnan(critical), "not_reached", "ok")
    found = d[1:]
    sides = {
        "gap": [[below, above]] * len(found),
        "sphere_risk": [[0.1, 0.1 + above]] * len(found),
        "least_risk": np.where(np.isinf(found)[:, None] * [False, True], 0.0, 0.1),
        "at_infinity": [[0.0, 0.02 * attained]] * len(found),
    }
    psi = np.outer([1, -1], 1 - np.exp(-(np.log(np.minimum(m.RADII, 100)) ** 2)))
    one = m.problem()
    return {
        "phases": made(one, {"gap": (("d", "delta"), gap)}, {"d": d, "delta": m.DELTAS}),
        "critical": made(one, {"critical": (("d",), critical), "status": (("d",), status)}, {"d": d}),
        "sides": made(one, {k: (("d", "side"), v) for k, v in sides.items()}, {"d": found, "side": [-m.SIDE, m.SIDE]}),
        "potential": made(
            one,
            {"psi": (("delta", "norm"), psi), "best": (("delta",), [1.0, 1.0]), "wrong_gap": (("delta",), [0.1, 0.1])},
            {"delta": list(m.SHOWN), "norm": m.RADII},
        ),
    }


def bad_data(stays=0.0, gap=10.0, learned=1.0, held=1.0, late=1.0, escapes=1.0):
    m = bad_activation
    short = np.append(m.SHORT, m.END)

    def falling(t):
        return np.maximum(0.1 - 3.6 * t, stays)

    def growing(t):
        return 0.4 + 2 * np.asarray(t) / (1 + np.asarray(t))

    def flow(scale, t, r, risk):
        units = {"risk": (("time",), risk), "r": (("time", "particle"), r[:, None]), "weight": (("particle",), [1.0])}
        return made(m.problem(scale), units, {"time": t})

    def sgd(scale, t, r, risk, noise=m.FINE):
        runs = around(risk, m.REPLICAS, 1e-3)
        units = np.abs(around(r, m.REPLICAS, 1e-5, seed=1))[..., None]
        variables = {"risk": (("time", "replica"), runs), "r": (("time", "replica", "student"), units)}
        return made(m.problem(scale, noise), variables, {"time": t})

    def sinking(t):
        return m.TRAPPED + 3.6 * np.maximum(falling(t), 0)

    trap = {"trap_risk": (("norm",), [m.TRAPPED]), "gap": (("norm",), [gap]), "least": (("norm",), [0.002])}
    loss = 3.4 * np.exp(-6 * learned * m.WHOLE)
    return {
        "small": flow(m.SMALL, short, falling(short), sinking(short)),
        "large": flow(m.LARGE, m.WHOLE, growing(m.WHOLE), loss),
        "sgd_small": sgd(m.SMALL, short, np.maximum(falling(short), held * m.floor(m.FINE)), sinking(short)),
        "sgd_large": sgd(m.LARGE, m.LONG, growing(late * m.LONG), 3.4 * np.exp(-6 * m.LONG) + 0.03),
        "sgd_coarse": sgd(m.SMALL, m.ESCAPE, 0.1 + m.ESCAPE, 4 - 10 * escapes * m.ESCAPE, m.COARSE),
        "trap": made(m.problem(m.SMALL), trap, {"norm": [0.0]}),
    }


def width_data(K=7.0, drawn=-1.0, trained=-1.0, atoms=1, level=2.7):
    m, data = width_law, {}
    for n in m.WIDTHS:
        one, ratio = m.problem(n, 1.6), n / m.WIDTHS[0]
        start = 0.04 + K / m.WIDTHS[0] * ratio**drawn
        data[f"drawn_{n}"] = made(
            one, {"risk": (("time", "replica"), around([start], m.DRAWS, 1 / n))}, {"time": m.TIMES[:1]}
        )
        end = 0.04 + level / m.WIDTHS[0] * ratio**trained
        path = around(np.linspace(start, end, len(m.TIMES)), m.REPLICAS, 0.05 / n)
        data[f"sgd_{n}"] = made(one, {"risk": (("time", "replica"), path)}, {"time": m.TIMES})
    values = {"least_risk": 0.04, "K": 7.0, "proof": 1e-11}
    table = {name: (("radius_count",), [value]) for name, value in values.items()}
    data["limit"] = made(m.problem(25, 1.6), table, {"radius_count": [atoms]})
    return data


def noisy_data(temperature=1.0, stops=0.0, slow=1.0, rises=0.0):
    """Gaussian densities that relax to the stationary law; SGD's norms are quantiles of them."""
    m = noisy
    rest, hot = (ll.analysis.stationary_law(m.problem(T), m.D, 400) for T in (m.TEMPERATURE, 2 * m.TEMPERATURE))
    law = ll.analysis.stationary_law(m.problem(temperature * m.TEMPERATURE), m.D, 400)
    radius, quantiles = rest.radius.values, (np.arange(m.WIDTH) + 0.5) / m.WIDTH
    start = np.exp(-(((radius - 0.8) / 0.1) ** 2) / 2)

    def mixed(t, end):
        share = np.exp(-3 * np.asarray(t))[:, None]
        there = np.interp(radius, end.radius, end.density)
        return share * start / start.sum() + (1 - share) * there / there.sum()

    def flow(scale):
        energy = float(rest.free_energy) + stops + np.exp(-2 * m.TIMES) * 0.9 + rises * m.TIMES
        variables = {
            "risk": (("time",), np.exp(-m.TIMES)),
            "density": (("time", "radius"), mixed(m.TIMES, rest) / (radius[1] - radius[0])),
            "free_energy": (("time",), energy),
        }
        return made(m.problem(scale=scale), variables, {"time": m.TIMES, "radius": radius}, mass_error=1e-15)

    cells = np.array([np.interp(quantiles, np.cumsum(row), radius) for row in mixed(slow * m.SEEN, law)])
    shake = 1 + 0.01 * around(np.zeros(len(m.SEEN)), m.REPLICAS, 1.0)
    variables = {
        "risk": (("time", "replica"), around(np.exp(-m.SEEN), m.REPLICAS, 1e-3)),
        "r": (("time", "replica", "student"), shake[..., None] * cells[:, None]),
    }
    sgd = made(m.problem(), variables, {"time": m.SEEN})
    return {"sgd": sgd, "flow": flow(0.8), "wide": flow(1.8), "rest": rest, "hot": hot}


def anisotropic_data(power=-1.0, slow=1.0, drift=0.0, turns=1.0, far=0.0):
    """Two units whose weights turn at constant length."""
    m = anisotropic

    def units(t):
        angle = np.arctan(np.sqrt(3 / 13) * np.exp(turns * np.outer(t, [1.0, -1.0])))
        r = 0.8 * np.stack([np.sin(angle), np.cos(angle)], axis=-1)  # (time, unit, block)
        return r, np.outer(1 + drift * t, [1.0, -1.0])

    def risk(t):
        return 0.5 * np.exp(-t / 3)

    blocks = {"block": ["informative", "other"]}
    r, a = units(m.DENSE)
    share = r[..., 0] ** 2 / np.sum(r**2, axis=-1)
    flow = {
        "risk": (("time",), risk(m.DENSE)),
        "r": (("time", "particle", "block"), r),
        "a": (("time", "particle"), a),
        "b": (("time", "particle"), np.zeros_like(a)),
        "alignment": (("time",), share.mean(axis=1)),
        "weight": (("particle",), [0.5, 0.5]),
    }
    data = {"flow": made(m.problem(), flow, {"time": m.DENSE, **blocks})}
    r, a = units(m.TIMES)
    share = np.mean(r[..., 0] ** 2 / np.sum(r**2, axis=-1), axis=1)
    for d, (width, noise, batch, runs) in (*m.SIZES.items(), m.LARGEST):
        gap = 2.5 / 160 * (d / 160) ** power + (far if d == 320 else 0.0)
        variables = {
            "risk": (("time", "replica"), around(risk(slow * m.TIMES) + gap, runs, 0.01 / d, seed=d)),
            "alignment": (("time", "replica"), around(share + gap, runs, 0.05 / d, seed=d)),
            "r": (("time", "replica", "student", "block"), np.repeat(r[:, None], runs, axis=1)),
            "a": (("time", "replica", "student"), np.repeat(a[:, None], runs, axis=1)),
        }
        data[f"sgd_{d}"] = made(m.problem(width, noise, batch), variables, {"time": m.TIMES, **blocks})
    return data


MADE = {
    "isotropic": isotropic_data,
    "critical-delta": critical_data,
    "bad-activation": bad_data,
    "width-law": width_data,
    "noisy": noisy_data,
    "anisotropic": anisotropic_data,
}
# entry -> what is made wrong, and the words of a check that must then fail
WRONG = {
    "isotropic": [
        ({"slow": 1.1}, "is the flow's"),
        ({"slow": 0.5}, "clock that is wrong by 2"),
        ({"wide": 0.05}, "the norms of its units"),
        ({"volumes": 0.01}, "finite volumes"),
        ({"rises": 0.2}, "the risk falls"),
    ],
    "critical-delta": [
        ({"limit": 1e-4}, "solves q("),
        ({"swapped": True}, "grows with d"),
        ({"power": -0.8}, "multiple of 1/d"),
        ({"below": 1e-4}, "below it no law"),
        ({"above": 0.0}, "above it one is"),
        ({"attained": 0.0}, "mass at infinite norm"),
        ({"low": 0.0}, "in low dimension"),
    ],
    "bad-activation": [
        ({"stays": 0.01}, "brings every unit to w = 0"),
        ({"gap": 0.0}, "only a trap"),
        ({"learned": 0.1}, "it learns"),
        ({"held": 1.1}, "is trapped"),
        ({"late": 1.2}, "follows the flow"),
        ({"escapes": 0.1}, "escape from the trap"),
    ],
    "width-law": [
        ({"atoms": 2}, "a single sphere"),
        ({"K": 8.5}, "above by K/N"),
        ({"drawn": -0.9}, "excess falls with N^-1"),
        ({"K": 0.01}, "without the diagonal"),
        ({"level": 8.0}, "training lowers it"),
        ({"trained": -0.9}, "what is left falls"),
        ({"trained": -0.5}, "exponent -1/2"),
    ],
    "noisy": [
        ({"rises": 0.01}, "falls all the time"),
        ({"stops": 1e-3}, "ends at the minimum"),
        ({"slow": 1.5}, "follow the flow"),
        ({"temperature": 1.5}, "stationary law"),
        ({"temperature": 2.0}, "temperature that is wrong by 2"),
    ],
    "anisotropic": [
        ({"drift": 1e-4}, "conserves"),
        ({"turns": -1.0}, "turn to the informative"),
        ({"power": -0.5}, "multiple of 1/d"),
        ({"slow": 1.05}, "it is the flow's"),
        ({"slow": 0.5}, "clock that is wrong by 2"),
        ({"far": 0.05}, "without extrapolation"),
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_the_checks_pass_on_results_that_obey_the_claim(name):
    checks = ENTRIES[name].check(MADE[name]())
    assert all(check.ok for check in checks), [check for check in checks if not check.ok]


@pytest.mark.parametrize(("name", "wrong", "words"), [(n, *case) for n, cases in WRONG.items() for case in cases])
def test_the_check_that_is_about_it_fails_on_a_doctored_result(name, wrong, words):
    about = [check for check in ENTRIES[name].check(MADE[name](**wrong)) if words in check.statement]
    assert about
    assert not all(check.ok for check in about)


@pytest.mark.parametrize("name", NAMES)
def test_the_figure_says_what_it_shows(name):
    figure = both(ENTRIES[name].figure(MADE[name]()))
    assert len(figure.get_suptitle()) > 20
    assert any(axes.get_legend() is not None for axes in figure.axes)
    for axes in figure.axes:
        assert axes.get_ylabel()
        if axes.get_label() != "<colorbar>":
            assert axes.get_xlabel() and axes.lines and axes.get_title(loc="left")


def test_a_run_that_ended_early_is_not_overlooked():
    """A free energy that is NaN after some time does not count as falling."""
    data = noisy_data()
    energy = data["wide"].free_energy.values.copy()
    energy[-1] = np.nan
    data["wide"] = data["wide"].assign(free_energy=(("time",), energy))
    assert [check.ok for check in noisy.check(data)[:2]] == [False, False]


# --- the frame: an entry that moves --------------------------------------------------------------------------


def moving(data):
    from matplotlib.animation import FuncAnimation

    figure, (axes,) = paper()
    (line,) = axes.plot([0, 1], [0, 1])
    return FuncAnimation(figure, lambda i: line.set_ydata([0, i]), frames=3)


def still(progress):
    return {"ode": made(isotropic.problem(0.4), {"risk": (("time",), [1.0, 0.5])}, {"time": [0.0, 1.0]})}


MOVING = Entry(
    "moving",
    "A line",
    "It moves.",
    still,
    lambda data: [Check("so it is", True, "")],
    lambda data: new_figure()[0],
    seconds=1.0,
    animation=moving,
)


def test_an_entry_with_an_animation_leaves_a_gif_with_all_its_frames(tmp_path):
    from PIL import Image

    run_entry(MOVING, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["animation.gif", "figure.png", "ode.nc", "verdict.txt"]
    with Image.open(tmp_path / "animation.gif") as film:
        assert film.n_frames == 3  # type: ignore[attr-defined]


def test_nothing_is_written_if_the_animation_is_interrupted(tmp_path):
    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_entry(dataclasses.replace(MOVING, animation=stop), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_film_of_the_isotropic_entry_moves():
    film = isotropic.animation(isotropic_data())
    film._draw_was_started = True  # type: ignore[attr-defined]  # or it complains that nobody saw it
    film._draw_frame(0)  # type: ignore[attr-defined]
    left, right = film._fig.axes  # type: ignore[attr-defined]
    first = left.lines[0].get_ydata().copy()
    film._draw_frame(5)  # type: ignore[attr-defined]
    assert np.max(np.abs(left.lines[0].get_ydata() - first)) > 1
    assert len(right.lines[1].get_xdata()) == 6
    assert f"{isotropic.FILM[5]:.2f}" in film._fig.get_suptitle()  # type: ignore[attr-defined]


# --- parts that are quick enough to be really computed --------------------------------------------------------


def test_the_papers_scalings_are_ours():
    """eps = 1e-6 at d = 40: a step gains 2 eps of our time."""
    d, eps = 40, 1e-6
    problem: Any = ll.library.isotropic_mixture(0.8, step_noise=2 * d * eps)
    assert problem.algorithm.clock(problem, d) == pytest.approx(2 * eps)
    assert problem.start.scale == 0.8
    other: Any = ll.library.anisotropic_mixture()
    assert other.inputs.informative(320) == 60
    assert set(ll.library.LIBRARY) >= {"isotropic-mixture", "anisotropic-mixture"}


@pytest.mark.parametrize(("delta", "optimal"), [(0.3, True), (0.55, False)])
def test_the_best_sphere_is_optimal_below_the_critical_delta_only(delta, optimal):
    sphere = critical_delta.best_sphere(delta, math.inf)
    assert (sphere.gap < critical_delta.OPTIMAL) == optimal
    assert sphere.risk == pytest.approx({0.3: 0.06961908, 0.55: 0.01355068}[delta], abs=1e-8)


def test_the_trap_of_the_bad_activation():
    """By hand: c = 9/sqrt(2 pi), A = 4.5 (5.25^2 + 0.75^2)/2."""
    c, A = bad_activation.pull()
    assert c == pytest.approx(9 / math.sqrt(2 * math.pi))
    assert A == pytest.approx(4.5 * (5.25**2 + 0.75**2) / 2)
    stuck = ll.analysis.optimality_gap(bad_activation.problem(0.1), 0.0, math.inf)
    assert stuck.risk == pytest.approx(bad_activation.TRAPPED, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_claim_holds_when_really_computed(name, tmp_path):
    verdict = run_entry(name, tmp_path)
    assert verdict.ok, verdict.text
