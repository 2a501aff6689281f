"""Every page as data: its form, its address, its requests, its words. No browser, and nothing is computed."""

import ast
import html
import json
import math
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from matplotlib.image import imread

pytest.importorskip("nicegui", reason="the explorer needs pip install 'limitlab[explorer]'")
pytest.importorskip("latex2mathml", reason="the explorer needs pip install 'limitlab[explorer]'")

from limitlab.cite import references
from limitlab.errors import LimitlabError
from limitlab.explorer import downloads
from limitlab.explorer.cards import PICTURES, cards
from limitlab.explorer.controls import Choice, FieldError, Number, Text
from limitlab.explorer.description import Answers
from limitlab.explorer.drawn.entry_page import problem_files
from limitlab.explorer.drawn.reading import READ, docs_folder, written
from limitlab.explorer.drawn.screen import formula
from limitlab.explorer.form import form_html
from limitlab.explorer.pages import pages
from limitlab.gallery import ENTRIES
from limitlab.jobs.requests import Request
from limitlab.spec import loads

PAGES = pages()
every = pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))


@every
def test_the_address_holds_every_value(page):
    assert page.address(page.defaults) == f"/{page.name}"
    for control in page.controls:
        value = control.default
        if isinstance(control, Number):
            value = control.high if control.default != control.high else control.low
        elif isinstance(control, Choice):
            value = control.options[-1][0]
        values = {**page.defaults, control.key: value}
        back, faults = page.read(page.address(values).partition("?")[2])
        assert back == values and not faults, control.key


@every
def test_an_address_with_nonsense_gives_defaults_and_says_what_was_wrong(page):
    wrong = next(c for c in page.controls if isinstance(c, Number))
    query = f"?{wrong.key}=__import__('os')&unknown=1&seed2=%00"
    values, faults = page.read(query)
    assert values == page.defaults and list(faults) == [wrong.key]
    for text in ("nan", "inf", "1e999", "", str(wrong.high * 2 + 1)):
        with pytest.raises(FieldError, match="must be"):
            wrong.read(text)


WORDS_ONLY = {  # what no formula has a letter for; everything else has its symbol
    "seed",
    "my_data.standardise",
    "my_data.text",
    "my_data.missing",
}


@every
def test_an_address_with_too_many_parts_is_no_error_of_the_server(page):
    assert page.read("a=1&" * 300 + "seed=3") == (page.defaults, {})


@every
def test_every_control_has_label_symbol_and_explanation(page):
    without = {control.key for control in page.controls if not control.symbol}
    assert without == {key for key in without if key in WORDS_ONLY or f"{page.name}.{key}" in WORDS_ONLY}
    assert {key.partition(".")[2] for key in WORDS_ONLY if key.startswith(f"{page.name}.")} <= without, "a stale row"
    made = form_html(page, page.defaults)
    for control in page.controls:
        assert f'<label for="in-{control.key}"' in made and f'id="in-{control.key}"' in made
        assert html.escape(control.words) in made and html.escape(control.help) in made
        assert not control.symbol or f'<span class="symbol">{html.escape(control.symbol)}</span>' in made
        assert control.help.endswith(".") and control.group in ("nature", "learner", "look")
        assert f'href="/docs/{control.more or page.docs}"' in made
        if isinstance(control, Number):
            assert f"<span>{control.low:g}</span><span>{control.high:g}</span>" in made  # its range is on it


def _there(link):
    """Whether a link of the explorer leads to a page of the documentation, and to a heading on it."""
    page, _, place = link.removeprefix("/docs/").partition("#")
    return page in READ and (not place or place in written(page).anchors)


@every
def test_what_a_question_mark_leads_to_is_there(page):
    assert page.docs and all(_there(control.more or page.docs) for control in page.controls)
    assert not _there("glossary#no-such-word") and not _there("no-such-page")  # the control


@pytest.mark.parametrize("name", READ)
def test_a_page_of_the_documentation_is_whole_and_asks_nobody_else(name):
    made = written(name)
    prose = re.sub(r"<(code|pre|math)\b.*?</\1>", "", made.body, flags=re.DOTALL)
    assert made.title and not re.search(r"\$|\{[a-z:]+\}|FORMULA|\]\(|\*\*|<script", prose)
    for link in re.findall(r'href="([^"]*)"', made.body):
        assert link.startswith(("http://", "https://")) or _there(link if link[0] == "/" else f"/docs/{name}{link}")
    for source in re.findall(r'src="([^"]*)"', made.body):
        assert (docs_folder() / "images" / source.removeprefix("/docs-images/")).is_file()


def test_the_wheel_has_the_pages_that_are_read():
    """By its list: that they are found in an installed wheel is for .ci/wheel to say."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    listed = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert listed == {f"docs/{name}.md": f"limitlab/explorer/docs/{name}.md" for name in READ}


def test_only_the_pages_that_are_named_are_read():
    for name in ("../pyproject", "conf.py", "index", "", "/etc/passwd"):
        with pytest.raises(FileNotFoundError):
            written(name)


@every
def test_what_is_asked_is_plain_and_the_same_for_the_same_values(page):
    table = page.table(page.defaults)
    one, two = (page.asks(page.defaults, table) for _ in range(2))
    assert [a.request.key for a in one] == [a.request.key for a in two]
    if page.runs is not None:
        request = page.runs(page.defaults, table)
        assert request is None or isinstance(request, Request)
        json.dumps(None if request is None else request.arguments)


@every
def test_nothing_known_yet_can_be_told_and_drawn(page):
    words = page.words(page.defaults, Answers())
    assert words.title
    page.figure(page.defaults, Answers())


@every
def test_a_run_says_what_it_costs_and_the_usual_one_is_below_the_cap(page):
    if page.runs is None:
        return
    cost = page.cost(page.defaults)
    assert 0 < cost.seconds < 60 and "about" in cost.words


@every
def test_references_are_known_and_read_as_words(page):
    assert page.references and page.trust
    for key in page.references:
        assert key in references()
        words = downloads.reference_words(key)
        assert re.search(r"\b(19|20)\d\d\b", words) and not re.search(r"[\\{}]", words)


@every
def test_the_problem_file_and_the_python_lines_are_whole(page):
    lines = downloads.python(page, page.defaults)
    ast.parse(lines)
    if page.problem is not None:
        assert loads(downloads.problem_file(page, page.defaults).decode()) == page.problem(page.defaults)


def _asked(page, control, text):
    values = {**page.defaults, control.key: control.read(text)}
    return page.asks(values, page.table(values))


@every
def test_texts_are_read_as_data(page):
    for control in page.controls:
        if isinstance(control, Text):
            for hostile in ("__import__('os').system('true')", "z1; import os", "(lambda: 1)()", "z" * 5000, "9**9**9"):
                with pytest.raises(LimitlabError):
                    _asked(page, control, hostile)


def test_every_card_has_a_picture_of_its_own():
    """As many pictures as entries, all different, none of them an empty frame: something in it has a colour."""
    seen = {path.stem: path.read_bytes() for path in PICTURES.glob("*.png")}
    assert seen.keys() == set(ENTRIES) and len(set(seen.values())) == len(seen)
    for name in seen:
        pixels = imread(PICTURES / f"{name}.png")[..., :3]
        assert pixels.shape[:2] == (220, 352)
        assert (pixels.max(axis=-1) - pixels.min(axis=-1) > 0.2).sum() > 200, name


def test_every_card_opens_something():
    """A page with the settings of its entry, or the entry's own page."""
    assert {card.name for card in cards()} == set(ENTRIES) and len(cards()) == len(ENTRIES)
    for card in cards():
        if card.page is None:
            assert card.address == f"/entry/{card.name}" and all(card.name not in page.opens for page in PAGES.values())
            for text in problem_files(card.name).values():
                loads(text)
        else:
            values, faults = card.page.read(card.address.partition("?")[2])
            assert values == card.values and not faults, card.name
            card.page.asks(values, card.page.table(values))  # a problem that can be asked for
            assert card.name not in [name for page in PAGES.values() for name in page.near]
    assert problem_files("second-layer").keys() == {"second layer fixed", "second layer trained"}
    assert all(name in ENTRIES for page in PAGES.values() for name in (*page.near, *page.opens))


def test_formulas_are_formulas():
    made = formula(r"h(z) = \sum_S \hat h(S) \prod_{i \in S} z_i")
    assert made.startswith("<math") and "<munder>" in made and "\\" not in made
    for page in PAGES.values():
        latex = page.words(page.defaults, Answers()).formula
        assert "\\" not in re.sub(r"&#x[0-9A-F]+;", "", formula(latex) if latex else "")


def test_a_number_is_refused_in_words_beside_its_field():
    page = PAGES["learn"]
    with pytest.raises(FieldError) as raised:
        page.table({**page.defaults, "target": "z1 +* z2"})
    assert raised.value.key == "target"
    assert str(raised.value) == "'*' stands where a number or a variable was needed at character 5. Write z1 to z20."
    with pytest.raises(FieldError, match="At most 6 variables"):
        page.table({**page.defaults, "target": "z1*z2*z3*z4*z5*z6*z7"})
    assert math.isclose(page.control("scale").read("2.5"), 2.5)


def test_the_command_line_knows_the_explorer():
    told = subprocess.run([sys.executable, "-m", "limitlab.cli", "explore", "--help"], capture_output=True, text=True)
    assert told.returncode == 0 and "--port" in told.stdout and "--host" in told.stdout
