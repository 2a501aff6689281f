"""plot: what is drawn is what the data say. The data are made up, so that no test waits for a compiler."""

import re
import sys
import types
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import limitlab as ll
from cases import committee
from limitlab.figures import average, close_figure, drawn, new_figure, time_label
from limitlab.figures.on_paper import paper
from limitlab.plot import DRAWN_CURVES, DRAWN_POINTS, _sources, palette, plot, save_figure
from limitlab.results.schema import overlap_dataset
from limitlab.states.overlaps import Overlaps

TIMES = np.linspace(0.0, 2.0, 11)


@pytest.fixture(autouse=True)
def few_figures():
    yield
    plt.close("all")


def problem(p=2, k=2, trained=False):
    return ll.Problem(
        teacher=ll.Committee(width=k, activation="erf"),
        student=ll.Committee(width=p, activation="erf", second_layer="trained" if trained else "fixed"),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.3),
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )


def result(method, p=2, k=2, replicas=4, replicated=True, moving=False, risk=None, times=TIMES, lost=0, **more):
    """Random numbers in the schema; the last ``lost`` replicas end half way."""
    rng, shape = np.random.default_rng(0), (len(times), replicas)
    a = np.ones((*shape, p)) + (np.asarray(times)[:, None, None] if moving else 0.0)
    P = np.tile(np.eye(k), (*shape, 1, 1))
    path = Overlaps(rng.normal(size=(*shape, p, p)), rng.normal(size=(*shape, p, k)), P, a)
    values = 1.0 + 0.1 * rng.random(shape)
    if risk is not None:
        values = np.repeat(np.asarray(risk)[:, None], replicas, axis=1)
    gone = np.zeros(shape, bool)
    gone[len(times) // 2 :, replicas - lost :] = lost > 0
    values[gone] = np.nan
    for entries in (path.Q, path.M, path.a):
        entries[gone] = np.nan
    return overlap_dataset(
        problem(p, k, moving),
        times,
        path,
        values,
        status=["ok"] * (replicas - lost) + ["diverged"] * lost,
        end_time=[float(times[-1])] * (replicas - lost) + [0.7] * lost,
        method=method,
        replicated=replicated,
        attrs=more,
    )


SIM = result("simulate (weights)", d=50)
ODE = result("OverlapODE", replicas=1, replicated=False)


def panels(figure):
    return {axes.get_ylabel(): axes for axes in figure.axes}


def words(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_simulation_is_drawn_as_its_mean_with_the_standard_error_over_replicas():
    axes = panels(plot(SIM))["risk"]
    (container,) = axes.containers
    data, _, (bars,) = container.lines
    runs = SIM["risk"].values
    expected = runs.std(axis=1, ddof=1) / 2.0
    np.testing.assert_allclose(data.get_xydata(), np.column_stack([TIMES, runs.mean(axis=1)]))
    heights = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    np.testing.assert_allclose(heights, 2 * expected)
    assert not np.allclose(heights, 2 * runs.std(axis=1, ddof=1))  # not the scatter of single runs


def test_a_prediction_is_drawn_as_a_line_without_points_or_band():
    axes = panels(plot(pred=ODE))["risk"]
    (line,) = axes.lines
    assert line.get_linestyle() == "-"
    assert line.get_marker() in ("None", "none", "")
    np.testing.assert_allclose(line.get_ydata(), ODE["risk"].values)
    assert not axes.containers
    assert not axes.collections


def test_a_prediction_with_replicas_has_a_band_of_one_standard_error():
    axes = panels(plot(result("OverlapSDE")))["risk"]
    (band,) = axes.collections
    mean, error = average(SIM["risk"].values.T)  # the same random numbers
    top = band.get_paths()[0].get_extents().y1
    assert top == pytest.approx(np.max(mean + error))


def test_results_may_come_in_any_order_and_number():
    one, other = plot(SIM, ODE), plot(ODE, SIM, result("OverlapSDE"))
    assert len(panels(one)["risk"].containers) == len(panels(other)["risk"].containers) == 1
    assert words(panels(one)["risk"]) == ["simulate (weights), d = 50, 4 runs", "OverlapODE"]
    assert words(panels(other)["risk"]) == [
        "OverlapODE",
        "simulate (weights), d = 50, 4 runs",
        "OverlapSDE, 4 runs",
    ]


def test_panels_are_the_risk_and_the_overlaps_and_the_second_layer_only_if_it_moves():
    assert list(panels(plot(SIM, ODE))) == ["risk", "M", "Q"]
    assert list(panels(plot(result("OverlapODE", moving=True)))) == ["risk", "M", "Q", "a"]
    assert list(panels(plot(SIM, variables="Q"))) == ["Q"]


def test_panels_of_constants_are_left_out_unless_they_are_asked_for():
    still = [ds.assign(Q=ds["Q"].isel(time=[0] * len(TIMES)).assign_coords(time=TIMES)) for ds in (SIM, ODE)]
    assert "Q" in panels(plot(SIM, ODE)) and "Q" in panels(plot(still[0], ODE))
    assert "Q" not in panels(plot(*still)) and "risk" in panels(plot(*still))
    assert set(panels(plot(*still, variables="Q"))) == {"Q"}
    assert panels(plot(still[0][["Q"]]))  # nothing else to draw


def test_overlaps_without_a_sign_are_drawn_without_it():
    """Theory at -0.1 against SGD at +0.24: both were means over runs that chose their side by chance."""
    sim, ode = (ds.assign_attrs(unsigned=["M"]) for ds in (SIM, ODE))
    drawn = panels(plot(sim, ode))
    assert "|M|" in drawn and "M" not in drawn and "Q" in drawn
    assert "without its sign" in drawn["|M|"].get_title(loc="left")
    texts = {text.get_text() for text in drawn["|M|"].get_legend().get_texts()}
    assert "$|M_{0,1}|$" in texts
    expected = abs(SIM["M"]).mean("replica")[:, 0, 0]
    points = [line.get_ydata() for line in drawn["|M|"].get_lines()]
    assert any(len(y) == len(expected) and np.allclose(y, expected) for y in points)
    assert "M" in panels(plot(sim, ode.assign(M=0 * ode["M"])))  # a theory without a side


def test_the_time_axis_states_its_clock():
    assert panels(plot(SIM))["M"].get_xlabel() == "time t = γ·step/(p·d)"


def test_the_clock_is_that_of_the_result_and_neutral_where_it_is_not_known():
    layerwise = ll.Problem(
        inputs=ll.Hypercube(),
        teacher=ll.SparseTarget("z1"),
        student=ll.Committee(4, "relu", second_layer="trained"),
        loss=ll.SquareLoss(),
        start=ll.RandomStart(second_layer="rademacher"),
        algorithm=ll.LayerwiseSGD(0.4, 1.0),
    )
    wide = ll.library.wide_phase_retrieval(3.0, width=5)
    first, second = ll.simulate(layerwise, 20, [0.0, 0.5]), ll.simulate(wide, 10, [0.0, 0.1])
    assert time_label([first]) == "time t = γ·step/(p·d)"
    assert float(first["time"][-1] / first["step"][-1]) == pytest.approx(0.4 / (4 * 20), rel=0.01)
    assert time_label([second]) == "time t = γ·step/m"
    rate = wide.algorithm.learning_rate
    assert float(second["time"][-1] / second["step"][-1]) == pytest.approx(rate / 5, rel=0.05)
    assert time_label([first, second]) == "time t"
    old = first.copy()
    del old.attrs["clock"]
    assert time_label([old]) == time_label([old, first]) == "time t"
    assert time_label([first], "iteration") == "iteration"


def test_the_risk_is_on_a_logarithmic_axis_only_when_it_spans_decades():
    wide = result("OverlapODE", risk=np.geomspace(1, 1e-2, len(TIMES)))
    narrow = result("OverlapODE", risk=np.geomspace(1, 1e-1, len(TIMES)))
    negative = result("OverlapODE", risk=np.linspace(1, -0.01, len(TIMES)))
    assert panels(plot(wide))["risk"].get_yscale() == "log"
    assert panels(plot(wide))["M"].get_yscale() == "linear"
    assert panels(plot(narrow))["risk"].get_yscale() == "linear"
    assert panels(plot(negative))["risk"].get_yscale() == "linear"


def test_times_asked_on_a_logarithmic_grid_are_drawn_on_one():
    grid = np.geomspace(0.01, 100, 9)
    assert panels(plot(result("OverlapODE", times=grid)))["risk"].get_xscale() == "log"
    assert panels(plot(result("OverlapODE", times=[0, *grid])))["risk"].get_xscale() == "symlog"
    assert panels(plot(SIM))["risk"].get_xscale() == "linear"


def test_each_of_few_entries_has_its_colour_and_name_and_simulation_and_prediction_share_it():
    axes = panels(plot(SIM, ODE))["M"]
    assert words(axes) == [f"$M_{{{i},{r}}}$" for i in range(2) for r in range(2)]
    lines = [line for line in axes.lines if len(line.get_xdata()) == len(TIMES) and line.get_linestyle() == "-"]
    assert [line.get_color() for line in lines] == list(palette[:4])
    assert [c.lines[0].get_color() for c in axes.containers] == list(palette[:4])
    assert len(panels(plot(ODE))["Q"].lines) == 3  # Q is symmetric: three entries of four


def test_entries_that_the_theory_puts_in_one_place_are_one_line_and_one_name():
    even, odd = np.linspace(0.2, 0.4, len(TIMES)), np.linspace(0.0, 0.1, len(TIMES))
    M = np.where(np.eye(4, 2)[None] + np.eye(4, 2, -2)[None] > 0, even[:, None, None], odd[:, None, None])
    ode = result("OverlapODE", 4, replicas=1, replicated=False)
    ode["M"] = (ode["M"].dims, M + 1e-12 * np.arange(8).reshape(4, 2))
    sim = result("simulate (weights)", 4, d=50)
    axes = panels(plot(sim, ode, variables="M"))["M"]
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words == ["$M_{0,0}$ and 3 alike", "$M_{0,1}$ and 3 alike"]
    assert len([line for line in axes.lines if line.get_linestyle() == "-"]) == 2
    assert len(axes.containers) == 8  # of the simulation every entry is seen
    ode["M"] = (ode["M"].dims, M + 1e-3 * np.arange(8).reshape(4, 2))  # control: different, however little
    axes = panels(plot(sim, ode, variables="M"))["M"]
    assert len(axes.get_legend().get_texts()) == 8


def test_many_entries_are_drawn_thin_counted_and_not_named_one_by_one():
    axes = panels(plot(result("OverlapODE", p=20, k=3, replicas=1, replicated=False)))
    assert len(axes["Q"].lines) == DRAWN_CURVES
    assert f"{DRAWN_CURVES} of 210 entries" in axes["Q"].get_title(loc="left")
    assert words(axes["Q"]) == ["$i = j$", "$i \\neq j$"]
    assert words(axes["M"]) == ["teacher 0", "teacher 1", "teacher 2"]
    assert max(line.get_linewidth() for line in axes["M"].lines) < 1


def test_few_points_are_drawn_of_a_long_simulation_evenly_spread():
    times = np.linspace(0, 1, 200)
    (container,) = panels(plot(result("simulate (weights)", times=times)))["risk"].containers
    x = container.lines[0].get_xdata()
    assert 10 < len(x) <= DRAWN_POINTS
    np.testing.assert_allclose(np.diff(x), x[1])


def test_the_legend_says_how_many_runs_diverged_and_the_mean_is_over_the_others():
    axes = panels(plot(result("simulate (weights)", lost=1)))["risk"]
    assert words(axes) == ["simulate (weights), 4 runs (1 of 4 diverged from t = 0.7)"]
    assert np.all(np.isfinite(axes.containers[0].lines[0].get_ydata()))


def test_average_over_survivors_is_that_of_the_survivors_alone():
    runs = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, np.nan]])
    mean, error = average(runs)
    np.testing.assert_allclose(mean, [3.0, 2.0])
    np.testing.assert_allclose(error, [2.0 / np.sqrt(3), np.nan])
    assert average(runs[:1])[1] is None
    assert np.all(np.isnan(average(np.full((3, 2), np.nan))[0]))


def test_a_cloud_of_particles_shares_the_panel_of_the_student_it_stands_for():
    cloud = ODE.drop_vars(["Q", "a"]).rename(M="m", student="particle").drop_vars("particle")
    figure = plot(SIM, cloud)
    assert list(panels(figure)) == ["risk", "M", "Q"]
    lines = [line for line in panels(figure)["M"].lines if line.get_linestyle() == "-"]
    assert len(lines) == 4


def test_a_sweep_is_drawn_once_for_every_value():
    import xarray as xr

    both = xr.concat([ODE, ODE], dim="d", coords="minimal", compat="override", join="override", data_vars="all")
    figure = plot(both.assign_coords(d=[10, 20]), variables=["risk"])
    assert words(figure.axes[0]) == ["OverlapODE, d = 10", "OverlapODE, d = 20"]


def test_results_of_two_problems_are_told_apart_by_their_hash():
    other = result("OverlapODE", p=3)
    labels = words(panels(plot(ODE, other))["risk"])
    assert labels == [
        f"OverlapODE [{ODE.attrs['spec_hash'][:6]}]",
        f"OverlapODE, 4 runs [{other.attrs['spec_hash'][:6]}]",
    ]


def test_a_figure_of_matrices_only_names_its_results_above_the_panels():
    figure = plot(SIM, ODE, variables=["M", "Q"])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "simulate (weights), d = 50, 4 runs",
        "OverlapODE",
    ]


def test_pyplot_knows_the_figure_and_forgets_it():
    before = plt.get_fignums()
    figure = plot(SIM, ODE)
    assert plt.gcf() is figure
    assert len(plt.get_fignums()) == len(before) + 1
    close_figure(figure)
    assert plt.get_fignums() == before


def test_no_backend_is_chosen_for_the_user(monkeypatch):
    def refuse(*_, **__):
        raise ImportError("Cannot load backend 'TkAgg'")

    before = matplotlib.get_backend()
    plot(SIM)
    assert matplotlib.get_backend() == before
    monkeypatch.setattr(plt, "figure", refuse)
    assert plot(SIM)._repr_png_().startswith(b"\x89PNG")  # where there is no screen there is still a figure


def test_figures_of_the_gallery_are_not_known_to_pyplot():
    before = plt.get_fignums()
    drawn(new_figure(3)[0])
    paper(2)
    assert plt.get_fignums() == before
    drawn(new_figure(1)[0], known=True)  # a control
    assert len(plt.get_fignums()) == len(before) + 1
    plt.close("all")


def test_a_notebook_shows_the_figure_once(monkeypatch):
    shown = []
    notebook = types.SimpleNamespace(display=shown.append, Image=lambda data: data[:4])
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    figure: Any = plot(ODE)
    assert figure._repr_png_().startswith(b"\x89PNG")
    figure._ipython_display_()
    assert shown == [b"\x89PNG"]
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    assert plt.fignum_exists(figure.number)
    figure._ipython_display_()  # the backend calls this of all that pyplot knows at the end of the cell
    assert shown == [b"\x89PNG"] * 2
    assert not plt.fignum_exists(figure.number)  # so that it has nothing left to show


def test_results_are_drawn_in_axes_of_the_user():
    figure, (left, right) = plt.subplots(1, 2)
    assert plot(SIM, ODE, variables="risk", ax=left) is figure
    assert left.get_ylabel() == "risk"
    assert len(left.lines) > 1
    assert not right.lines
    assert figure._suptitle is None  # the figure is the user's
    before = plt.get_fignums()
    plot(SIM, ODE, variables=["risk", "M"], ax=plt.subplots(1, 2)[1])
    assert len(plt.get_fignums()) == len(before) + 1


def test_axes_with_many_entries_name_results_in_their_own_legend():
    _, axes = plt.subplots()
    plot(SIM, ODE, variables="M", ax=axes)
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words[:2] == ["simulate (weights), d = 50, 4 runs", "OverlapODE"]
    assert "$M_{0,0}$" in words
    assert not axes.get_figure().legends


def test_axes_that_do_not_match_are_refused_in_words():
    _, axes = plt.subplots()
    with pytest.raises(ll.errors.InputError, match=r"got 1 for 3 \(risk, M, Q\)\. Choose as many with variables"):
        plot(SIM, ODE, ax=axes)
    with pytest.raises(ll.errors.InputError, match="got 2 for 1"):
        plot(SIM, ODE, variables="risk", ax=[axes, axes])
    with pytest.raises(ll.errors.InputError, match="must be axes of matplotlib"):
        plot(SIM, ODE, ax=plt.figure())
    with pytest.raises(ll.errors.InputError, match="must be axes of matplotlib"):
        plot(SIM, ODE, variables="risk", ax=[])


def test_the_palette_has_eight_different_colours():
    assert len(set(palette)) == 8
    assert all(re.fullmatch(r"#[0-9A-F]{6}", colour) for colour in palette)


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((), {}, "at least one result"),
        ((np.ones(3),), {}, "got an object of ndarray"),
        ((ODE,), {"variables": ["rsik"]}, "'rsik'"),
        ((ODE,), {"variables": []}, "nothing"),
        ((ODE.drop_vars(["risk", "M", "Q", "a"]),), {}, "variable over time"),
        ((ODE,) * 9, {}, "at most 8"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_words(arguments, keywords, message):
    with pytest.raises(ll.errors.InputError, match=message):
        plot(*arguments, **keywords)


def test_a_saved_figure_is_whole(tmp_path):
    path = save_figure(plot(ODE), tmp_path / "a.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.read_bytes().rstrip().endswith(b"IEND\xaeB`\x82")
    assert save_figure(plot(ODE), tmp_path / "a.svg").read_text().rstrip().endswith("</svg>")
    with pytest.raises(ll.errors.InputError, match=r"a\.xyz"):
        save_figure(plot(ODE), tmp_path / "a.xyz")
    with pytest.raises(ll.errors.ResultFileError, match="absent"):
        save_figure(plot(ODE), tmp_path / "absent" / "a.png")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_save_keeps_the_old_file_and_leaves_no_other(tmp_path, monkeypatch, interruption):
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def stop(*_):
        raise interruption

    monkeypatch.setattr("os.replace", stop)
    with pytest.raises((KeyboardInterrupt, ll.errors.ResultFileError)):
        save_figure(plot(ODE), path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]
    assert path.read_bytes() == b"old"


def test_coefficients_are_named_by_their_terms():
    problem = ll.library.merged_staircase()
    flow = ll.predict(problem, ll.DimensionFree(nodes=12), [0.0, 1.0, 2.0])
    figure = ll.plot(flow)
    assert [axes.get_ylabel() for axes in figure.axes] == ["risk", "fourier"]
    words = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert len(words) == 8 and {"z1", "z1*z2", "z1*z2*z3"} <= set(words)


def test_times_are_drawn_from_left_to_right():
    sim = result("OverlapODE", replicated=False, replicas=1, moving=True)
    mixed = sim.isel(time=np.random.default_rng(1).permutation(len(TIMES)))
    one, two = (plot(ds, variables="risk").axes[0].lines[0].get_xydata() for ds in (sim, mixed))
    np.testing.assert_array_equal(one, two)


def test_no_times_and_round_axes_are_refused_in_words():
    with pytest.raises(ll.errors.InputError, match="plot needs results with a time at least; got one with none"):
        plot(result("OverlapODE").isel(time=[]))
    for projection in ("3d", "polar"):
        axes = plt.figure().add_subplot(projection=projection)
        with pytest.raises(ll.errors.InputError, match="plain axes with an x and a y"):
            plot(result("OverlapODE"), variables="risk", ax=axes)
    with pytest.raises(ll.errors.InputError, match="run needs the name of a gallery entry, such as 'staircase'"):
        ll.run(None)  # pyright: ignore[reportArgumentType]


def test_theory_and_runs_of_one_point_have_one_colour():
    grid = {"algorithm.learning_rate": [0.2, 0.4]}
    runs = ll.sweep(ll.simulate, committee(p=2, k=1), grid, d=20, times=[0.0, 0.1], replicas=2)
    limit = ll.sweep(ll.predict, committee(p=2, k=1), grid, times=[0.0, 0.1])
    colours = [source.colour for source in _sources([runs, limit])[0]]
    assert colours[:2] == colours[2:] and colours[0] != colours[1]
    alone = [source.colour for source in _sources([runs])[0]]
    assert len(set(alone)) == 2


def test_a_title_that_is_wider_than_its_figure_is_broken_into_lines():
    problem = ll.Problem(
        teacher=ll.Committee(width=2, activation="erf"),
        channel=ll.GaussianNoise(0.01),
        student=ll.Committee(width=2, activation="erf"),
        loss=ll.SquareLoss(),
        start=ll.InformedStart(overlap=0.2),
        algorithm=ll.OnlineSGD(learning_rate=0.5),
    )
    figure = ll.plot(ll.predict(problem, ll.OverlapODE(), [0.0, 0.1]), variables="risk")
    figure.canvas.draw()
    box = figure._suptitle.get_window_extent()
    assert "\n" in figure.get_suptitle() and box.x0 >= 0 and box.x1 <= figure.bbox.x1
