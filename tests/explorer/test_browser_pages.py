"""A film, a table of the visitor's own, and descent, in a real browser."""

import io

import numpy as np
import pytest

pytestmark = pytest.mark.browser

LEFT = """() => { const first = document.querySelector('.js-plotly-plot').data[0];
    return [Array.from(first.x).map(Number), Array.from(first.y).map(Number)] }"""
MARK = "() => { const all = document.querySelector('.js-plotly-plot').data; return Number(all[all.length - 1].x[0]) }"


def until(tab, words, where=".stage"):
    tab.wait_for_function(
        "([where, words]) => document.querySelector(where).innerText.includes(words)", arg=[where, words]
    )


def test_a_film_is_scrubbed_and_played_and_its_mark_moves(tab, server):
    tab.goto(f"{server.url}/cloud?d=20&horizon=1")
    until(tab, "The risk falls")
    tab.wait_for_function("document.querySelector('#film-time').innerText === 't = 1.00'")
    tab.wait_for_function(f"({MARK})() === 1")
    late = tab.evaluate(LEFT)
    moment = tab.get_by_role("slider", name="moment")
    moment.focus()
    moment.press("Home")
    tab.wait_for_function(f"({MARK})() === 0")
    early = tab.evaluate(LEFT)
    assert np.array_equal(early[0], late[0]), "axes and bins stay"
    assert not np.allclose(early[1], late[1])
    edges = np.array(early[0])
    for _, share in (early, late):  # a law: its area is one
        assert np.sum(share) * (edges[1] - edges[0]) == pytest.approx(1.0, abs=0.02)
    tab.get_by_role("button", name="play").click()
    tab.wait_for_function(f"({MARK})() > 0.1")
    tab.get_by_role("button", name="pause").click()
    tab.get_by_role("checkbox", name="units as points").check()
    tab.wait_for_function("document.querySelector('.js-plotly-plot').data[0].mode === 'markers'")


def test_a_table_is_dropped_and_told(tab, server):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(120)
    table = io.StringIO()
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="age,weight,height,price", comments="")
    tab.goto(f"{server.url}/my_data?model=ridge&fits=5")
    until(tab, "rows the error falls")
    file = tab.locator("input[type=file]")
    with tab.expect_file_chooser():  # by the keyboard too
        tab.get_by_role("button", name="choose a file").focus()
        tab.keyboard.press("Enter")
    file.set_input_files({"name": "<b>mine</b>.csv", "mimeType": "text/csv", "buffer": table.getvalue().encode()})
    until(tab, "4 columns: age, weight, height, price", ".drop")
    assert tab.locator(".drop b").count() == 0, "a name is words, never elements"
    until(tab, "120 rows, 3 columns", ".about")
    field = tab.locator("#in-target")
    field.fill("prize")
    tab.wait_for_function("document.querySelector('#fault-target').innerText.includes('price')")
    field.fill("price")
    tab.wait_for_function("document.querySelector('#fault-target').innerText === ''")
    tab.get_by_role("button", name="run it").click()
    until(tab, "hardest rows", ".about")
    until(tab, "best penalty", ".about")
    file.set_input_files({"name": "mine.pkl", "mimeType": "application/octet-stream", "buffer": b"\x80\x04."})
    until(tab, "must end in .csv or .npz", ".drop")


def test_descent_follows_its_rule_and_says_when_steps_are_too_large(tab, server):
    tab.goto(f"{server.url}/descent?step=0.05&horizon=1")
    until(tab, "Gradient descent goes from overlap 0.3")
    tab.get_by_role("combobox", name="learning rule").select_option("psgd")
    tab.wait_for_function("/Persistent SGD (goes|blows up|finds)/.test(document.querySelector('.stage').innerText)")
    tab.get_by_role("spinbutton", name="time that is shown, exact value").fill("6")
    tab.get_by_role("spinbutton", name="time that is shown, exact value").press("Tab")
    tab.get_by_role("combobox", name="hidden units").select_option("3")
    tab.get_by_role("spinbutton", name="size of a step, exact value").fill("0.01")
    tab.get_by_role("spinbutton", name="size of a step, exact value").press("Tab")
    tab.wait_for_function("document.querySelector('#fault-horizon').innerText.includes('At most 200 steps')")


def test_a_run_above_the_cap_is_refused_with_its_price_until_it_is_allowed(tab, server):
    tab.goto(f"{server.url}/learn?target=z1&scale=2&d=400&width=400&step=0.002&horizon=40&replicas=32")
    until(tab, "above the cap")
    assert tab.get_by_role("button", name="run it").is_disabled()
    tab.get_by_role("button", name="allow long runs").click()
    tab.wait_for_function("!document.querySelector('.price').innerText.includes('above the cap')")
    assert tab.get_by_role("button", name="run it").is_enabled()
    assert not tab.get_by_role("button", name="allow long runs").is_visible()
