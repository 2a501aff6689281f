"""The program: its name, its exit codes, options that commands share, and what it says when something goes wrong.

0 means done, 1 that a claim failed or a comparison disagrees, 2 bad input (or a disk or a cluster that is of no use), 3
that a sweep is done but points of it diverged or failed, 130 interrupted (Ctrl-C).
"""

import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from limitlab.cli.screen import complain
from limitlab.errors import LimitlabError

__all__ = [
    "BAD_INPUT",
    "CLAIM_FAILED",
    "INTERRUPTED",
    "POINTS_FAILED",
    "Force",
    "LimitName",
    "Out",
    "Settings",
    "Spec",
    "Times",
    "Wanted",
    "app",
    "main",
]

CLAIM_FAILED, BAD_INPUT, POINTS_FAILED, INTERRUPTED = 1, 2, 3, 130
COLLECT = (100_000, 20, 20)  # new objects before garbage is looked for: imports make many that stay

# --- arguments and options that several commands share

Spec = Annotated[str, typer.Argument(metavar="SPEC", help="A TOML or JSON file, or the name of a library problem.")]
Times = Annotated[
    str | None,
    typer.Option(
        help="start:stop:count, start:stop:count:log, or a list with commas; 0:10:51 if left out. Only for rules and "
        "limits with a clock.",
        metavar="TIMES",
    ),
]
Out = Annotated[Path | None, typer.Option(help="File to write; a name with the problem's hash if left out.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Wanted = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="Progress on stderr; default: only on a terminal."),
]
LimitName = Annotated[
    str | None,
    typer.Option(
        help="Name of a limit; see limitlab limits SPEC. If left out: the one that describes the problem's own rule."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A field of the limit, such as d=1000.", metavar="FIELD=VALUE"),
]


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    """A warning in one line, without the place in the code that gave it."""
    complain(f"warning: {message}")


class Laboratory(TyperGroup):
    """Turns errors that limitlab raises on purpose into one clear message and an exit code, no traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except LimitlabError as error:
            complain("\n".join((f"error: {error}", *error.__notes__)))
            raise typer.Exit(BAD_INPUT) from error
        except KeyboardInterrupt as error:
            complain("interrupted; nothing was written")
            raise typer.Exit(INTERRUPTED) from error


app = typer.Typer(
    cls=Laboratory,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a bug shows Python's own traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from limitlab import __version__

        typer.echo(f"limitlab {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A laboratory for learning in high dimension: simulate, predict in a limit, compare.

    SPEC is a problem: a TOML or JSON file, or the name of a library problem.

    [bold]A first session[/bold]

    \b
      limitlab list                                        what there is
      limitlab run staircase                               a figure with a checked claim
      limitlab spec soft-committee > my.toml               a problem to edit
      limitlab simulate my.toml --d 500 --out sim.nc       at finite size
      limitlab predict my.toml --out ode.nc                in the limit
      limitlab compare sim.nc ode.nc --plot both.png       how far apart
      limitlab curve my.csv --target price                 a learning curve of your own data
      limitlab sweep my.toml --over d=100,200 --out runs   at many parameters, resumable

    [bold]Exit codes[/bold]: 0 done, 1 a claim failed or a comparison disagrees, 2 bad input, 3 points of a sweep
    diverged or failed (or files of a store were damaged), 130 interrupted.
    """


def main() -> None:
    """Entry point of the ``limitlab`` script."""
    gc.set_threshold(*COLLECT)
    try:
        app(prog_name="limitlab")
    except SystemExit as done:
        if done.code == INTERRUPTED:  # a compiler that was interrupted can crash when Python takes itself apart
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise
