"""limitlab status, and limitlab store ls | verify | gc | pack | migrate | export: the folders of sweeps."""

import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from limitlab.cli.app import POINTS_FAILED, Force, Wanted
from limitlab.cli.interrupts import stoppable
from limitlab.cli.screen import Bar, complain, duration, memory, say, show, show_table, table
from limitlab.text import one_line

if TYPE_CHECKING:
    from limitlab.sweep.storage.store import Store

__all__ = ["register"]

EVERY = 2.0  # seconds between two looks
SHOWN_RUNS = 10
SHOWN_FAULTS = 20

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that limitlab sweep made.")]


def register(app: typer.Typer) -> None:
    store = typer.Typer(
        no_args_is_help=True, help="Look after a folder of sweeps: ls, verify, gc, pack, migrate, export."
    )
    for command in (ls, verify, gc, pack, migrate, export):
        store.command(command.__name__)(command)
    app.command("status")(status)
    app.add_typer(store, name="store")


def status(
    folder: Folder,
    watch: Annotated[bool, typer.Option("--watch", help="Look every two seconds until nothing runs.")] = False,
) -> None:
    """How far the sweeps into a folder are; from any terminal, while they run.

    A run is running (so many points at a time), finished, interrupted (Ctrl-C), stopped (by an error), or gone: it says
    that it is running, but nobody is there. The command that began it goes on where it was.

    \b
      limitlab status runs
      limitlab status runs --watch
    """
    store = _open(folder)
    if not watch:
        show(_overview(store)[0])
        return
    if not sys.stdout.isatty():
        while _shown(store):
            time.sleep(EVERY)
        return
    from rich.live import Live

    with Live(_overview(store)[0], auto_refresh=False) as live:
        while True:
            view, running = _overview(store)
            live.update(view, refresh=True)
            if not running:
                return
            time.sleep(EVERY)


def ls(
    folder: Folder,
    points: Annotated[bool, typer.Option("--points", help="List every point.")] = False,
    progress: Wanted = None,
) -> None:
    """The sweeps in a folder, over what, and how many of their points are there.

    \b
      limitlab store ls runs
      limitlab store ls runs --points | sort -k 3
    """
    from limitlab.errors import LimitlabError
    from limitlab.sweep.storage.standing import standing

    store = _open(folder)
    if points:
        _list_points(store)
        return
    rows = []
    for name, about in store.sweeps().items():
        axes = about.get("axes")
        axes = axes if isinstance(axes, dict) else {}
        over = " x ".join(f"{axis} ({len(values)})" for axis, values in axes.items() if isinstance(values, list))
        try:
            with Bar(f"reading {name}", progress, counted=True) as bar:
                total, present, failed = standing(store, name, bar)
            counts = [f"{present} of {total}", str(failed)]
        except LimitlabError as error:
            complain(f"error: {error}")
            counts = ["damaged", "-"]
        rows.append([*map(one_line, [name, str(about.get("name", "?")), over]), *counts])
    say(f"sweeps in {folder}")
    show(table(["sweep", "verb", "over", "points", "failed"], rows, narrow=True))


def verify(folder: Folder, progress: Wanted = None) -> None:
    """Read every point and check it bit by bit. Damaged ones are put aside, and the sweep computes them again.

    Exit code 3 if there were any.

    \b
      limitlab store verify runs
    """
    store = _open(folder)
    with stoppable(), Bar("verify", progress, counted=True) as bar:
        good, bad = store.verify(bar)
    say(f"{good} points are good")
    if not bad:
        return
    _complain_of(bad, store)
    raise typer.Exit(POINTS_FAILED)


def _complain_of(bad: list, store: "Store") -> None:
    complain(f"{len(bad)} points or files were not what they should be; they are in {store.path / 'quarantine'}:")
    for fault in bad[:SHOWN_FAULTS]:
        complain(f"  {one_line(fault.reason)}")
    if len(bad) > SHOWN_FAULTS:
        complain(f"  and {len(bad) - SHOWN_FAULTS} more")
    say("the sweeps that they belong to compute them again when they are run the next time")


def pack(folder: Folder, progress: Wanted = None) -> None:
    """Join the files of a store into few, and free what points take that count no more.

    Every process that ever wrote at the same time as others left a file. Files that a running sweep writes are left
    alone. Killed at any moment this loses nothing.

    \b
      limitlab store pack runs
    """
    from limitlab.sweep.storage.pack import pack

    store = _open(folder)
    with stoppable(), Bar("pack", progress, counted=True) as bar:
        before, after, freed = pack(store, progress=bar)
    say(f"{before} segments became {after}; {memory(freed)} were freed")


def migrate(folder: Folder, progress: Wanted = None) -> None:
    """Bring a store of an older limitlab, with a file for each point, to the present format.

    No point is computed again and none is lost, also if this is stopped: the same command goes on. A file that is not
    a whole point is put aside, as verify does; exit code 3 if there were any.

    \b
      limitlab store migrate runs
    """
    from limitlab.sweep.storage.migrate import migrate

    with stoppable(), Bar("migrate", progress, counted=True) as bar:
        points, bad = migrate(folder, bar)
    say(f"{points} points were brought over")
    if bad:
        _complain_of(bad, _open(folder))
        raise typer.Exit(POINTS_FAILED)


def gc(
    folder: Folder,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    quarantine: Annotated[bool, typer.Option("--quarantine", help="Damaged files that were put aside, too.")] = False,
) -> None:
    """Throw away what nobody needs.

    Half-written files of processes that died, records of runs that ended, points that belong to no sweep in the folder,
    and sweeps that another version of the numerics made. Points are left alone while a sweep runs.

    \b
      limitlab store gc runs --dry-run
      limitlab store gc runs --quarantine
    """
    from limitlab.sweep.storage.care import gc

    litter, note = gc(_open(folder), dry_run, quarantine)
    if litter:
        rows = [[one.what, str(one.count), memory(one.size)] for one in litter]
        show_table("would be removed" if dry_run else "removed", ["what", "number", "size"], rows)
    say(f"{memory(sum(one.size for one in litter))} {'would be' if dry_run else 'were'} freed")
    if note:
        complain(one_line(note))


def export(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="File to write: .csv, .parquet or .nc.", metavar="FILE")],
    sweep: Annotated[
        str | None, typer.Option(help="Name of a sweep (or its beginning); the latest if left out.")
    ] = None,
    variable: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    force: Force = False,
    progress: Wanted = None,
) -> None:
    """Write a sweep to one file: a table (.csv, .parquet), or netCDF with a dimension for each parameter (.nc).

    A table has a row for each time and replica of each point: its parameters, status, reason, and all variables that
    are one number there. Others, such as M, are asked for with --variable: their units get columns of their own.
    Points that are not computed yet are there with that reason.

    \b
      limitlab store export runs --out runs.csv
      limitlab store export runs --out risk.parquet --variable risk
      limitlab store export runs --out runs.nc --sweep 3fa4
    """
    from limitlab.cli.arguments import place_of
    from limitlab.errors import DamagedFileWarning, InputError
    from limitlab.sweep.storage.export import FORMATS, choose, export

    store = _open(folder)
    if out.suffix not in FORMATS:
        raise InputError(f"--out must end with {', '.join(FORMATS)}; got {out.name!r}.")
    path = place_of(out, f"sweep{FORMATS[0]}", force)
    name = choose(store, sweep)
    if sweep is None and (others := len(store.sweeps())) > 1:
        say(f"sweep: {name}, the latest of {others} (choose another with --sweep; see limitlab store ls)")
    with (
        warnings.catch_warnings(record=True) as caught,
        stoppable(),
        Bar(f"export {name}", progress, counted=True) as bar,
    ):
        warnings.simplefilter("always")
        export(store, path, name, variable, bar)
    say(f"saved to {path} ({memory(path.stat().st_size)})")
    missing = sum(not store.has(key) for key in store.keys_of(name))
    if missing:
        complain(f"note: {missing} points are not computed yet; they are in the file as failed, with that reason")
    damaged = dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, DamagedFileWarning))
    for one in caught:
        if not issubclass(one.category, DamagedFileWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if damaged:
        complain(f"WARNING: {len(damaged)} files are not what they should be; their points are in the file as failed:")
        for reason in list(damaged)[:SHOWN_FAULTS]:
            complain(f"  {one_line(reason)}")
        raise typer.Exit(POINTS_FAILED)


def _open(folder: Path) -> "Store":
    from limitlab.sweep.storage.store import Store

    return Store(folder, create=False)


def _shown(store: "Store") -> bool:
    view, running = _overview(store)
    show(view)
    return running


def _overview(store: "Store") -> tuple[Any, bool]:
    """What `status` shows, and whether anything runs."""
    from rich.console import Group
    from rich.text import Text

    from limitlab.sweep.storage.standing import look

    runs = list(look(store).items())
    rows = [_row(state, record) for _, (state, record) in runs]
    running = any(state == "running" for _, (state, _) in runs)
    first = max(0, len(runs) - SHOWN_RUNS)
    shown = [i for i, (_, (state, _)) in enumerate(runs) if i >= first or state == "running"]
    heads = ["state", "verb", "points", "failed", "rate", "left", "started", "seen"]
    notes = [f"{record['note']}" for _, (_, record) in (runs[i] for i in shown) if record.get("note")]
    points, size = store.size()
    faults = store.put_aside()
    lines = [f"{points} points, {memory(size)}" + (f", {faults} things in quarantine" if faults else "")]
    if len(shown) < len(runs):
        lines.insert(0, f"... {len(runs) - len(shown)} earlier runs (limitlab store gc forgets them)")
    parts = [table(heads, [rows[i] for i in shown], narrow=True)] if runs else [Text("no runs")]
    return Group(*parts, *(Text(one_line(line)) for line in [*notes, *lines])), running


def _row(state: str, record: dict[str, Any]) -> list[str]:
    """A run in one line."""
    number = {name: _number(record.get(name)) for name in ("total", "found", "done", "began", "updated")}
    there = number["found"] + number["done"]
    rate = number["done"] / max(number["updated"] - number["began"], 1e-9)
    left = (number["total"] - there) / rate if state == "running" and rate > 0 else np.inf
    return [
        one_line(f"running ({record.get('running', 0)})" if state == "running" else state),
        one_line(str(record.get("verb", "?"))),
        f"{there:.0f} of {number['total']:.0f}",
        one_line(str(record.get("failed", 0))),
        f"{rate:.3g}/s",
        duration(left),
        time.strftime("%H:%M" if time.time() - number["began"] < 86400 else "%m-%d", time.localtime(number["began"])),
        f"{_short(time.time() - number['updated'])} ago",
    ]


def _number(value: Any) -> float:
    """A number of a record, which may be a stranger's."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e12 else 0.0


def _short(seconds: float) -> str:
    """A time in its largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _list_points(store: "Store") -> None:
    """A line for each point, as they are read: there may be a million."""
    from limitlab.results.points import Point

    typer.echo(f"{'key':<32}  {'verb':<10}  {'status':<13}  {'seconds':>8}  {'size':>10}  parameters")
    for key in store.keys():
        point = store.peek(key)
        if point is None:
            continue  # taken away meanwhile
        about: Any = point.attrs.get("provenance", {}) if isinstance(point, Point) else {}
        verb, word, here = "?", "damaged", ""
        if isinstance(point, Point):
            verb, word = str(point.attrs.get("verb", "?")), _worst(point)
            here = ", ".join(f"{name}={value}" for name, value in _table(about).items())
        seconds, size = about.get("seconds"), store.length(key)
        told = f"{seconds:8.3f}" if isinstance(seconds, (int, float)) else f"{'-':>8}"
        typer.echo(one_line(f"{key:<32}  {verb:<10}  {word:<13}  {told}  {size:>10}  {here}"))


def _table(about: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a point, if its provenance is one."""
    place = about.get("point")
    table = place.get("table") if isinstance(place, dict) else None
    return table if isinstance(table, dict) else {}


def _worst(point: Any) -> str:
    words = np.ravel(point.status[1]).tolist()
    return next((word for word in words if word != "ok"), "ok")
