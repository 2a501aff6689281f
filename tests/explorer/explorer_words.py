"""The pages for tests, a server of their own, and where pictures go; no pages without the extra."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PICTURES = Path(__file__).parents[2] / "limitlab-runs" / "explorer"  # ignored by git
PAGES = {}
if importlib.util.find_spec("nicegui") and importlib.util.find_spec("latex2mathml"):
    from limitlab.explorer.pages import pages

    PAGES = pages()


class Server:
    """``limitlab explore`` in a process of its own."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        settings = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "NICEGUI_"))}
        self.written = folder / "written"
        self.written.mkdir()
        settings["TMPDIR"] = str(self.written)
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
