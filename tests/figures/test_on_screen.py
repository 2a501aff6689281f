"""One description, two drawers: what is on paper is on the screen too."""

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

import limitlab as ll
from limitlab.errors import InputError
from limitlab.figures import Key, drawn, new_figure, palette, style_axes
from limitlab.figures.on_screen import Theme, marked_up, on_screen
from limitlab.gallery import page
from limitlab.gallery.entry import Check, Entry, run
from limitlab.plot import described

X = np.linspace(1.0, 100.0, 5)


def example():
    figure, (left, right) = new_figure(2)
    left.plot(X, X**2, "o--", color="#0072B2", label="a curve $M_{0,1}$")
    left.plot(X, np.stack([X, 2 * X], axis=1), color="0.4", label="two")
    left.errorbar(X, X, 0.1 * X, fmt="s", color="C1", label="bars")
    left.errorbar(X, X, [0.1 * X, 0.3 * X], fmt="none", color="k")
    left.fill_between(X, X - 1, X + 1, color="#D55E00", alpha=0.3, label="band")
    left.set(xscale="log", yscale="log", xlim=(1, 100))
    left.legend()
    style_axes(left, x="n", y="error", title="left")
    right.axhline(2.0, ls=":", label="level")
    right.axvspan(1, 3, color="#009E73", alpha=0.2)
    right.text(10.0, 5.0, "hard", ha="center")
    right.bar([1, 2], [3, 4], 0.5, color="#E69F00")
    right.bar([1, 2], [1, 1], 0.5, bottom=[3, 4], color="#009E73")
    right.plot([np.nan, 2.0], [1.0, np.inf], color="black", label="_hidden")
    right.set_xscale("log")
    right.set_xticks([1, 10], ["one", "ten"])
    right.legend(handles=[Key("runs", "#000000", "", "o")])
    style_axes(right, x="x", y="y", title="right")
    figure.suptitle("A sentence")
    return figure


def test_curves_have_the_same_numbers_on_paper_and_on_the_screen():
    figure = example()
    made, shown = drawn(figure), on_screen(figure)
    lines = [line for line in made.axes[0].lines if len(line.get_xdata()) == 5 and line.get_linestyle() != "None"]
    here = [t for t in shown["data"] if t["xaxis"] == "x" and "lines" in t.get("mode", "") and "fill" not in t]
    for line in lines:
        assert any(np.allclose(line.get_ydata(), t["y"]) for t in here if len(t["y"]) == 5)
    bars = [t for t in shown["data"] if "error_y" in t]
    assert np.allclose(bars[0]["error_y"]["array"], 0.1 * X)
    assert np.allclose(bars[1]["error_y"]["array"], 0.3 * X)
    assert np.allclose(bars[1]["error_y"]["arrayminus"], 0.1 * X)
    stacked = [t for t in shown["data"] if t["type"] == "bar"]
    assert "base" not in stacked[0] and stacked[1]["base"] == [3.0, 4.0] and stacked[1]["y"] == [1.0, 1.0]
    band = next(t for t in shown["data"] if t.get("fill") == "tonexty")
    assert np.allclose(band["y"], X + 1) and "0.3)" in band["fillcolor"]
    plt.close("all")


def test_axes_words_and_places():
    shown = on_screen(example())
    layout = shown["layout"]
    assert layout["xaxis"]["type"] == layout["yaxis"]["type"] == layout["xaxis2"]["type"] == "log"
    assert layout["yaxis2"]["type"] == "linear"
    assert layout["xaxis"]["range"] == [0.0, 2.0]  # powers of ten
    assert layout["xaxis2"]["ticktext"] == ["one", "ten"]
    assert layout["title"]["text"] == "A sentence"
    hard = next(note for note in layout["annotations"] if note["text"] == "hard")
    assert (hard["x"], hard["y"]) == (1.0, 5.0)  # words by the logarithm, and only there
    level = next(shape for shape in layout["shapes"] if shape["type"] == "line")
    assert (level["y0"], level["x1"], level["xref"]) == (2.0, 1, "x2 domain")
    box = next(shape for shape in layout["shapes"] if shape["type"] == "rect")
    assert (box["x0"], box["x1"]) == (1.0, 3.0)
    assert [re.sub("<.*?>", "", n["text"]) for n in layout["annotations"] if "name" in n] == ["left", "right"]


def test_legends_name_what_they_name_on_paper():
    data = on_screen(example())["data"]
    left = [t["name"] for t in data if t.get("showlegend") and t["legend"] == "legend2"]
    assert left == ["a curve M<sub>0,1</sub>", "two", "bars", "band"]
    assert [t["name"] for t in data if t.get("showlegend") and t["legend"] == "legend3"] == ["runs"]


def test_it_is_plain_json_without_numbers_that_are_none():
    text = json.dumps(on_screen(example()), allow_nan=False)
    assert "null" in text and "NaN" not in text


def test_dark_paper_turns_black_and_greys_over():
    figure, (panel,) = new_figure()
    panel.plot(X, X, color="black")
    panel.plot(X, X, color="0.2")
    panel.plot(X, X, color="#D55E00")
    light, dark = (on_screen(figure, dark=dark) for dark in (False, True))
    inks = [[t["line"]["color"] for t in shown["data"]] for shown in (light, dark)]
    assert inks[0][0] == "rgba(0,0,0,1)" and inks[1][0] == "rgba(232,232,232,1)"
    assert inks[0][1] != inks[1][1] and inks[0][2] == inks[1][2]
    assert light["layout"]["paper_bgcolor"] != dark["layout"]["paper_bgcolor"]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("risk", "risk"),
        ("a < b & c", "a &lt; b &amp; c"),
        ("$M_{0,1}$ and $|Q|_{2}$", "M<sub>0,1</sub> and |Q|<sub>2</sub>"),
        ("$10^{-3}$", "10<sup>-3</sup>"),
        ("$i \\neq j$, $\\alpha_c$", "i ≠ j, α<sub>c</sub>"),
        ("<script>", "&lt;script&gt;"),
        ("$<script>$", "&lt;script&gt;"),
    ],
)
def test_formulas_become_letters(words, shown):
    assert marked_up(words) == shown


def test_a_panel_knows_what_it_knows():
    panel = new_figure()[1][0]
    with pytest.raises(AttributeError, match=r"no 'pcolormesh'.*on_paper\.paper"):
        panel.pcolormesh(X, X, X)


def test_what_was_said_is_not_changed_afterwards():
    figure, (panel,) = new_figure()
    values = X.copy()
    panel.plot(X, values)
    values[:] = 0
    assert on_screen(figure)["data"][0]["y"] == X.tolist()


def test_plot_is_described_before_it_is_drawn():
    problem = ll.library.soft_committee(2, 1.5, 0.05)
    times = np.linspace(0, 3, 4)
    sim, ode = ll.simulate(problem, 50, times, 4), ll.predict(problem, ll.OverlapODE(), times)
    figure, names = described([sim, ode])
    assert names[0] == "risk"
    shown = on_screen(figure)
    risk = [t for t in shown["data"] if t["xaxis"] == "x" and len(t["x"]) == 4]
    assert np.allclose(risk[0]["y"], sim.risk.mean("replica")) and np.allclose(risk[1]["y"], ode.risk)
    assert risk[0]["mode"] == "markers" and risk[1]["mode"] == "lines"


# --- pages ----------------------------------------------------------------------------------------------------------


def entry(ok=True, words="It <holds>."):
    def compute(progress):
        return {"ode": ll.predict(ll.library.soft_committee(2, 1.5, 0.05), ll.OverlapODE(), [0.0, 1.0])}

    def figure(data):
        made, (panel,) = new_figure()
        panel.plot(data["ode"].time, data["ode"].risk, label="</script><b>")
        style_axes(panel, x="t", y="risk")
        return made

    return Entry("made-up", "An entry", words, compute, lambda data: [Check("so", ok, "1 < 2")], figure, 1.0)


def test_a_page_holds_everything_and_lets_nothing_out(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    verdict = run(entry(), tmp_path)
    text = page.write_page(entry(), verdict).read_text()
    assert "It &lt;holds&gt;." in text and "1 &lt; 2" in text and "The claim holds: 1 of 1" in text
    assert text.count("</script>") == 2  # a label cannot end the script
    assert "http://" not in text and "https://" not in text
    assert "The claim fails" in page.html_page(entry(ok=False), run(entry(ok=False)))


def test_a_page_without_plotly_says_what_is_missing(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("plotly"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'limitlab\[explorer\]'"):
        page.check_plotly()


@pytest.mark.parametrize("dark", [False, True])
def test_curves_stand_out_from_their_paper(dark):
    """At least 3 to 1 (WCAG, of figures) where the palette allows it; dark paper lightens what is dim."""

    def light(parts):
        r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (p / 255 for p in parts))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    theme = Theme.of(dark)
    paper = light([int(theme.paper[i : i + 2], 16) for i in (1, 3, 5)])
    made = [theme.colour(name) for name in palette]
    assert len(set(made)) == len(palette)
    for name, colour in zip(palette[:4] if not dark else palette, made, strict=False):
        ink = light([float(x) for x in colour[5:-1].split(",")[:3]])
        ratio = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
        assert ratio >= (4 if dark else 3), (name, ratio)
