"""The command ``limitlab``: every verb of the library from a terminal."""

from limitlab._lazy import loading

try:
    with loading():
        from limitlab.cli import commands, store_commands, sweep_commands, warm
        from limitlab.cli.app import app, main
except KeyboardInterrupt:  # before there is anybody who could say so
    raise SystemExit(130) from None

__all__ = ["app", "main"]

commands.register(app)
sweep_commands.register(app)
store_commands.register(app)
warm.register(app)
