"""A page as a PDF, by a browser of this machine if it has one."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["print_pdf"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
PATIENCE = 180.0  # seconds


def print_pdf(page: Path, pdf: Path) -> Path | None:
    """The page printed, or None: without a browser, or with one that does not manage it, the page is all there is."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return None
    with tempfile.TemporaryDirectory(prefix="limitlab-") as home:
        part = Path(home) / pdf.name
        command = [browser, "--headless", "--disable-gpu", f"--user-data-dir={home}/profile", "--no-pdf-header-footer"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # the browser refuses to start as root with one
        try:
            subprocess.run(
                [*command, f"--print-to-pdf={part}", page.resolve().as_uri()],
                capture_output=True,
                timeout=PATIENCE,
                check=True,
            )
            shutil.move(part, pdf)
        except (OSError, subprocess.SubprocessError):
            return None
    return pdf
