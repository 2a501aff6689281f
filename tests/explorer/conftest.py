"""A server of its own, and a browser that keeps a log, for the tests that need them."""

import shutil

import pytest
from explorer_words import Server

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
EXTRA = "the explorer needs pip install 'limitlab[explorer]'"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    pytest.importorskip("nicegui", reason=EXTRA)
    made = Server(tmp_path_factory.mktemp("explorer"))
    yield made
    assert list(made.written.glob("limitlab-explorer-*")), "what it writes goes into a folder of its own"
    made.close()
    assert not list(made.written.glob("limitlab-explorer-*")), "which is removed, also when it is told to end"
    assert "Traceback" not in made.log.read_text(), made.log.read_text()


@pytest.fixture(scope="module")  # its driver keeps an event loop in this thread, which other modules need
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="the browser tests need pip install 'limitlab[browser]'")
    if CHROMIUM is None:
        pytest.skip("the browser tests need chromium on the PATH")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def tab(server, chromium):
    """A page of the browser. What its console complains of, and what it asks of others, fails the test at its end."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light", accept_downloads=True)
    context.set_default_timeout(120_000)  # of a machine that does other work too
    page = context.new_page()
    complaints, elsewhere = [], []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.on("request", lambda r: None if r.url.startswith((server.url, "data:", "blob:")) else elsewhere.append(r.url))
    yield page
    context.close()
    assert complaints == [] and elsewhere == []
