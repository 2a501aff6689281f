"""What a user sees: messages and progress on stderr, tables on stdout."""

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr
__all__ = ["Bar", "complain", "say", "show", "show_table", "summary"]

PATIENCE = 2.0  # seconds before a bar appears, and between two lines where there is no terminal
SHOWN_TIMES = 6


def say(text: str) -> None:
    """A line on stdout, never wrapped or marked up."""
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(text, markup=False)


def show(thing: Any) -> None:
    """A table or another thing that knows how it looks, on stdout."""
    from rich.console import Console

    Console(highlight=False).print(thing)


def complain(text: str) -> None:
    """A message on stderr, red if that is a terminal."""
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False, style="bold red")


def show_table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """A plain table under its title (a line of its own: a narrow table would break it)."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        out.add_column(head)
    for row in rows:
        out.add_row(*map(Text, row))
    say(title)
    show(out)


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


class Bar:
    """Progress of one computation, called as ``bar(done, total, label)``.

    On a terminal a bar with the time left appears after two seconds; elsewhere nothing is said, unless
    ``wanted`` is True: then a line every two seconds. ``wanted=False`` is silence everywhere.
    """

    def __init__(self, label: str, wanted: bool | None = None):
        terminal = sys.stderr.isatty()
        self._mode = "none" if wanted is False else "bar" if terminal else "lines" if wanted else "none"
        self._label, self._done, self._total = label, 0, 0
        self._began = self._spoke = time.monotonic()
        self._lock, self._open, self._bar = threading.RLock(), True, None
        self._timer = threading.Timer(PATIENCE, self._appear)
        self._timer.daemon = True

    def __enter__(self) -> "Bar":
        if self._mode != "none":
            self._timer.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._timer.cancel()
        with self._lock:
            self._open = False
            if self._bar is not None:
                self._bar.stop()

    def __call__(self, done: int, total: int, label: str) -> None:
        with self._lock:
            self._done, self._total, self._label = done, total, label
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=label)
            elif self._mode == "lines" and time.monotonic() - self._spoke >= PATIENCE:
                self._line()

    def _appear(self) -> None:
        """Runs in the timer's thread: a long compilation, which reports nothing, is seen as well."""
        with self._lock:
            if not self._open:
                return
            if self._mode == "lines":
                self._line()
                return
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TaskProgressColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._bar.add_task(self._label, total=self._total or None, completed=self._done)

    def _line(self) -> None:
        self._spoke = time.monotonic()
        took, share = self._spoke - self._began, self._done / self._total if self._total else 0.0
        left = f"{100 * share:.0f} %, {took / share - took:.0f} s left" if share > 0 else f"{took:.0f} s"
        print(f"{self._label}: {left}", file=sys.stderr, flush=True)
