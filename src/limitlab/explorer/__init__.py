"""The explorer: a local web page on which theory and simulation meet. It computes nothing: it asks `limitlab.jobs`."""

import importlib.util

from limitlab.errors import InputError

__all__ = ["check_extra"]

PACKAGES = ("nicegui", "latex2mathml")


def check_extra() -> None:
    """Refuse in words if a package of the explorer is missing, before any of them is imported."""
    if any(importlib.util.find_spec(name) is None for name in PACKAGES):
        raise InputError("The explorer needs NiceGUI and latex2mathml: pip install 'limitlab[explorer]'.")
