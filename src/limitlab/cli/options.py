"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Force", "LimitName", "Out", "Settings", "Spec", "Times", "Wanted"]

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
