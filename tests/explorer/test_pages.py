"""Every page as data: its form, its address, its requests, its words. No browser, and nothing is computed."""

import ast
import html
import json
import math
import re
import subprocess
import sys

import pytest

pytest.importorskip("nicegui", reason="the explorer needs pip install 'limitlab[explorer]'")
pytest.importorskip("latex2mathml", reason="the explorer needs pip install 'limitlab[explorer]'")

from limitlab.cite import references
from limitlab.errors import LimitlabError
from limitlab.explorer import downloads
from limitlab.explorer.controls import Choice, FieldError, Number, Text
from limitlab.explorer.description import Answers
from limitlab.explorer.drawn.screen import formula
from limitlab.explorer.form import form_html
from limitlab.explorer.pages import pages
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


@every
def test_every_control_has_label_symbol_and_explanation(page):
    made = form_html(page, page.defaults)
    for control in page.controls:
        assert f'<label for="in-{control.key}"' in made and f'id="in-{control.key}"' in made
        assert html.escape(control.words) in made and html.escape(control.help) in made
        assert control.help.endswith(".") and control.group in ("nature", "learner", "look")


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
    assert raised.value.key == "target" and "z1 +* z2" in str(raised.value)
    with pytest.raises(FieldError, match="At most 6 variables"):
        page.table({**page.defaults, "target": "z1*z2*z3*z4*z5*z6*z7"})
    assert math.isclose(page.control("scale").read("2.5"), 2.5)


def test_the_command_line_knows_the_explorer():
    told = subprocess.run([sys.executable, "-m", "limitlab.cli", "explore", "--help"], capture_output=True, text=True)
    assert told.returncode == 0 and "--port" in told.stdout and "--host" in told.stdout
