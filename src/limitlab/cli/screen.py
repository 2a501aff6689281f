"""What a user sees: messages and progress on stderr, tables on stdout."""

from typing import TYPE_CHECKING, Any

import numpy as np

from limitlab.bar import Bar, duration, live
from limitlab.text import printable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Bar", "complain", "duration", "memory", "say", "show", "show_table", "summary", "table"]

SHOWN_TIMES = 6
MAX_SAID = 100_000  # characters of a message
MAX_CELL = 1000  # of a cell of a table


def say(text: str) -> None:
    """A line on stdout, never wrapped or marked up; what could steer a terminal is escaped."""
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(printable(text, MAX_SAID), markup=False)


def show(thing: Any) -> None:
    """A table or another thing that knows how it looks, on stdout."""
    from rich.console import Console

    Console(highlight=False).print(thing)


def complain(text: str) -> None:
    """A message on stderr, red if that is a terminal."""
    from rich.console import Console

    console = live[-1] if live else Console(stderr=True)
    console.print(printable(text, MAX_SAID), markup=False, highlight=False, soft_wrap=True, style="bold red")


def memory(size: float) -> str:
    """Bytes as 1.2 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def show_table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """A plain table under its title (a line of its own: a narrow table would break it)."""
    say(title)
    show(table(heads, rows))


def table(heads: list[str], rows: list[list[str]], narrow: bool = False) -> Any:
    """A plain table; a narrow one has less space between its columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=not narrow, padding=(0, 0, 0, 1) if narrow else (0, 1))
    for head in heads:
        out.add_column(head)
    for row in rows:
        out.add_row(*(Text(printable(cell, MAX_CELL)) for cell in row))
    return out


def _mean(values: "xr.DataArray") -> list[str]:
    """The mean over the replicas still finite and its standard error, as texts; one value is said as it is."""
    from limitlab.figures import average

    runs = np.atleast_1d(values.values)[:, None]
    if len(runs) == 1:  # maybe infinite, which is an answer
        return [f"{runs.item():.6g}", "-"]
    mean, error = average(runs)
    scatter = "-" if error is None or not np.isfinite(error[0]) else f"{error[0]:.2g}"
    return [f"{mean[0]:.6g}", scatter]


def summary(ds: "xr.Dataset") -> None:
    """A result in a few lines: its risk or errors at a few times with standard errors, and how it ended."""
    from limitlab.figures import describe, title

    axis = next((dim for dim in ("time", "iteration") if dim in ds.dims), "")
    if axis:
        name = next((n for n in ("risk", "mse") if n in ds and axis in ds[n].dims), None)
        heads, rows = [axis, name or "", "standard error"], []
        points = ds[axis].values if name else np.array([])
        for i in np.unique(np.linspace(0, len(points) - 1, min(SHOWN_TIMES, len(points))).round().astype(int)):
            rows.append([f"{points[i]:.4g}", *_mean(ds[name].isel({axis: i}))])
    else:
        heads, rows = ["variable", "value", "standard error"], []
    for other in (
        "m",
        "mse",
        "generalisation_error",
        "label_mse",
        "train_loss",
        "risk",
        "free_entropy",
        "m_fixed",
        "mse_fixed",
    ):
        if other in ds and set(ds[other].dims) <= {"replica"}:
            rows.append([other, *_mean(ds[other])])
    show_table(f"{title([ds])}\n{describe(ds)}", heads, rows)
    status = np.atleast_1d(ds["status"].values) if "status" in ds else np.array(["ok"])
    bad = [f"{np.sum(status == word)} of {status.size} {word}" for word in np.unique(status[status != "ok"])]
    if bad:
        when = np.min(np.atleast_1d(ds["end_time"].values)[status != "ok"]) if "end_time" in ds else np.nan
        complain(f"WARNING: {', '.join(bad)}, the first at time {when:.4g}; numbers after that are NaN")
    else:
        say("status: ok")
