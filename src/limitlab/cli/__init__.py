"""The command ``limitlab``: every verb of the library from a terminal."""

from limitlab.cli.app import app, main
from limitlab.cli.commands import register

__all__ = ["app", "main"]

register(app)
