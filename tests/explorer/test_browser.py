"""The explorer in a real browser: pages, curves, runs, downloads, addresses, errors, and what a browser's log says."""

import os
import signal
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from explorer_words import PAGES, PICTURES, Server

import limitlab as ll
from limitlab.spec import loads

psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.browser

SMALL = "/learn?target=z1&scale=2&horizon=4&d=30&width=20&step=0.05&replicas=8"
CURVE = "() => { const p = document.querySelector('.js-plotly-plot'); return p && p.data ? p.data.length : 0 }"
DRAWN = """() => [...document.querySelector('.js-plotly-plot').data]
    .map((t) => Array.from(t.y._inputArray || t.y || []).map(Number))"""


def wait(tab, words, where=".stage"):
    """Until the words are there."""
    tab.wait_for_function(
        "([where, words]) => document.querySelector(where).innerText.includes(words)", arg=[where, words]
    )


def wait_drawn(tab):
    tab.wait_for_function(f"({CURVE})() > 0")


def curves(tab):
    return [np.array(y, float) for y in tab.evaluate(DRAWN)]


def download(tab, *names):
    """What a click (or two: a menu and its button) brings."""
    for menu in names[:-1]:
        tab.locator("summary", has_text=menu).click()
    with tab.expect_download() as got:
        tab.get_by_role("button", name=names[-1], exact=True).click()
    with open(got.value.path(), "rb") as file:
        return file.read()


# --- pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", *PAGES])
def test_a_page_loads_and_has_its_picture_taken(tab, server, name):
    tab.goto(f"{server.url}/{name}")
    assert tab.get_by_role("heading", level=1).is_visible()
    if name:
        wait_drawn(tab)
        tab.wait_for_function("!document.querySelector('.state').innerText.includes('first time')")
        assert tab.locator("[role=img][aria-label]").first.get_attribute("aria-label")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            tab.set_viewport_size({"width": width, "height": 900 if width > 500 else 844})
            tab.wait_for_timeout(600)
            tab.screenshot(path=PICTURES / f"{name or 'front'}-{width}-{scheme}.png", full_page=True)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, "it must not scroll sideways"
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(22, 24, 29)"  # the last one was dark


def test_a_card_opens_its_problem(tab, server):
    tab.goto(server.url)
    tab.locator("a.card", has_text="first-order transition of the binary perceptron").click()
    assert tab.get_by_role("combobox", name="what the weights are").input_value() == "binary"
    assert "/samples?" in tab.url


# --- curves ---------------------------------------------------------------------------------------------------------


def test_a_card_without_a_question_opens_its_entry_which_runs(tab, server):
    tab.goto(server.url)
    tab.locator("a.card", has_text="Training the second layer").click()
    tab.wait_for_url("**/entry/second-layer")
    assert "output_weights = [2.0]" in tab.content(), "its problem file"
    tab.get_by_role("button", name="run it").click()
    tab.wait_for_function("document.querySelector('.state').innerText.includes('The claim holds')")
    assert tab.locator("td.holds").count() == 5
    tab.wait_for_function("document.querySelector('.entry-figure img').naturalWidth > 500")
    tab.goto(f"{server.url}/entry/second-layer")  # known by now
    tab.wait_for_function("document.querySelector('.state').innerText.includes('The claim holds')")
    assert server.status("/entry/no-such-entry") == 404


def test_a_slider_moves_the_curve_the_address_and_back(tab, server):
    tab.goto(f"{server.url}{SMALL}")
    wait(tab, "learned by")
    wait_drawn(tab)
    before = curves(tab)
    slider = tab.get_by_role("slider", name="noise on the labels")
    slider.focus()
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
    tab.wait_for_url("**variance=0.03**")
    tab.wait_for_function("document.querySelector('.stage').innerText.includes('noise alone')")
    after = curves(tab)
    risk = [max(y[:1], default=0) for y in after]
    assert risk != [max(y[:1], default=0) for y in before]
    tab.go_back()
    tab.wait_for_url("**variance=0.02**")
    tab.wait_for_function("document.querySelector('#in-variance').value === '0.02'")
    tab.go_forward()
    tab.wait_for_url("**variance=0.03**")
    tab.wait_for_function("document.querySelector('#in-variance').value === '0.03'")


def test_axes_without_curves_stand_where_the_figure_will_be(tab, server):
    """They lay under its paper, and across the words below it."""
    tab.goto(f"{server.url}{SMALL}")
    wait_drawn(tab)
    tab.evaluate("document.querySelector('.skeleton').classList.remove('gone')")
    top, bottom, above = tab.evaluate("""() => { const place = (s) => document.querySelector(s).getBoundingClientRect();
        const axes = place('.skeleton'), plot = place('.plot');
        return [axes.top - plot.top, plot.bottom - axes.bottom,
                Number(getComputedStyle(document.querySelector('.skeleton')).zIndex)] }""")
    assert (top, bottom, above) == (20, 50, 1)


def test_an_address_restores_everything(tab, server):
    tab.goto(f"{server.url}/samples?prior=sparse&density=0.3&channel=linear&alpha=0.45&log=1&d=300")
    assert tab.get_by_role("combobox", name="what the weights are").input_value() == "sparse"
    assert tab.get_by_role("slider", name="share of weights that are not zero").input_value() == "0.3"
    assert tab.get_by_role("checkbox", name="logarithmic error").is_checked()
    wait(tab, "At α = 0.45")
    tab.goto(
        f"{server.url}/samples?alpha=9e9&channel=sign"
    )  # a value that is none: the usual one, and words at its field
    wait(tab, "At α = 1.07")
    assert "from 0.05 to 3" in tab.locator("#fault-alpha").inner_text()
    tab.goto(f"{server.url}/descent?units=3&horizon=6")  # values that do not go together
    wait(tab, "do not go together")
    tab.get_by_role("button", name="copy Python").click()
    tab.locator(".q-notification").wait_for()
    step = tab.get_by_role("spinbutton", name="size of a step, exact value")
    step.fill("0.05")
    step.press("Tab")  # the other field, too, can make it right
    tab.wait_for_function("document.querySelector('#fault-horizon').innerText === ''")


def test_a_bad_target_is_said_beside_its_field_and_the_figure_stays(tab, server):
    tab.goto(f"{server.url}{SMALL}")
    wait(tab, "learned by")
    wait_drawn(tab)
    title, before = tab.locator("h2").inner_text(), curves(tab)
    field = tab.get_by_role("combobox", name="what is to be learned")
    field.fill("__import__('os')")
    tab.wait_for_function("document.querySelector('#fault-target').innerText !== ''")
    assert "__import__" in tab.locator("#fault-target").inner_text()
    assert field.get_attribute("aria-invalid") == "true"
    assert tab.locator("h2").inner_text() == title
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(curves(tab), before, strict=True))
    assert tab.get_by_role("button", name="run it").is_disabled()
    field.fill("z1")
    tab.wait_for_function("document.querySelector('#fault-target').innerText === ''")


# --- runs -----------------------------------------------------------------------------------------------------------


def test_a_run_is_started_cancelled_and_finished_and_taken_home(tab, server):
    tab.goto(f"{server.url}{SMALL}&seed=3")
    wait(tab, "learned by")
    tab.get_by_role("slider", name="runs R", exact=True).focus()  # more than a moment's work, to be cancelled
    long = tab.get_by_role("spinbutton", name="size of a step, exact value")
    long.fill("0.002")
    long.press("Tab")
    wait(tab, "60,000 samples")
    tab.get_by_role("button", name="run it").click()
    wait(tab, "Running")
    tab.get_by_role("button", name="cancel").click()
    wait(tab, "Cancelled")
    long.fill("0.05")
    long.press("Tab")
    wait(tab, "2,400 samples")
    tab.get_by_role("button", name="run it").click()
    wait(tab, "Theory and runs")
    assert any(
        "8 runs" in name for name in tab.evaluate("document.querySelector('.js-plotly-plot').data.map(t => t.name)")
    )
    _check_downloads(tab)


def _check_downloads(tab):
    problem = loads(download(tab, "problem file").decode())
    assert problem.teacher.text == "z1"
    ds = _netcdf(download(tab, "data", "runs, netCDF"))
    assert ds.sizes["replica"] == 8 and ds.attrs["spec_hash"]
    head, *rows = download(tab, "data", "theory, CSV").decode().splitlines()
    assert "risk" in head.split(",") and len(rows) >= 40
    assert ET.fromstring(download(tab, "figure", "SVG")).tag.endswith("svg")
    assert download(tab, "figure", "PNG")[:8] == b"\x89PNG\r\n\x1a\n"


def _netcdf(data):
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "runs.nc"
        path.write_bytes(data)
        return ll.load(path).load()


def test_a_worker_that_is_killed_is_told_and_one_click_tries_again(tab, server):
    tab.goto(f"{server.url}{SMALL}&seed=4&step=0.002&replicas=32&d=60")
    wait(tab, "learned by")
    tab.get_by_role("button", name="run it").click()
    tab.wait_for_function("/Running: [1-9]/.test(document.querySelector('.state').innerText)")
    workers = [p for p in psutil.Process(server.process.pid).children() if "limitlab.jobs.worker" in p.cmdline()]
    busy = max(workers, key=lambda p: p.cpu_percent(0.3))
    os.kill(busy.pid, signal.SIGKILL)
    wait(tab, "another one takes its place")
    tab.get_by_role("button", name="try again").click()
    tab.wait_for_function("/Running|Waiting/.test(document.querySelector('.state').innerText)")
    tab.get_by_role("button", name="cancel").click()
    wait(tab, "Cancelled")


# --- hands and strangers --------------------------------------------------------------------------------------------


def test_every_control_is_reached_by_tab_in_reading_order_with_a_visible_focus(tab, server):
    tab.goto(f"{server.url}{SMALL}")
    wait(tab, "learned by")
    order = []
    for _ in range(70):
        tab.keyboard.press("Tab")
        here = tab.evaluate("document.activeElement.closest('.field')?.dataset.key || document.activeElement.innerText")
        order.append(here)
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", here
        if here == "link":
            break
    keys = [control.key for control in PAGES["learn"].controls]
    seen = [key for key in dict.fromkeys(order) if key in keys]
    assert seen == keys and order.index(keys[-1]) < order.index("run it") < order.index("link")


def test_tab_goes_as_the_eye_does_on_a_narrow_screen(tab, server):
    """There the figure stands above the form."""
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{server.url}{SMALL}")
    wait(tab, "learned by")
    tab.locator("#theme").focus()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.innerText") == "run it"
    tab.get_by_role("button", name="link", exact=True).focus()
    tab.keyboard.press("Tab")
    assert (
        tab.evaluate("document.activeElement.id") == "in-target"
        or tab.evaluate("document.activeElement.closest('.field').dataset.key") == "target"
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_moves_when_a_run_starts_and_ends(tab, server, width):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(f"{server.url}{SMALL}&seed={width // 10}&step=0.02")
    wait(tab, "learned by")
    tab.wait_for_function("!/first time|Coarse/.test(document.querySelector('.state').innerText)")

    def places():
        at = "(s) => { const b = document.querySelector(s).getBoundingClientRect(); return [b.top + scrollY, b.left] }"
        return [tab.evaluate(at, name) for name in (".plot", ".state", ".chips button", ".price", "#in-target")]

    before = places()
    tab.evaluate("document.querySelector('.chips button.first').click()")
    wait(tab, "Running")
    assert places() == before
    wait(tab, "Theory and runs")
    assert places() == before


def test_a_question_mark_leads_to_the_documentation_on_this_machine(tab, server):
    tab.goto(f"{server.url}{SMALL}")
    wait(tab, "learned by")
    tab.locator("summary[aria-label='Explain: noise on the labels']").click()
    with tab.context.expect_page() as opened:
        tab.locator("#about-variance a").click()
    page = opened.value
    page.get_by_role("heading", name="channel", exact=True).wait_for()
    assert page.url == f"{server.url}/docs/glossary#channel"
    assert server.status("/docs/conf.py") == 404 and server.status("/docs/..%2Fpyproject.toml") == 404


def test_what_is_drawn_of_samples_can_be_taken_home(tab, server):
    tab.goto(f"{server.url}/samples?channel=sign")
    wait(tab, "the best overlap")
    ds = _netcdf(download(tab, "data", "curves, netCDF"))
    assert ds.sizes["sample_ratio"] == 60 and float(ds.mse_bayes.max()) <= 1.0
    assert len(download(tab, "data", "landscape, CSV").decode().splitlines()) == 62


def test_a_server_that_is_gone_is_told_in_a_bar(chromium, tmp_path):
    own = Server(tmp_path)
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    try:
        page = context.new_page()
        page.goto(f"{own.url}/escape")
        page.get_by_role("heading", level=1).wait_for()
        bar = page.locator("#popup")
        assert not bar.is_visible()
    finally:
        own.close()
    bar.wait_for(state="visible", timeout=60_000)
    box = bar.bounding_box()
    assert box["y"] == 0 and box["width"] == 390  # across the top
    context.close()


def test_a_page_that_never_reaches_its_server_says_so(chromium, server):
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.route_web_socket("**/_nicegui_ws/**", lambda socket: socket.close())
    page.route("**/_nicegui_ws/**", lambda request: request.abort())
    page.goto(f"{server.url}/escape")
    page.get_by_role("heading", level=1).wait_for()
    page.locator("#popup").wait_for(state="visible", timeout=60_000)
    assert not page.evaluate("window.did_handshake")
    context.close()


def test_strangers_are_refused_by_the_running_server(server):
    pytest.importorskip("nicegui")
    assert server.status("/learn") == 200
    assert server.status("/learn", Host="evil.example") == 400
    socket = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    assert server.status(socket, Origin="http://evil.example") == 403
    assert server.status(socket, Origin=server.url) == 200


@pytest.mark.slow
def test_the_pictures_of_the_readme(tab, server):
    """Two pictures for docs/images: a staircase with its runs, and the hard phase in the dark."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    tab.goto(f"{server.url}/learn?step=0.02&d=80&width=80")
    wait(tab, "All 4 terms")
    tab.get_by_role("button", name="run it").click()
    wait(tab, "Theory and runs")
    tab.screenshot(path=PICTURES / "readme-learn.png")
    tab.emulate_media(color_scheme="dark")
    tab.goto(f"{server.url}/samples")
    wait(tab, "stops at overlap")
    wait_drawn(tab)
    tab.wait_for_timeout(800)
    tab.screenshot(path=PICTURES / "readme-samples.png")
