"""A server of its own, and a browser that keeps a log, for the tests that need them."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
EXTRA = "the explorer needs pip install 'limitlab[explorer]'"


class Server:
    """``limitlab explore`` in a process of its own."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        settings = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "NICEGUI_"))}
        self.log = folder / "server.log"
        command = ["-m", "limitlab.cli", "explore", "--port", str(self.port), "--no-browser", "--no-warm"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command, "--workers", "2"], env=settings, stdout=log, stderr=log
            )
        end = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(self.url, timeout=20).close()
                break
            except (urllib.error.URLError, OSError):
                assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
                time.sleep(0.3)

    def status(self, path, **headers):
        """The code that a request gets."""
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"{self.url}{path}", headers=headers), timeout=20
            ) as got:
                return got.status
        except urllib.error.HTTPError as error:
            return error.code

    def close(self):
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    pytest.importorskip("nicegui", reason=EXTRA)
    made = Server(tmp_path_factory.mktemp("explorer"))
    yield made
    made.close()
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
