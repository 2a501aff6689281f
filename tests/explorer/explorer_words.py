"""The pages for tests, and where pictures go; no pages without the extra."""

import importlib.util
from pathlib import Path

PICTURES = Path(__file__).parents[2] / "limitlab-runs" / "explorer"  # ignored by git
PAGES = {}
if importlib.util.find_spec("nicegui") and importlib.util.find_spec("latex2mathml"):
    from limitlab.explorer.pages import pages

    PAGES = pages()
